/* gzip.h - zlib's streams as push functions with one output callback. */
#ifndef AGENT_GZIP_H
#define AGENT_GZIP_H

#include <stdbool.h>
#define ZLIB_CONST /* its input is const then */
#include <zlib.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

enum {
    GZIP_CHUNK_BYTES = 64 * 1024,
};

/* Unpacks members one after the other, as gzip(1) does. */
struct gunzip {
    z_stream z;
    bool open;   /* z is initialised */
    bool inside; /* a member has begun and not ended */
    bool any;    /* a member has ended */
};

must_check int gunzip_init(struct gunzip *g, struct err *err);
void gunzip_fini(struct gunzip *g);

/* Calls sink with at most GZIP_CHUNK_BYTES at a time, so that a small body that unpacks to much
 * needs no memory. -EINVAL when the data is not gzip; else what sink returned. */
must_check int gunzip_feed(struct gunzip *g, const void *data, size_t len,
                           int (*sink)(void *ctx, const void *data, size_t len, struct err *err),
                           void *ctx, struct err *err);
/* -EINVAL when the data ended inside of a member, or there was none. */
must_check int gunzip_finish(const struct gunzip *g, struct err *err);

#endif
