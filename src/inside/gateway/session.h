/* session.h - clients that have said initialize, and the stream on which each hears of what it did
 * not ask for.
 *
 * Owns:     the sessions; a stream until it ends. Blocks: never. Threads: the loop's.
 *
 * A session ends when its client says so, or when room is needed and it is the one that was quiet
 * for longest. What is to be told to a client that listens to no stream is dropped.
 */
#ifndef GATEWAY_SESSION_H
#define GATEWAY_SESSION_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/table.h"
#include "lib/http/http.h"

enum {
    SESSIONS_MAX = 256,
    SESSION_ID_LEN = 32,
    SESSION_SUBSCRIBED_MAX = 1024, /* resources that one client watches */
};

struct session {
    char id[SESSION_ID_LEN + 1];
    struct sessions *all;
    struct stream *stream; /* NULL: it does not listen */
    json_t *subscribed;    /* the addresses of resources, as keys */
    uint64_t used;         /* when, in the order of use */
    UT_hash_handle hh;
};

struct sessions {
    struct session *by_id;
    uint64_t uses;
};

struct session *session_new(struct sessions *all);
struct session *session_find(struct sessions *all, const char *id); /* NULL: none; counts as use */
void session_end(struct session *session);

/* The exchange becomes its stream; one that was before ends. */
void session_listen(struct session *session, struct http_exchange *ex);

/* To one client, or to all; the message is borrowed. */
void session_tell(struct session *session, const json_t *message);
void sessions_tell(struct sessions *all, const json_t *message);
void sessions_tick(struct sessions *all);
void sessions_end(struct sessions *all);

#endif
