/* Paths and redirects past an API shell. What is allowed has no dots, no empty part and no encoded
 * slash in it, and so means the same to every server; what a redirect becomes stays with the shell.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "serve/egress/shell.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct shell *shell_make(void)
{
    json_t *definition =
        json_pack("{ss s[ss] s{ss ss}}", "baseUrl", "https://api.test/v1", "paths", "/a/*", "/b/**",
                  "query", "name", "key", "value", "${e2b.secrets.k}");
    struct shell *shell = NULL;
    struct err err;

    if (shell_new("api", definition, &shell, &err) < 0) {
        abort();
    }
    json_decref(definition);
    return shell;
}

static void path_check(struct str path)
{
    if (!str_starts(path, STR("/")) || memmem(path.at, path.len, "//", 2) ||
        memmem(path.at, path.len, "/../", 4) || str_ends(path, STR("/..")) ||
        memmem(path.at, path.len, "%2f", 3) || memmem(path.at, path.len, "%2F", 3)) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str rest = {(const char *)data, size}, path = {0};
    struct shell *shell = shell_make();
    struct guard *guard = guard_new();
    struct err err;
    scoped_buf(target, 1024 * 1024);
    scoped_buf(location, 1024 * 1024);

    guard_ready(guard);
    if (str_split(&rest, '\n', &path) && shell_allows(shell, STR("GET"), path, &err) == 0) {
        path_check(path);
        (void)!shell_target(shell, path, rest, STR("v"), &target);
    }
    if (rest.len > 0 && shell_location(shell, guard, rest, &location, &err) == 0 &&
        !str_starts(buf_str(&location), STR("http://" SHELL_HOST "/api")) &&
        (buf_len(&location) > 0 && buf_at(&location)[0] == '/')) {
        abort();
    }
    guard_free(guard);
    shell_free(shell);
    return 0;
}
