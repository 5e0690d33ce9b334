/* logs_follow.c - the log of a sandbox as it grows: lines of JSON until the sandbox ends.
 *
 * A page is read and sent as fast as the client takes it; then comes the next. So a client that
 * does not read costs a single page of memory. */
#include <errno.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/json.h"
#include "serve/api/internal.h"
#include "serve/api/logs_query.h"

struct follow {
    struct call *call; /* its exchange is ours */
    struct logs_watch watch;
    struct logfile_query query;
    struct buf page; /* not sent yet */
    bool reading;
    bool last; /* the read under way began when the sandbox had ended */
    bool more; /* came while a read was under way */
    bool responded;
    bool finished;
    bool gone; /* on_end was called */
};

static void follow_free(struct follow *follow)
{
    logs_watch_unset(&follow->watch);
    buf_fini(&follow->page);
    call_free(follow->call);
    free(follow);
}

static void read_next(struct follow *follow);

static void send_page(struct follow *follow)
{
    size_t n = http_write_some(follow->call->ex, buf_at(&follow->page), buf_len(&follow->page));

    buf_consume(&follow->page, n);
}

static void respond(struct follow *follow)
{
    static const struct http_header type = {{"content-type", 12}, {"application/x-ndjson", 20}};

    if (follow->responded) {
        return;
    }
    follow->responded = true;
    figures_note(follow->call, 200);
    http_respond(follow->call->ex, 200, &type, 1, -1);
}

/* Starts the next step, if none is under way. */
static void advance(struct follow *follow)
{
    if (follow->finished || follow->reading) {
        return;
    }
    send_page(follow);
    if (buf_len(&follow->page) > 0) {
        return; /* on_credit goes on */
    }
    if (follow->more) {
        read_next(follow);
    } else if (follow->last) {
        follow->finished = true;
        http_finish(follow->call->ex);
    }
}

static void fail(struct follow *follow, int error, const struct err *err)
{
    json_t *body = json_object();
    int status = status_of_errno(STATUS_API, error);

    (void)json_object_set_new(body, "code", json_integer(status));
    (void)json_object_set_new(body, "message", json_sentence(err->msg));
    char *text = json_dumps(body, JSON_COMPACT);
    follow->finished = true;
    if (follow->responded) {
        http_abort(follow->call->ex, error);
    } else {
        figures_note(follow->call, status);
        http_reply(follow->call->ex, status, "application/json; charset=utf-8", text,
                   text ? strlen(text) : 0);
    }
    free(text);
    json_decref(body);
}

static void on_read(void *ctx, int error, const struct err *err, struct str text,
                    struct logfile_position end)
{
    struct follow *follow = ctx;
    bool nothing_yet = error == -ENOENT && follow->watch.stream;
    struct err why = *err;

    follow->reading = false;
    if (follow->gone) {
        follow_free(follow);
        return;
    }
    if ((error < 0 && !nothing_yet) || buf_append(&follow->page, text.at, text.len) < 0) {
        if (error == -ENOENT) {
            (void)err_set(&why, ENOENT,
                          "Sandbox \"%.64s\" doesn't exist or you don't have access to it",
                          follow->call->param);
        }
        fail(follow, error < 0 ? error : -EMSGSIZE, &why);
        return;
    }
    respond(follow);
    if (error == 0) {
        follow->query.after = end;
        follow->more = follow->more || text.len > 0; /* there may be another page */
    }
    follow->more = follow->more || (follow->watch.ended && !follow->last);
    advance(follow);
}

static void read_next(struct follow *follow)
{
    struct str id;

    follow->more = false;
    follow->last = follow->watch.ended;
    follow->reading = true;
    (void)sandbox_id_cut(follow->call->param, &id);
    logs_read(follow->call->api->options.logs, id, follow->call->team->id, &follow->query,
              logs_render_lines, on_read, follow);
}

static void on_more(struct logs_watch *watch)
{
    struct follow *follow = container_of(watch, struct follow, watch);

    follow->more = true;
    if (!follow->gone) {
        advance(follow);
    }
}

static void on_credit(void *ctx)
{
    struct follow *follow = ctx;

    if (follow->responded) {
        advance(follow);
    }
}

static void on_end(void *ctx, int error)
{
    struct follow *follow = ctx;

    (void)error;
    follow->gone = true;
    follow->call->ex = NULL;
    if (!follow->reading) {
        follow_free(follow);
    }
}

bool stream_logs(struct call *call)
{
    static const struct http_handler handler = {
        .needs_peer = true, .on_credit = on_credit, .on_end = on_end};
    struct logfile_query query;
    struct err err;
    struct str id;
    bool follows = false;
    int r = logs_query_v2(http_request(call->ex)->query, clock_wall_ms(), &query, &follows, &err);

    if (r < 0 || !follows || !sandbox_id_cut(call->param, &id)) {
        return false; /* the plain route says what is wrong */
    }
    struct sandbox *sb = sandboxes_find(call->api->options.sandboxes, id);
    if (sb && strcmp(sandbox_info(sb).team_id, call->team->id) != 0) {
        sb = NULL;
    }
    struct follow *follow = xnew(struct follow);
    follow->call = call;
    follow->query = query;
    follow->query.limit = LOGS_FOLLOW_LINES;
    follow->watch.more = on_more;
    buf_init(&follow->page, LOGS_ANSWER_BYTES_MAX);
    logs_watch_set(call->api->options.logs, &follow->watch, sb);
    http_accept(call->ex, &handler, follow);
    read_next(follow);
    return true;
}
