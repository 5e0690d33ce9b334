/* A form fed whole and again byte by byte: neither may crash, and both must say the same.
 * The input is the body; its boundary is XX. */
#include <stdlib.h>

#include "inside/agent/multipart.h"

/* Everything that the parser says, as one running digest of bounded size. */
struct heard {
    uint64_t digest;
    bool inside;
};

static void heard_add(struct heard *h, const void *data, size_t len)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < len; i++) {
        h->digest = (h->digest ^ p[i]) * 1099511628211U;
    }
}

static int on_begin(void *ctx, struct str name, struct str filename, struct err *err)
{
    struct heard *h = ctx;

    (void)err;
    if (h->inside) {
        abort(); /* a part begins before the last one has ended */
    }
    h->inside = true;
    heard_add(h, "[", 1);
    heard_add(h, name.at, name.len);
    heard_add(h, filename.at ? "|" : "-", 1);
    heard_add(h, filename.at, filename.len);
    return 0;
}

static int on_data(void *ctx, const void *data, size_t len, struct err *err)
{
    struct heard *h = ctx;

    (void)err;
    if (!h->inside || len == 0) {
        abort();
    }
    heard_add(h, data, len);
    return 0;
}

static int on_end(void *ctx, struct err *err)
{
    struct heard *h = ctx;

    (void)err;
    if (!h->inside) {
        abort();
    }
    h->inside = false;
    heard_add(h, "]", 1);
    return 0;
}

static int parse(struct str type, struct str body, size_t step, struct heard *h)
{
    static const struct multipart_handler handler = {on_begin, on_data, on_end};
    struct multipart m;
    struct err err;
    int r = multipart_init(&m, type, &handler, h, &err);

    if (r < 0) {
        return r;
    }
    for (size_t at = 0; r == 0 && at < body.len; at += step) {
        r = multipart_feed(&m, body.at + at, step < body.len - at ? step : body.len - at, &err);
    }
    if (r == 0) {
        r = multipart_finish(&m, &err);
    }
    multipart_fini(&m);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str body = {(const char *)data, size};
    struct str type = STR("multipart/form-data; boundary=XX");
    struct heard whole = {0}, bytes = {0};

    int r = parse(type, body, size ? size : 1, &whole);
    if (r != parse(type, body, 1, &bytes) || (r == 0 && whole.digest != bytes.digest) ||
        (r == 0 && whole.inside)) {
        abort();
    }
    return 0;
}
