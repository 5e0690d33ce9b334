/* frame.h - Connect's envelopes: [flags, length, message]... Pure. */
#ifndef RPC_FRAME_H
#define RPC_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/compiler.h"
#include "base/str.h"

enum {
    FRAME_HEAD_BYTES = 5,
    FRAME_COMPRESSED = 1 << 0,
    FRAME_END = 1 << 1, /* the stream's last message */
};

void frame_head(char at[FRAME_HEAD_BYTES], uint8_t flags, size_t len);

struct frame {
    uint8_t flags;
    struct str message;
    size_t bytes; /* with its head: what to consume when it is done with */
};

/* The first whole frame of `in`: 1, 0 when there is none yet, -EMSGSIZE when it is longer than
 * `max`. */
must_check int frame_read(struct str in, size_t max, struct frame *out);

#endif
