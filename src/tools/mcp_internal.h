/* mcp_internal.h - shared by the files of the MCP server.
 *
 *      mcp_http.c      heads: paths, origins, keys, headers; which session
 *      mcp_message.c   messages: which method, with which parameters
 *      mcp_call.c      tools/call: one call, from its parameters to its answer
 *      mcp_post.c      answers: JSON or events, sent as far as the client takes them
 *      mcp_session.c   sessions: found, made, expired
 *      mcp_session_sandbox.c       the sandbox of a session
 *      mcp_texts.c     what the server says of itself and its tools; results, for a model. Pure
 */
#ifndef TOOLS_MCP_INTERNAL_H
#define TOOLS_MCP_INTERNAL_H

#include <jansson.h>
#include <uv.h>

#include "lib/base/buf.h"
#include "lib/base/id.h"
#include "lib/base/table.h"
#include "lib/http/http.h"
#include "lib/mcp/jsonrpc.h"
#include "lib/mcp/refusal.h"
#include "lib/mcp/session.h"
#include "lib/mcp/stateless.h"
#include "tools/front_end.h"
#include "tools/mcp.h"

enum {
    MCP_MESSAGE_BYTES_MAX = TOOLS_BODY_BYTES_MAX,
    MCP_ANSWER_BYTES_MAX = 64 * 1024 * 1024,
    MCP_BATCH_MAX = 16,

    MCP_SESSIONS_PER_TEAM_MAX = 64, /* one more ends the one that has been idle for longest */
    MCP_CALLS_PER_SESSION_MAX = 16,
    MCP_STREAMS_PER_SESSION_MAX = 8, /* that go on until somebody ends them */
    MCP_STREAMS_PER_TEAM_MAX = 64,   /* of those, that belong to no session */
    MCP_SESSION_IDLE_MS = 30 * 60 * 1000,

    MCP_SANDBOX_S = 45 * 60,            /* life of a session's sandbox after each extension */
    MCP_EXTEND_MS = 5 * 60 * 1000,      /* how often a live session extends it */
    MCP_ANSWER_KEEP_MS = 5 * 60 * 1000, /* for a client that may take it up again */

    MCP_TICK_MS = 1000,
    MCP_QUIET_MS = 2000,       /* an answer that takes longer comes as events */
    MCP_KEEP_ALIVE_MS = 15000, /* of events: a comment, for whatever is between us */
    MCP_PROGRESS_MS = 100,     /* between two of the same step */
    MCP_EVENTS_KEPT_MAX = 256, /* of one stream, for a client that takes it up again */
    MCP_KEPT_POSTS_MAX = 256,  /* of a team, that nobody listens to; and of their answers: */
    MCP_KEPT_BYTES_MAX = 128 * 1024 * 1024,

    MCP_NAME_BYTES = 128, /* of a template, a client */
    MCP_KEY_BYTES = 64,
    MCP_PAGE_TOOLS = 100,
};

struct mcp_call;
struct mcp_post;

/* ---- sessions ---- */

/* The sandbox for a tool that is given none: an existing one, or one of the session's own. */
struct mcp_sandbox {
    char sandbox_id[ID_SANDBOX_LEN + 1]; /* "": there is none yet */
    char template[MCP_NAME_BYTES];
    bool own;                  /* made for the session, and killed with it */
    struct tool_call *opening; /* is being made, resumed or looked for */
    int64_t extended_mono_ms;
};

struct mcp_session {
    struct session_entry entry; /* its id, its team */
    struct mcp *mcp;
    char key[MCP_KEY_BYTES]; /* with which it was begun, and its sandbox is made and killed */
    struct mcp_sandbox sandbox;
    bool ended; /* out of the table: it is freed when its sandbox is gone */
};

struct mcp {
    struct tools *tools;
    struct session_table sessions;
    struct mcp_post *posts; /* all, also those that nobody listens to */
    uint64_t posts_made;
    uv_timer_t tick; /* runs while there is a session or a post */
    bool stopping;
};

extern const struct session_rules mcp_session_rules;

/* NULL with the sentence: the team has too many, and each of them is in use. */
struct mcp_session *mcp_session_new(struct mcp *mcp, const struct tools_who *who,
                                    enum mcp_version version, const struct mcp_sandbox *sandbox,
                                    struct err *err);
/* NULL with *why: the header is missing, or the team has no session of that id. Counts as use. */
struct mcp_session *mcp_session_find(struct mcp *mcp, struct str id, const char *team,
                                     struct mcp_refusal *why);

/* Gives up its calls, ends its streams, kills its sandbox. */
void mcp_session_end(struct mcp_session *session);
void mcp_sessions_tick(struct mcp *mcp, int64_t now_ms);
/* Ends all sessions, and leaves their sandboxes to their own timeouts. */
void mcp_sessions_forget(struct mcp *mcp);

/* Keeps the timer running while there is anything to look after. */
void mcp_wake(struct mcp *mcp);

/* ---- the sandbox of a session (mcp_session_sandbox.c) ---- */

/* Makes sure that the session's sandbox runs; then each call of it that waits is told:
 * mcp_call_sandbox_ready(). */
void session_sandbox_open(struct mcp_session *session);
void session_sandbox_tick(struct mcp_session *session, int64_t now_ms);

/* Kills it, then frees the session. */
void session_sandbox_end(struct mcp_session *session);

/* ---- answers (mcp_post.c) ---- */

struct mcp_event {
    struct mcp_event *next;
    unsigned number;
    bool answer; /* not progress: it is kept whatever comes */
    struct buf text;
};

/* A connection of a post: a client that comes again brings another. */
struct mcp_link;

/* A POST and the answers that it waits for; or a GET, which waits for none. */
struct mcp_post {
    struct mcp *mcp;
    struct mcp_post *prev, *next;
    struct mcp_link *link; /* NULL: nobody listens */
    struct buf body;       /* of the request, as it comes */
    char team[ID_UUID_LEN + 1];
    char key[MCP_KEY_BYTES];
    struct mcp_session *session; /* NULL: it belongs to none */
    struct mcp_sandbox sandbox;  /* of a request that belongs to no session */
    enum mcp_version version;
    bool takes_json, takes_events;
    bool batch;
    bool listens; /* it goes on until somebody ends it */
    bool over;    /* all that it was owed is told, if perhaps not sent */

    json_t *answers; /* answers before it became a stream */
    size_t owed;     /* requests without an answer */
    struct mcp_call *calls;
    int64_t begun_mono_ms;
    int64_t moved_mono_ms; /* something was sent, or the client left */

    bool streams; /* it is answered with events */
    uint64_t number;
    unsigned events_n; /* that there ever were */
    struct mcp_event *events;
    size_t kept_n;
    struct mcp_event *next_event; /* the one to be sent next; NULL: all are */
    size_t next_at;               /* how much of it is */
};

/* Takes the exchange over; its body is gathered, then post_take() is called. */
struct mcp_post *post_new(struct mcp *mcp, struct http_exchange *ex, const struct tools_who *who);
struct tools_who post_who(const struct mcp_post *post);
/* Good while the link is. */
const struct http_request *post_request(const struct mcp_post *post);

/* An answer to one of its requests, or a notification; taken over. */
void post_answer(struct mcp_post *post, json_t *answer);
void post_notify(struct mcp_post *post, json_t *notification);
/* A request of the post was cancelled: no answer to it is due. */
void post_forgive(struct mcp_post *post);

/* Begins the stream now. */
void post_stream(struct mcp_post *post);
/* The client comes again, and has had everything up to that event. The exchange is taken over. */
void post_resume(struct mcp_post *post, struct http_exchange *ex, unsigned event);
/* NULL: the session has no post of that number that could be resumed. */
struct mcp_post *post_find(struct mcp_session *session, uint64_t number);

/* Whole answers. The message may be NULL: no body; otherwise it is taken over. */
void post_reply(struct mcp_post *post, int status, json_t *message);
void post_refuse(struct mcp_post *post, int status, int code, const char *message);

/* Gives up its calls and closes its stream. */
void post_drop(struct mcp_post *post);
void posts_tick(struct mcp *mcp, int64_t now_ms);

/* The body is whole (mcp_message.c). */
void post_take(struct mcp_post *post, struct str body);

/* Whether one more stream would be too many: of the session, or (NULL) of the team without one. */
bool posts_listening_full(const struct mcp *mcp, const struct mcp_session *session,
                          const char *team);

/* ---- calls (mcp_call.c) ---- */

struct mcp_call {
    struct mcp_call *prev, *next; /* of the post's */
    struct mcp_post *post;
    json_t *id;
    json_t *progress_token; /* NULL: nobody wants to know */
    double progress;
    int64_t progress_mono_ms;
    const struct tool *tool;
    json_t *input;             /* until the tool is started */
    bool tying;                /* waits for the session's sandbox */
    struct tool_call *running; /* NULL: not started */
};

/* tools/call; answers now or later. */
void mcp_call_begin(struct mcp_post *post, const struct jsonrpc_message *message);
/* The session's sandbox is there, or is not: then with the sentence. */
void mcp_call_sandbox_ready(struct mcp_call *call, const char *sandbox_id, const struct err *err);
/* Stops it, without an answer. */
void mcp_call_drop(struct mcp_call *call);
/* The session's call with that request id. */
struct mcp_call *mcp_call_find(struct mcp_session *session, const json_t *id);
size_t mcp_calls_count(const struct mcp_session *session);

/* ---- heads (mcp_http.c) ---- */

/* The query's template or sandbox_id. -EINVAL with the sentence. */
must_check int mcp_sandbox_read(struct str query, struct mcp_sandbox *out, struct err *err);

#endif
