/* exchange.c - the handler's side of an exchange: the rules that hold for every protocol. */
#include <assert.h>
#include <errno.h>

#include "lib/http/internal.h"

enum {
    ALSO_MAX = 8,
};

const struct http_request *http_request(const struct http_exchange *ex)
{
    return &ex->request;
}

void http_accept(struct http_exchange *ex, const struct http_handler *handler, void *ctx)
{
    assert(!ex->handler && handler->on_end);
    ex->handler = handler;
    ex->ctx = ctx;
}

void http_credit(struct http_exchange *ex, size_t bytes)
{
    if (ex->over || bytes == 0) {
        return;
    }
    ex->credit = bytes > SIZE_MAX - ex->credit ? SIZE_MAX : ex->credit + bytes;
    ex->ops->credit(ex);
}

static void give_back(struct http_exchange *ex)
{
    void (*release)(void *ctx) = ex->release;

    ex->release = NULL;
    if (release) {
        release(ex->release_ctx);
    }
}

void http_charge(struct http_exchange *ex, void (*release)(void *ctx), void *ctx)
{
    give_back(ex);
    ex->release = release;
    ex->release_ctx = ctx;
}

void http_also(struct http_exchange *ex, const struct http_header *headers, size_t n)
{
    assert(!ex->handler && n <= ALSO_MAX);
    ex->also = headers;
    ex->also_n = n;
}

/* The response's headers and those the exchange was given before. */
static void respond_also(struct http_exchange *ex, const struct http_header *headers, size_t n,
                         int64_t content_length)
{
    struct http_header all[ALSO_MAX + HTTP_HEADERS_MAX];

    if (n > HTTP_HEADERS_MAX) {
        http_abort(ex, -EMSGSIZE);
        return;
    }
    for (size_t i = 0; i < ex->also_n; i++) {
        all[i] = ex->also[i];
    }
    for (size_t i = 0; i < n; i++) {
        all[ex->also_n + i] = headers[i];
    }
    ex->ops->respond(ex, all, ex->also_n + n, content_length);
}

void http_respond(struct http_exchange *ex, int status, const struct http_header *headers, size_t n,
                  int64_t content_length)
{
    ex->answered = true;
    if (ex->over) {
        return;
    }
    assert(ex->handler && ex->status == 0);
    bool tunnel = status == 101 && ex->request.upgrade && ex->handler->tunnels;
    if (status < 200 ? !tunnel : status > 999) {
        http_abort(ex, -EPROTO);
        return;
    }
    ex->status = status;
    if (ex->also_n > 0) {
        respond_also(ex, headers, n, content_length);
    } else {
        ex->ops->respond(ex, headers, n, content_length);
    }
}

void http_write_parts(struct http_exchange *ex, const struct str *parts, size_t n)
{
    size_t len = 0;

    assert(n <= HTTP_PARTS_MAX);
    for (size_t i = 0; i < n; i++) {
        len += parts[i].len;
    }
    if (ex->over || len == 0) {
        return;
    }
    assert(ex->status && !ex->finished);
    ex->bytes_out += len;
    ex->ops->write(ex, parts, n, len);
    if (http_writable(ex) == 0) {
        ex->blocked = true;
    }
}

void http_write(struct http_exchange *ex, const void *data, size_t len)
{
    http_write_parts(ex, &(struct str){data, len}, 1);
}

size_t http_writable(const struct http_exchange *ex)
{
    size_t pending = ex->over ? HTTP_WINDOW_BYTES : ex->ops->pending(ex);

    return pending < HTTP_WINDOW_BYTES ? HTTP_WINDOW_BYTES - pending : 0;
}

/* Bytes that the socket takes at once bring no credit, so there is another turn after each. */
size_t http_write_some(struct http_exchange *ex, const void *data, size_t len)
{
    size_t done = 0, room;

    while (done < len && (room = http_writable(ex)) > 0) {
        size_t n = len - done < room ? len - done : room;

        http_write(ex, (const char *)data + done, n);
        done += n;
    }
    return done;
}

bool http_takes_pipe(const struct http_exchange *ex)
{
    return !ex->over && ex->status && ex->ops->takes_pipe && ex->ops->takes_pipe(ex);
}

size_t http_splice(struct http_exchange *ex, int pipe, size_t len)
{
    if (ex->over || len == 0) {
        return 0;
    }
    assert(http_takes_pipe(ex) && !ex->finished);
    size_t done = ex->ops->splice(ex, pipe, len);
    ex->bytes_out += done;
    ex->blocked = ex->blocked || done < len;
    return done;
}

void http_trailers(struct http_exchange *ex, const struct http_header *headers, size_t n)
{
    if (!ex->over && !ex->finished && ex->ops->trailers) {
        assert(ex->status);
        ex->ops->trailers(ex, headers, n);
    }
}

void http_finish(struct http_exchange *ex)
{
    if (ex->over || ex->finished) {
        return;
    }
    assert(ex->status);
    ex->finished = true;
    ex->ops->finish(ex);
}

void http_abort(struct http_exchange *ex, int error)
{
    if (!ex->over) {
        ex->ops->abort(ex, error);
    }
}

void http_exchange_fail(struct http_exchange *ex, int error)
{
    if (!ex->over) {
        ex->over = true;
        ex->error = error;
    }
}

static void tell_watch(struct http_exchange *ex)
{
    const struct http_carried carried = {ex->status, ex->error, ex->bytes_in, ex->bytes_out};
    struct http_note *note = ex->note;

    ex->note = NULL;
    if (note) {
        ex->noted(note, &ex->request, &carried);
    }
}

void http_exchange_end(struct http_exchange *ex)
{
    assert(ex->over && ex->handler);
    ex->handler->on_end(ex->ctx, ex->error);
    tell_watch(ex);
    give_back(ex);
}

void http_exchange_body(struct http_exchange *ex, const char *data, size_t len)
{
    assert(len <= ex->credit);
    ex->credit -= len;
    ex->bytes_in += len;
    if (ex->handler->on_body && len) {
        ex->handler->on_body(ex->ctx, data, len);
    }
}

void http_exchange_body_end(struct http_exchange *ex)
{
    if (!ex->over && ex->handler->on_body_end) {
        ex->handler->on_body_end(ex->ctx);
    }
}

void http_exchange_unblock(struct http_exchange *ex)
{
    if (ex->over || !ex->blocked || ex->ops->pending(ex) > HTTP_WINDOW_BYTES / 2) {
        return;
    }
    ex->blocked = false;
    if (ex->handler->on_credit) {
        ex->handler->on_credit(ex->ctx);
    }
}

bool http_exchange_stalled(struct http_exchange *ex, bool owed, int64_t now_ms, uint32_t stall_ms)
{
    size_t pending = ex->ops->pending(ex);

    if (pending != ex->moved_pending || (pending == 0 && !owed)) {
        ex->moved_pending = pending;
        ex->moved_ms = now_ms;
    }
    return stall_ms > 0 && now_ms - ex->moved_ms >= stall_ms;
}

/* ---- notes ---- */

void http_watch(struct http_exchange *ex, struct http_note *note,
                void (*ended)(struct http_note *note, const struct http_request *req,
                              const struct http_carried *carried))
{
    assert(!ex->handler && !ex->note);
    ex->note = note;
    ex->noted = ended;
}

struct http_note *http_note(const struct http_exchange *ex)
{
    return ex->note;
}

void http_note_account(struct http_exchange *ex, const char *team, const char *key)
{
    if (ex->note) {
        (void)str_copy(ex->note->team, sizeof(ex->note->team), str_of(team));
        (void)str_copy(ex->note->key, sizeof(ex->note->key), str_of(key));
    }
}

void http_note_sandbox(struct http_exchange *ex, const char *id, uint16_t port)
{
    if (ex->note) {
        (void)str_copy(ex->note->sandbox, sizeof(ex->note->sandbox), str_of(id));
        ex->note->port = port;
    }
}

struct trace_place http_note_trace(const struct http_exchange *ex)
{
    return ex->note ? ex->note->trace : (struct trace_place){0};
}
