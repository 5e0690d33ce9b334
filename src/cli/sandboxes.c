#include "cli/sandboxes.h"

#include <stdio.h>
#include <string.h>

#include "cli/entry.h"

enum { PATH_BYTES = 1024, SHOWN_MAX = 3, SHOWN_BYTES = 128 };

static void row_keep(void *ctx, const json_t *row)
{
    (void)json_array_append(ctx, json_unconst(row));
}

int sandboxes_read(const struct endpoint *endpoint, const char *states, const char *query,
                   json_t **list, struct err *err)
{
    char path[PATH_BYTES];
    scoped_json *rows = json_array();
    int n = snprintf(path, sizeof(path), "/v2/sandboxes?limit=100&state=%s%s", states, query);

    if (n >= (int)sizeof(path)) {
        return err_set(err, EINVAL, "the filters are too long");
    }
    int r = endpoint_each(endpoint, path, row_keep, rows, err);
    if (r == 0) {
        *list = json_incref(rows);
    }
    return r;
}

static int several(const char *word, size_t n, const char *shown, struct err *err)
{
    return err_set(err, EINVAL, "%zu sandboxes begin with '%s': %s%s", n, word, shown,
                   n > SHOWN_MAX ? ", ..." : "");
}

int sandbox_find(const struct endpoint *endpoint, const char *word, char id[ID_SANDBOX_LEN + 1],
                 struct err *err)
{
    scoped_json *list = NULL;
    char shown[SHOWN_BYTES] = "", found[ID_SANDBOX_LEN + 1] = "";
    size_t i, n = 0, used = 0;
    const json_t *row;

    if (!entry_id_ok(word)) {
        return err_set(err, EINVAL, "'%.32s' is not the id of a sandbox", word);
    }
    if (strlen(word) == ID_SANDBOX_LEN) {
        (void)snprintf(id, ID_SANDBOX_LEN + 1, "%s", word);
        return 0;
    }
    int r = sandboxes_read(endpoint, SANDBOX_STATES, "", &list, err);
    json_array_foreach (list, i, row) {
        const char *other = json_text_of(row, "sandboxID");
        if (strncmp(other, word, strlen(word)) == 0 && entry_id_ok(other)) {
            (void)snprintf(found, sizeof(found), "%s", other);
            if (n++ < SHOWN_MAX) {
                used += (size_t)snprintf(shown + used, sizeof(shown) - used, "%s%s",
                                         used ? ", " : "", other);
            }
        }
    }
    if (r < 0 || n > 1) {
        return r < 0 ? r : several(word, n, shown, err);
    }
    if (n == 0) {
        return err_set(err, CALL_NOT_FOUND, "no sandbox begins with '%s'", word);
    }
    (void)memcpy(id, found, sizeof(found));
    return 0;
}
