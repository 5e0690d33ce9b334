#include "lib/http/fetch.h"

#include <errno.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/http/upstream.h"

struct limit { /* outlives its fetch until the timer is closed */
    uv_timer_t timer;
    struct fetch *fetch;
};

struct fetch {
    struct upstream *up;
    struct limit *limit; /* NULL: there is no time limit */
    struct str body;     /* not sent yet */
    struct buf answer;
    int status;
    fetch_done *done;
    void *ctx;
};

static void on_limit_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void fetch_cancel(struct fetch *fetch)
{
    if (!fetch) {
        return;
    }
    upstream_close(fetch->up);
    if (fetch->limit) {
        uv_close((uv_handle_t *)&fetch->limit->timer, on_limit_closed);
    }
    buf_fini(&fetch->answer);
    free(fetch);
}

static void finish(struct fetch *fetch, int error)
{
    upstream_close(move_ptr(&fetch->up));
    fetch->done(fetch->ctx, &(struct fetch_answer){.error = error,
                                                   .status = fetch->status,
                                                   .body = buf_str(&fetch->answer)});
    fetch_cancel(fetch);
}

static void on_limit(uv_timer_t *timer)
{
    const struct limit *limit = timer->data;

    finish(limit->fetch, -ETIMEDOUT);
}

static void on_response(void *ctx, int status, const struct http_header *headers, size_t n,
                        int64_t content_length)
{
    struct fetch *fetch = ctx;

    (void)headers, (void)n, (void)content_length;
    fetch->status = status;
    upstream_credit(fetch->up, HTTP_WINDOW_BYTES);
}

static void on_body(void *ctx, const void *data, size_t len)
{
    struct fetch *fetch = ctx;

    if (buf_append(&fetch->answer, data, len) < 0) {
        finish(fetch, -ENOBUFS);
        return;
    }
    upstream_credit(fetch->up, len);
}

static void on_end(void *ctx, int error)
{
    finish(ctx, error);
}

static void body_send(void *ctx)
{
    struct fetch *fetch = ctx;

    fetch->body = upstream_write_some(fetch->up, fetch->body);
}

static const struct upstream_handler handler = {
    .on_response = on_response, .on_body = on_body, .on_credit = body_send, .on_end = on_end};

static void limit_set(struct fetch *fetch, uv_loop_t *loop, uint64_t timeout_ms)
{
    struct limit *limit = xnew(struct limit);

    limit->fetch = fetch;
    limit->timer.data = limit;
    (void)uv_timer_init(loop, &limit->timer);
    (void)uv_timer_start(&limit->timer, on_limit, timeout_ms, 0);
    fetch->limit = limit;
}

int fetch_start(uv_loop_t *loop, int fd, const struct fetch_request *request, fetch_done *done,
                void *ctx, struct fetch **out, struct err *err)
{
    struct upstream *up = NULL;
    int r = upstream_new(loop, fd, &up, err);

    if (r < 0) {
        return r;
    }
    struct fetch *fetch = xnew(struct fetch);
    *fetch = (struct fetch){.up = up, .body = request->body, .done = done, .ctx = ctx};
    buf_init(&fetch->answer, request->answer_bytes_max);
    if (request->timeout_ms) {
        limit_set(fetch, loop, request->timeout_ms);
    }
    upstream_send(up, request->method, request->target, request->headers, request->headers_n,
                  (int64_t)request->body.len, false, &handler, fetch);
    body_send(fetch);
    *out = fetch;
    return 0;
}
