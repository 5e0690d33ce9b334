/* parked.c - parked jails: made in advance, so that a create has only to claim one.
 *
 *      create ─► claim ─► /init, row ─► RUNNING          (microseconds, no keeper)
 *                  │ none there
 *                  └────► KEEPER_CREATE ─► /init, row ─► RUNNING
 *
 * A parked jail is a sandbox in the state PARKED. It has its id, its uid range, its agent and,
 * where the template was saved with running processes, those. It reaches nothing and belongs to no
 * team. A claim takes it away for good, so none is ever used twice. There is a struct parked_build
 * for each build of a template that was asked for lately, and always for the built-in templates;
 * demand.h says how many jails it should have. A jail is made when no caller waits for the keeper.
 * After one that failed or died by itself, the next is made later.
 */
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/text.h"
#include "serve/sandbox/demand.h"
#include "serve/sandbox/internal.h"

enum {
    PARKED_TICK_MS = 1000,
    PARKED_QUIET_MS = 100,      /* after a claim: the claimed sandbox goes first; */
    PARKED_QUIET_EACH_MS = 10,  /* so much more for each that was claimed in the same burst, */
    PARKED_QUIET_MS_MAX = 1500, /* and no longer than this */
    PARKED_STEADY_MS = 500,     /* claims that go on for so long are a load, not a burst */
    PARKED_AT_ONCE = 1,         /* asked of the keeper, for all builds together */
    PARKED_AT_ONCE_LOW = 2,     /* for a build that is low */
    PARKED_RETRY_MS_MIN = 1000,
    PARKED_RETRY_MS_MAX = 60 * 1000,
    PARKED_EMPTIED_MS = 10, /* between two looks at whether all are gone */
};

/* The parked jails of a single build of a template, and what they were made of. */
struct parked_build {
    struct parked_build *prev, *next;
    struct sandboxes *all;
    char *template_id, *build_id, *layers, *saved;
    char *team_id; /* NULL: built in */
    uint32_t cpu_count, memory_mb, disk_mb;
    uint64_t saved_bytes;
    bool shares; /* the jail that was parked last shares that with others */
    bool is_base;
    bool stale; /* the template is gone or has changed */
    struct demand demand;
    struct parked_jail *parked; /* oldest first */
    uint32_t parked_n, making_n;
    uint32_t failures; /* in a row */
    int64_t not_before_ms;
};

struct parked_jail {
    struct parked_jail *prev, *next;
    struct parked_build *build;
    struct sandbox_watch watch; /* set while it is parked */
};

struct parking {
    struct parked_build *list;
    uint32_t making_n;     /* of all builds */
    uv_timer_t tick;       /* each second: demand, memory, templates, unused connections */
    uv_timer_t settling;   /* until more jails may be made */
    uv_timer_t emptying;   /* the daemon stops: are all gone? */
    uint32_t floor;        /* of base */
    uint32_t floor_others; /* of other built-in templates */
    int64_t begun_ms;      /* the first claim of this burst, */
    int64_t claimed_ms;    /* the last claim, */
    uint32_t claimed_n;    /* and how many claims the burst has had */
    uint64_t memory_bytes; /* of the host; and how much is available */
    uint64_t available_bytes;
    uint64_t hits, misses;

    void (*emptied)(void *ctx); /* NULL: the daemon is not stopping */
    void *emptied_ctx;
    int64_t emptied_by_ms;
};

/* ---- builds ---- */

static bool build_is_of(const struct parked_build *build, const struct template *t)
{
    return strcmp(build->template_id, t->id) == 0 && text_same(build->build_id, t->build_id) &&
           text_same(build->layers, t->layers) && text_same(build->saved, t->saved) &&
           build->cpu_count == t->cpu_count && build->memory_mb == t->memory_mb &&
           build->disk_mb == t->disk_mb;
}

/* A template with a start command is parked only if it was saved with the command running. A
 * snapshot is the state of a single sandbox, and rarely wanted twice at once. */
static bool can_park(const struct template *t)
{
    return t->layers[0] && !t->snapshot_of && (t->saved || (!t->start_cmd && !t->ready_cmd));
}

static struct parked_build *build_find(const struct parking *parking, const struct template *t)
{
    struct parked_build *build = NULL;

    DL_FOREACH (parking->list, build) {
        if (build_is_of(build, t)) {
            return build;
        }
    }
    return NULL;
}

static struct parked_build *build_of(struct sandboxes *all, const struct template *t)
{
    struct parked_build *build = build_find(all->parking, t);

    if (!build) {
        build = xnew(struct parked_build);
        build->all = all;
        text_set(&build->template_id, t->id);
        text_set(&build->build_id, t->build_id);
        text_set(&build->layers, t->layers);
        text_set(&build->saved, t->saved);
        build->cpu_count = t->cpu_count;
        build->memory_mb = t->memory_mb;
        build->disk_mb = t->disk_mb;
        build->saved_bytes = t->saved_bytes;
        text_set(&build->team_id, t->team_id);
        build->is_base = !t->team_id && t->alias && strcmp(t->alias, TEMPLATE_BASE) == 0;
        DL_APPEND(all->parking->list, build);
    }
    return build;
}

static void build_free(struct parked_build *build)
{
    DL_DELETE(build->all->parking->list, build);
    free(build->template_id);
    free(build->team_id);
    free(build->build_id);
    free(build->layers);
    free(build->saved);
    free(build);
}

static uint64_t jail_bytes(const struct parked_build *build)
{
    return DEMAND_JAIL_BYTES +
           (build->shares ? build->saved_bytes / DEMAND_SHARED_PART : build->saved_bytes);
}

static uint32_t build_target(const struct parked_build *build)
{
    const struct sandboxes *all = build->all;
    struct demand_bounds bounds = {.floor = build->is_base ? all->parking->floor
                                                           : all->parking->floor_others,
                                   .ceiling = all->use.parked_max,
                                   .built_in = !build->team_id,
                                   .restored = build->saved != NULL,
                                   .jail_bytes = jail_bytes(build),
                                   .free_bytes = all->use.parked_free_bytes,
                                   .memory_bytes = all->parking->memory_bytes,
                                   .available_bytes = all->parking->available_bytes};
    const struct parked_build *other = NULL;

    DL_FOREACH (all->parking->list, other) {
        bounds.held_bytes +=
            other == build ? 0 : (other->parked_n + other->making_n) * jail_bytes(other);
    }
    return build->stale ? 0 : demand_target(&build->demand, &bounds);
}

/* ---- claiming and ending ---- */

/* Takes it off its list: it is the caller's from now on. */
static struct sandbox *unpark(struct parked_jail *parked)
{
    struct sandbox *sb = parked->watch.sandbox;

    sandbox_watch_unset(&parked->watch);
    DL_DELETE(parked->build->parked, parked);
    parked->build->parked_n--;
    free(parked);
    return sb;
}

static void build_failed(struct parked_build *build)
{
    int64_t wait_ms = PARKED_RETRY_MS_MIN;

    for (uint32_t i = 0; i < build->failures && wait_ms < PARKED_RETRY_MS_MAX; i++) {
        wait_ms *= 2;
    }
    build->failures++;
    build->not_before_ms = clock_mono_ms() + wait_ms;
}

/* It died, or the daemon ends. */
static void on_gone(struct sandbox_watch *watch)
{
    struct parked_jail *parked = container_of(watch, struct parked_jail, watch);
    struct parked_build *build = parked->build;

    DL_DELETE(build->parked, parked);
    build->parked_n--;
    free(parked);
    if (!build->all->closed && clock_mono_ms() >= build->not_before_ms) {
        build_failed(build); /* many that die at one time are one failure */
    }
}

void parked_drop(struct sandbox *sb, const char *why)
{
    sandbox_kill(sb, why, NULL, NULL); /* on_gone() does the rest */
}

static void build_shrink(struct parked_build *build, uint32_t target, const char *why)
{
    while (build->parked_n > target) {
        sandbox_kill(unpark(build->parked), why, NULL, NULL);
    }
}

/* ---- making ---- */

static void on_parked(void *ctx, struct sandbox *sb, int error, const struct err *err)
{
    struct parked_build *build = ctx;
    struct sandboxes *all = build->all;

    (void)error, (void)err; /* logged where it was found */
    all->parking->making_n--;
    build->making_n--;
    if (!sb) {
        build_failed(build);
        return;
    }
    if (all->parking->emptied) {
        sandbox_kill(sb, "the daemon is stopping", NULL, NULL);
        return;
    }
    struct parked_jail *parked = xnew(struct parked_jail);
    *parked = (struct parked_jail){.build = build, .watch = {.gone = on_gone}};
    sandbox_watch_set(&parked->watch, sb);
    DL_APPEND(build->parked, parked);
    build->parked_n++;
    build->failures = 0;
    build->shares = sb->shares;
    preconnect_dial(sb);
    parked_refill(all);
}

struct search {
    const struct parked_build *build;
    const struct template *found;
};

static void match(void *ctx, const struct template *t)
{
    struct search *search = ctx;

    if (!search->found && build_is_of(search->build, t)) {
        search->found = t;
    }
}

static const struct template *template_of(const struct parked_build *build)
{
    struct search search = {.build = build};

    templates_each_built(build->all->use.templates, match, &search);
    return search.found;
}

/* How long the sandboxes claimed last have the host to themselves. */
static int64_t quiet_ms(const struct parking *parking)
{
    int64_t ms = PARKED_QUIET_MS + (int64_t)parking->claimed_n * PARKED_QUIET_EACH_MS;

    return ms < PARKED_QUIET_MS_MAX ? ms : PARKED_QUIET_MS_MAX;
}

static bool is_quiet(const struct parking *parking, int64_t now_ms)
{
    return now_ms - parking->claimed_ms >= quiet_ms(parking);
}

static bool is_low(const struct parked_build *build)
{
    return demand_is_low(build->parked_n + build->making_n, build_target(build));
}

/* Is another jail to be made now? A build that is low waits for a burst to be over, but not for
 * quiet times: under a steady load there are none. */
static bool lacks_one(const struct parked_build *build)
{
    const struct parking *parking = build->all->parking;
    int64_t now_ms = clock_mono_ms();
    bool low = is_low(build);
    bool may = is_quiet(parking, now_ms) || (low && now_ms - parking->begun_ms >= PARKED_STEADY_MS);

    return may && now_ms >= build->not_before_ms &&
           parking->making_n < (low ? PARKED_AT_ONCE_LOW : PARKED_AT_ONCE) &&
           build->parked_n + build->making_n < build_target(build);
}

static void make_one(struct parked_build *build)
{
    const struct template *t = template_of(build);

    build->stale = !t;
    if (t) {
        build->making_n++;
        build->all->parking->making_n++;
        sandbox_park(build->all, t, on_parked, build);
    }
}

static void on_settled(uv_timer_t *timer)
{
    parked_refill(timer->data);
}

/* Fires the timer within that time; it stays as it is if it is due earlier. */
static void settle_within(struct parking *parking, int64_t ms)
{
    bool set = uv_is_active((uv_handle_t *)&parking->settling) &&
               (int64_t)uv_timer_get_due_in(&parking->settling) <= ms;

    if (ms > 0 && !set) {
        (void)uv_timer_start(&parking->settling, on_settled, (uint64_t)ms, 0);
    }
}

void parked_refill(struct sandboxes *all)
{
    struct parking *parking = all->parking;
    struct parked_build *build = NULL;

    if (all->closed || all->adoption != ADOPT_READY || !keeper_client_connected(all->use.keeper)) {
        return;
    }
    DL_FOREACH (parking->list, build) {
        while (all->making_n == 0 && lacks_one(build)) {
            make_one(build);
        }
    }
    int64_t now_ms = clock_mono_ms();
    settle_within(parking, parking->begun_ms + PARKED_STEADY_MS - now_ms);
    settle_within(parking, parking->claimed_ms + quiet_ms(parking) - now_ms);
}

/* ---- time ---- */

static void want_builtin(void *ctx, const struct template *t)
{
    if (!t->team_id && can_park(t)) {
        (void)build_of(ctx, t);
    }
}

/* Ends the jails that are too many, and those of templates that are gone or have changed. */
static void refresh(struct sandboxes *all)
{
    struct parked_build *build = NULL, *next = NULL;

    DL_FOREACH_SAFE (all->parking->list, build, next) {
        build->stale = !template_of(build);
        build_shrink(build, build_target(build),
                     build->stale ? "its template is another by now" : "fewer are to be parked");
        bool wanted = !build->stale && (!build->team_id || build->demand.level > 0);
        if (!wanted && build->parked_n + build->making_n == 0) {
            build_free(build);
        }
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct sandboxes *all = timer->data;
    struct parked_build *build = NULL;

    all->parking->available_bytes = uv_get_free_memory();
    DL_FOREACH (all->parking->list, build) {
        demand_tick(&build->demand, build->failures > 0 || build->parked_n >= build_target(build));
    }
    refresh(all);
    parked_want(all);
    preconnect_expire(all);
}

/* ---- from outside ---- */

static bool fits(const struct sandbox_params *params)
{
    return !params->internal && can_park(params->template) &&
           json_array_size(json_object_get(params->options, "volumeMounts")) == 0;
}

/* The oldest jail whose agent can be reached. A jail that died or lost its channel is skipped: it
 * ends by itself. */
static struct parked_jail *parked_up(const struct parked_build *build)
{
    struct parked_jail *parked = NULL;

    DL_FOREACH (build->parked, parked) {
        if (sandbox_is_up(parked->watch.sandbox)) {
            return parked;
        }
    }
    return NULL;
}

static void note_claim(struct parking *parking)
{
    int64_t now_ms = clock_mono_ms();

    if (is_quiet(parking, now_ms)) {
        parking->begun_ms = now_ms;
        parking->claimed_n = 0;
    }
    parking->claimed_n++;
    parking->claimed_ms = now_ms;
    settle_within(parking, quiet_ms(parking));
}

struct sandbox *parked_claim(struct sandboxes *all, const struct sandbox_params *params)
{
    struct parking *parking = all->parking;

    if (all->use.parked_max == 0 || !fits(params)) {
        return NULL;
    }
    /* A copy may be of a sandbox that no template describes any more. */
    struct parked_build *build =
        params->alone ? build_find(parking, params->template) : build_of(all, params->template);
    if (!build) {
        return NULL;
    }
    demand_take(&build->demand, all->use.parked_max);
    note_claim(parking);
    struct parked_jail *parked = parked_up(build);
    if (!parked) {
        parking->misses++;
        return NULL;
    }
    parking->hits++;
    return unpark(parked);
}

void parked_figures(const struct sandboxes *all, struct sandboxes_figures *out)
{
    const struct parked_build *build = NULL;

    DL_FOREACH (all->parking->list, build) {
        out->parked += build->parked_n;
    }
    out->parked_hits = all->parking->hits;
    out->parked_misses = all->parking->misses;
}

void sandboxes_parked_each(const struct sandboxes *all, const char *team_id,
                           void (*each)(void *ctx, const struct template *t, uint32_t n), void *ctx)
{
    const struct parked_build *build = NULL;

    DL_FOREACH (all->parking->list, build) {
        bool shown = !build->team_id || strcmp(build->team_id, team_id) == 0;
        const struct template *t = shown ? template_of(build) : NULL;

        if (t) {
            each(ctx, t, build->parked_n);
        }
    }
}

void parked_want(struct sandboxes *all)
{
    if (!all->closed && all->use.parked_max > 0) {
        templates_each(all->use.templates, NULL, want_builtin, all);
        parked_refill(all);
    }
}

void sandboxes_unpark_stale(struct sandboxes *all)
{
    refresh(all);
}

static void on_emptied_look(uv_timer_t *timer)
{
    struct sandboxes *all = timer->data;
    struct parking *parking = all->parking;

    bool gone = !all->destroying && parking->making_n == 0;

    if (gone || !keeper_client_connected(all->use.keeper) ||
        clock_mono_ms() >= parking->emptied_by_ms) {
        (void)uv_timer_stop(timer);
        parking->emptied(parking->emptied_ctx);
    }
}

void sandboxes_unpark_all(struct sandboxes *all, void (*done)(void *ctx), void *ctx)
{
    struct parking *parking = all->parking;
    struct parked_build *build = NULL;

    all->use.parked_max = 0;
    parking->emptied = done;
    parking->emptied_ctx = ctx;
    parking->emptied_by_ms = clock_mono_ms() + SANDBOX_UNPARK_MS;
    DL_FOREACH (parking->list, build) {
        build_shrink(build, 0, "the daemon is stopping");
    }
    (void)uv_timer_stop(&parking->settling);
    (void)uv_timer_stop(&parking->tick);
    (void)uv_timer_start(&parking->emptying, on_emptied_look, 0, PARKED_EMPTIED_MS);
}

static uint32_t floor_of(const struct sandboxes *all, bool is_base)
{
    return all->use.parked_min == SANDBOX_PARKED_AUTO
               ? demand_floor(all->parking->memory_bytes, uv_available_parallelism(), is_base)
               : all->use.parked_min;
}

void parked_new(struct sandboxes *all)
{
    struct parking *parking = xnew(struct parking);

    all->parking = parking;
    all->refs += 3;
    parking->memory_bytes = uv_get_total_memory();
    parking->available_bytes = uv_get_free_memory();
    parking->floor = floor_of(all, true);
    parking->floor_others = floor_of(all, false);
    if (uv_timer_init(all->use.loop, &parking->tick) < 0 ||
        uv_timer_init(all->use.loop, &parking->settling) < 0 ||
        uv_timer_init(all->use.loop, &parking->emptying) < 0) {
        abort();
    }
    parking->tick.data = parking->settling.data = parking->emptying.data = all;
    if (all->use.parked_max > 0) {
        (void)uv_timer_start(&parking->tick, on_tick, PARKED_TICK_MS, PARKED_TICK_MS);
    }
}

static void on_timer_closed(uv_handle_t *handle)
{
    sandboxes_release(handle->data);
}

void parked_close(struct sandboxes *all)
{
    uv_close((uv_handle_t *)&all->parking->tick, on_timer_closed);
    uv_close((uv_handle_t *)&all->parking->settling, on_timer_closed);
    uv_close((uv_handle_t *)&all->parking->emptying, on_timer_closed);
}

void parked_free(struct sandboxes *all)
{
    while (all->parking->list) {
        build_free(all->parking->list);
    }
    free(all->parking);
}
