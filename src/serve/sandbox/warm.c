/* warm.c - built-in templates whose start command has been run already.
 *
 *      nothing saved ─► an internal jail: start command, ready command ─► SAVE ─► on record
 *
 * One template at a time, in the background: until it is through, and when it fails, every sandbox
 * runs the command itself. What was saved of a build goes when the template has become another
 * one. Built templates are saved at the end of their build, by build/.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/log.h"
#include "serve/sandbox/internal.h"

enum {
    WARM_TRIES = 3, /* of one build, in the life of a daemon */
    WARM_RETRY_MS = 30 * 1000,
};

/* A built-in template, as it was when it was last looked at. */
struct warm {
    struct warm *next;
    char template_id[ID_TEMPLATE_LEN + 1];
    char build_id[ID_UUID_LEN + 1];
    char saved[KEEPER_SAVED_BYTES]; /* "": nothing */
    uint32_t tries;
};

/* One try. */
struct warming {
    struct sandboxes *all; /* counted */
    struct sandbox *sb;    /* counted, once there is one */
    char template_id[ID_TEMPLATE_LEN + 1];
    char build_id[ID_UUID_LEN + 1];
    char alias[64]; /* for the log */
    char name[KEEPER_SAVED_BYTES];
    bool last;
};

/* ---- what there is ---- */

static struct warm *warm_of(struct sandboxes *all, const struct template *t)
{
    struct warm *warm = NULL;

    LL_FOREACH (all->warms, warm) {
        if (strcmp(warm->template_id, t->id) == 0) {
            return warm;
        }
    }
    warm = xnew(struct warm);
    (void)str_copy(warm->template_id, sizeof(warm->template_id), str_of(t->id));
    LL_PREPEND(all->warms, warm);
    return warm;
}

static void look(void *ctx, const struct template *t)
{
    struct sandboxes *all = ctx;

    if (t->team_id) {
        return;
    }
    struct warm *warm = warm_of(all, t);
    if (strcmp(warm->build_id, t->build_id) != 0) {
        (void)str_copy(warm->build_id, sizeof(warm->build_id), str_of(t->build_id));
        warm->tries = 0;
    }
    if (warm->saved[0] && (!t->saved || strcmp(warm->saved, t->saved) != 0)) {
        kept_forget(all, warm->saved);
    }
    warm->saved[0] = '\0';
    if (t->saved) {
        (void)str_copy(warm->saved, sizeof(warm->saved), str_of(t->saved));
    }
}

static bool is_due(const struct warm *warm, const struct template *t)
{
    return t && t->layers[0] && (t->start_cmd || t->ready_cmd) && !t->saved &&
           warm->tries < WARM_TRIES;
}

/* ---- one try, last step first ---- */

static void on_pause_over(uv_timer_t *timer)
{
    sandboxes_warm(timer->data);
}

/* error 0: it is warm, or its template has become another one. */
static void warming_end(struct warming *warming, int error)
{
    struct sandboxes *all = warming->all;

    all->warming = false;
    if (warming->sb) {
        sandbox_release(warming->sb);
    }
    if (!all->closed && error < 0) {
        (void)uv_timer_start(&all->warm_timer, on_pause_over, WARM_RETRY_MS, 0);
    } else {
        sandboxes_warm(all);
    }
    free(warming);
    sandboxes_release(all);
}

static void warming_fail(struct warming *warming, int error, const struct err *err)
{
    if (!warming->all->closed) {
        log_warn("the template %s could not be kept with its start command running, so every "
                 "sandbox runs it: %s%s",
                 warming->alias, err->msg, warming->last ? "" : "; it will be tried again");
    }
    warming_end(warming, error);
}

static void on_recorded(void *ctx, int error, const struct err *err)
{
    struct warming *warming = ctx;

    if (error < 0 && !warming->all->closed) {
        kept_forget(warming->all, warming->name);
    }
    if (error == -ESTALE) {
        warming_end(warming, 0);
    } else if (error < 0) {
        warming_fail(warming, error, err);
    } else {
        log_info("the template %s is kept with its start command running", warming->alias);
        warming_end(warming, 0);
    }
}

static void on_kept(void *ctx, int error, const struct err *err, uint64_t memory_bytes)
{
    struct warming *warming = ctx;
    struct sandboxes *all = warming->all;

    if (warming->sb->state == SANDBOX_RUNNING) {
        sandbox_kill(warming->sb, "what runs in it has been kept", NULL, NULL);
    }
    if (error < 0 || all->closed) {
        warming_fail(warming, error, err);
    } else {
        templates_keep(all->use.templates, warming->template_id, warming->build_id, warming->name,
                       memory_bytes, on_recorded, warming);
    }
}

static void on_created(void *ctx, struct sandbox *sb, int error, const struct err *err)
{
    struct warming *warming = ctx;

    if (!sb) {
        warming_fail(warming, error, err);
        return;
    }
    sandbox_hold(sb);
    warming->sb = sb;
    sandbox_keep(sb, warming->name, on_kept, warming);
}

static void warming_begin(struct sandboxes *all, struct warm *warm, const struct template *t)
{
    struct warming *warming = xnew(struct warming);
    const struct sandbox_params params = {
        .team_id = "", .template = t, .secure = true, .internal = true};

    all->warming = true;
    all->refs++;
    *warming = (struct warming){.all = all, .last = ++warm->tries == WARM_TRIES};
    (void)str_copy(warming->template_id, sizeof(warming->template_id), str_of(t->id));
    (void)str_copy(warming->build_id, sizeof(warming->build_id), str_of(t->build_id));
    (void)str_copy(warming->alias, sizeof(warming->alias), str_of(t->alias));
    kept_name_new(warming->name);
    sandbox_create(all, &params, on_created, warming);
}

/* ---- from outside ---- */

void sandboxes_warm(struct sandboxes *all)
{
    struct warm *warm = NULL;

    if (all->closed || all->adoption != ADOPT_READY) {
        return;
    }
    templates_each(all->use.templates, NULL, look, all);
    LL_FOREACH (all->warms, warm) {
        const struct template *t = templates_by_id(all->use.templates, warm->template_id);
        if (!all->warming && is_due(warm, t)) {
            warming_begin(all, warm, t);
        }
    }
}

static void on_unkept(void *ctx, int error, const struct err *err)
{
    struct sandboxes *all = ctx;

    if (error < 0 && error != -ESTALE) {
        log_error("template: %s", err->msg);
    }
    sandboxes_warm(all);
    sandboxes_release(all);
}

void warm_spoilt(struct sandboxes *all, const struct sandbox *sb, const char *name)
{
    const struct template *t = templates_by_id(all->use.templates, sb->template_id);

    if (t && !t->team_id && t->saved && strcmp(t->saved, name) == 0) {
        all->refs++;
        templates_keep(all->use.templates, t->id, t->build_id, NULL, 0, on_unkept, all);
    }
}

void warm_free(struct sandboxes *all)
{
    struct warm *warm = NULL, *next = NULL;

    LL_FOREACH_SAFE (all->warms, warm, next) {
        free(warm);
    }
    all->warms = NULL;
}
