#include "tools/client.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/base/fiber.h"
#include "lib/http/upstream.h"
#include "tools/internal.h"

struct limit { /* outlives its ask until its timer is closed */
    uv_timer_t timer;
    struct ask *ask;
};

struct ask {
    struct tools *tools;
    struct limit *limit; /* NULL: none */
    struct upstream *up;
    /* The fiber to wake: the one that asks or reads now. It may be another fiber than the one that
     * opened the request, and may end before the answer does, so it is set only during a call. */
    struct fiber *fiber;
    struct buf in;   /* received and not read; with `lent` at most a window */
    struct buf lent; /* in the hands of who reads */
    struct str body; /* the rest to be sent */
    struct buf rest; /* holds it, when the answer begins before all is sent */
    int status;      /* 0: no answer yet */
    char next[CLIENT_TOKEN_BYTES];
    bool reused;
    bool ended;
    int error;
};

/* ---- connections ---- */

struct idle {
    struct tools *tools;
    struct upstream *up;
    struct idle *next;
};

static void idle_unlink(struct idle *idle)
{
    struct idle **at = &idle->tools->idle;

    while (*at != idle) {
        at = &(*at)->next;
    }
    *at = idle->next;
    idle->tools->idle_n--;
}

static void on_idle_gone(void *ctx)
{
    struct idle *idle = ctx;

    idle_unlink(idle);
    upstream_close(idle->up);
    free(idle);
}

static void idle_keep(struct tools *tools, struct upstream *up)
{
    if (tools->stopping || tools->idle_n >= CLIENT_IDLE_MAX) {
        upstream_close(up);
        return;
    }
    struct idle *idle = xnew(struct idle);
    *idle = (struct idle){tools, up, tools->idle};
    tools->idle = idle;
    tools->idle_n++;
    upstream_idle(up, on_idle_gone, idle);
}

static struct upstream *idle_take(struct tools *tools)
{
    struct idle *idle = tools->idle;

    if (!idle) {
        return NULL;
    }
    struct upstream *up = idle->up;
    idle_unlink(idle);
    upstream_idle(up, NULL, NULL);
    free(idle);
    return up;
}

void client_stop(struct tools *tools)
{
    for (struct upstream *up = idle_take(tools); up; up = idle_take(tools)) {
        upstream_close(up);
    }
}

static int dial(struct tools *tools, struct upstream **out, struct err *err)
{
    int fd = tools->options.dial(tools->options.ctx, err);

    return fd < 0 ? fd : upstream_new(tools->options.loop, fd, out, err);
}

/* ---- sending and receiving ---- */

static void ask_push(struct ask *ask)
{
    ask->body = upstream_write_some(ask->up, ask->body);
}

static void ask_wake(struct ask *ask)
{
    if (ask->fiber) {
        fiber_wake(ask->fiber);
    }
}

static void on_response(void *ctx, int status, const struct http_header *headers, size_t n,
                        int64_t content_length)
{
    struct ask *ask = ctx;

    (void)content_length;
    ask->status = status;
    for (size_t i = 0; i < n; i++) {
        if (str_ieq(headers[i].name, STR("x-next-token"))) {
            (void)str_copy(ask->next, sizeof(ask->next), headers[i].value);
        }
    }
    upstream_credit(ask->up, HTTP_WINDOW_BYTES);
    ask_wake(ask);
}

static void on_body(void *ctx, const void *data, size_t len)
{
    struct ask *ask = ctx;

    if (buf_append(&ask->in, data, len) < 0) {
        abort(); /* never more than the credit that was given */
    }
    ask_wake(ask);
}

static void on_credit(void *ctx)
{
    ask_push(ctx);
}

static void on_end(void *ctx, int error)
{
    struct ask *ask = ctx;

    ask->ended = true;
    ask->error = error;
    ask_wake(ask);
}

static const struct upstream_handler handler = {
    .on_response = on_response, .on_body = on_body, .on_credit = on_credit, .on_end = on_end};

/* ---- time limits ---- */

static void on_limit(uv_timer_t *timer)
{
    struct ask *ask = ((struct limit *)timer->data)->ask;

    if (!ask->ended) {
        ask->ended = true;
        ask->error = -ETIMEDOUT;
        ask_wake(ask);
    }
}

static void on_limit_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void ask_limit(struct ask *ask, int64_t ms)
{
    if (ask->limit) {
        uv_close((uv_handle_t *)&ask->limit->timer, on_limit_closed);
        ask->limit = NULL;
    }
    if (ms > 0) {
        ask->limit = xnew(struct limit);
        ask->limit->ask = ask;
        ask->limit->timer.data = ask->limit;
        (void)uv_timer_init(ask->tools->options.loop, &ask->limit->timer);
        (void)uv_timer_start(&ask->limit->timer, on_limit, (uint64_t)ms, 0);
    }
}

/* Why the answer ended early. */
static int ask_cut(const struct ask *ask, const char *what, struct err *err)
{
    return ask->error == -ETIMEDOUT ? err_set(err, ETIMEDOUT, "%s: it took too long", what)
                                    : err_set(err, EIO, "%s: %s", what, strerror(-ask->error));
}

/* ---- asking ---- */

static int ask_wait(struct err *err)
{
    return fiber_park() < 0 ? call_was_cancelled(err) : 0;
}

static void ask_send(struct ask *ask, const struct ask_plan *plan)
{
    struct http_header headers[CLIENT_HEADERS_MAX + 1] = {{STR("host"), STR("localhost")}};

    assert(plan->headers_n <= CLIENT_HEADERS_MAX);
    for (size_t i = 0; i < plan->headers_n; i++) {
        headers[i + 1] = plan->headers[i];
    }
    ask->body = plan->body;
    upstream_send(ask->up, str_of(plan->method), str_of(plan->target), headers, plan->headers_n + 1,
                  (int64_t)plan->body.len, false, &handler, ask);
    ask_push(ask);
}

/* The answer has begun before the whole request was sent: the rest is sent while the answer is
 * read. */
static int ask_keep_rest(struct ask *ask, struct err *err)
{
    buf_init(&ask->rest, ask->body.len + 1);
    if (buf_append(&ask->rest, ask->body.at, ask->body.len) < 0) {
        return err_set(err, ENOMEM, "no memory for a request of %zu bytes", ask->body.len);
    }
    ask->body = buf_str(&ask->rest);
    return 0;
}

static int ask_exchange(struct ask *ask, const struct ask_plan *plan, struct err *err)
{
    int r = 0;

    ask->fiber = fiber_self();
    ask_send(ask, plan);
    while (r == 0 && ask->status == 0 && !ask->ended) {
        r = ask_wait(err);
    }
    ask->fiber = NULL;
    if (r == 0 && ask->status == 0) {
        r = ask_cut(ask, "the daemon gave no answer", err);
    }
    return r == 0 && ask->body.len > 0 ? ask_keep_rest(ask, err) : r;
}

static bool was_closed_idle(const struct ask *ask)
{
    return ask->reused && ask->ended && ask->status == 0 && ask->error != -ETIMEDOUT;
}

static struct ask *ask_new(struct tools *tools)
{
    struct ask *ask = xnew(struct ask);

    ask->tools = tools;
    buf_init(&ask->in, HTTP_WINDOW_BYTES);
    buf_init(&ask->lent, HTTP_WINDOW_BYTES);
    return ask;
}

static int ask_try(struct tools *tools, const struct ask_plan *plan, bool fresh, struct ask **out,
                   struct err *err)
{
    struct ask *ask = ask_new(tools);
    int r = 0;

    ask->up = fresh ? NULL : idle_take(tools);
    ask->reused = ask->up != NULL;
    if (!ask->up) {
        r = dial(tools, &ask->up, err);
    }
    if (r == 0) {
        ask_limit(ask, plan->limit_ms);
        r = ask_exchange(ask, plan, err);
    }
    if (r < 0) {
        bool again = was_closed_idle(ask);
        ask_close(ask);
        return again ? -EAGAIN : r;
    }
    *out = ask;
    return 0;
}

int ask_open(struct tools *tools, const struct ask_plan *plan, struct ask **out, struct err *err)
{
    int r = ask_try(tools, plan, false, out, err);

    return r == -EAGAIN ? ask_try(tools, plan, true, out, err) : r;
}

int ask_status(const struct ask *ask)
{
    return ask->status;
}

const char *ask_next(const struct ask *ask)
{
    return ask->next;
}

/* More bytes may arrive while a piece is in use: they go into the other buffer. */
static void ask_swap(struct ask *ask)
{
    struct buf used = ask->lent;

    if (buf_len(&used) > 0 && !ask->ended) {
        upstream_credit(ask->up, buf_len(&used));
    }
    buf_clear(&used);
    ask->lent = ask->in;
    ask->in = used;
}

static int read_piece(struct ask *ask, struct str *piece, struct err *err)
{
    ask_swap(ask);
    while (buf_len(&ask->lent) == 0) {
        if (ask->ended) {
            return ask->error < 0 ? ask_cut(ask, "the answer was cut off", err) : 0;
        }
        int r = ask_wait(err);
        if (r < 0) {
            return r;
        }
        ask_swap(ask);
    }
    *piece = buf_str(&ask->lent);
    return 1;
}

int ask_read(struct ask *ask, struct str *piece, struct err *err)
{
    ask->fiber = fiber_self();
    int r = read_piece(ask, piece, err);
    ask->fiber = NULL;
    return r;
}

int ask_gather(struct ask *ask, struct buf *out, struct err *err)
{
    struct str piece = {0};
    int r;

    while ((r = ask_read(ask, &piece, err)) > 0) {
        if (buf_append(out, piece.at, piece.len) < 0) {
            return err_set(err, EMSGSIZE, "the answer is longer than %zu bytes", out->max);
        }
    }
    return r;
}

void ask_close(struct ask *ask)
{
    if (!ask) {
        return;
    }
    ask_limit(ask, 0);
    if (ask->up && ask->ended && ask->error == 0 && upstream_reusable(ask->up)) {
        idle_keep(ask->tools, ask->up);
    } else {
        upstream_close(ask->up);
    }
    buf_fini(&ask->in);
    buf_fini(&ask->lent);
    buf_fini(&ask->rest);
    free(ask);
}
