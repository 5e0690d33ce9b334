/* HTTP/2 on real sockets, by prior knowledge: streams, flow control, limits, floods. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "check.h"
#include "h2_client.h"
#include "http_app.h"
#include "lib/base/fd.h"

#define H2_UNTIL(app, client, cond)                                                                \
    APP_UNTIL(app, ({                                                                              \
                  h2_step(client);                                                                 \
                  (cond);                                                                          \
              }))

static struct h2_client client; /* large: calls are part of it */

static bool start(struct app *app, int *fd)
{
    struct http_server_options options = {.http2 = &http2_protocol};

    if (!app_start(app, options, NULL) || (*fd = app_connect(app)) < 0) {
        return false;
    }
    h2_start(&client, *fd);
    return true;
}

static bool end(struct app *app)
{
    h2_end(&client);
    return app_end(app);
}

static void test_hello(void)
{
    struct app app;
    scoped_fd fd = -1;
    CHECK(start(&app, &fd));
    struct h2_call *call = h2_request(&client, "GET", "/hello?x=1", 0, NULL, 0);
    CHECK(H2_UNTIL(&app, &client, call->closed));
    CHECK_INT(call->status, 200);
    CHECK_STR(call->text, "hello");
    CHECK(strstr(call->headers, "content-length: 5\n"));
    CHECK(strstr(call->headers, "content-type: text/plain\n"));
    CHECK(strstr(call->headers, "date: "));
    CHECK_STR(app.last_authority, "h2.host");
    CHECK_STR(app.last_path, "/hello");
    CHECK_STR(app.last_query, "x=1");
    CHECK_STR(app.last_peer, "127.0.0.1");
    CHECK(APP_UNTIL(&app, http_server_figures(app.server).exchanges == 0));
    CHECK(end(&app));
}

/* HTTP/1.1 on the same port; its first bytes may come one by one. */
static void test_beside_http1(void)
{
    struct app app;
    scoped_fd fd = -1;
    CHECK(start(&app, &fd));
    static const char request[] = "PUT /gather HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n";
    scoped_fd plain = app_connect(&app);
    scoped_reply reply = {0};
    for (size_t i = 0; i < sizeof(request) - 1; i++) {
        CHECK(app_send(&app, plain, request + i, 1));
        app_step(&app);
    }
    CHECK(app_read_until(&app, plain, &reply, "gathered 0"));
    CHECK(end(&app));
}

static void test_many_streams(void)
{
    enum { STREAMS = 100, BODY = 300 * 1000 };
    struct app app;
    scoped_fd fd = -1;
    CHECK(start(&app, &fd));
    for (int i = 0; i < STREAMS; i++) {
        CHECK(h2_request(&client, "POST", "/echo", BODY, NULL, 0)->id > 0);
    }
    CHECK(H2_UNTIL(&app, &client, app.ended == STREAMS));
    CHECK(H2_UNTIL(&app, &client, client.calls[STREAMS - 1].closed));
    for (int i = 0; i < STREAMS; i++) {
        CHECK_INT(client.calls[i].status, 200);
        CHECK_INT((long long)client.calls[i].received, BODY);
    }
    CHECK_INT((long long)app.body_bytes, (long long)STREAMS * BODY);
    CHECK_INT(app.last_error, 0);
    CHECK(end(&app));
}

/* A handler without credit holds its own stream back, and no other. */
static void test_back_pressure_in(void)
{
    struct app app;
    scoped_fd fd = -1;
    CHECK(start(&app, &fd));
    struct h2_call *stuck = h2_request(&client, "POST", "/sink", 100 * 1000 * 1000, NULL, 0);
    CHECK(H2_UNTIL(&app, &client, stuck->sent >= HTTP_WINDOW_BYTES));
    struct h2_call *other = h2_request(&client, "POST", "/echo", 5 * 1000 * 1000, NULL, 0);
    CHECK(H2_UNTIL(&app, &client, other->closed));
    CHECK_INT((long long)other->received, 5 * 1000 * 1000);
    /* A window, and the credit that was given once; the peer may be told so a little late. */
    CHECK(stuck->sent <= HTTP_WINDOW_BYTES + APP_SINK_BYTES);
    CHECK_INT((long long)app.body_bytes, APP_SINK_BYTES + 5 * 1000 * 1000);
    app_release(&app);
    CHECK(H2_UNTIL(&app, &client, stuck->closed));
    CHECK_INT(stuck->status, 200);
    CHECK(end(&app));
}

/* A client that opens no window holds the handler back. */
static void test_back_pressure_out(void)
{
    struct app app;
    scoped_fd fd = -1;
    long before_kb = 0;
    CHECK(start(&app, &fd));
    before_kb = app_memory_kb();
    struct h2_call *slow = h2_request(&client, "GET", "/down?n=300000000", 0, NULL, 0);
    slow->hold = true;
    CHECK(H2_UNTIL(&app, &client, slow->received >= 65535));
    struct h2_call *quick = h2_request(&client, "GET", "/down?n=3000000", 0, NULL, 0);
    CHECK(H2_UNTIL(&app, &client, quick->closed));
    CHECK_INT((long long)quick->received, 3000000);
    CHECK_INT((long long)slow->received, 65535);
    CHECK(app_memory_kb() - before_kb < 20 * 1024);
    CHECK(end(&app));
}

static void test_abort(void)
{
    struct app app;
    scoped_fd fd = -1;
    CHECK(start(&app, &fd));
    struct h2_call *call = h2_request(&client, "GET", "/abort", 0, NULL, 0);
    CHECK(H2_UNTIL(&app, &client, call->closed));
    CHECK_INT(call->close_code, NGHTTP2_INTERNAL_ERROR);
    CHECK(call->received < 1000);
    CHECK(APP_UNTIL(&app, app.ended == 1));
    CHECK_INT(app.last_error, -EIO);
    struct h2_call *next = h2_request(&client, "GET", "/hello", 0, NULL, 0);
    CHECK(H2_UNTIL(&app, &client, next->closed));
    CHECK_STR(next->text, "hello");
    CHECK(end(&app));
}

static void test_cancel(void)
{
    struct app app;
    scoped_fd fd = -1;
    CHECK(start(&app, &fd));
    struct h2_call *call = h2_request(&client, "GET", "/wait", 0, NULL, 0);
    CHECK(H2_UNTIL(&app, &client, app.waiting));
    h2_cancel(&client, call);
    CHECK(H2_UNTIL(&app, &client, app.ended == 1));
    CHECK_INT(app.last_error, -ECONNRESET);
    /* With the connection go its streams. */
    (void)h2_request(&client, "GET", "/wait", 0, NULL, 0);
    (void)h2_request(&client, "GET", "/wait", 0, NULL, 0);
    CHECK(H2_UNTIL(&app, &client, app.requests == 3));
    fd_closep(&fd);
    CHECK(APP_UNTIL(&app, app.ended == 3));
    CHECK_INT(app.last_error, -ECONNRESET);
    CHECK(end(&app));
}

/* An answer before the body has ended tells the client to stop, without an error. */
static void test_early_answer(void)
{
    struct app app;
    scoped_fd fd = -1;
    CHECK(start(&app, &fd));
    struct h2_call *call = h2_request(&client, "POST", "/early", 1000 * 1000 * 1000, NULL, 0);
    CHECK(H2_UNTIL(&app, &client, call->closed));
    CHECK_INT(call->status, 403);
    CHECK_STR(call->text, "no");
    CHECK_INT(call->close_code, NGHTTP2_NO_ERROR);
    CHECK(APP_UNTIL(&app, http_server_figures(app.server).exchanges == 0));
    struct h2_call *next = h2_request(&client, "GET", "/hello", 0, NULL, 0);
    CHECK(H2_UNTIL(&app, &client, next->closed));
    CHECK_STR(next->text, "hello");
    CHECK(end(&app));
}

static void test_no_body(void)
{
    struct app app;
    scoped_fd fd = -1;
    CHECK(start(&app, &fd));
    struct h2_call *head = h2_request(&client, "HEAD", "/hello", 0, NULL, 0);
    struct h2_call *empty = h2_request(&client, "GET", "/empty", 0, NULL, 0);
    CHECK(H2_UNTIL(&app, &client, head->closed && empty->closed));
    CHECK_INT(head->status, 200);
    CHECK(strstr(head->headers, "content-length: 5\n"));
    CHECK_INT((long long)head->received, 0);
    CHECK_INT(empty->status, 204);
    CHECK(!strstr(empty->headers, "content-length"));
    CHECK(end(&app));
}

static void test_expect(void)
{
    struct app app;
    scoped_fd fd = -1;
    const struct h2_header expect = {"expect", "100-continue"};
    CHECK(start(&app, &fd));
    struct h2_call *call = h2_request(&client, "POST", "/gather", 500, &expect, 1);
    CHECK(H2_UNTIL(&app, &client, call->closed));
    CHECK_INT(call->status, 200);
    CHECK_STR(call->text, "gathered 500");
    CHECK_INT(call->interim, 1);
    CHECK(end(&app));
}

static void test_headers(void)
{
    struct app app;
    scoped_fd fd = -1;
    const struct h2_header cookies[] = {{"cookie", "a=1"}, {"x", "y"}, {"cookie", "b=2"}};
    CHECK(start(&app, &fd));
    struct h2_call *call = h2_request(&client, "GET", "/split", 0, cookies, 3);
    CHECK(H2_UNTIL(&app, &client, call->closed));
    CHECK_STR(app.last_cookie, "a=1; b=2");
    CHECK_INT(call->status, 200);
    CHECK_STR(call->text, "split");
    CHECK(strstr(call->headers, "x-good: kept\n"));
    CHECK(strstr(call->headers, "content-length: 5\n"));
    const char *const unwanted[] = {"x-bad",    "set-cookie",        "x-nul",  "x bad name",
                                    "nameless", "content-length: 9", "chunked"};
    for (size_t i = 0; i < countof(unwanted); i++) {
        CHECK_THAT(!strstr(call->headers, unwanted[i]), "%s was sent", unwanted[i]);
    }
    CHECK(end(&app));
}

static void test_limits(void)
{
    static char value[9000], path[HTTP_TARGET_BYTES_MAX + 2];
    struct h2_header headers[140];
    struct app app;
    scoped_fd fd = -1;
    CHECK(start(&app, &fd));
    memset(value, 'v', sizeof(value) - 1);
    memset(path, '/', sizeof(path) - 1);
    for (size_t i = 0; i < countof(headers); i++) {
        headers[i] = (struct h2_header){"x", "y"};
    }
    struct h2_call *many = h2_request(&client, "GET", "/hello", 0, headers, countof(headers));
    for (size_t i = 0; i < 4; i++) {
        headers[i].value = value;
    }
    struct h2_call *large = h2_request(&client, "GET", "/hello", 0, headers, 4);
    struct h2_call *longest = h2_request(&client, "GET", path, 0, NULL, 0);
    struct h2_call *odd = h2_request(&client, "GET", "hello", 0, NULL, 0);
    CHECK(H2_UNTIL(&app, &client, many->closed && large->closed && longest->closed && odd->closed));
    CHECK_INT(many->status, 431);
    CHECK(strstr(many->text, "{\"code\":431,\"message\":"));
    CHECK_INT(large->status, 431);
    CHECK_INT(longest->status, 414);
    CHECK(odd->status == 400 || odd->close_code == NGHTTP2_PROTOCOL_ERROR);
    CHECK_INT(app.requests, 0);
    struct h2_call *next = h2_request(&client, "GET", "/hello", 0, NULL, 0);
    CHECK(H2_UNTIL(&app, &client, next->closed));
    CHECK_INT(next->status, 200);
    CHECK(end(&app));
}

/* Opening and cancelling without end is stopped; nothing of it stays behind. */
static void test_rapid_reset(void)
{
    struct app app;
    scoped_fd fd = -1;
    CHECK(start(&app, &fd));
    for (size_t i = 0; i < H2_CALLS_MAX && !client.goaway; i++) {
        struct h2_call *call = h2_request(&client, "GET", "/wait", 0, NULL, 0);
        h2_step(&client);
        h2_cancel(&client, call);
        h2_step(&client);
        app_step(&app);
    }
    CHECK(H2_UNTIL(&app, &client, client.goaway && client.eof));
    CHECK_INT(client.goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
    CHECK(APP_UNTIL(&app, app.ended == app.requests));
    CHECK(end(&app));
}

/* Answers to a flood of pings that nobody reads do not pile up: the connection is given up. */
static void test_ping_flood(void)
{
    enum { PING = 17, PINGS = 1000 };
    static char pings[PING * (PINGS + 1)];
    struct app app;
    scoped_fd fd = -1;
    size_t sent = 0;
    CHECK(start(&app, &fd));
    for (size_t i = 0; i < sizeof(pings); i += PING) {
        memcpy(pings + i, (char[PING]){0, 0, 8, 6}, PING);
    }
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){4096}, sizeof(int)) == 0);
    struct h2_call *call = h2_request(&client, "GET", "/hello", 0, NULL, 0);
    CHECK(H2_UNTIL(&app, &client, call->closed));
    CHECK(APP_UNTIL(&app, ({
        /* Goes on where the last one was cut: every frame is whole. */
        ssize_t n = send(fd, pings + sent % PING, PING * PINGS, MSG_DONTWAIT | MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
        n < 0 && errno != EAGAIN;
    })));
    CHECK(APP_UNTIL(&app, http_server_figures(app.server).connections == 0));
    CHECK(end(&app));
}

static void test_garbage(void)
{
    struct app app;
    scoped_fd fd = -1;
    CHECK(start(&app, &fd));
    scoped_fd bad = app_connect(&app);
    scoped_reply reply = {0};
    CHECK(app_say(&app, bad, "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\nnonsense"));
    CHECK(app_read_eof(&app, bad, &reply));
    scoped_fd worse = app_connect(&app);
    scoped_reply answer = {0};
    CHECK(app_say(&app, worse, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnot a frame at all, is it?"));
    CHECK(app_read_eof(&app, worse, &answer));
    CHECK_INT(app.requests, 0);
    CHECK(end(&app));
}

static void on_stopped(void *ctx)
{
    *(bool *)ctx = true;
}

/* A stop says GOAWAY and lets the stream under way end. */
static void test_stop(void)
{
    struct app app;
    scoped_fd fd = -1;
    bool stopped = false;
    CHECK(start(&app, &fd));
    struct h2_call *call = h2_request(&client, "GET", "/wait", 0, NULL, 0);
    CHECK(H2_UNTIL(&app, &client, app.waiting));
    http_server_stop(app.server, APP_WAIT_MS, on_stopped, &stopped);
    CHECK(H2_UNTIL(&app, &client, client.goaway));
    CHECK_INT(client.goaway_code, NGHTTP2_NO_ERROR);
    CHECK(!stopped);
    app_release(&app);
    CHECK(H2_UNTIL(&app, &client, call->closed));
    CHECK_STR(call->text, "released");
    CHECK(H2_UNTIL(&app, &client, client.eof));
    fd_closep(&fd);
    CHECK(APP_UNTIL(&app, stopped));
    http_server_free(app.server);
    uv_run(&app.loop, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&app.loop) == 0);
    h2_end(&client);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a request by prior knowledge", test_hello},
        {"HTTP/1.1 on the same port", test_beside_http1},
        {"100 streams at once", test_many_streams},
        {"no credit stops one stream", test_back_pressure_in},
        {"a closed window stops one handler", test_back_pressure_out},
        {"an abort is RST_STREAM", test_abort},
        {"a client that cancels or leaves", test_cancel},
        {"an answer before the body has ended", test_early_answer},
        {"HEAD and 204 have no body", test_no_body},
        {"expect: 100-continue", test_expect},
        {"headers: cookies joined, injections dropped", test_headers},
        {"limits on the head", test_limits},
        {"rapid resets", test_rapid_reset},
        {"a flood of pings", test_ping_flood},
        {"garbage after the preface", test_garbage},
        {"a graceful stop", test_stop},
    };
    return check_run(tests, countof(tests));
}
