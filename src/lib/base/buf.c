#include "lib/base/buf.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    CAP_MIN = 256,
};

void buf_init(struct buf *b, size_t max)
{
    assert(max > 0);
    *b = (struct buf){.max = max};
}

void buf_fini(struct buf *b)
{
    free(b->data);
    b->data = NULL;
    b->start = b->end = b->cap = 0;
}

void buf_wipe(struct buf *b)
{
    if (b->data) {
        explicit_bzero(b->data, b->cap);
    }
    buf_clear(b);
}

static size_t cap_for(const struct buf *b, size_t need)
{
    size_t cap = b->cap ? b->cap : CAP_MIN;

    while (cap < need) {
        cap *= 2; /* need <= max, which is far from SIZE_MAX: cannot wrap */
    }
    return cap < b->max ? cap : b->max;
}

int buf_reserve(struct buf *b, size_t len, char **at)
{
    size_t used = buf_len(b);

    assert(b->max > 0 && b->max < SIZE_MAX / 4);
    if (len > b->max || used > b->max - len) {
        return -ENOBUFS;
    }
    if (b->cap - b->end < len) {
        if (b->start > 0) {
            memmove(b->data, b->data + b->start, used);
            b->start = 0;
            b->end = used;
        }
        if (b->cap - b->end < len) {
            size_t cap = cap_for(b, used + len);
            char *data = realloc(b->data, cap);
            if (!data) {
                return -ENOBUFS;
            }
            b->data = data;
            b->cap = cap;
        }
    }
    *at = b->end ? b->data + b->end : b->data; /* no room was asked of none: still NULL */
    return 0;
}

void buf_commit(struct buf *b, size_t len)
{
    assert(len <= b->cap - b->end);
    b->end += len;
}

int buf_append(struct buf *b, const void *data, size_t len)
{
    char *at;
    int r;

    if (len == 0) {
        return 0;
    }
    r = buf_reserve(b, len, &at);
    if (r < 0) {
        return r;
    }
    memcpy(at, data, len);
    buf_commit(b, len);
    return 0;
}

int buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
    va_list again;
    char *at;
    int r;

    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    if (n < 0) {
        return -EINVAL;
    }
    r = buf_reserve(b, (size_t)n + 1, &at); /* the NUL needs room, and is not counted */
    if (r < 0) {
        return r;
    }
    (void)vsnprintf(at, (size_t)n + 1, fmt, ap);
    buf_commit(b, (size_t)n);
    return 0;
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    int r = buf_vprintf(b, fmt, ap);
    va_end(ap);
    return r;
}

void buf_consume(struct buf *b, size_t len)
{
    assert(len <= buf_len(b));
    b->start += len;
    if (b->start == b->end) {
        b->start = b->end = 0;
    }
}
