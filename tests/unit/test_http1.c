/* HTTP/1.1 on real sockets: framing, limits, refusals, streams, tunnels. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "http_app.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/http/field_rules.h"

#define CHECK_HAS(reply, text)                                                                     \
    CHECK_THAT(strstr((reply).at, text), "'%s' is not in '%.600s'", text, (reply).at)
#define CHECK_HAS_NOT(reply, text)                                                                 \
    CHECK_THAT(!strstr((reply).at, text), "'%s' is in '%.600s'", text, (reply).at)

static size_t count(const char *text, const char *word)
{
    size_t n = 0;

    for (const char *p = strstr(text, word); p; p = strstr(p + 1, word)) {
        n++;
    }
    return n;
}

static void test_keep_alive(void)
{
    struct app app;
    CHECK(app_start(&app, (struct http_server_options){0}, NULL));
    scoped_fd fd = app_connect(&app);
    for (int i = 0; i < 3; i++) {
        scoped_reply reply = {0};
        CHECK(app_say(&app, fd, "GET /hello?a=1 HTTP/1.1\r\nHost: some.host:80\r\n\r\n"));
        CHECK(app_read_until(&app, fd, &reply, "\r\n\r\nhello"));
        CHECK_HAS(reply, "HTTP/1.1 200 OK\r\n");
        CHECK_HAS(reply, "\r\ndate: ");
        CHECK_HAS(reply, "\r\ncontent-length: 5\r\n");
        CHECK_HAS_NOT(reply, "connection:");
    }
    CHECK_STR(app.last_peer, "127.0.0.1");
    CHECK_STR(app.last_authority, "some.host:80");
    CHECK_STR(app.last_path, "/hello");
    CHECK_STR(app.last_query, "a=1");
    CHECK_INT((long long)http_server_figures(app.server).requests, 3);
    CHECK_INT((long long)http_server_figures(app.server).exchanges, 0);
    CHECK_INT((long long)http_server_figures(app.server).connections, 1);
    CHECK(app_end(&app));
}

static void test_connection_close(void)
{
    struct app app;
    CHECK(app_start(&app, (struct http_server_options){0}, NULL));
    const char *requests[] = {
        "GET /hello HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
        "GET /hello HTTP/1.0\r\n\r\n",
    };
    for (size_t i = 0; i < countof(requests); i++) {
        scoped_fd fd = app_connect(&app);
        scoped_reply reply = {0};
        CHECK(app_say(&app, fd, requests[i]));
        CHECK(app_read_eof(&app, fd, &reply) && reply.eof);
        CHECK_HAS(reply, "\r\nconnection: close\r\n");
        CHECK_HAS(reply, "\r\n\r\nhello");
    }
    scoped_fd fd = app_connect(&app);
    scoped_reply reply = {0};
    CHECK(app_say(&app, fd, "GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
    CHECK(app_read_until(&app, fd, &reply, "hello"));
    CHECK_HAS(reply, "\r\nconnection: keep-alive\r\n");
    CHECK(app_end(&app));
}

/* A response without a length to a client that knows no chunks ends with the connection. */
static void test_http10_stream(void)
{
    struct app app;
    CHECK(app_start(&app, (struct http_server_options){0}, NULL));
    scoped_fd fd = app_connect(&app);
    scoped_reply reply = {0};
    CHECK(app_say(&app, fd, "POST /echo HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc"));
    CHECK(app_read_eof(&app, fd, &reply) && reply.eof);
    CHECK_HAS_NOT(reply, "transfer-encoding");
    CHECK_HAS(reply, "\r\n\r\nabc");
    CHECK(app_end(&app));
}

static void test_pipelining(void)
{
    struct app app;
    scoped_buf(all, 1 << 20);
    CHECK(app_start(&app, (struct http_server_options){0}, NULL));
    for (int i = 0; i < 2000; i++) {
        CHECK(buf_printf(&all, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\n<%04d>",
                         i) == 0);
    }
    CHECK(buf_printf(&all, "GET /hello HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n") == 0);
    scoped_fd fd = app_connect(&app);
    scoped_reply reply = {0};
    CHECK(app_send(&app, fd, buf_at(&all), buf_len(&all)));
    CHECK(app_read_eof(&app, fd, &reply) && reply.eof);
    CHECK_INT((long long)count(reply.at, "HTTP/1.1 200 OK"), 2001);
    const char *at = reply.at;
    for (int i = 0; i < 2000; i++) {
        char want[16];
        (void)snprintf(want, sizeof(want), "<%04d>", i);
        at = strstr(at, want);
        CHECK_THAT(at, "answer %d is missing or out of order", i);
    }
    CHECK(app_end(&app));
}

/* The second request waits while the first is being answered. */
static void test_pipelining_waits(void)
{
    struct app app;
    CHECK(app_start(&app, (struct http_server_options){0}, NULL));
    scoped_fd fd = app_connect(&app);
    scoped_reply reply = {0};
    CHECK(app_say(&app, fd,
                  "GET /wait HTTP/1.1\r\nHost: h\r\n\r\nGET /hello HTTP/1.1\r\nHost: h\r\n\r\n"));
    CHECK(APP_UNTIL(&app, app.waiting));
    for (int i = 0; i < 20; i++) {
        app_step(&app);
    }
    CHECK_INT(app.requests, 1);
    app_release(&app);
    CHECK(app_read_until(&app, fd, &reply, "hello"));
    CHECK(strstr(reply.at, "released") < strstr(reply.at, "hello"));
    CHECK(app_end(&app));
}

static void test_chunked(void)
{
    struct app app;
    CHECK(app_start(&app, (struct http_server_options){0}, NULL));
    static const char request[] =
        "POST /gather HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
        "5;name=value\r\nhello\r\n10\r\n0123456789abcdef\r\n0\r\n"
        "Trailer: dropped\r\n\r\n";
    /* Cut at every place, so that no state is lost between two reads. */
    for (size_t cut = 1; cut < sizeof(request) - 1; cut++) {
        scoped_fd fd = app_pair(&app, NULL);
        scoped_reply reply = {0};
        CHECK(app_send(&app, fd, request, cut));
        app_step(&app);
        app_step(&app);
        CHECK(app_send(&app, fd, request + cut, sizeof(request) - 1 - cut));
        CHECK(app_read_until(&app, fd, &reply, "gathered 21"));
    }
    scoped_fd fd = app_connect(&app);
    scoped_reply reply = {0};
    CHECK(app_say(&app, fd,
                  "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "3\r\nabc\r\n0\r\n\r\n"));
    CHECK(app_read_until(&app, fd, &reply, "\r\n0\r\n\r\n"));
    CHECK_HAS(reply, "\r\ntransfer-encoding: chunked\r\n");
    CHECK_HAS(reply, "\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    CHECK(app_end(&app));
}

/* "100 Continue" comes with the first credit; an answer without it ends the connection. */
static void test_expect(void)
{
    struct app app;
    CHECK(app_start(&app, (struct http_server_options){0}, NULL));
    scoped_fd fd = app_connect(&app);
    scoped_reply reply = {0};
    CHECK(app_say(&app, fd,
                  "POST /gather HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n"
                  "Expect: 100-continue\r\n\r\n"));
    CHECK(app_read_until(&app, fd, &reply, "HTTP/1.1 100 Continue\r\n\r\n"));
    CHECK(app_say(&app, fd, "body"));
    CHECK(app_read_until(&app, fd, &reply, "gathered 4"));

    scoped_fd other = app_connect(&app);
    scoped_reply refused = {0};
    CHECK(app_say(&app, other,
                  "POST /gather HTTP/1.1\r\nHost: h\r\nContent-Length: 4000\r\n"
                  "Expect: 100-continue\r\n\r\n"));
    CHECK(app_read_eof(&app, other, &refused) && refused.eof);
    CHECK_HAS(refused, "HTTP/1.1 413");
    CHECK_HAS(refused, "connection: close");
    CHECK_HAS_NOT(refused, "100 Continue");
    CHECK(app_end(&app));
}

static void test_no_body(void)
{
    struct app app;
    CHECK(app_start(&app, (struct http_server_options){0}, NULL));
    scoped_fd fd = app_connect(&app);
    scoped_reply reply = {0};
    CHECK(app_say(&app, fd,
                  "HEAD /hello HTTP/1.1\r\nHost: h\r\n\r\nGET /empty HTTP/1.1\r\nHost: h\r\n\r\n"
                  "HEAD /echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"));
    CHECK(app_read_eof(&app, fd, &reply) && reply.eof);
    CHECK_INT((long long)count(reply.at, "HTTP/1.1 2"), 3);
    CHECK_HAS(reply, "content-length: 5\r\n");
    CHECK_HAS_NOT(reply, "\r\n\r\nhello");
    CHECK_HAS(reply, "HTTP/1.1 204 No Content\r\n");
    CHECK_HAS_NOT(reply, "content-length: 0");
    CHECK_HAS_NOT(reply, "chunked");
    CHECK(app_end(&app));
}

static void test_tunnel(void)
{
    struct app app;
    CHECK(app_start(&app, (struct http_server_options){0}, NULL));
    scoped_fd fd = app_connect(&app);
    scoped_reply reply = {0};
    CHECK(app_say(&app, fd,
                  "GET /tunnel HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\n"
                  "Upgrade: echo\r\n\r\nsent ahead"));
    CHECK(app_read_until(&app, fd, &reply, "\r\n\r\nsent ahead"));
    CHECK_HAS(reply, "HTTP/1.1 101 Switching Protocols\r\n");
    CHECK_HAS(reply, "\r\nconnection: upgrade\r\n");
    CHECK_HAS(reply, "\r\nupgrade: echo\r\n");
    CHECK_HAS_NOT(reply, "content-length");
    CHECK(app_say(&app, fd, "GET / HTTP/1.1\r\n\r\n"));
    CHECK(app_read_until(&app, fd, &reply, "GET / HTTP/1.1\r\n\r\n"));
    CHECK_INT(app.requests, 1);
    CHECK(shutdown(fd, SHUT_WR) == 0);
    CHECK(app_read_eof(&app, fd, &reply) && reply.eof);
    CHECK(APP_UNTIL(&app, app.ended == 1));
    CHECK_INT(app.last_error, 0);

    /* Not granted, the request is like any other and the connection goes on. */
    scoped_fd other = app_connect(&app);
    scoped_reply plain = {0};
    CHECK(app_say(&app, other,
                  "GET /gather HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"
                  "GET /echo HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"
                  "GET /tunnel HTTP/1.1\r\nHost: h\r\n\r\n"));
    CHECK(app_read_until(&app, other, &plain, "HTTP/1.1 426"));
    CHECK_HAS(plain, "gathered 0");
    CHECK_INT((long long)count(plain.at, "HTTP/1.1 200"), 2);
    CHECK(app_end(&app));
}

/* Each must be refused with one answer, and nothing behind it may be taken for a request. */
static void test_refusals(void)
{
    static const struct {
        const char *request;
        const char *status;
    } cases[] = {
        {"GET /hello\r\n\r\n", "400"},
        {"GET /hello HTTP/0.9\r\nHost: h\r\n\r\n", "400"},
        {"GET /hello HTTP/2.0\r\nHost: h\r\n\r\n", "400"},
        {"GET /hello HTTP/1.2\r\nHost: h\r\n\r\n", "400"},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400"},
        {"GET /hello HTTP/1.1\r\n\r\n", "400"},
        {"GET /hello HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "400"},
        {"GET /hello HTTP/1.1\r\nHost: a/b\r\n\r\n", "400"},
        {"GET /hello HTTP/1.1\r\nHost: a b\r\n\r\n", "400"},
        {"GET hello HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
        {"GET * HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
        {"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
        {"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
        {"NONSENSE / HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
        {"POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
        {"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
         "0\r\n\r\n",
         "400"},
        {"POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n"
         "0\r\n\r\n",
         "400"},
        {"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
         "400"},
        {"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3, 3\r\n\r\nabc", "400"},
        {"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: +3\r\n\r\nabc", "400"},
        {"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n", "400"},
        {"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 0x3\r\n\r\nabc", "400"},
        {"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 18446744073709551615\r\n\r\n", "400"},
        {"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999999\r\n\r\n",
         "400"},
        {"POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n"
         "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
         "400"},
        {"POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "400"},
        {"POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
         "400"},
        {"POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, identity\r\n\r\n", "400"},
        {"POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "400"},
        {"GET /hello HTTP/1.1\nHost: h\n\n", "400"},
        {"GET /hello HTTP/1.1\r\nHost: h\nX: y\r\n\r\n", "400"},
        {"GET /hello HTTP/1.1\r\nHost: h\rX: y\r\n\r\n", "400"},
        {"GET /hello HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n", "400"},
        {"GET /hello HTTP/1.1\r\nHost : h\r\n\r\n", "400"},
        {"GET /hello HTTP/1.1\r\n Host: h\r\n\r\n", "400"},
        {"GET /hello HTTP/1.1\r\nHost: h\r\nNo colon\r\n\r\n", "400"},
        {"GET /hello HTTP/1.1 \r\nHost: h\r\n\r\n", "400"},
        {"GET /hel\tlo HTTP/1.1\r\nHost: h\r\n\r\n", "400"},
    };
    struct app app;
    CHECK(app_start(&app, (struct http_server_options){0}, NULL));
    for (size_t i = 0; i < countof(cases); i++) {
        scoped_fd fd = app_connect(&app);
        scoped_reply reply = {0};
        char line[32];
        (void)snprintf(line, sizeof(line), "HTTP/1.1 %s ", cases[i].status);
        CHECK(app_say(&app, fd, cases[i].request));
        CHECK(app_say(&app, fd, "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"));
        CHECK_THAT(app_read_eof(&app, fd, &reply), "case %zu is not answered: '%s'", i,
                   cases[i].request);
        CHECK_THAT(reply.eof && reply.len > 0, "case %zu: no answer or a reset", i);
        CHECK_THAT(strncmp(reply.at, line, strlen(line)) == 0, "case %zu: '%s' got '%s'", i,
                   cases[i].request, reply.at);
        CHECK_INT((long long)count(reply.at, "HTTP/1.1 4"), 1);
        CHECK_HAS(reply, "{\"code\":");
        CHECK_THAT(app.requests == 0, "case %zu reached the handler", i);
    }
    CHECK(app_end(&app));
}

/* Broken chunks come when the handler has the request already. */
static void test_bad_chunks(void)
{
    static const char *const bodies[] = {
        "zz\r\nabc\r\n0\r\n\r\n", "3\r\nabcd\r\n0\r\n\r\n", "3\nabc\r\n0\r\n\r\n",
        "-3\r\nabc\r\n",          "fffffffffffffffff\r\n",  "3 \r\nabc\r\n0\r\n\r\n",
        "0x3\r\nabc\r\n",         "3\r\nabc\n0\r\n\r\n",
    };
    struct app app;
    CHECK(app_start(&app, (struct http_server_options){0}, NULL));
    for (size_t i = 0; i < countof(bodies); i++) {
        scoped_fd fd = app_connect(&app);
        scoped_reply reply = {0};
        CHECK(app_say(&app, fd,
                      "POST /gather HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"));
        CHECK(app_say(&app, fd, bodies[i]));
        CHECK(app_read_eof(&app, fd, &reply) && reply.eof);
        CHECK_THAT(strstr(reply.at, "HTTP/1.1 400"), "body %zu got '%s'", i, reply.at);
        CHECK_INT(app.last_error, -EPROTO);
        CHECK_INT((long long)count(reply.at, "HTTP/1.1 "), 1);
    }
    CHECK(app_end(&app));
}

static bool send_many(struct app *app, int fd, const char *piece, size_t times)
{
    bool ok = true;

    for (size_t i = 0; i < times && ok; i++) {
        ok = app_say(app, fd, piece);
    }
    return ok;
}

static void check_flood(const char *start, const char *piece, size_t times, const char *status)
{
    struct app app;
    CHECK(app_start(&app, (struct http_server_options){0}, NULL));
    scoped_fd fd = app_connect(&app);
    scoped_reply reply = {0};
    CHECK(app_say(&app, fd, start));
    (void)send_many(&app, fd, piece, times); /* it may be refused before all was sent */
    CHECK(app_read_until(&app, fd, &reply, "\r\n\r\n"));
    CHECK_HAS(reply, status);
    CHECK(app_end(&app));
}

static void test_limits(void)
{
    check_flood("GET /hello HTTP/1.1\r\nHost: h\r\n", "X-Header: value\r\n", 130, "HTTP/1.1 431 ");
    check_flood("GET /hello HTTP/1.1\r\nHost: h\r\nX: ", "aaaaaaaaaaaaaaaa", 2100, "HTTP/1.1 431 ");
    check_flood("GET /hello HTTP/1.1\r\nHost: h\r\nX:", "                ", 4000, "HTTP/1.1 431 ");
    check_flood("GET /hello HTTP/1.1\r\nHost: h\r\n", "aaaaaaaaaaaaaaaa", 2100, "HTTP/1.1 431 ");
    check_flood("GET /", "aaaaaaaaaaaaaaaa", 1030, "HTTP/1.1 414 ");
    check_flood("", "\r\n\r\n\r\n\r\n", 10000, "HTTP/1.1 431 ");
    check_flood("POST /gather HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;",
                "aaaaaaaaaaaaaaaa", 1100, "HTTP/1.1 431 ");
    check_flood("POST /gather HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
                "X-Trailer: value\r\n", 1100, "HTTP/1.1 431 ");
}

/* Just within the limits. */
static void test_large_head(void)
{
    struct app app;
    CHECK(app_start(&app, (struct http_server_options){0}, NULL));
    scoped_fd fd = app_connect(&app);
    scoped_reply reply = {0};
    CHECK(app_say(&app, fd, "GET /hello?"));
    CHECK(send_many(&app, fd, "0123456789abcdef", 1000));
    CHECK(app_say(&app, fd, " HTTP/1.1\r\nHost: h\r\nX: "));
    CHECK(send_many(&app, fd, "0123456789abcdef", 1900));
    CHECK(app_say(&app, fd, "\r\n"));
    CHECK(send_many(&app, fd, "y: z\r\n", 120));
    CHECK(app_say(&app, fd, "\r\n"));
    CHECK(app_read_until(&app, fd, &reply, "\r\n\r\nhello"));
    CHECK(app_end(&app));
}

static void test_targets(void)
{
    struct app app;
    CHECK(app_start(&app, (struct http_server_options){0}, NULL));
    scoped_fd fd = app_connect(&app);
    scoped_reply reply = {0};
    CHECK(app_say(&app, fd, "GET http://other.host:1/hello?q HTTP/1.1\r\nHost: h\r\n\r\n"));
    CHECK(app_read_until(&app, fd, &reply, "hello"));
    CHECK_STR(app.last_authority, "other.host:1");
    CHECK_STR(app.last_path, "/hello");
    CHECK_STR(app.last_query, "q");
    CHECK(app_say(&app, fd, "GET https://only.host HTTP/1.1\r\nHost: h\r\n\r\n"));
    CHECK(app_read_until(&app, fd, &reply, "404"));
    CHECK_STR(app.last_path, "/");
    CHECK(app_say(&app, fd, "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n"));
    CHECK(APP_UNTIL(&app, app.requests == 3));
    CHECK_STR(app.last_path, "*");
    CHECK(app_end(&app));
}

static void test_header_injection(void)
{
    struct app app;
    CHECK(app_start(&app, (struct http_server_options){0}, NULL));
    scoped_fd fd = app_connect(&app);
    scoped_reply reply = {0};
    CHECK(app_say(&app, fd, "GET /split HTTP/1.1\r\nHost: h\r\n\r\n"));
    CHECK(app_read_until(&app, fd, &reply, "\r\n\r\nsplit"));
    CHECK_HAS(reply, "x-good: kept\r\n");
    CHECK_HAS(reply, "content-length: 5\r\n");
    const char *const unwanted[] = {"x-bad",    "set-cookie",        "x-nul", "x bad name",
                                    "nameless", "content-length: 9", "hunked"};
    for (size_t i = 0; i < countof(unwanted); i++) {
        CHECK_HAS_NOT(reply, unwanted[i]);
    }
    CHECK(app_end(&app));
}

/* An answer before the body has ended: a short rest is dropped, a long one closes. */
static void test_unread_body(void)
{
    struct app app;
    CHECK(app_start(&app, (struct http_server_options){0}, NULL));
    scoped_fd fd = app_connect(&app);
    scoped_reply reply = {0};
    CHECK(app_say(&app, fd, "POST /early HTTP/1.1\r\nHost: h\r\nContent-Length: 160000\r\n\r\n"));
    CHECK(send_many(&app, fd, "0123456789abcdef", 10000));
    CHECK(app_say(&app, fd, "GET /hello HTTP/1.1\r\nHost: h\r\n\r\n"));
    CHECK(app_read_until(&app, fd, &reply, "hello"));
    CHECK_HAS(reply, "HTTP/1.1 403");

    scoped_fd big = app_connect(&app);
    scoped_reply answer = {0};
    static const char bytes[1024 * 1024];
    CHECK(app_say(&app, big,
                  "POST /early HTTP/1.1\r\nHost: h\r\nContent-Length: 5000000000\r\n\r\n"));
    for (int i = 0; i < 3; i++) {
        CHECK(app_send(&app, big, bytes, sizeof(bytes)));
    }
    CHECK(app_read_eof(&app, big, &answer) && answer.eof);
    CHECK_HAS(answer, "HTTP/1.1 403");
    CHECK(app_end(&app));
}

/* A body of 200 MB through an echo, with memory that does not grow with it. */
static void test_stream_bounded(void)
{
    enum { PIECE = 256 * 1024, PIECES = 800, GROWTH_KB_MAX = 20 * 1024 };
    static char bytes[PIECE];
    struct app app;
    long before_kb = 0;
    uint64_t got = 0;
    size_t sent = 0;

    CHECK(app_start(&app, (struct http_server_options){0}, NULL));
    scoped_fd fd = app_connect(&app);
    CHECK(app_say(&app, fd, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 209715200\r\n\r\n"));
    before_kb = app_memory_kb();
    CHECK(APP_UNTIL(&app, ({
        static char sink[PIECE];
        if (sent < (size_t)PIECE * PIECES) {
            size_t at = sent % PIECE;
            ssize_t n = send(fd, bytes + at, PIECE - at, MSG_DONTWAIT | MSG_NOSIGNAL);
            sent += n > 0 ? (size_t)n : 0;
        }
        ssize_t n = recv(fd, sink, sizeof(sink), MSG_DONTWAIT);
        got += n > 0 ? (uint64_t)n : 0;
        app.ended == 1 && n <= 0;
    })));
    CHECK_INT((long long)app.body_bytes, (long long)PIECE * PIECES);
    CHECK(got > (uint64_t)PIECE * PIECES);
    CHECK_INT(app.last_error, 0);
    CHECK(app_memory_kb() - before_kb < GROWTH_KB_MAX);
    CHECK(app_end(&app));
}

/* A handler without credit stops the sender: the kernel's buffers fill, ours do not. */
static void test_back_pressure_in(void)
{
    static const char bytes[64 * 1024];
    struct app app;
    size_t sent = 0;
    unsigned refused = 0;

    CHECK(app_start(&app, (struct http_server_options){0}, NULL));
    scoped_fd fd = app_pair(&app, NULL);
    CHECK(
        app_say(&app, fd, "POST /sink HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000\r\n\r\n"));
    CHECK(APP_UNTIL(&app, ({
        ssize_t n = send(fd, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
        refused = n > 0 ? 0 : refused + 1;
        refused > 50;
    })));
    CHECK(sent < 8 * 1024 * 1024);
    CHECK_INT((long long)app.body_bytes, APP_SINK_BYTES);
    CHECK(app_end(&app));
}

/* A client that does not read stops the handler: what waits for it stays within the window. */
static void test_back_pressure_out(void)
{
    struct app app;
    long before_kb = 0;

    CHECK(app_start(&app, (struct http_server_options){0}, NULL));
    scoped_fd fd = app_pair(&app, NULL);
    before_kb = app_memory_kb();
    CHECK(app_say(&app, fd, "GET /down?n=300000000 HTTP/1.1\r\nHost: h\r\n\r\n"));
    CHECK(APP_UNTIL(&app, app.requests == 1));
    for (int i = 0; i < 100; i++) {
        app_step(&app);
    }
    CHECK(app_memory_kb() - before_kb < 20 * 1024);
    CHECK_INT(app.ended, 0);
    scoped_reply reply = {0};
    CHECK(app_read_bytes(&app, fd, &reply, 20 * 1024 * 1024));
    CHECK(app_end(&app));
}

static void test_client_leaves(void)
{
    struct app app;
    CHECK(app_start(&app, (struct http_server_options){0}, NULL));
    int fd = app_connect(&app);
    CHECK(app_say(&app, fd, "POST /sink HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nsome"));
    CHECK(APP_UNTIL(&app, app.body_bytes == 4));
    CHECK(close(fd) == 0);
    CHECK(APP_UNTIL(&app, app.ended == 1));
    CHECK_INT(app.last_error, -ECONNRESET);
    CHECK_INT(app.body_ends, 0);

    fd = app_connect(&app);
    CHECK(app_say(&app, fd, "POST /gather HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nsome"));
    CHECK(APP_UNTIL(&app, app.requests == 2));
    CHECK(close(fd) == 0);
    CHECK(APP_UNTIL(&app, app.gone == 1));

    /* Gone while its answer is awaited: noticed although nothing is written. */
    fd = app_connect(&app);
    CHECK(app_say(&app, fd, "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n"));
    CHECK(APP_UNTIL(&app, app.waiting));
    CHECK(close(fd) == 0);
    CHECK(APP_UNTIL(&app, app.ended == 2));
    CHECK_INT(app.last_error, -ECONNRESET);
    CHECK(app_end(&app));
}

/* A client that has sent all it wants and says so still gets its answer. */
static void test_half_close(void)
{
    struct app app;
    CHECK(app_start(&app, (struct http_server_options){0}, NULL));
    scoped_fd fd = app_connect(&app);
    scoped_reply reply = {0};
    CHECK(app_say(&app, fd,
                  "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nhalf"
                  "GET /hello HTTP/1.1\r\nHost: h\r\n\r\n"));
    CHECK(shutdown(fd, SHUT_WR) == 0);
    CHECK(app_read_eof(&app, fd, &reply) && reply.eof);
    CHECK_HAS(reply, "half");
    CHECK_HAS(reply, "hello");
    CHECK_INT((long long)count(reply.at, "HTTP/1.1 200"), 2);
    CHECK(app_end(&app));
}

static void test_abort_resets(void)
{
    struct app app;
    CHECK(app_start(&app, (struct http_server_options){0}, NULL));
    scoped_fd fd = app_connect(&app);
    scoped_reply reply = {0};
    CHECK(app_say(&app, fd, "GET /abort HTTP/1.1\r\nHost: h\r\n\r\n"));
    CHECK(app_read_eof(&app, fd, &reply));
    CHECK(reply.reset && !reply.eof);
    CHECK_INT(app.last_error, -EIO);
    CHECK_INT(app.ended, 1);
    CHECK(app_end(&app));
}

/* Who has answered may have freed itself: it must not hear that the client left. */
static void test_late_answer(void)
{
    struct app app;
    CHECK(app_start(&app, (struct http_server_options){0}, NULL));
    scoped_fd fd = app_connect(&app);
    scoped_reply reply = {0};
    CHECK(app_say(&app, fd, "POST /late HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx"));
    CHECK(app_read_eof(&app, fd, &reply));
    CHECK_INT(app.requests, 1);
    CHECK_INT(app.gone, 0);
    CHECK(app_end(&app));
    CHECK_INT(app.gone, 0);
}

/* Each name is compared with every field: a head full of names must not cost their product. */
static void connection_names_a_few_fields(void)
{
    scoped_buf(names, 4096);
    struct http_header headers[] = {{STR("connection"), STR("close, x-private")},
                                    {STR("x-last"), STR("1")}};

    CHECK(field_is_hop_by_hop(STR("x-private"), headers, countof(headers)));
    CHECK(field_is_hop_by_hop(STR("connection"), headers, countof(headers)));
    CHECK(!field_is_hop_by_hop(STR("x-last"), headers, countof(headers)));
    for (int i = 0; i < 100; i++) {
        CHECK_INT(buf_printf(&names, "x-%d,", i), 0);
    }
    CHECK_INT(buf_printf(&names, "x-last"), 0);
    headers[0].value = buf_str(&names);
    CHECK(field_is_hop_by_hop(STR("x-5"), headers, countof(headers)));
    CHECK(!field_is_hop_by_hop(STR("x-last"), headers, countof(headers)));
}

int main(void)
{
    static const struct check_test tests[] = {
        {"Connection names a few fields", connection_names_a_few_fields},
        {"a late answer is the last word", test_late_answer},
        {"keep-alive", test_keep_alive},
        {"connection: close and HTTP/1.0", test_connection_close},
        {"a stream to HTTP/1.0 ends with the connection", test_http10_stream},
        {"pipelined requests are answered in order", test_pipelining},
        {"the next request waits for the answer", test_pipelining_waits},
        {"chunked, cut at every byte", test_chunked},
        {"expect: 100-continue", test_expect},
        {"HEAD and 204 have no body", test_no_body},
        {"a tunnel", test_tunnel},
        {"malformed and ambiguous requests are refused", test_refusals},
        {"malformed chunks are refused", test_bad_chunks},
        {"floods meet a limit", test_limits},
        {"a large head within the limits", test_large_head},
        {"absolute and asterisk targets", test_targets},
        {"a header cannot be split", test_header_injection},
        {"a body that nobody reads", test_unread_body},
        {"200 MB in bounded memory", test_stream_bounded},
        {"no credit stops the sender", test_back_pressure_in},
        {"a slow reader stops the handler", test_back_pressure_out},
        {"a client that leaves", test_client_leaves},
        {"a half-closed client gets its answer", test_half_close},
        {"an abort is a reset", test_abort_resets},
    };
    return check_run(tests, countof(tests));
}
