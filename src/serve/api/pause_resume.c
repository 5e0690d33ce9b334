/* POST /sandboxes/{id}/pause, /resume and /connect. */
#include <errno.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "serve/api/create_body.h"
#include "serve/api/internal.h"

enum { CONNECT_V2_TIMEOUT_S_DEFAULT = 300 };

void handle_pause(struct call *call, const json_t *body)
{
    bool memory = true, healthy = false;
    struct err err;
    int r = field_bool(body, "memory", &memory, &err);

    if (r == 0) {
        r = field_bool(body, "requireHealthyGuest", &healthy, &err);
    }

    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    struct sandbox *sb = call_sandbox(call);
    if (sb) {
        sandbox_trace(sb, &call->trace);
        /* Without memory the agent has to write everything out first. */
        sandbox_pause(sb,
                      (memory ? SANDBOX_PAUSE_MEMORY : SANDBOX_PAUSE_DISK) |
                          (healthy || !memory ? SANDBOX_PAUSE_HEALTHY : 0),
                      call_stopped, call);
    }
}

/* ---- back again ---- */

struct wanted {
    int64_t seconds; /* -1: not said */
    bool memory;
};

static int wanted_parse(const struct call *call, const json_t *body, struct wanted *out,
                        struct err *err)
{
    int64_t most = call->api->options.sandbox_s_max;
    int r = timeout_field(body, "timeout", most, &out->seconds, err);

    if (r == 0) {
        r = field_bool(body, "memory", &out->memory, err);
    }
    if (r == 0 && out->seconds < 0) {
        r = err_set(err, EINVAL, "validation error: timeout is required");
    }
    return r;
}

static void on_resumed(void *ctx, struct sandbox *sb, int error, const struct err *err)
{
    struct call *call = ctx;

    if (sb) {
        call_json(call, 201, sandbox_json_created(call->api, sb));
    } else if (error == -ENOENT) {
        call_fail(call, 404, "Sandbox \"%s\" doesn't exist or you don't have access to it",
                  call->param);
    } else {
        call_fail_logged(call, error, err);
    }
}

static bool is_unresponsive(const struct sandbox *sb)
{
    return json_is_true(json_object_get(sandbox_info(sb).options, SANDBOX_UNRESPONSIVE_OPTION));
}

static void resume(struct call *call, struct sandbox *sb, const struct wanted *wanted)
{
    struct sandbox_wanted room = sandbox_wanted(sb);

    if (is_unresponsive(sb) && wanted->memory) {
        call_fail_code(call, 409, "sandbox_snapshot_guest_agent_unresponsive",
                       "The sandbox was paused while its agent did not answer, so that its memory"
                       " cannot be restored: resume it with memory: false");
    } else if (wanted->seconds == 0) {
        call_fail(call, 400, "Timeout must be greater than 0");
    } else if (sandbox_info(sb).changing || call_has_room(call, &room, 1)) {
        sandbox_trace(sb, &call->trace);
        sandbox_resume(sb, wanted->seconds * 1000, wanted->memory, on_resumed, call);
    }
}

void handle_resume(struct call *call, const json_t *body)
{
    struct wanted wanted = {.seconds = SANDBOX_TIMEOUT_S_DEFAULT, .memory = true};
    bool pauses = false;
    struct err err;
    int r = wanted_parse(call, body, &wanted, &err);

    if (r == 0) {
        r = field_bool(body, "autoPause", &pauses, &err);
    }
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    struct sandbox *sb = call_sandbox(call);
    if (sb && sandbox_info(sb).state == SANDBOX_RUNNING) {
        call_fail(call, 409, "Sandbox %s is already running", sandbox_info(sb).id);
    } else if (sb) {
        if (json_is_boolean(json_object_get(body, "autoPause"))) {
            sandbox_set_auto_pause(sb, pauses);
        }
        resume(call, sb, &wanted);
    }
}

/* ---- connect: whatever its state ---- */

struct connecting {
    struct call *call;
    json_t *reply; /* of the moment of the call: the sandbox may end before it is sent */
};

static void on_extended(void *ctx, int error, const struct err *err)
{
    struct connecting *connecting = ctx;

    if (error < 0) {
        json_decref(connecting->reply);
        call_fail_err(connecting->call, error, err);
    } else {
        call_json(connecting->call, 200, connecting->reply);
    }
    free(connecting);
}

/* Only ever extends: a later connect must not shorten the time that an earlier one was promised. */
static void extend(struct call *call, struct sandbox *sb, int64_t seconds)
{
    struct connecting *connecting = xnew(struct connecting);

    *connecting = (struct connecting){call, sandbox_json_created(call->api, sb)};
    sandbox_set_end(sb, call_end_ms(call, sb, seconds), true, on_extended, connecting);
}

static void sandbox_connect(struct call *call, const json_t *body, int64_t seconds)
{
    struct wanted wanted = {.seconds = seconds, .memory = true};
    struct err err;
    int r = wanted_parse(call, body, &wanted, &err);

    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    struct sandbox *sb = call_sandbox(call);
    if (sb && sandbox_info(sb).state == SANDBOX_RUNNING) {
        extend(call, sb, wanted.seconds);
    } else if (sb) {
        resume(call, sb, &wanted);
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
