/* prometheus.h - figures as text, in version 0.0.4 of the exposition format.
 *
 * A family begins with prometheus_family(), then come its values. `labels` is the inside of the
 * braces (`reason="timeout"`) or NULL; its values must be words of ours, for nothing is escaped but
 * in prometheus_label(). A page that grows past its buffer's limit is cut after a whole line, and
 * `cut` says so.
 */
#ifndef TELEMETRY_PROMETHEUS_H
#define TELEMETRY_PROMETHEUS_H

#include <stdbool.h>

#include "lib/base/buf.h"
#include "lib/base/histogram.h"

enum {
    PROMETHEUS_PAGE_BYTES_MAX = 1024 * 1024,
    PROMETHEUS_LABELS_BYTES = 256,
};

#define PROMETHEUS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Takes figures as they are, in place of a text. */
struct prometheus_sink {
    void (*family)(void *ctx, const char *name, const char *type, const char *help);
    void (*value)(void *ctx, const char *labels, double value);
    void (*histogram)(void *ctx, const char *labels, const struct histogram *histogram);
    void *ctx;
};

struct prometheus {
    struct buf *out;
    bool cut;
    const struct prometheus_sink *sink; /* NULL: `out` gets a text */
};

/* type: "counter", "gauge" or "histogram". */
void prometheus_family(struct prometheus *page, const char *name, const char *type,
                       const char *help);
void prometheus_value(struct prometheus *page, const char *name, const char *labels, double value);
void prometheus_histogram(struct prometheus *page, const char *name, const char *labels,
                          const struct histogram *histogram);

/* A family of one value. */
void prometheus_one(struct prometheus *page, const char *name, const char *type, const char *help,
                    double value);

/* `name="value"` with the value escaped, cut to fit. */
void prometheus_label(char out[PROMETHEUS_LABELS_BYTES], const char *name, const char *value);

#endif
