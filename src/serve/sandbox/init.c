/* init.c - POST /init on the agent's control socket: who the sandbox is, and what it runs with. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/json.h"
#include "lib/http/fetch.h"
#include "serve/sandbox/internal.h"
#include "wire/channel.h"

enum {
    INIT_ANSWER_BYTES = 4096, /* of an error's body, for its sentence */
};

struct init_call {
    struct sandbox *sb; /* counted */
    struct fetch *fetch;
    char *body;
    void (*done)(struct sandbox *sb, int error, const struct err *err);
};

static void init_finish(struct init_call *call, int error, const struct err *err)
{
    fetch_cancel(call->fetch);
    call->done(call->sb, error, err);
    sandbox_release(call->sb);
    free(call->body);
    free(call);
}

static void init_fail(struct init_call *call, int error, const char *what)
{
    struct err err;

    (void)err_set(&err, -error, "%s: %s", what, strerror(-error));
    init_finish(call, error, &err);
}

/* ---- the request ---- */

static void set(json_t *object, const char *name, json_t *value)
{
    if (json_object_set_new(object, name, value) < 0) {
        abort(); /* only without memory: names and values are ours and valid */
    }
}

static char *init_body(const struct sandbox *sb)
{
    char stamp[CLOCK_STAMP_BYTES], hash[EGRESS_HASH_BYTES];
    json_t *body = json_copy(sb->init);

    if (!body) {
        abort();
    }
    clock_stamp(clock_wall_ms(), stamp);
    if (sb->access_token) {
        set(body, "accessToken", json_string(sb->access_token));
    }
    char *authority = sb->all->use.egress
                          ? egress_authority(sb->all->use.egress, sb->id, sb->options, hash)
                          : NULL;
    if (authority) {
        set(body, "caBundle", json_string(authority));
        set(body, "caHash", json_string(hash));
    }
    free(authority);
    if (sb->state == SANDBOX_PARKING) {
        set(body, "rehearse", json_true());
    }
    set(body, "timestamp", json_string(stamp));
    set(body, "sandboxID", json_string(sb->id));
    set(body, "templateID", json_string(sb->template_id));
    if (sb->team_id) { /* NULL: a parked jail, which is nobody's yet */
        set(body, "teamID", json_string(sb->team_id));
    }
    set(body, "memoryMB", json_integer(sb->memory_mb));
    set(body, "cpuCount", json_integer(sb->cpu_count));
    set(body, "diskSizeMB", json_integer(sb->disk_mb));
    char *text = json_dumps(body, JSON_COMPACT);
    if (!text) {
        abort();
    }
    json_decref(body);
    return text;
}

/* ---- the answer ---- */

/* A 4xx is caused by the files that the agent found, which are the template's. */
static void init_refused(struct init_call *call, const struct fetch_answer *answer)
{
    scoped_json *body = json_loadb(answer->body.at, answer->body.len, 0, NULL);
    const char *message = json_string_of(body, "message");
    int code = answer->status / 100 == 4 ? EOPNOTSUPP : EIO;
    struct err err;

    (void)err_set(&err, code, "the sandbox's agent refused its configuration (%d): %s",
                  answer->status, message ? message : "it does not say why");
    init_finish(call, -code, &err);
}

static void on_answer(void *ctx, const struct fetch_answer *answer)
{
    struct init_call *call = ctx;

    call->fetch = NULL;
    if (answer->status == 0) {
        init_fail(call, answer->error, "the sandbox's agent did not answer");
    } else if (answer->status / 100 != 2) {
        init_refused(call, answer);
    } else {
        init_finish(call, 0, NULL);
    }
}

/* ---- the call ---- */

static void on_dialed(void *ctx, int fd_or_error)
{
    struct init_call *call = ctx;
    struct err err;

    if (fd_or_error < 0) {
        init_fail(call, fd_or_error, "the sandbox's agent gave no socket");
        return;
    }
    start_mark(call->sb, SANDBOX_STEP_DIAL);
    const struct http_header headers[] = {{STR("host"), STR("localhost")},
                                          {STR("content-type"), STR("application/json")}};
    call->body = init_body(call->sb);
    const struct fetch_request request = {.method = STR("POST"),
                                          .target = STR("/init"),
                                          .headers = headers,
                                          .headers_n = countof(headers),
                                          .body = str_of(call->body),
                                          .answer_bytes_max = INIT_ANSWER_BYTES};
    int r = fetch_start(call->sb->all->use.loop, fd_or_error, &request, on_answer, call,
                        &call->fetch, &err);
    if (r < 0) {
        init_finish(call, r, &err);
    }
}

void sandbox_init_agent(struct sandbox *sb,
                        void (*done)(struct sandbox *sb, int error, const struct err *err))
{
    struct init_call *call = xnew(struct init_call);

    call->sb = sb;
    call->done = done;
    sandbox_hold(sb);
    sandbox_dial(sb, CHANNEL_PORT_CONTROL, on_dialed, call);
}
