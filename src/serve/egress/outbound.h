/* outbound.h - one connection out of a sandbox: outbound.c decides about it, relay.c copies. */
#ifndef EGRESS_OUTBOUND_H
#define EGRESS_OUTBOUND_H

#include "serve/egress/internal.h"

enum outbound_state {
    OUTBOUND_PEEKING,
    OUTBOUND_RESOLVING,
    OUTBOUND_DIALLING,
    OUTBOUND_RELAYING,
    OUTBOUND_CLOSED
};

/* A direction of a connection. Bytes that the writer does not take yet are kept, and nothing more
 * is read until they are written: this bounds the memory of a connection. */
struct flow {
    struct outbound *outbound;
    uv_stream_t *from, *to;
    uint64_t *bytes, *also; /* counted here: of the sandbox, and of the destination */
    char *kept;             /* NULL: nothing */
    uv_write_t write;
    uv_shutdown_t shutdown;
    bool done; /* the reader's end has been passed on */
};

struct outbound {
    struct outbound *prev, *next; /* in net->outbounds, until OUTBOUND_CLOSED */
    struct egress_net *net;       /* counted */
    struct share *share;
    enum outbound_state state;
    uint32_t handles;
    bool outer_used;
    uv_tcp_t inner, outer; /* the jail's end, the world's end */
    uv_timer_t timer;      /* the time limit of the state */
    struct dial *dial;
    struct endpoint dialled;         /* where it was led */
    struct destination *destination; /* counted; NULL until it is reached */
    struct endpoint asked;           /* where the program wanted to go */
    bool named_only;                 /* the address alone does not allow it */
    bool secure;                     /* its first bytes are TLS */
    bool stands_in;                  /* the address stands for `name` (names.h) */
    bool by_name;                    /* a proxy is told the name */
    char name[POLICY_NAME_BYTES];
    struct buf first; /* the bytes read to find the name */
    struct lookup *lookup;
    struct flow out, in;
};

void outbound_close(struct outbound *outbound); /* both sides have finished */

/* ---- relay.c ---- */

void relay_start(struct outbound *outbound);

#endif
