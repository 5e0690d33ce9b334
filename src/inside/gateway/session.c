#include "inside/gateway/session.h"

#include <stdlib.h>
#include <string.h>

#include "inside/gateway/post.h"
#include "lib/base/alloc.h"
#include "lib/base/buf.h"

struct stream {
    struct http_exchange *ex;
    struct gateway_session *session; /* NULL: the session has let go of it */
};

struct gateway_session *gateway_session_of(struct session_entry *entry)
{
    return entry ? container_of(entry, struct gateway_session, entry) : NULL;
}

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

static void stream_close(struct gateway_session *session)
{
    if (session->stream) {
        session->stream->session = NULL;
        http_finish(session->stream->ex);
        session->stream = NULL;
    }
}

void gateway_session_listen(struct gateway_session *session, struct http_exchange *ex)
{
    struct stream *stream = xnew(struct stream);

    stream_close(session);
    *stream = (struct stream){.ex = ex, .session = session};
    session->stream = stream;
    http_accept(ex, &handler, stream);
    mcp_stream_begin(ex, NULL);
    mcp_stream_keep_alive(ex); /* a first byte: proxies pass the head on with it */
}

void gateway_session_notify(struct gateway_session *session, const json_t *message)
{
    scoped_buf(bytes, HTTP_WINDOW_BYTES);

    if (!session->stream || event_write(&bytes, message) < 0) {
        return;
    }
    if (http_writable(session->stream->ex) >= buf_len(&bytes)) {
        http_write(session->stream->ex, buf_at(&bytes), buf_len(&bytes));
    } else { /* the client does not read; it may open another stream */
        stream_close(session);
    }
}

void gateway_sessions_notify(struct session_table *all, const json_t *message)
{
    struct session_entry *entry, *next;

    session_each (all, entry, next) {
        gateway_session_notify(gateway_session_of(entry), message);
    }
}

void gateway_sessions_tick(struct session_table *all)
{
    struct session_entry *entry, *next;

    session_each (all, entry, next) {
        if (gateway_session_of(entry)->stream) {
            mcp_stream_keep_alive(gateway_session_of(entry)->stream->ex);
        }
    }
}

/* ---- sessions ---- */

void gateway_session_end(struct gateway_session *session)
{
    stream_close(session);
    session_remove(session->all, &session->entry);
    json_decref(session->subscribed);
    free(session);
}

static void entry_end(struct session_entry *entry)
{
    gateway_session_end(gateway_session_of(entry));
}

const struct session_rules gateway_session_rules = {.per_owner_max = SESSIONS_MAX,
                                                    .end = entry_end};

struct gateway_session *gateway_session_new(struct session_table *all, enum mcp_version version)
{
    struct gateway_session *session = xnew(struct gateway_session);
    struct err err;

    session->all = all;
    session->subscribed = json_object();
    if (session_add(all, &session->entry, "", version, &err) < 0) {
        abort(); /* no session is ever in use: the quietest makes room */
    }
    return session;
}

struct gateway_session *gateway_session_find(struct session_table *all, struct str id,
                                             struct mcp_refusal *why)
{
    return gateway_session_of(session_find(all, id, "", why));
}

void gateway_sessions_end(struct session_table *all)
{
    while (all->by_id) {
        entry_end(all->by_id);
    }
}
