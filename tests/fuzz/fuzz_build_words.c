/* Arguments of steps from arbitrary bytes: variables, sources and targets of COPY, owners, modes.
 * Paths that are taken must stay where spec.h says; nothing is longer than its buffer. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "serve/template/build/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok) {
        abort();
    }
}

/* None of the path's parts is "." or "..". */
static bool is_plain(struct str path)
{
    struct str part;

    while (str_split(&path, '/', &part)) {
        if (str_eq(part, STR(".")) || str_eq(part, STR(".."))) {
            return false;
        }
    }
    return true;
}

static void try_expand(struct str text)
{
    json_t *env = json_pack("{s:s, s:s, s:s}", "A", "one", "EMPTY", "", "REF", "${A}$");
    struct err err = {0};
    scoped_buf(out, SPEC_ENV_BYTES_MAX);

    if (expand(text, env, &out, &err) == 0 && !memchr(text.at, '$', text.len) &&
        !memchr(text.at, '\\', text.len)) {
        check(str_eq(buf_str(&out), text));
    }
    check(buf_len(&out) <= SPEC_ENV_BYTES_MAX);
    json_decref(env);
}

static void try_source(struct str text)
{
    struct err err = {0};
    scoped_buf(out, SPEC_PATH_BYTES_MAX);

    if (copy_source(text, &out, &err) == 0) {
        check(buf_len(&out) > 0 && buf_at(&out)[0] != '/');
        check(str_eq(buf_str(&out), STR(".")) || is_plain(buf_str(&out)));
    }
}

static void try_join(struct str text)
{
    struct err err = {0};
    scoped_buf(out, SPEC_PATH_BYTES_MAX);

    if (path_join(STR("/srv/work"), text, &out, &err) == 0) {
        check(buf_len(&out) > 0 && buf_at(&out)[0] == '/');
        check(is_plain(buf_str(&out)));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (memchr(data, '\0', size)) {
        return 0; /* texts of JSON have none */
    }
    /* A copy of its very size, so that a byte too many is seen to be read. */
    char *copy = malloc(size ? size : 1);
    struct str text = {copy, size};
    if (!copy) {
        return 0;
    }
    memcpy(copy, data, size);
    try_expand(text);
    try_source(text);
    try_join(text);
    check(!user_name_ok(text) || !memchr(copy, '\n', size));
    check(!owner_ok(text) || !memchr(copy, '\n', size));
    check(!mode_ok(text) || size <= 5);
    free(copy);
    return 0;
}
