#include <errno.h>
#include <stdlib.h>

#include "api/internal.h"
#include "base/alloc.h"

/* A change that is on its way to the disk. */
struct change {
    struct call *call;
    struct key *key;
    char *old_name;               /* rename */
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

    (void)json_object_set_new(mask, "prefix", json_string(KEY_PREFIX));
    (void)json_object_set_new(mask, "valueLength", json_integer(KEY_HEX_LEN));
    (void)json_object_set_new(mask, "maskedValuePrefix", json_stringn(rest.at, dots));
    (void)json_object_set_new(mask, "maskedValueSuffix", json_stringn(suffix.at, suffix.len));
    return mask;
}

static json_t *key_json(const struct key *key)
{
    json_t *out = json_object();

    (void)json_object_set_new(out, "id", json_string(key->id));
    (void)json_object_set_new(out, "name", json_string(key->name));
    (void)json_object_set_new(out, "mask", mask_json(key));
    (void)json_object_set_new(out, "createdAt", stamp_json(key->created_ms));
    (void)json_object_set_new(out, "createdBy", json_null());
    (void)json_object_set_new(out, "lastUsed",
                              key->last_used_ms ? stamp_json(key->last_used_ms) : json_null());
    return out;
}

static int name_parse(const json_t *body, const char **name, struct err *err)
{
    int r = field_string(body, "name", name, err);

    if (r == 0 && (!*name || !(*name)[0] || strlen(*name) > KEY_NAME_BYTES_MAX)) {
        r = err_set(err, EINVAL, "validation error: name must be 1 to %d bytes",
                    KEY_NAME_BYTES_MAX);
    }
    return r;
}

/* ---- list ---- */

void handle_keys_list(struct call *call, const json_t *body)
{
    json_t *list = json_array();
    struct key *key, *next;

    (void)body;
    HASH_ITER (hh, call->api->keys, key, next) {
        if (key->team == call->team) {
            (void)json_array_append_new(list, key_json(key));
        }
    }
    call_json(call, 200, list);
}

/* ---- create ---- */

/* The key works from the moment that it is on disk, and its text is told then and never again. */
static void on_created(void *ctx, int error, const struct err *err)
{
    struct change *change = ctx;
    struct call *call = change->call;

    if (error < 0) {
        key_free(change->key);
        call_fail_err(call, error, err);
    } else {
        json_t *reply = key_json(change->key);

        (void)json_object_set_new(reply, "key", json_string(change->text));
        accounts_add(call->api, change->key);
        call_json(call, 201, reply);
    }
    change_free(change);
}

void handle_keys_create(struct call *call, const json_t *body)
{
    const char *name = NULL;
    struct err err;
    int r = name_parse(body, &name, &err);

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
    struct key_row row = key_row(change->key);
    store_key_save(call->api->options.store, &row, on_created, change);
}

/* ---- rename ---- */

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
        }
        call_fail_err(call, error, err);
    } else {
        call_empty(call, 202);
    }
    change_free(change);
}

void handle_keys_rename(struct call *call, const json_t *body)
{
    struct key *key = accounts_find_id(call->api, call->team, call->param);
    const char *name = NULL;
    struct err err;
    int r = name_parse(body, &name, &err);

    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    if (!key) {
        call_fail(call, 404, "id not found");
        return;
    }
    struct change *change = change_new(call, key);
    memcpy(change->key_id, key->id, sizeof(key->id));
    change->old_name = key->name;
    key->name = xstrdup(name);
    struct key_row row = key_row(key);
    store_key_save(call->api->options.store, &row, on_renamed, change);
}

/* ---- delete ---- */

static void on_deleted(void *ctx, int error, const struct err *err)
{
    struct change *change = ctx;
    struct call *call = change->call;

    if (error < 0) {
        accounts_add(call->api,
                     change->key); /* it is still on disk: what memory says must be true */
        call_fail_err(call, error, err);
    } else {
        key_free(change->key);
        call_empty(call, 204);
    }
    change_free(change);
}

/* The key is out of the table at once: it stops working, and nothing can write its row again behind
 * the deletion. */
void handle_keys_delete(struct call *call, const json_t *body)
{
    struct key *key = accounts_find_id(call->api, call->team, call->param);

    (void)body;
    if (!key) {
        call_fail(call, 404, "id not found");
        return;
    }
    accounts_remove(call->api, key);
    store_key_delete(call->api->options.store, key->id, on_deleted, change_new(call, key));
}
