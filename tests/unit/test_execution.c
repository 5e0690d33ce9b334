/* An execution's answer is continued after a restore: the test says when the process was restored
 * (lifetime.h), and plays the daemon on a socket. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "check.h"
#include "inside/interpreter/execution.h"
#include "inside/interpreter/lifetime.h"
#include "lib/base/compiler.h"
#include "lib/http/server.h"

#define NAME "0123456789abcdef0123456789abcdef"
#define CELL                                                                                       \
    "POST /execute HTTP/1.1\r\nHost: x\r\nAtoll-Execution: " NAME "\r\nContent-Length: "           \
    "2\r\n\r\n{}"

enum { TURNS = 20000 };

static uint64_t restores = 1;
static uv_loop_t loop;
static struct http_server *server;
static struct execution *cell; /* the last that was begun */

uint64_t lifetime_began(void)
{
    return restores;
}

static void on_whole(void *ctx, struct execution *e, int error)
{
    (void)ctx, (void)error;
    cell = e;
    execution_begin(e);
}

static void on_request(void *ctx, struct http_exchange *ex)
{
    const struct http_request *request = http_request(ex);
    uint64_t from = request->query.len > 5 ? strtoull(request->query.at + 5, NULL, 10) : 0;

    (void)ctx;
    if (str_eq(request->method, STR("POST"))) {
        execution_accept(&loop, ex, on_whole, NULL);
    } else if (!execution_rejoin(ex, str_skip(request->path, strlen(EXECUTIONS_PATH)), from)) {
        http_answer(ex, 404, NULL, NULL, 0);
    }
}

static int ask(const char *text)
{
    int pair[2] = {-1, -1};
    struct err err;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0 ||
        http_server_adopt(server, pair[1], NULL, &err) < 0 ||
        send(pair[0], text, strlen(text), MSG_NOSIGNAL) < 0) {
        abort();
    }
    return pair[0];
}

/* What comes until it ends with `until`, or nothing more does. */
static const char *hear(int fd, const char *until)
{
    static char text[65536];
    size_t len = 0;

    text[0] = '\0';
    for (int i = 0; i < TURNS && !strstr(text, until) && len < sizeof(text) - 1; i++) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        ssize_t n = recv(fd, text + len, sizeof(text) - 1 - len, 0);
        if (n > 0) {
            len += (size_t)n;
            text[len] = '\0';
        } else if (n < 0) {
            (void)poll(NULL, 0, 1);
        } else {
            break;
        }
    }
    return text;
}

static void line(const char *text)
{
    execution_line(cell, json_pack("{s:s}", "text", text));
}

static void begin(void)
{
    struct http_server_options options = {.loop = &loop, .on_request = on_request};
    struct err err;

    if (uv_loop_init(&loop) < 0 || http_server_new(&options, &server, &err) < 0) {
        abort();
    }
}

static void stopped(void *ctx)
{
    (void)ctx;
    http_server_free(server);
}

static void finish(void)
{
    executions_forget();
    http_server_stop(server, 0, stopped, NULL);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&loop) < 0) {
        abort();
    }
}

/* The connection is cut, as a restore does it. */
static void restore(int fd)
{
    restores++;
    (void)close(fd);
    for (int i = 0; i < 20; i++) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        (void)poll(NULL, 0, 1);
    }
}

static void the_rest_is_given_behind_any_byte(void)
{
    static const char whole[] = "{\"text\":\"one\"}\n{\"text\":\"two\"}\n{\"text\":\"three\"}\n"
                                "{\"type\":\"end_of_execution\"}\n";
    char rest[256], got[1024];

    for (size_t from = 0; from <= 30; from += 5) { /* of the two lines that were sent */
        begin();
        int fd = ask(CELL);
        (void)hear(fd, "\r\n\r\n");
        line("one");
        line("two");
        (void)hear(fd, "two\"}\n");
        restore(fd);
        line("three"); /* while nobody is there */
        (void)snprintf(rest, sizeof(rest),
                       "GET " EXECUTIONS_PATH NAME "?from=%zu HTTP/1.1\r\nHost: x\r\n\r\n", from);
        fd = ask(rest);
        const char *head = hear(fd, "\r\n\r\n");
        CHECK_THAT(strstr(head, " 200 ") && strstr(head, NAME), "%s", head);
        (void)snprintf(got, sizeof(got), "%s", strstr(head, "\r\n\r\n") + 4);
        execution_end(cell);
        size_t had = strlen(got), n = 0;
        (void)snprintf(got + had, sizeof(got) - had, "%s", hear(fd, "\r\n0\r\n\r\n"));
        /* Without the chunks' frames. */
        char said[512];
        for (char *p = got; strtoul(p, &p, 16) > 0 || *p == '\r';) {
            p += 2;
            size_t len = strcspn(p, "\r");
            if (len == 0) {
                break;
            }
            memcpy(said + n, p, len);
            n += len;
            p += len + 2;
        }
        said[n] = '\0';
        CHECK_STR(said, whole + from);
        (void)close(fd);
        finish();
    }
}

static void one_that_has_ended_is_kept_for_a_while(void)
{
    begin();
    int fd = ask(CELL);
    (void)hear(fd, "\r\n\r\n");
    line("one");
    execution_end(cell);
    (void)hear(fd, "0\r\n\r\n"); /* it was sent; whether it arrived is not known */
    restore(fd);
    fd = ask("GET " EXECUTIONS_PATH NAME "?from=0 HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK(strstr(hear(fd, "0\r\n\r\n"), "\"one\""));
    (void)close(fd);
    finish();
}

static void nobody_else_gets_it(void)
{
    static const char *const asks[] = {
        "GET " EXECUTIONS_PATH
        "0123456789abcdef0123456789abcdee?from=0 HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET " EXECUTIONS_PATH "?from=0 HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET " EXECUTIONS_PATH NAME "?from=9999 HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET " EXECUTIONS_PATH NAME "?from=0 HTTP/1.1\r\nHost: x\r\n\r\n", /* it has its client */
    };

    begin();
    int fd = ask(CELL);
    (void)hear(fd, "\r\n\r\n");
    line("one");
    for (size_t i = 0; i < countof(asks); i++) {
        int other = ask(asks[i]);
        CHECK_THAT(strstr(hear(other, "\r\n\r\n"), " 404 "), "case %zu", i);
        (void)close(other);
    }
    execution_end(cell);
    (void)hear(fd, "0\r\n\r\n");
    (void)close(fd);
    finish();
}

int main(void)
{
    static const struct check_test tests[] = {
        {"the rest is given behind any byte", the_rest_is_given_behind_any_byte},
        {"one that has ended is kept for a while", one_that_has_ended_is_kept_for_a_while},
        {"nobody else gets it", nobody_else_gets_it},
    };

    return check_run(tests, countof(tests));
}
