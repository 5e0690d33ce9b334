/* Code artifacts as files of a sandbox, and what they import to call API shells. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/json.h"
#include "tools/artifacts.h"
#include "tools/helpers/helpers.h"
#include "tools/internal.h"

enum {
    PLACED_MAX = 200,
    PLACED_BYTES_MAX = 8 * 1024 * 1024,
};

/* ---- artifacts ---- */

/* Beside "tools/calc.py" is everything below tools/; beside "calc.py" are files without a
 * folder. */
static bool is_beside(const char *path, const char *other)
{
    size_t folder = strcspn(path, "/");

    if (strcmp(path, other) == 0) {
        return false;
    }
    return path[folder] ? strncmp(path, other, folder + 1) == 0 : !strchr(other, '/');
}

static int place_one(struct tool_call *call, const struct remote_sandbox *sandbox, const char *path,
                     struct err *err)
{
    scoped_json *row = NULL;
    scoped_text at = NULL;
    int r = artifact_find(call, path, &row, err);

    if (r < 0) {
        return r == -ENOENT ? 0 : r; /* it was deleted meanwhile */
    }
    if (asprintf(&at, ARTIFACT_FOLDER "/%s", path) < 0) {
        return err_set(err, ENOMEM, "no memory");
    }
    const json_t *content = json_object_get(row, "content");
    return remote_write(call, sandbox, at,
                        (struct str){json_string_value(content), json_string_length(content)}, err);
}

int artifacts_place(struct tool_call *call, const struct remote_sandbox *sandbox,
                    const char *beside, size_t *left, struct err *err)
{
    scoped_json *rows = NULL;
    size_t placed = 0, bytes = 0;
    int r = artifacts_list(call, &rows, err);

    *left = 0;
    for (size_t i = 0; r == 0 && i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *path = json_string_of(row, "path");
        size_t size = (size_t)json_integer_value(json_object_get(row, "size"));

        if (beside && !is_beside(beside, path)) {
            continue;
        }
        if (placed == PLACED_MAX || bytes + size > PLACED_BYTES_MAX) {
            (*left)++;
            continue;
        }
        placed++;
        bytes += size;
        r = place_one(call, sandbox, path, err);
    }
    return r;
}

/* ---- helpers ---- */

/* Node.js looks for a package in every folder above the file that asks for it; npm clears those of
 * the home directory. */
int artifact_helpers_place(struct tool_call *call, const struct remote_sandbox *sandbox,
                           struct err *err)
{
    int r = remote_write(call, sandbox, "/home/user/make_api_shell.py", str_of(helper_python), err);

    return r < 0 ? r
                 : remote_write(call, sandbox, "/node_modules/make_api_shell/index.js",
                                str_of(helper_javascript), err);
}
