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
 * An execution also outlives its exchange when the sandbox was saved and restored meanwhile: it
 * runs to its end, and its output is dropped.
 */
#ifndef INTERPRETER_EXECUTION_H
#define INTERPRETER_EXECUTION_H

#include <jansson.h>
#include <uv.h>

#include "lib/base/str.h"
#include "lib/http/http.h"

enum {
    EXECUTION_BODY_BYTES_MAX = 16 * 1024 * 1024,
    EXECUTION_HIGH_BYTES = 256 * 1024,
    EXECUTION_KEPT_BYTES_MAX = 128 * 1024 * 1024,
    KEEPALIVE_MS = 5000,
};

struct context;

struct execution {
    struct http_exchange *ex;      /* NULL: lost with a restore */
    struct context *context;       /* NULL: it has none yet, or is done with it */
    struct execution *prev, *next; /* in the context's queue */
    struct buf body;
    void (*on_whole)(void *ctx, struct execution *e, int error);
    void *ctx;
    json_t *request;
    json_t *env;     /* of the request; NULL: none */
    struct str code; /* likewise */
    struct buf out;
    uv_timer_t keepalive;
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

/* The client has not taken what there is: more should not be produced. */
bool execution_is_full(const struct execution *e);

#endif
