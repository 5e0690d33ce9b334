/* multipart.h - multipart/form-data (RFC 7578), as it streams in.
 *
 * Our own, because no C library in Debian reads multipart as a stream: libmicrohttpd's and
 * gmime's parsers belong to their server or want the whole text. Small enough to be fuzzed whole.
 *
 * Owns:     the delimiter and the headers of one part; the data of a part passes through.
 * Needs:    callbacks for parts.
 * Blocks:   never by itself.
 * Threads:  any one at a time.
 *
 * Strict: lines end in CRLF, a delimiter line holds nothing but padding, every part is a form-data
 * part with a name, and the closing delimiter must come, so that a cut upload cannot look whole.
 */
#ifndef AGENT_MULTIPART_H
#define AGENT_MULTIPART_H

#include <stdbool.h>

#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/base/str.h"

enum {
    MULTIPART_BOUNDARY_MAX = 70, /* RFC 2046 */
    MULTIPART_HEADER_BYTES_MAX = 16 * 1024,
    MULTIPART_PARTS_MAX = 65536,
};

/* Each returns 0, or -errno with its sentence in err: feeding then stops with the same. */
struct multipart_handler {
    int (*part_begin)(void *ctx, struct str name, struct str filename, struct err *err);
    int (*part_data)(void *ctx, const void *data, size_t len, struct err *err);
    int (*part_end)(void *ctx, struct err *err);
};

struct multipart {
    const struct multipart_handler *handler;
    void *ctx;
    char delimiter[4 + MULTIPART_BOUNDARY_MAX]; /* CR LF - - boundary */
    size_t delimiter_len;
    size_t matched; /* bytes of the delimiter seen and held back */
    int state;
    size_t parts;
    struct buf header; /* lines of the part's header, until the empty one */
};

/* Takes the boundary from a Content-Type. -EINVAL when it is not multipart or has none. */
must_check int multipart_init(struct multipart *m, struct str content_type,
                              const struct multipart_handler *handler, void *ctx, struct err *err);
void multipart_fini(struct multipart *m);

must_check int multipart_feed(struct multipart *m, const void *data, size_t len, struct err *err);

/* The body has ended: -EINVAL when the closing delimiter has not been seen. */
must_check int multipart_finish(const struct multipart *m, struct err *err);

/* Reads one parameter of a header like `form-data; name="file"; filename="a b"` into out. A value
 * in the form of RFC 8187 (filename*=UTF-8''a%20b) goes before the plain one.
 * 1 found, 0 not there, -EINVAL malformed, -ENOBUFS longer than out may be. */
must_check int header_param(struct str header, const char *name, struct buf *out);

#endif
