#include <errno.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/base/log.h"
#include "serve/api/internal.h"

/* A change that is on its way to the disk. */
struct change {
    struct call *call;
    struct key *key;
    char *old_name; /* change; likewise */
    struct limits old_limits;
    char text[KEY_TEXT_LEN + 1];  /* create */
    char key_id[ID_UUID_LEN + 1]; /* rename: the key may be gone when the answer comes */
};

static struct change *change_new(struct call *call, struct key *key)
{
    struct change *change = xnew(struct change);

    change->call = call;
    change->key = key;
    return change;
}

static void change_free(struct change *change)
{
    explicit_bzero(change->text, sizeof(change->text));
    free(change->old_name);
    free(change);
}

/* "e2b_ab...wxyz" in its parts. */
static json_t *mask_json(const struct key *key)
{
    struct str rest = str_skip(str_of(key->masked), strlen(KEY_PREFIX));
    size_t dots = str_find(rest, '.');
    struct str suffix = str_skip(rest, dots + 3);
    json_t *mask = json_object();

    (void)json_object_set_new(mask, "prefix",
                              json_string(key->is_token ? TOKEN_PREFIX : KEY_PREFIX));
    (void)json_object_set_new(mask, "valueLength", json_integer(KEY_HEX_LEN));
    (void)json_object_set_new(mask, "maskedValuePrefix", json_stringn(rest.at, dots));
    (void)json_object_set_new(mask, "maskedValueSuffix", json_stringn(suffix.at, suffix.len));
    return mask;
}

static json_t *key_json(const struct api *api, const struct key *key)
{
    json_t *out = json_object();

    (void)json_object_set_new(out, "id", json_string(key->id));
    (void)json_object_set_new(out, "name", json_string(key->name));
    (void)json_object_set_new(out, "mask", mask_json(key));
    (void)json_object_set_new(out, "createdAt", stamp_json(key->created_ms));
    (void)json_object_set_new(out, "createdBy", maker_json(api, key->id));
    (void)json_object_set_new(out, "limits", limits_json(&key->limits));
    (void)json_object_set_new(out, "readOnly", json_boolean(key->read_only));
    (void)json_object_set_new(out, "lastUsed",
                              key->last_used_ms ? stamp_json(key->last_used_ms) : json_null());
    return out;
}

int key_name_parse(const json_t *body, const char **name, struct err *err)
{
    int r = field_string(body, "name", name, err);

    if (r == 0 && (!*name || !(*name)[0] || strlen(*name) > KEY_NAME_BYTES_MAX)) {
        r = err_set(err, EINVAL, "validation error: name must be 1 to %d bytes",
                    KEY_NAME_BYTES_MAX);
    }
    return r;
}

static int limits_field(const json_t *body, struct limits *limits, struct err *err)
{
    const json_t *object = NULL;
    int r = field_object(body, "limits", &object, err);

    return r == 0 ? limits_parse(object, limits, err) : r;
}

/* ---- list ---- */

void handle_keys_list(struct call *call, const json_t *body)
{
    json_t *list = json_array();
    struct key *key, *next;

    (void)body;
    HASH_ITER (hh, call->api->keys, key, next) {
        if (key->team == call->team && !key->is_token) {
            (void)json_array_append_new(list, key_json(call->api, key));
        }
    }
    call_json(call, 200, list);
}

/* ---- create ---- */

/* The key works once it is on disk. Its text is shown then, and never again. */
static void on_created(void *ctx, int error, const struct err *err)
{
    struct change *change = ctx;
    struct call *call = change->call;
    struct key *key = change->key;

    if (error < 0) {
        key_free(key);
        call_fail_err(call, error, err);
    } else {
        maker_note(call, key->id);
        json_t *reply = key_json(call->api, key);

        (void)json_object_set_new(reply, key->is_token ? "token" : "key",
                                  json_sprintf("%s%s", key->is_token ? "sk_" : "", change->text));
        accounts_add(call->api, key);
        call_json(call, 201, reply);
    }
    change_free(change);
}

static void make(struct call *call, const json_t *body, bool is_token)
{
    struct limits limits = limits_none();
    const char *name = NULL;
    bool read_only = false;
    struct err err;
    int r = key_name_parse(body, &name, &err);

    if (r == 0) {
        r = limits_field(body, &limits, &err);
    }
    if (r == 0) {
        r = field_bool(body, "readOnly", &read_only, &err);
    }
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    if (accounts_count(call->api, call->team) >= KEYS_PER_TEAM_MAX) {
        call_fail(call, 403, "the team has %d API keys, which is the most it can have",
                  KEYS_PER_TEAM_MAX);
        return;
    }
    struct change *change = change_new(call, NULL);
    change->key = key_new(call->team, name, change->text);
    change->key->limits = limits;
    change->key->is_token = is_token;
    change->key->read_only = read_only;
    key_save(call->api, change->key, on_created, change);
}

void handle_keys_create(struct call *call, const json_t *body)
{
    make(call, body, false);
}

void handle_tokens_create(struct call *call, const json_t *body)
{
    make(call, body, true);
}

/* ---- change ---- */

/* Memory changes first: "last used" writes the whole row, and must not write the old name behind
 * the new one. A failure puts the old name back. */
static void on_renamed(void *ctx, int error, const struct err *err)
{
    struct change *change = ctx;
    struct call *call = change->call;
    struct key *key = accounts_find_id(call->api, call->team, change->key_id);

    if (error < 0) {
        if (key) {
            free(key->name);
            key->name = move_ptr(&change->old_name);
            key->limits = change->old_limits;
        }
        call_fail_err(call, error, err);
    } else {
        call_empty(call, 202);
    }
    change_free(change);
}

/* Its name, its limits or both. */
void handle_keys_rename(struct call *call, const json_t *body)
{
    struct key *key = accounts_find_id(call->api, call->team, call->param);
    bool limits_alone = json_object_get(body, "limits") && !json_object_get(body, "name");
    struct limits limits = key ? key->limits : limits_none();
    const char *name = key ? key->name : NULL;
    struct err err;
    int r = limits_alone ? 0 : key_name_parse(body, &name, &err);

    if (r == 0) {
        r = limits_field(body, &limits, &err);
    }
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    if (!key || key->is_token) {
        call_fail(call, 404, "id not found");
        return;
    }
    struct change *change = change_new(call, key);
    memcpy(change->key_id, key->id, sizeof(key->id));
    change->old_limits = key->limits;
    change->old_name = key->name;
    key->name = xstrdup(name);
    key->limits = limits;
    key_save(call->api, key, on_renamed, change);
}

/* ---- delete ---- */

/* The key itself is gone: a later failure concerns only the operator. */
static void on_default_kept(void *ctx, int error, const struct err *err)
{
    if (error < 0) {
        log_error("no new default key could be made; a restart tries again: %s", err->msg);
    }
    call_empty(ctx, 204);
}

static void on_deleted(void *ctx, int error, const struct err *err)
{
    struct change *change = ctx;
    struct call *call = change->call;

    if (error < 0) {
        accounts_add(call->api,
                     change->key); /* the key is still on disk, so memory must have it too */
        call_fail_err(call, error, err);
    } else {
        maker_forget(call->api, change->key->id);
        key_free(change->key);
        default_key_keep(call->api, on_default_kept, call);
    }
    change_free(change);
}

/* The key is out of the table at once: it stops working, and nothing can write its row again behind
 * the deletion. */
static void delete (struct call *call, bool is_token)
{
    struct key *key = accounts_find_id(call->api, call->team, call->param);

    if (!key || key->is_token != is_token) {
        call_fail(call, 404, "id not found");
        return;
    }
    accounts_remove(call->api, key);
    store_key_delete(call->api->options.store, key->id, on_deleted, change_new(call, key));
}

void handle_keys_delete(struct call *call, const json_t *body)
{
    (void)body;
    delete (call, false);
}

void handle_tokens_delete(struct call *call, const json_t *body)
{
    (void)body;
    if (!id_uuid_ok(str_of(call->param))) {
        call_fail(call, 400, "Error when parsing access token ID: '%.64s' is not one", call->param);
        return;
    }
    delete (call, true);
}
