#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/mcp/sse.h"
#include "tools/mcp_internal.h"

struct mcp_link {
    struct http_exchange *ex;
    struct mcp_post *post; /* NULL: the post has another by now */
    bool answered;
};

/* ---- life ---- */

/* A client of a session may come again for what it missed. */
static bool is_resumable(const struct mcp_post *post)
{
    return post->streams && post->session && !post->listens && !version_is_stateless(post->version);
}

static void events_free(struct mcp_post *post)
{
    struct mcp_event *event, *next;

    LL_FOREACH_SAFE (post->events, event, next) {
        buf_fini(&event->text);
        free(event);
    }
    post->events = post->next_event = NULL;
}

static void post_free(struct mcp_post *post)
{
    assert(!post->link && !post->calls);
    DL_DELETE(post->mcp->posts, post);
    events_free(post);
    json_decref(post->answers);
    buf_fini(&post->body);
    free(post);
}

static void calls_drop(struct mcp_post *post)
{
    struct mcp_call *call, *next;

    DL_FOREACH_SAFE (post->calls, call, next) {
        mcp_call_drop(call);
    }
}

struct tools_who post_who(const struct mcp_post *post)
{
    return (struct tools_who){.team = post->team, .key = str_of(post->key)};
}

const struct http_request *post_request(const struct mcp_post *post)
{
    return http_request(post->link->ex);
}

/* ---- sending ---- */

static size_t answer_headers(const struct mcp_post *post, struct http_header *out)
{
    size_t n = 0;

    if (post->session) {
        out[n++] = (struct http_header){STR("mcp-session-id"), str_of(post->session->entry.id)};
    }
    return n;
}

void post_reply(struct mcp_post *post, int status, json_t *message)
{
    struct http_header headers[1];
    char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;

    post->over = true;
    if (post->link && !post->link->answered) {
        post->link->answered = true;
        http_reply_with(post->link->ex, status, headers, answer_headers(post, headers),
                        text ? "application/json" : NULL, text, text ? strlen(text) : 0);
    }
    free(text);
    json_decref(message);
}

void post_refuse(struct mcp_post *post, int status, int code, const char *message)
{
    post_reply(post, status, jsonrpc_error(NULL, code, message, NULL));
}

/* As much as the client takes; on_credit goes on. */
static void post_pump(struct mcp_post *post)
{
    struct http_exchange *ex = post->link ? post->link->ex : NULL;

    while (ex && post->next_event) {
        struct str rest = str_skip(buf_str(&post->next_event->text), post->next_at);
        size_t room = http_writable(ex), n = rest.len < room ? rest.len : room;
        if (n == 0) {
            return;
        }
        http_write(ex, rest.at, n);
        post->moved_mono_ms = clock_mono_ms();
        post->next_at += n;
        if (n == rest.len) {
            post->next_event = post->next_event->next;
            post->next_at = 0;
        }
    }
    if (ex && post->over && !post->link->answered) {
        post->link->answered = true;
        http_finish(ex);
    }
}

/* Old progress makes room for new: false when all that is kept has still to be sent. */
static bool events_make_room(struct mcp_post *post)
{
    struct mcp_event *oldest = post->events;

    if (post->kept_n < MCP_EVENTS_KEPT_MAX) {
        return true;
    }
    if (oldest == post->next_event || oldest->answer) {
        return false;
    }
    LL_DELETE(post->events, oldest);
    buf_fini(&oldest->text);
    free(oldest);
    post->kept_n--;
    return true;
}

/* False: it is too long. */
static bool event_add(struct mcp_post *post, struct str data, bool answer)
{
    char id[64] = "";
    struct mcp_event *event;

    if (!answer && !events_make_room(post)) {
        return true;
    }
    event = xnew(struct mcp_event);
    event->number = ++post->events_n;
    event->answer = answer;
    buf_init(&event->text, MCP_ANSWER_BYTES_MAX);
    if (is_resumable(post)) {
        (void)snprintf(id, sizeof(id), "%" PRIu64 "-%u", post->number, event->number);
    }
    if (sse_write(&event->text, str_of(id), data) < 0) {
        buf_fini(&event->text);
        free(event);
        return false;
    }
    LL_APPEND(post->events, event);
    post->kept_n++;
    if (!post->next_event) {
        post->next_event = event;
        post->next_at = 0;
    }
    return true;
}

static bool message_fits(struct mcp_post *post, const json_t *message, bool answer)
{
    char *text = json_dumps(message, JSON_COMPACT);
    bool fits = text && event_add(post, str_of(text), answer);

    free(text);
    return fits;
}

/* A client that waits for an answer is told when that cannot come. */
static void message_add(struct mcp_post *post, json_t *message, bool answer)
{
    if (!message_fits(post, message, answer) && answer) {
        json_t *error = jsonrpc_error(json_object_get(message, "id"), JSONRPC_INTERNAL_ERROR,
                                      "the answer is too long: ask for less", NULL);
        (void)message_fits(post, error, answer);
        json_decref(error);
    }
    json_decref(message);
}

static void stream_head(struct mcp_post *post)
{
    if (post->link) {
        mcp_stream_begin(post->link->ex, post->session ? post->session->entry.id : NULL);
    }
}

void post_stream(struct mcp_post *post)
{
    if (post->streams || post->over) { /* over: its head was refused already */
        return;
    }
    post->streams = true;
    post->moved_mono_ms = clock_mono_ms();
    stream_head(post);
    if (is_resumable(post) && version_primes_streams(post->version)) {
        (void)event_add(post, STR(""), false);
    }
    while (json_array_size(post->answers) > 0) {
        message_add(post, json_incref(json_array_get(post->answers, 0)), true);
        (void)json_array_remove(post->answers, 0);
    }
    post_pump(post);
}

/* ---- answers that are due ---- */

static int status_of(const struct mcp_post *post, const json_t *answer)
{
    const json_t *error = json_object_get(answer, "error");
    json_int_t code = json_integer_value(json_object_get(error, "code"));

    if (!error || !version_is_stateless(post->version)) {
        return 200;
    }
    return code == JSONRPC_METHOD_NOT_FOUND ? 404 : code == JSONRPC_INTERNAL_ERROR ? 500 : 400;
}

static void post_settle(struct mcp_post *post)
{
    if (post->owed > 0 || post->listens) {
        return;
    }
    post->over = true;
    if (post->streams) {
        post_pump(post);
    } else if (json_array_size(post->answers) == 0) {
        post_reply(post, 202, NULL); /* there were notifications alone, or all were cancelled */
    } else if (post->batch) {
        post_reply(post, 200, json_incref(post->answers));
    } else {
        json_t *answer = json_array_get(post->answers, 0);
        post_reply(post, status_of(post, answer), json_incref(answer));
    }
}

void post_answer(struct mcp_post *post, json_t *answer)
{
    assert(post->owed > 0);
    post->owed--;
    if (!post->streams && !post->takes_json) {
        post_stream(post);
    }
    if (post->streams) {
        message_add(post, answer, true);
        post_pump(post);
    } else {
        (void)json_array_append_new(post->answers, answer);
    }
    post_settle(post);
}

void post_notify(struct mcp_post *post, json_t *notification)
{
    if (!post->streams && post->takes_events) {
        post_stream(post);
    }
    if (!post->streams) {
        json_decref(notification);
        return;
    }
    message_add(post, notification, false);
    post_pump(post);
}

void post_forgive(struct mcp_post *post)
{
    assert(post->owed > 0);
    post->owed--;
    post_settle(post);
}

void post_drop(struct mcp_post *post)
{
    calls_drop(post);
    post->owed = 0;
    post->listens = false;
    if (!post->link) {
        post_free(post);
        return;
    }
    post->over = true;
    if (post->streams) {
        post_pump(post);
    } else {
        post_refuse(post, 404, JSONRPC_INVALID_REQUEST, "the session has ended");
    }
    post->session = NULL;
}

/* ---- the exchange ---- */

static void refuse_length(struct mcp_post *post)
{
    char message[96];

    (void)snprintf(message, sizeof(message), "a message may be at most %d bytes long",
                   MCP_MESSAGE_BYTES_MAX);
    post_refuse(post, 413, JSONRPC_INVALID_REQUEST, message);
}

static void on_body(void *ctx, const void *data, size_t len)
{
    struct mcp_link *link = ctx;

    if (!link->post || link->answered) {
        return;
    }
    if (buf_append(&link->post->body, data, len) < 0) {
        refuse_length(link->post);
        return;
    }
    http_credit(link->ex, len);
}

static void on_body_end(void *ctx)
{
    struct mcp_link *link = ctx;
    struct mcp_post *post = link->post;

    if (!post || link->answered || post->streams) {
        return;
    }
    struct buf body = post->body;
    buf_init(&post->body, 1);
    post_take(post, buf_str(&body));
    buf_fini(&body);
}

static void on_credit(void *ctx)
{
    struct mcp_link *link = ctx;

    if (link->post && link->post->streams) {
        post_pump(link->post);
    }
}

/* The client has left, or has had all. */
static void post_left(struct mcp_post *post, int error)
{
    post->moved_mono_ms = clock_mono_ms();
    if (is_resumable(post) && !(post->over && error == 0)) {
        return; /* the call goes on: leaving is not cancelling, in these revisions */
    }
    calls_drop(post);
    post_free(post);
}

static void on_end(void *ctx, int error)
{
    struct mcp_link *link = ctx;
    struct mcp_post *post = link->post;

    free(link);
    if (post) {
        post->link = NULL;
        post_left(post, error);
    }
}

static void link_new(struct mcp_post *post, struct http_exchange *ex)
{
    static const struct http_handler handler = {
        .needs_peer = true,
        .on_body = on_body,
        .on_body_end = on_body_end,
        .on_credit = on_credit,
        .on_end = on_end,
    };
    struct mcp_link *link = xnew(struct mcp_link);

    *link = (struct mcp_link){.ex = ex, .post = post};
    post->link = link;
    http_accept(ex, &handler, link);
}

struct mcp_post *post_new(struct mcp *mcp, struct http_exchange *ex, const struct tools_who *who)
{
    struct mcp_post *post = xnew(struct mcp_post);

    post->mcp = mcp;
    post->number = ++mcp->posts_made;
    post->begun_mono_ms = clock_mono_ms();
    post->answers = json_array();
    (void)str_copy(post->team, sizeof(post->team), str_of(who->team));
    (void)str_copy(post->key, sizeof(post->key), who->key);
    buf_init(&post->body, MCP_MESSAGE_BYTES_MAX);
    DL_APPEND(mcp->posts, post);
    mcp_wake(mcp);
    link_new(post, ex);
    if (http_request(ex)->content_length > MCP_MESSAGE_BYTES_MAX) {
        refuse_length(post);
    } else if (http_request(ex)->content_length != 0) {
        http_credit(ex, HTTP_WINDOW_BYTES);
    }
    return post;
}

/* ---- taking it up again ---- */

struct mcp_post *post_find(struct mcp_session *session, uint64_t number)
{
    struct mcp_post *post;

    DL_FOREACH (session->mcp->posts, post) {
        if (post->session == session && post->number == number && is_resumable(post)) {
            return post;
        }
    }
    return NULL;
}

void post_resume(struct mcp_post *post, struct http_exchange *ex, unsigned event)
{
    if (post->link) { /* its end has not been noticed yet */
        post->link->post = NULL;
        http_abort(post->link->ex, -ECONNRESET);
    }
    post->next_event = post->events;
    post->next_at = 0;
    while (post->next_event && post->next_event->number <= event) {
        post->next_event = post->next_event->next;
    }
    link_new(post, ex);
    stream_head(post);
    post_pump(post);
}

/* ---- time ---- */

static void post_tick(struct mcp_post *post, int64_t now_ms)
{
    bool quiet = now_ms - post->begun_mono_ms >= MCP_QUIET_MS;

    if (!post->link) {
        if (now_ms - post->moved_mono_ms >= MCP_ANSWER_KEEP_MS) {
            calls_drop(post);
            post_free(post);
        }
    } else if (!post->streams && post->owed > 0 && post->takes_events && quiet) {
        post_stream(post);
    } else if (post->streams && !post->over && !post->next_event &&
               now_ms - post->moved_mono_ms >= MCP_KEEP_ALIVE_MS) {
        mcp_stream_keep_alive(post->link->ex);
        post->moved_mono_ms = now_ms;
    }
}

static size_t post_bytes(const struct mcp_post *post)
{
    const struct mcp_event *event;
    size_t bytes = 0;

    LL_FOREACH (post->events, event) {
        bytes += buf_len(&event->text);
    }
    return bytes;
}

bool posts_listening_full(const struct mcp *mcp, const struct mcp_session *session,
                          const char *team)
{
    const struct mcp_post *post;
    size_t n = 0;

    DL_FOREACH (mcp->posts, post) {
        n += post->listens && post->session == session && strcmp(post->team, team) == 0;
    }
    return n >= (size_t)(session ? MCP_STREAMS_PER_SESSION_MAX : MCP_STREAMS_PER_TEAM_MAX);
}

/* The largest post of the team that has no listener, if there are more than may be kept; or
 * NULL. */
static struct mcp_post *kept_too_many(const struct mcp *mcp, const char *team)
{
    struct mcp_post *post, *largest = NULL;
    size_t n = 0, bytes = 0, most = 0;

    DL_FOREACH (mcp->posts, post) {
        size_t own = post->link || strcmp(post->team, team) != 0 ? 0 : 1 + post_bytes(post);

        n += own > 0;
        bytes += own;
        largest = own > most ? post : largest;
        most = own > most ? own : most;
    }
    return n > MCP_KEPT_POSTS_MAX || bytes > MCP_KEPT_BYTES_MAX ? largest : NULL;
}

/* A client that leaves before each answer must not fill the memory with answers that wait for
 * it. */
static void kept_trim(struct mcp *mcp, const char *team)
{
    struct mcp_post *post;

    while ((post = kept_too_many(mcp, team))) {
        calls_drop(post);
        post_free(post);
    }
}

void posts_tick(struct mcp *mcp, int64_t now_ms)
{
    struct session_entry *session, *next_session;
    struct mcp_post *post, *next;

    DL_FOREACH_SAFE (mcp->posts, post, next) {
        post_tick(post, now_ms);
    }
    session_each (&mcp->sessions, session, next_session) {
        kept_trim(mcp, session->owner); /* a post that is kept belongs to a session */
    }
}
