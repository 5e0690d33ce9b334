/* route.c - which sandbox and port a request is for. Pure; the input is hostile. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "serve/edge/edge.h"

enum {
    ROUTE_PORT_DIGITS = 5,
    ROUTE_ID_MAX = 64, /* longer than any id; an id that does not exist is another error */
    ROUTE_HOST_MAX = 253,
};

static bool is_lower_alnum(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))) {
            return false;
        }
    }
    return text.len > 0;
}

/* Port 0 is the agent's control surface on the channel, so it must never come from outside. */
static bool parse_port(struct str text, uint16_t *out)
{
    uint32_t port = 0;

    if (text.len == 0 || text.len > ROUTE_PORT_DIGITS) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9') {
            return false;
        }
        port = port * 10 + (uint32_t)(text.at[i] - '0');
    }
    *out = (uint16_t)port;
    return port > 0 && port <= UINT16_MAX;
}

static enum edge_verdict bad(struct edge_target *out, const char *reason)
{
    out->reason = reason;
    return EDGE_BAD;
}

static enum edge_verdict target(struct str id, struct str port, struct edge_target *out)
{
    if (!parse_port(port, &out->port)) {
        return bad(out, "Invalid sandbox port");
    }
    if (!is_lower_alnum(id) || id.len > ROUTE_ID_MAX) {
        return bad(out, "Invalid sandbox ID");
    }
    out->id = id;
    return EDGE_OURS;
}

/* ---- the host ---- */

/* Without the port; "[::1]:80" gives "::1". */
static struct str host_of(struct str authority)
{
    if (authority.len && authority.at[0] == '[') {
        struct str inner = str_skip(authority, 1);
        return (struct str){inner.at, str_find(inner, ']')};
    }
    struct str host = {authority.at, str_find(authority, ':')};
    if (host.len && host.at[host.len - 1] == '.') {
        host.len--; /* the root's dot */
    }
    return host;
}

static bool is_address(struct str host)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr any;

    return str_copy(text, sizeof(text), host) &&
           (inet_pton(AF_INET, text, &any) == 1 || inet_pton(AF_INET6, text, &any) == 1);
}

static bool starts_shared(struct str host)
{
    static const struct str shared = {"sandbox.", 8};

    return host.len > shared.len && str_ieq((struct str){host.at, shared.len}, shared);
}

/* ---- by headers ---- */

/* False when the header is there more than once: two readers could take two different ones. */
static bool only_header(const struct http_request *req, const char *name, struct str *out)
{
    *out = (struct str){NULL, 0};
    for (size_t i = 0; i < req->headers_n; i++) {
        if (str_ieq(req->headers[i].name, str_of(name))) {
            if (out->at) {
                return false;
            }
            *out = str_trim(req->headers[i].value);
            out->at = out->at ? out->at : "";
        }
    }
    return true;
}

static enum edge_verdict route_by_headers(const struct http_request *req, struct edge_target *out)
{
    struct str id, port;

    if (!only_header(req, "e2b-sandbox-id", &id) || !only_header(req, "e2b-sandbox-port", &port)) {
        return bad(out, "repeated header");
    }
    if (id.len == 0 && port.len == 0) {
        return EDGE_NOT_OURS;
    }
    if (id.len == 0) {
        return bad(out, "missing header E2b-Sandbox-Id: send the sandbox's id beside its port, as "
                        "E2b-Sandbox-Id: ID");
    }
    if (port.len == 0) {
        return bad(out, "missing header E2b-Sandbox-Port: send the port beside the sandbox's id, "
                        "as E2b-Sandbox-Port: 8000");
    }
    out->by_headers = true;
    return target(id, port, out);
}

/* A page of the dashboard reaches sandboxes by headers, whichever name it was opened by. Its token
 * tells it from clients of the API at that name, which may send the same headers. */
static enum edge_verdict route_of_page(const struct http_request *req, struct edge_target *out)
{
    *out = (struct edge_target){0};
    return http_header_get(req, "x-atoll-csrf").at ? route_by_headers(req, out) : EDGE_NOT_OURS;
}

/* ---- by name ---- */

/* "<port>-<id>" or "<port>-<id>-<client>", as old clients write it. */
static enum edge_verdict route_by_label(struct str label, struct edge_target *out)
{
    struct str rest = label, port = {0}, id = {0}, client = {0}, more = {0};

    if (!str_split(&rest, '-', &port) || !str_split(&rest, '-', &id)) {
        return EDGE_NOT_OURS;
    }
    if (str_split(&rest, '-', &client) &&
        (!is_lower_alnum(client) || str_split(&rest, '-', &more))) {
        return bad(out, "Invalid host");
    }
    return target(id, port, out);
}

enum edge_verdict edge_route(const struct http_request *req, const char *domain,
                             struct edge_target *out)
{
    struct str host = host_of(req->authority);

    *out = (struct edge_target){0};
    if (is_address(host) || str_ieq(host, STR("localhost")) || starts_shared(host)) {
        return route_by_headers(req, out);
    }
    size_t dot = str_find(host, '.');
    if (dot + 1 >= host.len || host.len > ROUTE_HOST_MAX) {
        return route_of_page(req, out);
    }
    struct str label = {host.at, dot};
    struct str below = str_skip(host, dot + 1);
    struct str own = host_of(str_of(domain));
    if (own.len > 0) { /* names below localhost lead here whatever the domain is */
        bool may_name = str_ieq(below, own) || str_ieq(below, STR("localhost"));
        enum edge_verdict named = may_name ? route_by_label(label, out) : EDGE_NOT_OURS;
        return named == EDGE_NOT_OURS ? route_of_page(req, out) : named;
    }
    /* Any domain may lead here, so only a label that is a target beyond doubt is one. */
    enum edge_verdict verdict = route_by_label(label, out);
    return verdict == EDGE_OURS ? EDGE_OURS : route_of_page(req, out);
}
