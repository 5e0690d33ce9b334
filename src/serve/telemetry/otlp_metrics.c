#include "serve/telemetry/otlp_metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/json.h"
#include "lib/base/utf8.h"

enum { CUMULATIVE = 2, US_PER_S = 1000 * 1000, MS_PER_S = 1000, LINE_BYTES_MAX = 4096 };

struct otlp_metrics {
    struct otlp_metrics_options use;
    uv_timer_t timer;
    int64_t began_us; /* of the wall clock: counters count from then on */
    int64_t round_ms; /* monotonic: the next round begins */
    struct sandbox_position at;
    bool in_round;
    uint32_t left; /* sandboxes of this slice */

    /* while the daemon's figures are shown */
    json_t *list;
    json_t *points; /* of the family that was begun last */
    bool is_counter;
    int64_t now_us;
};

/* ---- the daemon's figures ---- */

/* `name="value",name="value"`, as prometheus_label() writes them. */
static json_t *labels_json(const char *labels)
{
    json_t *list = json_array();
    char name[PROMETHEUS_LABELS_BYTES], value[PROMETHEUS_LABELS_BYTES];

    for (const char *at = labels ? labels : ""; *at;) {
        size_t len = strcspn(at, "="), n = 0;

        (void)snprintf(name, sizeof(name), "%.*s", (int)len, at);
        at += len + (at[len] == '=');
        at += *at == '"';
        for (; *at && *at != '"' && n + 1 < sizeof(value); at++) {
            at += *at == '\\' && at[1];
            value[n++] = *at;
        }
        value[n] = '\0';
        otlp_attribute_text(list, name, value);
        at += *at == '"';
        at += *at == ',';
    }
    return list;
}

static void on_family(void *ctx, const char *name, const char *type, const char *help)
{
    struct otlp_metrics *metrics = ctx;
    json_t *data = json_pack("{s:[]}", "dataPoints");
    bool histogram = strcmp(type, "histogram") == 0;

    metrics->is_counter = strcmp(type, "counter") == 0;
    metrics->points = json_object_get(data, "dataPoints");
    if (metrics->is_counter || histogram) {
        (void)json_object_set_new(data, "aggregationTemporality", json_integer(CUMULATIVE));
    }
    if (metrics->is_counter) {
        (void)json_object_set_new(data, "isMonotonic", json_true());
    }
    (void)json_array_append_new(metrics->list, json_pack("{s:s, s:s, s:s, s:o}", "name", name,
                                                         "description", help, "unit",
                                                         strstr(name, "_seconds") ? "s"
                                                         : strstr(name, "_bytes") ? "By"
                                                                                  : "1",
                                                         metrics->is_counter ? "sum"
                                                         : histogram         ? "histogram"
                                                                             : "gauge",
                                                         data));
}

static json_t *point_new(const struct otlp_metrics *metrics, const char *labels, bool since)
{
    json_t *point = json_object();

    if (since) {
        (void)json_object_set_new(point, "startTimeUnixNano", otlp_time(metrics->began_us));
    }
    (void)json_object_set_new(point, "timeUnixNano", otlp_time(metrics->now_us));
    (void)json_object_set_new(point, "attributes", labels_json(labels));
    return point;
}

static void on_value(void *ctx, const char *labels, double value)
{
    struct otlp_metrics *metrics = ctx;
    json_t *point = point_new(metrics, labels, metrics->is_counter);

    (void)json_object_set_new(point, "asDouble", json_real(value));
    (void)json_array_append_new(metrics->points, point);
}

static void on_histogram(void *ctx, const char *labels, const struct histogram *histogram)
{
    struct otlp_metrics *metrics = ctx;
    json_t *point = point_new(metrics, labels, true);
    json_t *counts = json_array(), *bounds = json_array();
    uint64_t rest = histogram->count;

    for (int i = 0; i < HISTOGRAM_BOUNDS; i++) {
        rest -= histogram->buckets[i];
        (void)json_array_append_new(counts, json_sprintf("%" PRIu64, histogram->buckets[i]));
        (void)json_array_append_new(bounds, json_real((double)histogram_bounds_us[i] / US_PER_S));
    }
    (void)json_array_append_new(counts, json_sprintf("%" PRIu64, rest));
    (void)json_object_set_new(point, "count", json_sprintf("%" PRIu64, histogram->count));
    (void)json_object_set_new(point, "sum", json_real((double)histogram->sum_us / US_PER_S));
    (void)json_object_set_new(point, "bucketCounts", counts);
    (void)json_object_set_new(point, "explicitBounds", bounds);
    (void)json_array_append_new(metrics->points, point);
}

static json_t *element(json_t *resource, json_t *list)
{
    return json_pack("{s:o, s:[{s:{s:s}, s:o}]}", "resource", resource, "scopeMetrics", "scope",
                     "name", "atoll", "metrics", list);
}

static void daemon_put(struct otlp_metrics *metrics)
{
    const struct prometheus_sink sink = {
        .family = on_family, .value = on_value, .histogram = on_histogram, .ctx = metrics};
    struct prometheus page = {.sink = &sink};

    metrics->now_us = clock_wall_us();
    metrics->list = json_array();
    metrics->use.figures(metrics->use.figures_ctx, "", &page);
    otlp_put(metrics->use.otlp, OTLP_METRICS,
             element(otlp_resource(metrics->use.otlp), move_ptr(&metrics->list)));
}

/* ---- sandboxes ---- */

static json_t *sandbox_resource(const struct otlp *otlp, const struct sandbox_info *info)
{
    json_t *resource = otlp_resource(otlp);
    json_t *attributes = json_object_get(resource, "attributes");

    otlp_attribute_text(attributes, "sandbox.id", info->id);
    otlp_attribute_text(attributes, "team", info->team_id);
    otlp_attribute_text(attributes, "template", info->template_id);
    return resource;
}

static void gauge_add(json_t *list, const char *name, const char *unit, int64_t time_s,
                      json_t *value)
{
    (void)json_array_append_new(list, json_pack("{s:s, s:s, s:{s:[{s:o, s:o}]}}", "name", name,
                                                "unit", unit, "gauge", "dataPoints", "timeUnixNano",
                                                otlp_time(time_s * US_PER_S), "asDouble", value));
}

static bool sandbox_put(void *ctx, struct sandbox *sb)
{
    struct otlp_metrics *metrics = ctx;
    const struct sandbox_info info = sandbox_info(sb);
    struct metric last;

    metrics->at.created_ms = info.created_ms;
    (void)str_copy(metrics->at.id, sizeof(metrics->at.id), str_of(info.id));
    if (info.state == SANDBOX_RUNNING &&
        metrics_latest(metrics->use.metrics, str_of(info.id), &last)) {
        json_t *list = json_array();

        gauge_add(list, "sandbox.cpu.utilization", "1", last.time_s, json_real(last.cpu_pct / 100));
        gauge_add(list, "sandbox.memory.usage", "By", last.time_s,
                  json_real((double)last.memory_bytes));
        gauge_add(list, "sandbox.memory.cache", "By", last.time_s,
                  json_real((double)last.cache_bytes));
        gauge_add(list, "sandbox.disk.usage", "By", last.time_s,
                  json_real((double)last.disk_bytes));
        otlp_put(metrics->use.otlp, OTLP_METRICS,
                 element(sandbox_resource(metrics->use.otlp, &info), list));
    }
    return --metrics->left > 0;
}

/* ---- rounds ---- */

static void on_timer(uv_timer_t *timer)
{
    struct otlp_metrics *metrics = timer->data;
    int64_t now_ms = clock_mono_ms();

    if (!metrics->in_round && now_ms < metrics->round_ms) {
        return;
    }
    if (!metrics->in_round) {
        metrics->round_ms = now_ms + OTLP_ROUND_MS;
        metrics->at = (struct sandbox_position){.created_ms = INT64_MIN};
        daemon_put(metrics);
    }
    metrics->left = OTLP_SLICE_SANDBOXES;
    sandboxes_each(metrics->use.sandboxes, true, &metrics->at, sandbox_put, metrics);
    metrics->in_round = metrics->left == 0;
}

struct otlp_metrics *otlp_metrics_new(const struct otlp_metrics_options *options)
{
    struct otlp_metrics *metrics = xnew(struct otlp_metrics);

    metrics->use = *options;
    metrics->began_us = clock_wall_us();
    metrics->timer.data = metrics;
    (void)uv_timer_init(options->loop, &metrics->timer);
    (void)uv_timer_start(&metrics->timer, on_timer, OTLP_SLICE_MS, OTLP_SLICE_MS);
    uv_unref((uv_handle_t *)&metrics->timer);
    return metrics;
}

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void otlp_metrics_free(struct otlp_metrics *metrics)
{
    if (metrics) {
        uv_close((uv_handle_t *)&metrics->timer, on_timer_closed);
    }
}

/* ---- log lines ---- */

static json_t *line_json(struct str line)
{
    char text[UTF8_REPLACEMENT_BYTES * LINE_BYTES_MAX + 1];

    line.len = line.len < LINE_BYTES_MAX ? line.len : LINE_BYTES_MAX;
    size_t n = utf8_repair(line, text);
    return json_stringn(text, n);
}

void otlp_log_line(struct otlp *otlp, struct sandbox *sb, const struct sandbox_log *log)
{
    static const int severities[] = {
        [LOG_DEBUG] = 5, [LOG_INFO] = 9, [LOG_WARN] = 13, [LOG_ERROR] = 17};
    const struct sandbox_info info = sandbox_info(sb);
    bool known = (size_t)log->level < countof(severities);
    json_t *record = json_pack(
        "{s:o, s:o, s:i, s:s, s:{s:o}}", "timeUnixNano", otlp_time(log->wall_ms * MS_PER_S),
        "observedTimeUnixNano", otlp_time(clock_wall_us()), "severityNumber",
        known ? severities[log->level] : 0, "severityText", known ? log_level_name(log->level) : "",
        "body", "stringValue", line_json(log->line));

    otlp_put(otlp, OTLP_LOGS,
             json_pack("{s:o, s:[{s:{s:s}, s:[o]}]}", "resource", sandbox_resource(otlp, &info),
                       "scopeLogs", "scope", "name", "atoll-agent", "logRecords", record));
}
