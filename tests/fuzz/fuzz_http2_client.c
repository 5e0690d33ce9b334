/* A server that says anything at all to the client's half of HTTP/2. Every exchange ends once. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/http/client_conn.h"
#include "lib/http/http2_client.h"

enum { TALKS = 2, TURNS_MAX = 1000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct talk {
    struct upstream *up;
    unsigned responses, ends;
};

static void on_response(void *ctx, int status, const struct http_header *headers, size_t n,
                        int64_t length)
{
    struct talk *t = ctx;

    (void)headers, (void)n, (void)length;
    if (++t->responses > 1 || status < 200) {
        abort();
    }
    upstream_credit(t->up, 100);
}

static void on_body(void *ctx, const void *bytes, size_t len)
{
    struct talk *t = ctx;

    (void)bytes;
    upstream_credit(t->up, len);
}

static void on_end(void *ctx, int error)
{
    struct talk *t = ctx;

    (void)error;
    if (++t->ends > 1) {
        abort();
    }
}

static const struct upstream_handler handler = {
    .on_response = on_response, .on_body = on_body, .on_end = on_end};

static void ignore(void *ctx)
{
    (void)ctx;
}

static void ignore_data(void *ctx, const char *bytes, size_t len)
{
    (void)ctx, (void)bytes, (void)len;
}

static void ignore_end(void *ctx, int error)
{
    (void)ctx, (void)error;
}

static const struct client_conn_events quiet = {
    .data = ignore_data, .end = ignore_end, .run = ignore, .written = ignore, .closed = ignore};

static void run(uv_loop_t *loop, const struct talk *talks)
{
    for (int i = 0; i < TURNS_MAX; i++) {
        (void)uv_run(loop, UV_RUN_NOWAIT);
        if (talks[0].ends && talks[1].ends) {
            return;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct http_header host = {STR("host"), STR("x.test")};
    struct talk talks[TALKS] = {{0}};
    struct client_conn *conn = NULL;
    struct err err;
    uv_loop_t loop;
    int fds[2];

    if (size > 60000 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0) {
        return 0;
    }
    (void)uv_loop_init(&loop);
    if (client_conn_open(&loop, fds[0], &quiet, NULL, &conn, &err) < 0) {
        abort();
    }
    struct http2_client *client = http2_client_new(conn, ignore, NULL);
    for (int i = 0; i < TALKS; i++) {
        talks[i].up = http2_client_open(client);
        upstream_send(talks[i].up, STR("POST"), STR("/"), &host, 1, i ? 0 : -1, false, &handler,
                      &talks[i]);
        upstream_finish(talks[i].up);
    }
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    if (write(fds[1], data, size) < 0) {
        abort();
    }
    (void)shutdown(fds[1], SHUT_WR);
    run(&loop, talks);
    for (int i = 0; i < TALKS; i++) {
        if (talks[i].ends != 1) {
            abort();
        }
        upstream_close(talks[i].up);
    }
    http2_client_close(client);
    (void)close(fds[1]);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&loop) < 0) {
        abort();
    }
    return 0;
}
