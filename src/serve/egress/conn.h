/* conn.h - one connection out: what conn.c decides about and relay.c copies. */
#ifndef EGRESS_CONN_H
#define EGRESS_CONN_H

#include "serve/egress/internal.h"

enum conn_state { CONN_PEEKING, CONN_RESOLVING, CONN_DIALLING, CONN_RELAYING, CONN_CLOSED };

/* One direction. What the reader has and the writer does not take yet is kept, and until it is
 * taken nothing more is read: so much and no more of a connection is in memory. */
struct flow {
    struct conn *conn;
    uv_stream_t *from, *to;
    uint64_t *bytes; /* counted here */
    char *kept;      /* NULL: nothing */
    uv_write_t write;
    uv_shutdown_t shutdown;
    bool done; /* the reader's end has been passed on */
};

struct conn {
    struct conn *prev, *next; /* in net->conns, until CONN_CLOSED */
    struct egress_net *net;   /* counted */
    struct share *share;
    enum conn_state state;
    uint32_t handles;
    bool outer_used;
    uv_tcp_t inner, outer; /* the jail's end, the world's end */
    uv_timer_t timer;      /* patience with whatever the state waits for */
    struct dial *dial;
    struct endpoint asked; /* where the program wanted to go */
    bool named_only;       /* the address alone does not allow it */
    bool secure;           /* its first bytes are TLS */
    bool stands_in;        /* the address stands for `name` (names.h) */
    bool by_name;          /* a proxy is told the name */
    char name[POLICY_NAME_BYTES];
    struct buf first; /* what was read to find the name */
    struct lookup *lookup;
    struct flow out, in;
};

void conn_close(struct conn *conn); /* both sides have finished */

/* ---- relay.c ---- */

void relay_start(struct conn *conn);

#endif
