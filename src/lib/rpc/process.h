/* process.h - the client's side of an agent's process.Process/Start and Connect, in JSON.
 *
 * Pure. The daemon asks on an agent's control socket (serve/sandbox/run.c), the tools through the
 * edge (tools/remote_run.c).
 */
#ifndef RPC_PROCESS_H
#define RPC_PROCESS_H

#include <jansson.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/rpc/frame.h"

#define PROCESS_START "/process.Process/Start"
#define PROCESS_CONNECT "/process.Process/Connect"
#define PROCESS_CONTENT_TYPE "application/connect+json"

enum {
    PROCESS_MESSAGE_BYTES_MAX = 1024 * 1024, /* of the agent's; it sends far smaller ones */
    PROCESS_REQUEST_BYTES_MAX = 4 * 1024 * 1024,
    PROCESS_USER_BYTES = 512, /* of an Authorization header */
    PROCESS_STATUS_BYTES = 128,
    PROCESS_KIND_BYTES = 32,
    PROCESS_VALUES_MAX = 256, /* of the agent's message; what has more is not parsed */
};

struct process_plan {        /* borrowed */
    const char *const *argv; /* ends with NULL; the first is looked up in the jail's PATH */
    const char *cwd;         /* NULL: the user's */
    const json_t *env;       /* object of strings; may be NULL */
    bool takes_input;
    const char *tag;     /* NULL: none */
    uint16_t cols, rows; /* of its terminal; 0: it has none */
};

/* The request's body, framed. -EMSGSIZE when it does not fit *out or a word is no UTF-8. */
must_check int process_request(const struct process_plan *plan, struct buf *out, struct err *err);

/* The body of a Connect, framed: to the output of a process that runs. */
must_check int process_request_connect(uint32_t pid, struct buf *out, struct err *err);

/* "Basic ...": the user that a command is to run as. */
must_check int process_user(const char *user, char out[PROCESS_USER_BYTES], struct err *err);

enum process_news {
    PROCESS_NOTHING, /* a sign of life, or what a later agent may tell */
    PROCESS_STARTED, /* pid */
    PROCESS_OUTPUT,  /* data, is_stderr */
    PROCESS_ENDED,   /* exit_code, status */
    PROCESS_LAST,    /* the stream's end; why->code is 0 when it was a good one */
};

struct process_event {
    enum process_news news;
    uint32_t pid;
    bool is_stderr;
    struct buf data; /* initialised by who reads events, cleared by process_event() */
    int exit_code;   /* -1: a signal */
    char status[PROCESS_STATUS_BYTES];
    bool late;                     /* the agent ended the command because of its time limit */
    struct err why;                /* EINVAL: what was asked for cannot be */
    char kind[PROCESS_KIND_BYTES]; /* its code at the wire, as "unauthenticated" */
};
void process_event_init(struct process_event *event);
void process_event_fini(struct process_event *event);

void process_event(const struct frame *frame, struct process_event *out);

#endif
