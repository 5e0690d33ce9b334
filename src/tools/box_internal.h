/* box_internal.h - what the files of box.h and terminal.c share: requests to a sandbox's agent. */
#ifndef TOOLS_BOX_INTERNAL_H
#define TOOLS_BOX_INTERNAL_H

#include "lib/rpc/process.h"
#include "tools/box.h"
#include "tools/client.h"

enum {
    BOX_AGENT_PORT = 49983,
    BOX_PORT_BYTES = 8,
    BOX_HEADERS_MAX = 8,
    BOX_TARGET_BYTES_MAX = 16 * 1024,
    BOX_START_LIMIT_MS = 60 * 1000, /* by our clock: until a pid is known nobody can cancel */
};

/* The headers by which the edge and the agent know where a request goes and who sends it. */
struct box_headers {
    struct http_header at[BOX_HEADERS_MAX];
    size_t n;
    char port[BOX_PORT_BYTES];
};
void box_headers(struct box_headers *headers, const struct box *box, uint32_t port);
void box_header(struct box_headers *headers, const char *name, const char *value);

/* The failure that an answer of the edge's or the agent's tells; the rest of it is read. */
int box_refused(struct ask *ask, const char *what, struct err *err);

/* What was cancelled, or passed its limit, does not go on behind our back: all of its process
 * group, since the agent ends the first process alone. Cannot be cancelled. user: whose it is;
 * NULL: the sandbox's own. */
void box_kill_group(struct tool_call *call, const struct box *box, const char *user, uint32_t pid);

/* ---- the events of a process (box_stream.c) ---- */

struct box_stream {
    struct ask *ask;
    struct buf in; /* what came and is no whole message yet */
    struct process_event event;
};
void box_stream_init(struct box_stream *stream);
void box_stream_fini(struct box_stream *stream);

struct box_stream_plan {       /* borrowed */
    const char *what;          /* begins the sentence of a refusal */
    const char *target;        /* PROCESS_START or PROCESS_CONNECT */
    struct str body;           /* as process_request() makes it */
    const char *authorization; /* NULL: the sandbox's own user */
    int64_t deadline_ms;       /* that the agent keeps; 0: none */
    int64_t limit_ms;          /* ask_limit(); 0: none */
};
must_check int box_stream_open(struct tool_call *call, const struct box *box,
                               const struct box_stream_plan *plan, struct box_stream *stream,
                               struct err *err);

/* Waits for the next event, which is stream->event then; the last one is PROCESS_LAST. */
must_check int box_stream_next(struct box_stream *stream, struct err *err);

#endif
