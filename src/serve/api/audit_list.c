/* audit_list.c - GET /audit and /admin/audit: a page of rows, or all of them as lines of JSON.
 *
 * A stream reads a page, sends it as fast as the client takes it, and reads the next one: a client
 * that does not read costs a single page. A stream that follows looks for more every second, and
 * only when there has been a call. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/json.h"
#include "lib/base/log.h"
#include "serve/api/internal.h"
#include "serve/api/query.h"

enum {
    AUDIT_LIMIT_DEFAULT = 100,
    AUDIT_LIMIT_MAX = 1000,
    AUDIT_STREAM_ROWS = 500,     /* of one read */
    AUDIT_LOOK_MS = 1000,        /* between two looks for more */
    AUDIT_KEEP_ALIVE_LOOKS = 15, /* an empty line after so many without a row */
    AUDIT_STALL_MS = 60 * 1000,  /* without a byte taken */
    AUDIT_STREAMS_PER_TEAM_MAX = 8,
    AUDIT_PAGE_BYTES_MAX = 4 * 1024 * 1024,
};

static const char lines_type[] = "application/x-ndjson";

/* ---- the question ---- */

struct question {
    char team[AUDIT_OBJECT_BYTES], actor[AUDIT_OBJECT_BYTES], action[AUDIT_OBJECT_BYTES];
    char object[AUDIT_OBJECT_BYTES];
    int64_t from_ms, to_ms, cursor, limit;
    bool follow;
};

static int parse_text(struct str query, const char *name, char out[AUDIT_OBJECT_BYTES],
                      struct err *err)
{
    scoped_buf(value, QUERY_VALUE_BYTES_MAX);
    int r = query_text(query, name, &value, err);

    if (r > 0 && (buf_len(&value) == 0 || !str_copy(out, AUDIT_OBJECT_BYTES, buf_str(&value)))) {
        return field_refuse(err, name, "an id or a name of at most 127 bytes");
    }
    return r < 0 ? r : 0;
}

/* '*' stands for any characters; '[' and '?' would be other patterns of the store. */
static int parse_action(struct str query, char out[AUDIT_OBJECT_BYTES], struct err *err)
{
    int r = parse_text(query, "action", out, err);

    if (r == 0 && strspn(out, "abcdefghijklmnopqrstuvwxyz0123456789_.-*") != strlen(out)) {
        return field_refuse(err, "action", "the name of an action such as sandbox.kill or key.*");
    }
    return r;
}

static int parse_numbers(struct str query, struct question *out, struct err *err)
{
    const struct int_range any = {0, INT64_MAX};
    int r = query_int(query, "from", any, &out->from_ms, err);

    if (r >= 0) {
        r = query_int(query, "to", any, &out->to_ms, err);
    }
    if (r >= 0) {
        r = query_int(query, "cursor", any, &out->cursor, err);
    }
    if (r >= 0) {
        r = query_int(query, "limit", (struct int_range){1, AUDIT_LIMIT_MAX}, &out->limit, err);
    }
    return r < 0 ? r : 0;
}

static int parse(const struct call *call, struct question *out, struct err *err)
{
    struct str query = http_request(call->ex)->query;

    *out = (struct question){.to_ms = INT64_MAX, .cursor = -1, .limit = AUDIT_LIMIT_DEFAULT};
    int r = parse_numbers(query, out, err);
    if (r == 0) {
        r = parse_text(query, "actor", out->actor, err);
    }
    if (r == 0) {
        r = parse_text(query, "object", out->object, err);
    }
    if (r == 0 && call->route->access == ACCESS_ADMIN) {
        r = parse_text(query, "team", out->team, err);
    }
    if (r == 0) {
        r = parse_action(query, out->action, err);
    }
    if (r == 0) {
        r = query_bool(query, "follow", &out->follow, err);
    }
    return r < 0 ? r : 0;
}

static const char *or_null(const char *text)
{
    return text[0] ? text : NULL;
}

/* A team sees its own rows, whatever it asks for. */
static struct audit_query query_of(const struct call *call, const struct question *question)
{
    bool for_operator = call->route->access == ACCESS_ADMIN;

    return (struct audit_query){
        .team_id = for_operator ? or_null(question->team) : call->team->id,
        .actor = or_null(question->actor),
        .action = or_null(question->action),
        .object = or_null(question->object),
        .from_ms = question->from_ms,
        .to_ms = question->to_ms,
        .for_operator = for_operator,
    };
}

/* ---- a page ---- */

struct page {
    struct call *call;
    int64_t limit;
};

static int64_t seq_of(const json_t *row)
{
    return json_integer_value(json_object_get(row, "seq"));
}

static void on_page(void *ctx, int error, const struct err *err, const char *text)
{
    struct page *page = ctx;
    struct call *call = page->call;
    char next[API_HEADER_BYTES];

    if (error < 0) {
        call_fail_err(call, error, err);
    } else {
        scoped_json *rows = json_loads(text, 0, NULL);
        size_t n = json_array_size(rows);

        if (n > 0 && (int64_t)n == page->limit) {
            (void)snprintf(next, sizeof(next), "%" PRId64, seq_of(json_array_get(rows, n - 1)));
            call_header(call, "X-Next-Token", next);
        }
        call_text(call, 200, "application/json; charset=utf-8", str_of(text));
    }
    free(page);
}

void handle_audit(struct call *call, const json_t *body)
{
    struct question question;
    struct err err;
    int r = parse(call, &question, &err);

    (void)body;
    if (r == 0 && question.follow) {
        r = err_set(&err, EINVAL, "validation error: follow needs Accept: %s", lines_type);
    }
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    struct page *page = xnew(struct page);
    struct audit_query query = query_of(call, &question);

    *page = (struct page){call, question.limit};
    query.cursor = question.cursor >= 0 ? question.cursor : INT64_MAX;
    query.limit = question.limit;
    store_audit_list(call->api->options.store, &query, on_page, page);
}

/* ---- a stream ---- */

struct audit_stream {
    struct audit_stream *prev, *next; /* in api->audit_streams */
    struct call *call;                /* its exchange is ours */
    struct question question;
    struct buf page; /* not sent yet */
    uv_timer_t timer;
    uint64_t seen; /* changes when the last read began */
    uint32_t idle; /* looks that found nothing */
    size_t room;   /* for more bytes, at the last look */
    int64_t taken_ms;
    bool again;
    bool reading, full; /* full: the last read brought as many rows as it may */
    bool responded, finished, gone;
};

static void on_timer_closed(uv_handle_t *handle)
{
    struct audit_stream *stream = handle->data;

    buf_fini(&stream->page);
    call_free(stream->call);
    free(stream);
}

static void stream_free(struct audit_stream *stream)
{
    uv_close((uv_handle_t *)&stream->timer, on_timer_closed);
}

static void read_next(struct audit_stream *stream);

static void finish(struct audit_stream *stream)
{
    stream->finished = true;
    http_finish(stream->call->ex);
}

/* A key that was deleted, or has got limits, reads no more. The admin's has no id here. */
static bool is_admitted(struct call *call)
{
    struct err ignored;

    if (call->key_id[0]) {
        const struct key *key = accounts_find_id(call->api, call->team, call->key_id);

        return key && !limits_any(&key->limits);
    }
    bool admitted = call_authenticate(call, &ignored) == 0;
    call->admin = NULL; /* its key may be deleted while the call goes on */
    return admitted;
}

/* Nothing waits for the client, or it has taken some of it since the last look. */
static bool is_taking(struct audit_stream *stream)
{
    size_t room = http_writable(stream->call->ex);

    if (room == HTTP_WINDOW_BYTES || room != stream->room) {
        stream->taken_ms = clock_mono_ms();
    }
    stream->room = room;
    return clock_mono_ms() - stream->taken_ms < AUDIT_STALL_MS;
}

static void on_look(uv_timer_t *timer)
{
    struct audit_stream *stream = timer->data;

    if (stream->gone) {
        return;
    }
    if (!is_admitted(stream->call) || !is_taking(stream)) {
        stream->finished = true;
        http_abort(stream->call->ex, -ECONNABORTED);
        return;
    }
    if (stream->finished || stream->reading || buf_len(&stream->page) > 0) {
        return;
    }
    /* Once more after a change: it may not have been committed when it was looked for. */
    if (stream->call->api->audit.changes != stream->seen || stream->again) {
        stream->again = stream->call->api->audit.changes != stream->seen;
        read_next(stream);
    } else if (++stream->idle % AUDIT_KEEP_ALIVE_LOOKS == 0 &&
               http_writable(stream->call->ex) > 0) {
        http_write(stream->call->ex, "\n", 1);
    }
}

/* Starts the next step, if none is under way. */
static void advance(struct audit_stream *stream)
{
    if (stream->finished || stream->reading) {
        return;
    }
    buf_consume(&stream->page,
                http_write_some(stream->call->ex, buf_at(&stream->page), buf_len(&stream->page)));
    if (buf_len(&stream->page) > 0) {
        return; /* on_credit goes on */
    }
    if (stream->full) {
        read_next(stream);
    } else if (!stream->question.follow) {
        finish(stream);
    }
}

static int page_fill(struct audit_stream *stream, const char *text)
{
    scoped_json *rows = json_loads(text, 0, NULL);
    size_t i;
    json_t *row;
    int r = 0;

    json_array_foreach (rows, i, row) {
        char *line = json_dumps(row, JSON_COMPACT);

        stream->question.cursor = seq_of(row);
        r = r < 0 || !line ? -EMSGSIZE : buf_printf(&stream->page, "%s\n", line);
        free(line);
    }
    stream->full = json_array_size(rows) == AUDIT_STREAM_ROWS;
    return r;
}

static void respond(struct audit_stream *stream)
{
    const struct http_header headers[] = {{STR("content-type"), str_of(lines_type)},
                                          {STR("cache-control"), STR("no-store")}};

    if (!stream->responded) {
        stream->responded = true;
        figures_note(stream->call, 200);
        http_respond(stream->call->ex, 200, headers, countof(headers), -1);
    }
}

static void on_rows(void *ctx, int error, const struct err *err, const char *text)
{
    struct audit_stream *stream = ctx;

    stream->reading = false;
    if (stream->gone) {
        stream_free(stream);
        return;
    }
    respond(stream);
    if (error < 0 || page_fill(stream, text) < 0) {
        log_warn("audit log: %s", error < 0 ? err->msg : "a row is too long");
        stream->finished = true;
        http_abort(stream->call->ex, error < 0 ? error : -EMSGSIZE);
        return;
    }
    advance(stream);
}

static void read_next(struct audit_stream *stream)
{
    struct audit_query query = query_of(stream->call, &stream->question);

    query.cursor = stream->question.cursor;
    query.limit = AUDIT_STREAM_ROWS;
    query.oldest_first = true;
    stream->reading = true;
    stream->idle = 0;
    stream->seen = stream->call->api->audit.changes;
    store_audit_list(stream->call->api->options.store, &query, on_rows, stream);
}

static void on_credit(void *ctx)
{
    struct audit_stream *stream = ctx;

    if (stream->responded && !stream->gone) {
        advance(stream);
    }
}

static void on_end(void *ctx, int error)
{
    struct audit_stream *stream = ctx;

    (void)error;
    stream->gone = true;
    DL_DELETE(stream->call->api->audit_streams, stream);
    stream->call->ex = NULL;
    (void)uv_timer_stop(&stream->timer);
    if (!stream->reading) {
        stream_free(stream);
    }
}

static size_t streams_of(const struct api *api, const struct team *team)
{
    const struct audit_stream *stream;
    size_t n = 0;

    DL_FOREACH (api->audit_streams, stream) {
        n += stream->call->team == team;
    }
    return n;
}

static void stream_start(struct call *call, const struct question *question)
{
    static const struct http_handler handler = {
        .needs_peer = true, .on_credit = on_credit, .on_end = on_end};
    struct audit_stream *stream = xnew(struct audit_stream);

    stream->call = call;
    stream->question = *question;
    stream->timer.data = stream;
    stream->taken_ms = clock_mono_ms();
    buf_init(&stream->page, AUDIT_PAGE_BYTES_MAX);
    (void)uv_timer_init(call->api->options.loop, &stream->timer);
    (void)uv_timer_start(&stream->timer, on_look, AUDIT_LOOK_MS, AUDIT_LOOK_MS);
    DL_APPEND(call->api->audit_streams, stream);
    http_accept(call->ex, &handler, stream);
    read_next(stream);
}

bool stream_audit(struct call *call)
{
    struct str accept = http_header_get(http_request(call->ex), "accept");
    struct question question;
    struct err err;

    if (!str_eq(str_trim(accept), str_of(lines_type)) || parse(call, &question, &err) < 0) {
        return false; /* the plain route answers, and says what is wrong */
    }
    if (streams_of(call->api, call->team) >= AUDIT_STREAMS_PER_TEAM_MAX) {
        call_refuse(call, 429, "the audit log is read with 8 streams already, the most at a time");
        return false; /* the refusal is answered as usual */
    }
    stream_start(call, &question);
    return true;
}
