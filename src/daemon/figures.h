/* figures.h - what GET /metrics shows of the parts that the API does not own. */
#ifndef DAEMON_FIGURES_H
#define DAEMON_FIGURES_H

#include "base/shares.h"
#include "daemon/watchdog.h"
#include "edge/edge.h"
#include "http/server.h"
#include "keeper/client.h"
#include "sandbox/sandbox.h"
#include "store/store.h"
#include "telemetry/logs.h"
#include "telemetry/metrics.h"
#include "telemetry/prometheus.h"

struct figures_sources { /* borrowed; none is NULL */
    struct sandboxes *sandboxes;
    struct keeper_client *keeper;
    struct store *store;
    struct edge *edge;
    struct http_server *http;
    const struct shares *edge_shares;
    const struct shares *api_shares;
    struct metrics *metrics;
    struct logs *logs;
    struct watchdog *watchdog;
    bool merges;         /* sandboxes hold equal pages once */
    const char *team_id; /* who asks: of single sandboxes, only its own are shown */
};

/* Reads /proc/self, and what the kernel tells of merged pages, once through. */
void figures_show(const struct figures_sources *from, struct prometheus *page);

#endif
