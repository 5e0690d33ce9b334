/* prestart.c - built-in templates are saved with their start command running.
 *
 *      no save yet ─► an internal jail: start command, ready command ─► KEEPER_SAVE ─► on record
 *
 * This happens in the background, for a single template at a time. Until it is done, and when it
 * fails, every sandbox runs the command itself. The save of a build is removed when the template
 * has a new build. Templates that users build are saved at the end of their build, by
 * template/build/.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/log.h"
#include "serve/sandbox/internal.h"

enum {
    PRESTART_TRIES = 3, /* of one build, in the life of a daemon */
    PRESTART_RETRY_MS = 30 * 1000,
};

/* A built-in template, as it was when it was last looked at. */
struct prestarted {
    struct prestarted *next;
    char template_id[ID_TEMPLATE_LEN + 1];
    char build_id[ID_UUID_LEN + 1];
    char saved[KEEPER_SAVED_BYTES]; /* "": nothing */
    uint32_t tries;
};

/* A single try. */
struct prestart {
    struct sandboxes *all; /* counted */
    struct sandbox *sb;    /* counted, once there is one */
    char template_id[ID_TEMPLATE_LEN + 1];
    char build_id[ID_UUID_LEN + 1];
    char alias[64]; /* for the log */
    char name[KEEPER_SAVED_BYTES];
    bool last;
};

/* ---- the built-in templates ---- */

static struct prestarted *prestarted_of(struct sandboxes *all, const struct template *t)
{
    struct prestarted *prestarted = NULL;

    LL_FOREACH (all->prestarted, prestarted) {
        if (strcmp(prestarted->template_id, t->id) == 0) {
            return prestarted;
        }
    }
    prestarted = xnew(struct prestarted);
    (void)str_copy(prestarted->template_id, sizeof(prestarted->template_id), str_of(t->id));
    LL_PREPEND(all->prestarted, prestarted);
    return prestarted;
}

static void look(void *ctx, const struct template *t)
{
    struct sandboxes *all = ctx;

    if (t->team_id) {
        return;
    }
    struct prestarted *prestarted = prestarted_of(all, t);
    if (strcmp(prestarted->build_id, t->build_id) != 0) {
        (void)str_copy(prestarted->build_id, sizeof(prestarted->build_id), str_of(t->build_id));
        prestarted->tries = 0;
    }
    if (prestarted->saved[0] && (!t->saved || strcmp(prestarted->saved, t->saved) != 0)) {
        saved_forget(all, prestarted->saved);
    }
    prestarted->saved[0] = '\0';
    if (t->saved) {
        (void)str_copy(prestarted->saved, sizeof(prestarted->saved), str_of(t->saved));
    }
}

static bool is_due(const struct prestarted *prestarted, const struct template *t)
{
    return t && t->layers[0] && (t->start_cmd || t->ready_cmd) && !t->saved &&
           prestarted->tries < PRESTART_TRIES;
}

/* ---- a single try, last step first ---- */

static void on_retry(uv_timer_t *timer)
{
    sandboxes_prestart(timer->data);
}

/* error 0: it is prestarted, or its template has become another one. */
static void prestart_end(struct prestart *prestart, int error)
{
    struct sandboxes *all = prestart->all;

    all->prestarting = false;
    if (prestart->sb) {
        sandbox_release(prestart->sb);
    }
    if (!all->closed && error < 0) {
        (void)uv_timer_start(&all->prestart_timer, on_retry, PRESTART_RETRY_MS, 0);
    } else {
        sandboxes_prestart(all);
    }
    free(prestart);
    sandboxes_release(all);
}

static void prestart_fail(struct prestart *prestart, int error, const struct err *err)
{
    if (!prestart->all->closed) {
        log_warn("the template %s could not be kept with its start command running, so every "
                 "sandbox runs it: %s%s",
                 prestart->alias, err->msg, prestart->last ? "" : "; it will be tried again");
    }
    prestart_end(prestart, error);
}

static void on_recorded(void *ctx, int error, const struct err *err)
{
    struct prestart *prestart = ctx;

    if (error < 0 && !prestart->all->closed) {
        saved_forget(prestart->all, prestart->name);
    }
    if (error == -ESTALE) {
        prestart_end(prestart, 0);
    } else if (error < 0) {
        prestart_fail(prestart, error, err);
    } else {
        log_info("the template %s is kept with its start command running", prestart->alias);
        prestart_end(prestart, 0);
    }
}

static void on_jail_saved(void *ctx, int error, const struct err *err, uint64_t memory_bytes)
{
    struct prestart *prestart = ctx;
    struct sandboxes *all = prestart->all;

    if (prestart->sb->state == SANDBOX_RUNNING) {
        sandbox_kill(prestart->sb, "what runs in it has been kept", NULL, NULL);
    }
    if (error < 0 || all->closed) {
        prestart_fail(prestart, error, err);
    } else {
        templates_set_save(all->use.templates, prestart->template_id, prestart->build_id,
                           prestart->name, memory_bytes, on_recorded, prestart);
    }
}

static void on_created(void *ctx, struct sandbox *sb, int error, const struct err *err)
{
    struct prestart *prestart = ctx;

    if (!sb) {
        prestart_fail(prestart, error, err);
        return;
    }
    sandbox_hold(sb);
    prestart->sb = sb;
    sandbox_save_as(sb, prestart->name, on_jail_saved, prestart);
}

static void prestart_begin(struct sandboxes *all, struct prestarted *prestarted,
                           const struct template *t)
{
    struct prestart *prestart = xnew(struct prestart);
    const struct sandbox_params params = {
        .team_id = "", .template = t, .secure = true, .internal = true};

    all->prestarting = true;
    all->refs++;
    *prestart = (struct prestart){.all = all, .last = ++prestarted->tries == PRESTART_TRIES};
    (void)str_copy(prestart->template_id, sizeof(prestart->template_id), str_of(t->id));
    (void)str_copy(prestart->build_id, sizeof(prestart->build_id), str_of(t->build_id));
    (void)str_copy(prestart->alias, sizeof(prestart->alias), str_of(t->alias));
    saved_name_many(KEEPER_SAVED_KEPT, prestart->name);
    sandbox_create(all, &params, on_created, prestart);
}

/* ---- from outside ---- */

void sandboxes_prestart(struct sandboxes *all)
{
    struct prestarted *prestarted = NULL;

    if (all->closed || all->adoption != ADOPT_READY) {
        return;
    }
    templates_each(all->use.templates, NULL, look, all);
    LL_FOREACH (all->prestarted, prestarted) {
        const struct template *t = templates_by_id(all->use.templates, prestarted->template_id);
        if (!all->prestarting && is_due(prestarted, t)) {
            prestart_begin(all, prestarted, t);
        }
    }
}

static void on_save_removed(void *ctx, int error, const struct err *err)
{
    struct sandboxes *all = ctx;

    if (error < 0 && error != -ESTALE) {
        log_error("template: %s", err->msg);
    }
    sandboxes_prestart(all);
    sandboxes_release(all);
}

void prestart_redo(struct sandboxes *all, const struct sandbox *sb, const char *name)
{
    const struct template *t = templates_by_id(all->use.templates, sb->template_id);

    if (t && !t->team_id && t->saved && strcmp(t->saved, name) == 0) {
        all->refs++;
        templates_set_save(all->use.templates, t->id, t->build_id, NULL, 0, on_save_removed, all);
    }
}

void prestart_free(struct sandboxes *all)
{
    struct prestarted *prestarted = NULL, *next = NULL;

    LL_FOREACH_SAFE (all->prestarted, prestarted, next) {
        free(prestarted);
    }
    all->prestarted = NULL;
}
