#include "cli/tar_count.h"

#include <string.h>

enum {
    SIZE_AT = 124,
    SIZE_BYTES = 12,
    TYPE_AT = 156,
    BINARY = 0x80, /* the number is binary: octal digits have no room for it */
};

#define CONTENTS_MAX ((uint64_t)INT64_MAX / 2)

/* Octal digits, or a binary number behind a first byte of 0x80. */
static uint64_t size_of(const unsigned char *field)
{
    uint64_t size = 0;

    for (size_t i = field[0] & BINARY ? 1 : 0; i < SIZE_BYTES && size <= CONTENTS_MAX; i++) {
        if (field[0] & BINARY) {
            size = size << 8 | field[i];
        } else if (field[i] >= '0' && field[i] <= '7') {
            size = size << 3 | (uint64_t)(field[i] - '0');
        }
    }
    return size <= CONTENTS_MAX ? size : 0;
}

static void header_take(struct tar_count *count)
{
    unsigned char type = count->header[TYPE_AT];
    uint64_t size = size_of(count->header + SIZE_AT);

    if (count->header[0] == '\0') {
        return; /* the blocks of zeroes at the end */
    }
    count->skip = (size + TAR_BLOCK_BYTES - 1) / TAR_BLOCK_BYTES * TAR_BLOCK_BYTES;
    if (type == '0' || type == '\0') { /* the latter as old programs write it */
        count->files++;
        count->bytes += (int64_t)size;
    }
}

void tar_count_feed(struct tar_count *count, const void *data, size_t len)
{
    const unsigned char *at = data;

    while (len > 0) {
        size_t n = TAR_BLOCK_BYTES - count->have;
        if (count->skip > 0) {
            n = len < count->skip ? len : (size_t)count->skip;
            count->skip -= n;
        } else {
            n = len < n ? len : n;
            memcpy(count->header + count->have, at, n);
            count->have += n;
        }
        at += n;
        len -= n;
        if (count->have == TAR_BLOCK_BYTES) {
            count->have = 0;
            header_take(count);
        }
    }
}
