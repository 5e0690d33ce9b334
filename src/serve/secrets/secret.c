#include "serve/secrets/secret.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/text.h"
#include "serve/secrets/seal.h"
#include "serve/store/mirror.h"

enum { OWNER_BYTES = ID_UUID_LEN + SECRET_ID_BYTES + 32 };

struct entry {
    struct mirrored as;
    struct secret shown;
    char id[SECRET_ID_BYTES];
    char team_id[ID_UUID_LEN + 1];
    char name[SECRET_NAME_BYTES_MAX + 1];
    char *sealed;
    unsigned saving; /* changes on their way to the disk */
    bool gone;
};

struct secrets {
    struct store *store;
    uint8_t key[SECRET_KEY_BYTES];
    uint8_t key_of_others[SECRET_KEY_BYTES]; /* for values of other modules */
    struct mirror mirror;                    /* oldest first */
};

/* ---- entries ---- */

/* The text that a sealed value is bound to. */
static void owner_text(const struct entry *entry, int64_t version, char out[OWNER_BYTES])
{
    (void)snprintf(out, OWNER_BYTES, "%s %s %lld", entry->team_id, entry->id, (long long)version);
}

static struct entry *entry_new(const char *id, const char *team_id, const char *name)
{
    struct entry *entry = xnew(struct entry);

    if (!str_copy(entry->id, sizeof(entry->id), str_of(id)) ||
        !str_copy(entry->team_id, sizeof(entry->team_id), str_of(team_id)) ||
        !str_copy(entry->name, sizeof(entry->name), str_of(name))) {
        free(entry);
        return NULL;
    }
    entry->shown = (struct secret){.id = entry->id, .name = entry->name, .team_id = entry->team_id};
    entry->as = (struct mirrored){.id = entry->id, .team_id = entry->team_id, .name = entry->name};
    return entry;
}

static void entry_free(struct entry *entry)
{
    json_decref(entry->shown.metadata);
    free(entry->sealed);
    free(entry);
}

static struct entry *entry_of(struct mirrored *one)
{
    return one ? container_of(one, struct entry, as) : NULL;
}

/* Takes it out of the mirror. If a change of it is not stored yet, on_changed() frees it. */
static void entry_leave(struct secrets *all, struct entry *entry)
{
    if (!entry->gone) {
        entry->gone = true;
        mirror_take(&all->mirror, &entry->as);
    }
    if (entry->saving == 0) {
        entry_free(entry);
    }
}

/* Names are kept in lower case. */
static struct entry *entry_find(const struct secrets *all, const char *team_id,
                                const char *selector)
{
    struct mirrored *one = mirror_of_team(&all->mirror, team_id, selector);
    char name[SECRET_NAME_BYTES_MAX + 1];

    if (!one && str_copy(name, sizeof(name), str_of(selector))) {
        for (char *at = name; *at; at++) {
            *at = char_lower(*at);
        }
        one = mirror_named(&all->mirror, team_id, str_of(name));
    }
    return entry_of(one);
}

/* The caller has found the secret before. */
static struct entry *entry_shown(const struct secrets *all, const struct secret *secret)
{
    struct entry *entry = entry_of(mirror_find(&all->mirror, secret->id));

    assert(entry);
    return entry;
}

static int entry_seal(const struct secrets *all, struct entry *entry, const char *value,
                      int64_t version)
{
    char owner[OWNER_BYTES];
    scoped_buf(text, SEAL_TEXT_BYTES_MAX);

    owner_text(entry, version, owner);
    int r = seal(all->key, owner, str_of(value), &text);
    if (r == 0) {
        text_set(&entry->sealed, buf_at(&text));
        entry->shown.version = version;
        entry->shown.updated_ms = clock_wall_ms();
    }
    return r;
}

/* ---- looking ---- */

const struct secret *secrets_find(const struct secrets *all, const char *team_id,
                                  const char *selector)
{
    const struct entry *entry = entry_find(all, team_id, selector);

    return entry ? &entry->shown : NULL;
}

void secrets_each(const struct secrets *all, const char *team_id,
                  bool (*each)(void *ctx, const struct secret *secret), void *ctx)
{
    struct mirrored *one = NULL;

    while ((one = mirror_next(&all->mirror, team_id, one)) && each(ctx, &entry_of(one)->shown)) {
    }
}

int secret_value(const struct secrets *all, const char *team_id, struct str name, struct buf *out,
                 struct err *err)
{
    char selector[SECRET_NAME_BYTES_MAX + 1];
    char owner[OWNER_BYTES];
    const struct entry *entry =
        str_copy(selector, sizeof(selector), name) ? entry_find(all, team_id, selector) : NULL;

    if (!entry) {
        return err_set(err, ENOENT, "there is no secret \"%.*s\"", (int)name.len, ours(name.at));
    }
    owner_text(entry, entry->shown.version, owner);
    int r = unseal(all->key, owner, entry->sealed, out);
    if (r == -ENOBUFS) {
        return err_set(err, ENOBUFS, "secret \"%s\" is too long for a header", ours(entry->name));
    }
    return r < 0 ? err_set(err, EBADMSG, "secret \"%s\" cannot be opened with this server's key",
                           ours(entry->name))
                 : 0;
}

int secrets_seal(const struct secrets *all, const char *of, struct str value, struct buf *out)
{
    return seal(all->key_of_others, of, value, out);
}

int secrets_unseal(const struct secrets *all, const char *of, const char *sealed, struct buf *out)
{
    return unseal(all->key_of_others, of, sealed, out);
}

/* ---- checks of names and values ---- */

int secret_name_check(const char *name, char out[SECRET_NAME_BYTES_MAX + 1], struct err *err)
{
    static const char known[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    size_t len = strlen(name);

    if (len == 0 || len > SECRET_NAME_BYTES_MAX || strspn(name, known) != len) {
        return err_set(err, EINVAL,
                       "validation error: name must be 1 to %d letters, digits, \"-\" and \"_\"",
                       SECRET_NAME_BYTES_MAX);
    }
    for (size_t i = 0; i <= len; i++) {
        out[i] = char_lower(name[i]);
    }
    if (str_starts(str_of(out), STR(SECRET_ID_PREFIX))) {
        return err_set(err, EINVAL, "validation error: name must not begin with " SECRET_ID_PREFIX);
    }
    return 0;
}

int secret_value_check(const char *value, struct err *err)
{
    size_t len = strlen(value);

    if (len == 0 || len > SECRET_VALUE_BYTES_MAX) {
        return err_set(err, EINVAL, "validation error: value must be 1 to %d bytes",
                       SECRET_VALUE_BYTES_MAX);
    }
    for (size_t i = 0; i < len; i++) {
        if (((unsigned char)value[i] < ' ' && value[i] != '\t') || value[i] == 0x7f) {
            return err_set(err, EINVAL,
                           "validation error: value must not hold line ends or other control"
                           " characters: it is sent in headers");
        }
    }
    return 0;
}

int secret_metadata_check(const json_t *metadata, struct err *err)
{
    json_t *object = (json_t *)(uintptr_t)metadata; /* json_object_foreach() takes no const */
    size_t bytes = 0;
    const char *name;
    json_t *value;

    if (!json_is_object(metadata) || json_object_size(metadata) > SECRET_METADATA_MAX) {
        return err_set(err, EINVAL,
                       "validation error: metadata must be an object of at most %d entries",
                       SECRET_METADATA_MAX);
    }
    json_object_foreach (object, name, value) {
        if (!json_is_string(value) || strlen(name) > SECRET_METADATA_KEY_BYTES_MAX ||
            json_string_length(value) > SECRET_METADATA_VALUE_BYTES_MAX) {
            return err_set(err, EINVAL,
                           "validation error: metadata has names of at most %d and texts of at"
                           " most %d bytes",
                           SECRET_METADATA_KEY_BYTES_MAX, SECRET_METADATA_VALUE_BYTES_MAX);
        }
        bytes += strlen(name) + json_string_length(value);
    }
    return bytes <= SECRET_METADATA_BYTES_MAX
               ? 0
               : err_set(err, EINVAL, "validation error: metadata must be at most %d bytes",
                         SECRET_METADATA_BYTES_MAX);
}

/* ---- changing ---- */

/* A change that is not stored yet, and the values before it. */
struct change {
    struct secrets *all;
    struct entry *entry;
    struct secret before;
    char *sealed_before; /* NULL: it is new */
    secret_saved *done;
    void *ctx;
};

static void change_undo(struct change *change)
{
    struct entry *entry = change->entry;

    if (!change->sealed_before) {
        if (!entry->gone) {
            entry->gone = true;
            mirror_take(&change->all->mirror, &entry->as);
        }
        return;
    }
    free(entry->sealed);
    entry->sealed = move_ptr(&change->sealed_before);
    json_decref(entry->shown.metadata);
    entry->shown = change->before;
    change->before.metadata = NULL;
}

static void on_changed(void *ctx, int error, const struct err *err)
{
    struct change *change = ctx;
    struct entry *entry = change->entry;

    entry->saving--;
    if (error < 0) {
        change_undo(change);
    }
    change->done(change->ctx, error < 0 ? NULL : &entry->shown, error, err);
    if (entry->gone && entry->saving == 0) {
        entry_free(entry);
    }
    json_decref(change->before.metadata);
    free(change->sealed_before);
    free(change);
}

static void entry_save(struct change *change)
{
    struct entry *entry = change->entry;
    char *metadata = json_dumps(entry->shown.metadata, JSON_COMPACT);
    const struct secret_row row = {.id = entry->id,
                                   .team_id = entry->team_id,
                                   .name = entry->name,
                                   .metadata = metadata ? metadata : "{}",
                                   .sealed = entry->sealed,
                                   .version = entry->shown.version,
                                   .created_ms = entry->shown.created_ms,
                                   .updated_ms = entry->shown.updated_ms};

    entry->saving++;
    store_secret_save(change->all->store, &row, on_changed, change);
    free(metadata);
}

static void fail(secret_saved *done, void *ctx, int code, const char *why)
{
    struct err err;

    done(ctx, NULL, err_set(&err, code, "%s", ours(why)), &err);
}

/* Lists are read page by page: the order of secrets of the same millisecond must not change. */
static int by_age(struct mirrored *a, struct mirrored *b)
{
    int64_t a_ms = entry_of(a)->shown.created_ms;
    int64_t b_ms = entry_of(b)->shown.created_ms;

    if (a_ms != b_ms) {
        return a_ms < b_ms ? -1 : 1;
    }
    return strcmp(a->id, b->id);
}

void secret_create(struct secrets *all, const char *team_id, const char *name, const char *value,
                   const json_t *metadata, secret_saved *done, void *ctx)
{
    char id[SECRET_ID_BYTES] = SECRET_ID_PREFIX;

    id_uuid(id + sizeof(SECRET_ID_PREFIX) - 1);
    if (entry_find(all, team_id, name)) {
        fail(done, ctx, EEXIST, "a secret of that name exists already");
        return;
    }
    if (mirror_count(&all->mirror, team_id) >= SECRETS_PER_TEAM_MAX) {
        fail(done, ctx, ENOSPC, "the team has as many secrets as it can have");
        return;
    }
    struct entry *entry = entry_new(id, team_id, name);
    if (!entry || entry_seal(all, entry, value, 1) < 0) {
        abort(); /* all of it has been checked */
    }
    entry->shown.created_ms = entry->shown.updated_ms;
    entry->shown.metadata = metadata ? json_deep_copy(metadata) : json_object();
    mirror_put(&all->mirror, &entry->as);
    struct change *change = xnew(struct change);
    *change = (struct change){.all = all, .entry = entry, .done = done, .ctx = ctx};
    entry_save(change);
}

void secret_update(struct secrets *all, const struct secret *secret, const char *value,
                   const json_t *metadata, secret_saved *done, void *ctx)
{
    struct entry *entry = entry_shown(all, secret);

    if (entry->saving > 0) {
        fail(done, ctx, EAGAIN, "the secret is being changed by another call: try again");
        return;
    }
    struct change *change = xnew(struct change);

    *change = (struct change){.all = all,
                              .entry = entry,
                              .before = entry->shown,
                              .sealed_before = xstrdup(entry->sealed),
                              .done = done,
                              .ctx = ctx};
    json_incref(change->before.metadata);
    if (entry_seal(all, entry, value, entry->shown.version + 1) < 0) {
        abort(); /* its length has been checked */
    }
    if (metadata) {
        json_decref(entry->shown.metadata);
        entry->shown.metadata = json_deep_copy(metadata);
    }
    entry_save(change);
}

void secret_delete(struct secrets *all, const struct secret *secret, store_done *done, void *ctx)
{
    struct entry *entry = entry_shown(all, secret);

    store_secret_delete(all->store, entry->id, done, ctx);
    entry_leave(all, entry);
}

/* ---- life ---- */

static void on_loaded(void *ctx, const struct secret_row *row)
{
    struct secrets *all = ctx;
    struct entry *entry = entry_new(row->id, row->team_id, row->name);

    if (!entry) {
        log_warn("a secret in the store is damaged, and left out");
        return;
    }
    entry->sealed = xstrdup(row->sealed);
    entry->shown.version = row->version;
    entry->shown.created_ms = row->created_ms;
    entry->shown.updated_ms = row->updated_ms;
    entry->shown.metadata = json_loads(row->metadata, 0, NULL);
    if (!json_is_object(entry->shown.metadata)) {
        json_decref(entry->shown.metadata);
        entry->shown.metadata = json_object();
    }
    mirror_put(&all->mirror, &entry->as);
}

int secrets_new(struct store *store, const uint8_t key[SECRET_KEY_BYTES], struct secrets **out,
                struct err *err)
{
    struct secrets *all = xnew(struct secrets);

    all->store = store;
    all->mirror.order = by_age;
    key_derive(key, "secrets", all->key);
    key_derive(key, "kept by others", all->key_of_others);
    int r = store_load_secrets(store, on_loaded, all, err);
    if (r < 0) {
        secrets_free(all);
        return r;
    }
    *out = all;
    return 0;
}

void secrets_free(struct secrets *all)
{
    if (!all) {
        return;
    }
    while (all->mirror.first) {
        entry_leave(all, entry_of(all->mirror.first));
    }
    explicit_bzero(all->key, sizeof(all->key));
    explicit_bzero(all->key_of_others, sizeof(all->key_of_others));
    free(all);
}
