/* link.h - a connection that we opened to a server: a wire, with TLS on it or without.
 *
 * Owns:     the wire and the TLS session. Frees itself once closed.
 * Needs:    a libuv loop; an owner that handles its events, which may hand it to another.
 * Blocks:   never.
 * Threads:  the loop's.
 *
 * The rules are the wire's: events come from the loop only, never from inside a link_*() call;
 * writes of one turn are gathered; what is read is lent for the time of the event.
 */
#ifndef HTTP_LINK_H
#define HTTP_LINK_H

#include <uv.h>

#include "lib/base/err.h"
#include "lib/http/internal.h"

struct link;

struct link_events {
    void (*data)(void *ctx, const char *data, size_t len);
    void (*end)(void *ctx, int error); /* 0: the server sends no more; else the link is dead */
    void (*run)(void *ctx);            /* link_wake() was called */
    void (*written)(void *ctx);        /* link_pending() may have shrunk */
    void (*closed)(void *ctx);         /* the last event */
};

/* Takes the descriptor over, also on failure. */
must_check int link_open(uv_loop_t *loop, int fd, const struct link_events *events, void *ctx,
                         struct link **out, struct err *err);

/* Another owner takes it, with the events that follow. */
void link_own(struct link *link, const struct link_events *events, void *ctx);

/* How a handshake goes on: tls_client.h's functions, so that a program without TLS links none. */
typedef int link_handshake(struct tls_session *session, struct err *err);

/* Puts a session, which sends by link_send() with the link as its ctx, on a link that has carried
 * nothing yet. `ready` comes once: 0, or the handshake's error, when only link_close() is left. */
void link_secure(struct link *link, const struct tls_ops *ops, struct tls_session *session,
                 link_handshake *handshake,
                 void (*ready)(void *ctx, int error, const struct err *err));
void link_send(void *ctx, const void *data, size_t len);

/* Adds up what is read and written of what the link carries, from here on. */
void link_count(struct link *link, uint64_t *in, uint64_t *out);
bool link_is_http2(const struct link *link);

void link_write(struct link *link, const void *data, size_t len);
size_t link_pending(const struct link *link);
void link_read(struct link *link, size_t limit); /* at most so much per event; 0: nothing */
void link_wake(struct link *link);
void link_shutdown(struct link *link);
bool link_eof(const struct link *link); /* all that the server sent has been given */
void link_close(struct link *link, bool reset);

/* For an owner that waits for nothing but `ready`, and what becomes of a link that it gives up. */
extern const struct link_events link_quiet;
void link_drop(struct link *link); /* NULL is fine */

#endif
