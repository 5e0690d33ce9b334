#include <errno.h>

#include "api/create_body.h"
#include "api/internal.h"
#include "base/clock.h"

enum {
    REFRESH_S_MAX = 3600,
    CONNECT_V2_TIMEOUT_S_DEFAULT = 300,
};

/* "<id>", or the older "<id>-<client id>". False when no sandbox can have that id. */
static bool id_cut(const char *text, struct str *id)
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

    if (!id_cut(call->param, &id)) {
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

void handle_get(struct call *call, const json_t *body)
{
    const struct sandbox *sb = call_sandbox(call);

    (void)body;
    if (sb) {
        call_json(call, 200, sandbox_json_detail(call->api, sb));
    }
}

static void on_killed(void *ctx)
{
    call_empty(ctx, 204);
}

void handle_kill(struct call *call, const json_t *body)
{
    struct sandbox *sb = call_sandbox(call);

    (void)body;
    if (sb) {
        sandbox_kill(sb, "request", on_killed, call);
    }
}

static int64_t end_in(int64_t seconds)
{
    return clock_wall_ms() + seconds * 1000;
}

/* 0 is legal here: it means now. */
void handle_timeout(struct call *call, const json_t *body)
{
    int64_t seconds = -1;
    struct err err;
    int r = timeout_field(body, "timeout", &seconds, &err);

    if (r == 0 && seconds < 0) {
        r = err_set(&err, EINVAL, "validation error: timeout is required");
    }
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    struct sandbox *sb = call_sandbox(call);
    if (sb) {
        sandbox_set_end(sb, end_in(seconds), false);
        call_empty(call, 204);
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
    struct sandbox *sb = call_sandbox(call);
    if (sb) {
        int64_t least = SANDBOX_TIMEOUT_S_DEFAULT;

        sandbox_set_end(sb, end_in(seconds > least ? seconds : least), true);
        call_empty(call, 204);
    }
}

/* Only ever extends: whoever connects last must not shorten what another was promised. */
static void sandbox_connect(struct call *call, const json_t *body, int64_t seconds)
{
    bool memory = true;
    struct err err;
    int r = timeout_field(body, "timeout", &seconds, &err);

    if (r == 0) {
        r = field_bool(body, "memory", &memory, &err);
    }
    if (r == 0 && seconds < 0) {
        r = err_set(&err, EINVAL, "validation error: timeout is required");
    }
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    struct sandbox *sb = call_sandbox(call);
    if (sb) {
        sandbox_set_end(sb, end_in(seconds), true);
        call_json(call, 200, sandbox_json_created(call->api, sb));
    }
}

void handle_connect_v1(struct call *call, const json_t *body)
{
    sandbox_connect(call, body, -1);
}

void handle_connect_v2(struct call *call, const json_t *body)
{
    sandbox_connect(call, body, CONNECT_V2_TIMEOUT_S_DEFAULT);
}
