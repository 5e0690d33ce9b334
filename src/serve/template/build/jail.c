/* jail.c - an internal sandbox to build in: it is the same kind of jail as any sandbox. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "serve/template/build/internal.h"
#include "wire/channel.h"

struct jail {
    struct builds *all; /* counted */
    struct sandbox_watch watch;
    uint32_t refs;
    char id[KEEPER_ID_BYTES];
    struct keeper_jail jail;
    void (*opened)(void *arg, struct jail *jail, const struct err *err);
    void *arg;
};

static void release(struct jail *jail)
{
    if (--jail->refs == 0) {
        builds_release(jail->all);
        free(jail);
    }
}

static void on_gone(struct sandbox_watch *watch)
{
    (void)watch; /* it is unset now, which is how we know */
}

static void on_created(void *ctx, struct sandbox *sb, int error, const struct err *err)
{
    struct jail *jail = ctx;

    (void)error;
    if (!sb) {
        jail->opened(jail->arg, NULL, err);
        release(jail);
        return;
    }
    struct sandbox_info info = sandbox_info(sb);
    (void)str_copy(jail->id, sizeof(jail->id), str_of(info.id));
    jail->jail = sandbox_jail(sb);
    jail->watch.gone = on_gone;
    sandbox_watch_set(&jail->watch, sb);
    jail->opened(jail->arg, jail, NULL);
}

void jail_open(struct builds *all, const struct jail_plan *plan,
               void (*done)(void *arg, struct jail *jail, const struct err *err), void *arg)
{
    struct jail *jail = xnew(struct jail);
    json_t *options = plan->network ? NULL : json_pack("{sb}", "allowInternetAccess", 0);
    struct template template = {.id = (char[]){"build"},
                                .build_id = (char[]){""},
                                .layers = xstrdup(plan->layers),
                                .user = (char[]){"root"},
                                .workdir = (char[]){""},
                                .env_json = (char[]){"{}"},
                                .cpu_count = plan->cpu_count,
                                .memory_mb = plan->memory_mb,
                                .disk_mb = plan->disk_mb};
    const struct sandbox_params params = {.team_id = plan->team_id,
                                          .template = &template,
                                          .secure = true,
                                          .options = options,
                                          .internal = true,
                                          .from = plan->from && plan->from[0] ? plan->from : NULL};

    *jail = (struct jail){.all = all, .refs = 1, .opened = done, .arg = arg};
    builds_hold(all);
    sandbox_create(all->use.sandboxes, &params, on_created, jail);
    free(template.layers);
    json_decref(options);
}

struct sandbox *jail_sandbox(struct jail *jail)
{
    return jail->watch.sandbox;
}

void jail_close(struct jail *jail)
{
    if (!jail) {
        return;
    }
    struct sandbox *sb = jail->watch.sandbox;
    sandbox_watch_unset(&jail->watch);
    if (sb) {
        sandbox_kill(sb, "the build has no more use for it", NULL, NULL);
    }
    release(jail);
}

/* ---- asking the keeper ---- */

struct question {
    struct jail *jail; /* counted */
    char name[KEEPER_SAVED_BYTES];
    void (*saved)(void *arg, int error, const struct err *err);
    void (*used)(void *arg, uint64_t disk_bytes);
    void *arg;
};

static struct question *question_new(struct jail *jail, void *arg)
{
    struct question *question = xnew(struct question);

    *question = (struct question){.jail = jail, .arg = arg};
    jail->refs++;
    return question;
}

static void on_saved(void *ctx, const struct keeper_answer *answer, int fds[KEEPER_FDS_MAX])
{
    struct question *question = ctx;

    (void)fds;
    if (answer->status == 0) {
        disk_add(question->jail->all, question->name);
    }
    question->saved(question->arg, answer->status, &answer->err);
    release(question->jail);
    free(question);
}

static const char *owner_of(const struct jail *jail)
{
    return jail->watch.sandbox ? sandbox_info(jail->watch.sandbox).team_id : "";
}

void jail_save(struct jail *jail, const char *name, uint32_t flags,
               void (*done)(void *arg, int error, const struct err *err), void *arg)
{
    struct question *question = question_new(jail, arg);
    struct keeper_request req = {.op = KEEPER_SAVE, .jail = jail->jail};

    question->saved = done;
    (void)str_copy(question->name, sizeof(question->name), str_of(name));
    memcpy(req.id, jail->id, sizeof(jail->id));
    memcpy(req.save.name, question->name, sizeof(question->name));
    req.save.flags = flags;
    keeper_client_ask_for(jail->all->use.keeper, owner_of(jail), &req, on_saved, question);
}

static void on_usage(void *ctx, const struct keeper_answer *answer, int fds[KEEPER_FDS_MAX])
{
    struct question *question = ctx;

    (void)fds;
    question->used(question->arg, answer->status == 0 ? answer->usage.disk_bytes : 0);
    release(question->jail);
    free(question);
}

void jail_usage(struct jail *jail, void (*done)(void *arg, uint64_t disk_bytes), void *arg)
{
    struct question *question = question_new(jail, arg);
    struct keeper_request req = {.op = KEEPER_USAGE, .jail = jail->jail};

    question->used = done;
    memcpy(req.id, jail->id, sizeof(jail->id));
    keeper_client_ask(jail->all->use.keeper, &req, on_usage, question);
}

/* ---- for images ---- */

struct image_open {
    void (*done)(void *arg, struct image_jail *jail, const struct err *err);
    void *arg;
};

static bool images_has(void *ctx, const char *saved)
{
    const struct builds *all = ctx;

    return disk_has(all, saved);
}

static void on_image_jail(void *ctx, struct jail *jail, const struct err *err)
{
    struct image_open *opening = ctx;

    opening->done(opening->arg, (struct image_jail *)jail, err);
    free(opening);
}

static void images_open(void *ctx, const char *from,
                        void (*done)(void *arg, struct image_jail *jail, const struct err *err),
                        void *arg)
{
    struct image_open *opening = xnew(struct image_open);
    const struct jail_plan plan = {.team_id = "",
                                   .layers = KEEPER_LAYER_EMPTY,
                                   .from = from,
                                   .cpu_count = BUILD_CPU_DEFAULT,
                                   .memory_mb = BUILD_MEMORY_MB_DEFAULT,
                                   .disk_mb = BUILD_DISK_MB};

    *opening = (struct image_open){done, arg};
    jail_open(ctx, &plan, on_image_jail, opening);
}

static void images_dial(struct image_jail *opaque, void (*done)(void *arg, int fd_or_error),
                        void *arg)
{
    struct jail *jail = (struct jail *)opaque;

    if (!jail_sandbox(jail)) {
        done(arg, -ENOTCONN);
    } else {
        sandbox_dial(jail_sandbox(jail), CHANNEL_PORT_UNPACK, done, arg);
    }
}

static void images_save(struct image_jail *jail, const char *name,
                        void (*done)(void *arg, int error, const struct err *err), void *arg)
{
    jail_save((struct jail *)jail, name, KEEPER_SAVE_SYNC, done, arg);
}

static void images_close(struct image_jail *jail)
{
    jail_close((struct jail *)jail);
}

struct image_jails jail_images(struct builds *all)
{
    return (struct image_jails){.ctx = all,
                                .has = images_has,
                                .open = images_open,
                                .dial = images_dial,
                                .save = images_save,
                                .close = images_close};
}
