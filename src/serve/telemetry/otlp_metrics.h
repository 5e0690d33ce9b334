/* otlp_metrics.h - metrics and log lines of sandboxes, and the daemon's own figures, for otlp.h.
 *
 * Owns:     a timer.
 * Needs:    all of the options, for as long as it lives.
 * Blocks:   never: sandboxes are read in slices.
 * Threads:  the loop's.
 */
#ifndef TELEMETRY_OTLP_METRICS_H
#define TELEMETRY_OTLP_METRICS_H

#include "serve/sandbox/sandbox.h"
#include "serve/telemetry/metrics.h"
#include "serve/telemetry/otlp.h"
#include "serve/telemetry/prometheus.h"

enum {
    OTLP_ROUND_MS = 15 * 1000, /* between two readings of everything */
    OTLP_SLICE_MS = 250,
    OTLP_SLICE_SANDBOXES = 100,
};

struct otlp_metrics;

struct otlp_metrics_options {
    uv_loop_t *loop;
    struct otlp *otlp;
    struct sandboxes *sandboxes;
    struct metrics *metrics;
    /* Shows the daemon's figures. The team is "": figures of single sandboxes are left out. */
    void (*figures)(void *ctx, const char *team_id, struct prometheus *page);
    void *figures_ctx;
};

struct otlp_metrics *otlp_metrics_new(const struct otlp_metrics_options *options);
void otlp_metrics_free(struct otlp_metrics *metrics); /* NULL is fine; the loop runs once more */

/* A line of an agent, which may be anything. */
void otlp_log_line(struct otlp *otlp, struct sandbox *sb, const struct sandbox_log *log);

#endif
