/* edge.h - traffic from outside to a port inside a sandbox.
 *
 * A request is the edge's when it carries E2b-Sandbox-Id (Host an address, localhost or sandbox.*),
 * or when its Host is <port>-<id>.<domain>. Everything else on the port is the API's.
 *
 * A page of the dashboard, which sends X-Atoll-CSRF, may use these headers with every name of the
 * daemon.
 *
 * A request without either is also the edge's when its path is the agent's and it carries a
 * signature (/files) or an access token: each belongs to one sandbox only.
 *
 * There is an exception: some SDKs (Python 2.10 to 2.26) send these headers with API calls too,
 * always with the agent's port. Such a request stays the API's when `is_api` says so. The agent
 * serves none of the API's paths, and services on other ports keep all of theirs.
 */
#ifndef EDGE_EDGE_H
#define EDGE_EDGE_H

#include <stdbool.h>

#include "lib/base/histogram.h"
#include "lib/base/shares.h"
#include "lib/base/trace.h"
#include "lib/http/http.h"
#include "serve/sandbox/sandbox.h"

struct edge;

struct edge_options { /* borrowed for as long as the edge lives; the texts are copied */
    uv_loop_t *loop;
    struct sandboxes *sandboxes;
    const char *domain;    /* NULL or empty: sandboxes are reached by headers alone */
    struct shares *shares; /* requests under way, by team: outlives every exchange */
    uint32_t sandbox_max;  /* requests under way to one sandbox, whatever its share */
    uint32_t held_max;     /* clients that wait over a pause; 0: EDGE_HELD_MAX */
    /* A call of the API by its path and its key; NULL: none is. */
    bool (*is_api)(const struct http_request *req);
    struct tracer tracer; /* takes the steps of requests */
};

struct edge *edge_new(const struct edge_options *options);
void edge_free(struct edge *edge);

enum edge_verdict { EDGE_NOT_OURS, EDGE_OURS, EDGE_BAD };

struct edge_target {
    struct str id; /* borrowed from the request */
    uint16_t port;
    bool by_headers;    /* the host names no sandbox */
    const char *reason; /* EDGE_BAD: the sentence */
};

/* Pure: also what the fuzzer drives. `domain` may be NULL or empty. */
enum edge_verdict edge_route(const struct http_request *req, const char *domain,
                             struct edge_target *out);

/* How requests went, since the start. */
enum { EDGE_OUTCOMES = 18 };
struct edge_outcome {
    const char *name; /* "passed", "port_closed", ... */
    uint64_t count;
};
void edge_figures(const struct edge *edge, struct edge_outcome out[EDGE_OUTCOMES]);

/* How long requests to agents took, step by step, since the start of the daemon. */
enum edge_step {
    EDGE_STEP_DIAL,   /* there is a connection to the agent */
    EDGE_STEP_ANSWER, /* the head of its answer is there */
    EDGE_STEPS
};
struct edge_step_took {
    const char *name;
    const struct histogram *took;
};
void edge_steps(const struct edge *edge, struct edge_step_took out[EDGE_STEPS]);

/* Passes a WebSocket of the dashboard on to a port of a sandbox of the team; `target` is the path
 * there. Any answer but 101 from inside is replaced by an error of ours: nothing that a sandbox
 * sends becomes a document of the dashboard's origin. Takes the exchange; `edge` is a struct edge.
 */
void edge_stream(void *edge, struct http_exchange *ex, const char *team_id, const char *id,
                 uint16_t port, const char *target);

/* True when it took the exchange. */
bool edge_handle(struct edge *edge, struct http_exchange *ex);

#endif
