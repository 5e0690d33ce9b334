/* The client's half against a service that the test plays, byte by byte. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "http_app.h"
#include "lib/base/fd.h"
#include "lib/http/upstream.h"

#define CHECK_HAS(reply, text)                                                                     \
    CHECK_THAT(strstr((reply).at, text), "'%s' is not in '%.600s'", text, (reply).at)

/* A service's end of a pair, and what the client's half said. The app lends its loop and helpers.
 */
struct side {
    struct app app;
    struct upstream *up;
    int fd;
    int status, error;
    int64_t length;
    unsigned responses, body_ends, ends, credits, gone;
    size_t n;
    char headers[512], body[1024];
    uint64_t received;
    bool close_in_response;
};

static void on_response(void *ctx, int status, const struct http_header *headers, size_t n,
                        int64_t length)
{
    struct side *s = ctx;

    s->responses++;
    s->status = status;
    s->length = length;
    s->headers[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        size_t used = strlen(s->headers);
        (void)snprintf(s->headers + used, sizeof(s->headers) - used, "%.*s=%.*s;",
                       (int)headers[i].name.len, headers[i].name.at, (int)headers[i].value.len,
                       headers[i].value.at);
    }
    if (s->close_in_response) {
        upstream_close(s->up);
        s->up = NULL;
    }
}

static void on_body(void *ctx, const void *data, size_t len)
{
    struct side *s = ctx;
    size_t room = sizeof(s->body) - 1;

    if (s->received < room) {
        size_t at = (size_t)s->received;
        memcpy(s->body + at, data, len < room - at ? len : room - at);
    }
    s->received += len;
}

static void on_body_end(void *ctx)
{
    ((struct side *)ctx)->body_ends++;
}

static void on_credit(void *ctx)
{
    ((struct side *)ctx)->credits++;
}

static void on_end(void *ctx, int error)
{
    struct side *s = ctx;

    s->ends++;
    s->error = error;
}

static const struct upstream_handler handler = {
    .on_response = on_response,
    .on_body = on_body,
    .on_body_end = on_body_end,
    .on_credit = on_credit,
    .on_end = on_end,
};

static const struct http_header host = {{"host", 4}, {"service", 7}};

static bool side_start(struct side *s)
{
    int fds[2];
    struct err err;

    memset(s, 0, sizeof(*s));
    s->fd = -1;
    if (!app_start(&s->app, (struct http_server_options){0}, NULL) ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0) {
        return false;
    }
    s->fd = fds[0];
    return upstream_new(&s->app.loop, fds[1], &s->up, &err) == 0;
}

static bool side_end(struct side *s)
{
    upstream_close(s->up);
    fd_closep(&s->fd);
    return app_end(&s->app);
}

static void side_send(struct side *s, const char *method, int64_t length, bool tunnel)
{
    upstream_send(s->up, str_of(method), STR("/path?q"), &host, 1, length, tunnel, &handler, s);
}

/* One exchange: GET, this answer, and then its end. */
static bool side_get(struct side *s, const char *answer)
{
    scoped_reply request = {0};
    unsigned ends = s->ends;

    memset(s->body, 0, sizeof(s->body));
    s->received = 0;
    side_send(s, "GET", 0, false);
    upstream_finish(s->up);
    upstream_credit(s->up, HTTP_WINDOW_BYTES);
    return app_read_until(&s->app, s->fd, &request, "\r\n\r\n") &&
           app_say(&s->app, s->fd, answer) && APP_UNTIL(&s->app, s->ends > ends);
}

static void test_reuse(void)
{
    struct side s;
    CHECK(side_start(&s));
    for (unsigned i = 1; i <= 3; i++) {
        CHECK(side_get(&s, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX-Name: Value\r\n\r\nbody"));
        CHECK_INT(s.error, 0);
        CHECK_INT(s.status, 200);
        CHECK_INT(s.length, 4);
        CHECK_STR(s.headers, "content-length=4;x-name=Value;");
        CHECK_STR(s.body, "body");
        CHECK_INT(s.body_ends, i);
        CHECK(upstream_reusable(s.up));
    }
    CHECK(side_end(&s));
}

static void test_request_framing(void)
{
    struct side s;
    const struct http_header headers[] = {host,
                                          {STR("content-length"), STR("99")},
                                          {STR("x-bad"), STR("a\r\nb: c")},
                                          {STR("date"), STR("kept")},
                                          {STR("Transfer-Encoding"), STR("gzip")}};
    scoped_reply request = {0};
    CHECK(side_start(&s));
    upstream_send(s.up, STR("POST"), STR("/up"), headers, countof(headers), -1, false, &handler,
                  &s);
    upstream_write(s.up, "one", 3);
    upstream_write(s.up, "two two two two two", 19);
    upstream_finish(s.up);
    CHECK(app_read_until(&s.app, s.fd, &request, "\r\n0\r\n\r\n"));
    CHECK_STR(request.at, "POST /up HTTP/1.1\r\nhost: service\r\ndate: kept\r\n"
                          "transfer-encoding: chunked\r\n\r\n"
                          "3\r\none\r\n13\r\ntwo two two two two\r\n0\r\n\r\n");
    CHECK(app_say(&s.app, s.fd, "HTTP/1.1 204 No Content\r\n\r\n"));
    CHECK(APP_UNTIL(&s.app, s.ends == 1));
    CHECK(upstream_reusable(s.up));

    scoped_reply second = {0};
    side_send(&s, "PUT", 5, false);
    upstream_write(s.up, "12345", 5);
    upstream_finish(s.up);
    CHECK(app_read_until(&s.app, s.fd, &second, "12345"));
    CHECK_STR(second.at, "PUT /path?q HTTP/1.1\r\nhost: service\r\ncontent-length: 5\r\n\r\n12345");
    CHECK(side_end(&s));
}

static void test_chunked(void)
{
    static const char answer[] = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
                                 "HTTP/1.1 100 Continue\r\n\r\n"
                                 "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                                 "3\r\nabc\r\n5\r\ndefgh\r\n0\r\nT: t\r\n\r\n";
    struct side s;
    CHECK(side_start(&s));
    for (size_t cut = 1; cut < sizeof(answer) - 1; cut++) {
        scoped_reply request = {0};
        s.received = s.ends = s.responses = 0;
        side_send(&s, "GET", 0, false);
        upstream_finish(s.up);
        upstream_credit(s.up, 1);
        CHECK(app_read_until(&s.app, s.fd, &request, "\r\n\r\n"));
        CHECK(app_send(&s.app, s.fd, answer, cut));
        app_step(&s.app);
        CHECK(app_send(&s.app, s.fd, answer + cut, sizeof(answer) - 1 - cut));
        CHECK(APP_UNTIL(&s.app, s.received == 1)); /* as much as the credit allows */
        upstream_credit(s.up, 7);
        CHECK(APP_UNTIL(&s.app, s.ends == 1));
        CHECK_INT(s.error, 0);
        CHECK_INT(s.responses, 1);
        CHECK_INT(s.length, -1);
        CHECK_INT((long long)s.received, 8);
        CHECK_THAT(strncmp(s.body, "abcdefgh", 8) == 0, "cut at %zu: '%s'", cut, s.body);
        CHECK(upstream_reusable(s.up));
    }
    CHECK(side_end(&s));
}

static void test_until_close(void)
{
    struct side s;
    scoped_reply request = {0};
    CHECK(side_start(&s));
    side_send(&s, "GET", 0, false);
    upstream_finish(s.up);
    upstream_credit(s.up, 5);
    CHECK(app_read_until(&s.app, s.fd, &request, "\r\n\r\n"));
    CHECK(app_say(&s.app, s.fd, "HTTP/1.0 200 OK\r\n\r\nuntil the end"));
    fd_closep(&s.fd);
    CHECK(APP_UNTIL(&s.app, s.received == 5));
    CHECK_INT(s.ends, 0);
    upstream_credit(s.up, 100);
    CHECK(APP_UNTIL(&s.app, s.ends == 1));
    CHECK_INT(s.error, 0);
    CHECK_INT(s.length, -1);
    CHECK_STR(s.body, "until the end");
    CHECK(!upstream_reusable(s.up));
    CHECK(side_end(&s));
}

/* What is cut off must never look whole. */
static void test_cut(void)
{
    static const char *const answers[] = {
        "",
        "HTTP/1.1 200",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n123456789",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n",
    };
    for (size_t i = 0; i < countof(answers); i++) {
        struct side s;
        CHECK(side_start(&s));
        side_send(&s, "GET", 0, false);
        upstream_finish(s.up);
        upstream_credit(s.up, 1000);
        CHECK(app_say(&s.app, s.fd, answers[i]));
        CHECK(shutdown(s.fd, SHUT_WR) == 0);
        CHECK(APP_UNTIL(&s.app, s.ends == 1));
        CHECK_THAT(s.error == -ECONNRESET, "answer %zu ended with %d", i, s.error);
        CHECK_INT(s.body_ends, 0);
        CHECK(!upstream_reusable(s.up));
        CHECK(side_end(&s));
    }
}

static void test_nonsense(void)
{
    static const char *const answers[] = {
        "SSH-2.0-OpenSSH_9.2\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n", /* nobody asked */
        "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    };
    for (size_t i = 0; i < countof(answers); i++) {
        struct side s;
        CHECK(side_start(&s));
        CHECK(side_get(&s, answers[i]));
        CHECK_THAT(s.error == -EPROTO, "answer %zu ended with %d", i, s.error);
        CHECK(!upstream_reusable(s.up));
        CHECK(side_end(&s));
    }
}

static void test_head(void)
{
    struct side s;
    scoped_reply request = {0};
    CHECK(side_start(&s));
    side_send(&s, "HEAD", 0, false);
    upstream_finish(s.up);
    CHECK(app_read_until(&s.app, s.fd, &request, "\r\n\r\n"));
    CHECK(app_say(&s.app, s.fd, "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n"));
    CHECK(APP_UNTIL(&s.app, s.ends == 1));
    CHECK_INT(s.error, 0);
    CHECK_INT(s.length, 1234);
    CHECK_INT((long long)s.received, 0);
    CHECK(upstream_reusable(s.up));
    CHECK(side_get(&s, "HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\n\r\n"));
    CHECK_INT(s.error, 0);
    CHECK(upstream_reusable(s.up));
    CHECK(side_end(&s));
}

static void test_tunnel(void)
{
    struct side s;
    const struct http_header headers[] = {
        host, {STR("connection"), STR("Upgrade")}, {STR("upgrade"), STR("websocket")}};
    scoped_reply request = {0};
    CHECK(side_start(&s));
    upstream_send(s.up, STR("GET"), STR("/ws"), headers, countof(headers), 0, true, &handler, &s);
    upstream_credit(s.up, 1000);
    CHECK(app_read_until(&s.app, s.fd, &request, "\r\n\r\n"));
    CHECK_HAS(request, "connection: upgrade\r\n");
    CHECK_HAS(request, "upgrade: websocket\r\n");
    CHECK(app_say(&s.app, s.fd,
                  "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                  "Connection: Upgrade\r\n\r\nfirst"));
    CHECK(APP_UNTIL(&s.app, s.received == 5));
    CHECK_INT(s.status, 101);
    upstream_write(s.up, "raw bytes", 9);
    CHECK(app_read_until(&s.app, s.fd, &request, "\r\n\r\nraw bytes"));
    upstream_finish(s.up);
    CHECK(app_read_eof(&s.app, s.fd, &request) && request.eof);
    CHECK(app_say(&s.app, s.fd, "last"));
    fd_closep(&s.fd);
    CHECK(APP_UNTIL(&s.app, s.ends == 1));
    CHECK_INT(s.error, 0);
    CHECK_STR(s.body, "firstlast");
    CHECK_INT(s.body_ends, 1);
    CHECK(!upstream_reusable(s.up));
    CHECK(side_end(&s));
}

static void on_gone(void *ctx)
{
    ((struct side *)ctx)->gone++;
}

static void test_idle(void)
{
    struct side s;
    CHECK(side_start(&s));
    CHECK(side_get(&s, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
    upstream_idle(s.up, on_gone, &s);
    for (int i = 0; i < 10; i++) {
        app_step(&s.app);
    }
    CHECK_INT(s.gone, 0);
    fd_closep(&s.fd);
    CHECK(APP_UNTIL(&s.app, s.gone == 1));
    CHECK(!upstream_reusable(s.up));
    /* One sent all the same fails as one that was cut. */
    side_send(&s, "GET", 0, false);
    CHECK(APP_UNTIL(&s.app, s.ends == 2));
    CHECK_INT(s.error, -ECONNRESET);
    CHECK(side_end(&s));

    /* Bytes that nobody asked for are no answer to the next request. */
    CHECK(side_start(&s));
    CHECK(side_get(&s, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
    upstream_idle(s.up, on_gone, &s);
    CHECK(app_say(&s.app, s.fd, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong"));
    CHECK(APP_UNTIL(&s.app, s.gone == 1));
    CHECK(side_end(&s));

    CHECK(side_start(&s));
    CHECK(side_get(&s, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n"));
    CHECK_INT(s.error, 0);
    CHECK(!upstream_reusable(s.up));
    CHECK(side_end(&s));
}

/* The service answers before it has read all: that is the end, and the connection is not reused. */
static void test_early_answer(void)
{
    struct side s;
    scoped_reply request = {0};
    CHECK(side_start(&s));
    side_send(&s, "POST", 1000, false);
    upstream_credit(s.up, 1000);
    upstream_write(s.up, "some", 4);
    CHECK(app_read_until(&s.app, s.fd, &request, "some"));
    CHECK(app_say(&s.app, s.fd, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno"));
    CHECK(APP_UNTIL(&s.app, s.ends == 1));
    CHECK_INT(s.error, 0);
    CHECK_INT(s.status, 413);
    CHECK(!upstream_reusable(s.up));
    CHECK(side_end(&s));

    /* It even closes, so that writing fails: its answer still counts. */
    CHECK(side_start(&s));
    static char bytes[1 << 20];
    side_send(&s, "POST", sizeof(bytes), false);
    upstream_credit(s.up, 1000);
    CHECK(app_say(&s.app, s.fd, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno"));
    CHECK(shutdown(s.fd, SHUT_RD) == 0);
    upstream_write(s.up, bytes, sizeof(bytes));
    CHECK(APP_UNTIL(&s.app, s.ends == 1));
    CHECK_INT(s.error, 0);
    CHECK_INT(s.status, 413);
    CHECK(side_end(&s));
}

static void test_back_pressure(void)
{
    static char bytes[64 * 1024];
    struct side s;
    size_t wrote = 0;
    CHECK(side_start(&s));
    side_send(&s, "POST", 100 * 1000 * 1000, false);
    for (size_t n; (n = upstream_writable(s.up)) > 0 && wrote < 50 * 1000 * 1000;) {
        n = n < sizeof(bytes) ? n : sizeof(bytes);
        upstream_write(s.up, bytes, n);
        wrote += n;
        app_step(&s.app);
    }
    CHECK(wrote < 4 * 1024 * 1024);
    CHECK_INT(s.credits, 0);
    scoped_reply request = {0};
    CHECK(app_read_bytes(&s.app, s.fd, &request, wrote));
    CHECK(APP_UNTIL(&s.app, s.credits == 1));
    CHECK(upstream_writable(s.up) > 0);
    CHECK(side_end(&s));
}

static void test_misuse(void)
{
    struct side s;
    CHECK(side_start(&s));
    side_send(&s, "POST", 3, false);
    upstream_write(s.up, "1234", 4); /* more than announced */
    CHECK_INT(s.ends, 0);            /* never inside a call */
    CHECK(APP_UNTIL(&s.app, s.ends == 1));
    CHECK_INT(s.error, -EPROTO);
    CHECK(side_end(&s));
    CHECK(side_start(&s));
    side_send(&s, "POST", 3, false);
    upstream_finish(s.up);
    CHECK(APP_UNTIL(&s.app, s.ends == 1));
    CHECK_INT(s.error, -EPROTO);
    CHECK(side_end(&s));
    CHECK(side_start(&s));
    upstream_send(s.up, STR("GET"), STR("/a b\r\nX: y"), &host, 1, 0, false, &handler, &s);
    CHECK(APP_UNTIL(&s.app, s.ends == 1));
    CHECK_INT(s.error, -EINVAL);
    CHECK(side_end(&s));
}

/* Closed from inside its own callback, and in the middle of an exchange: no callback follows. */
static void test_close(void)
{
    struct side s;
    CHECK(side_start(&s));
    s.close_in_response = true;
    side_send(&s, "GET", 0, false);
    upstream_credit(s.up, 1000);
    CHECK(app_say(&s.app, s.fd, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody"));
    CHECK(APP_UNTIL(&s.app, s.responses == 1));
    for (int i = 0; i < 10; i++) {
        app_step(&s.app);
    }
    CHECK_INT((long long)s.received, 0);
    CHECK_INT(s.ends, 0);
    CHECK(side_end(&s));
    CHECK(side_start(&s));
    side_send(&s, "GET", 0, false);
    upstream_close(s.up);
    s.up = NULL;
    CHECK(side_end(&s));
    CHECK_INT(s.ends, 0);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"one exchange after the other", test_reuse},
        {"how a request is framed", test_request_framing},
        {"chunked, cut at every byte, by credit", test_chunked},
        {"a body that ends with its connection", test_until_close},
        {"an answer that is cut off", test_cut},
        {"an answer that is none", test_nonsense},
        {"HEAD and 304", test_head},
        {"a tunnel", test_tunnel},
        {"an idle connection that goes", test_idle},
        {"an answer before the request has ended", test_early_answer},
        {"a service that does not read", test_back_pressure},
        {"more or less than was announced", test_misuse},
        {"closing at any time", test_close},
    };
    return check_run(tests, countof(tests));
}
