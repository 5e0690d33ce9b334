/* fork.c - copies of a running sandbox: it is saved once, the copies are started from that save, a
 * few at a time, and then the save is removed. A sandbox in which nothing runs but the agent is
 * saved without its memory (alone.c). Each copy is a sandbox of its own, with its own id
 * and tokens, and with the options that its parent was created with. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "serve/sandbox/internal.h"

enum { TRAFFIC_TOKEN_BYTES = 20 };

struct forking {
    struct save save;
    struct alone alone; /* in use while save.alone is not NULL */
    struct sandbox_fork asked;
    struct sandboxes *all;  /* counted, from the save on */
    struct template parent; /* owns its texts */
    json_t *metadata, *env_vars, *options;
    char *team_id, *parent_id;
    char *maker; /* NULL: none */
    bool secure;
    uint32_t begun, under_way, ended;
};

struct child {
    struct forking *forking;
    uint32_t index;
};

static void template_fini(struct template *t)
{
    free(t->id);
    free(t->alias);
    free(t->build_id);
    free(t->layers);
    free(t->user);
    free(t->workdir);
    free(t->env_json);
    free(t->saved);
}

static void forking_free(struct forking *forking)
{
    template_fini(&forking->parent);
    alone_fini(&forking->alone);
    json_decref(forking->metadata);
    json_decref(forking->env_vars);
    json_decref(forking->options);
    free(forking->team_id);
    free(forking->parent_id);
    free(forking->maker);
    free(forking);
}

/* ---- the children ---- */

static void children_start(struct forking *forking);

/* The event of the copy names its parent; this one, of the parent, names the copy. A parent that is
 * gone by now has no more events. */
static void parent_tell(const struct forking *forking, const struct sandbox *copy)
{
    struct sandbox *parent = sandboxes_find(forking->all, str_of(forking->parent_id));
    json_t *data = json_pack("{ss}", "fork_id", copy->id);

    if (parent && data) {
        sandbox_tell(parent, "sandbox.lifecycle.forked", data);
    }
    json_decref(data);
}

static void on_child(void *ctx, struct sandbox *sb, int error, const struct err *err)
{
    struct child *child = ctx;
    struct forking *forking = child->forking;

    forking->under_way--;
    forking->ended++;
    if (error == 0) {
        parent_tell(forking, sb);
    }
    forking->asked.each(forking->asked.ctx, child->index, sb, error, err);
    free(child);
    children_start(forking);
}

/* More sandboxes may have been made since the fork was asked for. */
static bool child_admit(struct forking *forking)
{
    const struct sandboxes_options *use = &forking->all->use;
    const struct sandbox_wanted wanted = {
        .team_id = forking->team_id,
        .maker = forking->maker,
        .cpu_count = forking->parent.cpu_count,
        .memory_mb = forking->parent.memory_mb,
        .disk_bytes = (uint64_t)forking->parent.disk_mb << 20,
    };
    struct err err;
    int r = use->admit ? use->admit(use->admit_ctx, &wanted, &err) : 0;

    if (r < 0) {
        forking->ended++;
        forking->asked.each(forking->asked.ctx, forking->begun++, NULL, r, &err);
    }
    return r == 0;
}

static void child_start(struct forking *forking)
{
    struct child *child = xnew(struct child);
    char token[2 * TRAFFIC_TOKEN_BYTES + 1];
    struct sandbox_params params = {.team_id = forking->team_id,
                                    .template = &forking->parent,
                                    .timeout_ms = forking->asked.timeout_ms,
                                    .secure = forking->secure,
                                    .metadata = forking->metadata,
                                    .env_vars = forking->env_vars,
                                    .options = forking->options,
                                    .fork_of = forking->parent_id,
                                    .alone = forking->save.alone,
                                    .trace = &forking->save.trace};

    *child = (struct child){.forking = forking, .index = forking->begun++};
    forking->under_way++;
    if (json_object_get(forking->options, "trafficAccessToken")) {
        id_hex(token, TRAFFIC_TOKEN_BYTES);
        (void)json_object_set_new(forking->options, "trafficAccessToken", json_string(token));
    }
    sandbox_create(forking->all, &params, on_child, child);
}

/* The daemon is stopping. */
static void children_refuse(struct forking *forking)
{
    struct err err;

    (void)err_set(&err, EAGAIN, "the daemon is stopping; try again");
    while (forking->begun < forking->asked.count) {
        forking->ended++;
        forking->asked.each(forking->asked.ctx, forking->begun++, NULL, -EAGAIN, &err);
    }
}

/* Without the memory each is little work, and waits for the disk. */
static uint32_t at_once(const struct forking *forking)
{
    return forking->save.alone ? SANDBOX_FORKS_ALONE_AT_ONCE : SANDBOX_FORKS_AT_ONCE;
}

/* The last to end frees. */
static void children_start(struct forking *forking)
{
    struct sandboxes *all = forking->all;

    if (all->closed) {
        children_refuse(forking);
    }
    while (forking->begun < forking->asked.count && forking->under_way < at_once(forking)) {
        if (child_admit(forking)) {
            child_start(forking);
        }
    }
    if (forking->ended == forking->asked.count) {
        if (alone_has_save(&forking->save)) {
            saved_release(all, forking->save.name);
            saved_forget(all, forking->save.name);
        }
        forking_free(forking);
        sandboxes_release(all);
    }
}

/* ---- the parent ---- */

static char *dumped(const json_t *object)
{
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;

    return text ? text : xstrdup("{}");
}

/* Copies the parent as it is now: it may be gone when the last child starts. */
static void parent_copy(struct forking *forking, const struct sandbox *sb)
{
    const char *user = json_string_value(json_object_get(sb->init, "defaultUser"));
    const char *workdir = json_string_value(json_object_get(sb->init, "defaultWorkdir"));
    const char *saved = alone_has_save(&forking->save) ? forking->save.name : NULL;

    forking->parent = (struct template){.id = xstrdup(sb->template_id),
                                        .alias = xstrdup(sb->template_alias),
                                        .build_id = xstrdup(sb->build_id),
                                        .layers = xstrdup(sb->layers),
                                        .user = xstrdup(user),
                                        .workdir = xstrdup(workdir),
                                        .env_json = dumped(json_object_get(sb->init, "envVars")),
                                        .cpu_count = sb->cpu_count,
                                        .memory_mb = sb->memory_mb,
                                        .disk_mb = sb->disk_mb,
                                        .saved = xstrdup(saved)};
    forking->metadata = json_deep_copy(sb->metadata);
    forking->env_vars = json_deep_copy(sb->env_vars);
    forking->options = json_deep_copy(sb->options);
    if (!forking->metadata || !forking->env_vars || !forking->options) {
        abort();
    }
    (void)json_object_del(forking->options, SANDBOX_KEY_OPTION);
    (void)json_object_del(forking->options, "idempotencyHash");
    (void)json_object_del(forking->options, SANDBOX_MAKER_OPTION);
    if (forking->maker) {
        (void)json_object_set_new(forking->options, SANDBOX_MAKER_OPTION,
                                  json_string(forking->maker));
    }
    forking->team_id = xstrdup(sb->team_id);
    forking->parent_id = xstrdup(sb->id);
    forking->secure = sb->access_token != NULL;
}

static void on_saved(struct save *save, int error, const struct err *err,
                     const struct keeper_saved *saved)
{
    struct forking *forking = container_of(save, struct forking, save);

    (void)saved;
    if (error < 0) {
        forking->asked.failed(forking->asked.ctx, error, err);
        forking_free(forking);
        return;
    }
    forking->all = save->sb->all;
    forking->all->refs++;
    *(save->alone ? &forking->all->forks_of_disks : &forking->all->forks_of_memory) +=
        forking->asked.count;
    if (alone_has_save(save)) {
        saved_hold(forking->all, save->name);
    }
    parent_copy(forking, save->sb);
    children_start(forking);
}

void sandbox_fork(struct sandbox *sb, const struct sandbox_fork *fork)
{
    struct forking *forking = xnew(struct forking);

    forking->asked = *fork;
    forking->asked.maker = NULL;
    forking->maker = xstrdup(fork->maker);
    forking->save.flags = KEEPER_SAVE_MEMORY;
    forking->save.done = on_saved;
    forking->save.many = fork->count > 1;
    forking->save.alone = alone_possible(sb) ? &forking->alone : NULL;
    for (size_t i = 0; i < ALONE_FDS; i++) {
        forking->alone.fds[i] = -1;
    }
    if (forking->save.alone) {
        saved_name_disk(forking->save.name);
    } else {
        saved_name_fork(&forking->save);
    }
    save_add(sb, &forking->save);
}
