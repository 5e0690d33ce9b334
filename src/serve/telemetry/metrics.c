#include "serve/telemetry/metrics.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/busy.h"
#include "lib/base/clock.h"
#include "lib/base/table.h"
#include "serve/telemetry/series.h"

enum {
    PAGE_BYTES = 4096,   /* sizes are kept in these: four bytes tell up to 16 TiB */
    NETWORK_BYTES = 256, /* traffic is kept in these: up to 1 TiB */
    CENTI = 100,         /* shares and rates are kept in hundredths */
    ASKED_MAX = 64,      /* requests under way: a slow keeper is not given more */
    TICKS_PER_ROUND = METRICS_ROUND_MS / METRICS_TICK_MS,
    TICKS_PER_LOOK = METRICS_LOOK_MS / METRICS_TICK_MS,
    BUSY_USEC = 10 * 1000, /* between two samples */
    TOLD_USEC = 2 * 1000,  /* more than it takes an agent to show what it is told */
};

enum { SANDBOX_CPU, SANDBOX_MEMORY, SANDBOX_CACHE, SANDBOX_DISK, SANDBOX_SENT, SANDBOX_RECEIVED };
enum { TEAM_SANDBOXES, TEAM_STARTS };

struct track { /* of a sandbox */
    char id[ID_SANDBOX_LEN + 1];
    UT_hash_handle hh;
    uint64_t cpu_usec; /* at the last sample */
    int64_t at_us;
    bool busy;              /* it ran before the last sample */
    uint64_t told_cpu_usec; /* when it was last told what it uses */
    struct network {        /* out of the sandbox, by its own connections */
        uint64_t sent, received;
    } seen, sum; /* seen: as the egress counts, which begins anew when it is resumed */
    struct series series;
};

struct team_track {
    char id[ID_UUID_LEN + 1];
    UT_hash_handle hh;
    uint32_t sandboxes; /* counted in this round */
    uint32_t starts;
    struct series series;
};

struct metrics {
    struct sandboxes *sandboxes;
    struct keeper_client *keeper;
    uv_timer_t timer;
    uint32_t refs; /* the owner's, the timer's, one for each request under way */
    bool closed;

    struct track *tracks;
    struct team_track *teams;
    uint32_t tick;                  /* of this round */
    size_t slice;                   /* sandboxes of each tick in this round */
    struct sandbox_position at;     /* where the round is */
    struct sandbox_position newest; /* the newest sandbox that has been seen */
    uint32_t asked;
    uint64_t samples;
};

struct batch {
    struct metrics *metrics; /* counted */
    bool look;               /* of the answer only first samples are kept */
    struct keeper_request request;
};

static void metrics_release(struct metrics *metrics)
{
    if (--metrics->refs == 0) {
        free(metrics);
    }
}

/* ---- a single sample ---- */

static uint32_t pages(uint64_t bytes)
{
    uint64_t n = bytes / PAGE_BYTES;

    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

/* A share needs two readings. The work of a jail before the first reading is not the sandbox's: the
 * jail was started and parked then. */
static uint32_t cpu_share(struct track *track, const struct sandbox_info *info, uint64_t cpu_usec)
{
    int64_t now_us = clock_mono_us();
    double could = (double)(now_us - track->at_us) * info->cpu_count;
    double did = cpu_usec > track->cpu_usec ? (double)(cpu_usec - track->cpu_usec) : 0;
    double share = could > 0 ? did / could * 100 * CENTI : 0;

    track->cpu_usec = cpu_usec;
    track->at_us = now_us;
    return share < 100 * CENTI ? (uint32_t)share : 100 * CENTI;
}

static uint64_t grown(uint64_t *seen, uint64_t now)
{
    uint64_t more = now >= *seen ? now - *seen : now;

    *seen = now;
    return more;
}

static uint32_t network_units(uint64_t bytes)
{
    uint64_t n = bytes / NETWORK_BYTES;

    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

static void network_take(struct track *track, const struct sandbox *sb, struct series_sample *out)
{
    struct egress_counters now;

    if (sandbox_egress(sb, &now)) {
        track->sum.sent += grown(&track->seen.sent, now.bytes_out);
        track->sum.received += grown(&track->seen.received, now.bytes_in);
    }
    out->values[SANDBOX_SENT] = network_units(track->sum.sent);
    out->values[SANDBOX_RECEIVED] = network_units(track->sum.received);
}

static struct track *track_of(struct metrics *metrics, const char *id)
{
    struct track *track = NULL;

    HASH_FIND_STR(metrics->tracks, id, track);
    if (!track) {
        track = xnew(struct track);
        memcpy(track->id, id, strlen(id)); /* it is the id of a sandbox that was found */
        HASH_ADD_STR(metrics->tracks, id, track);
    }
    return track;
}

/* Whether it was read once, and has no sample yet. */
static bool is_new(const struct track *track)
{
    return track->series.last.time_s == 0;
}

static void sample_take(struct metrics *metrics, const char *id, const struct keeper_usage *usage)
{
    const struct sandbox *sb = sandboxes_find(metrics->sandboxes, str_of(id));

    if (!sb || !usage->known) {
        return; /* it ended meanwhile */
    }
    struct sandbox_info info = sandbox_info(sb);
    struct track *track = track_of(metrics, info.id);
    int64_t now_s = clock_wall_ms() / 1000;
    if (track->at_us == 0) {
        (void)cpu_share(track, &info, usage->cpu_usec);
        return;
    }
    if (track->series.last.time_s == now_s) {
        return; /* its first sample came just before its turn in the round */
    }
    uint64_t cache = usage->memory_cache_bytes;
    uint64_t used = usage->memory_bytes > cache ? usage->memory_bytes - cache : 0;
    struct series_sample sample = {.time_s = now_s};
    track->busy = usage->cpu_usec > track->cpu_usec + BUSY_USEC;
    sample.values[SANDBOX_CPU] = cpu_share(track, &info, usage->cpu_usec);
    sample.values[SANDBOX_MEMORY] = pages(used);
    sample.values[SANDBOX_CACHE] = pages(cache);
    sample.values[SANDBOX_DISK] = pages(usage->disk_bytes);
    network_take(track, sb, &sample);
    series_add(&track->series, &sample);
    metrics->samples++;
}

/* Only a sandbox that has run has anything new to show: an idle one is not woken. */
static void used_tell(struct metrics *metrics, const char *id, const struct keeper_usage *usage)
{
    struct sandbox *sb = sandboxes_find(metrics->sandboxes, str_of(id));
    struct track *track = NULL;

    HASH_FIND_STR(metrics->tracks, id, track);
    if (sb && track && usage->known && usage->cpu_usec > track->told_cpu_usec + TOLD_USEC) {
        track->told_cpu_usec = usage->cpu_usec;
        sandbox_tell_used(sb, usage);
    }
}

/* ---- asking ---- */

static void on_usage(void *ctx, const struct keeper_answer *answer, int fds[KEEPER_FDS_MAX])
{
    struct batch *batch = ctx;
    struct metrics *metrics = batch->metrics;

    (void)fds;
    metrics->asked--;
    bool good = answer->status == 0 && !metrics->closed;
    for (uint32_t i = 0; good && i < batch->request.batch.n; i++) {
        const char *id = batch->request.batch.ids[i];
        struct track *track = NULL;
        HASH_FIND_STR(metrics->tracks, id, track);
        if (!batch->look || (track && is_new(track))) {
            sample_take(metrics, id, &answer->usages[i]);
        }
        used_tell(metrics, id, &answer->usages[i]);
    }
    metrics_release(metrics);
    free(batch);
}

/* An empty batch is sent too: its answer has the figures of the pool. */
static void batch_send(struct metrics *metrics, struct batch *batch)
{
    if (metrics->asked == ASKED_MAX || !keeper_client_connected(metrics->keeper)) {
        free(batch);
        return;
    }
    batch->metrics = metrics;
    metrics->refs++;
    metrics->asked++;
    keeper_client_ask(metrics->keeper, &batch->request, on_usage, batch);
}

static struct batch *batch_new(bool look)
{
    struct batch *batch = xnew(struct batch);

    batch->look = look;
    batch->request.op = KEEPER_USAGE_MANY;
    return batch;
}

static void batch_add(struct metrics *metrics, struct batch **batch, const char *id)
{
    struct keeper_batch *ids = &(*batch)->request.batch;

    (void)str_copy(ids->ids[ids->n++], KEEPER_ID_BYTES, str_of(id));
    if (ids->n == KEEPER_BATCH_MAX) {
        const bool look = (*batch)->look;
        batch_send(metrics, *batch);
        *batch = batch_new(look);
    }
}

/* ---- between the rounds ---- */

/* Between the rounds, so that what a sandbox is shown of itself is fresh, and a new one gets its
 * first sample: each second for those that run now, or for all where there are few. */
static void look(struct metrics *metrics)
{
    const bool all = HASH_COUNT(metrics->tracks) <= METRICS_LOOKS_MAX;
    struct batch *batch = batch_new(true);
    size_t n = 0;

    for (const struct track *track = metrics->tracks; track && n < METRICS_LOOKS_MAX;
         track = track->hh.next) {
        if (all || track->busy || is_new(track)) {
            batch_add(metrics, &batch, track->id);
            n++;
        }
    }
    if (batch->request.batch.n > 0) {
        batch_send(metrics, batch);
    } else {
        free(batch);
    }
}

/* ---- walking over the table ---- */

struct walk {
    struct metrics *metrics;
    struct batch *batch;
    size_t left;
    bool fresh; /* these have not been seen before */
};

static struct team_track *team_of(struct metrics *metrics, const char *id)
{
    struct team_track *team = NULL;

    HASH_FIND_STR(metrics->teams, id, team);
    if (!team && strlen(id) < sizeof(team->id)) {
        team = xnew(struct team_track);
        memcpy(team->id, id, strlen(id));
        HASH_ADD_STR(metrics->teams, id, team);
    }
    return team;
}

static bool visit(void *ctx, struct sandbox *sb)
{
    struct walk *walk = ctx;
    struct metrics *metrics = walk->metrics;
    struct sandbox_info info = sandbox_info(sb);
    struct sandbox_position *at = walk->fresh ? &metrics->newest : &metrics->at;
    struct team_track *team = team_of(metrics, info.team_id);

    if (walk->left == 0) {
        return false;
    }
    walk->left--;
    at->created_ms = info.created_ms;
    (void)str_copy(at->id, sizeof(at->id), str_of(info.id));
    if (info.state != SANDBOX_RUNNING) {
        return true;
    }
    if (team && walk->fresh) {
        team->starts++;
    } else if (team) {
        team->sandboxes++;
    }
    batch_add(metrics, &walk->batch, info.id);
    return true;
}

/* ---- the end of a round ---- */

static void teams_close_round(struct metrics *metrics)
{
    struct team_track *team = NULL, *next = NULL;

    HASH_ITER (hh, metrics->teams, team, next) {
        struct series_sample sample = {.time_s = clock_wall_ms() / 1000};
        sample.values[TEAM_SANDBOXES] = team->sandboxes;
        sample.values[TEAM_STARTS] = team->starts * CENTI * 1000 / METRICS_ROUND_MS;
        series_add(&team->series, &sample);
        team->sandboxes = team->starts = 0;
    }
}

static void track_free(struct metrics *metrics, struct track *track)
{
    HASH_DEL(metrics->tracks, track);
    series_fini(&track->series);
    free(track);
}

/* Sandboxes that have gone take their figures along. */
static void tracks_sweep(struct metrics *metrics)
{
    struct track *track = NULL, *next = NULL;

    HASH_ITER (hh, metrics->tracks, track, next) {
        if (!sandboxes_find(metrics->sandboxes, str_of(track->id))) {
            track_free(metrics, track);
        }
    }
}

static void round_begin(struct metrics *metrics)
{
    uint32_t running = sandboxes_figures(metrics->sandboxes).running;

    metrics->tick = 0;
    metrics->at = (struct sandbox_position){.created_ms = INT64_MIN};
    metrics->slice = running / TICKS_PER_ROUND + 1;
}

/* The last tick of a round takes all that is left of the table. */
static void on_tick(uv_timer_t *timer)
{
    struct metrics *metrics = timer->data;
    struct walk walk = {.metrics = metrics, .batch = batch_new(false), .left = metrics->slice};
    bool last = ++metrics->tick == TICKS_PER_ROUND;
    busy("the figures of sandboxes");

    walk.left = last ? SIZE_MAX : metrics->slice;
    sandboxes_each(metrics->sandboxes, true, &metrics->at, visit, &walk);
    walk.fresh = true;
    walk.left = SIZE_MAX;
    sandboxes_each(metrics->sandboxes, true, &metrics->newest, visit, &walk);
    if (walk.batch->request.batch.n > 0 || last) {
        batch_send(metrics, walk.batch);
    } else {
        free(walk.batch);
    }
    if (metrics->tick % TICKS_PER_LOOK == 0) {
        look(metrics);
    }
    if (last) {
        teams_close_round(metrics);
        tracks_sweep(metrics);
        round_begin(metrics);
    }
}

/* ---- reading ---- */

struct thinning {
    int64_t step_s;
    struct series_sample held; /* time_s 0: none */
    void (*each)(void *ctx, const struct series_sample *sample);
    void *ctx;
};

static void thin(void *ctx, const struct series_sample *sample)
{
    struct thinning *t = ctx;

    if (t->held.time_s && sample->time_s / t->step_s != t->held.time_s / t->step_s) {
        t->each(t->ctx, &t->held);
        t->held = (struct series_sample){0};
    }
    t->held.time_s = sample->time_s;
    for (int i = 0; i < SERIES_VALUES; i++) {
        if (sample->values[i] > t->held.values[i]) {
            t->held.values[i] = sample->values[i];
        }
    }
}

static void each_thinned(const struct series *series, struct metrics_range range,
                         void (*each)(void *ctx, const struct series_sample *sample), void *ctx)
{
    int64_t first_s = series_first_s(series);
    int64_t from_s = range.from_s > first_s ? range.from_s : first_s;
    int64_t to_s = range.to_s < series->last.time_s ? range.to_s : series->last.time_s;
    struct thinning t = {.step_s = (to_s - from_s) / METRICS_POINTS_MAX, .each = each, .ctx = ctx};

    if (to_s < from_s) {
        return;
    }
    if (t.step_s < SERIES_STEP_S) {
        series_each(series, from_s, to_s, each, ctx);
        return;
    }
    series_each(series, from_s, to_s, thin, &t);
    if (t.held.time_s) {
        each(ctx, &t.held);
    }
}

static struct metric metric_of(const struct series_sample *sample)
{
    return (struct metric){
        .time_s = sample->time_s,
        .cpu_pct = (double)sample->values[SANDBOX_CPU] / CENTI,
        .memory_bytes = (uint64_t)sample->values[SANDBOX_MEMORY] * PAGE_BYTES,
        .cache_bytes = (uint64_t)sample->values[SANDBOX_CACHE] * PAGE_BYTES,
        .disk_bytes = (uint64_t)sample->values[SANDBOX_DISK] * PAGE_BYTES,
        .sent_bytes = (uint64_t)sample->values[SANDBOX_SENT] * NETWORK_BYTES,
        .received_bytes = (uint64_t)sample->values[SANDBOX_RECEIVED] * NETWORK_BYTES,
    };
}

struct reading {
    void (*each)(void *ctx, const struct metric *metric);
    void (*each_team)(void *ctx, const struct team_metric *metric);
    void *ctx;
};

static void read_one(void *ctx, const struct series_sample *sample)
{
    const struct reading *reading = ctx;
    struct metric metric = metric_of(sample);

    reading->each(reading->ctx, &metric);
}

static const struct track *track_find(const struct metrics *metrics, struct str id)
{
    const struct track *track = NULL;

    if (id.len > 0) {
        HASH_FIND(hh, metrics->tracks, id.at, id.len, track);
    }
    return track;
}

void metrics_each(struct metrics *metrics, struct str sandbox_id, struct metrics_range range,
                  void (*each)(void *ctx, const struct metric *metric), void *ctx)
{
    const struct track *track = track_find(metrics, sandbox_id);
    struct reading reading = {.each = each, .ctx = ctx};

    if (track) {
        each_thinned(&track->series, range, read_one, &reading);
    }
}

bool metrics_latest(struct metrics *metrics, struct str sandbox_id, struct metric *out)
{
    const struct track *track = track_find(metrics, sandbox_id);

    if (!track || track->series.last.time_s == 0) {
        return false;
    }
    *out = metric_of(&track->series.last);
    return true;
}

static void read_team(void *ctx, const struct series_sample *sample)
{
    const struct reading *reading = ctx;
    struct team_metric metric = {
        .time_s = sample->time_s,
        .sandboxes = sample->values[TEAM_SANDBOXES],
        .start_rate = (double)sample->values[TEAM_STARTS] / CENTI,
    };

    reading->each_team(reading->ctx, &metric);
}

void metrics_team_each(struct metrics *metrics, const char *team_id, struct metrics_range range,
                       void (*each)(void *ctx, const struct team_metric *metric), void *ctx)
{
    const struct team_track *team = NULL;
    struct reading reading = {.each_team = each, .ctx = ctx};

    HASH_FIND_STR(metrics->teams, team_id, team);
    if (team) {
        each_thinned(&team->series, range, read_team, &reading);
    }
}

struct metrics_figures metrics_figures(const struct metrics *metrics)
{
    struct metrics_figures figures = {.samples = metrics->samples};

    for (const struct track *track = metrics->tracks; track; track = track->hh.next) {
        figures.series++;
        figures.bytes += series_bytes(&track->series);
    }
    for (const struct team_track *team = metrics->teams; team; team = team->hh.next) {
        figures.series++;
        figures.bytes += series_bytes(&team->series);
    }
    return figures;
}

/* ---- life ---- */

struct metrics *metrics_new(uv_loop_t *loop, struct sandboxes *sandboxes,
                            struct keeper_client *keeper)
{
    struct metrics *metrics = xnew(struct metrics);

    metrics->sandboxes = sandboxes;
    metrics->keeper = keeper;
    metrics->refs = 2;
    metrics->newest.created_ms = clock_wall_ms(); /* older sandboxes do not count as starts */
    round_begin(metrics);
    if (uv_timer_init(loop, &metrics->timer) < 0 ||
        uv_timer_start(&metrics->timer, on_tick, METRICS_TICK_MS, METRICS_TICK_MS) < 0) {
        abort();
    }
    metrics->timer.data = metrics;
    return metrics;
}

static void on_timer_closed(uv_handle_t *handle)
{
    metrics_release(handle->data);
}

void metrics_free(struct metrics *metrics)
{
    struct team_track *team = NULL, *next = NULL;

    if (!metrics) {
        return;
    }
    metrics->closed = true;
    while (metrics->tracks) {
        track_free(metrics, metrics->tracks);
    }
    HASH_ITER (hh, metrics->teams, team, next) {
        HASH_DEL(metrics->teams, team);
        series_fini(&team->series);
        free(team);
    }
    uv_close((uv_handle_t *)&metrics->timer, on_timer_closed);
    metrics_release(metrics);
}
