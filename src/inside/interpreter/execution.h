/* execution.h - one request to /execute and the lines of its answer.
 *
 * Owns:     the exchange's half, the request, lines that the client has no room for yet.
 * Needs:    a context that runs it.
 * Blocks:   never.
 * Threads:  the loop's.
 *
 * The answer is a line of JSON per event and a keepalive after KEEPALIVE_MS of silence. Lines wait
 * here until the client takes them; past EXECUTION_HIGH_BYTES the kernel's output is left where it
 * is. A kernel that would not wait but drop what is not taken (spec.h, waits) is read on, up to
 * EXECUTION_KEPT_BYTES_MAX, past which output is left out and the answer says so.
 *
 * The exchange lives on after its end until the client has everything; its context is free by then.
 *
 * An execution also outlives its exchange when the sandbox was saved and restored meanwhile. If the
 * daemon has named it (wire/rejoin.h), its lines wait for EXECUTION_AWAIT_MS: the daemon asks for
 * the rest behind the bytes that it has. Some of the bytes that were sent may be lost with the
 * connection, so the last EXECUTION_SENT_BYTES are kept, for the same time also when the execution
 * has ended. Without a name, or after that time, it runs to its end and its output is dropped.
 */
#ifndef INTERPRETER_EXECUTION_H
#define INTERPRETER_EXECUTION_H

#include <jansson.h>
#include <uv.h>

#include "lib/base/str.h"
#include "lib/http/http.h"
#include "wire/rejoin.h"

enum {
    EXECUTION_BODY_BYTES_MAX = 16 * 1024 * 1024,
    EXECUTION_HIGH_BYTES = 256 * 1024,
    EXECUTION_KEPT_BYTES_MAX = 128 * 1024 * 1024,
    KEEPALIVE_MS = 5000,
    EXECUTION_AWAIT_MS = 5000,
    EXECUTION_SENT_BYTES =
        4 * 1024 * 1024,       /* more than sockets hold; up to twice as many are kept */
    EXECUTIONS_ENDED_MAX = 16, /* that are kept for the daemon */
    EXECUTIONS_ENDED_BYTES_MAX = 16 * 1024 * 1024,
};

struct context;
struct client; /* execution.c */

struct execution {
    struct http_exchange *ex;      /* NULL: lost with a restore, or over */
    struct client *client;         /* of that exchange */
    struct context *context;       /* NULL: it has none yet, or is done with it */
    struct execution *prev, *next; /* in the context's queue */
    struct buf body;
    void (*on_whole)(void *ctx, struct execution *e, int error);
    void *ctx;
    json_t *request;
    json_t *env;     /* of the request; NULL: none */
    struct str code; /* likewise */
    struct buf out;
    char id[EXECUTION_ID_LEN + 1];             /* empty: the daemon cannot ask for the rest */
    struct execution *named_prev, *named_next; /* those with an id, the oldest first */
    struct buf sent;                           /* the last bytes of those given to the exchange */
    uint64_t sent_bytes;                       /* all of them */
    bool lost;                                 /* without an exchange, and the daemon may ask */
    uv_timer_t keepalive;                      /* lost: how long it waits for the daemon */
    size_t left_out_bytes;
    uint64_t began; /* this process, when the execution did: see lifetime.h */
    bool begun;
    bool ended;
};

/* Takes the exchange and gathers its body. on_whole is called once, unless the client leaves first:
 * with 0, or -EMSGSIZE; it refuses or begins. */
void execution_accept(uv_loop_t *loop, struct http_exchange *ex,
                      void (*on_whole)(void *ctx, struct execution *e, int error), void *ctx);

void execution_refuse(struct execution *e, int status, const char *why);
void execution_begin(struct execution *e);

struct str execution_token(const struct execution *e); /* the client's, for the agent; or empty */

/* Adds a line and gives up the reference. */
void execution_line(struct execution *e, json_t *line);
void execution_error(struct execution *e, const char *name, const char *value, struct str last);

/* The last line. Its context must not touch it after this. */
void execution_end(struct execution *e);

/* Gives the rest of an execution's answer to the daemon, behind the first `from` bytes. False: the
 * execution is not known, has its client, or keeps less than that; the exchange is not accepted. */
bool execution_rejoin(struct http_exchange *ex, struct str id, uint64_t from);

/* The program ends: those that wait for the daemon and have no context are freed. */
void executions_forget(void);

/* The client has not taken what there is: more should not be produced. */
bool execution_is_full(const struct execution *e);

#endif
