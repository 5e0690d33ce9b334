/* events_follow.c - GET /events/sandboxes?follow=true: events as lines of JSON, as they are
 * committed.
 *
 * Every page comes from the store, behind the event that was sent last; the next page is read once
 * the client has taken this one. So a client that reads slowly costs one page of memory and misses
 * nothing. One that reads nothing for STREAM_STALL_MS is let go. */
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/busy.h"
#include "lib/base/clock.h"
#include "lib/base/json.h"
#include "serve/api/event_types.h"
#include "serve/api/internal.h"
#include "serve/api/query.h"

enum {
    STREAMS_PER_TEAM_MAX = 16,
    STREAM_BEAT_MS = 15 * 1000,  /* an empty line that often: the client knows that we live */
    STREAM_STALL_MS = 60 * 1000, /* without a byte taken */
    STREAM_PACE_MS = 100,        /* between two reads: many events are one read */
};

struct event_stream {
    struct event_stream *prev, *next; /* in api->event_streams */
    struct call *call;                /* its exchange is ours */
    struct events_watch watch;
    uv_timer_t timer;
    char sandbox_id[DELIVERY_SANDBOX_BYTES]; /* "": of all */
    char after_id[ID_UUID_LEN + 1];          /* begin behind this event; "": with the next */
    char types[EVENT_TYPES_BYTES_MAX];       /* "": all */
    int64_t after;                           /* the place of the last event in the page */
    struct buf page;                         /* not sent yet */
    int64_t read_ms, taken_ms, beat_ms;      /* monotonic: of the last of each */
    bool reading;
    bool more; /* there may be events behind `after` */
    bool responded;
    bool finished;
    bool gone; /* on_end was called */
    bool closed;
};

/* ---- the end ---- */

static void stream_release(struct event_stream *stream)
{
    if (!stream->gone || stream->reading || !stream->closed) {
        return;
    }
    buf_fini(&stream->page);
    call_free(stream->call);
    free(stream);
}

static void on_closed(uv_handle_t *handle)
{
    struct event_stream *stream = container_of(handle, struct event_stream, timer);

    stream->closed = true;
    stream_release(stream);
}

static void on_end(void *ctx, int error)
{
    struct event_stream *stream = ctx;
    struct api *api = stream->call->api;

    (void)error;
    stream->gone = true;
    stream->call->ex = NULL;
    store_events_unwatch(api->options.store, &stream->watch);
    DL_DELETE(api->event_streams, stream);
    uv_close((uv_handle_t *)&stream->timer, on_closed);
}

static char *sentence(int status, const char *message)
{
    json_t *body = json_object();

    (void)json_object_set_new(body, "code", json_integer(status));
    (void)json_object_set_new(body, "message", json_sentence(message));
    char *text = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    if (!text) {
        abort();
    }
    return text;
}

/* The sentence is the answer, or the last line of it. */
static void stream_end(struct event_stream *stream, int status, const char *message)
{
    struct http_exchange *ex = stream->call->ex;
    char *text = sentence(status, message);

    stream->finished = true;
    if (!stream->responded) {
        figures_note(stream->call, status);
        http_reply(ex, status, "application/json; charset=utf-8", text, strlen(text));
    } else if (buf_len(&stream->page) == 0 && http_writable(ex) > strlen(text)) {
        http_write(ex, text, strlen(text));
        http_write(ex, "\n", 1);
        http_finish(ex);
    } else {
        http_abort(ex, -ETIMEDOUT); /* in the middle of a line that nobody reads */
    }
    free(text);
}

/* ---- steps ---- */

static void advance(struct event_stream *stream);

static void respond(struct event_stream *stream)
{
    static const struct http_header headers[] = {
        {{"content-type", 12}, {"application/x-ndjson", 20}},
        {{"cache-control", 13}, {"no-store", 8}},
    };

    stream->responded = true;
    figures_note(stream->call, 200);
    http_respond(stream->call->ex, 200, headers, countof(headers), -1);
}

static void on_page(void *ctx, int error, const struct err *err, struct str lines, int64_t last)
{
    struct event_stream *stream = ctx;

    stream->reading = false;
    if (stream->gone) {
        stream_release(stream);
        return;
    }
    if (stream->finished) {
        return;
    }
    if (error < 0 || buf_append(&stream->page, lines.at, lines.len) < 0) {
        stream_end(stream, status_of_errno(STATUS_API, error < 0 ? error : -EMSGSIZE), err->msg);
        return;
    }
    stream->more = stream->more || last > stream->after;
    stream->after = last;
    advance(stream);
}

static void read_on(struct event_stream *stream)
{
    struct event_query query = {
        .team_id = stream->call->team->id,
        .sandbox_id = stream->sandbox_id[0] ? stream->sandbox_id : NULL,
        .types = stream->types[0] ? stream->types : NULL,
    };

    stream->more = false;
    stream->reading = true;
    stream->read_ms = clock_mono_ms();
    store_events_after(stream->call->api->options.store, &query, stream->after, on_page, stream);
}

static void send_page(struct event_stream *stream)
{
    size_t n = http_write_some(stream->call->ex, buf_at(&stream->page), buf_len(&stream->page));

    if (n > 0) {
        buf_consume(&stream->page, n);
        stream->taken_ms = stream->beat_ms = clock_mono_ms();
    }
}

static void on_timer(uv_timer_t *timer);

/* Starts the next step if none is under way, and sets the timer for what is due later. */
static void advance(struct event_stream *stream)
{
    if (stream->finished || !stream->responded || stream->reading) {
        return;
    }
    send_page(stream);
    int64_t now = clock_mono_ms();
    int64_t due = stream->beat_ms + STREAM_BEAT_MS;
    if (buf_len(&stream->page) == 0 && stream->more) {
        if (now - stream->read_ms >= STREAM_PACE_MS) {
            read_on(stream);
            return;
        }
        due = stream->read_ms + STREAM_PACE_MS;
    }
    (void)uv_timer_start(&stream->timer, on_timer, due > now ? (uint64_t)(due - now) : 0, 0);
}

/* ---- what wakes it ---- */

/* A key that was deleted opens nothing any more. The admin's, for a team, has no id here. */
static bool is_admitted(const struct call *call)
{
    return !call->key_id[0] || accounts_find_id(call->api, call->team, call->key_id);
}

static void beat(struct event_stream *stream, int64_t now)
{
    stream->beat_ms = now;
    if (buf_len(&stream->page) == 0 && http_writable(stream->call->ex) > 0) {
        http_write(stream->call->ex, "\n", 1);
        stream->taken_ms = now;
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct event_stream *stream = container_of(timer, struct event_stream, timer);
    int64_t now = clock_mono_ms();

    busy("a stream of events");
    if (stream->finished) {
        return;
    }
    if (!is_admitted(stream->call)) {
        stream_end(stream, 401, "the API key of this stream was deleted");
        return;
    }
    if (now - stream->taken_ms >= STREAM_STALL_MS) {
        stream_end(stream, 408, "the client has read nothing for too long");
        return;
    }
    if (now - stream->beat_ms >= STREAM_BEAT_MS) {
        beat(stream, now);
    }
    advance(stream);
}

static void on_event(struct events_watch *watch)
{
    struct event_stream *stream = container_of(watch, struct event_stream, watch);

    stream->more = true;
    if (stream->finished) {
        return;
    }
    if (!is_admitted(stream->call) && stream->responded && !stream->reading) {
        stream_end(stream, 401, "the API key of this stream was deleted");
        return;
    }
    advance(stream);
}

static void on_credit(void *ctx)
{
    advance(ctx);
}

/* ---- the beginning ---- */

static void on_place(void *ctx, int error, const struct err *err, struct str lines, int64_t last)
{
    struct event_stream *stream = ctx;

    (void)lines;
    stream->reading = false;
    if (stream->gone) {
        stream_release(stream);
        return;
    }
    if (error == -ENOENT) {
        stream_end(stream, 404,
                   "the event that `after` names doesn't exist, is not your team's or is older "
                   "than seven days: begin without it");
        return;
    }
    if (error < 0) {
        stream_end(stream, status_of_errno(STATUS_API, error), err->msg);
        return;
    }
    stream->after = last;
    stream->more = true;
    stream->taken_ms = stream->beat_ms = clock_mono_ms();
    respond(stream);
    advance(stream);
}

static int query_parse(struct str query, struct event_stream *stream, struct err *err)
{
    scoped_buf(after, QUERY_VALUE_BYTES_MAX);
    scoped_buf(types, EVENT_TYPES_BYTES_MAX);
    int r = query_text(query, "after", &after, err);

    if (r > 0 && !str_copy(stream->after_id, sizeof(stream->after_id), buf_str(&after))) {
        return field_refuse(err, "after", "the id of an event");
    }
    r = r < 0 ? r : events_types_parse(query, &types, err);
    return r < 0 || str_copy(stream->types, sizeof(stream->types), str_of(buf_at(&types)))
               ? r
               : field_refuse(err, "types", event_types_known);
}

static size_t streams_of(const struct api *api, const struct team *team)
{
    const struct event_stream *stream;
    size_t n = 0;

    DL_FOREACH (api->event_streams, stream) {
        n += stream->call->team == team;
    }
    return n;
}

static void stream_start(struct event_stream *stream)
{
    static const struct http_handler handler = {
        .needs_peer = true, .on_credit = on_credit, .on_end = on_end};
    struct call *call = stream->call;
    struct api *api = call->api;

    if (uv_timer_init(api->options.loop, &stream->timer) < 0) {
        abort();
    }
    stream->watch = (struct events_watch){.on_event = on_event, .team_id = call->team->id};
    store_events_watch(api->options.store, &stream->watch);
    DL_APPEND(api->event_streams, stream);
    buf_init(&stream->page, EVENTS_FOLLOW_BYTES_MAX);
    http_accept(call->ex, &handler, stream);
    stream->reading = true;
    store_events_place(api->options.store, call->team->id,
                       stream->after_id[0] ? stream->after_id : NULL, on_place, stream);
}

bool stream_events(struct call *call)
{
    struct str query = http_request(call->ex)->query;
    struct err err;
    bool follows = false;
    int asked = query_bool(query, "follow", &follows, &err);

    if (asked >= 0 && !follows) {
        return false;
    }
    struct event_stream *stream = xnew(struct event_stream);
    stream->call = call;
    int r = asked < 0 ? asked : query_parse(query, stream, &err);
    struct str id = {call->param, strcspn(call->param, "-")}; /* the older "<id>-<client id>" */
    if (r == 0 && !str_copy(stream->sandbox_id, sizeof(stream->sandbox_id), id)) {
        r = err_set(&err, EINVAL, "validation error: this is no id of a sandbox");
    }
    if (r < 0) {
        call_refuse(call, 400, err.msg);
    } else if (streams_of(call->api, call->team) >= STREAMS_PER_TEAM_MAX) {
        call_refuse(call, 429, "your team follows events with 16 streams already, the most it can");
    } else {
        stream_start(stream);
        return true;
    }
    free(stream);
    return false; /* the refusal is answered as usual */
}
