#include "tools/keys.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/id.h"
#include "lib/base/json.h"
#include "lib/guard/said.h"
#include "tools/front_end.h"

enum { TARGET_BYTES = ID_SANDBOX_LEN + 64 };

/* ---- layers ---- */

/* Whether a variable of that name must be hidden from readers of the sandbox's output. */
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

/* A shell can set no other names. */
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

/* Secrets of the team whose metadata names a variable. */
static int stored_add(struct tool_call *call, json_t *vars, json_t *secret_names, struct err *err)
{
    scoped_json *stored = NULL;
    int r = call_internal(call, "GET", "/internal/variables", NULL, &stored, err);

    json_each (stored, it) {
        const char *name = json_object_iter_key(it);

        (void)json_object_set(vars, name, json_object_iter_value(it));
        (void)json_object_set_new(secret_names, name, json_true());
    }
    return r;
}

int keys_merge(struct tool_call *call, const struct keys_layers *layers, json_t **vars,
               json_t **secret_names, struct err *err)
{
    scoped_json *merged = json_object();
    scoped_json *names = json_object();
    int r = names_check(layers->envs, err);

    if (r == 0 && layers->stored) {
        r = stored_add(call, merged, names, err);
    }
    if (r < 0) {
        return r;
    }
    layer_add(merged, names, layers->envs);
    layer_add(merged, names, layers->own);
    *vars = move_ptr(&merged);
    *secret_names = move_ptr(&names);
    return 0;
}

/* ---- the record ---- */

static void record_target(const char *sandbox_id, char out[TARGET_BYTES])
{
    (void)snprintf(out, TARGET_BYTES, "/internal/sandboxes/%s/keys", sandbox_id);
}

int keys_record(struct tool_call *call, const char *sandbox_id, const json_t *vars,
                const json_t *secret_names, bool by_command, struct err *err)
{
    scoped_json *record = json_object();
    char target[TARGET_BYTES];

    if (json_object_size(vars) == 0) {
        return 0;
    }
    (void)json_object_set(record, "vars", json_unconst(vars));
    (void)json_object_set(record, "secret", json_unconst(secret_names));
    (void)json_object_set_new(record, "byCommand", json_boolean(by_command));
    record_target(sandbox_id, target);
    return call_internal(call, "PUT", target, record, NULL, err);
}

/* Every record of a sandbox until `each` says false. */
static int records_each(struct tool_call *call, const char *sandbox_id,
                        bool (*each)(void *ctx, const json_t *record), void *ctx, struct err *err)
{
    scoped_json *records = NULL;
    char target[TARGET_BYTES];
    bool more = true;

    record_target(sandbox_id, target);
    int r = call_internal(call, "GET", target, NULL, &records, err);
    for (size_t i = 0; more && i < json_array_size(records); i++) {
        more = each(ctx, json_array_get(records, i));
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

struct guarding {
    struct guard *guard;
    struct err *err;
    int error; /* the first */
};

static bool guard_key(struct guarding *guarding, const char *value)
{
    guarding->error = guard_add(guarding->guard, str_of(value), guarding->err);
    return guarding->error == 0;
}

static bool guard_record(void *ctx, const json_t *record)
{
    const json_t *vars = json_object_get(record, "vars");

    json_each (json_object_get(record, "secret"), it) {
        const char *name = json_object_iter_key(it);
        const char *value = json_string_of(vars, name);

        if (value && !guard_key(ctx, value)) {
            return false;
        }
    }
    return true;
}

int keys_guard(struct tool_call *call, const char *sandbox_id, const json_t *env,
               struct guard **out, struct err *err)
{
    struct guarding guarding = {.guard = guard_new(), .err = err};
    int r = records_each(call, sandbox_id, guard_record, &guarding, err);

    json_each (env, it) {
        const char *name = json_object_iter_key(it);
        const char *value = json_string_value(json_object_iter_value(it));

        if (guarding.error == 0 && value && name_is_secret(name)) {
            (void)guard_key(&guarding, value);
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
