/* edge.c - decides which requests may pass to a sandbox, and closes idle connections. */
#include "serve/edge/edge.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/busy.h"
#include "lib/base/clock.h"
#include "lib/base/encode.h"
#include "lib/http/cors.h"
#include "lib/http/note.h"
#include "lib/http/tls.h"
#include "serve/edge/internal.h"
#include "wire/channel.h"

#define TOKEN_HEADER "e2b-traffic-access-token"

/* ---- refused requests ---- */

int edge_plain_path(struct str path, struct buf *out)
{
    scoped_buf(decoded, HTTP_TARGET_BYTES_MAX);
    struct str segment;

    if (percent_decode(&decoded, path, false) < 0) {
        return -1;
    }
    struct str rest = buf_str(&decoded);
    while (str_split(&rest, '/', &segment)) {
        if (str_eq(segment, STR(".."))) {
            const char *last = memrchr(buf_at(out), '/', buf_len(out));
            out->end = last ? out->start + (size_t)(last - buf_at(out)) : out->start;
        } else if (segment.len > 0 && !str_eq(segment, STR(".")) &&
                   (buf_append(out, "/", 1) < 0 || buf_append(out, segment.at, segment.len) < 0)) {
            return -1;
        }
    }
    return 0;
}

static bool is_reserved(const struct http_request *req, uint16_t port)
{
    static const char *const routes[] = {"/init",     "/freeze", "/unfreeze", "/collapse",
                                         "/fsfreeze", "/fsthaw", "/upgrade"};
    scoped_buf(path, HTTP_TARGET_BYTES_MAX);

    if (port != AGENT_PORT || edge_plain_path(req->path, &path) < 0) {
        return false; /* the agent refuses what cannot be decoded */
    }
    for (size_t i = 0; i < countof(routes); i++) {
        if (str_ieq(buf_str(&path), str_of(routes[i]))) {
            return true;
        }
    }
    return false;
}

bool edge_is_public(const struct sandbox *sb)
{
    const json_t *network = json_object_get(sandbox_info(sb).options, "network");

    return !json_is_false(json_object_get(network, "allowPublicTraffic"));
}

/* A sandbox that is not public requires its traffic token on every port except the agent's, which
 * has its own. A sandbox without a token admits no request. */
static bool is_private(const struct sandbox *sb, const struct http_request *req, uint16_t port,
                       enum edge_error *out)
{
    const json_t *options = sandbox_info(sb).options;
    const char *token = json_string_value(json_object_get(options, "trafficAccessToken"));
    struct str given = http_header_get(req, TOKEN_HEADER);

    if (port == AGENT_PORT || edge_is_public(sb)) {
        return false;
    }
    *out = given.len ? EDGE_ERROR_TOKEN_INVALID : EDGE_ERROR_TOKEN_MISSING;
    return !token || !str_eq_secret(given, str_of(token));
}

/* The access token or signature that the agent of a secure sandbox requires. Only a request that
 * has it wakes the sandbox: not one that the agent answers without it, like /health or a
 * preflight. */
static bool is_entitled(const struct sandbox *sb, const struct http_request *req)
{
    const char *token = sandbox_info(sb).access_token;
    struct str given = http_header_get(req, EDGE_ACCESS_HEADER);

    return !token || (given.len > 0 ? str_eq_secret(given, str_of(token)) : signed_by(token, req));
}

/* For a request that is not entitled. */
static bool is_asleep(const struct sandbox *sb, enum edge_error *out)
{
    *out = EDGE_ERROR_NOT_WOKEN;
    return sandbox_info(sb).state == SANDBOX_PAUSED;
}

/* ---- the door ---- */

/* Waits for a paused sandbox that is being resumed or may be woken, and for a sandbox that is being
 * paused until the pause has ended or failed. */
static bool is_away(const struct sandbox *sb, enum edge_error *out)
{
    struct sandbox_info info = sandbox_info(sb);

    *out = EDGE_ERROR_PAUSED;
    return info.state == SANDBOX_PAUSED && !info.changing && !sandbox_returns(sb);
}

static void give_place(void *ctx)
{
    share_give(ctx);
}

/* Every request is charged to its sandbox and to the sandbox's team, from here until its exchange
 * has ended: it holds a client's connection or stream, and a socket into the jail. */
static bool take_place(struct edge *edge, const struct backend *backend, const char *team,
                       struct http_exchange *ex, enum edge_error *out)
{
    struct share *share = NULL;

    *out = backend->requests_n >= edge->sandbox_max ? EDGE_ERROR_TOO_MANY : EDGE_ERROR_SHARE;
    if (*out == EDGE_ERROR_TOO_MANY ||
        shares_take_part(edge->shares, team, backend->requests_n, &share) < 0) {
        return false;
    }
    http_charge(ex, give_place, share);
    return true;
}

static void let_in(struct edge *edge, struct sandbox *sb, struct http_exchange *ex, uint16_t port,
                   bool is_link)
{
    struct str id = str_of(sandbox_info(sb).id);
    enum edge_error error = EDGE_ERROR_SHARE;
    bool may_wake = port != AGENT_PORT || is_entitled(sb, http_request(ex));

    http_note_account(ex, sandbox_info(sb).team_id, "");
    http_note_sandbox(ex, sandbox_info(sb).id, port);
    if (is_private(sb, http_request(ex), port, &error) ||
        own_port_refuses(sb, http_request(ex), port, &error) || is_away(sb, &error)) {
        edge_refuse(edge, ex, error, id, port);
        return;
    }
    if (!may_wake && is_asleep(sb, &error)) {
        if (cors_is_preflight(http_request(ex))) {
            cors_preflight(ex, CORS_EDGE); /* the request that follows brings the token */
        } else {
            edge_refuse(edge, ex, error, id, port);
        }
        return;
    }
    struct backend *backend = backend_of(edge, sb);
    if (!take_place(edge, backend, sandbox_info(sb).team_id, ex, &error)) {
        edge_refuse(edge, ex, error, id, port);
        backend_check(backend);
        return;
    }
    sandbox_wake(sb);
    request_start(backend, ex,
                  &(struct request_way){.port = port, .may_wake = may_wake, .is_link = is_link});
}

/* The session of the team stands for the traffic token. The ports of our own programs have tokens
 * of their own, which a WebSocket cannot carry. */
void edge_stream(void *ctx, struct http_exchange *ex, const char *team_id, const char *id,
                 uint16_t port, const char *target)
{
    struct edge *edge = ctx;
    struct sandbox *sb = sandboxes_find(edge->sandboxes, str_of(id));
    enum edge_error error = own_port_is(port) ? EDGE_ERROR_NOT_OWNER : EDGE_ERROR_NOT_FOUND;

    if (!sb || strcmp(sandbox_info(sb).team_id, team_id) != 0 || own_port_is(port) ||
        is_away(sb, &error)) {
        edge_refuse(edge, ex, error, str_of(id), port);
        return;
    }
    struct backend *backend = backend_of(edge, sb);
    if (!take_place(edge, backend, team_id, ex, &error)) {
        edge_refuse(edge, ex, error, str_of(id), port);
        backend_check(backend);
        return;
    }
    sandbox_wake(sb);
    request_start(backend, ex,
                  &(struct request_way){.port = port, .may_wake = true, .stream_to = target});
}

static void handle_target(struct edge *edge, struct http_exchange *ex,
                          const struct edge_target *target)
{
    struct sandbox *sb = sandboxes_find(edge->sandboxes, target->id);

    /* Checked before the look-up, so that the answer does not reveal which sandboxes exist. */
    if (is_reserved(http_request(ex), target->port)) {
        edge_refuse(edge, ex, EDGE_ERROR_RESERVED, target->id, target->port);
    } else if (!sb) {
        edge_refuse(edge, ex, EDGE_ERROR_NOT_FOUND, target->id, target->port);
    } else {
        let_in(edge, sb, ex, target->port, false);
    }
}

static void handle_signed(struct edge *edge, struct http_exchange *ex)
{
    struct sandbox *sb = signed_find(edge->sandboxes, http_request(ex));

    if (sb) {
        let_in(edge, sb, ex, AGENT_PORT, true);
    } else {
        edge->outcomes[EDGE_BAD_SIGNATURE]++;
        edge_refuse_text(ex, 401, "application/json; charset=utf-8",
                         "{\"code\":401,\"message\":\"invalid signature\"}");
    }
}

static void handle_token(struct edge *edge, struct http_exchange *ex)
{
    struct sandbox *sb = token_find(edge->sandboxes, http_request(ex));

    if (sb) {
        let_in(edge, sb, ex, AGENT_PORT, false);
    } else {
        edge_refuse(edge, ex, EDGE_ERROR_NOT_FOUND, STR(""), AGENT_PORT);
    }
}

/* See edge.h: an API call with the headers of sandbox traffic. */
static bool is_api_call(const struct edge *edge, const struct http_request *req,
                        const struct edge_target *target)
{
    return target->by_headers && target->port == AGENT_PORT && edge->is_api && edge->is_api(req);
}

bool edge_handle(struct edge *edge, struct http_exchange *ex)
{
    const struct http_request *req = http_request(ex);
    struct edge_target target;

    switch (edge_route(req, edge->domain, &target)) {
    case EDGE_OURS:
        if (is_api_call(edge, req, &target)) {
            return false;
        }
        handle_target(edge, ex, &target);
        return true;
    case EDGE_BAD:
        edge->outcomes[EDGE_BAD_REQUEST]++;
        edge_refuse_text(ex, 400, "text/plain; charset=utf-8", target.reason);
        return true;
    case EDGE_NOT_OURS:
        break;
    }
    if (signed_is(req)) {
        handle_signed(edge, ex);
        return true;
    }
    if (names_sandbox_by_token(req)) {
        handle_token(edge, ex);
        return true;
    }
    return false;
}

void edge_figures(const struct edge *edge, struct edge_outcome out[EDGE_OUTCOMES])
{
    static const char *const names[EDGE_OUTCOMES] = {
        [EDGE_ERROR_NOT_FOUND] = "not_found",
        [EDGE_ERROR_PORT_CLOSED] = "port_closed",
        [EDGE_ERROR_NO_ANSWER] = "no_answer",
        [EDGE_ERROR_UNREACHABLE] = "unreachable",
        [EDGE_ERROR_PAUSED] = "paused",
        [EDGE_ERROR_CHANGING] = "changing",
        [EDGE_ERROR_NOT_RESUMED] = "not_resumed",
        [EDGE_ERROR_TOO_MANY] = "too_many",
        [EDGE_ERROR_SHARE] = "share",
        [EDGE_ERROR_RESERVED] = "reserved",
        [EDGE_ERROR_TOKEN_MISSING] = "token_missing",
        [EDGE_ERROR_TOKEN_INVALID] = "token_invalid",
        [EDGE_ERROR_NOT_WOKEN] = "not_woken",
        [EDGE_ERROR_NOT_OWNER] = "not_owner",
        [EDGE_ERROR_FOREIGN_PAGE] = "foreign_page",
        [EDGE_BAD_REQUEST] = "bad_request",
        [EDGE_BAD_SIGNATURE] = "bad_signature",
        [EDGE_PASSED] = "passed",
    };

    for (size_t i = 0; i < EDGE_OUTCOMES; i++) {
        out[i] = (struct edge_outcome){names[i], edge->outcomes[i]};
    }
}

void edge_steps(const struct edge *edge, struct edge_step_took out[EDGE_STEPS])
{
    static const char *const names[EDGE_STEPS] = {
        [EDGE_STEP_DIAL] = "dial",
        [EDGE_STEP_ANSWER] = "answer",
    };

    for (size_t i = 0; i < EDGE_STEPS; i++) {
        out[i] = (struct edge_step_took){names[i], &edge->steps[i]};
    }
}

/* ---- life ---- */

static void on_timer(uv_timer_t *timer)
{
    struct edge *edge = timer->data;
    struct backend *backend = NULL, *next = NULL;
    bool more = false;

    busy("idle connections to sandboxes");
    HASH_ITER (hh, edge->backends, backend, next) {
        more |= backend_expire(backend, clock_mono_ms());
        backend_check(backend);
    }
    if (!more) {
        (void)uv_timer_stop(timer);
    }
}

void edge_expect_idle(struct edge *edge)
{
    if (!uv_is_active((uv_handle_t *)&edge->timer)) {
        (void)uv_timer_start(&edge->timer, on_timer, EDGE_IDLE_TICK_MS, EDGE_IDLE_TICK_MS);
    }
}

struct edge *edge_new(const struct edge_options *options)
{
    struct edge *edge = xnew(struct edge);

    edge->loop = options->loop;
    edge->sandboxes = options->sandboxes;
    edge->domain = xstrdup(options->domain ? options->domain : "");
    edge->shares = options->shares;
    edge->sandbox_max = options->sandbox_max;
    edge->is_api = options->is_api;
    edge->tracer = options->tracer;
    edge->anybody = tls_trust_anybody();
    shares_init(&edge->held, options->held_max ? options->held_max : EDGE_HELD_MAX);
    if (uv_timer_init(edge->loop, &edge->timer) < 0) {
        abort();
    }
    edge->timer.data = edge;
    return edge;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct edge *edge = handle->data;

    tls_trust_free(edge->anybody);
    shares_fini(&edge->held);
    free(edge->domain);
    free(edge);
}

void edge_free(struct edge *edge)
{
    if (!edge) {
        return;
    }
    while (edge->backends) {
        backend_free(edge->backends);
    }
    uv_close((uv_handle_t *)&edge->timer, on_timer_closed);
}
