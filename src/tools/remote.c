#include "tools/remote.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/fiber.h"
#include "lib/base/json_text.h"
#include "tools/internal.h"
#include "tools/remote_internal.h"

enum {
    REMOTE_TARGET_BYTES = 160,
    REMOTE_ID_BYTES_MAX = 64,
    REMOTE_RESUMED_S =
        1800, /* at least, of a sandbox that a call without timeout_seconds resumes */
    REMOTE_PAGE_BYTES_MAX = 64 * 1024,
};

/* ---- connecting ---- */

static void text_copy(char *out, size_t size, const json_t *object, const char *name)
{
    (void)snprintf(out, size, "%s", json_text_of(object, name));
}

static int64_t stamp_of(const json_t *object, const char *name)
{
    const json_t *text = json_object_get(object, name);
    int64_t ms = 0;

    return json_is_string(text) && clock_parse(str_of(json_string_value(text)), &ms) == 0 ? ms : 0;
}

/* An id becomes part of a path: a text that cannot be an id is never sent. */
int remote_api(struct tool_call *call, const char *method, const char *id, const char *what,
               const json_t *body, json_t **answer, struct err *err)
{
    char target[REMOTE_TARGET_BYTES];

    if (!id[0] || strlen(id) > REMOTE_ID_BYTES_MAX ||
        strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(id)) {
        return err_set(err, EINVAL, "sandbox_id: \"%.64s\" is not the id of a sandbox", id);
    }
    (void)snprintf(target, sizeof(target), "/sandboxes/%s%s", id, what);
    return call_api(call, method, target, body, answer, err);
}

/* A resumed sandbox gets the rest of the life it was asked to have, but never a short one. */
static int64_t resumed_s(struct tool_call *call, const json_t *detail)
{
    int64_t most = tools_options(call->tools)->sandbox_s_max;
    int64_t wanted = (stamp_of(detail, "wantedEndAt") - clock_wall_ms() + 999) / 1000;

    wanted = wanted > REMOTE_RESUMED_S ? wanted : REMOTE_RESUMED_S;
    return wanted < most ? wanted : most;
}

static int resume(struct tool_call *call, const json_t *detail, int64_t timeout_s, struct err *err)
{
    int64_t seconds = timeout_s < 0 ? resumed_s(call, detail) : timeout_s;
    scoped_json *body = json_pack("{sI}", "timeout", (json_int_t)seconds);

    return remote_api(call, "POST", json_string_of(detail, "sandboxID"), "/connect", body, NULL,
                      err);
}

static int set_timeout(struct tool_call *call, const char *id, int64_t timeout_s, struct err *err)
{
    scoped_json *body = json_pack("{sI}", "timeout", (json_int_t)timeout_s);

    return remote_api(call, "POST", id, "/timeout", body, NULL, err);
}

static void remote_fill(struct remote_sandbox *sandbox, const json_t *detail)
{
    text_copy(sandbox->id, sizeof(sandbox->id), detail, "sandboxID");
    text_copy(sandbox->token, sizeof(sandbox->token), detail, "envdAccessToken");
    text_copy(sandbox->domain, sizeof(sandbox->domain), detail, "domain");
    sandbox->expires_ms = stamp_of(detail, "endAt");
}

static int remote_take(struct tool_call *call, const char *id, struct remote_sandbox *out,
                       struct err *err)
{
    scoped_json *detail = NULL;

    int r = remote_api(call, "GET", id, "", NULL, &detail, err);
    if (r == 0) {
        remote_fill(out, detail);
    }
    return r;
}

int remote_connect(struct tool_call *call, const char *id, int64_t timeout_s,
                   struct remote_sandbox *out, struct err *err)
{
    scoped_json *detail = NULL;
    struct remote_sandbox sandbox = {0};

    int r = remote_api(call, "GET", id, "", NULL, &detail, err);
    if (r < 0) {
        return r;
    }
    bool paused = strcmp(json_text_of(detail, "state"), "paused") == 0;
    if (paused) {
        r = resume(call, detail, timeout_s, err);
    } else if (timeout_s >= 0) {
        r = set_timeout(call, id, timeout_s, err);
    }
    if (r == 0 && (paused || timeout_s >= 0)) {
        r = remote_take(call, id, &sandbox, err);
    } else if (r == 0) {
        remote_fill(&sandbox, detail);
    }
    if (r == 0) {
        *out = sandbox;
    }
    return r;
}

int remote_connect_input(struct tool_call *call, const json_t *input, struct remote_sandbox *out,
                         struct err *err)
{
    const json_t *timeout = json_object_get(input, "timeout_seconds");

    return remote_connect(call, json_string_of(input, "sandbox_id"),
                          timeout ? json_integer_value(timeout) : -1, out, err);
}

int remote_create(struct tool_call *call, const json_t *body, struct remote_sandbox *out,
                  struct err *err)
{
    scoped_json *made = NULL;
    struct remote_sandbox sandbox = {0};

    int r = call_api(call, "POST", "/sandboxes", body, &made, err);
    if (r < 0) {
        return r;
    }
    text_copy(sandbox.id, sizeof(sandbox.id), made, "sandboxID");
    text_copy(sandbox.traffic_token, sizeof(sandbox.traffic_token), made, "trafficAccessToken");
    r = remote_take(call, sandbox.id, &sandbox, err);
    if (r < 0) {
        remote_kill(call, &sandbox);
        return r;
    }
    *out = sandbox;
    return 0;
}

void remote_kill(struct tool_call *call, const struct remote_sandbox *sandbox)
{
    struct err err;

    fiber_shield();
    (void)!remote_api(call, "DELETE", sandbox->id, "", NULL, NULL,
                      &err); /* gone already is as well */
    fiber_unshield();
}

/* ---- requests to what is inside ---- */

void remote_header(struct remote_headers *headers, const char *name, const char *value)
{
    headers->at[headers->n++] = (struct http_header){str_of(name), str_of(value)};
}

void remote_headers(struct remote_headers *headers, const struct remote_sandbox *sandbox,
                    uint32_t port)
{
    headers->n = 0;
    (void)snprintf(headers->port, sizeof(headers->port), "%u", port);
    remote_header(headers, "e2b-sandbox-id", sandbox->id);
    remote_header(headers, "e2b-sandbox-port", headers->port);
    if (port == REMOTE_AGENT_PORT && sandbox->token[0]) {
        remote_header(headers, "x-access-token", sandbox->token);
    }
    if (port != REMOTE_AGENT_PORT && sandbox->traffic_token[0]) {
        remote_header(headers, "e2b-traffic-access-token", sandbox->traffic_token);
    }
}

/* Connect's code of a failure says more than its status. */
static int errno_of_code(const char *code, int status)
{
    static const struct {
        const char *code;
        int error;
    } codes[] = {
        {"not_found", ENOENT},        {"already_exists", EEXIST},
        {"invalid_argument", EINVAL}, {"deadline_exceeded", ETIMEDOUT},
        {"permission_denied", EPERM}, {"resource_exhausted", EMSGSIZE},
    };

    for (size_t i = 0; code && i < countof(codes); i++) {
        if (strcmp(code, codes[i].code) == 0) {
            return codes[i].error;
        }
    }
    return -call_errno_of(status);
}

int remote_refused(struct ask *ask, const char *what, struct err *err)
{
    scoped_buf(text, REMOTE_PAGE_BYTES_MAX);
    struct err unread;

    (void)!ask_gather(ask, &text, &unread);
    scoped_json *body = json_loadb(buf_at(&text) ? buf_at(&text) : "", buf_len(&text), 0, NULL);
    const char *message = json_string_of(body, "message");
    const char *code = json_string_of(body, "code");

    return err_set(err, errno_of_code(code, ask_status(ask)), "%s: %s", what,
                   message ? message : http_reason(ask_status(ask)));
}

/* The failed operation, in words. */
static const char *undone(const char *method)
{
    static const char *const said[][2] = {
        {"/filesystem.Filesystem/Stat", "the path cannot be looked up"},
        {"/filesystem.Filesystem/ListDir", "the folder cannot be listed"},
        {"/process.Process/SendInput", "the process takes no input"},
        {"/process.Process/SendSignal", "the process cannot be ended"},
        {"/process.Process/List", "the processes cannot be listed"},
    };

    for (size_t i = 0; i < countof(said); i++) {
        if (strcmp(said[i][0], method) == 0) {
            return said[i][1];
        }
    }
    return "the sandbox refused";
}

static int rpc_answer(struct ask *ask, const char *method, json_t **answer, struct err *err)
{
    scoped_buf(text, CLIENT_ANSWER_BYTES_MAX);

    if (ask_status(ask) != 200) {
        return remote_refused(ask, undone(method), err);
    }
    int r = ask_gather(ask, &text, err);
    if (r < 0) {
        return r;
    }
    if (json_text_values(buf_str(&text)) > JSON_TEXT_VALUES_MAX) {
        return err_set(err, EMSGSIZE, "the sandbox answered more than %d values",
                       JSON_TEXT_VALUES_MAX);
    }
    json_t *parsed = json_loadb(buf_at(&text), buf_len(&text), 0, NULL);
    if (!parsed) {
        return err_set(err, EIO, "the sandbox answered no JSON");
    }
    if (answer) {
        *answer = parsed;
    } else {
        json_decref(parsed);
    }
    return 0;
}

int remote_rpc(struct tool_call *call, const struct remote_sandbox *sandbox, const char *method,
               const json_t *request, json_t **answer, struct err *err)
{
    scoped_text text = json_dumps(request, JSON_COMPACT);
    struct remote_headers headers;
    scoped_ask *ask = NULL;

    remote_headers(&headers, sandbox, REMOTE_AGENT_PORT);
    remote_header(&headers, "content-type", "application/json");
    const struct ask_plan plan = {.method = "POST",
                                  .target = method,
                                  .headers = headers.at,
                                  .headers_n = headers.n,
                                  .body = str_of(text)};
    int r = ask_open(call->tools, &plan, &ask, err);
    return r == 0 ? rpc_answer(ask, method, answer, err) : r;
}

int remote_http(struct tool_call *call, const struct remote_sandbox *sandbox,
                const struct remote_question *question, int *status, struct err *err)
{
    scoped_text text = question->body ? json_dumps(question->body, JSON_COMPACT) : NULL;
    struct remote_headers headers;
    struct str piece = {0};
    scoped_ask *ask = NULL;

    remote_headers(&headers, sandbox, question->port);
    if (question->trusted && sandbox->token[0]) {
        remote_header(&headers, "x-access-token", sandbox->token);
    }
    if (text) {
        remote_header(&headers, "content-type", "application/json");
    }
    const struct ask_plan plan = {.method = question->method,
                                  .target = question->target,
                                  .headers = headers.at,
                                  .headers_n = headers.n,
                                  .body = str_of(text)};
    int r = ask_open(call->tools, &plan, &ask, err);
    if (r < 0) {
        return r;
    }
    *status = ask_status(ask);
    while ((r = ask_read(ask, &piece, err)) > 0) {
        question->piece(question->ctx, piece);
    }
    return r;
}
