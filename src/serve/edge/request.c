/* request.c - one request through the edge.
 *
 *      client ◄── http_exchange ──┤ edge ├── upstream ──► service in the jail
 *
 * Nothing is gathered: each side is given as much credit as the other can take, so a slow reader
 * stops the writer behind it. When one side ends, the other ends too: a client that leaves closes
 * the connection to the service, and a service that breaks off, or a sandbox that ends, resets the
 * client.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/foreign.h"
#include "lib/base/log.h"
#include "lib/http/forward.h"
#include "lib/http/note.h"
#include "serve/edge/internal.h"
#include "wire/channel.h"

/* Outlives a request that could not wait. */
struct dialing {
    struct edge_request *request; /* NULL: nobody waits */
};

static void request_connect(struct edge_request *p);

/* ---- the end ---- */

static void on_timer_closed(uv_handle_t *handle)
{
    struct edge_request *p = handle->data;

    free(p->stream_to);
    free(p->follow);
    free(p);
}

static void request_free(struct edge_request *p)
{
    if (p->dialing) {
        p->dialing->request = NULL;
    }
    forward_fini(&p->forward);
    service_conn_free(p->service);
    share_give(p->place);
    if (p->backend) {
        DL_DELETE(p->backend->requests, p);
        p->backend->requests_n--;
        backend_check(p->backend);
    }
    uv_close((uv_handle_t *)&p->timer, on_timer_closed);
}

void request_fail(struct edge_request *p, enum edge_error error)
{
    if (p->waits) {
        held_fail(p);
    } else if (forward_may_answer(&p->forward)) {
        edge_fail(p->edge, p->forward.ex, error, str_of(p->id), p->port);
    }
}

void request_drop(struct edge_request *p)
{
    if (p->dialing) {
        p->dialing->request = NULL;
        p->dialing = NULL;
    }
    (void)uv_timer_stop(&p->timer);
    forward_fini(&p->forward);
    service_conn_free(move_ptr(&p->service));
}

/* Closes the connection to the service, and tells the client why. */
static void request_end(struct edge_request *p, enum edge_error why)
{
    request_drop(p);
    request_fail(p, why);
    if (!p->forward.ex) {
        request_free(p);
    }
}

void request_gone(struct edge_request *p, enum edge_error why)
{
    p->backend = NULL;
    request_end(p, why);
}

void request_move(struct edge_request *p, struct backend *to)
{
    request_drop(p);
    DL_DELETE(p->backend->requests, p);
    p->backend->requests_n--;
    p->backend = to;
    DL_APPEND(to->requests, p);
    to->requests_n++;
}

/* The service has seen nothing of the request, so it waits like those that come meanwhile. */
static void request_wait(struct edge_request *p)
{
    request_move(p, backend_of(p->edge, p->backend->watch.sandbox));
    p->tries = 0;
    request_dial(p);
}

void request_hold(struct edge_request *p)
{
    bool sent = p->forward.up;

    if (p->waits && !(p->rejoins && sent)) {
        held_wait(p);
    } else if (!sent && p->forward.ex && !p->forward.answered) {
        request_wait(p);
    } else if (sent && p->port == AGENT_PORT) {
        return; /* the agent ends it, also when it is one that rejoins */
    } else {
        p->held = sent && upstream_hold(p->forward.up, true);
        if (!p->held) {
            request_end(p, EDGE_ERROR_CHANGING);
        }
    }
}

void request_cut(struct edge_request *p)
{
    if (p->waits) {
        held_wait(p);
    } else if (!p->held) {
        DL_DELETE(p->backend->requests, p);
        p->backend->requests_n--;
        request_gone(p, EDGE_ERROR_CHANGING);
    }
}

bool request_is_held(const struct edge_request *p)
{
    return p->held || (p->waits && !p->rejoins);
}

void request_go_on(struct edge_request *p)
{
    if (p->held && p->forward.up) {
        (void)upstream_hold(p->forward.up, false);
    } else {
        held_rejoin(p);
    }
    p->held = false;
}

struct edge_request *request_next(struct edge_request *p)
{
    return p->next;
}

/* Only the agent's time is measured for the figures. */
static void request_mark(struct edge_request *p, enum edge_step step)
{
    static const char *const names[EDGE_STEPS] = {"edge.dial", "edge.answer"};
    const struct trace_attribute id = {.name = "sandbox.id", .text = p->id};
    int64_t now_us = clock_mono_us();

    if (p->port == AGENT_PORT) {
        histogram_add(&p->edge->steps[step], now_us - p->step_us);
    }
    trace_step(&p->edge->tracer, &p->trace, names[step], p->step_us, now_us, &id, 1);
    p->step_us = now_us;
}

/* ---- the answer ---- */

static void on_response(void *ctx, int status, const struct http_header *headers, size_t n,
                        int64_t content_length)
{
    struct edge_request *p = ctx;
    scoped(headers_fini) struct headers out = {0};

    if (p->waits && !held_answered(p, status, headers, n)) {
        return;
    }
    if (p->stream_to && status != 101) {
        forward_fini(&p->forward);
        request_fail(p, EDGE_ERROR_NO_ANSWER);
        return;
    }
    p->edge->outcomes[EDGE_PASSED]++;
    request_mark(p, EDGE_STEP_ANSWER);
    headers_response(&out, headers, n, status == 101, p->of_dashboard);
    if (p->follow && p->follow->is_cell) {
        follow_named(p->follow, headers, n);
        headers_drop(&out, EXECUTION_HEADER);
    }
    forward_respond(&p->forward, status, out.list, out.n, content_length);
}

/* Whether the connection, whose exchange went well, may serve another request. */
static bool may_keep(const struct edge_request *p, const struct upstream *up)
{
    return p->backend && !p->backend->pausing && !p->service && !p->upgrade &&
           p->forward.request_finished && upstream_reusable(up);
}

static bool may_retry(const struct edge_request *p)
{
    return p->forward.ex && p->backend && !p->backend->pausing && p->reused &&
           !p->forward.answered && !p->forward.body_taken;
}

static void on_upstream_end(void *ctx, struct upstream *up, int error)
{
    struct edge_request *p = ctx;

    if (error == 0 && may_keep(p, up)) {
        backend_keep(p->backend, p->port, up);
    } else {
        upstream_close(up);
    }
    if (p->waits) {
        if (p->rejoins) {
            held_fail(p);
        }
    } else if (error < 0 && may_retry(p)) {
        request_connect(p);
    } else if (!p->forward.answer_ended) {
        request_fail(p, EDGE_ERROR_NO_ANSWER);
    }
}

static void on_over(void *ctx)
{
    request_free(ctx);
}

static void on_body(void *ctx, const void *data, size_t len)
{
    held_body(ctx, data, len);
}

static void on_body_end(void *ctx)
{
    (void)ctx;
}

static const struct forward_events forward_events = {
    .on_response = on_response, .on_upstream_end = on_upstream_end, .on_over = on_over};

static const struct forward_events followed_events = {.on_response = on_response,
                                                      .on_body = on_body,
                                                      .on_body_end = on_body_end,
                                                      .on_upstream_end = on_upstream_end,
                                                      .on_over = on_over};

/* ---- to the service ---- */

/* maskRequestHost of the sandbox's network options, with ${PORT} filled in; empty: none. */
static int masked_host(const struct edge_request *p, struct buf *out)
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

static int send_head(struct edge_request *p, struct upstream *up)
{
    scoped_buf(host, HTTP_HEADER_BYTES_MAX);
    scoped(headers_fini) struct headers headers = {0};

    if (masked_host(p, &host) < 0 ||
        headers_request(&headers, http_request(p->forward.ex), buf_str(&host)) < 0) {
        return -ENOBUFS;
    }
    if (p->waits) {
        return held_send(p, up, &headers);
    }
    if (p->follow && p->follow->is_cell &&
        headers_add(&headers, STR(EXECUTION_HEADER), str_of(p->follow->id)) < 0) {
        return -ENOBUFS;
    }
    if (p->stream_to) {
        forward_send_to(&p->forward, up, str_of(p->stream_to), headers.list, headers.n);
        return 0;
    }
    return forward_send(&p->forward, up, headers.list, headers.n);
}

static void request_send(struct edge_request *p, struct upstream *up)
{
    if (!p->waits) {
        request_mark(p, EDGE_STEP_DIAL);
    }
    if (send_head(p, up) < 0) {
        upstream_close(up);
        if (p->waits) {
            held_fail(p);
        } else if (forward_may_answer(&p->forward)) {
            http_reply(p->forward.ex, 431, "text/plain; charset=utf-8", STR("Too many headers").at,
                       16);
        }
    }
}

static void on_timer(uv_timer_t *timer)
{
    request_dial(timer->data);
}

static void dial_failed(struct edge_request *p, int error)
{
    if (error == -ECONNREFUSED && ++p->tries < EDGE_DIAL_TRIES) {
        uint64_t pause_ms = (uint64_t)p->tries * EDGE_DIAL_BACKOFF_MS;
        (void)uv_timer_start(&p->timer, on_timer, pause_ms, 0);
        return;
    }
    enum edge_error answer = error == -ENOTCONN       ? EDGE_ERROR_NOT_FOUND
                             : error == -EAGAIN       ? EDGE_ERROR_TOO_MANY
                             : error == -ESHUTDOWN    ? EDGE_ERROR_PAUSED
                             : error == -EHOSTDOWN    ? EDGE_ERROR_NOT_RESUMED
                             : error == -ECONNREFUSED ? EDGE_ERROR_PORT_CLOSED
                                                      : EDGE_ERROR_UNREACHABLE;
    if (answer == EDGE_ERROR_UNREACHABLE && log_turn(&p->edge->told_ms)) {
        log_warn("sandbox %s port %u: service it: %s", p->id, p->port, strerror(-error));
    }
    request_fail(p, answer);
}

static void on_reached(void *ctx, struct upstream *up)
{
    struct edge_request *p = ctx;

    if (up) {
        request_send(p, up);
    } else {
        request_fail(p, EDGE_ERROR_NO_ANSWER);
    }
}

static bool is_https_port(const struct edge_request *p)
{
    const json_t *options = sandbox_info(p->backend->watch.sandbox).options;
    const json_t *ports = json_object_get(json_object_get(options, "network"), "httpsPorts");

    for (size_t i = 0; i < json_array_size(ports); i++) {
        if (json_integer_value(json_array_get(ports, i)) == p->port) {
            return true;
        }
    }
    return false;
}

/* Opens the connection with the protocol of the service on that port and of the request. */
static int request_open(struct edge_request *p, int fd, struct err *err)
{
    const struct service_conn_way way = {.http2 = p->port != AGENT_PORT &&
                                                  headers_is_grpc(http_request(p->forward.ex)),
                                         .tls = is_https_port(p),
                                         .name = "localhost"};
    struct upstream *up = NULL;

    if (way.http2 || way.tls) {
        return service_conn_start(p->edge, fd, &way, on_reached, p, &p->service, err);
    }
    int r = upstream_new(p->edge->loop, fd, &up, err);
    if (r == 0) {
        request_send(p, up);
    }
    return r;
}

static void on_dialed(void *ctx, int fd_or_error)
{
    struct dialing *dialing = ctx;
    struct edge_request *p = dialing->request;
    struct err err;

    free(dialing);
    if (!p) {
        foreign_closep(&fd_or_error);
        return;
    }
    p->dialing = NULL;
    if (fd_or_error < 0) {
        dial_failed(p, fd_or_error);
    } else if (request_open(p, fd_or_error, &err) < 0) {
        if (log_turn(&p->edge->told_ms)) {
            log_warn("sandbox %s port %u: %s", p->id, p->port, err.msg);
        }
        request_fail(p, EDGE_ERROR_UNREACHABLE);
    }
}

void request_dial(struct edge_request *p)
{
    struct dialing *dialing = xnew(struct dialing);

    dialing->request = p;
    p->dialing = dialing;
    if (p->may_wake && !p->waits) {
        sandbox_dial(p->backend->watch.sandbox, p->port, on_dialed, dialing);
    } else {
        sandbox_dial_awake(p->backend->watch.sandbox, p->port, on_dialed, dialing);
    }
}

/* A service may close an idle connection just when it is used again. So only requests that can be
 * repeated use one: safe methods without a body. The agent keeps its connections longer than the
 * edge does. */
static bool may_reuse(const struct edge_request *p)
{
    const struct http_request *req = http_request(p->forward.ex);

    return p->port == AGENT_PORT ||
           (req->content_length == 0 && !req->upgrade &&
            (str_eq(req->method, STR("GET")) || str_eq(req->method, STR("HEAD")) ||
             str_eq(req->method, STR("OPTIONS"))));
}

static void request_connect(struct edge_request *p)
{
    struct upstream *up = p->reused ? NULL : backend_take(p->backend, p->port);

    if (up && !may_reuse(p)) {
        /* A service that serves one connection at a time would never accept the new one. */
        upstream_close(move_ptr(&up));
    }
    p->reused = up != NULL;
    if (up) {
        request_send(p, up);
    } else {
        request_dial(p);
    }
}

void request_start(struct backend *backend, struct http_exchange *ex, const struct request_way *way)
{
    struct edge_request *p = xnew(struct edge_request);

    p->edge = backend->edge;
    p->backend = backend;
    p->port = way->port;
    p->may_wake = way->may_wake;
    p->step_us = clock_mono_us();
    p->began_ms = clock_mono_ms();
    p->trace = http_note_trace(ex);
    memcpy(p->id, backend->id, sizeof(p->id));
    if (uv_timer_init(p->edge->loop, &p->timer) < 0) {
        abort();
    }
    p->timer.data = p;
    DL_APPEND(backend->requests, p);
    backend->requests_n++;
    p->upgrade = http_request(ex)->upgrade;
    p->stream_to = way->stream_to ? xstrdup(way->stream_to) : NULL;
    p->of_dashboard = way->is_link || headers_of_dashboard(http_request(ex));
    p->follow = way->stream_to ? NULL : follow_new(http_request(ex), p->port);
    forward_accept(&p->forward, ex, p->follow ? &followed_events : &forward_events, p);
    request_connect(p);
}
