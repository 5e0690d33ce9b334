/* upstream_ops.h - the operations that upstream.c (HTTP/1.1) and http2_client.c implement. */
#ifndef HTTP_UPSTREAM_OPS_H
#define HTTP_UPSTREAM_OPS_H

#include "lib/http/upstream.h"

struct upstream_request {
    struct str method, target;
    const struct http_header *headers;
    size_t headers_n;
    int64_t content_length;
    bool tunnel;
};

struct upstream_ops {
    void (*send)(struct upstream *up, const struct upstream_request *request,
                 const struct upstream_handler *handler, void *ctx);
    void (*write)(struct upstream *up, const void *data, size_t len);
    size_t (*writable)(const struct upstream *up);
    void (*finish)(struct upstream *up);
    void (*credit)(struct upstream *up, size_t bytes);
    void (*hold)(struct upstream *up, bool held); /* NULL: cannot be held */
    bool (*reusable)(const struct upstream *up);
    void (*idle)(struct upstream *up, void (*gone)(void *ctx), void *ctx);
    void (*close)(struct upstream *up);
};

struct upstream {
    const struct upstream_ops *ops;
};

#endif
