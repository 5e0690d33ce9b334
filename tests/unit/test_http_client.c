/* The client's half over TLS, in both versions of HTTP, against our own server: trust, bodies, many
 * streams, and ends. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "http_app.h"
#include "lib/base/fd.h"
#include "lib/http/client_conn.h"
#include "lib/http/http2_client.h"
#include "lib/http/tls.h"
#include "lib/http/tls_client.h"
#include "lib/pki/pki.h"

enum { STREAMS = 40, BODY_BYTES = 3 * 1000 * 1000 };

struct talk { /* one exchange */
    struct upstream *up;
    int status, error;
    bool ended, body_ended;
    uint64_t sent, received;
    size_t body; /* to be sent */
};

struct side {
    struct app app;
    struct pki ca, leaf;
    struct tls_context *tls;
    struct tls_trust *trust;
    struct client_conn *conn;
    struct http2_client *http2;
    bool ready, gone;
    int ready_error;
    struct err err;
};

/* ---- the exchange ---- */

static void talk_write(void *ctx)
{
    static const char bytes[16 * 1024];
    struct talk *t = ctx;

    while (t->sent < t->body && upstream_writable(t->up) > 0) {
        size_t left = t->body - t->sent, room = upstream_writable(t->up);
        size_t n = left < room ? left : room;
        n = n < sizeof(bytes) ? n : sizeof(bytes);
        upstream_write(t->up, bytes, n);
        t->sent += n;
    }
    if (t->sent == t->body) {
        upstream_finish(t->up);
    }
}

static void on_response(void *ctx, int status, const struct http_header *headers, size_t n,
                        int64_t length)
{
    struct talk *t = ctx;

    (void)headers, (void)n, (void)length;
    t->status = status;
    upstream_credit(t->up, 1000);
}

static void on_body(void *ctx, const void *data, size_t len)
{
    struct talk *t = ctx;

    (void)data;
    t->received += len;
    upstream_credit(t->up, len);
}

static void on_body_end(void *ctx)
{
    ((struct talk *)ctx)->body_ended = true;
}

static void on_end(void *ctx, int error)
{
    struct talk *t = ctx;

    t->ended = true;
    t->error = error;
}

static const struct upstream_handler handler = {.on_response = on_response,
                                                .on_body = on_body,
                                                .on_body_end = on_body_end,
                                                .on_credit = talk_write,
                                                .on_end = on_end};

static void talk_start(struct talk *t, struct upstream *up, const char *method, const char *target,
                       int64_t length)
{
    const struct http_header headers[] = {{STR("host"), STR("api.test")},
                                          {STR("x-word"), STR("said")}};

    t->up = up;
    upstream_send(up, str_of(method), str_of(target), headers, countof(headers), length, false,
                  &handler, t);
    talk_write(t);
}

/* ---- both ends ---- */

static bool choose(void *ctx, const char *name, struct x509_st **cert, struct evp_pkey_st **key)
{
    struct side *s = ctx;

    *cert = s->leaf.cert;
    *key = s->leaf.key;
    return strcmp(name, "nobody.test") != 0;
}

static bool trust_make(struct side *s, bool known)
{
    char path[] = "/tmp/test-trust-XXXXXX";
    char *pem = pki_cert_pem(&s->ca);
    scoped_fd fd = mkstemp(path);
    bool made = fd >= 0 && write(fd, pem, strlen(pem)) == (ssize_t)strlen(pem) &&
                tls_trust_new(known ? path : "", &s->trust, &s->err) == 0;

    free(pem);
    (void)unlink(path);
    return made;
}

static bool side_start(struct side *s, bool known)
{
    static const uint8_t secret[PKI_SECRET_BYTES] = "of the test";
    const char *const names[] = {"api.test", "nobody.test"};

    *s = (struct side){0};
    pki_key_derive(secret, "test", &s->ca);
    pki_certify_ca(&s->ca, "test");
    pki_key_new(&s->leaf);
    s->tls = tls_context_new_choosing(choose, s, true);
    return pki_certify(&s->leaf, &s->ca, names, 2) == 0 && trust_make(s, known) &&
           app_start(&s->app, (struct http_server_options){.http2 = &http2_protocol}, NULL);
}

static bool side_end(struct side *s)
{
    bool clean = app_end(&s->app);

    tls_context_free(s->tls);
    tls_trust_free(s->trust);
    pki_fini(&s->ca);
    pki_fini(&s->leaf);
    return clean;
}

static void on_ready(void *ctx, int error, const struct err *err)
{
    struct side *s = ctx;

    s->ready = true;
    s->ready_error = error;
    if (error < 0) {
        s->err = *err;
    }
}

static void ignore(void *ctx)
{
    (void)ctx;
}

static void ignore_data(void *ctx, const char *data, size_t len)
{
    (void)ctx, (void)data, (void)len;
}

static void ignore_end(void *ctx, int error)
{
    (void)ctx, (void)error;
}

static const struct client_conn_events quiet = {
    .data = ignore_data, .end = ignore_end, .run = ignore, .written = ignore, .closed = ignore};

static void on_gone(void *ctx)
{
    ((struct side *)ctx)->gone = true;
}

/* Until the handshake is through or has failed. */
static bool reach(struct side *s, const char *name, bool http2)
{
    struct http_conn *conn = NULL;
    int fds[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0 ||
        http_server_adopt_begun(s->app.server, fds[0], (struct str){NULL, 0}, s->tls, NULL, &conn,
                                &s->err) < 0 ||
        client_conn_open(&s->app.loop, fds[1], &quiet, s, &s->conn, &s->err) < 0) {
        return false;
    }
    s->ready = false;
    tls_client_secure(s->conn, s->trust, name, http2 ? TLS_OFFER_HTTP2 : TLS_OFFER_HTTP1, on_ready);
    return APP_UNTIL(&s->app, s->ready);
}

static bool reach_http2(struct side *s)
{
    if (!reach(s, "api.test", true) || s->ready_error < 0 || !client_conn_is_http2(s->conn)) {
        return false;
    }
    s->http2 = http2_client_new(s->conn, on_gone, s);
    return true;
}

/* ---- tests ---- */

static void who_is_not_known_or_has_another_name_is_refused(void)
{
    static const struct {
        const char *name;
        bool known;
        int error;
        const char *why;
    } rows[] = {
        {"api.test", true, 0, ""},
        {"api.test", false, -EACCES, "certificate"},
        {"other.test", true, -EACCES, "mismatch"},
        {"nobody.test", true, -EPROTO, "TLS failed"},
    };

    for (size_t i = 0; i < countof(rows); i++) {
        struct side s;

        CHECK(side_start(&s, rows[i].known));
        CHECK(reach(&s, rows[i].name, false));
        CHECK_INT(s.ready_error, rows[i].error);
        CHECK_THAT(strstr(s.err.msg, rows[i].why), "'%s' is not in '%s'", rows[i].why, s.err.msg);
        client_conn_close(s.conn, true);
        CHECK(side_end(&s));
    }
}

static void bodies_pass_whole(bool http2)
{
    struct side s;
    struct talk up = {.body = BODY_BYTES}, down = {0};
    char target[64];

    CHECK(side_start(&s, true));
    if (http2) {
        CHECK(reach_http2(&s));
        talk_start(&up, http2_client_open(s.http2), "POST", "/echo", -1);
    } else {
        CHECK(reach(&s, "api.test", false));
        CHECK_INT(s.ready_error, 0);
        talk_start(&up, upstream_on(s.conn), "POST", "/echo", BODY_BYTES);
    }
    CHECK(APP_UNTIL(&s.app, up.ended));
    CHECK_INT(up.error, 0);
    CHECK_INT(up.status, 200);
    CHECK_INT(up.received, BODY_BYTES);
    CHECK(up.body_ended);

    (void)snprintf(target, sizeof(target), "/down?n=%d", BODY_BYTES);
    upstream_close(up.up);
    CHECK(http2 || reach(&s, "api.test", false));
    talk_start(&down, http2 ? http2_client_open(s.http2) : upstream_on(s.conn), "GET", target, 0);
    CHECK(APP_UNTIL(&s.app, down.ended));
    CHECK_INT(down.error, 0);
    CHECK_INT(down.received, BODY_BYTES);
    upstream_close(down.up);
    http2_client_close(s.http2);
    CHECK(side_end(&s));
}

static void bodies_pass_whole_over_http1(void)
{
    bodies_pass_whole(false);
}

static void bodies_pass_whole_over_http2(void)
{
    bodies_pass_whole(true);
}

static void a_connection_of_http1_serves_again(void)
{
    struct side s;
    struct talk first = {0}, second = {0};

    CHECK(side_start(&s, true));
    CHECK(reach(&s, "api.test", false));
    talk_start(&first, upstream_on(s.conn), "GET", "/hello", 0);
    CHECK(APP_UNTIL(&s.app, first.ended));
    CHECK(upstream_reusable(first.up));
    talk_start(&second, first.up, "GET", "/hello", 0);
    CHECK(APP_UNTIL(&s.app, second.ended));
    CHECK_INT(second.error, 0);
    CHECK_INT(second.received, 5);
    upstream_close(second.up);
    CHECK(side_end(&s));
}

static void streams_share_a_connection(void)
{
    struct side s;
    struct talk talks[STREAMS] = {0};
    unsigned done = 0;

    CHECK(side_start(&s, true));
    CHECK(reach_http2(&s));
    for (size_t i = 0; i < STREAMS; i++) {
        talks[i].body = 50 * 1000;
        talk_start(&talks[i], http2_client_open(s.http2), "POST", "/echo", 50 * 1000);
    }
    CHECK(APP_UNTIL(&s.app, ({
        done = 0;
        for (size_t i = 0; i < STREAMS; i++) {
            done += talks[i].ended;
        }
        done == STREAMS;
    })));
    for (size_t i = 0; i < STREAMS; i++) {
        CHECK_INT(talks[i].error, 0);
        CHECK_INT(talks[i].received, 50 * 1000);
        upstream_close(talks[i].up);
    }
    CHECK(APP_UNTIL(&s.app, http2_client_idle(s.http2)));
    http2_client_close(s.http2);
    CHECK(side_end(&s));
}

static void a_stream_that_is_reset_ends_with_an_error_and_others_go_on(void)
{
    struct side s;
    struct talk cut = {0}, waits = {0}, left = {0};

    CHECK(side_start(&s, true));
    CHECK(reach_http2(&s));
    talk_start(&waits, http2_client_open(s.http2), "GET", "/wait", 0);
    talk_start(&cut, http2_client_open(s.http2), "GET", "/abort", 0);
    CHECK(APP_UNTIL(&s.app, cut.ended && s.app.waiting));
    CHECK_INT(cut.error, -ECONNRESET);
    CHECK(!cut.body_ended);
    talk_start(&left, http2_client_open(s.http2), "GET", "/hello", 0);
    upstream_close(left.up); /* before anything came: its end is not told */
    app_release(&s.app);
    CHECK(APP_UNTIL(&s.app, waits.ended));
    CHECK_INT(waits.error, 0);
    CHECK(!left.ended);
    upstream_close(cut.up);
    upstream_close(waits.up);
    http2_client_close(s.http2);
    CHECK(side_end(&s));
}

static void a_server_that_leaves_is_told_once_and_ends_its_streams(void)
{
    struct side s;
    struct talk waits = {0};
    int fds[2];

    CHECK(side_start(&s, true));
    CHECK(reach_http2(&s));
    talk_start(&waits, http2_client_open(s.http2), "GET", "/wait", 0);
    CHECK(APP_UNTIL(&s.app, s.app.waiting));
    http2_client_close(s.http2); /* with a stream under way: nobody is told */
    upstream_close(waits.up);
    app_step(&s.app);
    CHECK(!s.gone && !waits.ended);

    /* Another, whose server breaks off. */
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    CHECK_INT(client_conn_open(&s.app.loop, fds[1], &quiet, &s, &s.conn, &s.err), 0);
    s.http2 = http2_client_new(s.conn, on_gone, &s);
    waits = (struct talk){0};
    talk_start(&waits, http2_client_open(s.http2), "GET", "/", 0);
    app_step(&s.app);
    (void)close(fds[0]);
    CHECK(APP_UNTIL(&s.app, s.gone && waits.ended));
    CHECK(waits.error < 0);
    CHECK(http2_client_open(s.http2) == NULL);
    upstream_close(waits.up);
    http2_client_close(s.http2);
    CHECK(side_end(&s));
}

/* Its owner has no use for it any more, but streams have: also when the next one goes the same way.
 */
static void a_client_that_is_left_stays_until_its_streams_are_given_back(void)
{
    struct side s;
    struct talk first = {0}, second = {0};
    struct http2_client *older = NULL;

    CHECK(side_start(&s, true));
    CHECK(reach_http2(&s));
    talk_start(&first, http2_client_open(s.http2), "GET", "/wait", 0);
    CHECK(APP_UNTIL(&s.app, s.app.waiting));
    older = s.http2;
    CHECK(reach_http2(&s));
    talk_start(&second, http2_client_open(s.http2), "GET", "/hello", 0);
    http2_client_leave(older);
    http2_client_leave(s.http2);
    CHECK(http2_client_open(older) == NULL && http2_client_open(s.http2) == NULL);
    CHECK(APP_UNTIL(&s.app, second.ended));
    CHECK_INT(second.error, 0);
    CHECK_INT(second.received, 5);
    upstream_close(second.up);
    app_step(&s.app);
    app_release(&s.app);
    CHECK(APP_UNTIL(&s.app, first.ended));
    CHECK_INT(first.error, 0);
    CHECK_INT(first.status, 200);
    upstream_close(first.up);
    CHECK(!s.gone);
    CHECK(side_end(&s)); /* nothing is left open */
}

static void bytes_that_were_read_before_come_first(void)
{
    struct side s;
    struct http_conn *conn = NULL;
    scoped_reply reply = {0};
    int fds[2];

    CHECK(side_start(&s, true));
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    CHECK(write(fds[1], "ost: x\r\n\r\n", 10) == 10);
    CHECK_INT(http_server_adopt_begun(s.app.server, fds[0], STR("GET /hello HTTP/1.1\r\nH"), NULL,
                                      &s, &conn, &s.err),
              0);
    CHECK(app_read_until(&s.app, fds[1], &reply, "hello"));
    http_conn_reset(conn);
    CHECK(app_read_eof(&s.app, fds[1], &reply));
    (void)close(fds[1]);
    CHECK(side_end(&s));
}

int main(void)
{
    static const struct check_test tests[] = {
        {"who is not known or has another name is refused",
         who_is_not_known_or_has_another_name_is_refused},
        {"bodies pass whole over http1", bodies_pass_whole_over_http1},
        {"bodies pass whole over http2", bodies_pass_whole_over_http2},
        {"a connection of http1 serves again", a_connection_of_http1_serves_again},
        {"streams share a connection", streams_share_a_connection},
        {"a client that is left stays until its streams are given back",
         a_client_that_is_left_stays_until_its_streams_are_given_back},
        {"a stream that is reset ends with an error and others go on",
         a_stream_that_is_reset_ends_with_an_error_and_others_go_on},
        {"a server that leaves is told once and ends its streams",
         a_server_that_leaves_is_told_once_and_ends_its_streams},
        {"bytes that were read before come first", bytes_that_were_read_before_come_first},
    };
    return check_run(tests, countof(tests));
}
