#include "lib/http/server.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "lib/http/conn.h"

enum {
    CONNECTIONS_MAX = 10000,
    FRESH_PART = 4,    /* of the connections: those that may be waiting for a first request */
    SPARE_LOOKS = 16,  /* connections looked at for one that can be closed */
    REFUSALS_MAX = 64, /* connections beyond the limit that are told so; more are just closed */
    HEADER_TIMEOUT_MS = 10 * 1000,
    IDLE_TIMEOUT_MS = 75 * 1000,
    BACKLOG = 4096,
    SWEEPS_PER_TIMEOUT = 4, /* how late a timeout may fire: a quarter of the shortest */
    SWEEP_MS_MAX = 1000,
    SWEEP_MS_MIN = 10,
};

struct listener {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } uv;
    struct listener *prev, *next;
    struct http_server *server;
    struct tls_context *tls;
};

struct http_server {
    struct conn_owner owner;
    struct loop_context *context;
    struct loop_task task; /* looks whether a stop is complete */
    struct listener *listeners;
    uint32_t connections_n;
    uint32_t evicting_n; /* of those: they are closing to make room */
    uint64_t evicted[HTTP_EVICTED_KINDS];
    uint64_t refused;
    uint32_t sweep_ms;
    uv_timer_t sweep;
    uv_timer_t grace;
    unsigned handles_n; /* timers and listeners that are not closed yet */
    bool stopping;
    bool sweeping;
    void (*done)(void *ctx);
    void *done_ctx;
};

static void server_check_stopped(struct http_server *server)
{
    if (server->stopping) {
        loop_task_queue(server->context, &server->task);
    }
}

static void on_task(struct loop_task *task)
{
    struct http_server *server = container_of(task, struct http_server, task);
    void (*done)(void *ctx) = server->done;

    if (!done || server->listeners || server->owner.conns) {
        return;
    }
    server->done = NULL;
    uv_timer_stop(&server->grace);
    done(server->done_ctx);
}

static void handle_closed(struct http_server *server)
{
    if (--server->handles_n == 0) {
        loop_task_cancel(server->context, &server->task);
        loop_context_put(server->context);
        free(server);
    }
}

/* ---- the clock ---- */

static void sweep_stop(struct http_server *server)
{
    server->sweeping = false;
    uv_timer_stop(&server->sweep);
}

static void on_sweep(uv_timer_t *timer)
{
    struct http_server *server = timer->data;
    int64_t now_ms = (int64_t)uv_now(server->owner.options.loop);
    bool timed = false;
    struct conn *conn;

    DL_FOREACH (server->owner.conns, conn) {
        conn_sweep(conn, now_ms);
        timed = timed || conn_is_timed(conn);
    }
    if (!timed) {
        sweep_stop(server);
    }
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return b > 0 && b < a ? b : a;
}

static uint32_t sweep_interval(const struct http_server_options *options)
{
    uint32_t ms = SWEEP_MS_MAX * SWEEPS_PER_TIMEOUT;

    ms = least(ms, options->header_timeout_ms);
    ms = least(ms, options->idle_timeout_ms);
    ms = least(ms, options->stall_timeout_ms) / SWEEPS_PER_TIMEOUT;
    return ms < SWEEP_MS_MIN ? SWEEP_MS_MIN : ms;
}

/* The clock runs while there is a connection that it may end: an idle server does not wake up. */
static void sweep_start(struct conn_owner *owner)
{
    struct http_server *server = container_of(owner, struct http_server, owner);

    if (!server->sweeping) {
        server->sweeping = true;
        uv_timer_start(&server->sweep, on_sweep, server->sweep_ms, server->sweep_ms);
    }
}

static void conn_left(struct conn_owner *owner, bool evicted)
{
    struct http_server *server = container_of(owner, struct http_server, owner);

    server->connections_n--;
    server->evicting_n -= evicted;
    if (server->connections_n == 0) {
        sweep_stop(server);
    }
    server_check_stopped(server);
}

/* ---- connections ---- */

static void evict(struct http_server *server, struct conn *conn, enum http_evicted kind)
{
    server->evicted[kind]++;
    server->evicting_n++;
    conn_evict(conn);
}

static bool first_can_go(const struct http_server *server, const struct conn *first)
{
    return first && conn_can_go(first, (int64_t)uv_now(server->owner.options.loop));
}

/* Silent connections may have only a part of the table, so that the rest is free for clients that
 * send requests. In a burst of honest clients many are silent for a moment. */
static void bound_fresh(struct http_server *server)
{
    struct conn *oldest = server->owner.fresh;

    if (server->owner.fresh_n > server->owner.options.connections_max / FRESH_PART &&
        first_can_go(server, oldest)) {
        evict(server, oldest, HTTP_EVICTED_FRESH);
    }
}

/* The connection that has had no request for longest; some before it may just be receiving one. */
static struct conn *find_idle(struct http_server *server)
{
    struct conn *conn;
    int looks = 0;

    DL_FOREACH2 (server->owner.idle, conn, use_next) {
        if (first_can_go(server, conn)) {
            return conn;
        }
        if (++looks == SPARE_LOOKS) {
            break;
        }
    }
    return NULL;
}

/* The table is full: closes a connection without a request. */
static bool make_room(struct http_server *server)
{
    struct conn *idle = find_idle(server), *oldest = server->owner.fresh;

    if (idle) {
        evict(server, idle, HTTP_EVICTED_IDLE);
    } else if (first_can_go(server, oldest)) {
        evict(server, oldest, HTTP_EVICTED_FRESH);
    } else {
        return false;
    }
    return true;
}

static uint32_t refusals_under_way(const struct http_server *server)
{
    uint32_t n = server->connections_n - server->evicting_n;
    uint32_t limit = server->owner.options.connections_max;

    return n > limit ? n - limit : 0;
}

static bool has_room(struct http_server *server)
{
    return server->connections_n - server->evicting_n < server->owner.options.connections_max ||
           make_room(server);
}

static void on_connection(uv_stream_t *stream, int status)
{
    struct listener *listener = container_of(stream, struct listener, uv.stream);
    struct http_server *server = listener->server;

    if (status < 0) {
        return; /* the peer left again, or descriptors ran out: libuv goes on listening */
    }
    bool room = has_room(server);
    struct conn *conn = conn_new(&server->owner, listener->tls, NULL);
    if (sock_accept(&conn->sock, &conn_events, stream) < 0) {
        free(conn); /* descriptors ran out */
        return;
    }
    server->connections_n++;
    conn_start(conn);
    server->refused += !room;
    if (!room && refusals_under_way(server) > REFUSALS_MAX) {
        conn_drop(conn, -ECONNRESET);
    } else if (!room) {
        conn_refuse(conn);
    } else {
        bound_fresh(server);
    }
}

/* The caller may be handling another connection, so none is closed now; the next accept closes
 * one. */
static bool may_adopt(const struct http_server *server)
{
    const struct conn_owner *owner = &server->owner;

    return server->connections_n - server->evicting_n < owner->options.connections_max ||
           owner->idle || owner->fresh;
}

int http_server_adopt_begun(struct http_server *server, int fd, struct str first,
                            struct tls_context *tls, void *tag, struct http_conn **out,
                            struct err *err)
{
    scoped_fd own = fd;

    if (server->stopping || !may_adopt(server)) {
        return err_set(err, EBUSY, "the server takes no more connections");
    }
    struct conn *conn = conn_new(&server->owner, tls, tag);
    int r = sock_open(&conn->sock, &conn_events, server->owner.options.loop, move_fd(&own), err);
    if (r < 0) {
        free(conn);
        return r;
    }
    conn->adopted = true;
    server->connections_n++;
    conn->base.phase =
        server->owner.options.adopted_may_wait ? HTTP_PHASE_UNUSED : conn->base.phase;
    conn_start_with(conn, first);
    *out = &conn->base;
    return 0;
}

int http_server_adopt(struct http_server *server, int fd, void *tag, struct err *err)
{
    struct http_conn *conn = NULL;

    return http_server_adopt_begun(server, fd, (struct str){NULL, 0}, NULL, tag, &conn, err);
}

void http_conn_reset(struct http_conn *conn)
{
    conn->ops->close(conn, HTTP_CLOSE_RESET);
}

void http_server_drop_adopted(struct http_server *server)
{
    struct conn *conn;

    DL_FOREACH (server->owner.conns, conn) {
        if (conn->base.tag) {
            conn_drop(conn, -ECONNRESET);
        }
    }
}

/* ---- listeners ---- */

static void listener_closed(uv_handle_t *handle)
{
    struct listener *listener = container_of(handle, struct listener, uv.handle);
    struct http_server *server = listener->server;

    DL_DELETE(server->listeners, listener);
    free(listener);
    server_check_stopped(server);
    handle_closed(server);
}

static void listeners_close(struct http_server *server)
{
    struct listener *listener;

    DL_FOREACH (server->listeners, listener) {
        if (!uv_is_closing(&listener->uv.handle)) {
            uv_close(&listener->uv.handle, listener_closed);
        }
    }
}

static int listener_fail(struct listener *listener, int error, const char *what, struct err *err)
{
    uv_close(&listener->uv.handle, listener_closed);
    return err_set(err, -error, "%s: %s", what, uv_strerror(error));
}

static struct listener *listener_new(struct http_server *server, int family)
{
    struct listener *listener = xnew(struct listener);

    listener->server = server;
    if (family == AF_UNIX) {
        uv_pipe_init(server->owner.options.loop, &listener->uv.pipe, 0);
    } else {
        uv_tcp_init(server->owner.options.loop, &listener->uv.tcp);
    }
    server->handles_n++;
    DL_APPEND(server->listeners, listener);
    return listener;
}

/* "127.0.0.1:3000" or "[::1]:3000". */
static int parse_address(const char *text, struct sockaddr_storage *out, struct err *err)
{
    const char *colon = strrchr(text, ':');
    bool v6 = text[0] == '[';
    char host[INET6_ADDRSTRLEN];
    char *end = NULL;
    unsigned long port = colon ? strtoul(colon + 1, &end, 10) : 0;
    struct str name = {text, colon ? (size_t)(colon - text) : 0};

    if (!colon || end == colon + 1 || *end || colon[1] < '0' || colon[1] > '9' || port > 65535 ||
        (v6 && (name.len < 2 || name.at[name.len - 1] != ']'))) {
        return err_set(err, EINVAL, "'%s' is not of the form ADDRESS:PORT", text);
    }
    if (v6) {
        name = (struct str){name.at + 1, name.len - 2};
    }
    int r = UV_EINVAL;
    if (str_copy(host, sizeof(host), name)) {
        r = v6 ? uv_ip6_addr(host, (int)port, (struct sockaddr_in6 *)out)
               : uv_ip4_addr(host, (int)port, (struct sockaddr_in *)out);
    }
    return r < 0 ? err_set(err, EINVAL, "'%s' does not begin with an IP address", text) : 0;
}

int http_address_open(const char *address, struct err *err)
{
    static const int on = 1;
    struct sockaddr_storage addr = {0};
    int r = parse_address(address, &addr, err);

    if (r < 0) {
        return r;
    }
    scoped_fd fd = socket(addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t len =
        addr.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
        bind(fd, (const struct sockaddr *)&addr, len) < 0 || listen(fd, BACKLOG) < 0) {
        return err_sys(err, "listen on %s", address);
    }
    return move_fd(&fd);
}

int http_address_check(const char *address, struct err *err)
{
    scoped_fd fd = http_address_open(address, err);

    return fd < 0 ? fd : 0;
}

int http_server_listen(struct http_server *server, const char *address, struct tls_context *tls,
                       struct err *err)
{
    struct sockaddr_storage addr = {0};
    int r = parse_address(address, &addr, err);

    if (r < 0) {
        return r;
    }
    struct listener *listener = listener_new(server, AF_INET);
    listener->tls = tls;
    r = uv_tcp_bind(&listener->uv.tcp, (struct sockaddr *)&addr, 0);
    r = r < 0 ? r : uv_listen(&listener->uv.stream, BACKLOG, on_connection);
    if (r < 0) {
        char what[128];
        (void)snprintf(what, sizeof(what), "listen on %s", address);
        return listener_fail(listener, r, what, err);
    }
    return 0;
}

int http_server_listen_fd(struct http_server *server, int fd, struct tls_context *tls,
                          struct err *err)
{
    scoped_fd own = fd;
    int family = sock_family(fd, err);

    if (family < 0) {
        return family;
    }
    struct listener *listener = listener_new(server, family);
    listener->tls = tls;
    int r = family == AF_UNIX ? uv_pipe_open(&listener->uv.pipe, fd)
                              : uv_tcp_open(&listener->uv.tcp, fd);
    if (r < 0) {
        return listener_fail(listener, r, "take over a listening socket", err);
    }
    (void)move_fd(&own);
    r = uv_listen(&listener->uv.stream, BACKLOG, on_connection);
    return r < 0 ? listener_fail(listener, r, "listen on a socket taken over", err) : 0;
}

int http_server_port(const struct http_server *server)
{
    const struct listener *listener;

    DL_FOREACH (server->listeners, listener) {
        struct sockaddr_storage addr;
        int len = sizeof(addr);
        if (listener->uv.handle.type == UV_TCP &&
            uv_tcp_getsockname(&listener->uv.tcp, (struct sockaddr *)&addr, &len) == 0) {
            return ntohs(addr.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&addr)->sin6_port
                                                    : ((struct sockaddr_in *)&addr)->sin_port);
        }
    }
    return 0;
}

/* ---- life ---- */

int http_server_new(const struct http_server_options *options, struct http_server **out,
                    struct err *err)
{
    if (!options->loop || !options->on_request) {
        return err_set(err, EINVAL, "a server needs a loop and a handler of requests");
    }
    struct http_server *server = xnew(struct http_server);
    struct http_server_options *own = &server->owner.options;
    *own = *options;
    own->connections_max = own->connections_max ? own->connections_max : CONNECTIONS_MAX;
    own->header_timeout_ms = own->header_timeout_ms ? own->header_timeout_ms : HEADER_TIMEOUT_MS;
    own->idle_timeout_ms = own->idle_timeout_ms ? own->idle_timeout_ms : IDLE_TIMEOUT_MS;
    server->sweep_ms = sweep_interval(own);
    server->owner.timed = sweep_start;
    server->owner.closed = conn_left;
    server->task.run = on_task;
    server->context = loop_context_get(own->loop);
    uv_timer_init(own->loop, &server->sweep);
    uv_timer_init(own->loop, &server->grace);
    server->sweep.data = server->grace.data = server;
    server->handles_n = 2;
    *out = server;
    return 0;
}

void http_server_hurry(struct http_server *server)
{
    struct conn *conn;

    assert(server->stopping);
    DL_FOREACH (server->owner.conns, conn) {
        conn_drop(conn, -ECONNRESET);
    }
}

static void on_grace(uv_timer_t *timer)
{
    http_server_hurry(timer->data);
}

void http_server_stop(struct http_server *server, uint32_t grace_ms, void (*done)(void *ctx),
                      void *ctx)
{
    struct conn *conn;

    assert(!server->stopping);
    server->stopping = true;
    server->done = done;
    server->done_ctx = ctx;
    listeners_close(server);
    DL_FOREACH (server->owner.conns, conn) {
        conn_stop(conn);
    }
    uv_timer_start(&server->grace, on_grace, grace_ms, 0);
    server_check_stopped(server);
}

static void timer_closed(uv_handle_t *handle)
{
    handle_closed(handle->data);
}

void http_server_free(struct http_server *server)
{
    if (!server) {
        return;
    }
    assert(!server->owner.conns && !server->done);
    listeners_close(server);
    uv_close((uv_handle_t *)&server->sweep, timer_closed);
    uv_close((uv_handle_t *)&server->grace, timer_closed);
}

struct http_server_figures http_server_figures(const struct http_server *server)
{
    return (struct http_server_figures){
        .connections = server->connections_n,
        .exchanges = server->owner.exchanges,
        .requests = server->owner.requests,
        .silent = server->owner.fresh_n,
        .refused = server->refused,
        .evicted = {[HTTP_EVICTED_IDLE] = server->evicted[HTTP_EVICTED_IDLE],
                    [HTTP_EVICTED_FRESH] = server->evicted[HTTP_EVICTED_FRESH]},
    };
}
