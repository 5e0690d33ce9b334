#include "cli/fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/entry.h"
#include "cli/sandboxes.h"
#include "cli/units.h"
#include "lib/base/alloc.h"
#include "lib/base/buf.h"
#include "lib/base/encode.h"

enum {
    IDS_A_CALL = 100,
    IDS_BYTES = IDS_A_CALL * (ID_SANDBOX_LEN + 1) + 64,
    METADATA_BYTES = 256,
    CURSOR_BYTES = 512
};

void fleet_fini(struct fleet *fleet)
{
    free(fleet->rows);
    json_decref(fleet->list);
    json_decref(fleet->figures);
    *fleet = (struct fleet){0};
}

/* ---- filters ---- */

/* The value is an encoded query string, whose keys and values were encoded before they were joined;
 * as a part of the address it is encoded once more. */
static int metadata_add(const struct cli *cli, struct buf *query)
{
    scoped_buf(pairs, SANDBOX_QUERY_BYTES);
    scoped_buf(whole, SANDBOX_QUERY_BYTES);
    int r = 0;

    for (int i = 0; r == 0 && i < cli->options_n; i++) {
        const char *pair = cli->options[i].value;
        if (strcmp(cli->options[i].name, "--metadata") != 0) {
            continue;
        }
        size_t equals = strcspn(pair, "=");
        r = buf_len(&pairs) > 0 ? buf_append(&pairs, "&", 1) : 0;
        r = r < 0 ? r : percent_encode(&pairs, (struct str){pair, equals});
        r = r < 0 ? r : buf_append(&pairs, "=", 1);
        r = r < 0 ? r : percent_encode(&pairs, str_of(pair + equals + (pair[equals] != '\0')));
    }
    if (r == 0 && buf_len(&pairs) > 0) {
        r = buf_printf(query, "&metadata=");
        r = r < 0 ? r : percent_encode(&whole, buf_str(&pairs));
        r = r < 0 ? r : percent_encode(query, buf_str(&whole));
    }
    return r;
}

static int query_make(const struct cli *cli, struct buf *query, struct err *err)
{
    const char *template = cli_option(cli, "--template");
    int r = 0;

    if (template) {
        r = buf_printf(query, "&template=");
        r = r < 0 ? r : percent_encode(query, str_of(template));
    }
    r = r < 0 ? r : metadata_add(cli, query);
    r = r < 0 ? r : buf_append(query, "", 1);
    return r < 0 ? err_set(err, EINVAL, "the filters are too long") : 0;
}

/* ---- reading ---- */

static int figures_page(const struct endpoint *endpoint, const json_t *list, size_t *at,
                        json_t *figures, struct err *err)
{
    scoped_json *answer = NULL;
    char path[IDS_BYTES] = "/sandboxes/metrics?sandbox_ids=";
    size_t used = strlen(path), n = 0;

    for (; *at < json_array_size(list) && n < IDS_A_CALL; ++*at) {
        const json_t *row = json_array_get(list, *at);
        const char *id = json_text_of(row, "sandboxID");
        if (strcmp(json_text_of(row, "state"), "running") == 0 && entry_id_ok(id)) {
            used += (size_t)snprintf(path + used, sizeof(path) - used, "%s%s", n ? "," : "", id);
            n++;
        }
    }
    int r = n ? endpoint_call_verbatim(endpoint, "GET", path, NULL, &answer, err) : 0;
    if (answer) {
        (void)json_object_update(figures, json_object_get(answer, "sandboxes"));
    }
    return r;
}

/* A list with figures, a thousand to a page. */
static int rows_read(const struct endpoint *endpoint, const char *states, const char *query,
                     json_t *list, struct err *err)
{
    char cursor[CURSOR_BYTES] = "", path[SANDBOX_QUERY_BYTES + CURSOR_BYTES + 128];
    int r = 0;

    do {
        scoped_json *page = NULL;
        (void)snprintf(path, sizeof(path), "/dashboard/sandboxes?state=%s%s%s%s", states, query,
                       cursor[0] ? "&cursor=" : "", cursor);
        r = endpoint_call_verbatim(endpoint, "GET", path, NULL, &page, err);
        cursor[0] = '\0';
        if (r == 0) {
            (void)json_array_extend(list, json_object_get(page, "sandboxes"));
            endpoint_escape(json_text_of(page, "nextCursor"), cursor, sizeof(cursor));
        }
    } while (r == 0 && cursor[0]);
    return r;
}

static int metrics_read(const struct endpoint *endpoint, const struct fleet *fleet, struct err *err)
{
    size_t at = 0;
    int r = 0;

    while (r == 0 && at < json_array_size(fleet->list)) {
        r = figures_page(endpoint, fleet->list, &at, fleet->figures, err);
    }
    return r;
}

/* Rows of the dashboard have their figures beside the rest. */
static void rows_make(struct fleet *fleet)
{
    fleet->n = json_array_size(fleet->list);
    fleet->rows = xcalloc(fleet->n + 1, sizeof(*fleet->rows));
    for (size_t i = 0; i < fleet->n; i++) {
        const json_t *sandbox = json_array_get(fleet->list, i);
        const json_t *figures = json_object_get(fleet->figures, json_text_of(sandbox, "sandboxID"));
        fleet->rows[i].sandbox = sandbox;
        fleet->rows[i].figures = json_object_get(sandbox, "figuresAt") ? sandbox : figures;
    }
}

static int fleet_fill(const struct endpoint *endpoint, const char *states, const char *query,
                      enum fleet_figures figures, struct fleet *fleet, struct err *err)
{
    if (figures == FLEET_LATEST) {
        fleet->list = json_array();
        int r = rows_read(endpoint, states, query, fleet->list, err);
        if (r != -CALL_NOT_FOUND) {
            return r;
        }
        json_decref(fleet->list); /* an older daemon has no such route */
        fleet->list = NULL;
    }
    int r = sandboxes_read(endpoint, states, query, &fleet->list, err);
    return r == 0 && figures != FLEET_PLAIN ? metrics_read(endpoint, fleet, err) : r;
}

int fleet_read(const struct cli *cli, const struct endpoint *endpoint, enum fleet_figures figures,
               struct fleet *fleet, struct err *err)
{
    scoped_buf(query, SANDBOX_QUERY_BYTES);
    const char *state = cli_option(cli, "--state");

    int r = query_make(cli, &query, err);
    state = state ? state : cli_has(cli, "--all") ? SANDBOX_STATES : "running";
    if (r < 0) {
        return r;
    }
    *fleet = (struct fleet){.figures = json_object()};
    r = fleet_fill(endpoint, state, buf_at(&query), figures, fleet, err);
    if (r == 0) {
        rows_make(fleet);
    } else {
        fleet_fini(fleet);
    }
    return r;
}

/* ---- order ---- */

double fleet_figure(const struct fleet_row *row, const char *name)
{
    return json_number_value(json_object_get(row->figures, name));
}

static int by(const void *a, const void *b, void *name)
{
    double left = fleet_figure(a, name), right = fleet_figure(b, name);

    return (left < right) - (left > right);
}

/* A resume begins a new execution, and does not make a sandbox younger. Lists of /v2/sandboxes have
 * the beginning of the execution alone. */
static const char *created_at(const json_t *sandbox)
{
    const char *created = json_string_of(sandbox, "createdAt");

    return created ? created : json_text_of(sandbox, "startedAt");
}

static int by_age(const void *a, const void *b)
{
    const struct fleet_row *left = a, *right = b;

    return strcmp(created_at(right->sandbox), created_at(left->sandbox));
}

void fleet_sort(struct fleet *fleet, enum fleet_order order)
{
    static char names[][16] = {
        [FLEET_BY_CPU] = "cpuUsedPct", [FLEET_BY_MEMORY] = "memUsed", [FLEET_BY_DISK] = "diskUsed"};

    qsort(fleet->rows, fleet->n, sizeof(*fleet->rows), by_age);
    if (order != FLEET_BY_AGE) {
        qsort_r(fleet->rows, fleet->n, sizeof(*fleet->rows), by, names[order]);
    }
}

/* ---- cells ---- */

void fleet_add_cpu(struct grid *grid, const struct fleet_row *row)
{
    if (row->figures) {
        grid_addf(grid, "%.1f%%", fleet_figure(row, "cpuUsedPct"));
    } else {
        grid_add(grid, NULL);
    }
}

void fleet_add_size(struct grid *grid, const struct fleet_row *row, const char *name)
{
    char text[UNITS_BYTES];

    grid_add(grid, row->figures ? units_size(fleet_figure(row, name), text) : NULL);
}

void fleet_add_state(struct grid *grid, const struct fleet_row *row)
{
    const char *changing = json_string_of(row->sandbox, "changing");
    const char *state = changing ? changing : json_text_of(row->sandbox, "state");

    grid_add(grid, state);
    grid_paint(grid, strcmp(state, "running") == 0 ? PAINT_GREEN : PAINT_YELLOW);
}

/* Seconds between a stamp and now. */
static bool since(const char *stamp, int64_t *seconds)
{
    int64_t then;
    bool known = units_time(stamp, &then);

    *seconds = known ? (int64_t)time(NULL) - then : 0;
    return known;
}

void fleet_add_age(struct grid *grid, const struct fleet_row *row)
{
    char text[UNITS_BYTES];
    int64_t seconds;

    grid_add(grid, since(created_at(row->sandbox), &seconds) ? units_age(seconds, text) : NULL);
}

/* A paused sandbox has no end. */
void fleet_add_left(struct grid *grid, const struct fleet_row *row)
{
    char text[UNITS_BYTES];
    int64_t seconds;
    bool runs = strcmp(json_text_of(row->sandbox, "state"), "running") == 0;
    bool ends = runs && since(json_string_of(row->sandbox, "endAt"), &seconds);

    grid_add(grid, ends ? units_age(-seconds, text) : NULL);
}

void fleet_add_metadata(struct grid *grid, const struct fleet_row *row)
{
    json_t *metadata = json_object_get(row->sandbox, "metadata"), *value;
    char text[METADATA_BYTES] = "";
    const char *name;
    size_t used = 0;

    json_object_foreach (metadata, name, value) {
        if (used < sizeof(text)) {
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s=%s", used ? "," : "",
                                     name, json_is_string(value) ? json_string_value(value) : "");
        }
    }
    grid_add(grid, text);
}
