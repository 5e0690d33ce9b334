#include <errno.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "serve/api/create_body.h"
#include "serve/api/internal.h"

enum {
    REFRESH_S_MAX = 3600,
};

bool sandbox_id_cut(const char *text, struct str *id)
{
    struct str given = str_of(text);
    size_t dash = str_find(given, '-');

    if (dash < given.len && str_find(str_skip(given, dash + 1), '-') + dash + 1 < given.len) {
        return false;
    }
    *id = (struct str){given.at, dash};
    for (size_t i = 0; i < id->len; i++) {
        if (!((text[i] >= 'a' && text[i] <= 'z') || (text[i] >= '0' && text[i] <= '9'))) {
            return false;
        }
    }
    return id->len > 0;
}

struct sandbox *call_sandbox(struct call *call)
{
    struct str id;

    if (!sandbox_id_cut(call->param, &id)) {
        call_fail(call, 400, "Invalid sandbox ID");
        return NULL;
    }
    struct sandbox *sb = sandboxes_find(call->api->options.sandboxes, id);
    if (!sb || strcmp(sandbox_info(sb).team_id, call->team->id) != 0) {
        call_fail(call, 404, "Sandbox \"%.*s\" doesn't exist or you don't have access to it",
                  (int)id.len, id.at);
        return NULL;
    }
    return sb;
}

struct sandbox *call_running(struct call *call, int status)
{
    struct sandbox *sb = call_sandbox(call);

    if (sb && sandbox_info(sb).state != SANDBOX_RUNNING) {
        call_fail(call, status, "Sandbox \"%s\" is paused", sandbox_info(sb).id);
        return NULL;
    }
    return sb;
}

void handle_get(struct call *call, const json_t *body)
{
    const struct sandbox *sb = call_sandbox(call);

    (void)body;
    if (sb) {
        json_t *reply = sandbox_json_detail(call->api, sb);

        if (call->read_only) { /* with its token anything in the sandbox can be changed */
            (void)json_object_del(reply, "envdAccessToken");
        }
        call_json(call, 200, reply);
    }
}

void call_recorded(void *ctx, int error, const struct err *err)
{
    if (error < 0) {
        call_fail_err(ctx, error, err);
    } else {
        call_empty(ctx, 204);
    }
}

void call_stopped(void *ctx, int error, const struct err *err)
{
    if (error < 0) {
        call_fail_logged(ctx, error, err);
    } else {
        call_empty(ctx, 204);
    }
}

void handle_kill(struct call *call, const json_t *body)
{
    struct sandbox *sb = call_sandbox(call);

    (void)body;
    if (sb) {
        sandbox_kill(sb, SANDBOX_END_REQUEST, call_stopped, call);
    }
}

int64_t call_end_ms(const struct call *call, const struct sandbox *sb, int64_t seconds)
{
    int64_t end_ms = clock_wall_ms() + seconds * 1000;
    int64_t last_ms = sandbox_info(sb).started_ms + call->api->options.sandbox_s_max * 1000;

    return end_ms < last_ms ? end_ms : last_ms;
}

/* 0 is legal here: it means now. */
void handle_timeout(struct call *call, const json_t *body)
{
    int64_t seconds = -1;
    struct err err;
    int r = timeout_field(body, "timeout", call->api->options.sandbox_s_max, &seconds, &err);

    if (r == 0 && seconds < 0) {
        r = err_set(&err, EINVAL, "validation error: timeout is required");
    }
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    struct sandbox *sb = call_running(call, 404);
    if (sb) {
        sandbox_set_end(sb, call_end_ms(call, sb, seconds), false, call_recorded, call);
    }
}

void handle_refresh(struct call *call, const json_t *body)
{
    int64_t seconds = SANDBOX_TIMEOUT_S_DEFAULT;
    struct err err;
    int r = field_int(body, "duration", (struct int_range){0, REFRESH_S_MAX}, &seconds, &err);

    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    struct sandbox *sb = call_running(call, 404);
    if (sb) {
        int64_t least = SANDBOX_TIMEOUT_S_DEFAULT;

        sandbox_set_end(sb, call_end_ms(call, sb, seconds > least ? seconds : least), true,
                        call_recorded, call);
    }
}
