/* The edge between a real client and a real service, both played here with blocking sockets; the
 * edge runs on its own thread's loop. Of the sandboxes only the doors are stood in for: one sandbox
 * exists, and a dial connects to the service's listener. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <utlist.h>

#include "agent/channel.h"
#include "base/alloc.h"
#include "base/fd.h"
#include "check.h"
#include "edge/edge.h"
#include "http/server.h"

#define ID "isv6ril5xadwn1k9t2jye"
#define TOKEN "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0"

enum { WEB_PORT = 8080, PATIENCE_S = 20 };

/* ---- the sandbox that exists ---- */

struct sandbox {
    struct sandbox_watch *watches;
    json_t *options;
    bool gone;
    bool paused, pausing, returns;
    int wakes;
    int refusals; /* dials to refuse before one is let through */
    int dials;
    struct sockaddr_in service;
};

static struct sandbox only;

struct sandbox *sandboxes_find(struct sandboxes *all, struct str id)
{
    (void)all;
    return !only.gone && str_eq(id, STR(ID)) ? &only : NULL;
}

struct sandbox_info sandbox_info(const struct sandbox *sb)
{
    return (struct sandbox_info){.id = ID,
                                 .access_token = TOKEN,
                                 .state =
                                     sb->paused || sb->pausing ? SANDBOX_PAUSED : SANDBOX_RUNNING,
                                 .changing = sb->pausing,
                                 .options = sb->options};
}

bool sandbox_returns(const struct sandbox *sb)
{
    return sb->returns;
}

void sandbox_wake(struct sandbox *sb)
{
    sb->wakes += sb->paused;
}

void sandboxes_each(struct sandboxes *all, bool ascending, const struct sandbox_position *after,
                    bool (*each)(void *ctx, struct sandbox *sb), void *ctx)
{
    (void)all, (void)ascending, (void)after;
    (void)each(ctx, &only);
}

void sandbox_watch_set(struct sandbox_watch *watch, struct sandbox *sb)
{
    watch->sandbox = sb;
    DL_APPEND(sb->watches, watch);
}

void sandbox_watch_unset(struct sandbox_watch *watch)
{
    if (watch->sandbox) {
        DL_DELETE(watch->sandbox->watches, watch);
        watch->sandbox = NULL;
    }
}

struct pending_dial {
    uv_timer_t timer;
    int result;
    void (*done)(void *ctx, int fd_or_error);
    void *ctx;
};

static void dial_freed(uv_handle_t *handle)
{
    free(handle->data);
}

static void dial_answer(uv_timer_t *timer)
{
    struct pending_dial *dial = timer->data;

    dial->done(dial->ctx, dial->result);
    uv_close((uv_handle_t *)timer, dial_freed);
}

static uv_loop_t loop;

void sandbox_dial(struct sandbox *sb, uint32_t port, void (*done)(void *ctx, int fd_or_error),
                  void *ctx)
{
    struct pending_dial *dial = xnew(struct pending_dial);

    *dial = (struct pending_dial){.result = -ECONNREFUSED, .done = done, .ctx = ctx};
    sb->dials++;
    if (port != 81 && sb->refusals-- <= 0) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fd, (struct sockaddr *)&sb->service, sizeof(sb->service)) < 0) {
            abort();
        }
        dial->result = fd;
    }
    (void)uv_timer_init(&loop, &dial->timer);
    dial->timer.data = dial;
    (void)uv_timer_start(&dial->timer, dial_answer, 0, 0);
}

/* ---- the edge's thread ---- */

static pthread_t thread;
static uv_async_t wake;
static uv_sem_t done;
static void (*command)(void);
static struct edge *edge;
static struct http_server *server;
static int edge_port;
static int listener = -1;

static void on_request(void *ctx, struct http_exchange *ex)
{
    (void)ctx;
    if (!edge_handle(edge, ex)) {
        http_answer(ex, 418, "text/plain", "api", 3);
    }
}

static void on_wake(uv_async_t *async)
{
    (void)async;
    command();
    uv_sem_post(&done);
}

static void *run_loop(void *ctx)
{
    (void)ctx;
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    return NULL;
}

static void on_loop(void (*what)(void))
{
    command = what;
    (void)uv_async_send(&wake);
    uv_sem_wait(&done);
}

static void kill_sandbox(void)
{
    struct sandbox_watch *watch = NULL;

    only.gone = true;
    while ((watch = only.watches)) {
        sandbox_watch_unset(watch);
        watch->gone(watch);
    }
}

static void stopped(void *ctx)
{
    (void)ctx;
    http_server_free(server);
    uv_close((uv_handle_t *)&wake, NULL);
}

static void stop(void)
{
    edge_free(edge);
    http_server_stop(server, 0, stopped, NULL);
}

static void serve(void)
{
    struct http_server_options options = {.loop = &loop, .on_request = on_request};
    struct err err;

    if (http_server_new(&options, &server, &err) < 0 ||
        http_server_listen(server, "127.0.0.1:0", NULL, &err) < 0) {
        abort();
    }
    edge_port = http_server_port(server);
    edge = edge_new(&loop, NULL, "");
}

static void start(void)
{
    socklen_t len = sizeof(only.service);

    only = (struct sandbox){
        .options = json_object(),
        .service = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&only.service, len) < 0 || listen(listener, 64) < 0 ||
        getsockname(listener, (struct sockaddr *)&only.service, &len) < 0 ||
        uv_loop_init(&loop) < 0 || uv_sem_init(&done, 0) < 0 ||
        uv_async_init(&loop, &wake, on_wake) < 0 ||
        pthread_create(&thread, NULL, run_loop, NULL) != 0) {
        abort();
    }
    on_loop(serve);
}

static void finish(void)
{
    on_loop(stop);
    (void)pthread_join(thread, NULL);
    if (uv_loop_close(&loop) < 0) {
        abort(); /* a handle was left behind */
    }
    uv_sem_destroy(&done);
    json_decref(only.options);
    fd_closep(&listener);
}

/* ---- client and service ---- */

static void be_patient(int fd)
{
    struct timeval patience = {.tv_sec = PATIENCE_S};
    int one = 1;

    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static int client(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)edge_port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0) {
        abort();
    }
    be_patient(fd);
    return fd;
}

static int service(void)
{
    struct pollfd ready = {.fd = listener, .events = POLLIN};

    if (poll(&ready, 1, PATIENCE_S * 1000) != 1) {
        return -1;
    }
    int fd = accept(listener, NULL, NULL);
    be_patient(fd);
    return fd;
}

static void say(int fd, const char *text)
{
    (void)!send(fd, text, strlen(text), MSG_NOSIGNAL);
}

/* Reads until the text ends with `until`, or the peer does. */
static const char *hear(int fd, const char *until)
{
    static char text[65536];
    size_t len = 0, want = strlen(until);

    while (len < sizeof(text) - 1) {
        if (recv(fd, text + len, 1, 0) != 1) {
            break;
        }
        len++;
        if (len >= want && memcmp(text + len - want, until, want) == 0) {
            break;
        }
    }
    text[len] = '\0';
    return text;
}

/* 0: the peer ended well; -errno: it did not; 1: it said more. */
static int how_it_ends(int fd)
{
    char byte;
    ssize_t n = recv(fd, &byte, 1, 0);

    return n < 0 ? -errno : (int)n;
}

#define HEADERS "Host: 127.0.0.1\r\nE2b-Sandbox-Id: " ID "\r\nE2b-Sandbox-Port: "

/* ---- tests ---- */

static void passes_a_request_and_its_answer(void)
{
    start();
    int c = client();
    say(c, "POST /a%2fb?x=1&y HTTP/1.1\r\n" HEADERS "8080\r\nConnection: keep-alive, x-drop\r\n"
           "X-Drop: 1\r\nKeep-Alive: 5\r\nX-Stay: 2\r\nX-Forwarded-For: 10.0.0.1\r\n"
           "X-Forwarded-Proto: https\r\nContent-Length: 5\r\n\r\nhello");
    int s = service();
    const char *head = hear(s, "\r\n\r\n");
    CHECK(strncmp(head, "POST /a%2fb?x=1&y HTTP/1.1\r\n", 28) == 0);
    CHECK(strcasestr(head, "\r\nhost: 127.0.0.1\r\n"));
    CHECK(strcasestr(head, "\r\nx-stay: 2\r\n"));
    CHECK(strcasestr(head, "\r\nx-forwarded-for: 10.0.0.1, 127.0.0.1\r\n"));
    CHECK(strcasestr(head, "\r\nx-forwarded-proto: http\r\n"));
    CHECK(strcasestr(head, "\r\nx-forwarded-host: 127.0.0.1\r\n"));
    CHECK(strcasestr(head, "\r\ncontent-length: 5\r\n"));
    CHECK(!strcasestr(head, "x-drop") && !strcasestr(head, "keep-alive:"));
    CHECK_STR(hear(s, "hello"), "hello");
    say(s, "HTTP/1.1 201 Made\r\nContent-Length: 3\r\nX-Hop: 1\r\nConnection: close, x-hop\r\n"
           "Set-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\nyes");
    head = hear(c, "\r\n\r\n");
    CHECK(strncmp(head, "HTTP/1.1 201 ", 13) == 0);
    CHECK(strcasestr(head, "\r\ncontent-length: 3\r\n"));
    CHECK(strcasestr(head, "set-cookie: a=1\r\n") && strcasestr(head, "set-cookie: b=2\r\n"));
    CHECK(!strcasestr(head, "x-hop"));
    CHECK_STR(hear(c, "yes"), "yes");
    (void)close(c), (void)close(s);
    finish();
}

static void streams_both_ways_at_once(void)
{
    start();
    int c = client();
    say(c, "POST / HTTP/1.1\r\n" HEADERS "8080\r\nTransfer-Encoding: chunked\r\n\r\n");
    say(c, "3\r\none\r\n");
    int s = service();
    CHECK(strcasestr(hear(s, "\r\n\r\n"), "transfer-encoding: chunked"));
    (void)hear(s, "one\r\n");
    say(s, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfrom\r\n");
    CHECK(strncmp(hear(c, "\r\n\r\n"), "HTTP/1.1 200 ", 13) == 0);
    (void)hear(c, "from\r\n");
    say(c, "3\r\ntwo\r\n0\r\n\r\n");
    CHECK(strstr(hear(s, "0\r\n\r\n"), "two"));
    say(s, "4\r\nback\r\n0\r\n\r\n");
    CHECK(strstr(hear(c, "0\r\n\r\n"), "back"));
    (void)close(c), (void)close(s);
    finish();
}

static void tunnels_websockets(void)
{
    start();
    int c = client();
    say(c, "GET /ws HTTP/1.1\r\n" HEADERS "8080\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
           "Sec-WebSocket-Key: abc\r\n\r\n");
    int s = service();
    const char *head = hear(s, "\r\n\r\n");
    CHECK(strcasestr(head, "\r\nconnection: upgrade\r\n"));
    CHECK(strcasestr(head, "\r\nupgrade: websocket\r\n"));
    CHECK(strcasestr(head, "\r\nsec-websocket-key: abc\r\n"));
    say(s, "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
           "Sec-WebSocket-Accept: def\r\n\r\n\x81\x02hi");
    head = hear(c, "\r\n\r\n");
    CHECK(strncmp(head, "HTTP/1.1 101 ", 13) == 0);
    CHECK(strcasestr(head, "upgrade: websocket\r\n"));
    CHECK(strcasestr(head, "sec-websocket-accept: def\r\n"));
    CHECK_STR(hear(c, "hi"), "\x81\x02hi");
    say(c, "\x82\x03raw");
    CHECK_STR(hear(s, "raw"), "\x82\x03raw");
    (void)close(c);
    CHECK(how_it_ends(s) <= 0);
    (void)close(s);
    finish();
}

static void a_refused_upgrade_is_an_answer(void)
{
    start();
    int c = client();
    say(c,
        "GET /ws HTTP/1.1\r\n" HEADERS "8080\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    int s = service();
    (void)hear(s, "\r\n\r\n");
    say(s, "HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno");
    CHECK(strncmp(hear(c, "\r\n\r\n"), "HTTP/1.1 403 ", 13) == 0);
    CHECK_STR(hear(c, "no"), "no");
    (void)close(c), (void)close(s);
    finish();
}

static void check_answer(const char *request, const char *status, const char *type,
                         const char *body)
{
    int c = client();
    say(c, request);
    const char *head = hear(c, "\r\n\r\n");
    CHECK_THAT(strncmp(head + 9, status, 3) == 0, "status is %.3s, want %s", head + 9, status);
    CHECK_THAT(strcasestr(head, type), "no '%s' in %s", type, head);
    CHECK(strcasestr(head, "access-control-allow-origin: *\r\n"));
    CHECK_STR(hear(c, body), body);
    (void)close(c);
}

static void answers_itself_in_the_documented_shapes(void)
{
    static const char json[] = "content-type: application/json; charset=utf-8";

    start();
    check_answer("GET / HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: iunknown\r\n"
                 "E2b-Sandbox-Port: 49983\r\n\r\n",
                 "502", json,
                 "{\"sandboxId\":\"iunknown\",\"message\":\"The sandbox was not found\","
                 "\"code\":502}");
    check_answer("GET / HTTP/1.1\r\n" HEADERS "81\r\n\r\n", "502", json,
                 "{\"sandboxId\":\"" ID "\",\"message\":\"The sandbox is running but port is not "
                 "open\",\"port\":81,\"code\":502}");
    CHECK_INT(only.dials, 5);
    check_answer("POST /init HTTP/1.1\r\n" HEADERS "49983\r\nContent-Length: 0\r\n\r\n", "404",
                 json,
                 "{\"message\":\"This endpoint is reserved for the E2B control plane and is not "
                 "reachable through the sandbox URL\",\"path\":\"/init\",\"code\":404}");
    check_answer("GET / HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: " ID "\r\n\r\n", "400",
                 "content-type: text/plain", "missing header");
    check_answer("GET / HTTP/1.1\r\n" HEADERS "0\r\n\r\n", "400", "content-type: text/plain",
                 "Invalid sandbox port");
    check_answer("GET /files?path=x&signature=v1_no HTTP/1.1\r\nHost: localhost\r\n\r\n", "401",
                 json, "{\"code\":401,\"message\":\"invalid signature\"}");
    finish();
}

static void hides_control_routes_however_spelled(void)
{
    static const char *const paths[] = {"/init/", "//init",      "/%69nit", "/x/../freeze",
                                        "/INIT",  "/./fsthaw?x", "/upgrade"};

    start();
    for (size_t i = 0; i < countof(paths); i++) {
        char request[512];
        int c = client();
        (void)snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\n" HEADERS "49983\r\n\r\n",
                       paths[i]);
        say(c, request);
        const char *head = hear(c, "\r\n\r\n");
        CHECK_THAT(strncmp(head, "HTTP/1.1 404 ", 13) == 0, "%s: %.20s", paths[i], head);
        (void)close(c);
    }
    CHECK_INT(only.dials, 0);
    finish();
}

static void shows_people_a_page(void)
{
    start();
    int c = client();
    say(c, "GET / HTTP/1.1\r\nHost: 81-" ID ".some.test\r\nUser-Agent: Mozilla/5.0\r\n"
           "Accept: text/html\r\n\r\n");
    const char *head = hear(c, "\r\n\r\n");
    CHECK(strncmp(head, "HTTP/1.1 502 ", 13) == 0);
    CHECK(strcasestr(head, "content-type: text/html"));
    const char *body = hear(c, "</html>");
    CHECK(strstr(body, ID) && strstr(body, "no service running on port") && strstr(body, "81"));
    (void)close(c);
    finish();
}

static void everything_else_is_the_apis(void)
{
    start();
    int c = client();
    say(c, "GET /v2/sandboxes HTTP/1.1\r\nHost: localhost\r\n\r\n");
    CHECK(strncmp(hear(c, "\r\n\r\n"), "HTTP/1.1 418 ", 13) == 0);
    (void)close(c);
    finish();
}

static void a_leaving_client_takes_the_service_along(void)
{
    start();
    int c = client();
    say(c, "GET / HTTP/1.1\r\n" HEADERS "8080\r\n\r\n");
    int s = service();
    (void)hear(s, "\r\n\r\n");
    say(s, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n");
    (void)hear(c, "x\r\n");
    (void)close(c);
    CHECK(how_it_ends(s) <= 0);
    (void)close(s);
    finish();
}

static void a_service_that_breaks_off_resets_the_client(void)
{
    start();
    int c = client();
    say(c, "GET / HTTP/1.1\r\n" HEADERS "8080\r\n\r\n");
    int s = service();
    (void)hear(s, "\r\n\r\n");
    say(s, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this");
    (void)hear(c, "only this");
    (void)close(s);
    CHECK_INT(how_it_ends(c), -ECONNRESET);
    (void)close(c);
    finish();
}

static void a_service_that_says_nothing_has_a_port_all_the_same(void)
{
    start();
    int c = client();
    say(c, "GET / HTTP/1.1\r\n" HEADERS "8080\r\n\r\n");
    int s = service();
    (void)hear(s, "\r\n\r\n");
    (void)close(s);
    CHECK(strncmp(hear(c, "\r\n\r\n"), "HTTP/1.1 502 ", 13) == 0);
    CHECK(strstr(hear(c, "}"), "gave no HTTP answer\",\"port\":8080,\"code\":502}"));
    (void)close(c);
    finish();
}

static void a_kill_resets_streams_at_once(void)
{
    start();
    int open = client(), unanswered = client();
    say(open, "GET / HTTP/1.1\r\n" HEADERS "8080\r\n\r\n");
    int s = service();
    (void)hear(s, "\r\n\r\n");
    say(s, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n");
    (void)hear(open, "x\r\n");
    say(unanswered, "GET / HTTP/1.1\r\n" HEADERS "8080\r\n\r\n");
    int s2 = service();
    (void)hear(s2, "\r\n\r\n");

    on_loop(kill_sandbox);
    CHECK_INT(how_it_ends(open), -ECONNRESET);
    CHECK(how_it_ends(s) <= 0);
    CHECK(strncmp(hear(unanswered, "\r\n\r\n"), "HTTP/1.1 502 ", 13) == 0);
    check_answer("GET /health HTTP/1.1\r\n" HEADERS "49983\r\n\r\n", "502", "application/json",
                 "{\"sandboxId\":\"" ID "\",\"message\":\"The sandbox was not found\","
                 "\"code\":502}");
    (void)close(open), (void)close(unanswered), (void)close(s), (void)close(s2);
    finish();
}

static void waits_for_a_service_that_starts(void)
{
    start();
    only.refusals = 2;
    int c = client();
    say(c, "GET / HTTP/1.1\r\n" HEADERS "8080\r\n\r\n");
    int s = service();
    (void)hear(s, "\r\n\r\n");
    say(s, "HTTP/1.1 204 Fine\r\n\r\n");
    CHECK(strncmp(hear(c, "\r\n\r\n"), "HTTP/1.1 204 ", 13) == 0);
    CHECK_INT(only.dials, 3);
    (void)close(c), (void)close(s);
    finish();
}

static void keeps_connections_to_the_agent(void)
{
    start();
    int c = client();
    say(c, "GET /one HTTP/1.1\r\n" HEADERS "49983\r\n\r\n");
    int s = service();
    CHECK(strstr(hear(s, "\r\n\r\n"), "/one"));
    say(s, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    (void)hear(c, "ok");
    say(c, "GET /two HTTP/1.1\r\n" HEADERS "49983\r\n\r\n");
    CHECK(strstr(hear(s, "\r\n\r\n"), "/two")); /* on the same connection */
    say(s, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    (void)hear(c, "\r\n\r\nok");
    CHECK_INT(only.dials, 1);

    /* The agent closes just as it is asked again: asked once more, on a new connection. */
    say(c, "GET /three HTTP/1.1\r\n" HEADERS "49983\r\n\r\n");
    CHECK(strstr(hear(s, "\r\n\r\n"), "/three"));
    (void)close(s);
    s = service();
    CHECK(strstr(hear(s, "\r\n\r\n"), "/three"));
    say(s, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    CHECK(strncmp(hear(c, "\r\n\r\n"), "HTTP/1.1 200 ", 13) == 0);
    CHECK_INT(only.dials, 2);
    (void)close(c), (void)close(s);
    finish();
}

/* One request on the client's connection, answered by the service; the answer allows keep-alive. */
static void exchange(int c, int s, const char *request)
{
    say(c, request);
    CHECK(strlen(hear(s, "\r\n\r\n")) > 4);
    say(s, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    CHECK(strncmp(hear(c, "\r\n\r\n"), "HTTP/1.1 200 ", 13) == 0);
    CHECK_STR(hear(c, "ok"), "ok");
}

/* A service that has answered one request; its connection is kept. */
static int kept_service(int c)
{
    say(c, "GET /first HTTP/1.1\r\n" HEADERS "8080\r\n\r\n");
    int s = service();

    (void)hear(s, "\r\n\r\n");
    say(s, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    (void)hear(c, "\r\n\r\nok");
    return s;
}

static void keeps_connections_to_services(void)
{
    start();
    int c = client(), other = client();
    int s = kept_service(c);
    exchange(c, s, "GET /two HTTP/1.1\r\n" HEADERS "8080\r\n\r\n");
    exchange(other, s, "OPTIONS /three HTTP/1.1\r\n" HEADERS "8080\r\n\r\n");
    CHECK_INT(only.dials, 1);
    (void)close(c), (void)close(other), (void)close(s);
    finish();
}

static void a_kept_connection_is_of_its_port_alone(void)
{
    start();
    int c = client();
    int s = kept_service(c);
    say(c, "GET / HTTP/1.1\r\n" HEADERS "8081\r\n\r\n");
    int there = service();
    CHECK(strstr(hear(there, "\r\n\r\n"), "GET / "));
    say(there, "HTTP/1.1 204 Fine\r\n\r\n");
    CHECK(strncmp(hear(c, "\r\n\r\n"), "HTTP/1.1 204 ", 13) == 0);
    CHECK_INT(only.dials, 2);
    (void)close(c), (void)close(s), (void)close(there);
    finish();
}

/* What could not be asked again gets a connection of its own, and the kept one ends for it. */
static void what_changes_something_gets_a_fresh_connection(void)
{
    start();
    int c = client();
    int s = kept_service(c);
    say(c, "POST / HTTP/1.1\r\n" HEADERS "8080\r\nContent-Length: 4\r\n\r\nbody");
    int fresh = service();
    CHECK(how_it_ends(s) <= 0);
    (void)hear(fresh, "body");
    say(fresh, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    (void)hear(c, "\r\n\r\nok");
    exchange(c, fresh, "GET /after HTTP/1.1\r\n" HEADERS "8080\r\n\r\n");
    CHECK_INT(only.dials, 2);
    (void)close(c), (void)close(s), (void)close(fresh);
    finish();
}

static void a_service_that_closes_a_kept_connection_is_asked_again(void)
{
    start();
    int c = client();
    int s = kept_service(c);
    say(c, "GET /again HTTP/1.1\r\n" HEADERS "8080\r\n\r\n");
    CHECK(strstr(hear(s, "\r\n\r\n"), "/again"));
    (void)close(s);
    s = service();
    CHECK(strstr(hear(s, "\r\n\r\n"), "/again"));
    (void)close(s); /* on a fresh connection it is not asked a third time */
    CHECK(strncmp(hear(c, "\r\n\r\n"), "HTTP/1.1 502 ", 13) == 0);
    CHECK_INT(only.dials, 2);
    (void)close(c);
    finish();
}

/* Answers one request, after which the connection to the service must end. */
static void check_not_kept(const char *request, const char *answer, const char *end)
{
    int c = client();
    say(c, request);
    int s = service();
    (void)hear(s, "\r\n\r\n");
    say(s, answer);
    CHECK(strstr(hear(c, end), end));
    CHECK_THAT(how_it_ends(s) <= 0, "kept after: %s", request);
    (void)close(c), (void)close(s);
}

static void keeps_nothing_that_is_not_clean(void)
{
    static const char upgrade[] =
        "GET / HTTP/1.1\r\n" HEADERS "8080\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    static const char ok[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

    start();
    check_not_kept("GET / HTTP/1.1\r\n" HEADERS "8080\r\n\r\n",
                   "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", "ok");
    check_not_kept("GET / HTTP/1.1\r\n" HEADERS "8080\r\n\r\n",
                   "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok");
    check_not_kept(upgrade, ok, "ok");
    /* It answers without having had the body. */
    check_not_kept("POST / HTTP/1.1\r\n" HEADERS "8080\r\nContent-Length: 9\r\n\r\n", ok, "ok");
    CHECK_INT(only.dials, 4);
    finish();
}

static void pause_sandbox(void)
{
    struct sandbox_watch *watch = NULL, *next = NULL;

    only.pausing = true;
    DL_FOREACH_SAFE (only.watches, watch, next) {
        watch->pausing(watch);
    }
}

static void nothing_is_kept_of_a_sandbox_that_pauses_or_ends(void)
{
    static void (*const ends[])(void) = {pause_sandbox, kill_sandbox};

    for (size_t i = 0; i < countof(ends); i++) {
        start();
        int c = client();
        int s = kept_service(c);
        on_loop(ends[i]);
        CHECK(how_it_ends(s) <= 0);
        (void)close(c), (void)close(s);
        finish();
    }
}

static void keeps_them_up_to_a_limit_and_not_for_long(void)
{
    enum { KEPT_MAX = 16 };
    int clients[KEPT_MAX + 1], services[KEPT_MAX + 1];

    start();
    for (int i = 0; i <= KEPT_MAX; i++) {
        clients[i] = client();
        say(clients[i], "GET / HTTP/1.1\r\n" HEADERS "8080\r\n\r\n");
        services[i] = service();
        (void)hear(services[i], "\r\n\r\n");
    }
    for (int i = 0; i <= KEPT_MAX; i++) {
        say(services[i], "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        (void)hear(clients[i], "ok");
    }
    CHECK(how_it_ends(services[0]) <= 0); /* the first to fall idle made room */
    for (int i = 1; i <= KEPT_MAX; i++) {
        CHECK(how_it_ends(services[i]) <= 0); /* in time */
    }
    for (int i = 0; i <= KEPT_MAX; i++) {
        (void)close(clients[i]), (void)close(services[i]);
    }
    finish();
}

static void finds_the_sandbox_of_a_signed_link(void)
{
    start();
    int c = client();
    say(c, "GET /files?path=hello.txt&username=user&signature="
           "v1_gUtH%2Fs9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E HTTP/1.1\r\nHost: localhost\r\n\r\n");
    int s = service();
    CHECK(strncmp(hear(s, "\r\n\r\n"), "GET /files?path=hello.txt", 25) == 0);
    say(s, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    CHECK(strncmp(hear(c, "\r\n\r\n"), "HTTP/1.1 200 ", 13) == 0);
    (void)close(c), (void)close(s);

    /* The same signature does not let write. */
    check_answer("POST /files?path=hello.txt&username=user&signature="
                 "v1_gUtH%2Fs9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E HTTP/1.1\r\nHost: localhost\r\n"
                 "Content-Length: 0\r\n\r\n",
                 "401", "application/json", "{\"code\":401,\"message\":\"invalid signature\"}");
    finish();
}

static void a_private_sandbox_wants_its_token(void)
{
    start();
    (void)json_object_set_new(only.options, "network", json_pack("{sb}", "allowPublicTraffic", 0));
    (void)json_object_set_new(only.options, "trafficAccessToken", json_string("secret"));
    check_answer("GET / HTTP/1.1\r\n" HEADERS "8080\r\n\r\n", "403", "application/json",
                 "{\"sandboxId\":\"" ID "\",\"message\":\"Sandbox is secured with traffic access "
                 "token. Token header 'e2b-traffic-access-token' is missing\",\"code\":403}");
    check_answer("GET / HTTP/1.1\r\nE2b-Traffic-Access-Token: guess\r\n" HEADERS "8080\r\n\r\n",
                 "403", "application/json",
                 "{\"sandboxId\":\"" ID "\",\"message\":\"Sandbox is secured with traffic access "
                 "token. Provided token in header 'e2b-traffic-access-token' is "
                 "invalid\",\"code\":403}");
    CHECK_INT(only.dials, 0);
    int c = client();
    say(c, "GET / HTTP/1.1\r\nE2b-Traffic-Access-Token: secret\r\n" HEADERS "8080\r\n\r\n");
    int s = service();
    CHECK(s >= 0);
    (void)close(c), (void)close(s);
    finish();
}

/* A reader that does not read stops the writer behind it, and nothing is lost. */
static void slow_readers_stop_writers(void)
{
    enum { TOTAL = 64 * 1024 * 1024, BOUND = 32 * 1024 * 1024 };
    static char block[1 << 16];
    size_t sent = 0, got = 0;

    start();
    int c = client();
    say(c, "GET / HTTP/1.1\r\n" HEADERS "8080\r\n\r\n");
    int s = service();
    (void)hear(s, "\r\n\r\n");
    say(s, "HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n");
    (void)hear(c, "\r\n\r\n");
    struct pollfd ready = {.fd = s, .events = POLLOUT};
    while (sent < TOTAL && poll(&ready, 1, 500) == 1) {
        size_t left = TOTAL - sent < sizeof(block) ? TOTAL - sent : sizeof(block);
        ssize_t n = send(s, block, left, MSG_DONTWAIT | MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
    }
    CHECK_THAT(sent < BOUND, "%zu bytes went to a client that read none", sent);
    while (got < TOTAL) {
        ssize_t n = recv(c, block, sizeof(block), 0);
        CHECK(n > 0);
        got += (size_t)n;
        n = sent < TOTAL
                ? send(s, block, TOTAL - sent < sizeof(block) ? TOTAL - sent : sizeof(block),
                       MSG_DONTWAIT | MSG_NOSIGNAL)
                : 0;
        sent += n > 0 ? (size_t)n : 0;
    }
    CHECK_INT(sent, TOTAL);
    (void)close(c), (void)close(s);
    finish();
}

int main(void)
{
    static const struct check_test tests[] = {
        {"passes a request and its answer", passes_a_request_and_its_answer},
        {"streams both ways at once", streams_both_ways_at_once},
        {"tunnels websockets", tunnels_websockets},
        {"a refused upgrade is an answer", a_refused_upgrade_is_an_answer},
        {"answers itself in the documented shapes", answers_itself_in_the_documented_shapes},
        {"hides control routes however spelled", hides_control_routes_however_spelled},
        {"shows people a page", shows_people_a_page},
        {"everything else is the API's", everything_else_is_the_apis},
        {"a leaving client takes the service along", a_leaving_client_takes_the_service_along},
        {"a service that breaks off resets the client",
         a_service_that_breaks_off_resets_the_client},
        {"a service that says nothing has a port all the same",
         a_service_that_says_nothing_has_a_port_all_the_same},
        {"a kill resets streams at once", a_kill_resets_streams_at_once},
        {"waits for a service that starts", waits_for_a_service_that_starts},
        {"keeps connections to the agent", keeps_connections_to_the_agent},
        {"keeps connections to services", keeps_connections_to_services},
        {"a kept connection is of its port alone", a_kept_connection_is_of_its_port_alone},
        {"what changes something gets a fresh connection",
         what_changes_something_gets_a_fresh_connection},
        {"a service that closes a kept connection is asked again",
         a_service_that_closes_a_kept_connection_is_asked_again},
        {"keeps nothing that is not clean", keeps_nothing_that_is_not_clean},
        {"nothing is kept of a sandbox that pauses or ends",
         nothing_is_kept_of_a_sandbox_that_pauses_or_ends},
        {"keeps them up to a limit and not for long", keeps_them_up_to_a_limit_and_not_for_long},
        {"finds the sandbox of a signed link", finds_the_sandbox_of_a_signed_link},
        {"a private sandbox wants its token", a_private_sandbox_wants_its_token},
        {"slow readers stop writers", slow_readers_stop_writers},
    };

    return check_run(tests, countof(tests));
}
