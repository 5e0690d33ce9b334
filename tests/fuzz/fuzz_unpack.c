/* The unpacker's options and names from arbitrary bytes: options up to the first NUL, then a name.
 * What is taken leads nowhere but below the root. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "inside/unpack/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_path(const char *path)
{
    struct str rest = str_of(path), part;

    while (path[0] && str_split(&rest, '/', &part)) {
        if (part.len == 0 || str_eq(part, STR(".")) || str_eq(part, STR(".."))) {
            abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct options options;
    static char name[2 * PATH_BYTES], path[PATH_BYTES];
    struct str text = {(const char *)data, size};
    size_t n = str_find(text, '\0');
    struct err err;

    if (options_parse((struct str){text.at, n}, &options, &err) == 0) {
        check_path(options.source);
        check_path(options.target);
    }
    if (str_copy(name, sizeof(name), str_skip(text, n + 1)) && name_check(name, path, &err) == 0) {
        check_path(path);
    }
    return 0;
}
