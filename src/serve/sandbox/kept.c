/* kept.c - what the keeper saved: found, held, forgotten.
 *
 * An entry of the table exists while something starts from what was saved, while it is to be
 * forgotten, and, for all that the keeper has, from the daemon's start until adoption is over.
 * Nothing is forgotten while it is held; a keeper that is away is asked when it is back, and what a
 * daemon could not ask any more, the next one finds unreferred to.
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

struct kept {
    UT_hash_handle hh;
    struct sandboxes *all;
    char name[KEEPER_SAVED_BYTES];
    uint32_t holds;
    bool listed;              /* found at the start */
    enum forget_phase forget; /* forget_set_phase() alone writes it */
};

static void forget_set_phase(struct kept *kept, enum forget_phase phase)
{
    if (phase_allows(forget_phases, kept->forget, phase, "the removal of", kept->name)) {
        kept->forget = phase;
    }
}

/* ---- names ---- */

void kept_name_pause(const struct sandbox *sb, bool memory, char out[KEEPER_SAVED_BYTES])
{
    (void)snprintf(out, KEEPER_SAVED_BYTES, KEEPER_SAVED_PREFIX "%s-%" PRId64 "%c", sb->id,
                   sb->started_ms, memory ? 'm' : 'd');
}

void kept_name_new(char out[KEEPER_SAVED_BYTES])
{
    char random[SAVED_RANDOM_LEN + 1];

    id_alnum(random, SAVED_RANDOM_LEN);
    (void)snprintf(out, KEEPER_SAVED_BYTES, KEEPER_SAVED_PREFIX "%s", random);
}

#define DISK_SUFFIX "-d"

void kept_name_disk(char out[KEEPER_SAVED_BYTES])
{
    char random[SAVED_RANDOM_LEN + 1];

    id_alnum(random, SAVED_RANDOM_LEN);
    (void)snprintf(out, KEEPER_SAVED_BYTES, KEEPER_SAVED_PREFIX "%s" DISK_SUFFIX, random);
}

bool kept_is_disk(const char *name)
{
    size_t len = strlen(name), end = strlen(DISK_SUFFIX);

    return len >= end && strcmp(name + len - end, DISK_SUFFIX) == 0;
}

bool kept_has_memory(const char *name)
{
    return name[0] && name[strlen(name) - 1] == 'm';
}

/* ---- the table ---- */

static struct kept *find(const struct sandboxes *all, const char *name)
{
    struct kept *kept = NULL;

    HASH_FIND_STR(all->kept, name, kept);
    return kept;
}

static struct kept *entry(struct sandboxes *all, const char *name)
{
    struct kept *kept = find(all, name);

    if (!kept) {
        kept = xnew(struct kept);
        kept->all = all;
        (void)str_copy(kept->name, sizeof(kept->name), str_of(name));
        HASH_ADD_STR(all->kept, name, kept);
    }
    return kept;
}

static void check(struct kept *kept)
{
    if (kept->holds == 0 && !kept->listed && kept->forget == FORGET_NOT) {
        HASH_DEL(kept->all->kept, kept);
        free(kept);
    }
}

/* ---- forgetting ---- */

/* A try is over. A daemon that stops makes no other. */
static void forget_end(struct kept *kept, enum forget_phase phase)
{
    forget_set_phase(kept, kept->all->closed ? FORGET_NOT : phase);
    if (kept->all->closed) {
        kept->listed = false;
        kept->holds = 0;
    }
    check(kept);
}

static void on_forgotten(void *ctx, const struct keeper_answer *answer, int fds[KEEPER_FDS_MAX])
{
    struct kept *kept = ctx;
    struct sandboxes *all = kept->all;

    (void)fds;
    bool away = answer->status == -ENOTCONN || answer->status == -ECONNRESET;
    if (answer->status < 0 && !away) {
        log_warn("forget %s: %s", kept->name, answer->err.msg);
    }
    forget_end(kept, away ? FORGET_WANTED : FORGET_NOT);
    sandboxes_release(all);
}

static bool may_ask(const struct kept *kept)
{
    return kept->holds == 0 && keeper_client_connected(kept->all->use.keeper);
}

static void on_settled(void *ctx, int error, const struct err *err)
{
    struct kept *kept = ctx;
    struct sandboxes *all = kept->all;
    struct keeper_request req = {.op = KEEPER_FORGET};

    if (error == 0 && !all->closed && may_ask(kept)) {
        memcpy(req.save.name, kept->name, sizeof(kept->name));
        forget_set_phase(kept, FORGET_ASKED);
        keeper_client_ask(all->use.keeper, &req, on_forgotten, kept);
        return;
    }
    if (error < 0) {
        log_warn("%s is kept until the next start: %s", kept->name, err->msg);
    }
    forget_end(kept, FORGET_WANTED);
    sandboxes_release(all);
}

/* Nothing is removed before it is durable that nobody refers to it. */
static void ask(struct kept *kept)
{
    if (kept->forget == FORGET_WANTED && may_ask(kept)) {
        forget_set_phase(kept, FORGET_SETTLING);
        kept->all->refs++;
        store_settle(kept->all->use.store, on_settled, kept);
    }
}

void kept_forget(struct sandboxes *all, const char *name)
{
    struct kept *kept = entry(all, name);

    if (kept->forget == FORGET_NOT) {
        forget_set_phase(kept, FORGET_WANTED);
    }
    ask(kept);
}

void kept_resend(struct sandboxes *all)
{
    struct kept *kept = NULL, *next = NULL;

    HASH_ITER (hh, all->kept, kept, next) {
        ask(kept);
    }
}

void kept_hold(struct sandboxes *all, const char *name)
{
    entry(all, name)->holds++;
}

void kept_release(struct sandboxes *all, const char *name)
{
    struct kept *kept = find(all, name);

    if (kept && kept->holds > 0) {
        kept->holds--;
        ask(kept);
        check(kept);
    }
}

/* ---- what the keeper has ---- */

/* One walk over all of it. */
struct walk {
    struct sandboxes *all;                             /* counted */
    bool (*each)(struct walk *walk, const char *name); /* false: enough */
    void (*end)(struct walk *walk, int error);

    void (*loaded)(struct sandboxes *all, int error); /* kept_load()'s */

    struct sandbox *sb; /* this and what follows is kept_find()'s; counted */
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

/* ---- one pause ---- */

static bool is_pause_of(const struct sandbox *sb, const char *name)
{
    char with[KEEPER_SAVED_BYTES], without[KEEPER_SAVED_BYTES];

    kept_name_pause(sb, true, with);
    kept_name_pause(sb, false, without);
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

void kept_find(struct sandbox *sb, void (*done)(void *ctx, int error, const char *name), void *ctx)
{
    struct sandboxes *all = sb->all;
    struct kept *kept = NULL, *next = NULL;

    if (all->adoption == ADOPT_READY) {
        struct walk walk = {.each = find_each, .end = find_end, .sb = sb, .done = done, .ctx = ctx};
        sandbox_hold(sb);
        walk_start(all, &walk);
        return;
    }
    HASH_ITER (hh, all->kept, kept, next) {
        if (kept->listed && is_pause_of(sb, kept->name)) {
            break;
        }
    }
    done(ctx, 0, kept ? kept->name : NULL);
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

void kept_load(struct sandboxes *all, void (*done)(struct sandboxes *all, int error))
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
        kept_forget(all, name);
    }
}

void kept_sweep(struct sandboxes *all)
{
    struct kept *kept = NULL, *next = NULL;

    HASH_ITER (hh, all->kept, kept, next) {
        bool ours = !str_starts(str_of(kept->name), STR(KEEPER_SAVED_BUILT));
        if (ours && kept->listed && kept->forget == FORGET_NOT &&
            !is_referred_to(all, kept->name)) {
            log_info("%s is referred to by nothing: removed", kept->name);
            forget_set_phase(kept, FORGET_WANTED);
        }
        kept->listed = false;
        ask(kept);
        check(kept);
    }
}

void kept_free(struct sandboxes *all)
{
    struct kept *kept = NULL, *next = NULL;

    HASH_ITER (hh, all->kept, kept, next) {
        if (kept->forget == FORGET_NOT || kept->forget == FORGET_WANTED) {
            HASH_DEL(all->kept, kept);
            free(kept);
        }
    }
}
