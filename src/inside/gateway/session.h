/* session.h - the sessions of the gateway (lib/mcp/session.h), each with the event stream on which
 * its client hears notifications.
 *
 * Owns:     the sessions; a stream until it ends.
 * Blocks:   never.
 * Threads:  the loop's.
 *
 * A session ends when its client deletes it, or when it was quiet for longest and another needs its
 * place. A notification to a client without an open stream is dropped.
 */
#ifndef GATEWAY_SESSION_H
#define GATEWAY_SESSION_H

#include <jansson.h>

#include "lib/http/http.h"
#include "lib/mcp/session.h"

enum {
    SESSIONS_MAX = 256,
    SESSION_SUBSCRIBED_MAX = 1024, /* resources that one client subscribes to */
};

struct gateway_session {
    struct session_entry entry;
    struct session_table *all;
    struct stream *stream; /* NULL: the client has opened none */
    json_t *subscribed;    /* the addresses of resources, as keys */
};

extern const struct session_rules gateway_session_rules;

struct gateway_session *gateway_session_new(struct session_table *all, enum mcp_version version);

/* The session that the header Mcp-Session-Id names; NULL with *why. Counts as use. */
struct gateway_session *gateway_session_find(struct session_table *all, struct str id,
                                             struct mcp_refusal *why);
struct gateway_session *gateway_session_of(struct session_entry *entry);
void gateway_session_end(struct gateway_session *session);

/* The exchange becomes the session's stream; the stream before it ends. */
void gateway_session_listen(struct gateway_session *session, struct http_exchange *ex);

/* Sends a notification to one client, or to all; the message is borrowed. */
void gateway_session_notify(struct gateway_session *session, const json_t *message);
void gateway_sessions_notify(struct session_table *all, const json_t *message);
void gateway_sessions_tick(struct session_table *all);
void gateway_sessions_end(struct session_table *all);

#endif
