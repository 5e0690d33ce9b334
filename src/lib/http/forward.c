#include "lib/http/forward.h"

#include <errno.h>

/* ---- request: client to server ---- */

static void pump_request(void *ctx)
{
    struct forward *c = ctx;
    size_t room = c->up ? upstream_writable(c->up) : 0;

    if (!c->ex || c->request_ended || (!c->answered && http_request(c->ex)->upgrade)) {
        return; /* raw bytes wait until the server has agreed to take them */
    }
    if (room > c->request_credit) {
        size_t more = room - c->request_credit;
        c->request_credit = room;
        http_credit(c->ex, more);
    }
}

static void finish_request(struct forward *c)
{
    if (c->up && !c->request_finished) {
        c->request_finished = true;
        upstream_finish(c->up);
    }
}

static void on_request_body(void *ctx, const void *data, size_t len)
{
    struct forward *c = ctx;

    c->body_taken = true;
    c->request_credit -= len;
    if (c->up) {
        upstream_write(c->up, data, len);
        pump_request(c);
    }
}

static void on_request_end(void *ctx)
{
    struct forward *c = ctx;

    c->request_ended = true;
    finish_request(c);
}

/* ---- response: server to client ---- */

static void pump_response(void *ctx)
{
    struct forward *c = ctx;
    size_t room = c->ex ? http_writable(c->ex) : 0;

    if (c->up && c->answered && room > c->answer_credit) {
        size_t more = room - c->answer_credit;
        c->answer_credit = room;
        upstream_credit(c->up, more);
    }
}

static void on_response(void *ctx, int status, const struct http_header *headers, size_t n,
                        int64_t content_length)
{
    struct forward *c = ctx;

    c->events->on_response(c->ctx, status, headers, n, content_length);
}

void forward_respond(struct forward *c, int status, const struct http_header *headers, size_t n,
                     int64_t content_length)
{
    c->answered = true;
    http_respond(c->ex, status, headers, n, content_length);
    if (status != 101 && http_request(c->ex)->upgrade) {
        finish_request(c); /* the upgrade was refused: nothing more is sent */
    }
    pump_response(c);
    pump_request(c);
}

static void on_response_body(void *ctx, const void *data, size_t len)
{
    struct forward *c = ctx;

    c->answer_credit -= len;
    if (c->events->on_body) {
        c->events->on_body(c->ctx, data, len);
    } else {
        http_write(c->ex, data, len);
    }
    pump_response(c);
}

static void on_trailers(void *ctx, const struct http_header *headers, size_t n)
{
    struct forward *c = ctx;

    if (!c->events->on_body) {
        http_trailers(c->ex, headers, n);
    }
}

static void on_response_end(void *ctx)
{
    struct forward *c = ctx;

    if (c->events->on_body_end) {
        c->events->on_body_end(c->ctx);
    }
    if (!c->keeps && !c->answer_ended) {
        c->answer_ended = true;
        http_finish(c->ex);
    }
}

/* ---- either side is over ---- */

bool forward_may_answer(struct forward *c)
{
    if (c->ex && !c->answered) {
        c->answered = c->answer_ended = true;
        return true;
    }
    if (c->ex && !c->answer_ended) {
        c->answer_ended = true;
        http_abort(c->ex, -ECONNRESET);
    }
    return false;
}

static void on_upstream_end(void *ctx, int error)
{
    struct forward *c = ctx;
    struct upstream *up = move_ptr(&c->up);

    if (c->answered && !c->answer_ended && !c->keeps) {
        (void)forward_may_answer(c);
    }
    bool over = !c->ex;
    c->events->on_upstream_end(c->ctx, up, error);
    if (over) {
        c->events->on_over(c->ctx);
    }
}

static void on_exchange_end(void *ctx, int error)
{
    struct forward *c = ctx;

    c->ex = NULL;
    if (error == 0 && c->up && c->answer_ended && c->request_finished) {
        return; /* the server is about to end too: its connection may serve another request */
    }
    c->events->on_over(c->ctx);
}

static const struct http_handler exchange_handler = {.tunnels = true,
                                                     .needs_peer = true,
                                                     .on_body = on_request_body,
                                                     .on_body_end = on_request_end,
                                                     .on_credit = pump_response,
                                                     .on_end = on_exchange_end};

static const struct upstream_handler upstream_handler = {.on_response = on_response,
                                                         .on_body = on_response_body,
                                                         .on_trailers = on_trailers,
                                                         .on_body_end = on_response_end,
                                                         .on_credit = pump_request,
                                                         .on_end = on_upstream_end};

/* ---- life ---- */

void forward_accept(struct forward *c, struct http_exchange *ex,
                    const struct forward_events *events, void *ctx)
{
    *c = (struct forward){.ex = ex, .events = events, .ctx = ctx};
    http_accept(ex, &exchange_handler, c);
}

int forward_send(struct forward *c, struct upstream *up, const struct http_header *headers,
                 size_t n)
{
    const struct http_request *req = http_request(c->ex);
    scoped_buf(target, HTTP_TARGET_BYTES_MAX + 1);

    if (buf_append(&target, req->path.at, req->path.len) < 0 ||
        (req->query.len && (buf_append(&target, "?", 1) < 0 ||
                            buf_append(&target, req->query.at, req->query.len) < 0))) {
        return -ENOBUFS;
    }
    forward_send_to(c, up, buf_str(&target), headers, n);
    return 0;
}

void forward_send_to(struct forward *c, struct upstream *up, struct str target,
                     const struct http_header *headers, size_t n)
{
    const struct http_request *req = http_request(c->ex);

    c->up = up;
    c->request_finished = false;
    c->answer_credit = 0;
    upstream_send(up, req->method, target, headers, n, req->content_length, req->upgrade,
                  &upstream_handler, c);
    if (c->request_ended || (req->content_length == 0 && !req->upgrade)) {
        finish_request(c);
    }
    pump_request(c);
}

void forward_continue(struct forward *c, struct upstream *up, struct str method, struct str target,
                      const struct http_header *headers, size_t n, struct str body)
{
    c->up = up;
    c->request_finished = true;
    c->answer_credit = 0;
    upstream_send(up, method, target, headers, n, (int64_t)body.len, false, &upstream_handler, c);
    if (body.len > 0) {
        upstream_write(up, body.at, body.len);
    }
    upstream_finish(up);
}

void forward_go_on(struct forward *c)
{
    pump_response(c);
}

void forward_fini(struct forward *c)
{
    upstream_close(move_ptr(&c->up));
}
