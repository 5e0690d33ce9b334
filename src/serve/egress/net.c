/* net.c - one sandbox's way out. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/json.h"
#include "lib/base/log.h"
#include "lib/base/text.h"
#include "serve/egress/authority.h"
#include "serve/egress/intercept.h"
#include "serve/egress/internal.h"
#include "serve/egress/outbound.h"
#include "serve/egress/shell.h"

void net_hold(struct egress_net *net)
{
    net->handles++;
}

void net_release(struct egress_net *net)
{
    if (--net->handles == 0) {
        destinations_release(net->destinations);
        policy_free(net->policy);
        transforms_free(net->transforms);
        json_decref(net->shells);
        authority_release(net->authority);
        names_free(net->names);
        resolver_free(net->resolver);
        explicit_bzero(&net->proxy, sizeof(net->proxy));
        free(net->proxy_authorities);
        free(net->team);
        free(net);
    }
}

static void on_closed(uv_handle_t *handle)
{
    net_release(handle->data);
}

/* ---- destinations ---- */

struct destination *net_note(struct egress_net *net, const struct destination_seen *seen)
{
    return destinations_note(net->destinations, seen, clock_wall_ms());
}

void egress_share_destinations(struct egress_net *net, struct destinations **kept)
{
    if (!*kept) {
        *kept = destinations_hold(net->destinations);
    } else if (*kept != net->destinations) {
        destinations_release(net->destinations);
        net->destinations = destinations_hold(*kept);
    }
}

/* ---- log lines and events ---- */

/* Writes one line of the sandbox's own log; takes `fields` over. */
static void net_log(struct egress_net *net, enum log_level level, const char *event,
                    const char *message, json_t *fields)
{
    (void)json_object_set_new(fields, "level", json_string(log_level_name(level)));
    (void)json_object_set_new(fields, "logger", json_string("egress"));
    (void)json_object_set_new(fields, "event_type", json_string(event));
    (void)json_object_set_new(fields, "message", json_sentence(message));
    char *line = net->egress->log ? json_dumps(fields, JSON_COMPACT) : NULL;
    if (line) {
        net->egress->log(net->egress->ctx, net->id, level, str_of(line));
    }
    free(line);
    json_decref(fields);
}

/* Whether this line is logged. A sandbox that is refused all the time does not fill the log. */
static bool meter_turn(struct egress_net *net, struct log_meter *meter, uint32_t most)
{
    uint64_t now = uv_now(net->egress->loop);

    if (now - meter->since_ms >= EGRESS_LOG_WINDOW_MS) {
        if (meter->dropped) {
            char message[64];
            (void)snprintf(message, sizeof(message), "egress: %u more lines were left out",
                           meter->dropped);
            log_info("sandbox %s: %s", net->id, message);
            net_log(net, LOG_WARN, "egress_untold", message, json_object());
        }
        *meter = (struct log_meter){.since_ms = now};
    }
    if (meter->n == most) {
        meter->dropped++;
        return false;
    }
    meter->n++;
    return true;
}

/* Names and paths come from the sandbox: what is no text is shown as such. */
static json_t *shown(struct str text, size_t most)
{
    text.len = text.len < most ? text.len : most;
    json_t *json = json_stringn(text.at ? text.at : "", text.len);

    return json ? json : json_string("(not UTF-8)");
}

/* A call of a shell is an event besides: what was done with the account. */
static void shell_record(struct egress_net *net, const struct net_request *request, json_t *fields)
{
    const struct egress *egress = net->egress;

    (void)json_object_set_new(fields, "shell", shown(request->shell, SHELL_NAME_BYTES_MAX));
    (void)json_object_set_new(fields, "durationMs", json_integer((json_int_t)request->took_ms));
    if (request->why) {
        (void)json_object_set_new(fields, "reason", json_sentence(request->why));
    }
    if (egress->shell_called) {
        egress->shell_called(egress->ctx, net->id, fields);
    }
}

void net_request_log(struct egress_net *net, const struct net_request *request)
{
    enum { MESSAGE_BYTES = 1024, PATH_BYTES = 512, METHOD_BYTES = 32 };
    char message[MESSAGE_BYTES];
    struct str path = request->path;

    if (!meter_turn(net, &net->requests, EGRESS_REQUESTS_LOGGED)) {
        return;
    }
    path.len = path.len < PATH_BYTES ? path.len : PATH_BYTES;
    struct str by = request->shell.at ? request->shell : str_of(request->rule);
    by.len = by.len < POLICY_NAME_BYTES ? by.len : POLICY_NAME_BYTES;
    (void)snprintf(message, sizeof(message), "%.*s %.*s%.*s: %d by %s %.*s%s%s",
                   (int)request->method.len, request->method.at, (int)request->host.len,
                   request->host.at, (int)path.len, path.at, request->status,
                   request->shell.at ? "shell" : "rule", (int)by.len, by.at,
                   request->why ? ": " : "", request->why ? request->why : "");
    json_t *fields = json_object();
    (void)json_object_set_new(fields, "method", shown(request->method, METHOD_BYTES));
    (void)json_object_set_new(fields, "host", shown(request->host, POLICY_NAME_BYTES));
    (void)json_object_set_new(fields, "path", shown(path, PATH_BYTES));
    (void)json_object_set_new(fields, "status", json_integer(request->status));
    if (request->shell.at) {
        shell_record(net, request, fields);
    } else {
        (void)json_object_set_new(fields, "rule", json_string(request->rule));
    }
    net_log(net, request->why ? LOG_WARN : LOG_INFO,
            request->shell.at ? "shell_call" : "egress_request", message, fields);
}

void net_refused(struct egress_net *net, const struct endpoint *to, struct str name,
                 const char *rule)
{
    enum { MESSAGE_BYTES = 512 };
    char text[ENDPOINT_TEXT_BYTES] = "", message[MESSAGE_BYTES];

    net->counters.refused++;
    (void)net_note(net, &(struct destination_seen){
                            .verdict = DESTINATION_REFUSED, .to = to, .host = name, .rule = rule});
    if (!meter_turn(net, &net->refusals, EGRESS_LOG_BURST)) {
        return;
    }
    if (to) {
        endpoint_text(to, text);
    }
    (void)snprintf(message, sizeof(message), "egress to %s%s%.*s refused by rule: %s", text,
                   to && name.len ? " " : "", (int)name.len, name.at ? name.at : "", rule);
    log_info("sandbox %s: %s", net->id, message);
    json_t *fields = json_object();
    (void)json_object_set_new(fields, "to", json_string(text));
    (void)json_object_set_new(fields, "name", shown(name, POLICY_NAME_BYTES));
    (void)json_object_set_new(fields, "rule", json_string(rule));
    net_log(net, LOG_WARN, "egress_refused", message, fields);
}

void net_proxy_failed(struct egress_net *net, const struct target *to, const struct proxy *proxy,
                      const char *why)
{
    enum { MESSAGE_BYTES = 768 };
    char text[ENDPOINT_TEXT_BYTES], message[MESSAGE_BYTES];

    if (!meter_turn(net, &net->refusals, EGRESS_LOG_BURST)) {
        return;
    }
    endpoint_text(&to->to, text);
    (void)snprintf(message, sizeof(message), "egress to %s%s%s through the proxy %s:%u failed: %s",
                   text, to->name[0] ? " " : "", to->name, proxy->host, proxy->port, why);
    log_info("sandbox %s: %s", net->id, message);
    json_t *fields = json_object();
    (void)json_object_set_new(fields, "to", json_string(text));
    (void)json_object_set_new(fields, "name", shown(str_of(to->name), POLICY_NAME_BYTES));
    (void)json_object_set_new(fields, "proxy", shown(str_of(proxy->host), POLICY_NAME_BYTES));
    net_log(net, LOG_WARN, "egress_failed", message, fields);
}

/* ---- options ---- */

struct resolver *net_resolver(const struct egress_net *net)
{
    return net->resolver ? net->resolver : net->egress->resolver;
}

/* A sandbox may name its own DNS servers, but only servers that it may reach; the operator's map
 * applies to them too. */
static void servers_add(struct egress_net *net, const char *text, struct buf *out)
{
    enum { DNS_PORT = 53 };
    char place[ENDPOINT_TEXT_BYTES];
    struct endpoint server;

    if (!text || endpoint_parse(str_of(text), &server) < 0) {
        return;
    }
    server.port = server.port ? server.port : DNS_PORT;
    const struct endpoint *mapped = map_find(net->egress, &server);
    const char *why = mapped ? NULL : guard_check(net->egress, &server);
    if (why) {
        net_refused(net, &server, STR("dnsServers"), why);
        return;
    }
    endpoint_text(mapped ? mapped : &server, place);
    (void)!buf_printf(out, "%s%s", buf_len(out) ? "," : "", place); /* there is room for all */
}

/* Resets the connections that wait for a resolver which is about to be freed. */
static void resolving_reset(struct egress_net *net)
{
    struct outbound *outbound, *next;

    DL_FOREACH_SAFE (net->outbounds, outbound, next) {
        if (outbound->state == OUTBOUND_RESOLVING) {
            outbound_reset(outbound);
        }
    }
}

static void resolver_set(struct egress_net *net, const json_t *options)
{
    enum { SERVERS_BYTES = 4096 };
    const json_t *list = json_object_get(json_object_get(options, "network"), "dnsServers");
    scoped_buf(text, SERVERS_BYTES);
    struct err err;

    if (net->resolver) {
        resolving_reset(net);
    }
    resolver_free(move_ptr(&net->resolver));
    for (size_t i = 0; i < json_array_size(list); i++) {
        servers_add(net, json_string_value(json_array_get(list, i)), &text);
    }
    if (buf_len(&text) && buf_append(&text, "", 1) == 0 &&
        resolver_new(net->egress->loop, buf_at(&text), &net->resolver, &err) < 0) {
        log_warn("sandbox %s: dnsServers: %s", net->id, err.msg);
    }
}

/* True when connections take another proxy than before. */
static bool proxy_set(struct egress_net *net, const json_t *options)
{
    struct proxy proxy;

    proxy_of_options(options, &proxy);
    bool changed = memcmp(&proxy, &net->proxy, sizeof(proxy)) != 0 ||
                   !text_same(net->proxy_authorities, proxy_authorities(options));
    net->proxy = proxy;
    text_set(&net->proxy_authorities, proxy_authorities(options));
    if (proxy.kind != PROXY_NONE && !net->names) {
        net->names = names_new();
    } else if (proxy.kind == PROXY_NONE) {
        names_free(move_ptr(&net->names));
    }
    return changed;
}

static void options_set(struct egress_net *net, const json_t *options)
{
    policy_free(net->policy);
    net->policy = policy_new(options);
    transforms_free(net->transforms);
    net->transforms = transforms_new(options);
    json_decref(net->shells);
    net->shells = json_deep_copy(json_object_get(options, "shells"));
    resolver_set(net, options);
}

/* ---- the gate ---- */

/* A sandbox that connects as fast as it can gets no more than its turn. */
static void on_gate(uv_poll_t *poll, int status, int events)
{
    struct egress_net *net = poll->data;

    (void)status, (void)events;
    for (int i = 0; i < EGRESS_ACCEPT_BATCH && !net->closed; i++) {
        int fd = accept4(net->gate_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            return; /* none left, or no descriptors: asked again by the loop */
        }
        outbound_accept(net, fd);
    }
}

static void gate_start(struct egress_net *net)
{
    if (uv_poll_init(net->egress->loop, &net->gate, net->gate_fd) < 0 ||
        uv_poll_start(&net->gate, UV_READABLE, on_gate) < 0) {
        abort(); /* the keeper gave us something that is no socket */
    }
    net->gate.data = net;
    net_hold(net);
}

struct share *net_take(struct egress_net *net)
{
    return shares_take_anyway(&net->egress->shares, net->team);
}

void egress_set_team(struct egress_net *net, const char *team)
{
    text_set(&net->team, team);
}

struct egress_net *egress_open(struct egress *egress, const char *id, const char *team,
                               const json_t *options, const struct egress_sockets *sockets)
{
    struct egress_net *net = xnew(struct egress_net);

    net->egress = egress;
    net->handles = 1; /* the opener's */
    net->destinations = destinations_new();
    (void)str_copy(net->id, sizeof(net->id), str_of(id));
    text_set(&net->team, team);
    options_set(net, options);
    (void)proxy_set(net, options);
    net->gate_fd = sockets->gate;
    gate_start(net);
    dns_start(net, sockets->dns_udp);
    return net;
}

void egress_set_policy(struct egress_net *net, const json_t *options)
{
    struct outbound *outbound, *next;

    dns_stop_queries(net); /* they may be the old resolver's */
    options_set(net, options);
    if (proxy_set(net, options)) {
        while (net->outbounds) {
            outbound_reset(net->outbounds);
        }
        intercepts_close(net);
        return;
    }
    DL_FOREACH_SAFE (net->outbounds, outbound, next) {
        outbound_check(outbound);
    }
    intercepts_check(net);
}

struct egress_counters egress_counters(const struct egress_net *net)
{
    return net->counters;
}

void egress_close(struct egress_net *net)
{
    if (!net) {
        return;
    }
    net->closed = true;
    while (net->outbounds) {
        outbound_reset(net->outbounds);
    }
    intercepts_close(net);
    dns_tcp_stop(net);
    dns_stop(net);
    uv_close((uv_handle_t *)&net->gate, on_closed);
    fd_closep(&net->gate_fd);
    net_release(net);
}
