#include "serve/secrets/shell/shells.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "serve/secrets/seal.h"

enum { OWNER_BYTES = ID_UUID_LEN + SHELL_NAME_BYTES_MAX + 16 };

struct entry {
    struct entry *prev, *next;
    char team_id[ID_UUID_LEN + 1];
    struct shell *shell;
    char *sealed; /* NULL: its value has placeholders */
    struct shell_times times;
};

struct shells {
    struct store *store;
    const struct secrets *secrets;
    struct entry *entries; /* by name */
};

/* ---- the table ---- */

static void entry_free(struct entry *entry)
{
    if (entry) {
        shell_free(entry->shell);
        free(entry->sealed);
        free(entry);
    }
}

static struct entry *entry_find(const struct shells *all, const char *team_id, struct str name)
{
    struct entry *entry;

    DL_FOREACH (all->entries, entry) {
        if (strcmp(entry->team_id, team_id) == 0 && str_eq(str_of(entry->shell->name), name)) {
            return entry;
        }
    }
    return NULL;
}

static int by_name(const struct entry *a, const struct entry *b)
{
    return strcmp(a->shell->name, b->shell->name);
}

static void entry_remove(struct shells *all, const char *team_id, const char *name)
{
    struct entry *entry = entry_find(all, team_id, str_of(name));

    if (entry) {
        DL_DELETE(all->entries, entry);
        entry_free(entry);
    }
}

const struct shell *shells_find(const struct shells *all, const char *team_id, struct str name)
{
    const struct entry *entry = entry_find(all, team_id, name);

    return entry ? entry->shell : NULL;
}

void shells_each(const struct shells *all, const char *team_id,
                 void (*each)(void *ctx, const struct shell *shell, struct shell_times times),
                 void *ctx)
{
    const struct entry *entry;

    DL_FOREACH (all->entries, entry) {
        if (strcmp(entry->team_id, team_id) == 0) {
            each(ctx, entry->shell, entry->times);
        }
    }
}

static size_t count(const struct shells *all, const char *team_id)
{
    const struct entry *entry;
    size_t n = 0;

    DL_FOREACH (all->entries, entry) {
        n += strcmp(entry->team_id, team_id) == 0;
    }
    return n;
}

/* ---- keys ---- */

/* What a sealed value is bound to. */
static void owner_text(const char *team_id, const char *name, char out[OWNER_BYTES])
{
    (void)snprintf(out, OWNER_BYTES, "shell %s %s", team_id, name);
}

int shells_value(const struct shells *all, const char *team_id, struct str name, struct buf *out,
                 struct err *err)
{
    const struct entry *entry = entry_find(all, team_id, name);
    char owner[OWNER_BYTES];

    if (!entry || !entry->sealed) {
        return err_set(err, ENOENT, "there is no shell \"%.*s\" with a key of its own",
                       (int)name.len, ours(name.at));
    }
    owner_text(team_id, entry->shell->name, owner);
    return secrets_unseal(all->secrets, owner, entry->sealed, out) < 0
               ? err_set(err, EBADMSG,
                         "the key of shell \"%s\" cannot be opened with this server's key",
                         ours(entry->shell->name))
               : 0;
}

static int value_seal(const struct shells *all, struct entry *entry, const char *name,
                      const char *value, struct err *err)
{
    char owner[OWNER_BYTES];
    scoped_buf(text, SEAL_TEXT_BYTES_MAX);
    int r = secret_value_check(value, err);

    owner_text(entry->team_id, name, owner);
    if (r == 0 && secrets_seal(all->secrets, owner, str_of(value), &text) < 0) {
        r = err_set(err, ENOBUFS, "the key of shell \"%s\" could not be sealed", ours(name));
    }
    if (r == 0) {
        entry->sealed = xstrdup(buf_at(&text));
    }
    return r;
}

static bool same_place(const struct shell *a, const struct shell *b)
{
    return a->secure == b->secure && strcmp(a->authority, b->authority) == 0 &&
           strcmp(a->base, b->base) == 0;
}

/* ---- changes ---- */

enum given { GIVEN_PLACEHOLDER, GIVEN_VALUE, GIVEN_NOTHING };

/* Takes a value that has no placeholder out of the definition, and says so there. Nothing given may
 * mean the sealed one that there is; what is no text stays, to be refused. */
static enum given value_take(json_t *definition, char **value)
{
    json_t *header = json_object_get(definition, "header");
    json_t *field = header ? header : json_object_get(definition, "query");
    const json_t *given = json_object_get(field, "value");
    const char *text = json_string_value(given);

    (void)json_object_del(field, "sealed");
    if (given && (!text || !text[0] || transform_has_placeholder(text))) {
        return GIVEN_PLACEHOLDER;
    }
    *value = xstrdup(text);
    (void)json_object_del(field, "value");
    (void)json_object_set_new(field, "sealed", json_true());
    return *value ? GIVEN_VALUE : GIVEN_NOTHING;
}

static int key_take(const struct shells *all, struct entry *entry, enum given given,
                    const char *value, struct err *err)
{
    const struct shell *shell = entry->shell;
    const struct entry *before = entry_find(all, entry->team_id, str_of(shell->name));

    if (given == GIVEN_PLACEHOLDER) {
        return 0;
    }
    if (given == GIVEN_VALUE) {
        return value_seal(all, entry, shell->name, value, err);
    }
    if (!before || !before->sealed || !same_place(before->shell, shell)) {
        return err_set(err, EINVAL, "validation error: the key's value is missing%s",
                       before && before->sealed ? ": a sealed one stays with its base URL" : "");
    }
    entry->sealed = xstrdup(before->sealed);
    return 0;
}

struct change {
    struct shells *all;
    struct entry *entry; /* NULL: it is to be no more */
    char team_id[ID_UUID_LEN + 1];
    char name[SHELL_NAME_BYTES_MAX + 1];
    store_done *done;
    void *ctx;
};

static struct change *change_new(struct shells *all, const char *team_id, const char *name,
                                 store_done *done, void *ctx)
{
    struct change *change = xnew(struct change);

    *change = (struct change){.all = all, .done = done, .ctx = ctx};
    (void)str_copy(change->team_id, sizeof(change->team_id), str_of(team_id));
    (void)str_copy(change->name, sizeof(change->name), str_of(name));
    return change;
}

static void on_recorded(void *ctx, int error, const struct err *err)
{
    struct change *change = ctx;

    if (error < 0) {
        entry_free(change->entry);
    } else {
        entry_remove(change->all, change->team_id, change->name);
    }
    if (error == 0 && change->entry) {
        DL_INSERT_INORDER(change->all->entries, change->entry, by_name);
    }
    change->done(change->ctx, error, err);
    free(change);
}

static void entry_save(struct shells *all, struct entry *entry, store_done *done, void *ctx)
{
    char *text = json_dumps(entry->shell->definition, JSON_COMPACT);
    const struct shell_row row = {.team_id = entry->team_id,
                                  .name = entry->shell->name,
                                  .definition = text ? text : "{}",
                                  .sealed = entry->sealed,
                                  .created_ms = entry->times.created_ms,
                                  .updated_ms = entry->times.updated_ms};

    struct change *change = change_new(all, row.team_id, row.name, done, ctx);
    change->entry = entry;
    store_shell_save(all->store, &row, on_recorded, change);
    free(text);
}

static int entry_make(struct shells *all, struct entry *entry, const char *name,
                      const json_t *definition, struct err *err)
{
    const struct entry *before = entry_find(all, entry->team_id, str_of(name));
    json_t *own = json_deep_copy(definition);
    scoped_text value = NULL;
    enum given given = value_take(own, &value);
    int r = shell_new(name, own, &entry->shell, err);

    json_decref(own);
    r = r < 0 ? r : key_take(all, entry, given, value, err);
    if (value) {
        explicit_bzero(value, strlen(value));
    }
    if (r == 0 && !before && count(all, entry->team_id) >= SHELLS_PER_TEAM_MAX) {
        r = err_set(err, ENOSPC, "the team has as many shells as it can have (%d)",
                    SHELLS_PER_TEAM_MAX);
    }
    entry->times.updated_ms = clock_wall_ms();
    entry->times.created_ms = before ? before->times.created_ms : entry->times.updated_ms;
    return r;
}

int shells_put(struct shells *all, const char *team_id, const char *name, const json_t *definition,
               store_done *done, void *ctx, struct err *err)
{
    struct entry *entry = xnew(struct entry);

    (void)str_copy(entry->team_id, sizeof(entry->team_id), str_of(team_id));
    int r = entry_make(all, entry, name, definition, err);
    if (r < 0) {
        entry_free(entry);
        return r;
    }
    entry_save(all, entry, done, ctx);
    return 0;
}

int shells_delete(struct shells *all, const char *team_id, const char *name, store_done *done,
                  void *ctx, struct err *err)
{
    if (!entry_find(all, team_id, str_of(name))) {
        return err_set(err, ENOENT, "there is no shell \"%.64s\"", ours(name));
    }
    store_shell_delete(all->store, team_id, name, on_recorded,
                       change_new(all, team_id, name, done, ctx));
    return 0;
}

/* ---- life ---- */

static void on_loaded(void *ctx, const struct shell_row *row)
{
    struct shells *all = ctx;
    struct entry *entry = xnew(struct entry);
    json_t *definition = json_loads(row->definition, 0, NULL);
    struct err err;

    if (!str_copy(entry->team_id, sizeof(entry->team_id), str_of(row->team_id)) ||
        shell_new(row->name, definition, &entry->shell, &err) < 0) {
        log_warn("a shell in the store is damaged, and left out");
        entry_free(entry);
    } else {
        entry->sealed = xstrdup(row->sealed);
        entry->times = (struct shell_times){row->created_ms, row->updated_ms};
        DL_INSERT_INORDER(all->entries, entry, by_name);
    }
    json_decref(definition);
}

int shells_new(struct store *store, const struct secrets *secrets, struct shells **out,
               struct err *err)
{
    struct shells *all = xnew(struct shells);

    *all = (struct shells){.store = store, .secrets = secrets};
    int r = store_load_shells(store, on_loaded, all, err);
    if (r < 0) {
        shells_free(all);
        return r;
    }
    *out = all;
    return 0;
}

void shells_free(struct shells *all)
{
    struct entry *entry, *next;

    if (!all) {
        return;
    }
    DL_FOREACH_SAFE (all->entries, entry, next) {
        entry_free(entry);
    }
    free(all);
}
