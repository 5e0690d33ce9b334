/* figures.h - the part of GET /metrics about modules that the API does not own. */
#ifndef DAEMON_FIGURES_H
#define DAEMON_FIGURES_H

#include "lib/base/shares.h"
#include "lib/http/server.h"
#include "serve/daemon/observe.h"
#include "serve/daemon/watchdog.h"
#include "serve/edge/edge.h"
#include "serve/keeper/client.h"
#include "serve/sandbox/sandbox.h"
#include "serve/store/store.h"
#include "serve/telemetry/logs.h"
#include "serve/telemetry/metrics.h"
#include "serve/telemetry/prometheus.h"

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
    const struct observer *observer;
    bool merges;         /* sandboxes hold equal pages once */
    const char *team_id; /* the only team whose single sandboxes are shown */
};

/* Reads /proc/self and the kernel's figures of merged pages once. */
void figures_show(const struct figures_sources *from, struct prometheus *page);

#endif
