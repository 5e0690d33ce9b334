/* GET /events/sandboxes and /events/sandboxes/{id}: what happened, newest first. A sandbox that has
 * ended still has its events, so its id is looked up nowhere: those of the team are shown. */
#include <errno.h>
#include <stdlib.h>

#include "lib/base/clock.h"
#include "serve/api/event_types.h"
#include "serve/api/internal.h"
#include "serve/api/page_query.h"
#include "serve/api/query.h"

/* ---- pages by offset ---- */

int page_query_parse(struct str query, struct page_query *out, struct err *err)
{
    *out = (struct page_query){.limit = PAGE_LIMIT_DEFAULT};
    int r = query_int(query, "offset", (struct int_range){0, PAGE_OFFSET_MAX}, &out->offset, err);

    if (r >= 0) {
        r = query_int(query, "limit", (struct int_range){1, PAGE_LIMIT_MAX}, &out->limit, err);
    }
    r = r < 0 ? r : query_bool(query, "orderAsc", &out->ascending, err);
    return r < 0 ? r : 0;
}

/* ---- types ---- */

static int types_parse_one(struct str value, struct buf *types, struct err *err)
{
    scoped_buf(plain, QUERY_VALUE_BYTES_MAX);
    struct str rest, type;

    if (percent_decode(&plain, value, true) < 0 || buf_len(&plain) == 0) {
        return field_refuse(err, "types", event_types_known);
    }
    rest = buf_str(&plain);
    while (str_split(&rest, ',', &type)) {
        if (event_types_add(types, type) < 0) {
            return field_refuse(err, "types", event_types_known);
        }
    }
    return 0;
}

/* The parameter may come many times, and each may hold many. */
int events_types_parse(struct str query, struct buf *types, struct err *err)
{
    struct str pair;

    while (str_split(&query, '&', &pair)) {
        size_t equals = str_find(pair, '=');
        struct str name = {pair.at, equals};

        if (str_eq(name, STR("types")) || str_eq(name, STR("types[]")) ||
            str_eq(name, STR("types%5B%5D"))) {
            int r = types_parse_one(str_skip(pair, equals + 1), types, err);
            if (r < 0) {
                return r;
            }
        }
    }
    if (buf_append(types, "", 1) < 0) {
        abort(); /* each type once, and a NUL: it fits */
    }
    return 0;
}

/* ---- answers ---- */

void call_array(void *ctx, int error, const struct err *err, const char *text)
{
    if (error < 0) {
        call_fail_err(ctx, error, err);
    } else {
        call_text(ctx, 200, "application/json; charset=utf-8", str_of(text));
    }
}

static void events_list(struct call *call, const char *sandbox_id)
{
    struct str query = http_request(call->ex)->query;
    struct page_query page;
    scoped_buf(types, EVENT_TYPES_BYTES_MAX);
    struct err err;

    int r = page_query_parse(query, &page, &err);
    if (r == 0) {
        r = events_types_parse(query, &types, &err);
    }
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    struct event_query wanted = {
        .team_id = call->team->id,
        .sandbox_id = sandbox_id,
        .types = buf_at(&types)[0] ? buf_at(&types) : NULL,
        .since_ms = clock_wall_ms() - STORE_EVENTS_KEPT_MS,
        .offset = page.offset,
        .limit = page.limit,
        .ascending = page.ascending,
    };
    store_events_list(call->api->options.store, &wanted, call_array, call);
}

void handle_events(struct call *call, const json_t *body)
{
    (void)body;
    events_list(call, NULL);
}

void handle_events_of(struct call *call, const json_t *body)
{
    (void)body;
    call->param[strcspn(call->param, "-")] = '\0'; /* the older "<id>-<client id>" */
    events_list(call, call->param);
}
