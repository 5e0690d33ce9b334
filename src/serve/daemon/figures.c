#include "serve/daemon/figures.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "lib/base/small_file.h"

enum { STATM_BYTES = 256, US_PER_S = 1000 * 1000, EGRESS_SHOWN_MAX = 1000 };

/* ---- sandboxes ---- */

static void outcomes_show(struct prometheus *page, const char *name, uint64_t done, uint64_t failed)
{
    prometheus_value(page, name, "outcome=\"done\"", (double)done);
    prometheus_value(page, name, "outcome=\"failed\"", (double)failed);
}

static void saved_show(struct sandboxes *sandboxes, struct prometheus *page)
{
    static const char memory[] = "atoll_saved_memory_bytes", files[] = "atoll_saved_disk_bytes";
    const struct sandboxes_saved saved = sandboxes_saved(sandboxes);

    prometheus_family(page, memory, "gauge", "Memory that was saved, on disk, by what it is of.");
    prometheus_value(page, memory, "of=\"paused\"", (double)saved.paused_memory);
    prometheus_value(page, memory, "of=\"snapshots\"", (double)saved.snapshots_memory);
    prometheus_value(page, memory, "of=\"templates\"", (double)saved.templates_memory);
    prometheus_family(page, files, "gauge", "Files that were saved, shared ones for each.");
    prometheus_value(page, files, "of=\"paused\"", (double)saved.paused_disk);
    prometheus_value(page, files, "of=\"snapshots\"", (double)saved.snapshots_disk);
}

static void saves_show(struct sandboxes *sandboxes, const struct sandboxes_figures *figures,
                       struct prometheus *page)
{
    prometheus_family(page, "atoll_sandboxes_pauses_total", "counter", "Pauses by outcome.");
    outcomes_show(page, "atoll_sandboxes_pauses_total", figures->pauses, figures->pauses_failed);
    prometheus_family(page, "atoll_sandboxes_resumes_total", "counter", "Resumes by outcome.");
    outcomes_show(page, "atoll_sandboxes_resumes_total", figures->resumes, figures->resumes_failed);
    prometheus_one(page, "atoll_snapshots_total", "counter", "Snapshots made.",
                   (double)figures->snapshots);
    prometheus_family(page, "atoll_forks_total", "counter",
                      "Forks asked for, by what they were made from.");
    prometheus_value(page, "atoll_forks_total", "from=\"disk\"", (double)figures->forks_of_disks);
    prometheus_value(page, "atoll_forks_total", "from=\"memory\"",
                     (double)figures->forks_of_memory);
    saved_show(sandboxes, page);
}

static void sandboxes_show(struct sandboxes *sandboxes, struct prometheus *page)
{
    struct sandboxes_figures figures = sandboxes_figures(sandboxes);
    char labels[PROMETHEUS_LABELS_BYTES];

    prometheus_family(page, "atoll_sandboxes", "gauge", "Sandboxes by state.");
    prometheus_value(page, "atoll_sandboxes", "state=\"starting\"", figures.starting);
    prometheus_value(page, "atoll_sandboxes", "state=\"running\"", figures.running);
    prometheus_value(page, "atoll_sandboxes", "state=\"paused\"", figures.paused);
    prometheus_one(page, "atoll_sandboxes_created_total", "counter", "Creates that succeeded.",
                   (double)figures.created);
    prometheus_one(page, "atoll_sandboxes_create_failures_total", "counter", "Creates that failed.",
                   (double)figures.create_failed);
    prometheus_one(page, "atoll_parked_jails", "gauge", "Jails ready to be claimed.",
                   figures.parked);
    prometheus_family(page, "atoll_parked_claims_total", "counter",
                      "Creates that could use a parked jail, by whether there was one.");
    prometheus_value(page, "atoll_parked_claims_total", "outcome=\"hit\"",
                     (double)figures.parked_hits);
    prometheus_value(page, "atoll_parked_claims_total", "outcome=\"miss\"",
                     (double)figures.parked_misses);
    saves_show(sandboxes, &figures, page);
    prometheus_family(page, "atoll_sandboxes_killed_total", "counter", "Ends by reason.");
    for (size_t i = 0; i < SANDBOX_REASONS; i++) {
        prometheus_label(labels, "reason", figures.ended[i].reason);
        prometheus_value(page, "atoll_sandboxes_killed_total", labels,
                         (double)figures.ended[i].count);
    }
    prometheus_family(page, "atoll_agent_dials_total", "counter", "Sockets asked of agents.");
    prometheus_value(page, "atoll_agent_dials_total", "outcome=\"connected\"",
                     (double)(figures.dials - figures.dials_failed));
    prometheus_value(page, "atoll_agent_dials_total", "outcome=\"failed\"",
                     (double)figures.dials_failed);
}

/* ---- parked ones, of each template ---- */

static void parked_show_one(void *ctx, const struct template *t, uint32_t n)
{
    char id[PROMETHEUS_LABELS_BYTES], build[PROMETHEUS_LABELS_BYTES];
    char labels[2 * PROMETHEUS_LABELS_BYTES + 1];

    prometheus_label(id, "template", t->id);
    prometheus_label(build, "build", t->build_id ? t->build_id : "");
    (void)snprintf(labels, sizeof(labels), "%s,%s", id, build);
    prometheus_value(ctx, "atoll_template_parked_jails", labels, n);
}

static void parked_show(struct sandboxes *sandboxes, const char *team_id, struct prometheus *page)
{
    prometheus_family(page, "atoll_template_parked_jails", "gauge",
                      "Jails ready to be claimed, of built-in templates and the team's own.");
    sandboxes_parked_each(sandboxes, team_id, parked_show_one, page);
}

/* ---- where the time goes ---- */

static void step_show(struct prometheus *page, const char *family, const char *name,
                      const struct histogram *took)
{
    char labels[PROMETHEUS_LABELS_BYTES];

    prometheus_label(labels, "step", name);
    prometheus_histogram(page, family, labels, took);
}

static void steps_show(const struct figures_sources *from, struct prometheus *page)
{
    struct sandboxes_step creates[SANDBOX_STEPS];
    struct edge_step_took requests[EDGE_STEPS];

    sandboxes_steps(from->sandboxes, creates);
    prometheus_family(page, "atoll_create_step_seconds", "histogram",
                      "Creates by step, each from the end of the one before.");
    for (size_t i = 0; i < SANDBOX_STEPS; i++) {
        step_show(page, "atoll_create_step_seconds", creates[i].name, creates[i].took);
    }
    edge_steps(from->edge, requests);
    prometheus_family(page, "atoll_edge_step_seconds", "histogram",
                      "Requests to agents by step, each from the end of the one before.");
    for (size_t i = 0; i < EDGE_STEPS; i++) {
        step_show(page, "atoll_edge_step_seconds", requests[i].name, requests[i].took);
    }
}

/* ---- the way out, of each sandbox ---- */

/* A line of a family: the counter that it shows, and its label. */
struct egress_line {
    const char *family, *help;
    const char *label; /* besides the sandbox's; "" for none */
    size_t at;         /* of a uint64_t in struct egress_counters */
};

static const struct egress_line egress_lines[] = {
    {"atoll_egress_connections_total", "Connections of a sandbox that got through.", "",
     offsetof(struct egress_counters, connections)},
    {"atoll_egress_refused_total", "Refused by a rule or a limit.", "",
     offsetof(struct egress_counters, refused)},
    {"atoll_egress_failed_total", "Could not be dialled.", "",
     offsetof(struct egress_counters, failed)},
    {"atoll_egress_bytes_total", "Bytes carried for a sandbox.", ",direction=\"out\"",
     offsetof(struct egress_counters, bytes_out)},
    {"atoll_egress_bytes_total", NULL, ",direction=\"in\"",
     offsetof(struct egress_counters, bytes_in)},
    {"atoll_egress_names_total", "Names that a sandbox asked for.", "",
     offsetof(struct egress_counters, names)},
};

struct egress_showing {
    struct prometheus *page;
    const char *team_id;
    const struct egress_line *line;
    unsigned shown;
};

static bool egress_show_one(void *ctx, struct sandbox *sb)
{
    struct egress_showing *showing = ctx;
    const struct egress_line *line = showing->line;
    char id[PROMETHEUS_LABELS_BYTES], labels[2 * PROMETHEUS_LABELS_BYTES];
    struct egress_counters counters;
    uint64_t value = 0;

    bool own = str_eq(str_of(sandbox_info(sb).team_id), str_of(showing->team_id));
    if (own && sandbox_egress(sb, &counters)) {
        memcpy(&value, (const char *)&counters + line->at, sizeof(value));
        prometheus_label(id, "sandbox", sandbox_info(sb).id);
        (void)snprintf(labels, sizeof(labels), "%s%s", id, line->label);
        prometheus_value(showing->page, line->family, labels, (double)value);
        showing->shown++;
    }
    return showing->shown < EGRESS_SHOWN_MAX;
}

/* The newest ones of the team, as many as leave room on the page for the rest. */
static void egress_show(struct sandboxes *sandboxes, const char *team_id, struct prometheus *page)
{
    for (size_t i = 0; i < countof(egress_lines); i++) {
        struct egress_showing showing = {page, team_id, &egress_lines[i], 0};

        if (egress_lines[i].help) {
            prometheus_family(page, egress_lines[i].family, "counter", egress_lines[i].help);
        }
        sandboxes_each(sandboxes, false, NULL, egress_show_one, &showing);
    }
}

/* ---- keeper and pool ---- */

static void keeper_show(const struct keeper_client *keeper, struct prometheus *page)
{
    struct keeper_client_figures figures = keeper_client_figures(keeper);
    const struct keeper_status *status = keeper_client_status(keeper);

    prometheus_one(page, "atoll_keeper_connected", "gauge", "1 while the keeper answers.",
                   keeper_client_connected(keeper));
    prometheus_one(page, "atoll_keeper_waiting", "gauge", "Requests to the keeper under way.",
                   (double)figures.waiting);
    prometheus_one(page, "atoll_keeper_queued", "gauge",
                   "Requests to the keeper that wait for their team's turn.",
                   (double)figures.queued);
    prometheus_one(page, "atoll_keeper_lost_total", "counter",
                   "Requests that the keeper never answered.", (double)figures.lost);
    prometheus_family(page, "atoll_keeper_request_seconds", "histogram",
                      "From the asking to the keeper's answer.");
    prometheus_histogram(page, "atoll_keeper_request_seconds", NULL, &figures.latency);
    prometheus_one(page, "atoll_pool_used_bytes", "gauge", "Of the pool's file system.",
                   (double)status->pool_used_bytes);
    prometheus_one(page, "atoll_pool_total_bytes", "gauge", "Size of the pool's file system.",
                   (double)status->pool_total_bytes);
}

/* ---- store ---- */

static void store_show(struct store *store, struct prometheus *page)
{
    struct store_figures figures = store_figures(store);

    prometheus_one(page, "atoll_store_waiting", "gauge", "Changes not on record yet.",
                   (double)figures.waiting);
    prometheus_one(page, "atoll_store_failures_total", "counter",
                   "Changes that could not be stored.", (double)figures.failed);
    prometheus_family(page, "atoll_store_commit_seconds", "histogram",
                      "Transactions of the store.");
    prometheus_histogram(page, "atoll_store_commit_seconds", NULL, &figures.commit);
}

/* ---- traffic ---- */

static void share_show(struct prometheus *page, const char *family, uint64_t edge, uint64_t api)
{
    prometheus_value(page, family, "to=\"sandboxes\"", (double)edge);
    prometheus_value(page, family, "to=\"api\"", (double)api);
}

static void shares_show(const struct shares *edge, const struct shares *api,
                        struct prometheus *page)
{
    prometheus_family(page, "atoll_places", "gauge",
                      "Requests that may be under way, which teams share.");
    share_show(page, "atoll_places", edge->capacity, api->capacity);
    prometheus_family(page, "atoll_places_used", "gauge", "Requests that are.");
    share_show(page, "atoll_places_used", edge->used, api->used);
    prometheus_family(page, "atoll_places_refused_total", "counter",
                      "Requests that were refused because a team or a sandbox had its share.");
    share_show(page, "atoll_places_refused_total", edge->refused, api->refused);
}

static void connections_show(const struct http_server_figures *http, struct prometheus *page)
{
    prometheus_one(page, "atoll_http_connections", "gauge", "Open connections of clients.",
                   (double)http->connections);
    prometheus_one(page, "atoll_http_connections_silent", "gauge",
                   "Open connections that have sent no whole request yet.", (double)http->silent);
    prometheus_one(page, "atoll_http_connections_refused_total", "counter",
                   "Connections that there was no room for.", (double)http->refused);
    prometheus_family(page, "atoll_http_connections_evicted_total", "counter",
                      "Connections closed to make room, by whether they had sent a request.");
    prometheus_value(page, "atoll_http_connections_evicted_total", "kind=\"idle\"",
                     (double)http->evicted[HTTP_EVICTED_IDLE]);
    prometheus_value(page, "atoll_http_connections_evicted_total", "kind=\"silent\"",
                     (double)http->evicted[HTTP_EVICTED_FRESH]);
}

static void traffic_show(const struct figures_sources *from, struct prometheus *page)
{
    struct http_server_figures http = http_server_figures(from->http);
    struct edge_outcome outcomes[EDGE_OUTCOMES];
    char labels[PROMETHEUS_LABELS_BYTES];

    edge_figures(from->edge, outcomes);
    prometheus_family(page, "atoll_edge_requests_total", "counter",
                      "Requests for sandboxes by outcome.");
    for (size_t i = 0; i < EDGE_OUTCOMES; i++) {
        prometheus_label(labels, "outcome", outcomes[i].name);
        prometheus_value(page, "atoll_edge_requests_total", labels, (double)outcomes[i].count);
    }
    connections_show(&http, page);
    shares_show(from->edge_shares, from->api_shares, page);
    prometheus_one(page, "atoll_http_exchanges", "gauge", "Requests under way.",
                   (double)http.exchanges);
    prometheus_one(page, "atoll_http_requests_total", "counter", "Requests of all kinds.",
                   (double)http.requests);
}

/* ---- the process ---- */

static uint64_t rss_bytes(void)
{
    char text[STATM_BYTES];
    char *rest = text;

    (void)small_file_read(AT_FDCWD, "/proc/self/statm", text, sizeof(text));
    (void)strtoull(text, &rest, 10);
    return strtoull(rest, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static unsigned open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned n = 0;

    while (dir && readdir(dir)) {
        n++;
    }
    if (dir) {
        (void)closedir(dir);
    }
    return n > 3 ? n - 3 : 0; /* ".", ".." and the directory itself */
}

static void process_show(struct prometheus *page)
{
    struct rusage usage;
    struct rlimit files = {0};

    (void)getrusage(RUSAGE_SELF, &usage);
    (void)getrlimit(RLIMIT_NOFILE, &files);
    prometheus_one(page, "process_resident_memory_bytes", "gauge", "Resident memory.",
                   (double)rss_bytes());
    prometheus_one(page, "process_open_fds", "gauge", "Open descriptors.", open_files());
    prometheus_one(page, "process_max_fds", "gauge", "Descriptors that may be open.",
                   (double)files.rlim_cur);
    prometheus_one(page, "process_cpu_seconds_total", "counter", "Time on a processor.",
                   (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / US_PER_S);
}

/* ---- merged pages ---- */

static double ksm_read(const char *name)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/sys/kernel/mm/ksm/%s", name);
    return (double)small_file_number(AT_FDCWD, path);
}

/* The kernel counts for the whole machine. */
static void merging_show(struct prometheus *page)
{
    const double page_bytes = (double)sysconf(_SC_PAGESIZE);

    prometheus_one(page, "atoll_merged_saved_bytes", "gauge",
                   "Memory that is not taken because equal pages are held once.",
                   ksm_read("pages_sharing") * page_bytes);
    prometheus_one(page, "atoll_merged_held_bytes", "gauge", "Memory of those pages.",
                   ksm_read("pages_shared") * page_bytes);
    prometheus_one(page, "atoll_merge_scans_total", "counter",
                   "How often all memory was looked through for equal pages.",
                   ksm_read("full_scans"));
}

/* ---- telemetry itself ---- */

static void telemetry_show(const struct figures_sources *from, struct prometheus *page)
{
    struct metrics_figures metrics = metrics_figures(from->metrics);
    struct logs_figures logs = logs_figures(from->logs);

    prometheus_one(page, "atoll_metrics_samples_total", "counter", "Samples taken of sandboxes.",
                   (double)metrics.samples);
    prometheus_one(page, "atoll_metrics_series", "gauge", "Series kept.", (double)metrics.series);
    prometheus_one(page, "atoll_metrics_bytes", "gauge", "Memory of the series.",
                   (double)metrics.bytes);
    prometheus_one(page, "atoll_log_lines_total", "counter", "Lines of agents on record.",
                   (double)logs.lines);
    prometheus_one(page, "atoll_log_lines_lost_total", "counter",
                   "Lines of agents that there was no room for.", (double)logs.lost);
    prometheus_one(page, "atoll_log_lines_refused_total", "counter",
                   "Lines of agents that are no JSON.", (double)logs.refused);
}

static void watchdog_show(const struct watchdog *dog, struct prometheus *page)
{
    const struct watchdog_figures figures = watchdog_figures(dog);

    prometheus_one(page, "atoll_loop_stalls_total", "counter",
                   "Times that the server stood still for more than a second.",
                   (double)figures.stalls);
    prometheus_one(page, "atoll_loop_stall_seconds_total", "counter",
                   "How long it stood still then, in all.", (double)figures.stall_ms / 1000);
}

void figures_show(const struct figures_sources *from, struct prometheus *page)
{
    sandboxes_show(from->sandboxes, page);
    steps_show(from, page);
    parked_show(from->sandboxes, from->team_id, page);
    egress_show(from->sandboxes, from->team_id, page);
    keeper_show(from->keeper, page);
    store_show(from->store, page);
    traffic_show(from, page);
    telemetry_show(from, page);
    process_show(page);
    watchdog_show(from->watchdog, page);
    observer_show(from->observer, page);
    if (from->merges) {
        merging_show(page);
    }
}
