/* http_app.h - a small application for tests of http: a handler behind every kind of exchange, a
 * server on a loop of its own, and a client that reads and writes raw bytes in the same thread.
 *
 *   /hello    "hello"                          /early    403 without reading the body
 *   /echo     the body, streamed               /gather   a body of at most APP_GATHER_MAX bytes
 *   /tunnel   101, then an echo                /down     ?n= bytes, streamed
 *   /wait     answered by app_release()        /abort    100 of 1000 bytes, then http_abort()
 *   /empty    204                              /split    headers that try to end the head
 *   /sink     reads APP_SINK_BYTES, then no more until app_release()
 */
#ifndef TESTS_HTTP_APP_H
#define TESTS_HTTP_APP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "lib/http/http.h"
#include "lib/http/server.h"

enum {
    APP_GATHER_MAX = 1000,
    APP_SINK_BYTES = 1000,
    APP_WAIT_MS = 20 * 1000, /* no step of a test takes so long: a test that does has failed */
};

struct app_item;

struct app {
    uv_loop_t loop;
    struct http_server *server;
    struct app_item *waiting; /* the last /wait or /sink */
    unsigned requests, ended, gone, body_ends;
    int last_error; /* of on_end */
    uint64_t body_bytes;
    char last_peer[64], last_authority[128], last_path[256], last_query[256], last_cookie[256];
    bool stopped;
};

/* The routes above, as http_server_options.on_request; ctx is a struct app. */
void app_request(void *ctx, struct http_exchange *ex);
void app_release(struct app *app);

/* Starts with what the options say; loop, handler and context are filled in. */
bool app_start(struct app *app, struct http_server_options options, struct tls_context *tls);
/* Stops, frees, and runs the loop until it is empty: false when something was left behind. */
bool app_end(struct app *app);
void app_step(struct app *app);

/* A client's socket: TCP to the server, or one end of a pair whose other the server adopted. */
int app_connect(struct app *app);
int app_pair(struct app *app, void *tag);

/* Each runs the loop meanwhile; false when APP_WAIT_MS are over. */
bool app_send(struct app *app, int fd, const void *data, size_t len);
bool app_say(struct app *app, int fd, const char *text);

struct app_reply {
    char *at; /* NUL-terminated */
    size_t len, cap;
    bool eof, reset;
};
void app_reply_fini(struct app_reply *reply);
#define scoped_reply scoped(app_reply_fini) struct app_reply

/* Until the reply holds `text`, until `n` bytes, until the server closes or resets. */
bool app_read_until(struct app *app, int fd, struct app_reply *reply, const char *text);
bool app_read_bytes(struct app *app, int fd, struct app_reply *reply, size_t n);
bool app_read_eof(struct app *app, int fd, struct app_reply *reply);

/* The most memory this program has had; 0 where a sanitizer keeps what was freed. */
long app_memory_kb(void);

#define APP_UNTIL(app, cond)                                                                       \
    ({                                                                                             \
        uint64_t end_ = uv_hrtime() + APP_WAIT_MS * 1000000ULL;                                    \
        while (!(cond) && uv_hrtime() < end_) {                                                    \
            app_step(app);                                                                         \
        }                                                                                          \
        (cond);                                                                                    \
    })

#endif
