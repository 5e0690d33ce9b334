/* client_conn.h - a connection that we opened to a server: a socket, with TLS on it or without.
 *
 * Owns:     the socket and the TLS session. Frees itself once closed.
 * Needs:    a libuv loop; an owner that handles its events, which may hand it to another.
 * Blocks:   never.
 * Threads:  the loop's.
 *
 * The rules are the socket's: events come from the loop only, never from inside a client_conn_*()
 * call; writes of one turn are gathered; bytes that are read are valid during the event only.
 */
#ifndef HTTP_CLIENT_CONN_H
#define HTTP_CLIENT_CONN_H

#include <uv.h>

#include "lib/base/err.h"
#include "lib/http/internal.h"

struct client_conn;

struct client_conn_events {
    void (*data)(void *ctx, const char *data, size_t len);
    void (*end)(void *ctx,
                int error);     /* 0: the server sends no more; else the connection is dead */
    void (*run)(void *ctx);     /* client_conn_wake() was called */
    void (*written)(void *ctx); /* client_conn_pending() may have shrunk */
    void (*closed)(void *ctx);  /* the last event */
};

/* Takes the descriptor over, also on failure. */
must_check int client_conn_open(uv_loop_t *loop, int fd, const struct client_conn_events *events,
                                void *ctx, struct client_conn **out, struct err *err);

/* Another owner takes it, with the events that follow. */
void client_conn_own(struct client_conn *conn, const struct client_conn_events *events, void *ctx);

/* Continues a handshake. A pointer, so that a program without TLS does not link tls_client.c. */
typedef int client_conn_handshake(struct tls_session *session, struct err *err);

/* Puts a TLS session on a connection that has carried nothing yet. The session sends by
 * client_conn_send() with the connection as its ctx. `ready` comes once: 0, or the handshake's
 * error, when only client_conn_close() is left. */
void client_conn_secure(struct client_conn *conn, const struct tls_ops *ops,
                        struct tls_session *session, client_conn_handshake *handshake,
                        void (*ready)(void *ctx, int error, const struct err *err));
void client_conn_send(void *ctx, const void *data, size_t len);

/* Counts the plain bytes read and written from here on. */
void client_conn_count(struct client_conn *conn, uint64_t *in, uint64_t *out);
void client_conn_count_also(struct client_conn *conn, uint64_t *in, uint64_t *out); /* there too */
bool client_conn_is_http2(const struct client_conn *conn);

void client_conn_write(struct client_conn *conn, const void *data, size_t len);
void client_conn_write_parts(struct client_conn *conn, const struct str *parts, size_t n);
size_t client_conn_pending(const struct client_conn *conn);
void client_conn_read(struct client_conn *conn,
                      size_t limit); /* at most so much per event; 0: nothing */
void client_conn_wake(struct client_conn *conn);
void client_conn_shutdown(struct client_conn *conn);
bool client_conn_eof(
    const struct client_conn *conn); /* all that the server sent has been delivered */
void client_conn_close(struct client_conn *conn, bool reset);

/* Events of an owner that waits for `ready` only; and closing a connection without an owner. */
extern const struct client_conn_events client_conn_quiet;
void client_conn_drop(struct client_conn *conn); /* accepts NULL */

#endif
