/* saved.c - the saves that the keeper has on disk: found, held, removed.
 *
 * A save has an entry in the table while a start reads it, and while it is to be removed. From the
 * daemon's start until adoption is over, every save of the keeper has one. A save that is held is
 * not removed. While the keeper is away nothing is asked; the entries are asked for when it is
 * back. A save that a daemon could no longer remove is found unreferenced by the next daemon.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/log.h"
#include "serve/sandbox/internal.h"

enum { SAVED_RANDOM_LEN = 20 };

struct saved {
    UT_hash_handle hh;
    struct sandboxes *all;
    char name[KEEPER_SAVED_BYTES];
    uint32_t holds;
    bool listed;              /* found at the start */
    enum forget_phase forget; /* forget_set_phase() alone writes it */
};

static void forget_set_phase(struct saved *saved, enum forget_phase phase)
{
    if (phase_allows(forget_phases, saved->forget, phase, "the removal of", saved->name)) {
        saved->forget = phase;
    }
}

/* ---- names ---- */

int64_t execution_new(void)
{
    uint64_t number = 0;

    while (number == 0) {
        id_random(&number, sizeof(number));
        number >>= 1; /* a column of the store has a sign */
    }
    return (int64_t)number;
}

/* A clock that is set back could give one name twice. A sandbox that an older release started keeps
 * the name that release would have given, until it is started again: its pause may be under way. */
void saved_name_pause(const struct sandbox *sb, bool memory, char out[KEEPER_SAVED_BYTES])
{
    if (sb->execution) {
        (void)snprintf(out, KEEPER_SAVED_BYTES, KEEPER_SAVED_PREFIX "%s-x%016" PRIx64 "%c", sb->id,
                       (uint64_t)sb->execution, memory ? 'm' : 'd');
        return;
    }
    (void)snprintf(out, KEEPER_SAVED_BYTES, KEEPER_SAVED_PREFIX "%s-%" PRId64 "%c", sb->id,
                   sb->started_ms, memory ? 'm' : 'd');
}

void saved_name_many(const char *prefix, char out[KEEPER_SAVED_BYTES])
{
    char random[SAVED_RANDOM_LEN + 1];

    id_alnum(random, SAVED_RANDOM_LEN);
    (void)snprintf(out, KEEPER_SAVED_BYTES, "%s%s", prefix, random);
}

void saved_name_new(char out[KEEPER_SAVED_BYTES])
{
    saved_name_many(KEEPER_SAVED_PREFIX, out);
}

void saved_name_fork(struct save *save)
{
    saved_name_many(save->many ? KEEPER_SAVED_FORKS : KEEPER_SAVED_PREFIX, save->name);
}

void saved_name_disk(char out[KEEPER_SAVED_BYTES])
{
    char random[SAVED_RANDOM_LEN + 1];

    id_alnum(random, SAVED_RANDOM_LEN);
    (void)snprintf(out, KEEPER_SAVED_BYTES, KEEPER_SAVED_PREFIX "%s" KEEPER_SAVED_DISK, random);
}

bool saved_is_disk(const char *name)
{
    size_t len = strlen(name), end = strlen(KEEPER_SAVED_DISK);

    return len >= end && strcmp(name + len - end, KEEPER_SAVED_DISK) == 0;
}

bool saved_has_memory(const char *name)
{
    return name[0] && name[strlen(name) - 1] == 'm';
}

/* ---- the table ---- */

static struct saved *find(const struct sandboxes *all, const char *name)
{
    struct saved *saved = NULL;

    HASH_FIND_STR(all->saved, name, saved);
    return saved;
}

static struct saved *entry(struct sandboxes *all, const char *name)
{
    struct saved *saved = find(all, name);

    if (!saved) {
        saved = xnew(struct saved);
        saved->all = all;
        (void)str_copy(saved->name, sizeof(saved->name), str_of(name));
        HASH_ADD_STR(all->saved, name, saved);
    }
    return saved;
}

static void check(struct saved *saved)
{
    if (saved->holds == 0 && !saved->listed && saved->forget == FORGET_NOT) {
        HASH_DEL(saved->all->saved, saved);
        free(saved);
    }
}

/* ---- removal ---- */

/* A try is over. A daemon that stops makes no other. */
static void forget_end(struct saved *saved, enum forget_phase phase)
{
    forget_set_phase(saved, saved->all->closed ? FORGET_NOT : phase);
    if (saved->all->closed) {
        saved->listed = false;
        saved->holds = 0;
    }
    check(saved);
}

static void on_forgotten(void *ctx, const struct keeper_answer *answer, int fds[KEEPER_FDS_MAX])
{
    struct saved *saved = ctx;
    struct sandboxes *all = saved->all;

    (void)fds;
    bool away = answer->status == -ENOTCONN || answer->status == -ECONNRESET;
    if (answer->status < 0 && !away) {
        log_warn("forget %s: %s", saved->name, answer->err.msg);
    }
    forget_end(saved, away ? FORGET_WANTED : FORGET_NOT);
    sandboxes_release(all);
}

static bool may_ask(const struct saved *saved)
{
    return saved->holds == 0 && keeper_client_connected(saved->all->use.keeper);
}

static void on_settled(void *ctx, int error, const struct err *err)
{
    struct saved *saved = ctx;
    struct sandboxes *all = saved->all;
    struct keeper_request req = {.op = KEEPER_FORGET};

    if (error == 0 && !all->closed && may_ask(saved)) {
        memcpy(req.save.name, saved->name, sizeof(saved->name));
        forget_set_phase(saved, FORGET_ASKED);
        keeper_client_ask(all->use.keeper, &req, on_forgotten, saved);
        return;
    }
    if (error < 0) {
        log_warn("%s is kept until the next start: %s", saved->name, err->msg);
    }
    forget_end(saved, FORGET_WANTED);
    sandboxes_release(all);
}

/* The store syncs first: no durable row may refer to a save that is removed. */
static void ask(struct saved *saved)
{
    if (saved->forget == FORGET_WANTED && may_ask(saved)) {
        forget_set_phase(saved, FORGET_SETTLING);
        saved->all->refs++;
        store_settle(saved->all->use.store, on_settled, saved);
    }
}

void saved_forget(struct sandboxes *all, const char *name)
{
    struct saved *saved = entry(all, name);

    if (saved->forget == FORGET_NOT) {
        forget_set_phase(saved, FORGET_WANTED);
    }
    ask(saved);
}

void saved_resend(struct sandboxes *all)
{
    struct saved *saved = NULL, *next = NULL;

    HASH_ITER (hh, all->saved, saved, next) {
        ask(saved);
    }
}

void saved_hold(struct sandboxes *all, const char *name)
{
    entry(all, name)->holds++;
}

void saved_release(struct sandboxes *all, const char *name)
{
    struct saved *saved = find(all, name);

    if (saved && saved->holds > 0) {
        saved->holds--;
        ask(saved);
        check(saved);
    }
}

/* ---- the list of saves ---- */

/* A walk over all saves of the keeper. */
struct walk {
    struct sandboxes *all;                             /* counted */
    bool (*each)(struct walk *walk, const char *name); /* false: enough */
    void (*end)(struct walk *walk, int error);

    void (*loaded)(struct sandboxes *all, int error); /* saved_load()'s */

    struct sandbox *sb; /* this and what follows is saved_find()'s; counted */
    void (*done)(void *ctx, int error, const char *name);
    void *ctx;
    char found[KEEPER_SAVED_BYTES];
};

static bool walk_each(void *ctx, const char *name)
{
    struct walk *walk = ctx;

    return walk->each(walk, name);
}

static void walk_end(void *ctx, int error, const struct err *err)
{
    struct walk *walk = ctx;
    struct sandboxes *all = walk->all;

    (void)err;
    walk->end(walk, error);
    free(walk);
    sandboxes_release(all);
}

static void walk_start(struct sandboxes *all, const struct walk *with)
{
    struct walk *walk = xnew(struct walk);
    const struct keeper_saved_walk use = {walk_each, walk_end, walk};

    *walk = *with;
    walk->all = all;
    all->refs++;
    keeper_client_saved_each(all->use.keeper, &use);
}

/* ---- a single pause ---- */

static bool is_pause_of(const struct sandbox *sb, const char *name)
{
    char with[KEEPER_SAVED_BYTES], without[KEEPER_SAVED_BYTES];

    saved_name_pause(sb, true, with);
    saved_name_pause(sb, false, without);
    return strcmp(name, with) == 0 || strcmp(name, without) == 0;
}

static bool find_each(struct walk *walk, const char *name)
{
    if (is_pause_of(walk->sb, name)) {
        (void)str_copy(walk->found, sizeof(walk->found), str_of(name));
    }
    return !walk->found[0];
}

static void find_end(struct walk *walk, int error)
{
    struct sandbox *sb = walk->sb;

    walk->done(walk->ctx, error, walk->found[0] ? walk->found : NULL);
    sandbox_release(sb);
}

void saved_find(struct sandbox *sb, void (*done)(void *ctx, int error, const char *name), void *ctx)
{
    struct sandboxes *all = sb->all;
    struct saved *saved = NULL, *next = NULL;

    if (all->adoption == ADOPT_READY) {
        struct walk walk = {.each = find_each, .end = find_end, .sb = sb, .done = done, .ctx = ctx};
        sandbox_hold(sb);
        walk_start(all, &walk);
        return;
    }
    HASH_ITER (hh, all->saved, saved, next) {
        if (saved->listed && is_pause_of(sb, saved->name)) {
            break;
        }
    }
    done(ctx, 0, saved ? saved->name : NULL);
}

/* ---- the start ---- */

static bool load_each(struct walk *walk, const char *name)
{
    entry(walk->all, name)->listed = true;
    return !walk->all->closed;
}

static void load_end(struct walk *walk, int error)
{
    if (error < 0 && error != -ENOTCONN && error != -ECONNRESET) {
        log_error("list what was saved: %s", strerror(-error));
    }
    if (!walk->all->closed) {
        walk->loaded(walk->all, error);
    }
}

void saved_load(struct sandboxes *all, void (*done)(struct sandboxes *all, int error))
{
    struct walk walk = {.each = load_each, .end = load_end, .loaded = done};

    walk_start(all, &walk);
}

struct reference {
    const char *name;
    bool found;
};

static void look_template(void *ctx, const struct template *t)
{
    struct reference *reference = ctx;

    if ((t->saved && strcmp(t->saved, reference->name) == 0) ||
        layers_have(t->layers, reference->name)) {
        reference->found = true;
    }
}

static bool is_referred_to(struct sandboxes *all, const char *name)
{
    struct reference reference = {.name = name};

    templates_each_built(all->use.templates, look_template, &reference);
    return reference.found || sandboxes_use(all, name);
}

void sandboxes_forget_saved(struct sandboxes *all, const char *name)
{
    if (!is_referred_to(all, name)) {
        saved_forget(all, name);
    }
}

void saved_sweep(struct sandboxes *all)
{
    struct saved *saved = NULL, *next = NULL;

    HASH_ITER (hh, all->saved, saved, next) {
        bool ours = !str_starts(str_of(saved->name), STR(KEEPER_SAVED_BUILT));
        if (ours && saved->listed && saved->forget == FORGET_NOT &&
            !is_referred_to(all, saved->name)) {
            log_info("%s is referred to by nothing: removed", saved->name);
            forget_set_phase(saved, FORGET_WANTED);
        }
        saved->listed = false;
        ask(saved);
        check(saved);
    }
}

void saved_free(struct sandboxes *all)
{
    struct saved *saved = NULL, *next = NULL;

    HASH_ITER (hh, all->saved, saved, next) {
        if (saved->forget == FORGET_NOT || saved->forget == FORGET_WANTED) {
            HASH_DEL(all->saved, saved);
            free(saved);
        }
    }
}
