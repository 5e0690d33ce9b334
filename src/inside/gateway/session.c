#include "inside/gateway/session.h"

#include <errno.h>
#include <stdlib.h>

#include "inside/gateway/call.h"
#include "lib/base/alloc.h"
#include "lib/base/buf.h"
#include "lib/base/id.h"

struct stream {
    struct http_exchange *ex;
    struct session *session; /* NULL: it is no longer its session's */
};

/* ---- streams ---- */

static void on_end(void *ctx, int error)
{
    struct stream *stream = ctx;

    (void)error;
    if (stream->session) {
        stream->session->stream = NULL;
    }
    free(stream);
}

static const struct http_handler handler = {.needs_peer = true, .on_end = on_end};

static void stream_close(struct session *session)
{
    if (session->stream) {
        session->stream->session = NULL;
        http_finish(session->stream->ex);
        session->stream = NULL;
    }
}

void session_listen(struct session *session, struct http_exchange *ex)
{
    struct stream *stream = xnew(struct stream);

    stream_close(session);
    *stream = (struct stream){.ex = ex, .session = session};
    session->stream = stream;
    http_accept(ex, &handler, stream);
    http_respond(ex, 200, event_headers, EVENT_HEADERS, -1);
    http_write(ex, ": listening\n\n", strlen(": listening\n\n"));
}

static void stream_write(struct session *session, struct str bytes)
{
    if (!session->stream) {
        return;
    }
    if (http_writable(session->stream->ex) >= bytes.len) {
        http_write(session->stream->ex, bytes.at, bytes.len);
    } else { /* a client that does not read: it may come again */
        stream_close(session);
    }
}

void session_tell(struct session *session, const json_t *message)
{
    scoped_buf(bytes, HTTP_WINDOW_BYTES);

    if (session->stream && event_write(&bytes, message) == 0) {
        stream_write(session, buf_str(&bytes));
    }
}

void sessions_tell(struct sessions *all, const json_t *message)
{
    for (struct session *at = all->by_id; at; at = at->hh.next) {
        session_tell(at, message);
    }
}

void sessions_tick(struct sessions *all)
{
    for (struct session *at = all->by_id; at; at = at->hh.next) {
        stream_write(at, STR(": at it\n\n"));
    }
}

/* ---- sessions ---- */

void session_end(struct session *session)
{
    stream_close(session);
    HASH_DELETE(hh, session->all->by_id, session);
    json_decref(session->subscribed);
    free(session);
}

static struct session *quietest(struct sessions *all)
{
    struct session *found = all->by_id;

    for (struct session *at = all->by_id; at; at = at->hh.next) {
        found = at->used < found->used ? at : found;
    }
    return found;
}

struct session *session_new(struct sessions *all)
{
    struct session *session = xnew(struct session);

    if (HASH_COUNT(all->by_id) >= SESSIONS_MAX) {
        session_end(quietest(all));
    }
    session->all = all;
    session->subscribed = json_object();
    session->used = ++all->uses;
    id_hex(session->id, SESSION_ID_LEN / 2);
    HASH_ADD_STR(all->by_id, id, session);
    return session;
}

struct session *session_find(struct sessions *all, const char *id)
{
    struct session *session;

    HASH_FIND_STR(all->by_id, id, session);
    if (session) {
        session->used = ++all->uses;
    }
    return session;
}

void sessions_end(struct sessions *all)
{
    while (all->by_id) {
        session_end(all->by_id);
    }
}
