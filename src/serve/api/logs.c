/* logs.c - the log lines of sandboxes' agents. Lines outlive their sandbox: a killed one is found
 * as long as there are any. */
#include <errno.h>

#include "lib/base/clock.h"
#include "serve/api/internal.h"
#include "serve/api/logs_query.h"

enum { EMPTY_BYTES_MAX = 1024 }; /* of an answer without lines */

static void fail_unknown(struct call *call)
{
    struct str id = {0};

    (void)sandbox_id_cut(call->param, &id);
    call_fail(call, 404, "Sandbox \"%.*s\" doesn't exist or you don't have access to it",
              (int)id.len, id.at);
}

/* A sandbox that runs and has logged nothing has an empty log. */
static bool is_known(const struct call *call)
{
    struct str id;
    const struct sandbox *sb =
        sandbox_id_cut(call->param, &id) ? sandboxes_find(call->api->options.sandboxes, id) : NULL;

    return sb && strcmp(sandbox_info(sb).team_id, call->team->id) == 0;
}

static void answer_text(struct call *call, struct str text)
{
    call_text(call, 200, "application/json; charset=utf-8", text);
}

static void answer_empty(struct call *call, logs_render *render)
{
    static const struct logfile_page nothing;
    scoped_buf(text, EMPTY_BYTES_MAX);

    (void)render(&nothing, &text);
    answer_text(call, buf_str(&text));
}

static void answer(struct call *call, int error, const struct err *err, struct str text,
                   logs_render *render)
{
    if (error == 0) {
        answer_text(call, text);
    } else if (error != -ENOENT) {
        call_fail_err(call, error, err);
    } else if (is_known(call)) {
        answer_empty(call, render);
    } else {
        fail_unknown(call);
    }
}

static void on_read_v1(void *ctx, int error, const struct err *err, struct str text,
                       struct logfile_position end)
{
    (void)end;
    answer(ctx, error, err, text, logs_render_v1);
}

static void on_read_v2(void *ctx, int error, const struct err *err, struct str text,
                       struct logfile_position end)
{
    (void)end;
    answer(ctx, error, err, text, logs_render_v2);
}

/* `r` is the result of parsing the query. */
static void read_logs(struct call *call, int r, const struct err *err,
                      const struct logfile_query *query, logs_render *render, logs_read_done *done)
{
    struct str id;

    if (r < 0) {
        call_fail_err(call, r, err);
    } else if (!sandbox_id_cut(call->param, &id)) {
        call_fail(call, 400, "Invalid sandbox ID");
    } else {
        logs_read(call->api->options.logs, id, call->team->id, query, render, done, call);
    }
}

void handle_logs_v1(struct call *call, const json_t *body)
{
    struct logfile_query query;
    struct err err;
    int r = logs_query_v1(http_request(call->ex)->query, clock_wall_ms(), &query, &err);

    (void)body;
    read_logs(call, r, &err, &query, logs_render_v1, on_read_v1);
}

void handle_logs_v2(struct call *call, const json_t *body)
{
    struct logfile_query query;
    struct err err;
    bool follow = false;
    int r = logs_query_v2(http_request(call->ex)->query, clock_wall_ms(), &query, &follow, &err);

    (void)body;
    read_logs(call, r, &err, &query, logs_render_v2, on_read_v2);
}
