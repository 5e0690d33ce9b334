/* remote_internal.h - shared by the files of remote.h and terminal.c: requests to a sandbox's
 * agent. */
#ifndef TOOLS_REMOTE_INTERNAL_H
#define TOOLS_REMOTE_INTERNAL_H

#include "lib/rpc/process.h"
#include "tools/client.h"
#include "tools/remote.h"

enum {
    REMOTE_AGENT_PORT = 49983,
    REMOTE_PORT_BYTES = 8,
    REMOTE_HEADERS_MAX = 8,
    REMOTE_TARGET_BYTES_MAX = 16 * 1024,
    REMOTE_START_LIMIT_MS = 60 * 1000, /* by our clock: until a pid is known nobody can cancel */
};

/* The headers by which the edge and the agent know where a request goes and who sends it. */
struct remote_headers {
    struct http_header at[REMOTE_HEADERS_MAX];
    size_t n;
    char port[REMOTE_PORT_BYTES];
};
void remote_headers(struct remote_headers *headers, const struct remote_sandbox *sandbox,
                    uint32_t port);
void remote_header(struct remote_headers *headers, const char *name, const char *value);

/* The failure that an answer of the edge's or the agent's tells; the rest of it is read. */
int remote_refused(struct ask *ask, const char *what, struct err *err);

/* Kills the whole process group of a command that was cancelled or passed its limit, since the
 * agent kills only the first process. Cannot be cancelled. user: the owner of the process; NULL:
 * the sandbox's default user. */
void remote_kill_group(struct tool_call *call, const struct remote_sandbox *sandbox,
                       const char *user, uint32_t pid);

/* ---- the events of a process (remote_stream.c) ---- */

struct remote_stream {
    struct ask *ask;
    struct buf in; /* received, and no whole message yet */
    struct process_event event;
};
void remote_stream_init(struct remote_stream *stream);
void remote_stream_fini(struct remote_stream *stream);

struct remote_stream_plan {    /* borrowed */
    const char *what;          /* begins the sentence of a refusal */
    const char *target;        /* PROCESS_START or PROCESS_CONNECT */
    struct str body;           /* as process_request() makes it */
    const char *authorization; /* NULL: the sandbox's own user */
    int64_t deadline_ms;       /* that the agent keeps; 0: none */
    int64_t limit_ms;          /* ask_limit(); 0: none */
};
must_check int remote_stream_open(struct tool_call *call, const struct remote_sandbox *sandbox,
                                  const struct remote_stream_plan *plan,
                                  struct remote_stream *stream, struct err *err);

/* Waits for the next event, which is stream->event then; the last one is PROCESS_LAST. */
must_check int remote_stream_next(struct remote_stream *stream, struct err *err);

#endif
