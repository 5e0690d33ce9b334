#include "inside/interpreter/execution.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "inside/interpreter/context.h"
#include "inside/interpreter/lifetime.h"
#include "inside/interpreter/result.h"
#include "lib/base/alloc.h"

enum {
    NOTE_BYTES_MAX = 160,
};

static void flush(struct execution *e);
static void execution_free(struct execution *e);

static int out_append(const char *buffer, size_t size, void *data)
{
    return buf_append(data, buffer, size) < 0 ? -1 : 0;
}

/* A line that does not fit is left out whole. */
static bool line_add(struct execution *e, const json_t *line)
{
    size_t end = buf_len(&e->out);

    if (json_dump_callback(line, out_append, &e->out, JSON_COMPACT) == 0 &&
        buf_append(&e->out, "\n", 1) == 0) {
        return true;
    }
    e->left_out_bytes += json_string_length(json_object_get(line, "text"));
    e->out.end = e->out.start + end;
    return false;
}

static void left_out_tell(struct execution *e)
{
    char note[NOTE_BYTES_MAX];
    int n = snprintf(note, sizeof(note),
                     "\n[output was left out here: more than %d MiB waited for the client]\n",
                     EXECUTION_KEPT_BYTES_MAX >> 20);
    json_auto_t *line = text_make(true, (struct str){note, (size_t)n}, NULL);

    if (e->left_out_bytes && line_add(e, line)) {
        e->left_out_bytes = 0;
    }
}

void execution_line(struct execution *e, json_t *line)
{
    if (e->ex) {
        left_out_tell(e);
        (void)line_add(e, line);
        flush(e);
        (void)uv_timer_again(&e->keepalive);
    }
    json_decref(line);
}

void execution_error(struct execution *e, const char *name, const char *value, struct str last)
{
    execution_line(e, error_make(str_of(name), str_of(value), last));
}

void execution_end(struct execution *e)
{
    e->context = NULL;
    if (!e->ex) {
        execution_free(e);
        return;
    }
    (void)uv_timer_stop(&e->keepalive);
    e->out.max = 2 * (size_t)EXECUTION_KEPT_BYTES_MAX; /* the last line always fits */
    left_out_tell(e);
    json_auto_t *line = json_pack("{s:s}", "type", "end_of_execution");
    (void)line_add(e, line);
    e->ended = true;
    flush(e);
}

bool execution_is_full(const struct execution *e)
{
    return buf_len(&e->out) > EXECUTION_HIGH_BYTES;
}

static void flush(struct execution *e)
{
    buf_consume(&e->out, http_write_some(e->ex, buf_at(&e->out), buf_len(&e->out)));
    if (e->ended && buf_len(&e->out) == 0) {
        http_finish(e->ex);
    }
}

static void on_keepalive(uv_timer_t *timer)
{
    struct execution *e = container_of(timer, struct execution, keepalive);

    if (buf_len(&e->out) == 0) {
        json_auto_t *line = json_pack("{s:s}", "type", "keepalive");
        (void)line_add(e, line);
        flush(e);
    }
}

/* ---- the exchange ---- */

static void on_credit(void *ctx)
{
    struct execution *e = ctx;

    if (!e->begun) {
        return;
    }
    flush(e);
    if (e->context && !execution_is_full(e)) {
        context_credit(e->context, e);
    }
}

static void whole_tell(struct execution *e, int error)
{
    void (*on_whole)(void *, struct execution *, int) = e->on_whole;

    e->on_whole = NULL;
    if (on_whole) {
        on_whole(e->ctx, e, error);
    }
    buf_fini(&e->body);
    buf_init(&e->body, 1);
}

static void on_body(void *ctx, const void *data, size_t len)
{
    struct execution *e = ctx;

    if (e->on_whole && buf_append(&e->body, data, len) < 0) {
        whole_tell(e, -EMSGSIZE);
    } else {
        http_credit(e->ex, len);
    }
}

static void on_body_end(void *ctx)
{
    whole_tell(ctx, 0);
}

static void on_closed(uv_handle_t *handle)
{
    struct execution *e = container_of((uv_timer_t *)handle, struct execution, keepalive);

    buf_fini(&e->body);
    buf_fini(&e->out);
    json_decref(e->request);
    free(e);
}

static void execution_free(struct execution *e)
{
    uv_close((uv_handle_t *)&e->keepalive, on_closed);
}

/* The client did not leave: its connection was not saved with the sandbox. The cell goes on. */
static void execution_orphan(struct execution *e)
{
    e->ex = NULL;
    (void)uv_timer_stop(&e->keepalive);
    buf_clear(&e->out);
    context_credit(e->context, e);
}

static void on_end(void *ctx, int error)
{
    struct execution *e = ctx;

    (void)error;
    if (e->context && e->began != lifetime_began()) {
        execution_orphan(e);
        return;
    }
    if (e->context) {
        context_leave(e->context, e);
    }
    execution_free(e);
}

static const struct http_handler handler = {
    .needs_peer = true,
    .on_body = on_body,
    .on_body_end = on_body_end,
    .on_credit = on_credit,
    .on_end = on_end,
};

void execution_accept(uv_loop_t *loop, struct http_exchange *ex,
                      void (*on_whole)(void *ctx, struct execution *e, int error), void *ctx)
{
    struct execution *e = xnew(struct execution);

    e->ex = ex;
    e->on_whole = on_whole;
    e->ctx = ctx;
    buf_init(&e->body, EXECUTION_BODY_BYTES_MAX);
    buf_init(&e->out, EXECUTION_KEPT_BYTES_MAX);
    (void)uv_timer_init(loop, &e->keepalive);
    http_accept(ex, &handler, e);
    http_credit(ex, HTTP_WINDOW_BYTES);
}

struct str execution_token(const struct execution *e)
{
    return e->ex ? http_header_get(http_request(e->ex), "x-access-token") : (struct str){0};
}

void execution_refuse(struct execution *e, int status, const char *why)
{
    http_reply(e->ex, status, "text/plain; charset=utf-8", why, strlen(why));
}

void execution_begin(struct execution *e)
{
    struct http_header type = {STR("content-type"), STR("application/x-ndjson")};

    e->began = lifetime_began();
    http_respond(e->ex, 200, &type, 1, -1);
    e->begun = true;
    (void)uv_timer_start(&e->keepalive, on_keepalive, KEEPALIVE_MS, KEEPALIVE_MS);
}
