#include "inside/agent/gzip.h"

#include <errno.h>
#include <limits.h>

enum {
    WINDOW_GZIP = 15 + 16, /* zlib's way to say: gzip, and nothing else */
};

int gunzip_init(struct gunzip *g, struct err *err)
{
    *g = (struct gunzip){0};
    if (inflateInit2(&g->z, WINDOW_GZIP) != Z_OK) {
        return err_set(err, ENOMEM, "error decompressing request body: out of memory");
    }
    g->open = true;
    return 0;
}

void gunzip_fini(struct gunzip *g)
{
    if (g->open) {
        (void)inflateEnd(&g->z);
        g->open = false;
    }
}

int gunzip_feed(struct gunzip *g, const void *data, size_t len,
                int (*sink)(void *ctx, const void *data, size_t len, struct err *err), void *ctx,
                struct err *err)
{
    unsigned char out[GZIP_CHUNK_BYTES];
    int r = 0;

    g->z.next_in = data;
    g->z.avail_in = (uInt)len;
    do {
        if (!g->inside && g->z.avail_in > 0) {
            (void)inflateReset(&g->z);
            g->inside = true;
        }
        g->z.next_out = out;
        g->z.avail_out = sizeof(out);
        int z = g->inside ? inflate(&g->z, Z_NO_FLUSH) : Z_BUF_ERROR;
        if (z != Z_OK && z != Z_STREAM_END && z != Z_BUF_ERROR) {
            return err_set(err, EINVAL, "error decompressing request body: it is not valid gzip");
        }
        if (z == Z_STREAM_END) {
            g->inside = false;
            g->any = true;
        }
        r = g->z.avail_out < sizeof(out) ? sink(ctx, out, sizeof(out) - g->z.avail_out, err) : 0;
    } while (r == 0 && (g->z.avail_in > 0 || (g->inside && g->z.avail_out == 0)));
    return r;
}

int gunzip_finish(const struct gunzip *g, struct err *err)
{
    if (g->inside || !g->any) {
        return err_set(err, EINVAL, "error decompressing request body: the gzip data is cut short");
    }
    return 0;
}
