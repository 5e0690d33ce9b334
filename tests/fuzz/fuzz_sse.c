/* Streams of events from arbitrary bytes, in one piece and byte by byte: both must be read alike.
 */
#include <stdint.h>
#include <stdlib.h>

#include "lib/mcp/sse.h"

enum { EVENT_BYTES_MAX = 4096, ALL_BYTES_MAX = 1024 * 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_event(void *ctx, struct str event)
{
    struct buf *all = ctx;

    if (event.len == 0 || event.len > EVENT_BYTES_MAX || buf_append(all, event.at, event.len) < 0 ||
        buf_append(all, "", 1) < 0) {
        abort();
    }
}

static int read_in_pieces(const uint8_t *data, size_t size, size_t piece, struct buf *all)
{
    struct sse_reader reader;
    int r = 0;

    sse_reader_init(&reader, EVENT_BYTES_MAX, on_event, all);
    for (size_t at = 0; r == 0 && at < size; at += piece) {
        r = sse_read(&reader, data + at, size - at < piece ? size - at : piece);
    }
    sse_reader_fini(&reader);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    scoped_buf(whole, ALL_BYTES_MAX);
    scoped_buf(pieces, ALL_BYTES_MAX);

    int r = read_in_pieces(data, size, size ? size : 1, &whole);
    if (read_in_pieces(data, size, 1, &pieces) != r || !str_eq(buf_str(&whole), buf_str(&pieces))) {
        abort();
    }
    return 0;
}
