#include "serve/secrets/shell/shells.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "serve/secrets/seal.h"
#include "serve/store/mirror.h"

enum { OWNER_BYTES = ID_UUID_LEN + SHELL_NAME_BYTES_MAX + 16 };

struct entry {
    struct mirrored as;
    char team_id[ID_UUID_LEN + 1];
    char owner[OWNER_BYTES]; /* the team and the name: a sealed value is bound to it */
    struct shell *shell;
    char *sealed; /* NULL: its value has placeholders */
    struct shell_times times;
};

struct shells {
    struct store *store;
    const struct secrets *secrets;
    struct mirror mirror; /* by name */
};

/* ---- the table ---- */

static struct entry *entry_of(struct mirrored *one)
{
    return one ? container_of(one, struct entry, as) : NULL;
}

static void entry_free(struct entry *entry)
{
    shell_free(entry->shell);
    free(entry->sealed);
    free(entry);
}

static void on_free(struct mirrored *one)
{
    entry_free(entry_of(one));
}

static int by_name(struct mirrored *a, struct mirrored *b)
{
    return strcmp(a->name, b->name);
}

static struct entry *entry_find(const struct shells *all, const char *team_id, struct str name)
{
    return entry_of(mirror_named(&all->mirror, team_id, name));
}

/* NULL with the sentence when the definition is invalid. */
static struct entry *entry_new(const char *team_id, const char *name, json_t *definition,
                               struct err *err)
{
    struct entry *entry = xnew(struct entry);

    if (!str_copy(entry->team_id, sizeof(entry->team_id), str_of(team_id))) {
        (void)err_set(err, EINVAL, "the id of a team is too long");
    } else if (shell_new(name, definition, &entry->shell, err) == 0) {
        (void)snprintf(entry->owner, OWNER_BYTES, "shell %s %s", team_id, entry->shell->name);
        entry->as = (struct mirrored){
            .id = entry->owner, .team_id = entry->team_id, .name = entry->shell->name};
        return entry;
    }
    entry_free(entry);
    return NULL;
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
    struct mirrored *one = NULL;

    while ((one = mirror_next(&all->mirror, team_id, one))) {
        each(ctx, entry_of(one)->shell, entry_of(one)->times);
    }
}

/* ---- keys ---- */

int shells_value(const struct shells *all, const char *team_id, struct str name, struct buf *out,
                 struct err *err)
{
    const struct entry *entry = entry_find(all, team_id, name);

    if (!entry || !entry->sealed) {
        return err_set(err, ENOENT, "there is no shell \"%.*s\" with a key of its own",
                       (int)name.len, ours(name.at));
    }
    return secrets_unseal(all->secrets, entry->owner, entry->sealed, out) < 0
               ? err_set(err, EBADMSG,
                         "the key of shell \"%s\" cannot be opened with this server's key",
                         ours(entry->shell->name))
               : 0;
}

static int value_seal(const struct shells *all, struct entry *entry, const char *value,
                      struct err *err)
{
    scoped_buf(text, SEAL_TEXT_BYTES_MAX);
    int r = secret_value_check(value, err);

    if (r == 0 && secrets_seal(all->secrets, entry->owner, str_of(value), &text) < 0) {
        r = err_set(err, ENOBUFS, "the key of shell \"%s\" could not be sealed",
                    ours(entry->shell->name));
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

/* Moves a value without placeholder out of the definition, which then says "sealed". No value may
 * mean that the sealed value stays. A value that is no text stays there, and is refused later. */
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

static int key_take(const struct shells *all, struct entry *entry, const struct entry *before,
                    enum given given, const char *value, struct err *err)
{
    if (given == GIVEN_PLACEHOLDER) {
        return 0;
    }
    if (given == GIVEN_VALUE) {
        return value_seal(all, entry, value, err);
    }
    if (!before || !before->sealed || !same_place(before->shell, entry->shell)) {
        return err_set(err, EINVAL, "validation error: the key's value is missing%s",
                       before && before->sealed ? ": a sealed one stays with its base URL" : "");
    }
    entry->sealed = xstrdup(before->sealed);
    return 0;
}

static int entry_complete(const struct shells *all, struct entry *entry, enum given given,
                          const char *value, struct err *err)
{
    const struct entry *before = entry_find(all, entry->team_id, str_of(entry->shell->name));
    int r = key_take(all, entry, before, given, value, err);

    if (r == 0 && !before && mirror_count(&all->mirror, entry->team_id) >= SHELLS_PER_TEAM_MAX) {
        r = err_set(err, ENOSPC, "the team has as many shells as it can have (%d)",
                    SHELLS_PER_TEAM_MAX);
    }
    entry->times.updated_ms = clock_wall_ms();
    entry->times.created_ms = before ? before->times.created_ms : entry->times.updated_ms;
    return r;
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

    store_shell_save(all->store, &row, mirror_changed,
                     mirror_adds(&all->mirror, &entry->as, done, ctx));
    free(text);
}

int shells_put(struct shells *all, const char *team_id, const char *name, const json_t *definition,
               store_done *done, void *ctx, struct err *err)
{
    json_t *own = json_deep_copy(definition);
    scoped_text value = NULL;
    enum given given = value_take(own, &value);
    struct entry *entry = entry_new(team_id, name, own, err);
    int r = entry ? entry_complete(all, entry, given, value, err) : -err->code;

    json_decref(own);
    if (value) {
        explicit_bzero(value, strlen(value));
    }
    if (r == 0) {
        entry_save(all, entry, done, ctx);
    } else if (entry) {
        entry_free(entry);
    }
    return r;
}

int shells_delete(struct shells *all, const char *team_id, const char *name, store_done *done,
                  void *ctx, struct err *err)
{
    struct entry *entry = entry_find(all, team_id, str_of(name));

    if (!entry) {
        return err_set(err, ENOENT, "there is no shell \"%.64s\"", ours(name));
    }
    store_shell_delete(all->store, team_id, name, mirror_changed,
                       mirror_removes(&all->mirror, &entry->as, done, ctx));
    return 0;
}

/* ---- life ---- */

static void on_loaded(void *ctx, const struct shell_row *row)
{
    struct shells *all = ctx;
    json_t *definition = json_loads(row->definition, 0, NULL);
    struct err err;
    struct entry *entry = entry_new(row->team_id, row->name, definition, &err);

    if (!entry) {
        log_warn("a shell in the store is damaged, and left out");
    } else {
        entry->sealed = xstrdup(row->sealed);
        entry->times = (struct shell_times){row->created_ms, row->updated_ms};
        mirror_put(&all->mirror, &entry->as);
    }
    json_decref(definition);
}

int shells_new(struct store *store, const struct secrets *secrets, struct shells **out,
               struct err *err)
{
    struct shells *all = xnew(struct shells);

    *all = (struct shells){
        .store = store, .secrets = secrets, .mirror = {.order = by_name, .free = on_free}};
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
    if (all) {
        mirror_fini(&all->mirror);
        free(all);
    }
}
