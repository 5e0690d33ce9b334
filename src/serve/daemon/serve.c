#include "serve/daemon/serve.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <uv.h>

#include "lib/base/busy.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/shares.h"
#include "lib/base/str.h"
#include "lib/http/server.h"
#include "serve/api/api.h"
#include "serve/daemon/announce.h"
#include "serve/daemon/builtin.h"
#include "serve/daemon/certificates.h"
#include "serve/daemon/egress_wiring.h"
#include "serve/daemon/fd_closer.h"
#include "serve/daemon/figures.h"
#include "serve/daemon/names.h"
#include "serve/daemon/observe.h"
#include "serve/daemon/tools_child.h"
#include "serve/daemon/watchdog.h"
#include "serve/edge/edge.h"
#include "serve/egress/egress.h"
#include "serve/keeper/client.h"
#include "serve/sandbox/sandbox.h"
#include "serve/store/store.h"
#include "serve/telemetry/webhooks.h"
#include "serve/template/build/build.h"
#include "serve/template/template.h"

enum {
    STOP_GRACE_MS = 5000,
    CLOSE_MS = 2000, /* for what is under way in other processes and threads */
    LINE_BYTES = 256,
    STOP_TELL_MS = 300,       /* until it is said what a stop waits for */
    ROUTE_SEGMENTS_SHOWN = 2, /* of a path, in the log */
    PARTS = 4,                /* of all connections: */
    EDGE_PART = 3,            /* so many for requests into sandboxes, the rest for the API */
    FILES_PARTS = 8,          /* of all descriptors: */
    FILES_CLIENTS = 3,
    FILES_SOCKETS = 2, /* into jails */
    FILES_FALLBACK = 1024,
};

/* In this order. */
enum serve_phase {
    PHASE_SERVING,
    PHASE_TOOLS,   /* the tools clean up, through the API */
    PHASE_CLIENTS, /* nobody is let in, and clients end their requests */
    PHASE_UNPARK,  /* the jails that were kept ready end */
};

struct server {
    const struct config *config;
    const struct paths *paths;
    const char *program;
    struct listeners *listeners;
    bool announce;
    bool adopted;   /* every saved sandbox is attached or recorded as gone */
    bool listening; /* the port is open */
    enum serve_phase phase;
    bool hurried; /* asked to stop twice: no phase waits from now on */

    uv_loop_t loop;
    uv_signal_t on_term;
    uv_signal_t on_int;
    uv_timer_t tools_late;   /* TOOLS has taken too long */
    uv_timer_t clients_late; /* the user is told what CLIENTS waits for */
    uv_timer_t close_limit;  /* after the last phase, for handles that are being closed */
    uv_fs_event_t on_notice;
    struct store *store;
    struct templates *templates;
    struct keeper_client *keeper;
    struct egress_wiring egress_wiring;
    struct egress *egress;
    struct sandboxes *sandboxes;
    struct builds *builds;
    struct metrics *metrics;
    struct logs *logs;
    struct webhooks *webhooks;
    struct volumes *volumes;
    struct edge *edge;
    struct api *api;
    struct tools_child *tools;
    struct names names;
    struct certificates *certificates;
    struct http_server *http;
    struct watchdog *watchdog;
    struct observer observer;
    uint32_t connections_max;
    struct shares edge_shares; /* of requests under way into sandboxes, */
    struct shares api_shares;  /* and of all others */
};

/* ---- requests ---- */

/* Cuts the path after the route: the rest may be a token. */
static struct str route_of(struct str path)
{
    size_t slashes = 0;

    for (size_t i = 0; i < path.len; i++) {
        slashes += path.at[i] == '/';
        if (slashes > ROUTE_SEGMENTS_SHOWN) {
            return (struct str){path.at, i};
        }
    }
    return path;
}

/* Whether the exchange is left to the API and the tools. */
static bool is_own(struct server *server, struct http_exchange *ex)
{
    const struct http_request *req = http_request(ex);

    busy("a request");
    busy_detail(req->method, route_of(req->path));
    return !names_refuse(&server->names, ex) && !edge_handle(server->edge, ex) &&
           api_admit(server->api, ex);
}

static void on_request(void *ctx, struct http_exchange *ex)
{
    struct server *server = ctx;

    observer_request(&server->observer, ex);
    if (is_own(server, ex) && !tools_child_handle(server->tools, ex)) {
        api_handle(server->api, ex);
    }
}

/* By the internal socket: from atoll-tools, in the name of its callers. Internal routes are part of
 * a call that was charged already. */
static void on_internal_request(void *ctx, struct http_exchange *ex)
{
    struct server *server = ctx;

    if (str_starts(http_request(ex)->path, STR("/internal/")) || is_own(server, ex)) {
        api_handle_internal(server->api, ex);
    }
}

/* ---- ready ---- */

void serve_url(const char *listen, int port, char *out, size_t size)
{
    const char *colon = strrchr(listen, ':');
    struct str host = {listen, colon ? (size_t)(colon - listen) : strlen(listen)};

    if (str_eq(host, STR("0.0.0.0"))) {
        host = STR("127.0.0.1");
    } else if (str_eq(host, STR("[::]"))) {
        host = STR("[::1]");
    }
    (void)snprintf(out, size, "http://%.*s:%d", (int)host.len, host.at, port);
}

static void server_file_write(const char *path, const char *text)
{
    scoped_fd fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0 || dprintf(fd, "%s", text) < 0) {
        log_warn("cannot write %s: `atoll env` will not find this daemon", path);
    }
}

/* Writes the URL last: a reader that finds it finds the rest. "": no daemon serves. */
static void endpoint_write(const struct server *server, const char *url)
{
    server_file_write(server->paths->domain, url[0] ? server->config->domain_served : "");
    server_file_write(server->paths->endpoint, url);
}

/* Adoption may be over before the port is open: opening the rest runs the loop. */
static void tell_when_ready(struct server *server)
{
    char url[LINE_BYTES];

    if (!server->adopted || !server->listening) {
        return;
    }
    serve_url(server->config->listen, http_server_port(server->http), url, sizeof(url));
    endpoint_write(server, url);
    unsigned running = sandboxes_figures(server->sandboxes).running;
    if (!server->announce || !isatty(STDOUT_FILENO)) { /* a person is told once */
        log_info("ready on %s with %u sandbox%s", url, running, running == 1 ? "" : "es");
    }
    if (server->announce) {
        announce(server->config, server->program, url);
    }
}

static void on_adopted(void *ctx)
{
    struct server *server = ctx;

    server->adopted = true;
    tell_when_ready(server);
}

/* ---- stop ---- */

static void on_unparked(void *ctx)
{
    struct server *server = ctx;

    uv_stop(&server->loop);
}

static void on_http_stopped(void *ctx)
{
    struct server *server = ctx;
    uint32_t parked = sandboxes_figures(server->sandboxes).parked;

    server->phase = PHASE_UNPARK;
    (void)uv_timer_stop(&server->clients_late);
    if (parked > 0) {
        log_info("ending %u jails that were kept ready", parked);
    }
    sandboxes_unpark_all(server->sandboxes, on_unparked, server);
}

/* Tells the user what a stop waits for, and how to skip the wait. */
static void on_clients_late(uv_timer_t *timer)
{
    const struct server *server = timer->data;
    uint64_t n = http_server_figures(server->http).connections;

    log_info("waiting up to %d s for %" PRIu64 " connection%s that clients still use; a second "
             "Ctrl-C or SIGTERM does not wait",
             STOP_GRACE_MS / 1000, n, n == 1 ? "" : "s");
}

/* The tools clean up through the API: the front door is closed after them, so that their clients
 * are told. */
static void close_door(struct server *server)
{
    if (server->phase < PHASE_CLIENTS) {
        server->phase = PHASE_CLIENTS;
        (void)uv_timer_stop(&server->tools_late);
        (void)uv_timer_start(&server->clients_late, on_clients_late, STOP_TELL_MS, 0);
        http_server_stop(server->http, STOP_GRACE_MS, on_http_stopped, server);
    }
    if (server->hurried) {
        http_server_hurry(server->http);
    }
}

static void on_tools_stopped(void *ctx)
{
    close_door(ctx);
}

static void on_tools_late(uv_timer_t *timer)
{
    struct server *server = timer->data;

    log_warn("tools did not clean up within %d s", STOP_GRACE_MS / 1000);
    tools_child_hurry(server->tools);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct server *server = handle->data;

    if (server->phase != PHASE_SERVING) {
        log_info("stopping at once");
        server->hurried = true;
        if (server->phase == PHASE_TOOLS) {
            tools_child_hurry(server->tools);
        } else {
            http_server_hurry(server->http);
        }
        return;
    }
    log_info("%s: stopping; sandboxes go on", number == SIGINT ? "interrupted" : "asked to end");
    server->phase = PHASE_TOOLS;
    endpoint_write(server, "");
    (void)uv_timer_start(&server->tools_late, on_tools_late, STOP_GRACE_MS, 0);
    tools_child_stop(server->tools, on_tools_stopped, server);
}

/* ---- wiring, from the bottom up ---- */

static void on_keeper_state(void *ctx, bool connected)
{
    struct server *server = ctx;

    if (connected) {
        log_info("connected to the keeper");
    } else {
        log_warn("the keeper is away; creating sandboxes waits for it");
    }
    if (server->sandboxes) {
        sandboxes_keeper_changed(server->sandboxes, connected);
    }
    if (server->builds) {
        builds_keeper_changed(server->builds, connected);
    }
}

static void on_notice(uv_fs_event_t *handle, const char *file, int events, int status)
{
    const struct server *server = handle->data;

    (void)file, (void)events;
    if (status == 0) {
        notices_take(server->paths, server->templates);
        if (server->sandboxes) {
            sandboxes_prestart(server->sandboxes);
        }
    }
}

/* Templates are made while we serve. */
static int watch_notices(struct server *server, struct err *err)
{
    server->on_notice.data = server;
    int r = uv_fs_event_start(&server->on_notice, on_notice, server->paths->notices, 0);
    return r < 0 ? err_set(err, -r, "watch %s: %s", server->paths->notices, uv_strerror(r)) : 0;
}

static int open_state(struct server *server, struct err *err)
{
    const char *url = server->config->database;
    int why;

    int r = store_open(&server->loop, url[0] ? url : server->paths->database, &server->store, err);
    if (r == 0) {
        r = templates_new(server->store, &server->templates, err);
    }
    if (r < 0) {
        return r;
    }
    notices_take(server->paths, server->templates);
    if (!templates_find(server->templates, NULL, STR(BUILTIN_BASE), &why)) {
        return err_set(err, ENOENT, "the base template is not there: run `atoll prepare` first");
    }
    return 0;
}

static int open_egress(struct server *server, struct err *err)
{
    return egress_wiring_open(&server->egress_wiring, &server->loop, server->store,
                              server->paths->secret_key, server->config, &server->egress, err);
}

static int open_webhooks(struct server *server, struct err *err)
{
    const struct webhooks_options options = {
        .loop = &server->loop,
        .store = server->store,
        .allow_local = server->config->webhook_allow_local,
    };

    return webhooks_new(&options, &server->webhooks, err);
}

static uint32_t parked_min_of(const struct config *config)
{
    if (config->parked_min == CONFIG_AUTO) {
        return SANDBOX_PARKED_AUTO;
    }
    if (config->parked_max > 0 && config->parked_min > config->parked_max) {
        log_warn("parked_min: %" PRIu64 " jails are not kept ready: parked_max is %" PRIu64,
                 config->parked_min, config->parked_max);
    }
    return (uint32_t)config->parked_min;
}

static int on_admit(void *ctx, const struct sandbox_wanted *wanted, struct err *err)
{
    const struct server *server = ctx;

    if (!server->api) {
        return err_set(err, EAGAIN, "the daemon is stopping; try again");
    }
    return api_admit_sandbox(server->api, wanted, err);
}

static int open_domain(struct server *server, struct err *err)
{
    int r = logs_new(&server->loop, server->paths->logs, &server->logs, err);
    if (r < 0) {
        return r;
    }
    server->keeper =
        keeper_client_new(&server->loop, server->paths->keeper_socket, on_keeper_state, server);
    const struct sandboxes_options options = {
        .loop = &server->loop,
        .store = server->store,
        .keeper = server->keeper,
        .templates = server->templates,
        .egress = server->egress,
        .logs = observer_sink(&server->observer, logs_sink(server->logs)),
        .tracer = observer_tracer(&server->observer),
        .instance = server->paths->instance,
        .ready_limit_ms = (int64_t)server->config->start_ready_s * 1000,
        .retention_ms = (int64_t)server->config->paused_days_max * 24 * 3600 * 1000,
        .pack_after_ms = (int64_t)server->config->pack_after_s * 1000,
        .admit = on_admit,
        .admit_ctx = server,
        .parked_min = parked_min_of(server->config),
        .parked_max = (uint32_t)server->config->parked_max,
        .parked_free_bytes = server->config->parked_free_bytes,
    };
    r = sandboxes_new(&options, on_adopted, server, &server->sandboxes, err);
    server->egress_wiring.sandboxes = server->sandboxes;
    server->egress_wiring.logs = server->logs;
    return r;
}

static int open_volumes(struct server *server, struct err *err)
{
    uint64_t size_mb = server->config->volume_bytes >> 20;
    const struct volumes_options options = {
        .loop = &server->loop,
        .store = server->store,
        .keeper = server->keeper,
        .sandboxes = server->sandboxes,
        .size_mb = size_mb < KEEPER_DISK_MB_MIN   ? KEEPER_DISK_MB_MIN
                   : size_mb > KEEPER_DISK_MB_MAX ? KEEPER_DISK_MB_MAX
                                                  : (uint32_t)size_mb,
    };

    return volumes_new(&options, &server->volumes, err);
}

static int open_builds(struct server *server, struct err *err)
{
    const struct config *config = server->config;
    const struct builds_options options = {
        .loop = &server->loop,
        .store = server->store,
        .keeper = server->keeper,
        .templates = server->templates,
        .sandboxes = server->sandboxes,
        .files = server->paths->files,
        .image = {.loop = &server->loop,
                  .state = server->paths->state,
                  .map = config->image_map,
                  .mirror = config->registry_mirror[0] ? config->registry_mirror : NULL,
                  .local = config->image_dir[0] ? config->image_dir : NULL,
                  .plain_http = config->registry_local},
        .running_max = (uint32_t)config->builds_max,
        .tracer = observer_tracer(&server->observer),
        .step_limit_ms = (int64_t)config->build_step_s * 1000,
        .ready_limit_ms = (int64_t)config->build_ready_s * 1000,
    };

    return builds_new(&options, &server->builds, err);
}

static void on_figures(void *ctx, const char *team_id, struct prometheus *page)
{
    const struct server *server = ctx;
    const struct figures_sources from = {
        .sandboxes = server->sandboxes,
        .keeper = server->keeper,
        .store = server->store,
        .edge = server->edge,
        .http = server->http,
        .edge_shares = &server->edge_shares,
        .api_shares = &server->api_shares,
        .metrics = server->metrics,
        .logs = server->logs,
        .watchdog = server->watchdog,
        .observer = &server->observer,
        .merges = server->config->merge_pages,
        .team_id = team_id,
    };

    figures_show(&from, page);
}

static void on_all_figures(void *ctx, const char *team_id, struct prometheus *page)
{
    const struct server *server = ctx;

    api_figures(server->api, team_id, page);
}

static const char *or_null(const char *text)
{
    return text[0] ? text : NULL;
}

static int open_surface(struct server *server, struct err *err)
{
    server->metrics = metrics_new(&server->loop, server->sandboxes, server->keeper);
    const struct edge_options edge = {
        .loop = &server->loop,
        .sandboxes = server->sandboxes,
        .domain = or_null(server->config->domain),
        .shares = &server->edge_shares,
        .sandbox_max = (uint32_t)server->config->sandbox_connections_max,
        .is_api = api_is_call,
        .tracer = observer_tracer(&server->observer),
    };
    server->edge = edge_new(&edge);
    const struct api_options options = {
        .loop = &server->loop,
        .store = server->store,
        .keeper = server->keeper,
        .sandboxes = server->sandboxes,
        .templates = server->templates,
        .builds = server->builds,
        .webhooks = server->webhooks,
        .secrets = server->egress_wiring.secrets,
        .shells = server->egress_wiring.shells,
        .identity = server->egress_wiring.identity,
        .volumes = server->volumes,
        .domain = or_null(server->config->domain_served),
        .metrics = server->metrics,
        .logs = server->logs,
        .figures = on_figures,
        .figures_ctx = server,
        .team_sandboxes_max = (uint32_t)server->config->team_sandboxes_max,
        .sandbox_s_max = (int64_t)server->config->sandbox_hours_max * 3600,
        .audit_days = (int64_t)server->config->audit_days,
        .data = server->paths->state,
        .pool = server->paths->pool,
        .findings = server->paths->findings,
        .shares = &server->api_shares,
        .stream = edge_stream,
        .stream_ctx = server->edge,
        .web_files = web_files,
        .web_files_n = web_files_n,
    };
    int r = api_new(&options, &server->api, err);
    if (r == 0) {
        r = api_prepare_default_key(server->api, server->paths->default_key, err);
    }
    if (r == 0) {
        api_prepare_admin_token(server->api, server->paths->admin_token);
    }
    return r;
}

static int open_tools(struct server *server, struct err *err)
{
    const struct tools_child_options options = {
        .loop = &server->loop,
        .api = server->api,
        .config = server->config,
        .paths = server->paths,
        .on_request = on_internal_request,
        .ctx = server,
    };

    return tools_child_new(&options, &server->tools, err);
}

/* Listens on a socket that was opened for us, or opens one. */
static int open_listener(struct server *server, int *given, const char *address,
                         struct tls_context *tls, struct err *err)
{
    return *given >= 0 ? http_server_listen_fd(server->http, move_fd(given), tls, err)
                       : http_server_listen(server->http, address, tls, err);
}

static int open_tls(struct server *server, struct err *err)
{
    const struct config *config = server->config;

    if (!config->tls_listen[0] && server->listeners->tls < 0) {
        certificates_disown(server->paths);
        return 0;
    }
    int r = certificates_open(&server->loop, config, server->paths, &server->certificates, err);
    if (r < 0) {
        return r;
    }
    struct tls_context *tls = certificates_tls(server->certificates);
    names_certified(&server->names, tls);
    r = open_listener(server, &server->listeners->tls, config->tls_listen, tls, err);
    if (r == 0 && server->listeners->tls6 >= 0) {
        r = http_server_listen_fd(server->http, move_fd(&server->listeners->tls6), tls, err);
    }
    return r;
}

static int open_http(struct server *server, struct err *err)
{
    const struct http_server_options options = {
        .loop = &server->loop,
        .on_request = on_request,
        .ctx = server,
        .http2 = &http2_protocol,
        .connections_max = server->connections_max,
        .header_timeout_ms = (uint32_t)server->config->header_timeout_s * 1000,
        .idle_timeout_ms = (uint32_t)server->config->idle_timeout_s * 1000,
    };

    int r = http_server_new(&options, &server->http, err);
    if (r == 0) {
        r = open_listener(server, &server->listeners->plain, server->config->listen, NULL, err);
    }
    return r == 0 ? open_tls(server, err) : r;
}

static void watch_signal(struct server *server, uv_signal_t *handle, int number)
{
    handle->data = server;
    (void)uv_signal_start(handle, on_signal, number);
}

/* No sandbox reaches the API by way of the host. */
static void guard_ports(const struct server *server)
{
    const char *colon = strrchr(server->config->tls_listen, ':');

    egress_guard_port(server->egress, (uint16_t)http_server_port(server->http));
    if (colon) {
        egress_guard_port(server->egress, (uint16_t)strtoul(colon + 1, NULL, 10));
    }
}

static void name_issuer(struct server *server)
{
    char url[LINE_BYTES];

    serve_url(server->config->listen, http_server_port(server->http), url, sizeof(url));
    egress_wiring_name_issuer(&server->egress_wiring, server->config, url);
}

static uint32_t part_of(uint64_t n, uint64_t part, uint64_t of)
{
    return n * part / of > 0 ? (uint32_t)(n * part / of) : 1;
}

/* Clients may have three eighths of the descriptors, sockets into jails two eighths, and outgoing
 * connections two (EGRESS_FILES_SHARE); the rest is for jails themselves and the store. */
static void divide_places(struct server *server)
{
    struct rlimit files = {.rlim_cur = FILES_FALLBACK};
    uint64_t connections = server->config->connections_max;

    (void)getrlimit(RLIMIT_NOFILE, &files);
    if (connections > part_of(files.rlim_cur, FILES_CLIENTS, FILES_PARTS)) {
        connections = part_of(files.rlim_cur, FILES_CLIENTS, FILES_PARTS);
        log_info("connections_max: %" PRIu64 ", by the limit on open files", connections);
    }
    uint32_t edge = part_of(connections, EDGE_PART, PARTS);
    uint32_t sockets = part_of(files.rlim_cur, FILES_SOCKETS, FILES_PARTS);
    server->connections_max = (uint32_t)connections;
    shares_init(&server->edge_shares, edge < sockets ? edge : sockets);
    shares_init(&server->api_shares, part_of(connections, PARTS - EDGE_PART, PARTS));
}

static int open_all(struct server *server, struct err *err)
{
    divide_places(server);
    (void)uv_loop_init(&server->loop);
    (void)uv_timer_init(&server->loop, &server->tools_late);
    (void)uv_timer_init(&server->loop, &server->clients_late);
    (void)uv_timer_init(&server->loop, &server->close_limit);
    server->tools_late.data = server->clients_late.data = server;
    (void)uv_signal_init(&server->loop, &server->on_term);
    (void)uv_signal_init(&server->loop, &server->on_int);
    (void)uv_fs_event_init(&server->loop, &server->on_notice);
    names_init(&server->names, server->config);
    int r = watch_notices(server, err); /* first, so that none is missed */
    if (r == 0) {
        r = observer_open(&server->observer, &server->loop, server->config, err);
    }
    if (r == 0) {
        r = open_state(server, err);
    }
    if (r == 0) {
        r = open_egress(server, err);
    }
    if (r == 0) {
        r = open_domain(server, err);
    }
    if (r == 0) {
        r = open_builds(server, err);
    }
    if (r == 0) {
        r = open_webhooks(server, err);
    }
    if (r == 0) {
        r = open_volumes(server, err);
    }
    if (r == 0) {
        r = open_surface(server, err);
    }
    if (r == 0) {
        r = open_tools(server, err);
    }
    if (r == 0) {
        r = open_http(server, err);
    }
    if (r == 0) {
        r = watchdog_new(&server->loop, &server->watchdog, err);
    }
    if (r == 0) {
        watch_signal(server, &server->on_term, SIGTERM);
        watch_signal(server, &server->on_int, SIGINT);
        server->listening = true;
        observer_export(&server->observer, server->sandboxes, server->metrics, on_all_figures,
                        server);
        guard_ports(server);
        name_issuer(server);
        tell_when_ready(server);
    }
    return r;
}

static void on_close_limit(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

/* Until libuv has closed every handle and called back every owner. */
static void close_loop(struct server *server)
{
    uv_loop_t *loop = &server->loop;

    uv_close((uv_handle_t *)&server->tools_late, NULL);
    uv_close((uv_handle_t *)&server->clients_late, NULL);
    (void)uv_timer_start(&server->close_limit, on_close_limit, CLOSE_MS, 0);
    uv_unref((uv_handle_t *)&server->close_limit);
    (void)uv_run(loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&server->close_limit, NULL);
    (void)uv_run(loop, UV_RUN_NOWAIT);
    if (uv_loop_close(loop) < 0) {
        log_warn("not everything was closed within %d s", CLOSE_MS / 1000);
    }
}

/* From the top down; the store late, because it writes what the others leave. Each takes NULL: a
 * start that failed has opened only some. */
static void close_all(struct server *server)
{
    watchdog_free(server->watchdog);
    observer_stop(&server->observer);
    uv_close((uv_handle_t *)&server->on_term, NULL);
    uv_close((uv_handle_t *)&server->on_int, NULL);
    uv_close((uv_handle_t *)&server->on_notice, NULL);
    tools_child_free(server->tools);
    http_server_free(server->http);
    certificates_close(server->certificates);
    api_free(server->api);
    server->api = NULL;
    edge_free(server->edge);
    metrics_free(server->metrics);
    webhooks_free(server->webhooks);
    volumes_free(server->volumes);
    builds_free(server->builds); /* before the sandboxes: its jails are theirs */
    server->egress_wiring.sandboxes = NULL;
    sandboxes_free(server->sandboxes);
    egress_free(server->egress);
    server->egress_wiring.logs = NULL;
    logs_free(server->logs); /* writes the last lines, which sandboxes_free() brought */
    keeper_client_free(server->keeper);
    store_close(server->store);
    templates_free(server->templates); /* to which the store tells what it has written */
    egress_wiring_close(&server->egress_wiring);
    observer_close(&server->observer);
    close_loop(server);
}

int serve_run(const struct config *config, const struct paths *paths, const char *program,
              struct listeners *listeners, bool announce_ready)
{
    struct server server = {.config = config,
                            .paths = paths,
                            .program = program,
                            .listeners = listeners,
                            .announce = announce_ready};
    struct err err;

    log_init("serve", config->log_level);
    (void)fd_allow_most();
    (void)signal(SIGPIPE, SIG_IGN);
    endpoint_write(&server, "");
    if (fd_closer_start(&err) < 0) {
        log_error("%s", err.msg);
        return 1;
    }
    int r = open_all(&server, &err);
    if (r < 0) {
        log_error("%s", err.msg);
    } else {
        (void)uv_run(&server.loop, UV_RUN_DEFAULT);
    }
    close_all(&server);
    fd_closer_stop();
    return r < 0;
}
