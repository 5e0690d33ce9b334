#include "inside/interpreter/execution.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "inside/interpreter/context.h"
#include "inside/interpreter/lifetime.h"
#include "inside/interpreter/result.h"
#include "lib/base/alloc.h"

enum {
    NOTE_BYTES_MAX = 160,
};

/* An exchange, and the execution that answers it. */
struct client {
    struct execution *e; /* NULL: it has another client by now */
};

static struct execution *named; /* the executions with an id */

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
    if (e->ex || e->lost) {
        left_out_tell(e);
        (void)line_add(e, line);
    }
    if (e->ex) {
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
    if (!e->ex && !e->lost) {
        execution_free(e);
        return;
    }
    if (e->ex) {
        (void)uv_timer_stop(&e->keepalive);
    }
    e->out.max = 2 * (size_t)EXECUTION_KEPT_BYTES_MAX; /* the last line always fits */
    left_out_tell(e);
    json_auto_t *line = json_pack("{s:s}", "type", "end_of_execution");
    (void)line_add(e, line);
    e->ended = true;
    if (e->ex) {
        flush(e);
    }
}

bool execution_is_full(const struct execution *e)
{
    return buf_len(&e->out) > EXECUTION_HIGH_BYTES;
}

/* The content is moved once for EXECUTION_SENT_BYTES, not for every line. */
static void sent_keep(struct execution *e, struct str data)
{
    if (!e->id[0]) {
        return;
    }
    e->sent_bytes += data.len;
    if (data.len > EXECUTION_SENT_BYTES) {
        data = str_skip(data, data.len - EXECUTION_SENT_BYTES);
        buf_clear(&e->sent);
    }
    if (buf_len(&e->sent) + data.len > e->sent.max) {
        buf_consume(&e->sent, buf_len(&e->sent) - EXECUTION_SENT_BYTES);
    }
    if (buf_append(&e->sent, data.at, data.len) < 0) {
        abort(); /* its maximum is twice that */
    }
}

static void flush(struct execution *e)
{
    size_t n = http_write_some(e->ex, buf_at(&e->out), buf_len(&e->out));

    sent_keep(e, (struct str){buf_at(&e->out), n});
    buf_consume(&e->out, n);
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
    struct execution *e = ((struct client *)ctx)->e;

    if (!e || !e->begun) {
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
    struct execution *e = ((struct client *)ctx)->e;

    if (!e) {
        return;
    }
    if (e->on_whole && buf_append(&e->body, data, len) < 0) {
        whole_tell(e, -EMSGSIZE);
    } else {
        http_credit(e->ex, len);
    }
}

static void on_body_end(void *ctx)
{
    struct execution *e = ((struct client *)ctx)->e;

    if (e) {
        whole_tell(e, 0);
    }
}

static void on_closed(uv_handle_t *handle)
{
    struct execution *e = container_of((uv_timer_t *)handle, struct execution, keepalive);

    buf_fini(&e->body);
    buf_fini(&e->out);
    buf_fini(&e->sent);
    json_decref(e->request);
    free(e);
}

static void execution_free(struct execution *e)
{
    if (e->id[0]) {
        DL_DELETE2(named, e, named_prev, named_next);
    }
    uv_close((uv_handle_t *)&e->keepalive, on_closed);
}

/* The client did not leave: its connection was not saved with the sandbox. The cell goes on. */
static void execution_orphan(struct execution *e)
{
    e->lost = false;
    (void)uv_timer_stop(&e->keepalive);
    buf_clear(&e->out);
    context_credit(e->context, e);
}

/* The time does not count while the sandbox is paused: a restored process has another beginning. */
static void on_awaited(uv_timer_t *timer)
{
    struct execution *e = container_of(timer, struct execution, keepalive);

    if (e->began != lifetime_began()) {
        e->began = lifetime_began();
        (void)uv_timer_start(timer, on_awaited, EXECUTION_AWAIT_MS, 0);
    } else if (e->context) {
        execution_orphan(e);
    } else {
        execution_free(e);
    }
}

static bool is_kept(const struct execution *e)
{
    return e->lost && !e->context;
}

void executions_forget(void)
{
    struct execution *e, *next;

    DL_FOREACH_SAFE2 (named, e, next, named_next) {
        if (is_kept(e)) {
            execution_free(e);
        }
    }
}

/* Frees the oldest executions that have ended, as far as they are too many or too large. */
static void ended_limit(void)
{
    struct execution *e, *next;
    size_t n = 0, bytes = 0;

    DL_FOREACH2 (named, e, named_next) {
        n += is_kept(e);
        bytes += is_kept(e) ? buf_len(&e->out) + buf_len(&e->sent) : 0;
    }
    DL_FOREACH_SAFE2 (named, e, next, named_next) {
        if (n <= EXECUTIONS_ENDED_MAX && bytes <= EXECUTIONS_ENDED_BYTES_MAX) {
            return;
        }
        if (is_kept(e)) {
            n--;
            bytes -= buf_len(&e->out) + buf_len(&e->sent);
            execution_free(e);
        }
    }
}

static void execution_lose(struct execution *e)
{
    e->lost = true;
    e->began = lifetime_began();
    (void)uv_timer_start(&e->keepalive, on_awaited, EXECUTION_AWAIT_MS, 0);
    if (!e->context) {
        json_decref(move_ptr(&e->request));
        ended_limit();
    }
}

static void on_end(void *ctx, int error)
{
    struct client *client = ctx;
    struct execution *e = client->e;

    free(client);
    if (!e) {
        return;
    }
    e->ex = NULL;
    e->client = NULL;
    bool restored = e->begun && e->began != lifetime_began();
    if (e->id[0] && e->begun && (restored || (e->ended && error == 0))) {
        execution_lose(e);
    } else if (e->context && restored) {
        execution_orphan(e);
    } else {
        if (e->context) {
            context_leave(e->context, e);
        }
        execution_free(e);
    }
}

static const struct http_handler handler = {
    .needs_peer = true,
    .on_body = on_body,
    .on_body_end = on_body_end,
    .on_credit = on_credit,
    .on_end = on_end,
};

static void client_take(struct execution *e, struct http_exchange *ex)
{
    struct client *client = xnew(struct client);

    client->e = e;
    e->ex = ex;
    e->client = client;
    http_accept(ex, &handler, client);
}

static struct execution *named_find(struct str id)
{
    struct execution *e;

    DL_FOREACH2 (named, e, named_next) {
        if (str_eq(id, str_of(e->id))) {
            return e;
        }
    }
    return NULL;
}

/* The daemon's name for it, if it has one that no other execution has. */
static void name_take(struct execution *e, const struct http_request *request)
{
    struct str id = http_header_get(request, EXECUTION_HEADER);

    if (id.len == EXECUTION_ID_LEN && !named_find(id) && str_copy(e->id, sizeof(e->id), id)) {
        DL_APPEND2(named, e, named_prev, named_next);
    }
}

void execution_accept(uv_loop_t *loop, struct http_exchange *ex,
                      void (*on_whole)(void *ctx, struct execution *e, int error), void *ctx)
{
    struct execution *e = xnew(struct execution);

    e->on_whole = on_whole;
    e->ctx = ctx;
    name_take(e, http_request(ex));
    buf_init(&e->sent, 2 * (size_t)EXECUTION_SENT_BYTES);
    buf_init(&e->body, EXECUTION_BODY_BYTES_MAX);
    buf_init(&e->out, EXECUTION_KEPT_BYTES_MAX);
    (void)uv_timer_init(loop, &e->keepalive);
    client_take(e, ex);
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

static void answer_begin(struct execution *e)
{
    struct http_header headers[] = {{STR("content-type"), STR("application/x-ndjson")},
                                    {STR(EXECUTION_HEADER), str_of(e->id)}};

    e->began = lifetime_began();
    http_respond(e->ex, 200, headers, e->id[0] ? 2 : 1, -1);
    if (!e->ended) {
        (void)uv_timer_start(&e->keepalive, on_keepalive, KEEPALIVE_MS, KEEPALIVE_MS);
    } else {
        (void)uv_timer_stop(&e->keepalive);
    }
}

void execution_begin(struct execution *e)
{
    e->begun = true;
    answer_begin(e);
}

/* ---- after a pause ---- */

/* Queues again all bytes that were sent after the first `from`. */
static void rewind_to(struct execution *e, uint64_t from)
{
    size_t again = (size_t)(e->sent_bytes - from);
    const char *at = buf_at(&e->sent) + buf_len(&e->sent) - again;
    struct buf out;

    buf_init(&out, e->out.max + e->sent.max);
    if (buf_append(&out, at, again) < 0 ||
        buf_append(&out, buf_at(&e->out), buf_len(&e->out)) < 0) {
        abort(); /* its maximum is that of both */
    }
    buf_fini(&e->out);
    e->out = out;
    e->sent.end -= again;
    e->sent_bytes = from;
}

bool execution_rejoin(struct http_exchange *ex, struct str id, uint64_t from)
{
    struct execution *e = named_find(id);

    if (!e || !e->begun || !(e->lost || e->began != lifetime_began()) || from > e->sent_bytes ||
        e->sent_bytes - from > buf_len(&e->sent)) {
        return false;
    }
    if (e->ex) { /* of before the pause: its end has not been noticed yet */
        e->client->e = NULL;
        http_abort(e->ex, -ECONNRESET);
    }
    e->lost = false;
    rewind_to(e, from);
    client_take(e, ex);
    answer_begin(e);
    flush(e);
    if (e->context && !execution_is_full(e)) {
        context_credit(e->context, e);
    }
    return true;
}
