/* A connection that is made, and a request whose whole answer is gathered. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "http_app.h"
#include "lib/base/fd.h"
#include "lib/http/connector.h"
#include "lib/http/fetch.h"

struct side {
    struct app app;
    struct fetch *fetch;
    unsigned answers;
    int error, status;
    char body[APP_GATHER_MAX + 1];
    unsigned connects;
    int fd_or_error;
};

static void on_answer(void *ctx, const struct fetch_answer *answer)
{
    struct side *s = ctx;

    s->fetch = NULL;
    s->answers++;
    s->error = answer->error;
    s->status = answer->status;
    (void)str_copy(s->body, sizeof(s->body), answer->body);
}

static void on_connected(void *ctx, int fd_or_error)
{
    struct side *s = ctx;

    s->connects++;
    s->fd_or_error = fd_or_error;
}

static int ask(struct side *s, const char *target, struct str body, size_t max, uint64_t timeout_ms)
{
    static const struct http_header host = {STR("host"), STR("localhost")};
    const struct fetch_request request = {.method = body.len ? STR("POST") : STR("GET"),
                                          .target = str_of(target),
                                          .headers = &host,
                                          .headers_n = 1,
                                          .body = body,
                                          .answer_bytes_max = max,
                                          .timeout_ms = timeout_ms};
    struct err err;

    s->answers = 0;
    return fetch_start(&s->app.loop, app_pair(&s->app, NULL), &request, on_answer, s, &s->fetch,
                       &err);
}

static bool answered(struct side *s)
{
    return APP_UNTIL(&s->app, s->answers > 0);
}

static void an_answer_is_gathered(void)
{
    struct side s = {0};

    CHECK(app_start(&s.app, (struct http_server_options){0}, NULL));
    CHECK_INT(ask(&s, "/hello", STR(""), 100, 0), 0);
    CHECK(answered(&s) && s.error == 0 && s.status == 200);
    CHECK(strcmp(s.body, "hello") == 0);
    CHECK(app_end(&s.app));
}

/* Longer than a window: the body waits for credit. */
static void a_long_body_is_sent_whole(void)
{
    static char text[4 * HTTP_WINDOW_BYTES];
    struct side s = {0};

    memset(text, 'x', sizeof(text));
    CHECK(app_start(&s.app, (struct http_server_options){0}, NULL));
    CHECK_INT(ask(&s, "/echo", (struct str){text, sizeof(text)}, sizeof(text), 0), 0);
    CHECK(answered(&s) && s.error == 0 && s.status == 200);
    CHECK_INT(s.app.body_bytes, sizeof(text));
    CHECK(app_end(&s.app));
}

static void an_answer_that_is_too_long_is_an_error(void)
{
    struct side s = {0};

    CHECK(app_start(&s.app, (struct http_server_options){0}, NULL));
    CHECK_INT(ask(&s, "/hello", STR(""), 4, 0), 0);
    CHECK(answered(&s));
    CHECK_INT(s.error, -ENOBUFS);
    CHECK_INT(s.status, 200);
    CHECK(app_end(&s.app));
}

static void an_answer_that_does_not_come_ends_with_the_time(void)
{
    struct side s = {0};

    CHECK(app_start(&s.app, (struct http_server_options){0}, NULL));
    CHECK_INT(ask(&s, "/wait", STR(""), 100, 50), 0);
    CHECK(answered(&s));
    CHECK_INT(s.error, -ETIMEDOUT);
    CHECK_INT(s.status, 0);
    CHECK(APP_UNTIL(&s.app, s.app.ended == 1));
    CHECK(app_end(&s.app));
}

static void a_fetch_that_is_cancelled_calls_nobody(void)
{
    struct side s = {0};

    CHECK(app_start(&s.app, (struct http_server_options){0}, NULL));
    CHECK_INT(ask(&s, "/wait", STR(""), 100, 10 * 1000), 0);
    CHECK(APP_UNTIL(&s.app, s.app.requests == 1));
    fetch_cancel(s.fetch);
    CHECK(APP_UNTIL(&s.app, s.app.ended == 1));
    CHECK_INT(s.answers, 0);
    CHECK(app_end(&s.app));
}

/* Listens on a port of loopback; -1: it cannot. */
static int listener_open(struct sockaddr_in *at)
{
    socklen_t len = sizeof(*at);
    scoped_fd fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    if (fd < 0 || bind(fd, (struct sockaddr *)at, sizeof(*at)) < 0 || listen(fd, 1) < 0 ||
        getsockname(fd, (struct sockaddr *)at, &len) < 0) {
        return -1;
    }
    return move_fd(&fd);
}

static void a_connection_is_made_or_refused(void)
{
    struct side s = {0};
    struct sockaddr_in at;
    int listener = listener_open(&at);

    CHECK(listener >= 0);
    CHECK(app_start(&s.app, (struct http_server_options){0}, NULL));
    (void)connector_start(&s.app.loop, (struct sockaddr *)&at, 10 * 1000, on_connected, &s);
    CHECK(APP_UNTIL(&s.app, s.connects == 1));
    CHECK(s.fd_or_error >= 0);
    (void)close(s.fd_or_error);
    (void)close(listener);
    (void)connector_start(&s.app.loop, (struct sockaddr *)&at, 10 * 1000, on_connected, &s);
    CHECK_INT(s.connects, 1); /* from the loop only */
    CHECK(APP_UNTIL(&s.app, s.connects == 2));
    CHECK_INT(s.fd_or_error, -ECONNREFUSED);
    CHECK(app_end(&s.app));
}

static void a_connection_that_is_cancelled_calls_nobody(void)
{
    struct side s = {0};
    struct sockaddr_in at;
    int listener = listener_open(&at);

    CHECK(listener >= 0);
    CHECK(app_start(&s.app, (struct http_server_options){0}, NULL));
    connector_cancel(
        connector_start(&s.app.loop, (struct sockaddr *)&at, 10 * 1000, on_connected, &s));
    connector_cancel(NULL);
    app_step(&s.app);
    CHECK_INT(s.connects, 0);
    (void)close(listener);
    CHECK(app_end(&s.app));
}

int main(void)
{
    static const struct check_test tests[] = {
        {"an answer is gathered", an_answer_is_gathered},
        {"a long body is sent whole", a_long_body_is_sent_whole},
        {"an answer that is too long is an error", an_answer_that_is_too_long_is_an_error},
        {"an answer that does not come ends with the time",
         an_answer_that_does_not_come_ends_with_the_time},
        {"a fetch that is cancelled calls nobody", a_fetch_that_is_cancelled_calls_nobody},
        {"a connection is made or refused", a_connection_is_made_or_refused},
        {"a connection that is cancelled calls nobody",
         a_connection_that_is_cancelled_calls_nobody},
    };
    return check_run(tests, countof(tests));
}
