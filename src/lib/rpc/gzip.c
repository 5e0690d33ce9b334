#include "lib/rpc/gzip.h"

#include <errno.h>
#define ZLIB_CONST /* its input is const then */
#include <zlib.h>

enum {
    WINDOW_GZIP = 15 + 16, /* zlib's way to say: gzip, and nothing else */
    MEMORY_LEVEL = 8,      /* zlib's own default */
    STEP_BYTES = 64 * 1024,
};

/* "q=0", "q=0.000": no digit but 0. */
static bool weight_is_zero(struct str params)
{
    for (size_t i = 0; i < params.len; i++) {
        if (params.at[i] >= '1' && params.at[i] <= '9') {
            return false;
        }
    }
    return params.len > 0;
}

bool rpc_gzip_accepted(struct str accept)
{
    for (struct str item; str_split(&accept, ',', &item);) {
        size_t semicolon = str_find(item, ';');
        if (str_ieq(str_trim((struct str){item.at, semicolon}), STR("gzip"))) {
            return !weight_is_zero(str_skip(item, semicolon + 1));
        }
    }
    return false;
}

bool rpc_gzip_pack(struct str plain, struct buf *out)
{
    z_stream z = {0};
    char *at;

    /* Fast compression, because the reader waits and its connection is local. */
    if (buf_reserve(out, plain.len, &at) < 0 ||
        deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, WINDOW_GZIP, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) !=
            Z_OK) {
        return false;
    }
    z.next_in = (const Bytef *)plain.at;
    z.avail_in = (uInt)plain.len;
    z.next_out = (Bytef *)at;
    z.avail_out = (uInt)plain.len;
    bool shorter = deflate(&z, Z_FINISH) == Z_STREAM_END && z.avail_out > 0;
    if (shorter) {
        buf_commit(out, plain.len - z.avail_out);
    }
    (void)deflateEnd(&z);
    return shorter;
}

static int step_unpack(z_stream *z, struct buf *out, struct err *err)
{
    char *at;

    if (buf_reserve(out, STEP_BYTES, &at) < 0) {
        return err_set(err, ENOMEM, "there is no memory to unpack the message");
    }
    z->next_out = (Bytef *)at;
    z->avail_out = STEP_BYTES;
    int state = inflate(z, Z_NO_FLUSH);
    buf_commit(out, STEP_BYTES - z->avail_out);
    if (state == Z_BUF_ERROR) { /* there was room, so it is input that lacks */
        return err_set(err, EINVAL, "the message's gzip data is cut short");
    }
    if (state != Z_OK && state != Z_STREAM_END) {
        return err_set(err, EINVAL, "the message is not valid gzip");
    }
    return state == Z_STREAM_END;
}

/* 0 when all of the input was whole members. */
static int members_unpack(z_stream *z, size_t max, struct buf *out, struct err *err)
{
    int ended;

    do {
        ended = step_unpack(z, out, err);
        if (ended < 0) {
            return ended;
        }
        if (buf_len(out) > max) {
            return err_set(err, ENOBUFS, "the message unpacks to more than the limit of %zu bytes",
                           max);
        }
        if (ended) {
            (void)inflateReset(z);
        }
    } while (!ended || z->avail_in > 0);
    return 0;
}

int rpc_gzip_unpack(struct str packed, size_t max, struct buf *out, struct err *err)
{
    z_stream z = {.next_in = (const Bytef *)packed.at, .avail_in = (uInt)packed.len};

    buf_init(out, max + STEP_BYTES); /* the step that goes over the limit still fits */
    if (inflateInit2(&z, WINDOW_GZIP) != Z_OK) {
        return err_set(err, ENOMEM, "there is no memory to unpack the message");
    }
    int r = members_unpack(&z, max, out, err);
    (void)inflateEnd(&z);
    return r;
}
