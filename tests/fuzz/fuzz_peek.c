/* The first bytes of a connection. A name lies in them and has a host's letters; and what was
 * decided on fewer bytes stays so with more. */
#include <stdint.h>
#include <stdlib.h>

#include "serve/egress/peek.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str all = {(const char *)data, size < PEEK_BYTES_MAX ? size : PEEK_BYTES_MAX};
    struct str name = {0}, early = {0};
    enum peek whole = peek_name(all, &name);

    if (whole == PEEK_NAME) {
        check(name.len > 0 && name.len <= PEEK_NAME_BYTES_MAX);
        check(name.at >= all.at && name.at + name.len <= all.at + all.len);
        for (size_t i = 0; i < name.len; i++) {
            check(name.at[i] > ' ' && name.at[i] != '/' && name.at[i] != ':' && name.at[i] != 0x7f);
        }
    }
    enum peek half = peek_name((struct str){all.at, all.len / 2}, &early);
    check(half == PEEK_MORE || half == whole);
    check(half != PEEK_NAME || str_eq(early, name));
    return 0;
}
