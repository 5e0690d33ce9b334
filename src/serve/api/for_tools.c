/* for_tools.c - routes of the internal socket, for atoll-tools: variables from secrets, the
 * variables that tools gave to sandboxes, code artifacts. Each is asked with the API key of the
 * tool's caller, and is about that key's team alone. guard_team_secrets.c has the search of a text
 * for secrets.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/guard/said.h"
#include "serve/api/for_tools.h"
#include "serve/api/internal.h"
#include "serve/api/query.h"
#include "serve/secrets/seal.h"

enum { OWNER_BYTES = ID_UUID_LEN + ID_SANDBOX_LEN + 32 };

/* ---- variables from secrets ---- */

struct variables {
    const struct call *call;
    json_t *vars;
    struct err err;
    int error;
};

static bool on_secret(void *ctx, const struct secret *secret)
{
    struct variables *variables = ctx;
    const char *name = json_string_of(secret->metadata, "env");
    scoped_buf(value, SECRET_VALUE_BYTES_MAX);

    if (!name) {
        return true;
    }
    variables->error = secret_value(variables->call->api->options.secrets, secret->team_id,
                                    str_of(secret->name), &value, &variables->err);
    if (variables->error == 0) {
        (void)json_object_set_new(variables->vars, name,
                                  json_stringn(buf_at(&value), buf_len(&value)));
    }
    buf_wipe(&value);
    return variables->error == 0;
}

void handle_tools_variables(struct call *call, const json_t *body)
{
    struct variables variables = {.call = call, .vars = json_object()};

    (void)body;
    secrets_each(call->api->options.secrets, call->team->id, on_secret, &variables);
    if (variables.error < 0) {
        json_decref(variables.vars);
        call_fail_err(call, variables.error, &variables.err);
        return;
    }
    call_json(call, 200, variables.vars);
}

/* ---- the variables of a sandbox ---- */

/* A sealed record is bound to its team and its sandbox. */
static void owner_text(const char *team, const char *sandbox_id, char out[OWNER_BYTES])
{
    (void)snprintf(out, OWNER_BYTES, "sandbox keys %s %.*s", team, ID_SANDBOX_LEN, sandbox_id);
}

static int record_seal(const struct call *call, const char *sandbox_id, const json_t *record,
                       struct buf *sealed, struct err *err)
{
    scoped_text text = json_dumps(record, JSON_COMPACT);
    char owner[OWNER_BYTES];

    owner_text(call->team->id, sandbox_id, owner);
    if (!text || strlen(text) > FOR_TOOLS_KEYS_BYTES_MAX) {
        return err_set(err, EMSGSIZE, "envs: the variables of a sandbox may have %d bytes together",
                       FOR_TOOLS_KEYS_BYTES_MAX);
    }
    int r = secrets_seal(call->api->options.secrets, owner, str_of(text), sealed);
    explicit_bzero(text, strlen(text));
    return r < 0 ? err_set(err, -r, "seal the variables of sandbox %s", ours(sandbox_id)) : 0;
}

void handle_tools_keys_put(struct call *call, const json_t *body)
{
    scoped_buf(sealed, SEAL_TEXT_BYTES_MAX);
    const struct sandbox *sb = call_sandbox(call);
    struct err err;

    if (!sb) {
        return;
    }
    const char *id = sandbox_info(sb).id;
    int r = record_seal(call, id, body, &sealed, &err);
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    store_sandbox_keys_save(call->api->options.store, id, buf_at(&sealed), call_due,
                            call_later(call, 204, NULL));
}

/* A record that cannot be opened, after a restore without the daemon's key, counts as absent: its
 * values are in no sandbox's reach either. */
static json_t *record_open(const struct call *call, const json_t *row)
{
    const char *sealed_for = json_string_of(row, "sealedFor");
    const char *sealed = json_string_of(row, "sealed");
    char owner[OWNER_BYTES];
    scoped_buf(text, SEAL_VALUE_BYTES_MAX);

    owner_text(call->team->id, sealed_for ? sealed_for : "", owner);
    if (!sealed || secrets_unseal(call->api->options.secrets, owner, sealed, &text) < 0) {
        return NULL;
    }
    json_t *record = json_loadb(buf_at(&text), buf_len(&text), 0, NULL);
    buf_wipe(&text);
    return record;
}

json_t *for_tools_records(const struct call *call, const char *rows_text)
{
    scoped_json *rows = rows_text ? json_loads(rows_text, 0, NULL) : NULL;
    json_t *records = json_array();

    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *record = record_open(call, json_array_get(rows, i));

        if (record) {
            (void)json_array_append_new(records, record);
        }
    }
    return records;
}

static void on_keys(void *ctx, int error, const struct err *err, const char *text)
{
    struct call *call = ctx;

    if (error < 0) {
        call_fail_err(call, error, err);
    } else {
        call_json(call, 200, for_tools_records(call, text));
    }
}

void handle_tools_keys_get(struct call *call, const json_t *body)
{
    (void)body;
    store_sandbox_keys_list(call->api->options.store, call->team->id, call->param, on_keys, call);
}

/* ---- code artifacts ---- */

/* The path that the query names; "" when it names none. False: the call was refused. */
static bool path_take(struct call *call, struct buf *path)
{
    struct err err;
    int r = call_gone(call) ? 0 : query_text(http_request(call->ex)->query, "path", path, &err);

    if (r < 0 || buf_append(path, "", 1) < 0) {
        call_fail(call, 400, "validation error: path is not a valid query parameter");
        return false;
    }
    return true;
}

static void on_artifacts(void *ctx, int error, const struct err *err, const char *text)
{
    struct call *call = ctx;

    if (error < 0) {
        call_fail_err(call, error, err);
    } else {
        call_text(call, 200, "application/json", str_of(text ? text : "[]"));
    }
}

void handle_tools_artifacts(struct call *call, const json_t *body)
{
    scoped_buf(path, QUERY_VALUE_BYTES_MAX);

    (void)body;
    if (path_take(call, &path)) {
        const char *text = buf_at(&path);

        store_artifacts_list(call->api->options.store, call->team->id, text[0] ? text : NULL,
                             on_artifacts, call);
    }
}

void handle_tools_artifact_put(struct call *call, const json_t *body)
{
    const struct artifact_row row = {
        .team_id = call->team->id,
        .path = json_text_of(body, "path"),
        .content = json_text_of(body, "content"),
        .language = json_text_of(body, "language"),
        .entrypoint = json_text_of(body, "entrypoint"),
        .description = json_text_of(body, "description"),
        .sha256 = json_text_of(body, "sha256"),
        .size = json_integer_value(json_object_get(body, "size")),
        .now_ms = json_integer_value(json_object_get(body, "nowMs")),
        .team_max = json_integer_value(json_object_get(body, "teamMax")),
        .replace = json_is_true(json_object_get(body, "replace")),
    };

    store_artifact_save(call->api->options.store, &row, call_due, call_later(call, 204, NULL));
}

void handle_tools_artifact_delete(struct call *call, const json_t *body)
{
    scoped_buf(path, QUERY_VALUE_BYTES_MAX);

    (void)body;
    if (path_take(call, &path)) {
        store_artifact_delete(call->api->options.store, call->team->id, buf_at(&path), call_due,
                              call_later(call, 204, NULL));
    }
}
