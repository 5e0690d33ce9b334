/* metrics.c - the usage of sandboxes and teams. */
#include <errno.h>

#include "serve/api/internal.h"
#include "serve/api/query.h"

enum {
    MANY_MAX = 100, /* sandboxes of one call */
    MIB = 1024 * 1024,
};

/* ---- metrics of sandboxes ---- */

static json_t *metric_json(const struct metric *metric, const struct sandbox_info *info)
{
    json_t *one = json_object();

    (void)json_object_set_new(one, "timestamp", stamp_json(metric->time_s * 1000));
    (void)json_object_set_new(one, "timestampUnix", json_integer(metric->time_s));
    (void)json_object_set_new(one, "cpuCount", json_integer(info->cpu_count));
    (void)json_object_set_new(one, "cpuUsedPct", json_real(metric->cpu_pct));
    (void)json_object_set_new(one, "memUsed", json_integer((json_int_t)metric->memory_bytes));
    (void)json_object_set_new(one, "memTotal", json_integer((json_int_t)info->memory_mb * MIB));
    (void)json_object_set_new(one, "memCache", json_integer((json_int_t)metric->cache_bytes));
    (void)json_object_set_new(one, "diskUsed", json_integer((json_int_t)metric->disk_bytes));
    (void)json_object_set_new(one, "diskTotal", json_integer((json_int_t)info->disk_mb * MIB));
    (void)json_object_set_new(one, "networkSent", json_integer((json_int_t)metric->sent_bytes));
    (void)json_object_set_new(one, "networkReceived",
                              json_integer((json_int_t)metric->received_bytes));
    return one;
}

struct listing {
    json_t *list;
    struct sandbox_info info;
};

static void add_metric(void *ctx, const struct metric *metric)
{
    const struct listing *listing = ctx;

    (void)json_array_append_new(listing->list, metric_json(metric, &listing->info));
}

static int range_of(const struct call *call, struct metrics_range *out, struct err *err)
{
    struct query_range range;
    int r = query_range(http_request(call->ex)->query, &range, err);

    if (r == 0) {
        *out = (struct metrics_range){range.start_s, range.end_s};
    }
    return r;
}

void handle_metrics(struct call *call, const json_t *body)
{
    struct metrics_range range = {0};
    struct err err;
    int r = range_of(call, &range, &err);

    (void)body;
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    const struct sandbox *sb = call_sandbox(call);
    if (sb) {
        struct listing listing = {.list = json_array(), .info = sandbox_info(sb)};
        metrics_each(call->api->options.metrics, str_of(listing.info.id), range, add_metric,
                     &listing);
        call_json(call, 200, listing.list);
    }
}

/* A sandbox that is not there, or is another team's, is left out: the rest are still wanted. */
static void add_latest(struct call *call, struct str id, json_t *all)
{
    const struct sandbox *sb = sandboxes_find(call->api->options.sandboxes, id);
    struct metric metric;

    if (!sb) {
        return;
    }
    struct sandbox_info info = sandbox_info(sb);
    if (strcmp(info.team_id, call->team->id) == 0 &&
        metrics_latest(call->api->options.metrics, id, &metric)) {
        (void)json_object_set_new(all, info.id, metric_json(&metric, &info));
    }
}

static int many_check(struct str ids, struct err *err)
{
    struct str id;
    size_t n = 0;

    while (str_split(&ids, ',', &id)) {
        if (id.len == 0) {
            return err_set(err, EINVAL, "validation error: sandbox_ids has an empty id");
        }
        if (++n > MANY_MAX) {
            return err_set(err, EINVAL, "validation error: sandbox_ids has more than %d ids",
                           MANY_MAX);
        }
    }
    return 0;
}

void handle_metrics_many(struct call *call, const json_t *body)
{
    scoped_buf(ids, QUERY_VALUE_BYTES_MAX);
    struct err err;

    (void)body;
    int r = query_text(http_request(call->ex)->query, "sandbox_ids", &ids, &err);
    if (r == 0 || (r > 0 && buf_len(&ids) == 0)) {
        r = err_set(&err, EINVAL, "validation error: sandbox_ids is required");
    } else if (r > 0) {
        r = many_check(buf_str(&ids), &err);
    }
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    json_t *all = json_object();
    struct str rest = buf_str(&ids), id;
    while (str_split(&rest, ',', &id)) {
        add_latest(call, id, all);
    }
    json_t *reply = json_object();
    (void)json_object_set_new(reply, "sandboxes", all);
    call_json(call, 200, reply);
}

/* ---- where it has been ---- */

void handle_connections(struct call *call, const json_t *body)
{
    const struct sandbox *sb = call_sandbox(call);
    struct egress_counters sums = {0};

    (void)body;
    if (!sb) {
        return;
    }
    json_t *reply = sandbox_connections(sb);
    (void)sandbox_egress(sb, &sums);
    (void)json_object_set_new(reply, "open", json_integer(sums.open));
    (void)json_object_set_new(reply, "names", json_integer((json_int_t)sums.names));
    (void)json_object_set_new(reply, "namesRefused", json_integer((json_int_t)sums.names_refused));
    (void)json_object_set_new(reply, "bytesSent", json_integer((json_int_t)sums.bytes_out));
    (void)json_object_set_new(reply, "bytesReceived", json_integer((json_int_t)sums.bytes_in));
    call_json(call, 200, reply);
}

/* ---- metrics of the team ---- */

/* False when it has answered. */
static bool team_begin(struct call *call, struct metrics_range *range)
{
    struct err err;
    int r = range_of(call, range, &err);

    if (strcmp(call->param, call->team->id) != 0) {
        call_fail(call, 403, "You are not authorized to access the metrics of team %.64s",
                  call->param);
        return false;
    }
    if (r < 0) {
        call_fail_err(call, r, &err);
        return false;
    }
    return true;
}

static void add_team(void *ctx, const struct team_metric *metric)
{
    json_t *one = json_object();

    (void)json_object_set_new(one, "timestamp", stamp_json(metric->time_s * 1000));
    (void)json_object_set_new(one, "timestampUnix", json_integer(metric->time_s));
    (void)json_object_set_new(one, "concurrentSandboxes", json_integer(metric->sandboxes));
    (void)json_object_set_new(one, "sandboxStartRate", json_real(metric->start_rate));
    (void)json_array_append_new(ctx, one);
}

void handle_metrics_team(struct call *call, const json_t *body)
{
    struct metrics_range range = {0};

    (void)body;
    if (team_begin(call, &range)) {
        json_t *list = json_array();
        metrics_team_each(call->api->options.metrics, call->team->id, range, add_team, list);
        call_json(call, 200, list);
    }
}

struct peak {
    bool starts; /* of the start rate, else of the sandboxes */
    double value;
    int64_t time_s;
};

static void find_peak(void *ctx, const struct team_metric *metric)
{
    struct peak *peak = ctx;
    double value = peak->starts ? metric->start_rate : metric->sandboxes;

    if (peak->time_s == 0 || value > peak->value) {
        peak->value = value;
        peak->time_s = metric->time_s;
    }
}

static int peak_kind(const struct call *call, struct peak *peak, struct err *err)
{
    scoped_buf(name, QUERY_VALUE_BYTES_MAX);

    int r = query_text(http_request(call->ex)->query, "metric", &name, err);
    if (r < 0) {
        return r;
    }
    peak->starts = str_eq(buf_str(&name), STR("sandbox_start_rate"));
    return peak->starts || str_eq(buf_str(&name), STR("concurrent_sandboxes"))
               ? 0
               : field_refuse(err, "metric", "concurrent_sandboxes or sandbox_start_rate");
}

void handle_metrics_team_max(struct call *call, const json_t *body)
{
    struct metrics_range range = {0};
    struct peak peak = {0};
    struct err err;

    (void)body;
    if (!team_begin(call, &range)) {
        return;
    }
    int r = peak_kind(call, &peak, &err);
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    metrics_team_each(call->api->options.metrics, call->team->id, range, find_peak, &peak);
    json_t *reply = json_object();
    (void)json_object_set_new(reply, "timestamp", stamp_json(peak.time_s * 1000));
    (void)json_object_set_new(reply, "timestampUnix", json_integer(peak.time_s));
    (void)json_object_set_new(reply, "value", json_real(peak.value));
    call_json(call, 200, reply);
}
