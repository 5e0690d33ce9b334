/* POST /sandboxes/{id}/fork: copies of a running sandbox, each with an outcome of its own. */
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/base/json.h"
#include "serve/api/create_body.h"
#include "serve/api/internal.h"

struct forks {
    struct call *call;
    uint32_t left;
    json_t *results; /* in the order of their numbers */
};

static json_t *result_of(const struct forks *forks, struct sandbox *sb, int error,
                         const struct err *err)
{
    json_t *result = json_object();

    if (sb) {
        (void)json_object_set_new(result, "sandbox", sandbox_json_created(forks->call->api, sb));
    } else {
        (void)json_object_set_new(result, "error",
                                  json_pack("{siso}", "code", status_of_errno(STATUS_API, error),
                                            "message", json_sentence(err->msg)));
    }
    return result;
}

/* Nobody will ever know their ids. */
static void kill_all(struct forks *forks)
{
    size_t i;
    json_t *result;

    json_array_foreach (forks->results, i, result) {
        const json_t *made = json_object_get(result, "sandbox");
        const char *id = json_string_value(json_object_get(made, "sandboxID"));
        struct sandbox *sb =
            id ? sandboxes_find(forks->call->api->options.sandboxes, str_of(id)) : NULL;

        if (sb) {
            sandbox_kill(sb, "its client left before the answer", NULL, NULL);
        }
    }
}

static void on_fork(void *ctx, uint32_t index, struct sandbox *sb, int error, const struct err *err)
{
    struct forks *forks = ctx;

    (void)json_array_set_new(forks->results, index, result_of(forks, sb, error, err));
    if (--forks->left > 0) {
        return;
    }
    if (call_gone(forks->call)) {
        kill_all(forks);
    }
    call_json(forks->call, 201, forks->results);
    free(forks);
}

static void on_failed(void *ctx, int error, const struct err *err)
{
    struct forks *forks = ctx;

    call_fail_logged(forks->call, error, err);
    json_decref(forks->results);
    free(forks);
}

static void start(struct call *call, struct sandbox *sb, uint32_t count, int64_t seconds)
{
    struct forks *forks = xnew(struct forks);
    const struct sandbox_fork fork = {.count = count,
                                      .timeout_ms = seconds * 1000,
                                      .maker = call->key_id[0] ? call->key_id : NULL,
                                      .each = on_fork,
                                      .failed = on_failed,
                                      .ctx = forks};

    *forks = (struct forks){.call = call, .left = count, .results = json_array()};
    for (uint32_t i = 0; i < count; i++) {
        (void)json_array_append_new(forks->results, json_null());
    }
    sandbox_trace(sb, &call->trace);
    sandbox_fork(sb, &fork);
}

void handle_fork(struct call *call, const json_t *body)
{
    int64_t seconds = SANDBOX_TIMEOUT_S_DEFAULT, count = 1;
    struct err err;
    int r = timeout_field(body, "timeout", call->api->options.sandbox_s_max, &seconds, &err);

    if (r == 0) {
        r = field_int(body, "count", (struct int_range){1, SANDBOX_FORKS_MAX}, &count, &err);
    }
    if (r < 0) {
        call_fail_err(call, r, &err);
    } else if (seconds == 0) {
        call_fail(call, 400, "Timeout must be greater than 0");
    } else {
        struct sandbox *sb = call_running(call, 409);

        if (sb) {
            struct sandbox_wanted wanted = sandbox_wanted(sb);

            wanted.maker = call->key_id; /* copies are the caller's */
            if (call_has_room(call, &wanted, (uint32_t)count)) {
                start(call, sb, (uint32_t)count, seconds);
            }
        }
    }
}
