/* pool.c - parked jails: made ahead of time, so that a create has only to claim one.
 *
 *      create ─► claim ─► /init, row ─► RUNNING          (microseconds, no keeper)
 *                  │ none there
 *                  └────► KEEPER_CREATE ─► /init, row ─► RUNNING
 *
 * A parked jail is a sandbox in the state PARKED: it has its id, its uid range, its agent and,
 * where the template is kept with its processes, those; it reaches nothing, belongs to no team and
 * has seen none. A claim takes it out of the pool for good, so that none is ever used twice. There
 * is a pool for each build of a template that was asked for lately, and for the built-in ones
 * always; demand.h says how large it is. A jail is made when nobody waits for the keeper, and one
 * that failed or died by itself makes the next wait longer.
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
    POOL_TICK_MS = 1000,
    POOL_QUIET_MS = 100,      /* after a claim: what it is claimed for goes first; */
    POOL_QUIET_EACH_MS = 10,  /* so much more for each that was claimed in one go, */
    POOL_QUIET_MS_MAX = 1500, /* and no longer than this */
    POOL_STEADY_MS = 500,     /* claims that go on for so long are a load, not a burst */
    POOL_AT_ONCE = 1,         /* asked of the keeper, all pools together */
    POOL_AT_ONCE_LOW = 2,     /* by one that is low */
    POOL_RETRY_MS_MIN = 1000,
    POOL_RETRY_MS_MAX = 60 * 1000,
    POOL_EMPTIED_MS = 10, /* how often it is looked whether all are gone */
};

/* Of one build of a template, with what its jails were made of. */
struct pool {
    struct pool *prev, *next;
    struct sandboxes *all;
    char *template_id, *build_id, *layers, *saved;
    char *team_id; /* NULL: built in */
    uint32_t cpu_count, memory_mb, disk_mb;
    uint64_t saved_bytes;
    bool is_base;
    bool stale; /* the template is gone, or another by now */
    struct demand demand;
    struct parked *parked; /* oldest first */
    uint32_t parked_n, making_n;
    uint32_t failures; /* in a row */
    int64_t not_before_ms;
};

struct parked {
    struct parked *prev, *next;
    struct pool *pool;
    struct sandbox_watch watch; /* set while it is parked */
};

struct pools {
    struct pool *list;
    uint32_t making_n;     /* of all */
    uv_timer_t tick;       /* demand, memory, templates */
    uv_timer_t settling;   /* until more are made */
    uv_timer_t emptying;   /* the daemon stops: are all gone? */
    uint32_t floor;        /* of base */
    uint32_t floor_others; /* of other built-in templates */
    int64_t begun_ms;      /* the first claim without a quiet time since, */
    int64_t claimed_ms;    /* the last, */
    uint32_t claimed_n;    /* and how many */
    uint64_t memory_bytes; /* the host's, and what of it is available */
    uint64_t available_bytes;
    uint64_t hits, misses;

    void (*emptied)(void *ctx); /* NULL: the daemon is not stopping */
    void *emptied_ctx;
    int64_t emptied_by_ms;
};

/* ---- pools ---- */

static bool pool_is_of(const struct pool *pool, const struct template *t)
{
    return strcmp(pool->template_id, t->id) == 0 && text_same(pool->build_id, t->build_id) &&
           text_same(pool->layers, t->layers) && text_same(pool->saved, t->saved) &&
           pool->cpu_count == t->cpu_count && pool->memory_mb == t->memory_mb &&
           pool->disk_mb == t->disk_mb;
}

/* What its start command would do is done in a jail that is restored; else nobody would wait for
 * it. A snapshot is a moment of one sandbox, and rarely wanted twice at once. */
static bool can_park(const struct template *t)
{
    return t->layers[0] && !t->snapshot_of && (t->saved || (!t->start_cmd && !t->ready_cmd));
}

static struct pool *pool_find(const struct pools *pools, const struct template *t)
{
    struct pool *pool = NULL;

    DL_FOREACH (pools->list, pool) {
        if (pool_is_of(pool, t)) {
            return pool;
        }
    }
    return NULL;
}

static struct pool *pool_of(struct sandboxes *all, const struct template *t)
{
    struct pool *pool = pool_find(all->pools, t);

    if (!pool) {
        pool = xnew(struct pool);
        pool->all = all;
        text_set(&pool->template_id, t->id);
        text_set(&pool->build_id, t->build_id);
        text_set(&pool->layers, t->layers);
        text_set(&pool->saved, t->saved);
        pool->cpu_count = t->cpu_count;
        pool->memory_mb = t->memory_mb;
        pool->disk_mb = t->disk_mb;
        pool->saved_bytes = t->saved_bytes;
        text_set(&pool->team_id, t->team_id);
        pool->is_base = !t->team_id && t->alias && strcmp(t->alias, TEMPLATE_BASE) == 0;
        DL_APPEND(all->pools->list, pool);
    }
    return pool;
}

static void pool_free(struct pool *pool)
{
    DL_DELETE(pool->all->pools->list, pool);
    free(pool->template_id);
    free(pool->team_id);
    free(pool->build_id);
    free(pool->layers);
    free(pool->saved);
    free(pool);
}

static uint64_t jail_bytes(const struct pool *pool)
{
    return DEMAND_JAIL_BYTES + pool->saved_bytes;
}

static uint32_t pool_target(const struct pool *pool)
{
    const struct sandboxes *all = pool->all;
    struct demand_bounds bounds = {.floor =
                                       pool->is_base ? all->pools->floor : all->pools->floor_others,
                                   .ceiling = all->use.parked_max,
                                   .built_in = !pool->team_id,
                                   .restored = pool->saved != NULL,
                                   .jail_bytes = jail_bytes(pool),
                                   .free_bytes = all->use.parked_free_bytes,
                                   .memory_bytes = all->pools->memory_bytes,
                                   .available_bytes = all->pools->available_bytes};
    const struct pool *other = NULL;

    DL_FOREACH (all->pools->list, other) {
        bounds.held_bytes +=
            other == pool ? 0 : (other->parked_n + other->making_n) * jail_bytes(other);
    }
    return pool->stale ? 0 : demand_target(&pool->demand, &bounds);
}

/* ---- taking out ---- */

/* It is the caller's from now on. */
static struct sandbox *unpark(struct parked *parked)
{
    struct sandbox *sb = parked->watch.sandbox;

    sandbox_watch_unset(&parked->watch);
    DL_DELETE(parked->pool->parked, parked);
    parked->pool->parked_n--;
    free(parked);
    return sb;
}

static void pool_failed(struct pool *pool)
{
    int64_t wait_ms = POOL_RETRY_MS_MIN;

    for (uint32_t i = 0; i < pool->failures && wait_ms < POOL_RETRY_MS_MAX; i++) {
        wait_ms *= 2;
    }
    pool->failures++;
    pool->not_before_ms = clock_mono_ms() + wait_ms;
}

/* It died, or the daemon ends. */
static void on_gone(struct sandbox_watch *watch)
{
    struct parked *parked = container_of(watch, struct parked, watch);
    struct pool *pool = parked->pool;

    DL_DELETE(pool->parked, parked);
    pool->parked_n--;
    free(parked);
    if (!pool->all->closed && clock_mono_ms() >= pool->not_before_ms) {
        pool_failed(pool); /* many that die at one time are one failure */
    }
}

void pool_drop(struct sandbox *sb, const char *why)
{
    sandbox_kill(sb, why, NULL, NULL); /* on_gone() does the rest */
}

static void pool_shrink(struct pool *pool, uint32_t target, const char *why)
{
    while (pool->parked_n > target) {
        sandbox_kill(unpark(pool->parked), why, NULL, NULL);
    }
}

/* ---- making ---- */

static void on_parked(void *ctx, struct sandbox *sb, int error, const struct err *err)
{
    struct pool *pool = ctx;
    struct sandboxes *all = pool->all;

    (void)error, (void)err; /* logged where it was found */
    all->pools->making_n--;
    pool->making_n--;
    if (!sb) {
        pool_failed(pool);
        return;
    }
    if (all->pools->emptied) {
        sandbox_kill(sb, "the daemon is stopping", NULL, NULL);
        return;
    }
    struct parked *parked = xnew(struct parked);
    *parked = (struct parked){.pool = pool, .watch = {.gone = on_gone}};
    sandbox_watch_set(&parked->watch, sb);
    DL_APPEND(pool->parked, parked);
    pool->parked_n++;
    pool->failures = 0;
    ahead_dial(sb);
    pool_pump(all);
}

struct search {
    const struct pool *pool;
    const struct template *found;
};

static void match(void *ctx, const struct template *t)
{
    struct search *search = ctx;

    if (!search->found && pool_is_of(search->pool, t)) {
        search->found = t;
    }
}

static const struct template *template_of(const struct pool *pool)
{
    struct search search = {.pool = pool};

    templates_each_built(pool->all->use.templates, match, &search);
    return search.found;
}

/* For how long what was claimed last has the host to itself. */
static int64_t quiet_ms(const struct pools *pools)
{
    int64_t ms = POOL_QUIET_MS + (int64_t)pools->claimed_n * POOL_QUIET_EACH_MS;

    return ms < POOL_QUIET_MS_MAX ? ms : POOL_QUIET_MS_MAX;
}

static bool is_quiet(const struct pools *pools, int64_t now_ms)
{
    return now_ms - pools->claimed_ms >= quiet_ms(pools);
}

static bool is_low(const struct pool *pool)
{
    return demand_is_low(pool->parked_n + pool->making_n, pool_target(pool));
}

/* One that is low waits for a burst to be over, but not for quiet times: under a steady load there
 * are none. */
static bool lacks(const struct pool *pool)
{
    const struct pools *pools = pool->all->pools;
    int64_t now_ms = clock_mono_ms();
    bool low = is_low(pool);
    bool may = is_quiet(pools, now_ms) || (low && now_ms - pools->begun_ms >= POOL_STEADY_MS);

    return may && now_ms >= pool->not_before_ms &&
           pools->making_n < (low ? POOL_AT_ONCE_LOW : POOL_AT_ONCE) &&
           pool->parked_n + pool->making_n < pool_target(pool);
}

static void make_one(struct pool *pool)
{
    const struct template *t = template_of(pool);

    pool->stale = !t;
    if (t) {
        pool->making_n++;
        pool->all->pools->making_n++;
        sandbox_park(pool->all, t, on_parked, pool);
    }
}

static void on_settled(uv_timer_t *timer)
{
    pool_pump(timer->data);
}

/* Sooner, if it is due later. */
static void settle_within(struct pools *pools, int64_t ms)
{
    bool set = uv_is_active((uv_handle_t *)&pools->settling) &&
               (int64_t)uv_timer_get_due_in(&pools->settling) <= ms;

    if (ms > 0 && !set) {
        (void)uv_timer_start(&pools->settling, on_settled, (uint64_t)ms, 0);
    }
}

void pool_pump(struct sandboxes *all)
{
    struct pools *pools = all->pools;
    struct pool *pool = NULL;

    if (all->closed || all->adoption != ADOPT_READY || !keeper_client_connected(all->use.keeper)) {
        return;
    }
    DL_FOREACH (pools->list, pool) {
        while (all->making_n == 0 && lacks(pool)) {
            make_one(pool);
        }
    }
    int64_t now_ms = clock_mono_ms();
    settle_within(pools, pools->begun_ms + POOL_STEADY_MS - now_ms);
    settle_within(pools, pools->claimed_ms + quiet_ms(pools) - now_ms);
}

/* ---- time ---- */

static void want_builtin(void *ctx, const struct template *t)
{
    if (!t->team_id && can_park(t)) {
        (void)pool_of(ctx, t);
    }
}

/* As many as there should be, and of templates that are as they were. */
static void refresh(struct sandboxes *all)
{
    struct pool *pool = NULL, *next = NULL;

    DL_FOREACH_SAFE (all->pools->list, pool, next) {
        pool->stale = !template_of(pool);
        pool_shrink(pool, pool_target(pool),
                    pool->stale ? "its template is another by now" : "fewer are to be parked");
        bool wanted = !pool->stale && (!pool->team_id || pool->demand.level > 0);
        if (!wanted && pool->parked_n + pool->making_n == 0) {
            pool_free(pool);
        }
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct sandboxes *all = timer->data;
    struct pool *pool = NULL;

    all->pools->available_bytes = uv_get_free_memory();
    DL_FOREACH (all->pools->list, pool) {
        demand_tick(&pool->demand, pool->failures > 0 || pool->parked_n >= pool_target(pool));
    }
    refresh(all);
    pools_want(all);
    ahead_expire(all);
}

/* ---- from outside ---- */

static bool fits(const struct sandbox_params *params)
{
    return !params->internal && can_park(params->template) &&
           json_array_size(json_object_get(params->options, "volumeMounts")) == 0;
}

/* The oldest that can be told who it is: one that died, or lost its channel, is left to itself. */
static struct parked *parked_up(const struct pool *pool)
{
    struct parked *parked = NULL;

    DL_FOREACH (pool->parked, parked) {
        if (sandbox_is_up(parked->watch.sandbox)) {
            return parked;
        }
    }
    return NULL;
}

static void note_claim(struct pools *pools)
{
    int64_t now_ms = clock_mono_ms();

    if (is_quiet(pools, now_ms)) {
        pools->begun_ms = now_ms;
        pools->claimed_n = 0;
    }
    pools->claimed_n++;
    pools->claimed_ms = now_ms;
    settle_within(pools, quiet_ms(pools));
}

struct sandbox *pool_claim(struct sandboxes *all, const struct sandbox_params *params)
{
    struct pools *pools = all->pools;

    if (all->use.parked_max == 0 || !fits(params)) {
        return NULL;
    }
    struct pool *pool = pool_of(all, params->template);
    demand_take(&pool->demand, all->use.parked_max);
    note_claim(pools);
    struct parked *parked = parked_up(pool);
    if (!parked) {
        pools->misses++;
        return NULL;
    }
    pools->hits++;
    return unpark(parked);
}

void pools_figures(const struct sandboxes *all, struct sandboxes_figures *out)
{
    const struct pool *pool = NULL;

    DL_FOREACH (all->pools->list, pool) {
        out->parked += pool->parked_n;
    }
    out->parked_hits = all->pools->hits;
    out->parked_misses = all->pools->misses;
}

void sandboxes_parked_each(const struct sandboxes *all, const char *team_id,
                           void (*each)(void *ctx, const struct template *t, uint32_t n), void *ctx)
{
    const struct pool *pool = NULL;

    DL_FOREACH (all->pools->list, pool) {
        bool shown = !pool->team_id || strcmp(pool->team_id, team_id) == 0;
        const struct template *t = shown ? template_of(pool) : NULL;

        if (t) {
            each(ctx, t, pool->parked_n);
        }
    }
}

void pools_want(struct sandboxes *all)
{
    if (!all->closed && all->use.parked_max > 0) {
        templates_each(all->use.templates, NULL, want_builtin, all);
        pool_pump(all);
    }
}

void sandboxes_unpark_stale(struct sandboxes *all)
{
    refresh(all);
}

static void on_emptied_look(uv_timer_t *timer)
{
    struct sandboxes *all = timer->data;
    struct pools *pools = all->pools;

    bool gone = !all->doomed && pools->making_n == 0;

    if (gone || !keeper_client_connected(all->use.keeper) ||
        clock_mono_ms() >= pools->emptied_by_ms) {
        (void)uv_timer_stop(timer);
        pools->emptied(pools->emptied_ctx);
    }
}

void sandboxes_unpark_all(struct sandboxes *all, void (*done)(void *ctx), void *ctx)
{
    struct pools *pools = all->pools;
    struct pool *pool = NULL;

    all->use.parked_max = 0;
    pools->emptied = done;
    pools->emptied_ctx = ctx;
    pools->emptied_by_ms = clock_mono_ms() + SANDBOX_UNPARK_MS;
    DL_FOREACH (pools->list, pool) {
        pool_shrink(pool, 0, "the daemon is stopping");
    }
    (void)uv_timer_stop(&pools->settling);
    (void)uv_timer_stop(&pools->tick);
    (void)uv_timer_start(&pools->emptying, on_emptied_look, 0, POOL_EMPTIED_MS);
}

static uint32_t floor_of(const struct sandboxes *all, bool is_base)
{
    return all->use.parked_min == SANDBOX_PARKED_AUTO
               ? demand_floor(all->pools->memory_bytes, uv_available_parallelism(), is_base)
               : all->use.parked_min;
}

void pools_new(struct sandboxes *all)
{
    struct pools *pools = xnew(struct pools);

    all->pools = pools;
    all->refs += 3;
    pools->memory_bytes = uv_get_total_memory();
    pools->available_bytes = uv_get_free_memory();
    pools->floor = floor_of(all, true);
    pools->floor_others = floor_of(all, false);
    if (uv_timer_init(all->use.loop, &pools->tick) < 0 ||
        uv_timer_init(all->use.loop, &pools->settling) < 0 ||
        uv_timer_init(all->use.loop, &pools->emptying) < 0) {
        abort();
    }
    pools->tick.data = pools->settling.data = pools->emptying.data = all;
    if (all->use.parked_max > 0) {
        (void)uv_timer_start(&pools->tick, on_tick, POOL_TICK_MS, POOL_TICK_MS);
    }
}

static void on_timer_closed(uv_handle_t *handle)
{
    sandboxes_release(handle->data);
}

void pools_close(struct sandboxes *all)
{
    uv_close((uv_handle_t *)&all->pools->tick, on_timer_closed);
    uv_close((uv_handle_t *)&all->pools->settling, on_timer_closed);
    uv_close((uv_handle_t *)&all->pools->emptying, on_timer_closed);
}

void pools_free(struct sandboxes *all)
{
    while (all->pools->list) {
        pool_free(all->pools->list);
    }
    free(all->pools);
}
