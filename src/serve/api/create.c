/* POST /sandboxes. Only the client that gets the answer knows the sandbox's id. When the client
 * leaves before that, the sandbox is killed, because nobody could use it.
 *
 * Idempotency-Key: a client that got no answer asks again with the same key and the same body, and
 * is given the sandbox that the first try made. The key is stored with the sandbox, so this holds
 * across restarts, and the key is free again when the sandbox has ended. A keyed sandbox whose
 * client has left lives on: the retry will ask for it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/encode.h"
#include "serve/api/create_body.h"
#include "serve/api/internal.h"
#include "serve/api/network.h"

enum {
    IDEMPOTENCY_KEY_BYTES_MAX = 255,
    TRAFFIC_TOKEN_BYTES = 20,
};

struct create {
    struct create *prev, *next; /* in api->creates, when keyed */
    struct call *call;
    struct api *api;
    const struct team *team;
    char key[IDEMPOTENCY_KEY_BYTES_MAX + 1]; /* "": none */
    char body_hash[SHA256_HEX_LEN + 1];      /* of the body, whatever the order of its fields */
};

/* ---- idempotency ---- */

static bool key_ok(struct str key)
{
    for (size_t i = 0; i < key.len; i++) {
        char c = key.at[i];

        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-')) {
            return false;
        }
    }
    return key.len >= 1 && key.len <= IDEMPOTENCY_KEY_BYTES_MAX;
}

/* False when there is one that is not a key. */
static bool key_read(struct create *create, const struct call *call, const json_t *body)
{
    struct str key = http_header_get(http_request(call->ex), "idempotency-key");

    if (!key.at) {
        return true;
    }
    char *text = json_dumps(body, JSON_COMPACT | JSON_SORT_KEYS);
    sha256_hex(text, text ? strlen(text) : 0, create->body_hash);
    free(text);
    return key_ok(key) && str_copy(create->key, sizeof(create->key), key);
}

static void fail_mismatch(struct call *call)
{
    call_fail_code(call, 422, "idempotency_request_mismatch",
                   "this Idempotency-Key was used with another request");
}

/* True when the key has answered the call: by an earlier sandbox, or by a refusal. */
static bool key_answers(const struct create *create, struct call *call)
{
    struct create *other;

    DL_FOREACH (create->api->creates, other) {
        if (other->team == create->team && strcmp(other->key, create->key) == 0) {
            if (strcmp(other->body_hash, create->body_hash) != 0) {
                fail_mismatch(call);
            } else {
                call_fail_code(call, 409, "idempotency_in_progress",
                               "a request with this Idempotency-Key is under way");
            }
            return true;
        }
    }
    struct sandbox *found =
        sandboxes_find_key(create->api->options.sandboxes, create->team->id, create->key);
    if (!found) {
        return false;
    }
    struct sandbox_info info = sandbox_info(found);
    const char *hash = json_string_value(json_object_get(info.options, "idempotencyHash"));
    if (!hash || strcmp(hash, create->body_hash) != 0) {
        fail_mismatch(call);
    } else {
        call_json(call, 201, sandbox_json_created(create->api, found));
    }
    return true;
}

/* ---- creating ---- */

static void fail_create(struct call *call, int error, const struct err *err)
{
    if (error == -ENOSPC) {
        call_fail_code(call, status_of_errno(STATUS_API, error), "sandbox_capacity_unavailable",
                       err->msg);
    } else {
        call_fail_logged(call, error, err);
    }
}

static void on_created(void *ctx, struct sandbox *sb, int error, const struct err *err)
{
    struct create *create = ctx;
    struct call *call = create->call;
    bool keyed = create->key[0] != '\0';

    if (keyed) {
        DL_DELETE(create->api->creates, create);
    }
    free(create);
    if (!sb) {
        fail_create(call, error, err);
        return;
    }
    if (call_gone(call) && !keyed) {
        sandbox_kill(sb, "its client left before the answer", NULL, NULL);
        call_empty(call, 204);
        return;
    }
    struct sandbox_info info = sandbox_info(sb);
    if (call->ex) {
        http_note_sandbox(call->ex, info.id, 0);
    }
    templates_spawned(call->api->options.templates, info.template_id, info.created_ms);
    call_json(call, 201, sandbox_json_created(call->api, sb));
}

/* The code interpreters that belong to SDKs before version 2 send no access token. */
static bool sends_no_token(const struct http_request *req)
{
    struct str version = http_header_get(req, "package_version");

    return str_starts(version, STR("0.")) || str_starts(version, STR("1."));
}

static void options_complete(json_t *options, const struct create *create)
{
    if (!network_is_public(json_object_get(options, "network"))) {
        char token[2 * TRAFFIC_TOKEN_BYTES + 1];

        id_hex(token, TRAFFIC_TOKEN_BYTES);
        (void)json_object_set_new(options, "trafficAccessToken", json_string(token));
    }
    if (create->call->key_id[0]) {
        (void)json_object_set_new(options, SANDBOX_MAKER_OPTION, json_string(create->call->key_id));
    }
    if (sends_no_token(http_request(create->call->ex))) {
        (void)json_object_set_new(options, SANDBOX_OPEN_INTERPRETER_OPTION, json_true());
    }
    if (create->key[0]) {
        (void)json_object_set_new(options, SANDBOX_KEY_OPTION, json_string(create->key));
        (void)json_object_set_new(options, "idempotencyHash", json_string(create->body_hash));
    }
}

static struct sandbox_wanted wanted_of(const struct call *call, const struct template *template)
{
    return (struct sandbox_wanted){
        .team_id = call->team->id,
        .maker = call->key_id,
        .cpu_count = template->cpu_count,
        .memory_mb = template->memory_mb,
        .disk_bytes = (uint64_t) template->disk_mb << 20,
    };
}

static void start(struct create *create, const struct create_body *asked,
                  const struct template *template)
{
    struct sandbox_params params = {
        .team_id = create->team->id,
        .template = template,
        .timeout_ms = asked->timeout_ms,
        .secure = asked->secure,
        .metadata = asked->metadata,
        .env_vars = asked->env_vars,
        .options = asked->options,
        .trace = &create->call->trace,
    };

    options_complete(asked->options, create);
    if (create->key[0]) {
        DL_APPEND(create->api->creates, create);
    }
    sandbox_create(create->api->options.sandboxes, &params, on_created, create);
}

static void handle_create(struct call *call, const json_t *body, enum create_version version)
{
    scoped_create_body asked = {0};
    struct err err;
    int why = 0;
    int r = create_body_parse(body, version, call->api->options.sandbox_s_max, &asked, &err);

    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    r = volumes_resolve(call, asked.options, &err);
    r = r < 0 ? r : shells_resolve(call, asked.options, &err);
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    struct str name = str_of(asked.template_name);
    const struct template *template =
        templates_find(call->api->options.templates, call->team->id, name, &why);
    if (!template) {
        call_fail_template(call, why, name);
        return;
    }
    struct create *create = xnew(struct create);
    create->call = call;
    create->api = call->api;
    create->team = call->team;
    if (!key_read(create, call, body)) {
        free(create);
        call_fail(call, 400, "validation error: Idempotency-Key must be 1 to %d of a-z 0-9 -",
                  IDEMPOTENCY_KEY_BYTES_MAX);
        return;
    }
    if (create->key[0] && key_answers(create, call)) {
        free(create);
        return;
    }
    struct sandbox_wanted wanted = wanted_of(call, template);
    if (!call_has_room(call, &wanted, 1)) {
        free(create);
        return;
    }
    start(create, &asked, template);
}

void handle_create_v1(struct call *call, const json_t *body)
{
    handle_create(call, body, CREATE_V1);
}

void handle_create_v2(struct call *call, const json_t *body)
{
    handle_create(call, body, CREATE_V2);
}
