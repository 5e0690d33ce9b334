/* admin_keys.c - keys of the operator: a caller with such a key may see and change every team.
 *
 * They are kept as hashes, as API keys are, and shown once, when they are made. The first is made
 * with a token that lies in the data directory, which only root and the daemon's user can read;
 * every start makes a new token. */
#include <errno.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "serve/api/internal.h"
#include "serve/web/sessions.h"

#define ADMIN_PREFIX "atoll_admin_"

enum { ADMIN_TEXT_LEN = sizeof(ADMIN_PREFIX) - 1 + KEY_HEX_LEN, ADMIN_KEYS_MAX = 100 };

/* ---- a single key ---- */

static struct admin_key *admin_key_new(const char *name, char text[ADMIN_TEXT_LEN + 1])
{
    struct admin_key *key = xnew(struct admin_key);

    key_text_make(ADMIN_PREFIX, text, key->hash, key->masked);
    id_uuid(key->id);
    key->name = xstrdup(name);
    key->created_ms = clock_wall_ms();
    return key;
}

static void admin_key_free(struct admin_key *key)
{
    free(key->name);
    free(key);
}

static void save(struct api *api, const struct admin_key *key, store_done *done, void *ctx)
{
    const struct admin_key_row row = {
        .id = key->id,
        .name = key->name,
        .hash = key->hash,
        .masked = key->masked,
        .created_ms = key->created_ms,
        .last_used_ms = key->last_used_ms,
    };

    store_admin_key_save(api->options.store, &row, done, ctx);
}

static void on_row(void *ctx, const struct admin_key_row *row)
{
    struct api *api = ctx;
    struct admin_key *key = xnew(struct admin_key);

    (void)str_copy(key->id, sizeof(key->id), str_of(row->id));
    (void)str_copy(key->hash, sizeof(key->hash), str_of(row->hash));
    (void)str_copy(key->masked, sizeof(key->masked), str_of(row->masked));
    key->name = xstrdup(row->name);
    key->created_ms = row->created_ms;
    key->last_used_ms = key->used_saved_ms = row->last_used_ms;
    HASH_ADD_STR(api->admin_keys, hash, key);
}

int admin_keys_load(struct api *api, struct err *err)
{
    return store_load_admin_keys(api->options.store, on_row, api, err);
}

void admin_keys_free(struct api *api)
{
    struct admin_key *key = NULL, *next = NULL;

    HASH_ITER (hh, api->admin_keys, key, next) {
        HASH_DEL(api->admin_keys, key);
        admin_key_free(key);
    }
}

/* ---- authentication ---- */

static void used(struct api *api, struct admin_key *key)
{
    key->last_used_ms = clock_wall_ms();
    if (!key->passing && key->last_used_ms - key->used_saved_ms >= KEY_USED_SAVE_MS) {
        key->used_saved_ms = key->last_used_ms;
        save(api, key, NULL, NULL);
    }
}

struct admin_key *admin_find_text(struct api *api, struct str text, struct err *err)
{
    char hash[SHA256_HEX_LEN + 1];
    struct admin_key *key = NULL;

    sha256_hex(text.at, text.len, hash);
    HASH_FIND_STR(api->admin_keys, hash, key);
    if (!key) {
        (void)!err_set(err, EACCES, "Invalid admin key: X-Admin-Token has none that works here");
        return NULL;
    }
    used(api, key);
    return key;
}

static const struct admin_key *find_id(const struct api *api, const char *id)
{
    const struct admin_key *key = NULL, *next = NULL;

    HASH_ITER (hh, api->admin_keys, key, next) {
        if (strcmp(key->id, id) == 0) {
            return key;
        }
    }
    return NULL;
}

bool admin_id_works(const struct api *api, const char *id)
{
    return find_id(api, id) != NULL;
}

/* A session of the dashboard may have the rights of an admin key, as long as that key exists. */
static int session_check(struct api *api, const struct http_request *req,
                         const struct admin_key **out, struct err *err)
{
    struct session *session = NULL;
    struct key *key = NULL;
    int r = auth_session(api, req, &session, &key, err);

    if (r == -ENOENT) {
        return err_set(
            err, EACCES,
            "X-Admin-Token is missing: `atoll admin-key create NAME` makes an admin key");
    }
    if (r < 0) {
        return r;
    }
    *out = find_id(api, session->admin_key_id);
    if (!*out) {
        r = err_set(err, EPERM,
                    "this session does not have the rights of the operator: add an admin key to "
                    "it");
    }
    return r;
}

int admin_check(struct api *api, const struct http_request *req, const struct admin_key **out,
                struct err *err)
{
    struct str text = str_trim(http_header_get(req, "x-admin-token"));

    if (!text.at || text.len == 0) {
        return session_check(api, req, out, err);
    }
    *out = admin_find_text(api, text, err);
    return *out ? 0 : -EACCES;
}

/* A start without it is better than none: a full disk must not keep the daemon down. */
void api_prepare_admin_token(struct api *api, const char *path)
{
    char text[ADMIN_TEXT_LEN + 1];
    struct admin_key *key = admin_key_new("the operator of this machine", text);
    struct err err;

    if (key_file_write(path, text, &err) < 0) {
        log_warn("`atoll team` and `atoll admin-key` have no token to ask with: %s", err.msg);
    }
    explicit_bzero(text, sizeof(text));
    key->passing = true;
    HASH_ADD_STR(api->admin_keys, hash, key);
}

/* ---- /admin/keys ---- */

static json_t *key_json(const struct admin_key *key)
{
    json_t *out = json_object();

    (void)json_object_set_new(out, "id", json_string(key->id));
    (void)json_object_set_new(out, "name", json_string(key->name));
    (void)json_object_set_new(out, "masked", json_string(key->masked));
    (void)json_object_set_new(out, "createdAt", stamp_json(key->created_ms));
    (void)json_object_set_new(out, "lastUsed",
                              key->last_used_ms ? stamp_json(key->last_used_ms) : json_null());
    return out;
}

void handle_admin_keys_list(struct call *call, const json_t *body)
{
    json_t *list = json_array();
    const struct admin_key *key = NULL, *next = NULL;

    (void)body;
    HASH_ITER (hh, call->api->admin_keys, key, next) {
        if (!key->passing) {
            (void)json_array_append_new(list, key_json(key));
        }
    }
    call_json(call, 200, list);
}

struct change {
    struct call *call;
    struct admin_key *key;
    char text[ADMIN_TEXT_LEN + 1]; /* create */
};

static struct change *change_new(struct call *call, struct admin_key *key)
{
    struct change *change = xnew(struct change);

    change->call = call;
    change->key = key;
    return change;
}

static void change_free(struct change *change)
{
    explicit_bzero(change->text, sizeof(change->text));
    free(change);
}

/* The key works once it is on disk. Its text is shown then, and never again. */
static void on_created(void *ctx, int error, const struct err *err)
{
    struct change *change = ctx;
    struct call *call = change->call;

    if (error < 0) {
        admin_key_free(change->key);
        call_fail_err(call, error, err);
    } else {
        json_t *reply = key_json(change->key);

        (void)json_object_set_new(reply, "key", json_string(change->text));
        HASH_ADD_STR(call->api->admin_keys, hash, change->key);
        call_json(call, 201, reply);
    }
    change_free(change);
}

void handle_admin_keys_create(struct call *call, const json_t *body)
{
    const char *name = NULL;
    struct err err;
    int r = key_name_parse(body, &name, &err);

    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    if (HASH_COUNT(call->api->admin_keys) > ADMIN_KEYS_MAX) {
        call_fail(call, 403, "there are %d admin keys, which is the most there can be",
                  ADMIN_KEYS_MAX);
        return;
    }
    struct change *change = change_new(call, NULL);
    change->key = admin_key_new(name, change->text);
    save(call->api, change->key, on_created, change);
}

static void on_deleted(void *ctx, int error, const struct err *err)
{
    struct change *change = ctx;
    struct call *call = change->call;

    if (error < 0) { /* the key is still on disk, so memory must have it too */
        HASH_ADD_STR(call->api->admin_keys, hash, change->key);
        call_fail_err(call, error, err);
    } else {
        admin_key_free(change->key);
        call_empty(call, 204);
    }
    change_free(change);
}

void handle_admin_keys_delete(struct call *call, const json_t *body)
{
    struct admin_key *key = NULL, *next = NULL;

    (void)body;
    HASH_ITER (hh, call->api->admin_keys, key, next) {
        if (!key->passing && strcmp(key->id, call->param) == 0) {
            HASH_DEL(call->api->admin_keys, key); /* it stops working at once */
            store_admin_key_delete(call->api->options.store, key->id, on_deleted,
                                   change_new(call, key));
            return;
        }
    }
    call_fail(call, 404, "id not found");
}
