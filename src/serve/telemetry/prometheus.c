#include "serve/telemetry/prometheus.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { US_PER_S = 1000 * 1000 };

static void line(struct prometheus *page, const char *fmt, ...) printf_like(2, 3);

static void line(struct prometheus *page, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    if (page->cut || buf_vprintf(page->out, fmt, ap) < 0) {
        page->cut = true;
    }
    va_end(ap);
}

void prometheus_family(struct prometheus *page, const char *name, const char *type,
                       const char *help)
{
    if (page->sink) {
        page->sink->family(page->sink->ctx, name, type, help);
        return;
    }
    line(page, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Whole numbers are written as such; no counter of ours passes 2^53. */
void prometheus_value(struct prometheus *page, const char *name, const char *labels, double value)
{
    bool whole = floor(value) == value && fabs(value) < 1e15;

    if (page->sink) {
        page->sink->value(page->sink->ctx, labels, value);
        return;
    }
    line(page, "%s%s%s%s %.*f\n", name, labels ? "{" : "", labels ? labels : "", labels ? "}" : "",
         whole ? 0 : 6, value);
}

void prometheus_one(struct prometheus *page, const char *name, const char *type, const char *help,
                    double value)
{
    prometheus_family(page, name, type, help);
    prometheus_value(page, name, NULL, value);
}

void prometheus_histogram(struct prometheus *page, const char *name, const char *labels,
                          const struct histogram *histogram)
{
    const char *sep = labels ? "," : "";
    uint64_t so_far = 0;

    if (page->sink) {
        page->sink->histogram(page->sink->ctx, labels, histogram);
        return;
    }
    labels = labels ? labels : "";
    for (int i = 0; i < HISTOGRAM_BOUNDS; i++) {
        so_far += histogram->buckets[i];
        line(page, "%s_bucket{%s%sle=\"%g\"} %" PRIu64 "\n", name, labels, sep,
             (double)histogram_bounds_us[i] / US_PER_S, so_far);
    }
    line(page, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, labels, sep, histogram->count);
    line(page, "%s_sum%s%s%s %.6f\n", name, *labels ? "{" : "", labels, *labels ? "}" : "",
         (double)histogram->sum_us / US_PER_S);
    line(page, "%s_count%s%s%s %" PRIu64 "\n", name, *labels ? "{" : "", labels, *labels ? "}" : "",
         histogram->count);
}

void prometheus_label(char out[PROMETHEUS_LABELS_BYTES], const char *name, const char *value)
{
    size_t n = (size_t)snprintf(out, PROMETHEUS_LABELS_BYTES / 2, "%s=\"", name);

    for (; *value && n < PROMETHEUS_LABELS_BYTES - 4; value++) {
        if (*value == '"' || *value == '\\' || *value == '\n') {
            out[n++] = '\\';
        }
        out[n++] = (char)(*value == '\n' ? 'n' : *value);
    }
    out[n++] = '"';
    out[n] = '\0';
}
