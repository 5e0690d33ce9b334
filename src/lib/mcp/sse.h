/* sse.h - writes a server-sent event, and reads a stream of them. Pure.
 *
 * The daemon and the gateway write them, `atoll mcp` reads them.
 */
#ifndef MCP_SSE_H
#define MCP_SSE_H

#include "lib/base/buf.h"
#include "lib/base/compiler.h"
#include "lib/base/str.h"

/* Writes one event whose data has no line break. id empty: the event has none. */
must_check int sse_write(struct buf *out, struct str id, struct str data);

struct sse_reader {
    struct buf line; /* the one that is not whole yet */
    struct buf data; /* of the event that is not whole yet */
    bool any;        /* it has a data field, be it an empty one */
    bool cr;         /* the last byte was one: a line feed after it ends no other line */
    void (*event)(void *ctx, struct str data); /* an event that is whole and has data */
    void *ctx;
};

/* max: the longest event that it takes. */
void sse_reader_init(struct sse_reader *reader, size_t max,
                     void (*event)(void *ctx, struct str data), void *ctx);
void sse_reader_fini(struct sse_reader *reader);

/* -ENOBUFS: an event is longer than the maximum; the reader is of no use any more. */
must_check int sse_read(struct sse_reader *reader, const void *bytes, size_t len);

#endif
