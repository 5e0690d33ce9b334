#include "lib/http/h2_request.h"

#include <stdlib.h>

/* Moves the pseudo fields, which come first, into the request. */
static void take_pseudo(struct http_request *req, struct head_fields *fields)
{
    for (; fields->n > 0 && fields->at[0].name.len > 0 && fields->at[0].name.at[0] == ':';
         fields->at++, fields->n--) {
        struct str name = fields->at[0].name;
        if (str_eq(name, STR(":method"))) {
            req->method = fields->at[0].value;
        } else if (str_eq(name, STR(":authority"))) {
            req->authority = fields->at[0].value;
        } else if (str_eq(name, STR(":path"))) {
            req->path = fields->at[0].value;
        }
    }
}

static int64_t announced_length(struct head_fields fields)
{
    struct str text = {NULL, 0};
    char digits[24];

    if (head_count(fields, STR("content-length"), &text) == 0 ||
        !str_copy(digits, sizeof(digits), text)) {
        return -1;
    }
    return strtoll(digits, NULL, 10); /* nghttp2 has checked that it is a number that fits */
}

const char *h2_request_fill(struct http_request *req, struct head *head, struct buf *cookie,
                            const struct http_conn *conn, bool has_body)
{
    struct str host = {NULL, 0};

    head_seal(head);
    if (head_join_cookies(head, cookie) < 0) {
        return "the cookies are too long";
    }
    struct head_fields fields = head_fields(head);
    take_pseudo(req, &fields);
    req->scheme = conn->secure ? STR("https") : STR("http");
    req->peer = str_of(conn->peer);
    req->headers = fields.at;
    req->headers_n = fields.n;
    req->content_length = has_body ? announced_length(fields) : 0;
    req->secure = conn->secure;
    req->multiplexed = true;
    req->connection_tag = conn->tag;
    if (head_count(fields, STR("host"), &host) > 1) {
        return "a request needs exactly one Host header";
    }
    req->authority = req->authority.at ? req->authority : host;
    if (!head_word_ok(req->path) || !head_split_target(req->path, req)) {
        return "the request target must be a path";
    }
    return head_authority_ok(req->authority) ? NULL : "the Host header is malformed";
}
