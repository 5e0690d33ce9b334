/* post.h - one POST to the gateway: a client's message and its answer.
 *
 * Owns:     the exchange from its head on, the message, until both are over.
 * Needs:    a libuv loop's exchanges.
 * Blocks:   never.
 * Threads:  the loop's.
 *
 * An answer is plain JSON, unless a notification comes before it: then it is a stream of events, if
 * the client accepts one. Progress is such a thing, and so is a long silence (post_tick). When a
 * client leaves, its request is cancelled in the revisions without sessions only, as MCP requires;
 * in the others the answer is dropped.
 */
#ifndef GATEWAY_POST_H
#define GATEWAY_POST_H

#include <jansson.h>
#include <stdint.h>

#include "inside/gateway/mcp_server.h"
#include "lib/base/buf.h"
#include "lib/http/http.h"
#include "lib/mcp/jsonrpc.h"
#include "lib/mcp/refusal.h"
#include "lib/mcp/version.h"

struct posts;

struct post {
    struct posts *posts;
    struct post *next, *prev;
    struct http_exchange *ex; /* NULL: the client has left */
    json_t *json;             /* the message as it came; NULL before */
    struct jsonrpc_message message;
    char *session; /* the id that it came with, or NULL */
    enum mcp_version version;
    bool listens;                 /* a stream that goes on until the client leaves */
    bool wants[MCP_SERVER_LISTS]; /* to hear of, while it listens */
    /* While a server is asked: */
    struct mcp_server *server;
    int64_t question;
    /* How it is answered: */
    struct buf body;
    bool takes_events;
    bool streams;  /* the head of a stream of events is out */
    bool answered; /* nothing follows */
    int ticks;
};

struct posts {
    struct post *first;
    void (*on_message)(void *ctx, struct post *post); /* post->message is whole */
    void *ctx;
};

void post_accept(struct posts *posts, struct http_exchange *ex);

/* Each of these answers; the messages are taken over. */
void post_answer(struct post *post, json_t *message);
void post_answer_status(struct post *post, int status, json_t *message);
void post_answer_session(struct post *post, json_t *message, const char *session); /* a new one */
void post_refuse(struct post *post, int status, int code, const char *why);
void post_taken(struct post *post); /* 202: it was no question */
void post_drop(struct post *post);  /* it was cancelled: an end without an answer */

void post_tell(struct post *post, json_t *notification); /* before the answer; stolen */
void posts_tick(struct posts *posts);                    /* every few seconds */

/* An event with this message as its data; -ENOBUFS when it is too long. */
must_check int event_write(struct buf *out, const json_t *message);

#endif
