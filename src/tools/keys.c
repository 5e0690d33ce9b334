#include "tools/keys.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/id.h"
#include "lib/guard/said.h"
#include "serve/api/fields.h"
#include "serve/secrets/seal.h"
#include "serve/secrets/secret.h"
#include "tools/face.h"
#include "tools/stored.h"

enum { OWNER_BYTES = ID_UUID_LEN + ID_SANDBOX_LEN + 32 };

/* ---- layers ---- */

/* Whether what has such a name is to be kept from those who read what a sandbox says. */
static bool name_is_secret(const char *name)
{
    static const char *const words[] = {"KEY",      "TOKEN",  "SECRET",
                                        "PASSWORD", "PASSWD", "CREDENTIAL"};

    for (size_t i = 0; i < countof(words); i++) {
        if (strcasestr(name, words[i])) {
            return true;
        }
    }
    return false;
}

static bool is_variable(const char *name)
{
    static const char word[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";

    return name[0] && !isdigit((unsigned char)name[0]) && strspn(name, word) == strlen(name);
}

/* A shell has no way to name another. */
static int names_check(const json_t *envs, struct err *err)
{
    json_each (envs, it) {
        const char *name = json_object_iter_key(it);

        if (!is_variable(name)) {
            return err_set(err, EINVAL,
                           "envs: '%.64s' cannot name a variable: letters, digits and _ alone, and "
                           "no digit first",
                           ours(name));
        }
    }
    return 0;
}

static void layer_add(json_t *vars, json_t *secret_names, const json_t *layer)
{
    json_each (layer, it) {
        const char *name = json_object_iter_key(it);

        (void)json_object_set(vars, name, json_object_iter_value(it));
        if (name_is_secret(name)) {
            (void)json_object_set_new(secret_names, name, json_true());
        }
    }
}

struct team_keys {
    const struct secrets *secrets;
    const char *team;
    json_t *vars, *secret_names;
    struct err *err;
    int error;
};

static bool on_secret(void *ctx, const struct secret *secret)
{
    struct team_keys *stored = ctx;
    const char *name = json_string_of(secret->metadata, "env");
    scoped_buf(value, SECRET_VALUE_BYTES_MAX);

    if (!name) {
        return true;
    }
    stored->error =
        secret_value(stored->secrets, stored->team, str_of(secret->name), &value, stored->err);
    if (stored->error == 0) {
        (void)json_object_set_new(stored->vars, name,
                                  json_stringn(buf_at(&value), buf_len(&value)));
        (void)json_object_set_new(stored->secret_names, name, json_true());
    }
    return stored->error == 0;
}

int keys_merge(struct tool_call *call, const struct keys_layers *layers, json_t **vars,
               json_t **secret_names, struct err *err)
{
    scoped_json *merged = json_object();
    scoped_json *names = json_object();
    struct team_keys stored = {.secrets = tools_options(call_tools(call))->secrets,
                               .team = call_team(call),
                               .vars = merged,
                               .secret_names = names,
                               .err = err};

    int r = names_check(layers->envs, err);
    if (r < 0) {
        return r;
    }
    if (layers->stored) {
        secrets_each(stored.secrets, stored.team, on_secret, &stored);
    }
    if (stored.error < 0) {
        return stored.error;
    }
    layer_add(merged, names, layers->envs);
    layer_add(merged, names, layers->own);
    *vars = move_ptr(&merged);
    *secret_names = move_ptr(&names);
    return 0;
}

/* ---- the record ---- */

/* What a sealed record is bound to. */
static void owner_text(const char *team, const char *sandbox_id, char out[OWNER_BYTES])
{
    (void)snprintf(out, OWNER_BYTES, "sandbox keys %s %s", team, sandbox_id);
}

static int record_seal(struct tool_call *call, const char *sandbox_id, const json_t *record,
                       struct buf *sealed, struct err *err)
{
    scoped_text text = json_dumps(record, JSON_COMPACT);
    char owner[OWNER_BYTES];

    owner_text(call_team(call), sandbox_id, owner);
    if (!text || strlen(text) > KEYS_BYTES_MAX) {
        return err_set(err, EMSGSIZE, "envs: the variables of a sandbox may have %d bytes together",
                       KEYS_BYTES_MAX);
    }
    int r = secrets_seal(tools_options(call_tools(call))->secrets, owner, str_of(text), sealed);
    explicit_bzero(text, strlen(text));
    return r < 0 ? err_set(err, -r, "seal the variables of sandbox %s", ours(sandbox_id)) : 0;
}

int keys_record(struct tool_call *call, const char *sandbox_id, const json_t *vars,
                const json_t *secret_names, bool by_command, struct err *err)
{
    struct stored answer = stored_begin(err);
    scoped_json *record = json_object();
    scoped_buf(sealed, SEAL_TEXT_BYTES_MAX);

    if (json_object_size(vars) == 0) {
        return 0;
    }
    (void)json_object_set(record, "vars", json_unconst(vars));
    (void)json_object_set(record, "secret", json_unconst(secret_names));
    (void)json_object_set_new(record, "byCommand", json_boolean(by_command));
    int r = record_seal(call, sandbox_id, record, &sealed, err);
    if (r < 0) {
        return r;
    }
    store_sandbox_keys_save(tools_options(call_tools(call))->store, sandbox_id, buf_at(&sealed),
                            stored_done, &answer);
    return stored_wait(&answer);
}

/* One that cannot be opened, after a restore without the daemon's key, is as if it were not there:
 * its values are in no sandbox's reach either. */
static json_t *record_open(struct tool_call *call, const json_t *row)
{
    const char *sealed_for = json_string_of(row, "sealedFor");
    const char *sealed = json_string_of(row, "sealed");
    char owner[OWNER_BYTES];
    scoped_buf(text, SEAL_VALUE_BYTES_MAX);

    owner_text(call_team(call), sealed_for ? sealed_for : "", owner);
    if (!sealed ||
        secrets_unseal(tools_options(call_tools(call))->secrets, owner, sealed, &text) < 0) {
        return NULL;
    }
    json_t *record = json_loadb(buf_at(&text), buf_len(&text), 0, NULL);
    explicit_bzero(buf_at(&text), buf_len(&text));
    return record;
}

/* Every record of the team that can be opened, of one sandbox or of all, until `each` says false.
 */
static int records_each(struct tool_call *call, const char *sandbox_id,
                        bool (*each)(void *ctx, const json_t *record), void *ctx, struct err *err)
{
    struct stored answer = stored_begin(err);

    store_sandbox_keys_list(tools_options(call_tools(call))->store, call_team(call), sandbox_id,
                            stored_text, &answer);
    int r = stored_wait(&answer);
    scoped_text text = answer.text;
    scoped_json *rows = r == 0 && text ? json_loads(text, 0, NULL) : NULL;
    bool more = true;
    for (size_t i = 0; more && i < json_array_size(rows); i++) {
        scoped_json *record = record_open(call, json_array_get(rows, i));

        more = !record || each(ctx, record);
    }
    return r;
}

static bool add_kept_back(void *ctx, const json_t *record)
{
    if (json_is_true(json_object_get(record, "byCommand"))) {
        (void)json_object_update(ctx, json_object_get(record, "vars"));
    }
    return true;
}

int keys_env(struct tool_call *call, const char *sandbox_id, const json_t *envs, json_t **out,
             struct err *err)
{
    scoped_json *env = json_object();
    int r = names_check(envs, err);

    r = r < 0 ? r : records_each(call, sandbox_id, add_kept_back, env, err);
    if (r < 0) {
        return r;
    }
    if (envs) {
        (void)json_object_update(env, json_unconst(envs));
    }
    *out = move_ptr(&env);
    return 0;
}

struct telling {
    bool (*each)(void *ctx, const char *name, const char *value);
    void *ctx;
};

static bool tell_secrets(void *ctx, const json_t *record)
{
    const struct telling *telling = ctx;
    const json_t *vars = json_object_get(record, "vars");

    json_each (json_object_get(record, "secret"), it) {
        const char *name = json_object_iter_key(it);
        const char *value = json_string_of(vars, name);

        if (value && !telling->each(telling->ctx, name, value)) {
            return false;
        }
    }
    return true;
}

int keys_each(struct tool_call *call, const char *sandbox_id,
              bool (*each)(void *ctx, const char *name, const char *value), void *ctx,
              struct err *err)
{
    struct telling telling = {each, ctx};

    return records_each(call, sandbox_id, tell_secrets, &telling, err);
}

struct guarding {
    struct guard *guard;
    struct err *err;
    int error; /* the first */
};

static bool guard_key(void *ctx, const char *name, const char *value)
{
    struct guarding *guarding = ctx;

    (void)name;
    guarding->error = guard_add(guarding->guard, str_of(value), guarding->err);
    return guarding->error == 0;
}

int keys_guard(struct tool_call *call, const char *sandbox_id, const json_t *env,
               struct guard **out, struct err *err)
{
    struct guarding guarding = {.guard = guard_new(), .err = err};
    int r = keys_each(call, sandbox_id, guard_key, &guarding, err);

    json_each (env, it) {
        const char *name = json_object_iter_key(it);
        const char *value = json_string_value(json_object_iter_value(it));

        if (guarding.error == 0 && value && name_is_secret(name)) {
            (void)guard_key(&guarding, name, value);
        }
    }
    r = r < 0 ? r : guarding.error;
    if (r < 0) {
        guard_free(guarding.guard);
        return r;
    }
    guard_ready(guarding.guard);
    *out = guarding.guard;
    return 0;
}
