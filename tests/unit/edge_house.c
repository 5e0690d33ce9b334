/* See edge_house.h. */
#include "edge_house.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "lib/http/server.h"
#include "serve/edge/edge.h"

enum { PATIENCE_S = 20, EDGE_PLACES = 3 * 1024, EDGE_SANDBOX_MAX = 1024 };

/* ---- the sandbox that exists ---- */

struct sandbox only;
uint32_t held_max;

struct sandbox *sandboxes_find(struct sandboxes *all, struct str id)
{
    (void)all;
    return !only.gone && str_eq(id, STR(ID)) ? &only : NULL;
}

struct sandbox_info sandbox_info(const struct sandbox *sb)
{
    return (struct sandbox_info){.id = ID,
                                 .team_id = "team",
                                 .access_token = sb->token,
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
    watch->told = watch->settled = false;
    DL_APPEND(sb->watches, watch);
}

void sandbox_watch_settle(struct sandbox_watch *watch)
{
    watch->settled = true;
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

void sandbox_dial_awake(struct sandbox *sb, uint32_t port, void (*done)(void *ctx, int fd_or_error),
                        void *ctx)
{
    sandbox_dial(sb, port, done, ctx);
}

/* ---- the edge's thread ---- */

static pthread_t thread;
static uv_async_t wake;
static uv_sem_t done;
static void (*command)(void);
static struct edge *edge;
static struct shares shares;
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

void on_loop(void (*what)(void))
{
    command = what;
    (void)uv_async_send(&wake);
    uv_sem_wait(&done);
}

void kill_sandbox(void)
{
    struct sandbox_watch *watch = NULL;

    only.gone = true;
    while ((watch = only.watches)) {
        watch->told = false;
        sandbox_watch_unset(watch);
        watch->gone(watch);
    }
}

static void tell(enum sandbox_pausing how)
{
    struct sandbox_watch *watch = NULL, *next = NULL;

    only.pausing = how != SANDBOX_PAUSE_OFF;
    DL_FOREACH_SAFE (only.watches, watch, next) {
        watch->told = only.pausing;
        watch->pausing(watch, how);
    }
}

void pause_sandbox(void)
{
    tell(SANDBOX_PAUSE_BEGINS);
}

void cut_off(void)
{
    tell(SANDBOX_PAUSE_DUE);
}

void call_off(void)
{
    tell(SANDBOX_PAUSE_OFF);
}

void have_paused(void)
{
    struct sandbox_watch *watch = NULL, *next = NULL;

    DL_FOREACH_SAFE (only.watches, watch, next) {
        if (watch->told) {
            sandbox_watch_unset(watch);
            watch->gone(watch);
        }
    }
    only.pausing = false;
    only.paused = true;
}

void resume_sandbox(void)
{
    struct sandbox_watch *watch = NULL, *next = NULL;

    only.paused = false;
    DL_FOREACH_SAFE (only.watches, watch, next) {
        watch->resumed(watch);
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
    shares_init(&shares, EDGE_PLACES);
    const struct edge_options places = {
        .loop = &loop, .shares = &shares, .sandbox_max = EDGE_SANDBOX_MAX, .held_max = held_max};
    edge = edge_new(&places);
}

void start(void)
{
    socklen_t len = sizeof(only.service);

    only = (struct sandbox){
        .options = json_object(),
        .token = TOKEN,
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

void finish(void)
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

int client(void)
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

int service(void)
{
    struct pollfd ready = {.fd = listener, .events = POLLIN};

    if (poll(&ready, 1, PATIENCE_S * 1000) != 1) {
        return -1;
    }
    int fd = accept(listener, NULL, NULL);
    be_patient(fd);
    return fd;
}

void say(int fd, const char *text)
{
    (void)!send(fd, text, strlen(text), MSG_NOSIGNAL);
}

const char *hear(int fd, const char *until)
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

int how_it_ends(int fd)
{
    char byte;
    ssize_t n = recv(fd, &byte, 1, 0);

    return n < 0 ? -errno : (int)n;
}
