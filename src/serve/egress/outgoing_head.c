#include "serve/egress/outgoing_head.h"

#include <errno.h>

#include "lib/http/field_rules.h"

int outgoing_head_init(struct outgoing_head *out, struct err *err)
{
    char *at;

    out->n = 0;
    buf_init(&out->values, OUTGOING_VALUES_BYTES_MAX);
    return buf_reserve(&out->values, OUTGOING_VALUES_BYTES_MAX, &at) < 0
               ? err_set(err, ENOMEM, "there is no memory for the request's head")
               : 0;
}

void outgoing_head_fini(struct outgoing_head *out)
{
    if (out->values.data) {
        explicit_bzero(out->values.data, out->values.cap);
    }
    buf_fini(&out->values);
}

int outgoing_head_add(struct outgoing_head *out, struct str name, struct str value, struct err *err)
{
    if (out->n == OUTGOING_HEADERS_MAX) {
        return err_set(err, EMSGSIZE, "the request has too many headers");
    }
    out->list[out->n++] = (struct http_header){name, value};
    return 0;
}

int outgoing_head_add_given(struct outgoing_head *out, const struct http_request *req,
                            struct str host, outgoing_head_drops *drops, const void *ctx,
                            struct err *err)
{
    int r = outgoing_head_add(out, STR("host"), host, err);

    for (size_t i = 0; i < req->headers_n && r == 0; i++) {
        struct str name = req->headers[i].name;
        bool ours = str_ieq(name, STR("host")) || str_ieq(name, STR("expect"));
        if (!ours && !drops(ctx, name) &&
            !field_is_hop_by_hop(name, req->headers, req->headers_n)) {
            r = outgoing_head_add(out, name, req->headers[i].value, err);
        }
    }
    return r;
}
