/* metrics.h - the usage of sandboxes and teams, sampled every five seconds and kept for a day.
 *
 * Owns:     a series (series.h) per sandbox and per team; a timer.
 * Needs:    a loop, the sandboxes, the keeper's client, for as long as it lives.
 * Blocks:   never.
 * Threads:  the loop's.
 *
 * Every METRICS_TICK_MS a slice of the table is asked for, KEEPER_BATCH_MAX jails to a request, so
 * that neither the loop nor the keeper is held up by many sandboxes at once; a round over all takes
 * METRICS_ROUND_MS. Every METRICS_LOOK_MS those that run are asked for besides, up to
 * METRICS_LOOKS_MAX of them, so that what they are shown of themselves is fresh. A new sandbox is
 * read at the next tick, and has its first sample at the look after that. While the keeper is away
 * there are no samples, and the series have a gap. Figures live in memory alone: they begin anew
 * with the daemon.
 */
#ifndef TELEMETRY_METRICS_H
#define TELEMETRY_METRICS_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "lib/base/str.h"
#include "serve/keeper/client.h"
#include "serve/sandbox/sandbox.h"

enum {
    METRICS_ROUND_MS = 5000,
    METRICS_TICK_MS = 250,
    METRICS_LOOK_MS = 1000,
    METRICS_LOOKS_MAX = 64,    /* sandboxes that are looked at between their turns */
    METRICS_POINTS_MAX = 1000, /* about, of one answer: longer ranges are shown in wider steps */
};

struct metrics;

struct metrics *metrics_new(uv_loop_t *loop, struct sandboxes *sandboxes,
                            struct keeper_client *keeper);
void metrics_free(struct metrics *metrics); /* NULL is fine; the loop must run once more */

/* In a range that is thinned, a point is the highest of each figure within its step. */
struct metric {
    int64_t time_s;
    double cpu_pct;        /* of all its cpus together: 0 to 100 */
    uint64_t memory_bytes; /* without cache */
    uint64_t cache_bytes;
    uint64_t disk_bytes;
    uint64_t sent_bytes, received_bytes; /* by its own connections, since the daemon's start */
};

struct team_metric {
    int64_t time_s;
    uint32_t sandboxes;
    double start_rate; /* sandboxes started per second */
};

struct metrics_range {
    int64_t from_s, to_s; /* both included */
};

/* Oldest first; none when the sandbox has no samples in the range. */
void metrics_each(struct metrics *metrics, struct str sandbox_id, struct metrics_range range,
                  void (*each)(void *ctx, const struct metric *metric), void *ctx);
bool metrics_latest(struct metrics *metrics, struct str sandbox_id, struct metric *out);
void metrics_team_each(struct metrics *metrics, const char *team_id, struct metrics_range range,
                       void (*each)(void *ctx, const struct team_metric *metric), void *ctx);

struct metrics_figures {
    uint64_t samples; /* taken since the start */
    uint64_t series;  /* kept now */
    uint64_t bytes;   /* of memory in them */
};
struct metrics_figures metrics_figures(const struct metrics *metrics);

#endif
