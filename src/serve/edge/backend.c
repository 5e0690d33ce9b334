/* backend.c - a sandbox as the edge sees it: its open requests, and idle connections to its agent
 * and its services, kept for the next request. */
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "serve/edge/internal.h"
#include "wire/channel.h"

struct idle {
    struct idle *prev, *next;
    struct backend *backend;
    struct upstream *up;
    uint16_t port;
    int64_t since_ms;
};

static struct idle_list *list_of(struct backend *backend, uint16_t port)
{
    return port == AGENT_PORT ? &backend->to_agent : &backend->to_services;
}

/* Takes the connection off its list: it is the caller's. */
static struct upstream *idle_end(struct idle *idle)
{
    struct idle_list *list = list_of(idle->backend, idle->port);
    struct upstream *up = idle->up;

    DL_DELETE(list->first, idle);
    list->n--;
    free(idle);
    upstream_idle(up, NULL, NULL);
    return up;
}

static void idle_drop(struct idle *idle)
{
    upstream_close(idle_end(idle));
}

static void drop_all_idle(struct backend *backend)
{
    while (backend->to_agent.first) {
        idle_drop(backend->to_agent.first);
    }
    while (backend->to_services.first) {
        idle_drop(backend->to_services.first);
    }
}

/* ---- life ---- */

static void backend_hide(struct backend *backend)
{
    if (!backend->pausing) {
        HASH_DEL(backend->edge->backends, backend);
    }
}

void backend_free(struct backend *backend)
{
    struct edge_request *request = NULL;

    backend_hide(backend);
    sandbox_watch_unset(&backend->watch);
    drop_all_idle(backend);
    while ((request = backend->requests)) {
        backend->requests = request_next(request);
        request_gone(request, backend->watch.told ? EDGE_ERROR_CHANGING : EDGE_ERROR_NOT_FOUND);
    }
    free(backend);
}

/* Killed, or paused after it was told so: then it is still found. */
static void on_gone(struct sandbox_watch *watch)
{
    struct backend *backend = container_of(watch, struct backend, watch);
    struct sandbox *sb =
        watch->told ? sandboxes_find(backend->edge->sandboxes, str_of(backend->id)) : NULL;

    if (sb) {
        held_take(backend, sb);
    }
    backend_free(backend);
}

static void each_request(struct backend *backend, void (*each)(struct edge_request *request))
{
    struct edge_request *request = backend->requests, *next = NULL;

    backend->busy = true;
    for (; request; request = next) {
        next = request_next(request);
        each(request);
    }
    backend->busy = false;
    backend_check(backend);
}

/* Requests that arrive after the pause has begun get a new backend, and wait there for the resumed
 * sandbox. */
static void on_pausing(struct sandbox_watch *watch, enum sandbox_pausing how)
{
    struct backend *backend = container_of(watch, struct backend, watch);

    switch (how) {
    case SANDBOX_PAUSE_BEGINS:
        backend_hide(backend);
        backend->pausing = true;
        drop_all_idle(backend);
        each_request(backend, request_hold);
        break;
    case SANDBOX_PAUSE_DUE:
        each_request(backend, request_cut);
        break;
    case SANDBOX_PAUSE_OFF:
        each_request(backend, request_go_on);
        break;
    }
}

static void on_resumed(struct sandbox_watch *watch)
{
    each_request(container_of(watch, struct backend, watch), held_rejoin);
}

struct backend *backend_of(struct edge *edge, struct sandbox *sb)
{
    const char *id = sandbox_info(sb).id;
    struct backend *backend = NULL;

    HASH_FIND_STR(edge->backends, id, backend);
    if (backend) {
        return backend;
    }
    backend = xnew(struct backend);
    backend->edge = edge;
    backend->watch.gone = on_gone;
    backend->watch.pausing = on_pausing;
    backend->watch.resumed = on_resumed;
    (void)str_copy(backend->id, sizeof(backend->id), str_of(id));
    sandbox_watch_set(&backend->watch, sb);
    HASH_ADD_STR(edge->backends, id, backend);
    return backend;
}

static bool all_held(const struct backend *backend)
{
    struct edge_request *request = backend->requests;

    while (request && request_is_held(request)) {
        request = request_next(request);
    }
    return !request;
}

void backend_check(struct backend *backend)
{
    if (backend->busy) {
        return;
    }
    if (!backend->requests && !backend->to_agent.first && !backend->to_services.first) {
        backend_free(backend);
    } else if (backend->pausing && all_held(backend)) {
        sandbox_watch_settle(&backend->watch);
    }
}

/* ---- idle connections ---- */

static void on_idle_closed(void *ctx)
{
    struct idle *idle = ctx;
    struct backend *backend = idle->backend;

    idle_drop(idle);
    backend_check(backend);
}

struct upstream *backend_take(struct backend *backend, uint16_t port)
{
    struct idle *idle = NULL;

    DL_FOREACH (list_of(backend, port)->first, idle) {
        if (idle->port == port) {
            return idle_end(idle);
        }
    }
    return NULL;
}

void backend_keep(struct backend *backend, uint16_t port, struct upstream *up)
{
    const uint32_t most = port == AGENT_PORT ? EDGE_IDLE_MAX : EDGE_SERVICES_IDLE_MAX;
    struct idle_list *list = list_of(backend, port);
    struct idle *idle = xnew(struct idle);

    *idle = (struct idle){.backend = backend, .up = up, .port = port, .since_ms = clock_mono_ms()};
    DL_PREPEND(list->first, idle);
    list->n++;
    upstream_idle(up, on_idle_closed, idle);
    if (list->n > most) {
        idle_drop(list->first->prev); /* the tail: used longest ago */
    }
    edge_expect_idle(backend->edge);
}

static void list_expire(struct idle_list *list, int64_t before_ms)
{
    while (list->first && list->first->prev->since_ms <= before_ms) {
        idle_drop(list->first->prev);
    }
}

bool backend_expire(struct backend *backend, int64_t now_ms)
{
    list_expire(&backend->to_agent, now_ms - EDGE_IDLE_MS);
    list_expire(&backend->to_services, now_ms - EDGE_SERVICES_IDLE_MS);
    return backend->to_agent.first || backend->to_services.first;
}
