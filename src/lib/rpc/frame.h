/* frame.h - Connect's envelopes: [flags, length, message]... Pure. */
#ifndef RPC_FRAME_H
#define RPC_FRAME_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/str.h"

enum {
    FRAME_HEAD_BYTES = 5,
    FRAME_COMPRESSED = 1 << 0,
    FRAME_END = 1 << 1, /* the stream's last message */
};

static inline void frame_head(char at[FRAME_HEAD_BYTES], uint8_t flags, size_t len)
{
    at[0] = (char)flags;
    for (int i = 1; i < FRAME_HEAD_BYTES; i++) {
        at[i] = (char)(len >> 8 * (FRAME_HEAD_BYTES - 1 - i));
    }
}

struct frame {
    uint8_t flags;
    struct str message;
    size_t bytes; /* with its head: what to consume when it is done with */
};

/* The first whole frame of `in`: 1, 0 when there is none yet, -EMSGSIZE when it is longer than
 * `max`. */
must_check static inline int frame_read(struct str in, size_t max, struct frame *out)
{
    size_t len = 0;

    if (in.len < FRAME_HEAD_BYTES) {
        return 0;
    }
    for (int i = 1; i < FRAME_HEAD_BYTES; i++) {
        len = len << 8 | (unsigned char)in.at[i];
    }
    if (len > max) {
        return -EMSGSIZE;
    }
    if (in.len - FRAME_HEAD_BYTES < len) {
        return 0;
    }
    *out =
        (struct frame){(uint8_t)in.at[0], {in.at + FRAME_HEAD_BYTES, len}, FRAME_HEAD_BYTES + len};
    return 1;
}

#endif
