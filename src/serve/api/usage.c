/* usage.c - the usage of teams: now, and hour by hour.
 *
 * Sandboxes count exactly, from change to change (serve/sandbox/usage_sums.c). Disk and builds are
 * looked at once a minute. Each minute what has come since goes to the hour's row in the store, so
 * a crash loses a minute. While no daemon runs nothing is counted, though sandboxes may go on. */
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "serve/api/internal.h"
#include "serve/api/query.h"

enum { USAGE_EVERY_MS = 60 * 1000, HOUR_MS = 3600 * 1000, USAGE_HOURS_MAX = 31 * 24 };

/* ---- on record ---- */

static void record(struct api *api, struct team *team, int64_t elapsed_ms, store_done *done,
                   void *ctx)
{
    struct sandboxes_used used = sandboxes_used(api->options.sandboxes, team->id);
    struct amounts now = quota_used(api, team, NULL);
    int64_t wall_ms = clock_wall_ms();
    const struct usage_row row = {
        .team_id = team->id,
        .hour_ms = wall_ms - wall_ms % HOUR_MS,
        .sandbox_ms = (int64_t)(used.sandbox_ms - team->recorded.sandbox_ms),
        .cpu_ms = (int64_t)(used.cpu_ms - team->recorded.cpu_ms),
        .memory_mb_ms = (int64_t)(used.memory_mb_ms - team->recorded.memory_mb_ms),
        .disk_mb_ms = now.of[LIMIT_DISK_MB] * elapsed_ms,
        .builds = (int64_t)(team->builds - team->recorded.builds),
        .build_ms = now.of[LIMIT_BUILDS] * elapsed_ms,
    };

    team->recorded =
        (struct usage_sums){used.sandbox_ms, used.cpu_ms, used.memory_mb_ms, team->builds};
    if (done || row.sandbox_ms || row.disk_mb_ms || row.builds || row.build_ms) {
        store_usage_add(api->options.store, &row, done, ctx);
    }
}

/* Records the usage of all teams except `but`, whose caller does it itself (NULL: of all). Returns
 * the time since the last record. */
static int64_t record_all(struct api *api, const struct team *but)
{
    int64_t now_ms = clock_mono_ms();
    int64_t elapsed_ms = now_ms - api->usage_ms;
    struct team *team;

    api->usage_ms = now_ms;
    LL_FOREACH (api->teams, team) {
        if (team != but) {
            record(api, team, elapsed_ms, NULL, NULL);
        }
    }
    return elapsed_ms;
}

static void on_timer(uv_timer_t *timer)
{
    (void)record_all(timer->data, NULL);
    audit_tick(timer->data);
}

void usage_start(struct api *api)
{
    api->usage_ms = clock_mono_ms();
    if (uv_timer_init(api->options.loop, &api->usage_timer) < 0 ||
        uv_timer_start(&api->usage_timer, on_timer, USAGE_EVERY_MS, USAGE_EVERY_MS) < 0) {
        abort();
    }
    api->usage_timer.data = api;
    uv_unref((uv_handle_t *)&api->usage_timer);
    api->calls++; /* until libuv has closed it */
}

static void on_closed(uv_handle_t *timer)
{
    api_release(timer->data);
}

void usage_stop(struct api *api)
{
    (void)record_all(api, NULL);
    uv_close((uv_handle_t *)&api->usage_timer, on_closed);
}

void usage_build(struct call *call)
{
    struct team *team = accounts_team(call->api, call->team->id);

    team->builds++;
}

/* ---- GET /teams/{id}/usage ---- */

struct report {
    struct call *call;
    json_t *reply;
    int64_t from_ms, to_ms;
};

static json_t *totals(const json_t *hours)
{
    static const char *const names[] = {"sandboxSeconds", "cpuSeconds",   "memoryMBSeconds",
                                        "diskMBSeconds",  "buildSeconds", "builds"};
    json_t *out = json_object();

    for (size_t n = 0; n < countof(names); n++) {
        double sum = 0;
        for (size_t i = 0; i < json_array_size(hours); i++) {
            sum += json_number_value(json_object_get(json_array_get(hours, i), names[n]));
        }
        (void)json_object_set_new(out, names[n], json_real(sum));
    }
    return out;
}

static void hours_stamp(const json_t *hours)
{
    for (size_t i = 0; i < json_array_size(hours); i++) {
        json_t *hour = json_array_get(hours, i);
        int64_t ms = json_integer_value(json_object_get(hour, "hourMs"));

        (void)json_object_set_new(hour, "timestamp", stamp_json(ms));
        (void)json_object_set_new(hour, "timestampUnix", json_integer(ms / 1000));
        (void)json_object_del(hour, "hourMs");
    }
}

static void on_hours(void *ctx, int error, const struct err *err, const char *text)
{
    struct report *report = ctx;
    json_t *hours = error == 0 ? json_loads(text, 0, NULL) : NULL;

    if (!hours) {
        json_decref(report->reply);
        call_fail_err(report->call, error, err);
    } else {
        (void)json_object_set_new(report->reply, "total", totals(hours));
        hours_stamp(hours);
        (void)json_object_set_new(report->reply, "hours", hours);
        call_json(report->call, 200, report->reply);
    }
    free(report);
}

/* The usage since the last minute is on record now. */
static void on_recorded(void *ctx, int error, const struct err *err)
{
    struct report *report = ctx;

    if (error < 0) {
        on_hours(report, error, err, NULL);
        return;
    }
    store_usage_list(report->call->api->options.store, report->call->team->id, report->from_ms,
                     report->to_ms, on_hours, report);
}

struct measure {
    const struct call *call;
    double cpus;
    uint64_t memory_bytes, disk_bytes;
};

static bool add_measure(void *ctx, struct sandbox *sb)
{
    struct measure *measure = ctx;
    struct sandbox_info info = sandbox_info(sb);
    struct metric metric;

    if (strcmp(info.team_id, measure->call->team->id) == 0 && info.state == SANDBOX_RUNNING &&
        metrics_latest(measure->call->api->options.metrics, str_of(info.id), &metric)) {
        measure->cpus += metric.cpu_pct / 100 * info.cpu_count;
        measure->memory_bytes += metric.memory_bytes;
        measure->disk_bytes += metric.disk_bytes;
    }
    return true;
}

/* The resources that running sandboxes really use, as of their last sample. */
static json_t *measured(const struct call *call)
{
    struct measure measure = {.call = call};

    sandboxes_each(call->api->options.sandboxes, false, NULL, add_measure, &measure);
    return json_pack("{sfsIsI}", "cpus", measure.cpus, "memoryMB",
                     (json_int_t)(measure.memory_bytes >> 20), "diskMB",
                     (json_int_t)(measure.disk_bytes >> 20));
}

static int hours_of(const struct call *call, struct report *report, struct err *err)
{
    struct query_range range;
    int r = query_range(http_request(call->ex)->query, &range, err);

    if (r < 0) {
        return r;
    }
    int64_t now_ms = clock_wall_ms();
    int64_t span_ms = (int64_t)USAGE_HOURS_MAX * HOUR_MS;
    report->to_ms = range.end_s == INT64_MAX ? now_ms : range.end_s * 1000;
    report->from_ms = range.start_s == INT64_MIN ? report->to_ms - span_ms : range.start_s * 1000;
    report->from_ms -= report->from_ms % HOUR_MS; /* the hour in which it begins */
    if (report->to_ms - report->from_ms > span_ms + HOUR_MS) {
        return err_set(err, EINVAL, "validation error: usage is shown for at most %d days at once",
                       USAGE_HOURS_MAX / 24);
    }
    return 0;
}

void handle_usage(struct call *call, const json_t *body)
{
    struct report *report = xnew(struct report);
    struct err err;
    int r = hours_of(call, report, &err);

    (void)body;
    if (r < 0) {
        free(report);
        call_fail_err(call, r, &err);
        return;
    }
    struct amounts now = quota_used(call->api, call->team, NULL);
    struct limits limits = quota_limits(call->api, call->team);
    struct sandboxes_used used = sandboxes_used(call->api->options.sandboxes, call->team->id);
    json_t *in_use = amounts_json(&now);

    (void)json_object_set_new(in_use, "pausedSandboxes", json_integer(used.paused));
    report->call = call;
    report->reply =
        json_pack("{sssssososo}", "teamID", call->team->id, "name", call->team->name, "limits",
                  limits_json(&limits), "now", in_use, "measured", measured(call));
    int64_t elapsed_ms = record_all(call->api, call->team);
    record(call->api, accounts_team(call->api, call->team->id), elapsed_ms, on_recorded, report);
}

void handle_team_usage(struct call *call, const json_t *body)
{
    if (strcmp(call->param, call->team->id) != 0) {
        call_fail(call, 403, "You are not authorized to access the usage of team %.64s",
                  call->param);
        return;
    }
    handle_usage(call, body);
}
