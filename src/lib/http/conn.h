/* conn.h - a server's connection: the socket, TLS when there is any, and the protocol on top.
 *
 * Owns:     its socket, its TLS session, its protocol's state. Frees itself once closed.
 * Needs:    the server that made it.
 * Blocks:   never.
 * Threads:  the loop's.
 *
 *   OPEN     -> FLUSHING    the protocol wants to close: what is pending goes out first
 *   FLUSHING -> LINGERING   all written, our half shut: what still comes in is read and dropped,
 *                           for a close with unread bytes would reset the answer away
 *   any      -> DROPPED     libuv closes the socket; the protocol is gone already
 */
#ifndef HTTP_CONN_H
#define HTTP_CONN_H

#include "lib/http/internal.h"
#include "lib/http/server.h"
#include "lib/http/sock.h"

enum conn_state { CONN_OPEN, CONN_FLUSHING, CONN_LINGERING, CONN_DROPPED };

/* How a connection is used, to decide which one makes room for others. An adopted one is BUSY. */
enum conn_use { CONN_BUSY, CONN_FRESH, CONN_IDLE };

enum { CONN_PATIENCE_MS = 1000 }; /* to finish sending a request, when others need the place */

/* The part of a server that its connections use. */
struct conn_owner {
    struct http_server_options options; /* with the defaults filled in */
    struct conn *conns;
    struct conn *fresh; /* have sent no whole request yet, oldest first */
    struct conn *idle;  /* serve no request now: the longest unused first */
    uint32_t fresh_n;
    uint64_t exchanges;
    uint64_t requests;
    void (*timed)(struct conn_owner *owner);                /* a connection has a time limit now */
    void (*closed)(struct conn_owner *owner, bool evicted); /* one has left the list */
};

struct conn {
    struct http_conn base;
    struct conn *prev, *next;
    struct conn *use_prev, *use_next; /* in the owner's list of its use */
    struct conn_owner *owner;
    struct sock sock;
    struct tls_context *tls; /* the listener's; NULL: plain */
    struct tls_session *session;
    struct buf first;                     /* read by somebody else before this was opened */
    struct buf plain;                     /* written in this turn, not encrypted yet */
    const struct http_protocol *protocol; /* NULL until the first bytes tell which */
    void *state_of_protocol;
    enum conn_state state;
    unsigned char preface_bytes; /* of HTTP/2's that have matched */
    uint32_t exchanges_n;        /* under way */
    enum conn_use use;
    int64_t opened_ms;
    bool adopted;
    bool evicted; /* to make room: it is closing */
    bool close_asked;
    enum http_close close_how;
    size_t lingered_bytes;
};

/* A connection whose socket is not open yet. */
struct conn *conn_new(struct conn_owner *owner, struct tls_context *tls, void *tag);
extern const struct sock_events conn_events;

/* The socket is open: joins the owner's list and starts reading. */
void conn_start(struct conn *conn);
void conn_start_with(struct conn *conn, struct str first); /* which have been read already */

/* Answers 503 and closes: there are too many. */
void conn_refuse(struct conn *conn);

/* Whether it may be closed to make room: it serves no request, and none is arriving. */
bool conn_can_go(const struct conn *conn, int64_t now_ms);
/* Closes it then, as if its time were up. */
void conn_evict(struct conn *conn);

void conn_stop(struct conn *conn);
void conn_sweep(struct conn *conn, int64_t now_ms);
bool conn_is_timed(const struct conn *conn); /* a time limit may end it */

/* Ends its exchanges with `error` and closes it. From the loop only. */
void conn_drop(struct conn *conn, int error);

#endif
