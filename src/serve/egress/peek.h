/* peek.h - the name that a connection's first bytes give: TLS server name, or HTTP Host. Pure. */
#ifndef EGRESS_PEEK_H
#define EGRESS_PEEK_H

#include "lib/base/str.h"

enum {
    PEEK_BYTES_MAX = 16 * 1024 + 5, /* a whole TLS record: most first messages are a tenth of it */
    PEEK_NAME_BYTES_MAX = 253,
};

enum peek {
    PEEK_MORE, /* cannot be told yet */
    PEEK_NAME, /* *name lies in the bytes: letters, digits, "-", "_" and "." */
    PEEK_NONE, /* says no name, or none that can be trusted */
};

/* The bytes from the start of the connection. */
enum peek peek_name(struct str bytes, struct str *name);
bool peek_is_tls(struct str bytes);

#endif
