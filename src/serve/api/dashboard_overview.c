/* dashboard_overview.c - GET /dashboard/overview: the machine and what runs on it, at a glance.
 * Figures of all teams together and the findings about the machine are for the operator alone. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/json.h"
#include "lib/base/small_file.h"
#include "serve/api/internal.h"

enum { MEMINFO_BYTES = 4096, KIB = 1024, RATE_S = 60, FINDINGS_BYTES = 64 * 1024 };

/* ---- the machine ---- */

static json_int_t meminfo_bytes(const char *meminfo, const char *name)
{
    const char *at = strstr(meminfo, name);

    return at ? (json_int_t)strtoull(at + strlen(name), NULL, 10) * KIB : 0;
}

static void set_memory(json_t *out)
{
    char meminfo[MEMINFO_BYTES];

    (void)small_file_read(AT_FDCWD, "/proc/meminfo", meminfo, sizeof(meminfo));
    json_int_t total = meminfo_bytes(meminfo, "MemTotal:");
    (void)json_object_set_new(out, "memoryTotal", json_integer(total));
    (void)json_object_set_new(out, "memoryUsed",
                              json_integer(total - meminfo_bytes(meminfo, "MemAvailable:")));
}

/* The file system that holds the sandboxes' disks, templates and saves. */
static void set_disk(json_t *out, const char *pool)
{
    struct statvfs disk;

    if (pool && statvfs(pool, &disk) == 0) {
        json_int_t unit = (json_int_t)disk.f_frsize;
        (void)json_object_set_new(out, "diskTotal", json_integer(unit * (json_int_t)disk.f_blocks));
        (void)json_object_set_new(out, "diskUsed",
                                  json_integer(unit * (json_int_t)(disk.f_blocks - disk.f_bfree)));
    }
}

static json_t *machine_json(const struct api *api)
{
    json_t *out = json_object(), *loads = json_array();
    double load[3] = {0};
    int n = getloadavg(load, 3);

    for (int i = 0; i < n; i++) {
        (void)json_array_append_new(loads, json_real(load[i]));
    }
    (void)json_object_set_new(out, "cpuCount", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
    (void)json_object_set_new(out, "load", loads);
    set_memory(out);
    set_disk(out, api->options.pool);
    (void)json_object_set_new(out, "keeper",
                              json_boolean(keeper_client_connected(api->options.keeper)));
    return out;
}

/* ---- creates ---- */

static void histogram_join(struct histogram *sum, const struct histogram *part)
{
    for (size_t i = 0; i < HISTOGRAM_BOUNDS; i++) {
        sum->buckets[i] += part->buckets[i];
    }
    sum->count += part->count;
    sum->sum_us += part->sum_us;
}

/* Adds up both ways to create a sandbox. */
static struct histogram creates_took(const struct api *api)
{
    struct histogram sum = {0};

    for (size_t i = 0; i < routes_count(); i++) {
        const struct route *route = route_at(i);

        if (route->handle == handle_create_v1 || route->handle == handle_create_v2) {
            histogram_join(&sum, &api->figures[i].latency);
        }
    }
    return sum;
}

/* The share of all that took at most so long, in ms: as exact as the buckets are. */
static json_t *percentile(const struct histogram *took, double share)
{
    double wanted = share * (double)took->count, seen = 0, below = 0;

    for (size_t i = 0; took->count > 0 && i < HISTOGRAM_BOUNDS; i++) {
        double here = (double)took->buckets[i], bound = (double)histogram_bounds_us[i] / 1000;

        if (here > 0 && seen + here >= wanted) {
            return json_real(below + (bound - below) * (wanted - seen) / here);
        }
        seen += here;
        below = bound;
    }
    return json_null();
}

struct rate {
    double sum;
    unsigned n;
};

static void add_rate(void *ctx, const struct team_metric *metric)
{
    struct rate *rate = ctx;

    rate->sum += metric->start_rate;
    rate->n++;
}

static json_t *creates_json(const struct call *call)
{
    const struct api *api = call->api;
    const struct histogram took = creates_took(api);
    int64_t now_s = clock_wall_ms() / 1000;
    struct rate rate = {0};

    metrics_team_each(api->options.metrics, call->team->id,
                      (struct metrics_range){now_s - RATE_S, now_s}, add_rate, &rate);
    return json_pack("{sfsIsososo}", "perMinute", rate.n ? rate.sum / rate.n * 60 : 0.0, "requests",
                     (json_int_t)took.count, "p50Ms", percentile(&took, 0.5), "p95Ms",
                     percentile(&took, 0.95), "p99Ms", percentile(&took, 0.99));
}

/* ---- sandboxes ---- */

static json_t *team_json(const struct call *call)
{
    struct sandboxes_used used = sandboxes_used(call->api->options.sandboxes, call->team->id);

    return json_pack("{sisi}", "running", (int)used.running, "paused", (int)used.paused);
}

static json_t *all_json(const struct api *api)
{
    const struct sandboxes_figures all = sandboxes_figures(api->options.sandboxes);

    return json_pack("{sisisisisIsI}", "running", (int)all.running, "paused", (int)all.paused,
                     "starting", (int)all.starting, "parked", (int)all.parked, "created",
                     (json_int_t)all.created, "createFailed", (json_int_t)all.create_failed);
}

static void add_parked(void *ctx, const struct template *t, uint32_t n)
{
    json_t *one = json_pack("{sssi}", "templateID", t->id, "parked", (int)n);

    if (t->alias) {
        (void)json_object_set_new(one, "alias", json_string(t->alias));
    }
    (void)json_array_append_new(ctx, one);
}

static json_t *pool_json(const struct call *call)
{
    json_t *list = json_array();

    sandboxes_parked_each(call->api->options.sandboxes, call->team->id, add_parked, list);
    return list;
}

/* ---- findings ---- */

/* Written by root when the daemon is started; nothing is shown when it cannot be read. */
static json_t *findings_json(const struct api *api)
{
    char *text = malloc(FINDINGS_BYTES);
    ssize_t n = text && api->options.findings
                    ? small_file_read(AT_FDCWD, api->options.findings, text, FINDINGS_BYTES)
                    : 0;
    json_t *list = n > 0 ? json_loadb(text, (size_t)n, 0, NULL) : NULL;

    free(text);
    if (!json_is_array(list)) {
        json_decref(list);
        list = json_array();
    }
    return list;
}

void handle_dashboard_overview(struct call *call, const json_t *body)
{
    const struct api *api = call->api;
    json_t *out = json_object();
    int64_t up_ms = clock_mono_ms() - api->started_mono_ms;
    const struct admin_key *admin = NULL;
    struct err ignored;
    bool is_operator = admin_check(call->api, http_request(call->ex), &admin, &ignored) == 0;

    (void)body;
    (void)json_object_set_new(out, "version", json_string(ATOLL_VERSION));
    (void)json_object_set_new(out, "startedAt", stamp_json(clock_wall_ms() - up_ms));
    (void)json_object_set_new(out, "uptimeSeconds", json_integer(up_ms / 1000));
    (void)json_object_set_new(out, "machine", machine_json(api));
    (void)json_object_set_new(out, "sandboxes", team_json(call));
    (void)json_object_set_new(out, "creates", creates_json(call));
    (void)json_object_set_new(out, "pool", pool_json(call));
    (void)json_object_set_new(out, "operator", json_boolean(is_operator));
    if (is_operator) {
        (void)json_object_set_new(out, "allSandboxes", all_json(api));
        (void)json_object_set_new(out, "advice", findings_json(api));
    }
    call_json(call, 200, out);
}
