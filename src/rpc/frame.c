#include "rpc/frame.h"

#include <errno.h>

void frame_head(char at[FRAME_HEAD_BYTES], uint8_t flags, size_t len)
{
    at[0] = (char)flags;
    at[1] = (char)(len >> 24);
    at[2] = (char)(len >> 16);
    at[3] = (char)(len >> 8);
    at[4] = (char)len;
}

int frame_read(struct str in, size_t max, struct frame *out)
{
    const unsigned char *at = (const unsigned char *)in.at;

    if (in.len < FRAME_HEAD_BYTES) {
        return 0;
    }
    size_t len = (size_t)at[1] << 24 | (size_t)at[2] << 16 | (size_t)at[3] << 8 | at[4];
    if (len > max) {
        return -EMSGSIZE;
    }
    if (in.len - FRAME_HEAD_BYTES < len) {
        return 0;
    }
    *out = (struct frame){at[0], {in.at + FRAME_HEAD_BYTES, len}, FRAME_HEAD_BYTES + len};
    return 1;
}
