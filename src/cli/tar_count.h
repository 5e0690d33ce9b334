/* tar_count.h - counts the files in a tar stream as it passes, whoever made it.
 *
 * Pure: it is fed the bytes in pieces of any length, and never looks beyond them. A stream that is
 * no tar, or lies about itself, makes the counts wrong and nothing else.
 */
#ifndef CLI_TAR_COUNT_H
#define CLI_TAR_COUNT_H

#include <stddef.h>
#include <stdint.h>

enum { TAR_BLOCK_BYTES = 512 };

struct tar_count { /* begins as zeroes */
    int64_t files; /* regular ones */
    int64_t bytes; /* of their contents */
    uint64_t skip; /* of the stream, until the next header */
    size_t have;   /* of that header */
    unsigned char header[TAR_BLOCK_BYTES];
};

void tar_count_feed(struct tar_count *count, const void *data, size_t len);

#endif
