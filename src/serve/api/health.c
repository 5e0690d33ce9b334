#include "lib/base/clock.h"
#include "serve/api/internal.h"

static const struct {
    uint32_t bit;
    const char *what;
    const char *message;
} lacks[] = {
    {KEEPER_LACKS_DISK_LIMIT, "disk-limit",
     "The pool is not on btrfs: a sandbox's disk size is not enforced."},
    {KEEPER_LACKS_MEMORY_LIMIT, "memory-limit",
     "This machine has no memory controller: a sandbox's memory size is not enforced."},
    {KEEPER_LACKS_CPU_LIMIT, "cpu-limit",
     "This machine has no cpu controller: a sandbox's number of cpus is not enforced."},
    {KEEPER_LACKS_PIDS_LIMIT, "pids-limit",
     "This machine has no pids controller: a sandbox's number of processes is not enforced."},
};

static void degrade(json_t *list, const char *what, const char *message)
{
    json_t *one = json_object();

    (void)json_object_set_new(one, "what", json_string(what));
    (void)json_object_set_new(one, "message", json_string(message));
    (void)json_array_append_new(list, one);
}

static json_t *degraded(const struct keeper_client *keeper, const struct sandboxes *sandboxes,
                        const struct store *store)
{
    json_t *list = json_array();

    if (store_away(store)) {
        degrade(list, "database",
                "The database is away: running sandboxes go on, changes wait for it or fail.");
    }

    if (!keeper_client_connected(keeper)) {
        degrade(list, "keeper",
                "The keeper is away: running sandboxes go on, new ones cannot be created.");
        return list;
    }
    if (!sandboxes_adopted(sandboxes)) {
        degrade(
            list, "adoption",
            "The start still looks for the sandboxes on record: one that is listed as running may "
            "be gone, and new ones wait.");
    }
    const struct keeper_status *status = keeper_client_status(keeper);
    for (size_t i = 0; status && i < countof(lacks); i++) {
        if (status->lacks & lacks[i].bit) {
            degrade(list, lacks[i].what, lacks[i].message);
        }
    }
    return list;
}

static bool has_key(struct call *call)
{
    struct key *key = NULL;
    struct err ignored;

    return call->ex && auth_check(call->api, http_request(call->ex), &key, &ignored) == 0;
}

static void figures_put(const struct call *call, json_t *reply)
{
    const struct api_options *options = &call->api->options;
    struct sandboxes_figures figures = sandboxes_figures(options->sandboxes);
    int64_t uptime_ms = clock_mono_ms() - call->api->started_mono_ms;
    json_t *counts = json_object();

    (void)json_object_set_new(counts, "running", json_integer(figures.running));
    (void)json_object_set_new(counts, "starting", json_integer(figures.starting));
    (void)json_object_set_new(reply, "uptimeSeconds", json_integer(uptime_ms / 1000));
    (void)json_object_set_new(reply, "sandboxes", counts);
    (void)json_object_set_new(reply, "templates",
                              json_integer((json_int_t)templates_count(options->templates)));
}

/* The SDKs and tools of E2B name themselves in a header; its Go clients send no Accept header. They
 * expect the answer of E2B's own server. */
static bool is_e2b_client(const struct call *call)
{
    const struct http_request *req = http_request(call->ex);

    return str_eq(http_header_get(req, "publisher"), STR("e2b")) ||
           str_starts(http_header_get(req, "user-agent"), STR("e2b-")) ||
           (str_starts(http_header_get(req, "user-agent"), STR("Go-http-client")) &&
            !http_header_get(req, "accept").at);
}

static void answer_e2b(struct call *call)
{
    bool well = keeper_client_connected(call->api->options.keeper);

    call_text(call, well ? 200 : 503, "text/plain; charset=utf-8",
              well ? STR("Health check successful") : STR("Service is unavailable"));
}

/* 200 whenever the daemon can answer at all: the body says what is wrong. Only callers with a key
 * see figures. */
void handle_health(struct call *call, const json_t *body)
{
    const struct api_options *options = &call->api->options;

    (void)body;
    if (call->ex && is_e2b_client(call)) {
        answer_e2b(call);
        return;
    }
    json_t *list = degraded(options->keeper, options->sandboxes, options->store);
    json_t *reply = json_object();
    (void)json_object_set_new(reply, "status",
                              json_string(json_array_size(list) ? "degraded" : "ok"));
    (void)json_object_set_new(reply, "version", json_string(ATOLL_VERSION));
    (void)json_object_set_new(reply, "keeperConnected",
                              json_boolean(keeper_client_connected(options->keeper)));
    (void)json_object_set_new(reply, "degraded", list);
    if (has_key(call)) {
        figures_put(call, reply);
    }
    call_json(call, 200, reply);
}

/* Tells a user who opens the address in a browser what it is for. */
void handle_about(struct call *call, const json_t *body)
{
    json_t *reply = json_object();

    (void)body;
    (void)json_object_set_new(reply, "name", json_string("atoll"));
    (void)json_object_set_new(reply, "version", json_string(ATOLL_VERSION));
    (void)json_object_set_new(
        reply, "message",
        json_string("Sandboxes behind the E2B API. `atoll env` prints what an SDK needs to reach "
                    "it; requests want a key, as X-API-Key. What is served: /sandboxes, /templates "
                    "and the rest of the E2B API, /tools, /mcp, /health, /metrics."));
    (void)json_object_set_new(reply, "documentation",
                              json_string("README.md and docs/ of atoll; `atoll help`; GET "
                                          "/openapi.json and /tools/openapi.json"));
    call_json(call, 200, reply);
}
