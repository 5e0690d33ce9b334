/* buf.h - a growable byte buffer that cannot exist without a maximum.
 *
 * Everything whose size comes from outside is gathered here. Past its maximum an append returns
 * -ENOBUFS and leaves the buffer as it was. Consuming from the front is O(1): `start` moves, and
 * the bytes are shifted only when room is needed.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/str.h"

struct buf {
    char *data;
    size_t start; /* first byte not consumed yet */
    size_t end;   /* one past the last byte */
    size_t cap;
    size_t max;
};

void buf_init(struct buf *b, size_t max);
void buf_fini(struct buf *b);

/* Overwrites all that it holds and has held: for secrets, before it goes. */
void buf_wipe(struct buf *b);

/* Drops the content and keeps the memory. */
static inline void buf_clear(struct buf *b)
{
    b->start = b->end = 0;
}

static inline size_t buf_len(const struct buf *b)
{
    return b->end - b->start;
}

static inline char *buf_at(const struct buf *b)
{
    return b->start ? b->data + b->start : b->data; /* adding nothing to NULL is undefined */
}

static inline struct str buf_str(const struct buf *b)
{
    return (struct str){buf_at(b), b->end - b->start};
}

/* Makes room for len more bytes; *at is where to put them, buf_commit() says how many came. */
must_check int buf_reserve(struct buf *b, size_t len, char **at);
void buf_commit(struct buf *b, size_t len);

must_check int buf_append(struct buf *b, const void *data, size_t len);
must_check int buf_printf(struct buf *b, const char *fmt, ...) printf_like(2, 3);
must_check int buf_vprintf(struct buf *b, const char *fmt, va_list ap) printf_like(2, 0);
void buf_consume(struct buf *b, size_t len);

/* Declares a buffer that frees itself at the end of its scope. It takes the maximum here: a buffer
 * that is declared now and given its maximum later would be freed unset by a return in between. */
#define scoped_buf(name, limit) scoped(buf_fini) struct buf name = {.max = (limit)}

#endif
