/* figures.c - GET /metrics: the daemon's own figures, for Prometheus. */
#include <assert.h>
#include <stdio.h>

#include "lib/base/clock.h"
#include "serve/api/internal.h"

void figures_note(struct call *call, int status)
{
    /* Calls without a route share the entry behind the table. */
    size_t i = call->route ? (size_t)(call->route - route_at(0)) : routes_count();
    assert(i <= routes_count());
    struct route_figures *figures = &call->api->figures[i];

    figures->by_status[(size_t)status / 100 % countof(figures->by_status)]++;
    histogram_add(&figures->latency, clock_mono_us() - call->begun_us);
    audit_end(call, status);
}

static void route_labels(size_t i, char out[PROMETHEUS_LABELS_BYTES])
{
    const struct route *route = i < routes_count() ? route_at(i) : NULL;

    (void)snprintf(out, PROMETHEUS_LABELS_BYTES, "method=\"%s\",route=\"%s\"",
                   route ? route->method : "", route ? route->path : "none");
}

static void requests_show(const struct api *api, struct prometheus *page)
{
    char labels[PROMETHEUS_LABELS_BYTES], all[PROMETHEUS_LABELS_BYTES + 16];

    prometheus_family(page, "atoll_api_requests_total", "counter", "Answers of the API.");
    for (size_t i = 0; i <= routes_count(); i++) {
        route_labels(i, labels);
        for (size_t s = 1; s < countof(api->figures[i].by_status); s++) {
            if (api->figures[i].by_status[s] > 0) {
                (void)snprintf(all, sizeof(all), "%s,code=\"%zuxx\"", labels, s);
                prometheus_value(page, "atoll_api_requests_total", all,
                                 (double)api->figures[i].by_status[s]);
            }
        }
    }
}

static void latencies_show(const struct api *api, struct prometheus *page)
{
    char labels[PROMETHEUS_LABELS_BYTES];

    prometheus_family(page, "atoll_api_request_seconds", "histogram",
                      "From the head of a request to its answer.");
    for (size_t i = 0; i <= routes_count(); i++) {
        if (api->figures[i].latency.count > 0) {
            route_labels(i, labels);
            prometheus_histogram(page, "atoll_api_request_seconds", labels,
                                 &api->figures[i].latency);
        }
    }
}

void api_figures(const struct api *api, const char *team_id, struct prometheus *page)
{
    prometheus_one(page, "atoll_uptime_seconds", "gauge", "Since the daemon's start.",
                   (double)(clock_mono_ms() - api->started_mono_ms) / 1000);
    if (api->options.figures) {
        api->options.figures(api->options.figures_ctx, team_id, page);
    }
    prometheus_one(page, "atoll_audit_rows_total", "counter",
                   "Calls in the audit log, since it began.", (double)api->audit.last);
    prometheus_one(page, "atoll_audit_dropped_total", "counter",
                   "Refused calls that were too many for the audit log.",
                   (double)api->audit.dropped);
    requests_show(api, page);
    latencies_show(api, page);
}

void handle_figures(struct call *call, const json_t *body)
{
    scoped_buf(text, PROMETHEUS_PAGE_BYTES_MAX);
    struct prometheus page = {.out = &text};

    (void)body;
    api_figures(call->api, call->team->id, &page);
    call_text(call, 200, PROMETHEUS_TYPE, buf_str(&text));
}
