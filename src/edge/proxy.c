/* proxy.c - one request through the edge.
 *
 *      client ◄── http_exchange ──┤ proxy ├── upstream ──► service in the jail
 *
 * Nothing is gathered: each side is given as much credit as the other can take, so a slow reader
 * stops the writer behind it. Whoever goes away first takes the other side along: a client that
 * leaves closes the connection to the service, and a service that breaks off, or a sandbox that
 * ends, resets the client.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "agent/channel.h"
#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "edge/internal.h"

struct dialing;

struct proxy {
    struct proxy *prev, *next;
    struct edge *edge;
    struct backend *backend;  /* NULL: the sandbox is gone */
    struct http_exchange *ex; /* NULL: over */
    struct upstream *up;      /* NULL: none yet, or over */
    struct dialing *dialing;
    uv_timer_t timer; /* between two tries */
    char id[ID_SANDBOX_LEN + 1];
    uint16_t port;
    int tries;
    bool reused;           /* up has served another request before */
    bool body_taken;       /* part of the request's body was read, so it cannot be sent again */
    bool request_ended;    /* the client has sent all */
    bool request_finished; /* so the service was told */
    bool answered;         /* http_respond() was called */
    bool answer_ended;
    size_t request_credit; /* bytes the client may send and has not */
    size_t answer_credit;  /* bytes the service may send and has not */
};

/* Outlives a proxy that could not wait. */
struct dialing {
    struct proxy *proxy; /* NULL: nobody waits */
};

static void proxy_connect(struct proxy *p);

/* ---- the end ---- */

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void proxy_free(struct proxy *p)
{
    if (p->dialing) {
        p->dialing->proxy = NULL;
    }
    upstream_close(p->up);
    if (p->backend) {
        DL_DELETE(p->backend->proxies, p);
        p->backend->proxies_n--;
        backend_check(p->backend);
    }
    uv_close((uv_handle_t *)&p->timer, on_timer_closed);
}

static void proxy_fail(struct proxy *p, enum edge_error error)
{
    if (p->ex && !p->answered) {
        p->answered = p->answer_ended = true;
        edge_fail(p->edge, p->ex, error, str_of(p->id), p->port);
    } else if (p->ex && !p->answer_ended) {
        p->answer_ended = true;
        http_abort(p->ex, -ECONNRESET);
    }
}

void proxy_gone(struct proxy *p)
{
    p->backend = NULL;
    if (p->dialing) {
        p->dialing->proxy = NULL;
        p->dialing = NULL;
    }
    (void)uv_timer_stop(&p->timer);
    upstream_close(move_ptr(&p->up));
    proxy_fail(p, EDGE_ERROR_NOT_FOUND);
    if (!p->ex) {
        proxy_free(p);
    }
}

void proxy_pausing(struct proxy *p)
{
    if (p->port == AGENT_PORT && p->up) {
        return;
    }
    if (p->dialing) {
        p->dialing->proxy = NULL;
        p->dialing = NULL;
    }
    (void)uv_timer_stop(&p->timer);
    upstream_close(move_ptr(&p->up));
    proxy_fail(p, EDGE_ERROR_CHANGING);
    if (!p->ex) {
        proxy_free(p);
    }
}

struct proxy *proxy_next(struct proxy *p)
{
    return p->next;
}

/* ---- request: client to service ---- */

static void pump_request(void *ctx)
{
    struct proxy *p = ctx;
    size_t room = p->up ? upstream_writable(p->up) : 0;

    if (!p->ex || p->request_ended || (!p->answered && http_request(p->ex)->upgrade)) {
        return; /* raw bytes wait until the service has agreed to take them */
    }
    if (room > p->request_credit) {
        size_t more = room - p->request_credit;
        p->request_credit = room;
        http_credit(p->ex, more);
    }
}

static void finish_request(struct proxy *p)
{
    if (p->up && !p->request_finished) {
        p->request_finished = true;
        upstream_finish(p->up);
    }
}

static void on_request_body(void *ctx, const void *data, size_t len)
{
    struct proxy *p = ctx;

    p->body_taken = true;
    p->request_credit -= len;
    if (p->up) {
        upstream_write(p->up, data, len);
        pump_request(p);
    }
}

static void on_request_end(void *ctx)
{
    struct proxy *p = ctx;

    p->request_ended = true;
    finish_request(p);
}

/* ---- response: service to client ---- */

static void pump_response(void *ctx)
{
    struct proxy *p = ctx;
    size_t room = p->ex ? http_writable(p->ex) : 0;

    if (p->up && p->answered && room > p->answer_credit) {
        size_t more = room - p->answer_credit;
        p->answer_credit = room;
        upstream_credit(p->up, more);
    }
}

static void on_response(void *ctx, int status, const struct http_header *headers, size_t n,
                        int64_t content_length)
{
    struct proxy *p = ctx;
    scoped(headers_fini) struct headers out;

    p->edge->outcomes[EDGE_PASSED]++;
    p->answered = true;
    headers_response(&out, headers, n, status == 101);
    http_respond(p->ex, status, out.list, out.n, content_length);
    if (status != 101 && http_request(p->ex)->upgrade) {
        finish_request(p); /* the upgrade was refused: no more will be said */
    }
    pump_response(p);
    pump_request(p);
}

static void on_response_body(void *ctx, const void *data, size_t len)
{
    struct proxy *p = ctx;

    p->answer_credit -= len;
    http_write(p->ex, data, len);
    pump_response(p);
}

static void on_response_end(void *ctx)
{
    struct proxy *p = ctx;

    p->answer_ended = true;
    http_finish(p->ex);
}

/* ---- either side is over ---- */

static bool may_retry(const struct proxy *p)
{
    return p->ex && p->backend && !p->backend->pausing && p->reused && !p->answered &&
           !p->body_taken;
}

static void on_upstream_end(void *ctx, int error)
{
    struct proxy *p = ctx;
    struct upstream *up = move_ptr(&p->up);

    if (error == 0 && p->backend && !p->backend->pausing && p->port == AGENT_PORT &&
        p->request_finished && upstream_reusable(up)) {
        backend_keep(p->backend, up);
    } else {
        upstream_close(up);
    }
    if (!p->ex) {
        proxy_free(p);
    } else if (error < 0 && may_retry(p)) {
        proxy_connect(p);
    } else if (!p->answer_ended) {
        proxy_fail(p, EDGE_ERROR_NO_ANSWER);
    }
}

static void on_exchange_end(void *ctx, int error)
{
    struct proxy *p = ctx;

    p->ex = NULL;
    if (error == 0 && p->up && p->answer_ended && p->request_finished) {
        return; /* the service is about to end too: its connection may serve another request */
    }
    proxy_free(p);
}

static const struct http_handler exchange_handler = {.tunnels = true,
                                                     .needs_peer = true,
                                                     .on_body = on_request_body,
                                                     .on_body_end = on_request_end,
                                                     .on_credit = pump_response,
                                                     .on_end = on_exchange_end};

static const struct upstream_handler upstream_handler = {.on_response = on_response,
                                                         .on_body = on_response_body,
                                                         .on_body_end = on_response_end,
                                                         .on_credit = pump_request,
                                                         .on_end = on_upstream_end};

/* ---- to the service ---- */

/* maskRequestHost of the sandbox's network options, with ${PORT} filled in; empty: none. */
static int masked_host(const struct proxy *p, struct buf *out)
{
    static const char mark[] = "${PORT}";
    const json_t *options = sandbox_info(p->backend->watch.sandbox).options;
    const char *mask =
        json_string_value(json_object_get(json_object_get(options, "network"), "maskRequestHost"));

    if (!mask || p->port == AGENT_PORT) {
        return 0;
    }
    for (const char *at = NULL; (at = strstr(mask, mark)); mask = at + sizeof(mark) - 1) {
        if (buf_append(out, mask, (size_t)(at - mask)) < 0 || buf_printf(out, "%u", p->port) < 0) {
            return -ENOBUFS;
        }
    }
    return buf_append(out, mask, strlen(mask));
}

static int send_head(struct proxy *p)
{
    const struct http_request *req = http_request(p->ex);
    scoped_buf target, host;
    scoped(headers_fini) struct headers headers = {0};

    buf_init(&target, HTTP_TARGET_BYTES_MAX + 1);
    buf_init(&host, HTTP_HEADER_BYTES_MAX);
    if (buf_append(&target, req->path.at, req->path.len) < 0 ||
        (req->query.len && (buf_append(&target, "?", 1) < 0 ||
                            buf_append(&target, req->query.at, req->query.len) < 0)) ||
        masked_host(p, &host) < 0 || headers_request(&headers, req, buf_str(&host)) < 0) {
        return -ENOBUFS;
    }
    upstream_send(p->up, req->method, buf_str(&target), headers.list, headers.n,
                  req->content_length, req->upgrade, &upstream_handler, p);
    return 0;
}

static void proxy_send(struct proxy *p, struct upstream *up)
{
    const struct http_request *req = http_request(p->ex);

    p->up = up;
    p->request_finished = false;
    p->answer_credit = 0;
    if (send_head(p) < 0) {
        upstream_close(move_ptr(&p->up));
        p->answered = p->answer_ended = true;
        http_reply(p->ex, 431, "text/plain; charset=utf-8", STR("Too many headers").at, 16);
        return;
    }
    if (p->request_ended || (req->content_length == 0 && !req->upgrade)) {
        finish_request(p);
    }
    pump_request(p);
}

static void dial(struct proxy *p);

static void on_timer(uv_timer_t *timer)
{
    dial(timer->data);
}

static void dial_failed(struct proxy *p, int error)
{
    if (error == -ECONNREFUSED && ++p->tries < EDGE_DIAL_TRIES) {
        uint64_t pause_ms = (uint64_t)p->tries * EDGE_DIAL_BACKOFF_MS;
        (void)uv_timer_start(&p->timer, on_timer, pause_ms, 0);
        return;
    }
    proxy_fail(p, error == -ENOTCONN       ? EDGE_ERROR_NOT_FOUND
                  : error == -EAGAIN       ? EDGE_ERROR_TOO_MANY
                  : error == -ESHUTDOWN    ? EDGE_ERROR_PAUSED
                  : error == -EHOSTDOWN    ? EDGE_ERROR_NOT_RESUMED
                  : error == -ECONNREFUSED ? EDGE_ERROR_PORT_CLOSED
                                           : EDGE_ERROR_UNREACHABLE);
}

static void on_dialed(void *ctx, int fd_or_error)
{
    struct dialing *dialing = ctx;
    struct proxy *p = dialing->proxy;
    struct upstream *up = NULL;
    struct err err;

    free(dialing);
    if (!p) {
        fd_closep(&fd_or_error);
        return;
    }
    p->dialing = NULL;
    if (fd_or_error < 0) {
        dial_failed(p, fd_or_error);
    } else if (upstream_new(p->edge->loop, fd_or_error, &up, &err) < 0) {
        log_warn("sandbox %s port %u: %s", p->id, p->port, err.msg);
        proxy_fail(p, EDGE_ERROR_UNREACHABLE);
    } else {
        proxy_send(p, up);
    }
}

static void dial(struct proxy *p)
{
    struct dialing *dialing = xnew(struct dialing);

    dialing->proxy = p;
    p->dialing = dialing;
    sandbox_dial(p->backend->watch.sandbox, p->port, on_dialed, dialing);
}

static void proxy_connect(struct proxy *p)
{
    struct upstream *up = p->port == AGENT_PORT && !p->reused ? backend_take(p->backend) : NULL;

    p->reused = up != NULL;
    if (up) {
        proxy_send(p, up);
    } else {
        dial(p);
    }
}

void proxy_start(struct backend *backend, struct http_exchange *ex, uint16_t port)
{
    struct proxy *p = xnew(struct proxy);

    p->edge = backend->edge;
    p->backend = backend;
    p->ex = ex;
    p->port = port;
    memcpy(p->id, backend->id, sizeof(p->id));
    if (uv_timer_init(p->edge->loop, &p->timer) < 0) {
        abort();
    }
    p->timer.data = p;
    DL_APPEND(backend->proxies, p);
    backend->proxies_n++;
    http_accept(ex, &exchange_handler, p);
    proxy_connect(p);
}
