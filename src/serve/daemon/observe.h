/* observe.h - what leaves the daemon for those who watch it: the access log and OpenTelemetry.
 *
 * Owns:     the access log, the exporter, and a note for every request under way.
 * Needs:    a loop and the settings.
 * Blocks:   observer_open() and observer_close(), for the disk; the rest never.
 * Threads:  the loop's.
 */
#ifndef DAEMON_OBSERVE_H
#define DAEMON_OBSERVE_H

#include <stdbool.h>
#include <uv.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/http/http.h"
#include "serve/daemon/config.h"
#include "serve/sandbox/sandbox.h"
#include "serve/telemetry/access_log.h"
#include "serve/telemetry/metrics.h"
#include "serve/telemetry/otlp.h"
#include "serve/telemetry/otlp_metrics.h"
#include "serve/telemetry/prometheus.h"

struct observer {
    uv_loop_t *loop;
    struct access_log *log; /* NULL: none */
    struct otlp *otlp;      /* NULL: none */
    struct otlp_metrics *metrics;
    bool metrics_wanted, logs_wanted;
    struct sandbox_log_sink sink; /* that lines go to besides */
};

must_check int observer_open(struct observer *observer, uv_loop_t *loop,
                             const struct config *config, struct err *err);

/* Begins the export of metrics, if it is wanted. `figures` writes the daemon's own. */
void observer_export(struct observer *observer, struct sandboxes *sandboxes,
                     struct metrics *metrics,
                     void (*figures)(void *ctx, const char *team_id, struct prometheus *page),
                     void *ctx);
void observer_stop(struct observer *observer);  /* ends the export: before what it reads */
void observer_close(struct observer *observer); /* last; the loop must run once more */

/* First of all that handles a request. */
void observer_request(struct observer *observer, struct http_exchange *ex);

struct tracer observer_tracer(const struct observer *observer);

/* A sink that passes lines on to `sink`, and exports them if that is wanted. */
struct sandbox_log_sink observer_sink(struct observer *observer, struct sandbox_log_sink sink);

void observer_show(const struct observer *observer, struct prometheus *page);

#endif
