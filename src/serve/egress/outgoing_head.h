/* outgoing_head.h - the head of a request to a server, with secret values filled in.
 *
 * Filled-in values exist in this process alone, and only while a head is put together: they go to
 * the server over a connection that is meant for them, and their memory is wiped.
 */
#ifndef EGRESS_OUTGOING_HEAD_H
#define EGRESS_OUTGOING_HEAD_H

#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/http/http.h"

enum {
    OUTGOING_HEADERS_MAX = HTTP_HEADERS_MAX + 32,
    OUTGOING_VALUES_BYTES_MAX = 64 * 1024, /* of all that is filled in */
};

struct outgoing_head {
    struct http_header list[OUTGOING_HEADERS_MAX];
    size_t n;
    struct buf values; /* has its whole room from the start: values in it do not move */
};

must_check int outgoing_head_init(struct outgoing_head *out, struct err *err);
void outgoing_head_fini(struct outgoing_head *out);
#define scoped_outgoing_head(name) scoped(outgoing_head_fini) struct outgoing_head name = {0}

must_check int outgoing_head_add(struct outgoing_head *out, struct str name, struct str value,
                                 struct err *err);

/* Adds the request's headers, for the server `host`: without those about its connection, and those
 * that `drops` names. */
typedef bool outgoing_head_drops(const void *ctx, struct str name);
must_check int outgoing_head_add_given(struct outgoing_head *out, const struct http_request *req,
                                       struct str host, outgoing_head_drops *drops, const void *ctx,
                                       struct err *err);

#endif
