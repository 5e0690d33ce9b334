/* travel.c - saves as files: POST /snapshots/{id}/export, POST /sandboxes/{id}/export of a paused
 * one, and POST /snapshots/import. The bytes are the keeper's: they are passed on as they come. */
#include <errno.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "serve/api/internal.h"
#include "serve/api/query.h"
#include "serve/keeper/travel.h"
#include "serve/template/name.h"

/* ---- out ---- */

struct leaving {
    struct call *call;        /* NULL: it is over */
    struct http_exchange *ex; /* NULL: it has ended */
    struct traveller *traveller;
    bool responded;
};

static void leaving_free(struct leaving *leaving)
{
    if (!leaving->call && !leaving->ex && !leaving->traveller) {
        free(leaving);
    }
}

/* A message is passed on whole, so none is read while there is no room for one. */
static void leaving_read(struct leaving *leaving)
{
    if (leaving->traveller && leaving->ex) {
        traveller_read(leaving->traveller,
                       !leaving->responded || http_writable(leaving->ex) >= TRAVEL_BODY_BYTES_MAX);
    }
}

static void on_bytes(void *ctx, struct str bytes)
{
    static const struct http_header headers[] = {
        {STR("Content-Type"), STR("application/octet-stream")},
        {STR("Cache-Control"), STR("no-store")},
    };
    struct leaving *leaving = ctx;

    if (!leaving->ex) {
        return;
    }
    if (!leaving->responded) {
        leaving->responded = true;
        figures_note(leaving->call, 200);
        http_respond(leaving->ex, 200, headers, countof(headers), -1);
    }
    http_write(leaving->ex, bytes.at, bytes.len);
    leaving_read(leaving);
}

/* An export that failed in the middle must not look complete. */
static void on_left(void *ctx, int error, const struct err *err,
                    const struct sandbox_snapshot *made)
{
    struct leaving *leaving = ctx;
    struct call *call = move_ptr(&leaving->call);

    (void)made;
    leaving->traveller = NULL;
    if (!leaving->responded && error < 0) {
        call_fail_err(call, error, err);
        return;
    }
    if (error < 0) {
        audit_note_error(call, err->msg);
        http_abort(leaving->ex, error);
    } else {
        http_finish(leaving->ex);
    }
    audit_end(call, error < 0 ? status_of_errno(STATUS_API, error) : 200);
    call_free(call);
}

static void leaving_credit(void *ctx)
{
    leaving_read(ctx);
}

static void leaving_end(void *ctx, int error)
{
    struct leaving *leaving = ctx;

    (void)error;
    leaving->ex = NULL;
    traveller_drop(move_ptr(&leaving->traveller));
    if (leaving->call) {
        leaving->call->ex = NULL;
        call_free(move_ptr(&leaving->call));
    }
    leaving_free(leaving);
}

static struct leaving *leaving_new(struct call *call)
{
    static const struct http_handler handler = {
        .needs_peer = true, .on_credit = leaving_credit, .on_end = leaving_end};
    struct leaving *leaving = xnew(struct leaving);

    *leaving = (struct leaving){.call = call, .ex = call->ex};
    http_accept(call->ex, &handler, leaving);
    return leaving;
}

static const struct traveller_handler leaving_handler = {.bytes = on_bytes, .end = on_left};

static const struct template *call_snapshot(struct call *call)
{
    int why = 0;
    const struct template *t =
        templates_find(call->api->options.templates, call->team->id, str_of(call->param), &why);

    if (!t || !t->team_id || strcmp(t->team_id, call->team->id) != 0 || !t->snapshot_of ||
        !t->saved) {
        call_fail(call, 404, "snapshot '%.256s' not found", call->param);
        return NULL;
    }
    return t;
}

bool stream_export(struct call *call)
{
    struct leaving *leaving = leaving_new(call);
    const struct template *t = call_snapshot(call);

    if (!t) {
        leaving->call = NULL;
        return true;
    }
    leaving->traveller =
        template_export(call->api->options.sandboxes, t, &leaving_handler, leaving);
    return true;
}

bool stream_export_paused(struct call *call)
{
    struct leaving *leaving = leaving_new(call);
    struct sandbox *sb = call_sandbox(call);

    if (!sb) {
        leaving->call = NULL;
    } else if (sandbox_info(sb).exact != SANDBOX_PAUSED) {
        leaving->call = NULL;
        call_fail(call, 409, "Sandbox \"%s\" is not paused: pause it, or export a snapshot of it",
                  sandbox_info(sb).id);
    } else {
        leaving->traveller = sandbox_export(sb, &leaving_handler, leaving);
    }
    return true;
}

/* ---- in ---- */

struct arriving {
    struct call *call;        /* NULL: it was answered */
    struct http_exchange *ex; /* NULL: it has ended */
    struct traveller *traveller;
    struct quota_hold *hold;
    struct buf waiting; /* came while the last piece is being sent */
    bool ready;         /* the next piece can be sent */
    bool all_came, all_sent;
    size_t sending; /* bytes of the last piece */
};

static void arriving_go_on(struct arriving *arriving)
{
    if (!arriving->traveller || !arriving->ready || arriving->all_sent) {
        return;
    }
    const size_t n = buf_len(&arriving->waiting);
    if (n == 0 && !arriving->all_came) {
        return;
    }
    arriving->ready = false;
    arriving->all_sent = n == 0;
    arriving->sending = n < TRAVELLER_SEND_BYTES_MAX ? n : TRAVELLER_SEND_BYTES_MAX;
    traveller_send(arriving->traveller,
                   (struct str){buf_at(&arriving->waiting), arriving->sending});
    buf_consume(&arriving->waiting, arriving->sending);
}

static void on_ready(void *ctx)
{
    struct arriving *arriving = ctx;
    const size_t took = arriving->sending;

    arriving->ready = true;
    arriving->sending = 0;
    if (took > 0 && arriving->ex) {
        http_credit(arriving->ex, took);
    }
    arriving_go_on(arriving);
}

static void on_arrived(void *ctx, int error, const struct err *err,
                       const struct sandbox_snapshot *made)
{
    struct arriving *arriving = ctx;
    struct call *call = move_ptr(&arriving->call);

    arriving->traveller = NULL;
    quota_hold_end(call->api, move_ptr(&arriving->hold));
    if (error < 0) {
        call_fail_err(call, error == -ENOSPC ? -EDQUOT : error, err);
        return;
    }
    maker_note(call, made->template_id);
    builds_add_snapshot(call->api->options.builds, made->build);
    call_json(call, 201,
              snapshot_json(call, made->template_id, made->alias, made->tag, made->bytes));
}

static void arriving_body(void *ctx, const void *data, size_t len)
{
    struct arriving *arriving = ctx;
    struct err err;

    if (arriving->traveller && buf_append(&arriving->waiting, data, len) < 0) {
        (void)err_set(&err, ENOBUFS, "the body is longer than was asked for");
        traveller_drop(move_ptr(&arriving->traveller));
        on_arrived(arriving, -ENOBUFS, &err, NULL);
        return;
    }
    arriving_go_on(arriving);
}

static void arriving_body_end(void *ctx)
{
    struct arriving *arriving = ctx;

    arriving->all_came = true;
    arriving_go_on(arriving);
}

static void arriving_end(void *ctx, int error)
{
    struct arriving *arriving = ctx;

    (void)error;
    traveller_drop(move_ptr(&arriving->traveller));
    if (arriving->call) {
        quota_hold_end(arriving->call->api, arriving->hold);
        arriving->call->ex = NULL;
        call_free(arriving->call);
    }
    buf_fini(&arriving->waiting);
    free(arriving);
}

/* The rest of the team's disk space, and no more than the keeper takes. */
static uint64_t bytes_max_of(const struct call *call)
{
    const struct limits limits = quota_limits(call->api, call->team);
    const struct amounts used = quota_used(call->api, call->team, NULL);
    const int64_t most = limits.most[LIMIT_DISK_MB];
    const int64_t left_mb = most == LIMIT_NONE ? 0 : most - used.of[LIMIT_DISK_MB];

    if (most == LIMIT_NONE || (uint64_t)left_mb > KEEPER_TRAVEL_BYTES_MAX >> 20) {
        return KEEPER_TRAVEL_BYTES_MAX;
    }
    return left_mb > 0 ? (uint64_t)left_mb << 20 : 1;
}

static int name_read(const struct call *call, struct template_name *out, bool *named,
                     struct err *err)
{
    scoped_buf(name, QUERY_VALUE_BYTES_MAX);
    int r = query_text(http_request(call->ex)->query, "name", &name, err);

    *named = r == 1;
    if (r == 1) {
        r = buf_append(&name, "", 1);
    }
    return r < 0 || !*named ? r : snapshot_name_check(call, buf_at(&name), out, err);
}

bool stream_import(struct call *call)
{
    static const struct http_handler handler = {
        .on_body = arriving_body, .on_body_end = arriving_body_end, .on_end = arriving_end};
    static const struct traveller_handler traveller_handler = {.ready = on_ready,
                                                               .end = on_arrived};
    const int64_t length = http_request(call->ex)->content_length;
    const struct amounts more = {.of = {[LIMIT_DISK_MB] = 1 + (length > 0 ? length >> 20 : 0)}};
    struct arriving *arriving = xnew(struct arriving);
    struct template_name name = {0};
    bool named = false;
    struct err err;

    *arriving = (struct arriving){.ex = call->ex};
    buf_init(&arriving->waiting, HTTP_WINDOW_BYTES);
    http_accept(call->ex, &handler, arriving);
    int r = name_read(call, &name, &named, &err);
    if (r < 0) {
        call_fail_err(call, r, &err);
        return true;
    }
    if (!call_quota(call, &more)) {
        return true;
    }
    arriving->call = call;
    arriving->hold = quota_hold(call, &more);
    const struct arrival arrival = {.team_id = call->team->id,
                                    .alias = named ? name.alias : NULL,
                                    .tag = named ? name.tag : TEMPLATE_TAG_DEFAULT,
                                    .bytes_max = bytes_max_of(call)};
    arriving->traveller =
        sandboxes_import(call->api->options.sandboxes, &arrival, &traveller_handler, arriving);
    http_credit(arriving->ex, HTTP_WINDOW_BYTES);
    return true;
}
