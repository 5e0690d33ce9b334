/* feed.h - streams a file into the unpacker of a jail (inside/unpack/unpack.h).
 *
 * Owns:     the socket, and a descriptor of the file.
 * Needs:    a loop; a socket that CHANNEL_PORT_UNPACK was dialled for.
 * Blocks:   never: the file is read on libuv's threads.
 * Threads:  the loop's.
 */
#ifndef IMAGE_FEED_H
#define IMAGE_FEED_H

#include <stdint.h>
#include <uv.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

enum {
    FEED_STALL_MS = 120 * 1000, /* an unpacker that neither reads nor speaks for so long */
};

struct feed_plan { /* borrowed during the call */
    int socket_fd; /* taken over */
    int file_fd;   /* taken over: the archive, read from `offset` on, `length` bytes */
    int64_t offset;
    int64_t length;      /* -1: to its end */
    int64_t limit_ms;    /* of all of it, also while the unpacker speaks; 0: none */
    const char *options; /* lines of unpack.h, each with its newline, without the empty one */
};

struct feed_end {
    uint64_t bytes, entries; /* written */
    const struct err *err;   /* NULL: all is unpacked */
};

struct feed;

/* `done` comes once, from the loop. `progress` may be NULL. */
struct feed *feed_start(uv_loop_t *loop, const struct feed_plan *plan,
                        void (*progress)(void *ctx, uint64_t bytes, uint64_t entries),
                        void (*done)(void *ctx, const struct feed_end *end), void *ctx);

/* Nothing is called any more; the unpacker sees its socket close. Accepts NULL. */
void feed_cancel(struct feed *feed);

#endif
