/* remote.h - operations of tools on a sandbox: connect, run, read, write.
 *
 * Owns:     nothing that outlives the call.
 * Blocks:   the fiber.
 * Threads:  the loop's.
 */
#ifndef TOOLS_REMOTE_H
#define TOOLS_REMOTE_H

#include "lib/base/id.h"
#include "tools/call.h"

enum {
    REMOTE_OUTPUT_BYTES_MAX = 1024 * 1024, /* kept of each stream of a command, the end of it */
    REMOTE_FILE_BYTES_MAX = 32 * 1024 * 1024,
    REMOTE_TOKEN_BYTES = 128,
    REMOTE_DOMAIN_BYTES = 256,
};

struct remote_sandbox {
    char id[ID_SANDBOX_LEN + 1];
    char token[REMOTE_TOKEN_BYTES];         /* "": it needs none */
    char traffic_token[REMOTE_TOKEN_BYTES]; /* of a sandbox made here whose ports are not public */
    char domain[REMOTE_DOMAIN_BYTES];
    int64_t expires_ms;
};

/* Asks the API about a sandbox: METHOD /sandboxes/ID, and `what` behind it ("/pause"). As
 * call_api().
 */
must_check int remote_api(struct tool_call *call, const char *method, const char *id,
                          const char *what, const json_t *body, json_t **answer, struct err *err);

/* Connects to the team's sandbox of that id: a paused one resumes. timeout_s < 0: its life is never
 * shortened; otherwise it ends timeout_s from now, exactly. */
must_check int remote_connect(struct tool_call *call, const char *id, int64_t timeout_s,
                              struct remote_sandbox *out, struct err *err);

/* The same for what a tool was given: sandbox_id, and timeout_seconds if it says. */
must_check int remote_connect_input(struct tool_call *call, const json_t *input,
                                    struct remote_sandbox *out, struct err *err);

/* POST /sandboxes with that body. */
must_check int remote_create(struct tool_call *call, const json_t *body, struct remote_sandbox *out,
                             struct err *err);

/* Also when the call was cancelled: it is for cleaning up. */
void remote_kill(struct tool_call *call, const struct remote_sandbox *sandbox);

struct remote_command {     /* borrowed */
    const char *script;     /* given to bash -l -c */
    bool bare;              /* the user's own files, which a login shell reads, are not read */
    const char *user, *cwd; /* NULL: the sandbox's own */
    const json_t *env;
    struct str input;                                           /* to stdin; empty: none */
    int64_t timeout_ms;                                         /* 0: none */
    void (*output)(void *ctx, bool is_stderr, struct str data); /* as it comes; may be NULL */
    void *ctx;
};

struct remote_result {
    struct buf out, err; /* the last REMOTE_OUTPUT_BYTES_MAX of each, valid UTF-8 */
    bool out_cut, err_cut;
    int exit_code; /* -1: a signal */
    bool timed_out;
    int64_t duration_ms;
};
void remote_result_fini(struct remote_result *result);
#define scoped_remote_result scoped(remote_result_fini) struct remote_result

/* 0 when it ran, whatever its result. A command that is cancelled or passes its limit is killed. */
must_check int remote_run(struct tool_call *call, const struct remote_sandbox *sandbox,
                          const struct remote_command *command, struct remote_result *out,
                          struct err *err);

/* A unary request to the agent: "/filesystem.Filesystem/Stat", in Connect's JSON. */
must_check int remote_rpc(struct tool_call *call, const struct remote_sandbox *sandbox,
                          const char *method, const json_t *request, json_t **answer,
                          struct err *err);

/* A whole file, or its first `max` bytes: then *cut. Missing parents are made by a write. `out` was
 * given its maximum with buf_init(). */
must_check int remote_read(struct tool_call *call, const struct remote_sandbox *sandbox,
                           const char *path, size_t max, struct buf *out, bool *cut,
                           struct err *err);
must_check int remote_write(struct tool_call *call, const struct remote_sandbox *sandbox,
                            const char *path, struct str data, struct err *err);

/* A plain HTTP request to a port inside, through the edge; *status is the service's, or the edge's
 * when nobody listens (502). The answer is passed on piece by piece, as it comes. */
struct remote_question { /* borrowed */
    uint32_t port;
    const char *method, *target;
    const json_t *body; /* NULL: none */
    bool trusted;       /* it is given the sandbox's token, to ask the agent with */
    void (*piece)(void *ctx, struct str data);
    void *ctx;
};
must_check int remote_http(struct tool_call *call, const struct remote_sandbox *sandbox,
                           const struct remote_question *question, int *status, struct err *err);

/* Keeps the end of an output: its last REMOTE_OUTPUT_BYTES_MAX bytes; *cut when it was longer. */
void remote_output_keep(struct buf *kept, bool *cut, struct str data);

/* Appends the kept text as valid UTF-8 to an empty buffer. */
void remote_output_text(const struct buf *kept, bool cut, struct buf *out);

#endif
