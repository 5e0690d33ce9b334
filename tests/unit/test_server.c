/* The server around the protocols: listeners, timeouts, limits, stops, TLS. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "check.h"
#include "h2_client.h"
#include "http_app.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/http/conn.h"
#include "lib/http/tls.h"
#include "tmpdir.h"

#define CHECK_HAS(reply, text)                                                                     \
    CHECK_THAT(strstr((reply).at, text), "'%s' is not in '%.600s'", text, (reply).at)

static const char hello[] = "GET /hello HTTP/1.1\r\nHost: h\r\n\r\n";

/* ---- addresses and descriptors ---- */

static void test_addresses(void)
{
    static const char *const bad[] = {
        "",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:65536",
        "127.0.0.1:-1",
        ":80",
        "localhost:80",
        "[::1:80",
        "[]:80",
        "1.2.3.4.5:80",
        "127.0.0.1:8x",
        "127.0.0.1: 80",
        "[127.0.0.1]:1",
        "999.0.0.1:80",
    };
    struct app app;
    struct err err;
    CHECK(app_start(&app, (struct http_server_options){0}, NULL));
    for (size_t i = 0; i < countof(bad); i++) {
        CHECK_THAT(http_server_listen(app.server, bad[i], NULL, &err) == -EINVAL, "'%s'", bad[i]);
    }
    char taken[32];
    (void)snprintf(taken, sizeof(taken), "127.0.0.1:%d", http_server_port(app.server));
    CHECK_INT(http_server_listen(app.server, taken, NULL, &err), -EADDRINUSE);
    CHECK(strstr(err.msg, taken));
    CHECK(app_end(&app));
}

static void test_unix_listener(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    struct app app;
    struct err err;
    CHECK(app_start(&app, (struct http_server_options){0}, NULL));
    (void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/s", dir.path);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(listener, (struct sockaddr *)&addr, sizeof(addr)) == 0);
    CHECK(http_server_listen_fd(app.server, listener, NULL, &err) == 0);
    scoped_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    scoped_reply reply = {0};
    CHECK(connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0);
    CHECK(app_say(&app, fd, hello));
    CHECK(app_read_until(&app, fd, &reply, "\r\n\r\nhello"));
    CHECK_STR(app.last_peer, "");
    CHECK(app_end(&app));
}

static void test_adopt(void)
{
    struct app app;
    struct err err;
    int pipe_fds[2];
    CHECK(app_start(&app, (struct http_server_options){0}, NULL));
    scoped_fd fd = app_pair(&app, &app);
    scoped_reply reply = {0};
    CHECK(app_say(&app, fd, hello));
    CHECK(app_read_until(&app, fd, &reply, "hello"));
    /* What is no stream socket is refused, and closed all the same. */
    CHECK(pipe2(pipe_fds, O_CLOEXEC) == 0);
    CHECK(close(pipe_fds[1]) == 0);
    CHECK(http_server_adopt(app.server, pipe_fds[0], NULL, &err) == -ENOTSOCK);
    CHECK(fcntl(pipe_fds[0], F_GETFD) < 0 && errno == EBADF);
    int datagram = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK(http_server_adopt(app.server, datagram, NULL, &err) == -EPROTOTYPE);
    CHECK(fcntl(datagram, F_GETFD) < 0 && errno == EBADF);
    CHECK(app_end(&app));
}

/* ---- limits and timeouts ---- */

static void test_connections_max(void)
{
    struct http_server_options options = {.connections_max = 2};
    struct app app;
    CHECK(app_start(&app, options, NULL));
    scoped_fd first = app_connect(&app);
    scoped_fd second = app_connect(&app);
    scoped_fd third = app_connect(&app);
    scoped_reply reply = {0}, refused = {0};
    CHECK(app_say(&app, third, hello));
    CHECK(app_read_until(&app, third, &refused, "too many connections"));
    CHECK_HAS(refused, "HTTP/1.1 503 ");
    CHECK(app_say(&app, second, hello));
    CHECK(app_read_until(&app, second, &reply, "hello"));
    CHECK_INT(app.requests, 1);
    fd_closep(&third);
    fd_closep(&first);
    CHECK(APP_UNTIL(&app, http_server_figures(app.server).connections == 1));
    scoped_fd fourth = app_connect(&app);
    scoped_reply again = {0};
    CHECK(app_say(&app, fourth, hello));
    CHECK(app_read_until(&app, fourth, &again, "hello"));
    CHECK(app_end(&app));
}

/* Whoever is between requests goes before a new one is turned away. */
static void test_an_idle_connection_makes_room(void)
{
    struct http_server_options options = {.connections_max = 2};
    struct app app;
    CHECK(app_start(&app, options, NULL));
    scoped_fd idle = app_connect(&app);
    scoped_reply reply = {0}, ended = {0}, served = {0}, refused = {0};
    CHECK(app_say(&app, idle, hello));
    CHECK(app_read_until(&app, idle, &reply, "hello"));
    scoped_fd busy = app_connect(&app);
    CHECK(app_say(&app, busy, "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n"));
    CHECK(APP_UNTIL(&app, app.requests == 2));
    scoped_fd third = app_connect(&app);
    CHECK(app_say(&app, third, "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n"));
    CHECK(app_read_eof(&app, idle, &ended));
    CHECK(APP_UNTIL(&app, app.requests == 3));
    CHECK_INT(http_server_figures(app.server).evicted[HTTP_EVICTED_IDLE], 1);
    CHECK_INT(http_server_figures(app.server).refused, 0);
    /* Now both serve a request, and none can be spared. */
    scoped_fd fourth = app_connect(&app);
    CHECK(app_read_until(&app, fourth, &refused, "too many connections"));
    CHECK_INT(http_server_figures(app.server).refused, 1);
    app_release(&app);
    CHECK(app_read_until(&app, third, &served, "200 OK"));
    CHECK(app_end(&app));
}

/* One that has said nothing for a second goes as well, and one that has just come does not. */
static void test_a_silent_connection_makes_room(void)
{
    struct http_server_options options = {.connections_max = 1, .header_timeout_ms = 60 * 1000};
    struct app app;
    CHECK(app_start(&app, options, NULL));
    scoped_fd silent = app_connect(&app);
    CHECK(APP_UNTIL(&app, http_server_figures(app.server).silent == 1));
    scoped_fd early = app_connect(&app);
    scoped_reply refused = {0}, reply = {0}, ended = {0};
    CHECK(app_read_until(&app, early, &refused, "too many connections"));
    fd_closep(&early);
    CHECK(APP_UNTIL(&app, http_server_figures(app.server).connections == 1));
    int64_t patience_us = CONN_PATIENCE_MS * 1000;
    for (int64_t end_us = clock_mono_us() + patience_us; clock_mono_us() < end_us;) {
        app_step(&app);
    }
    scoped_fd late = app_connect(&app);
    CHECK(app_say(&app, late, hello));
    CHECK(app_read_until(&app, late, &reply, "hello"));
    CHECK(app_read_eof(&app, silent, &ended));
    CHECK_INT(http_server_figures(app.server).evicted[HTTP_EVICTED_FRESH], 1);
    CHECK_INT(http_server_figures(app.server).silent, 0);
    CHECK(app_end(&app));
}

/* A head that trickles in has its time from the first byte, however steadily it comes. */
static void test_slow_head(void)
{
    struct http_server_options options = {.header_timeout_ms = 100, .http2 = &http2_protocol};
    struct app app;
    CHECK(app_start(&app, options, NULL));
    scoped_fd silent = app_connect(&app);
    scoped_fd slow = app_connect(&app);
    scoped_fd preface = app_connect(&app);
    scoped_reply nothing = {0}, reply = {0}, settings = {0};
    CHECK(app_say(&app, preface, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
    CHECK(app_say(&app, slow, "GET /hello HTTP/1.1\r\nHost: h\r\n"));
    CHECK(APP_UNTIL(&app, ({
        (void)send(slow, "X: y\r\n", 6, MSG_DONTWAIT | MSG_NOSIGNAL);
        (void)usleep(2000);
        http_server_figures(app.server).connections == 0 ||
            (recv(slow, (char[1]){0}, 1, MSG_DONTWAIT | MSG_PEEK) > 0);
    })));
    CHECK(app_read_until(&app, slow, &reply, "in time"));
    CHECK_HAS(reply, "HTTP/1.1 408 ");
    CHECK(app_read_eof(&app, silent, &nothing));
    CHECK_INT((long long)nothing.len, 0);
    CHECK(app_read_eof(&app, preface, &settings));
    CHECK_INT(app.requests, 0);
    CHECK(app_end(&app));
}

/* Their maker closes them. With the first byte they are as any other; and a clock that has nothing
 * to end is started again for them. */
static void test_adopted_ones_wait(void)
{
    struct http_server_options options = {
        .header_timeout_ms = 100, .idle_timeout_ms = 100, .adopted_may_wait = true};
    struct app app;
    CHECK(app_start(&app, options, NULL));
    scoped_fd patient = app_pair(&app, NULL);
    scoped_fd slow = app_pair(&app, NULL);
    scoped_fd silent = app_connect(&app);
    scoped_reply nothing = {0}, cut = {0}, reply = {0};
    CHECK(app_read_eof(&app, silent, &nothing)); /* the time is over */
    CHECK_INT(http_server_figures(app.server).connections, 2);
    CHECK(app_say(&app, slow, "GET /hello HTTP/1.1\r\n"));
    CHECK(app_read_until(&app, slow, &cut, "in time"));
    CHECK(app_say(&app, patient, hello));
    CHECK(app_read_eof(&app, patient, &reply) && reply.eof); /* idle for too long, by now */
    CHECK_HAS(reply, "hello");
    CHECK(app_end(&app));
}

static void test_idle(void)
{
    struct http_server_options options = {.idle_timeout_ms = 50, .http2 = &http2_protocol};
    static struct h2_client client;
    struct app app;
    CHECK(app_start(&app, options, NULL));
    scoped_fd fd = app_connect(&app);
    scoped_fd h2 = app_connect(&app);
    scoped_reply reply = {0};
    h2_start(&client, h2);
    struct h2_call *call = h2_request(&client, "GET", "/hello", 0, NULL, 0);
    CHECK(app_say(&app, fd, hello));
    CHECK(app_read_eof(&app, fd, &reply) && reply.eof);
    CHECK_HAS(reply, "hello");
    CHECK(APP_UNTIL(&app, ({
        h2_step(&client);
        client.eof;
    })));
    CHECK(call->closed && client.goaway);
    CHECK_INT(client.goaway_code, NGHTTP2_NO_ERROR);
    h2_end(&client);
    CHECK(app_end(&app));
}

/* Who owes bytes and sends none is ended; a stream that waits for us is not. */
static void test_stall(void)
{
    struct http_server_options options = {
        .stall_timeout_ms = 60, .idle_timeout_ms = 60, .header_timeout_ms = 60};
    struct app app;
    CHECK(app_start(&app, options, NULL));
    scoped_fd waiting = app_connect(&app);
    scoped_fd tunnel = app_connect(&app);
    scoped_reply reply = {0}, raw = {0};
    CHECK(app_say(&app, tunnel,
                  "GET /tunnel HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: e\r\n\r\n"));
    CHECK(app_read_until(&app, tunnel, &raw, "\r\n\r\n"));
    CHECK(app_say(&app, waiting, "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n"));
    CHECK(APP_UNTIL(&app, app.waiting));

    scoped_fd upload = app_connect(&app);
    scoped_reply gone = {0};
    CHECK(app_say(&app, upload, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nab"));
    CHECK(app_read_eof(&app, upload, &gone));
    CHECK(gone.reset);
    CHECK_INT(app.last_error, -ETIMEDOUT);

    scoped_fd download = app_connect(&app);
    CHECK(app_say(&app, download, "GET /down?n=100000000 HTTP/1.1\r\nHost: h\r\n\r\n"));
    CHECK(APP_UNTIL(&app, app.ended == 2));
    CHECK_INT(app.last_error, -ETIMEDOUT);

    app_release(&app);
    CHECK(app_read_until(&app, waiting, &reply, "released"));
    CHECK(app_say(&app, tunnel, "still here"));
    CHECK(app_read_until(&app, tunnel, &raw, "still here"));
    CHECK(app_end(&app));
}

/* ---- stopping ---- */

static void on_stopped(void *ctx)
{
    *(bool *)ctx = true;
}

static bool free_server(struct app *app)
{
    http_server_free(app->server);
    uv_run(&app->loop, UV_RUN_DEFAULT);
    return uv_loop_close(&app->loop) == 0;
}

static void test_graceful_stop(void)
{
    struct app app;
    bool stopped = false;
    CHECK(app_start(&app, (struct http_server_options){0}, NULL));
    scoped_fd idle = app_connect(&app);
    scoped_fd fresh = app_connect(&app);
    scoped_fd busy = app_connect(&app);
    scoped_reply first = {0}, reply = {0}, none = {0};
    CHECK(app_say(&app, idle, hello));
    CHECK(app_read_until(&app, idle, &first, "hello"));
    CHECK(app_say(&app, busy, "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n"));
    CHECK(APP_UNTIL(&app, app.waiting));
    http_server_stop(app.server, APP_WAIT_MS, on_stopped, &stopped);
    CHECK(app_read_eof(&app, idle, &first) && first.eof);
    CHECK(app_read_eof(&app, fresh, &none) && none.eof);
    fd_closep(&idle);
    fd_closep(&fresh);
    CHECK(APP_UNTIL(&app, http_server_figures(app.server).connections == 1));
    CHECK(!stopped);
    CHECK_INT(app_connect(&app), -1);
    app_release(&app);
    CHECK(app_read_eof(&app, busy, &reply) && reply.eof);
    CHECK_HAS(reply, "connection: close");
    CHECK_HAS(reply, "released");
    fd_closep(&busy);
    CHECK(APP_UNTIL(&app, stopped));
    CHECK(free_server(&app));
}

/* The grace is over by itself, or because somebody cannot wait for it. */
static void stop_with_grace(uint32_t grace_ms)
{
    struct app app;
    bool stopped = false;
    CHECK(app_start(&app, (struct http_server_options){0}, NULL));
    scoped_fd busy = app_connect(&app);
    scoped_reply reply = {0};
    CHECK(app_say(&app, busy, "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n"));
    CHECK(APP_UNTIL(&app, app.waiting));
    http_server_stop(app.server, grace_ms, on_stopped, &stopped);
    if (grace_ms > APP_WAIT_MS) {
        app_step(&app);
        CHECK(!stopped);
        http_server_hurry(app.server);
    }
    CHECK(APP_UNTIL(&app, stopped));
    CHECK_INT(app.ended, 1);
    CHECK_INT(app.last_error, -ECONNRESET);
    CHECK(app_read_eof(&app, busy, &reply) && reply.reset);
    CHECK(free_server(&app));
}

static void test_stop_grace(void)
{
    stop_with_grace(20);
}

static void test_stop_hurry(void)
{
    stop_with_grace(2 * APP_WAIT_MS);
}

static void test_stop_unused(void)
{
    struct app app = {0};
    struct http_server_options options = {.loop = &app.loop, .on_request = app_request};
    struct err err;
    bool stopped = false;
    CHECK(uv_loop_init(&app.loop) == 0);
    CHECK(http_server_new(&options, &app.server, &err) == 0);
    CHECK(free_server(&app)); /* nothing was ever opened */
    CHECK(uv_loop_init(&app.loop) == 0);
    CHECK(http_server_new(&options, &app.server, &err) == 0);
    CHECK(http_server_listen(app.server, "127.0.0.1:0", NULL, &err) == 0);
    CHECK(http_server_listen(app.server, "203.0.113.1:1", NULL, &err) < 0); /* not our address */
    CHECK(free_server(&app));                                               /* nobody came */
    CHECK(uv_loop_init(&app.loop) == 0);
    CHECK(http_server_new(&options, &app.server, &err) == 0);
    http_server_stop(app.server, 0, on_stopped, &stopped);
    CHECK(!stopped);
    CHECK(APP_UNTIL(&app, stopped));
    CHECK(free_server(&app));
}

/* ---- TLS ---- */

struct files {
    char cert[64], key[64];
};

static bool write_pem(const struct files *files, X509 *cert, EVP_PKEY *key)
{
    FILE *c = fopen(files->cert, "we");
    FILE *k = fopen(files->key, "we");
    bool ok = c && k && PEM_write_X509(c, cert) &&
              PEM_write_PrivateKey(k, key, NULL, NULL, 0, NULL, NULL);

    if (c) {
        (void)fclose(c);
    }
    if (k) {
        (void)fclose(k);
    }
    return ok;
}

/* A certificate of its own, signed by itself. */
static bool make_certificate(const struct tmpdir *dir, struct files *files)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    X509_NAME *name = X509_get_subject_name(cert);

    (void)snprintf(files->cert, sizeof(files->cert), "%s/cert.pem", dir->path);
    (void)snprintf(files->key, sizeof(files->key), "%s/key.pem", dir->path);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), 0);
    X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    X509_set_pubkey(cert, key);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"test", -1, -1, 0);
    X509_set_issuer_name(cert, name);
    bool ok = X509_sign(cert, key, EVP_sha256()) > 0 && write_pem(files, cert, key);
    X509_free(cert);
    EVP_PKEY_free(key);
    return ok;
}

struct tls_client {
    SSL_CTX *ctx;
    SSL *ssl;
    int fd;
};

/* alpn: as on the wire, NULL for none. */
static bool tls_start(struct app *app, struct tls_client *client, const char *alpn)
{
    client->ctx = SSL_CTX_new(TLS_client_method());
    client->ssl = SSL_new(client->ctx);
    client->fd = app_connect(app);
    if (client->fd < 0 || fcntl(client->fd, F_SETFL, O_NONBLOCK) < 0) {
        return false;
    }
    SSL_set_fd(client->ssl, client->fd);
    if (alpn) {
        SSL_set_alpn_protos(client->ssl, (const unsigned char *)alpn, (unsigned)strlen(alpn));
    }
    return APP_UNTIL(app, SSL_connect(client->ssl) == 1);
}

static void tls_end(struct tls_client *client)
{
    SSL_free(client->ssl);
    SSL_CTX_free(client->ctx);
    (void)close(client->fd);
}

static long tls_send(void *io, const void *data, size_t len)
{
    int n = SSL_write(io, data, (int)len);

    errno = n > 0 ? 0 : EAGAIN;
    return n > 0 ? n : -1;
}

static long tls_recv(void *io, void *out, size_t size)
{
    int n = SSL_read(io, out, (int)size);

    errno = EAGAIN;
    return n > 0 ? n : SSL_get_error(io, n) == SSL_ERROR_WANT_READ ? -1 : 0;
}

static bool start_tls_app(struct app *app, struct tls_context **tls, bool http2)
{
    scoped_tmpdir dir = tmpdir_make();
    struct http_server_options options = {.http2 = http2 ? &http2_protocol : NULL};
    struct files files;
    struct err err;

    return make_certificate(&dir, &files) &&
           tls_context_new(files.cert, files.key, http2, tls, &err) == 0 &&
           app_start(app, options, *tls);
}

static void alpn_is(const SSL *ssl, char out[16])
{
    const unsigned char *name;
    unsigned len;

    SSL_get0_alpn_selected(ssl, &name, &len);
    (void)snprintf(out, 16, "%.*s", (int)len, name ? (const char *)name : "");
}

static void test_tls_http1(void)
{
    static const struct {
        const char *offered, *chosen;
    } cases[] = {{NULL, ""}, {"\x08http/1.1", "http/1.1"}, {"\x03spd", ""}};
    struct tls_context *tls = NULL;
    struct app app;
    CHECK(start_tls_app(&app, &tls, true));
    for (size_t i = 0; i < countof(cases); i++) {
        struct tls_client client;
        char chosen[16], got[4096] = "";
        size_t len = 0;
        CHECK(tls_start(&app, &client, cases[i].offered));
        alpn_is(client.ssl, chosen);
        CHECK_STR(chosen, cases[i].chosen);
        CHECK(SSL_write(client.ssl, hello, sizeof(hello) - 1) > 0);
        CHECK(APP_UNTIL(&app, ({
            int n = SSL_read(client.ssl, got + len, (int)(sizeof(got) - 1 - len));
            len += n > 0 ? (size_t)n : 0;
            strstr(got, "\r\n\r\nhello");
        })));
        tls_end(&client);
    }
    CHECK(app_end(&app));
    tls_context_free(tls);
}

/* Large bodies both ways through TLS and HTTP/2 at once. */
static void test_tls_http2(void)
{
    enum { BODY = 3 * 1000 * 1000 };
    static struct h2_client h2;
    struct tls_context *tls = NULL;
    struct tls_client client;
    struct app app;
    char chosen[16];
    CHECK(start_tls_app(&app, &tls, true));
    CHECK(tls_start(&app, &client, "\x02h2\x08http/1.1"));
    alpn_is(client.ssl, chosen);
    CHECK_STR(chosen, "h2");
    h2_start(&h2, client.fd);
    h2.io = client.ssl;
    h2.send = tls_send;
    h2.recv = tls_recv;
    SSL_set_mode(client.ssl, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_ENABLE_PARTIAL_WRITE);
    struct h2_call *up = h2_request(&h2, "POST", "/echo", BODY, NULL, 0);
    struct h2_call *down = h2_request(&h2, "GET", "/down?n=3000000", 0, NULL, 0);
    CHECK(APP_UNTIL(&app, ({
        h2_step(&h2);
        up->closed && down->closed;
    })));
    CHECK_INT((long long)up->received, BODY);
    CHECK_INT((long long)down->received, BODY);
    h2_end(&h2);
    tls_end(&client);
    CHECK(app_end(&app));
    tls_context_free(tls);
}

/* The server offers h2 only when it speaks it. */
static void test_tls_without_http2(void)
{
    struct tls_context *tls = NULL;
    struct tls_client client;
    struct app app;
    char chosen[16];
    CHECK(start_tls_app(&app, &tls, false));
    CHECK(tls_start(&app, &client, "\x02h2\x08http/1.1"));
    alpn_is(client.ssl, chosen);
    CHECK_STR(chosen, "http/1.1");
    tls_end(&client);
    CHECK(app_end(&app));
    tls_context_free(tls);
}

static void test_tls_body_and_close(void)
{
    struct tls_context *tls = NULL;
    struct tls_client client;
    struct app app;
    static char bytes[100 * 1000], got[300 * 1000];
    size_t sent = 0, len = 0;
    bool closed = false;
    CHECK(start_tls_app(&app, &tls, true));
    CHECK(tls_start(&app, &client, NULL));
    SSL_set_mode(client.ssl, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_ENABLE_PARTIAL_WRITE);
    const char head[] = "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n"
                        "Connection: close\r\n\r\n";
    memset(bytes, 'e', sizeof(bytes));
    CHECK(SSL_write(client.ssl, head, sizeof(head) - 1) > 0);
    CHECK(APP_UNTIL(&app, ({
        if (sent < sizeof(bytes)) {
            int n = SSL_write(client.ssl, bytes + sent, (int)(sizeof(bytes) - sent));
            sent += n > 0 ? (size_t)n : 0;
        }
        int n = SSL_read(client.ssl, got + len, (int)(sizeof(got) - 1 - len));
        len += n > 0 ? (size_t)n : 0;
        closed = n <= 0 && SSL_get_error(client.ssl, n) == SSL_ERROR_ZERO_RETURN;
        closed;
    })));
    CHECK(len > sizeof(bytes));
    CHECK(strstr(got, "\r\n0\r\n\r\n"));
    CHECK_INT(app.last_error, 0);
    tls_end(&client);
    CHECK(app_end(&app));
    tls_context_free(tls);
}

static void test_tls_garbage(void)
{
    struct tls_context *tls = NULL;
    struct app app;
    CHECK(start_tls_app(&app, &tls, true));
    scoped_fd fd = app_connect(&app);
    scoped_reply reply = {0};
    CHECK(app_say(&app, fd, hello)); /* plain HTTP to a TLS port */
    CHECK(app_read_eof(&app, fd, &reply));
    CHECK_INT(app.requests, 0);
    fd_closep(&fd);
    CHECK(APP_UNTIL(&app, http_server_figures(app.server).connections == 0));
    CHECK(app_end(&app));
    tls_context_free(tls);
}

static void test_tls_files(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct files files, others;
    struct tls_context *tls = NULL;
    struct err err;
    CHECK(make_certificate(&dir, &files));
    CHECK(tls_context_new("/nonexistent", files.key, true, &tls, &err) == -EINVAL);
    CHECK(strstr(err.msg, "read the certificate /nonexistent"));
    CHECK(tls_context_new(files.cert, files.cert, true, &tls, &err) == -EINVAL);
    CHECK(strstr(err.msg, "read the key"));
    scoped_tmpdir other = tmpdir_make();
    CHECK(make_certificate(&other, &others));
    CHECK(tls_context_new(files.cert, others.key, true, &tls, &err) == -EINVAL);
    CHECK(!tls);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"addresses that are none", test_addresses},
        {"a unix listener taken over", test_unix_listener},
        {"a connection taken over", test_adopt},
        {"one connection too many", test_connections_max},
        {"an idle connection makes room", test_an_idle_connection_makes_room},
        {"a silent connection makes room", test_a_silent_connection_makes_room},
        {"a slow head", test_slow_head},
        {"adopted ones may wait for their first byte", test_adopted_ones_wait},
        {"an idle connection", test_idle},
        {"a stalled peer, and a quiet one", test_stall},
        {"a graceful stop", test_graceful_stop},
        {"the end of the grace", test_stop_grace},
        {"a stop that hurries", test_stop_hurry},
        {"a server that was never used", test_stop_unused},
        {"TLS with HTTP/1.1", test_tls_http1},
        {"TLS with HTTP/2", test_tls_http2},
        {"TLS of a server without HTTP/2", test_tls_without_http2},
        {"a body through TLS, and its end", test_tls_body_and_close},
        {"no TLS on a TLS port", test_tls_garbage},
        {"certificates that cannot be used", test_tls_files},
    };
    return check_run(tests, countof(tests));
}
