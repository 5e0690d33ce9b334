#include "http_app.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/alloc.h"
#include "lib/base/buf.h"

/* One exchange: an echo holds what it could not write back yet. */
struct app_item {
    struct app *app;
    struct http_exchange *ex;
    struct buf held;
    uint64_t left; /* of /down */
    bool body_ended;
};

static void item_end(void *ctx, int error)
{
    struct app_item *item = ctx;

    item->app->ended++;
    item->app->last_error = error;
    if (item->app->waiting == item) {
        item->app->waiting = NULL;
    }
    buf_fini(&item->held);
    free(item);
}

static struct app_item *item_new(struct app *app, struct http_exchange *ex,
                                 const struct http_handler *handler)
{
    struct app_item *item = xnew(struct app_item);

    item->app = app;
    item->ex = ex;
    buf_init(&item->held, HTTP_WINDOW_BYTES);
    http_accept(ex, handler, item);
    return item;
}

/* ---- echo: what is credited is exactly what could be passed on ---- */

static void echo_move(struct app_item *item)
{
    size_t n = buf_len(&item->held);
    size_t room = http_writable(item->ex);

    n = n < room ? n : room;
    if (n > 0) {
        http_write(item->ex, buf_at(&item->held), n);
        buf_consume(&item->held, n);
        http_credit(item->ex, n);
    }
    if (item->body_ended && buf_len(&item->held) == 0) {
        http_finish(item->ex);
    }
}

static void echo_body(void *ctx, const void *data, size_t len)
{
    struct app_item *item = ctx;

    item->app->body_bytes += len;
    if (buf_append(&item->held, data, len) < 0) {
        abort(); /* more than the credit given */
    }
    echo_move(item);
}

static void echo_body_end(void *ctx)
{
    struct app_item *item = ctx;

    item->app->body_ends++;
    item->body_ended = true;
    echo_move(item);
}

static void echo_credit(void *ctx)
{
    echo_move(ctx);
}

static const struct http_handler echo_handler = {
    .tunnels = true,
    .on_body = echo_body,
    .on_body_end = echo_body_end,
    .on_credit = echo_credit,
    .on_end = item_end,
};

static void route_echo(struct app *app, struct http_exchange *ex)
{
    struct app_item *item = item_new(app, ex, &echo_handler);

    http_respond(ex, 200, NULL, 0, -1);
    http_credit(item->ex, HTTP_WINDOW_BYTES);
}

static void route_tunnel(struct app *app, struct http_exchange *ex)
{
    const struct http_header upgrade = {STR("upgrade"), STR("echo")};

    if (!http_request(ex)->upgrade) {
        http_answer(ex, 426, "text/plain", "upgrade", 7);
        return;
    }
    (void)item_new(app, ex, &echo_handler);
    http_respond(ex, 101, &upgrade, 1, -1);
    http_credit(ex, HTTP_WINDOW_BYTES);
}

/* ---- others ---- */

static void down_move(void *ctx)
{
    static const char bytes[64 * 1024];
    struct app_item *item = ctx;

    while (item->left > 0) {
        size_t n = http_writable(item->ex);
        n = n < sizeof(bytes) ? n : sizeof(bytes);
        n = n < item->left ? n : (size_t)item->left;
        if (n == 0) {
            return;
        }
        http_write(item->ex, bytes, n);
        item->left -= n;
    }
    http_finish(item->ex);
}

static void route_down(struct app *app, struct http_exchange *ex)
{
    static const struct http_handler handler = {.on_credit = down_move, .on_end = item_end};
    struct app_item *item = item_new(app, ex, &handler);
    scoped_buf(n, 32);

    if (http_query_get(http_request(ex)->query, "n", &n) != 1 || buf_append(&n, "", 1) < 0) {
        http_reply(ex, 400, NULL, NULL, 0);
        return;
    }
    item->left = strtoull(buf_at(&n), NULL, 10);
    http_respond(ex, 200, NULL, 0, (int64_t)item->left);
    down_move(item);
}

static void sink_body(void *ctx, const void *data, size_t len)
{
    struct app_item *item = ctx;

    (void)data;
    item->app->body_bytes += len;
}

static void sink_body_end(void *ctx)
{
    struct app_item *item = ctx;

    item->app->body_ends++;
}

static void route_wait(struct app *app, struct http_exchange *ex, size_t credit)
{
    static const struct http_handler handler = {
        .on_body = sink_body, .on_body_end = sink_body_end, .on_end = item_end};

    app->waiting = item_new(app, ex, &handler);
    http_credit(ex, credit);
}

void app_release(struct app *app)
{
    if (app->waiting) {
        http_reply(app->waiting->ex, 200, "text/plain", "released", 8);
    }
}

static void gather_done(void *ctx, struct http_exchange *ex, int error, struct str body)
{
    struct app *app = ctx;
    char text[64];

    if (error && error != -EMSGSIZE) {
        app->gone++;
        app->last_error = error;
        return;
    }
    app->body_bytes += body.len;
    http_reply(ex, error ? 413 : 200, "text/plain", text,
               (size_t)snprintf(text, sizeof(text), "gathered %zu", body.len));
}

static void gather_gone(void *ctx)
{
    ((struct app *)ctx)->gone++;
}

/* The exchange is over, as after a client's reset, when its answer comes. */
static void late_done(void *ctx, struct http_exchange *ex, int error, struct str body)
{
    (void)ctx, (void)error, (void)body;
    http_abort(ex, -ECONNRESET);
    http_reply(ex, 200, "text/plain", "late", 4);
}

static void route_abort(struct app *app, struct http_exchange *ex)
{
    static const struct http_handler handler = {.on_end = item_end};
    static const char bytes[100];

    (void)item_new(app, ex, &handler);
    http_respond(ex, 200, NULL, 0, 1000);
    http_write(ex, bytes, sizeof(bytes));
    http_abort(ex, -EIO);
    http_write(ex, bytes, sizeof(bytes)); /* still allowed: on_end has not come */
}

static void route_split(struct app *app, struct http_exchange *ex)
{
    static const struct http_handler handler = {.on_end = item_end};
    const struct http_header headers[] = {
        {STR("x-good"), STR("kept")},      {STR("x-bad"), STR("a\r\nset-cookie: b")},
        {STR("x-nul"), STR("a\0b")},       {STR("x bad name"), STR("v")},
        {STR("content-length"), STR("9")}, {STR("Transfer-Encoding"), STR("chunked")},
        {STR(""), STR("nameless")},
    };

    (void)item_new(app, ex, &handler);
    http_reply_with(ex, 200, headers, countof(headers), "text/plain", "split", 5);
}

static void note(char *out, size_t size, struct str text)
{
    if (!str_copy(out, size, text)) {
        out[0] = '\0';
    }
}

void app_request(void *ctx, struct http_exchange *ex)
{
    struct app *app = ctx;
    const struct http_request *req = http_request(ex);

    app->requests++;
    note(app->last_peer, sizeof(app->last_peer), req->peer);
    note(app->last_authority, sizeof(app->last_authority), req->authority);
    note(app->last_path, sizeof(app->last_path), req->path);
    note(app->last_query, sizeof(app->last_query), req->query);
    note(app->last_cookie, sizeof(app->last_cookie), http_header_get(req, "Cookie"));
    if (str_eq(req->path, STR("/hello"))) {
        http_answer(ex, 200, "text/plain", "hello", 5);
    } else if (str_eq(req->path, STR("/empty"))) {
        http_answer(ex, 204, NULL, NULL, 0);
    } else if (str_eq(req->path, STR("/early"))) {
        http_answer(ex, 403, "text/plain", "no", 2);
    } else if (str_eq(req->path, STR("/echo"))) {
        route_echo(app, ex);
    } else if (str_eq(req->path, STR("/tunnel"))) {
        route_tunnel(app, ex);
    } else if (str_eq(req->path, STR("/down"))) {
        route_down(app, ex);
    } else if (str_eq(req->path, STR("/wait"))) {
        route_wait(app, ex, HTTP_WINDOW_BYTES);
    } else if (str_eq(req->path, STR("/sink"))) {
        route_wait(app, ex, APP_SINK_BYTES);
    } else if (str_eq(req->path, STR("/gather"))) {
        http_gather(ex, APP_GATHER_MAX, gather_done, gather_gone, app);
    } else if (str_eq(req->path, STR("/late"))) {
        http_gather(ex, APP_GATHER_MAX, late_done, gather_gone, app);
    } else if (str_eq(req->path, STR("/abort"))) {
        route_abort(app, ex);
    } else if (str_eq(req->path, STR("/split"))) {
        route_split(app, ex);
    } else {
        http_answer(ex, 404, "text/plain", "?", 1);
    }
}

/* ---- the server ---- */

bool app_start(struct app *app, struct http_server_options options, struct tls_context *tls)
{
    struct err err;

    memset(app, 0, sizeof(*app));
    (void)signal(SIGPIPE, SIG_IGN);
    uv_loop_init(&app->loop);
    options.loop = &app->loop;
    options.on_request = app_request;
    options.ctx = app;
    return http_server_new(&options, &app->server, &err) == 0 &&
           http_server_listen(app->server, "127.0.0.1:0", tls, &err) == 0;
}

static void on_stopped(void *ctx)
{
    ((struct app *)ctx)->stopped = true;
}

bool app_end(struct app *app)
{
    http_server_stop(app->server, 0, on_stopped, app);
    bool stopped = APP_UNTIL(app, app->stopped);
    http_server_free(app->server);
    uv_run(&app->loop, UV_RUN_DEFAULT);
    return stopped && app->ended <= app->requests && uv_loop_close(&app->loop) == 0;
}

void app_step(struct app *app)
{
    if (uv_run(&app->loop, UV_RUN_NOWAIT) && uv_backend_timeout(&app->loop) != 0) {
        struct pollfd backend = {.fd = uv_backend_fd(&app->loop), .events = POLLIN};
        (void)poll(&backend, 1, 1);
    }
}

/* ---- the client ---- */

int app_connect(struct app *app)
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)http_server_port(app->server)),
                               .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    /* As any client does: small frames would else wait for acknowledgements that come late. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    if (fd >= 0 && connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

int app_pair(struct app *app, void *tag)
{
    int fds[2];
    struct err err;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0) {
        return -1;
    }
    if (http_server_adopt(app->server, fds[1], tag, &err) < 0) {
        close(fds[0]);
        return -1;
    }
    return fds[0];
}

bool app_send(struct app *app, int fd, const void *data, size_t len)
{
    const char *at = data;
    ssize_t n;

    return APP_UNTIL(app, ({
                         n = send(fd, at, len, MSG_DONTWAIT | MSG_NOSIGNAL);
                         if (n > 0) {
                             at += n;
                             len -= (size_t)n;
                         }
                         len == 0 || (n < 0 && errno != EAGAIN);
                     })) &&
           len == 0;
}

bool app_say(struct app *app, int fd, const char *text)
{
    return app_send(app, fd, text, strlen(text));
}

void app_reply_fini(struct app_reply *reply)
{
    free(reply->at);
    *reply = (struct app_reply){0};
}

static void reply_take(int fd, struct app_reply *reply, size_t most)
{
    if (reply->eof || reply->reset) {
        return;
    }
    if (reply->cap - reply->len < 4096) {
        reply->cap = reply->cap ? reply->cap * 2 : 8192;
        reply->at = realloc(reply->at, reply->cap);
        if (!reply->at) {
            abort();
        }
    }
    size_t room = reply->cap - reply->len - 1;
    ssize_t n = recv(fd, reply->at + reply->len, room < most ? room : most, MSG_DONTWAIT);
    reply->len += n > 0 ? (size_t)n : 0;
    reply->at[reply->len] = '\0';
    reply->eof = n == 0;
    reply->reset = n < 0 && errno != EAGAIN;
}

bool app_read_until(struct app *app, int fd, struct app_reply *reply, const char *text)
{
    return APP_UNTIL(app, ({
                         reply_take(fd, reply, SIZE_MAX);
                         strstr(reply->at, text) || reply->eof || reply->reset;
                     })) &&
           strstr(reply->at, text);
}

bool app_read_bytes(struct app *app, int fd, struct app_reply *reply, size_t n)
{
    return APP_UNTIL(app, ({
                         if (reply->len < n) {
                             reply_take(fd, reply, n - reply->len);
                         }
                         reply->len >= n || reply->eof || reply->reset;
                     })) &&
           reply->len >= n;
}

bool app_read_eof(struct app *app, int fd, struct app_reply *reply)
{
    return APP_UNTIL(app, ({
                         reply_take(fd, reply, SIZE_MAX);
                         reply->eof || reply->reset;
                     }));
}

#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
enum { SANITIZED = true };
#else
enum { SANITIZED = false };
#endif

long app_memory_kb(void)
{
    struct rusage usage;

    return SANITIZED || getrusage(RUSAGE_SELF, &usage) < 0 ? 0 : usage.ru_maxrss;
}
