/* outbound.c - a connection out, until both of its ends are there.
 *
 *      accepted ─┬─ refused: reset
 *                ├─ PEEKING ─┬─ RESOLVING ─┐
 *                │           │             │
 *                └───────────┴─► DIALLING ─┴─► RELAYING
 *
 * Where a name decides, the dial goes to an address that this side has resolved for the name. The
 * program's own address is used only if it is among these: a name is only the program's claim.
 */
#include "serve/egress/outbound.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <stdlib.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "serve/egress/dial.h"
#include "serve/egress/intercept.h"
#include "serve/egress/shell.h"

enum { DNS_PORT = 53, HTTP_PORT = 80, HTTPS_PORT = 443 };

/* ---- the end of one ---- */

static void on_closed(uv_handle_t *handle)
{
    struct outbound *outbound = handle->data;

    if (--outbound->handles > 0) {
        return;
    }
    destination_release(outbound->destination);
    free(outbound->out.kept);
    free(outbound->in.kept);
    buf_fini(&outbound->first);
    net_release(outbound->net);
    free(outbound);
}

/* From here on callbacks find OUTBOUND_CLOSED, and the memory goes with the last handle. */
static void outbound_leave(struct outbound *outbound)
{
    struct egress_net *net = outbound->net;

    outbound->state = OUTBOUND_CLOSED;
    if (outbound->destination) {
        outbound->destination->last_ms = clock_wall_ms();
    }
    DL_DELETE(net->outbounds, outbound);
    net->counters.open--;
    share_give(move_ptr(&outbound->share));
    lookup_cancel(move_ptr(&outbound->lookup));
    dial_cancel(move_ptr(&outbound->dial));
    uv_close((uv_handle_t *)&outbound->timer, on_closed);
}

void outbound_close(struct outbound *outbound)
{
    outbound_leave(outbound);
    uv_close((uv_handle_t *)&outbound->inner, on_closed);
    uv_close((uv_handle_t *)&outbound->outer, on_closed);
}

static void tcp_reset(uv_tcp_t *tcp)
{
    if (uv_tcp_close_reset(tcp, on_closed) < 0) {
        uv_close((uv_handle_t *)tcp, on_closed); /* it is shutting down already */
    }
}

void outbound_reset(struct outbound *outbound)
{
    outbound_leave(outbound);
    tcp_reset(&outbound->inner);
    if (outbound->outer_used) {
        tcp_reset(&outbound->outer);
    }
}

static void outbound_refuse(struct outbound *outbound, const char *rule)
{
    net_refused(outbound->net, &outbound->asked, str_of(outbound->name), rule);
    outbound_reset(outbound);
}

static void outbound_fail(struct outbound *outbound, int error)
{
    char text[ENDPOINT_TEXT_BYTES];

    endpoint_text(&outbound->asked, text);
    log_debug("sandbox %s: egress to %s: %s", outbound->net->id, text, uv_strerror(error));
    outbound->net->counters.failed++;
    (void)net_note(outbound->net, &(struct destination_seen){.verdict = DESTINATION_FAILED,
                                                             .to = &outbound->asked,
                                                             .no_address = outbound->stands_in,
                                                             .host = str_of(outbound->name),
                                                             .rule = uv_strerror(error)});
    outbound_reset(outbound);
}

static void outbound_decide(struct outbound *outbound);

/* The program sends no name, or has not yet. */
static void outbound_quiet(struct outbound *outbound)
{
    if (outbound->named_only) {
        outbound_refuse(outbound, "it says no name, and only names are allowed");
    } else {
        outbound_decide(outbound);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct outbound *outbound = timer->data;

    if (outbound->state == OUTBOUND_PEEKING) {
        outbound_quiet(outbound);
    } else if (outbound->state == OUTBOUND_RELAYING) {
        outbound_reset(outbound);
    } else {
        outbound_fail(outbound, UV_ETIMEDOUT);
    }
}

/* ---- dialling ---- */

static void outbound_reached(struct outbound *outbound)
{
    char rule[POLICY_RULE_BYTES];

    policy_allowed_by(outbound->net->policy, outbound->stands_in ? NULL : &outbound->asked.address,
                      str_of(outbound->name), rule);
    outbound->destination = destination_hold(
        net_note(outbound->net, &(struct destination_seen){.verdict = DESTINATION_REACHED,
                                                           .to = &outbound->dialled,
                                                           .no_address = outbound->stands_in,
                                                           .host = str_of(outbound->name),
                                                           .rule = rule}));
}

static void on_dialled(void *ctx, int fd_or_error)
{
    struct outbound *outbound = ctx;

    outbound->dial = NULL;
    if (fd_or_error < 0) {
        outbound_fail(outbound, fd_or_error);
        return;
    }
    (void)uv_tcp_init(outbound->net->egress->loop, &outbound->outer);
    outbound->outer.data = outbound;
    outbound->outer_used = true;
    outbound->handles++;
    if (uv_tcp_open(&outbound->outer, fd_or_error) < 0) {
        abort(); /* it was connected a moment ago */
    }
    outbound->state = OUTBOUND_RELAYING;
    outbound->net->counters.connections++;
    outbound_reached(outbound);
    relay_start(outbound);
}

static void outbound_dial(struct outbound *outbound, const struct endpoint *to)
{
    struct target target = {.to = *to};

    if (outbound->by_name) {
        (void)str_copy(target.name, sizeof(target.name), str_of(outbound->name));
    }
    outbound->state = OUTBOUND_DIALLING;
    outbound->dialled = *to;
    (void)uv_timer_stop(&outbound->timer);
    outbound->dial = dial_start(outbound->net, &target, on_dialled, outbound);
}

/* ---- a name that has a rule ---- */

static const struct transform *outbound_rule(const struct outbound *outbound)
{
    return transforms_find(outbound->net->transforms, str_of(outbound->name));
}

/* Hands over the socket, with the bytes that were read of it. */
static void outbound_intercept(struct outbound *outbound, const struct endpoint *to)
{
    uv_os_fd_t fd = -1;

    if (uv_fileno((uv_handle_t *)&outbound->inner, &fd) < 0 ||
        (fd = fcntl(fd, F_DUPFD_CLOEXEC, 0)) < 0) {
        outbound_fail(outbound, -errno);
        return;
    }
    intercept_start(outbound->net, &(struct intercept_start){.fd = fd,
                                                             .first = buf_str(&outbound->first),
                                                             .name = outbound->name,
                                                             .asked = outbound->asked,
                                                             .to = *to,
                                                             .secure = outbound->secure});
    outbound_leave(outbound);
    uv_close((uv_handle_t *)&outbound->inner, on_closed);
}

/* Dials an address that the policy and the guard allow. */
static void outbound_go(struct outbound *outbound, const struct endpoint *to)
{
    if (outbound_rule(outbound)) {
        outbound_intercept(outbound, to);
    } else {
        outbound_dial(outbound, to);
    }
}

/* ---- by name ---- */

static bool is_among(const struct address *address, const struct address *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (address_eq(address, &list[i])) {
            return true;
        }
    }
    return false;
}

static void on_resolved(void *ctx, const struct address *addresses, size_t n)
{
    struct outbound *outbound = ctx;
    struct endpoint to = {.port = outbound->asked.port};

    outbound->lookup = NULL;
    outbound->by_name = true; /* of a proxy; this side has verified that the name leads there */
    if (!outbound->named_only && !outbound_rule(outbound)) {
        outbound->by_name = is_among(&outbound->asked.address, addresses, n);
        outbound_dial(outbound, &outbound->asked);
    } else if (outbound->named_only &&
               !policy_name(outbound->net->policy, str_of(outbound->name))) {
        outbound_refuse(outbound, "allowOut does not have that name");
    } else if (n == 0) {
        outbound_fail(outbound, UV_EAI_NONAME);
    } else if (!dial_choose(outbound->net->egress, addresses, n, &outbound->asked.address, &to)) {
        outbound_refuse(outbound, "no address of that name may be reached");
    } else {
        outbound_go(outbound, &to);
    }
}

static void outbound_resolve(struct outbound *outbound)
{
    outbound->state = OUTBOUND_RESOLVING;
    (void)uv_timer_start(&outbound->timer, on_timer, EGRESS_CONNECT_TIMEOUT_MS, 0);
    outbound->lookup =
        resolver_addresses(net_resolver(outbound->net), outbound->name, on_resolved, outbound);
}

/* Asks the policy about the target. */
static enum verdict outbound_verdict(const struct outbound *outbound, char rule[POLICY_RULE_BYTES])
{
    const struct policy *policy = outbound->net->policy;

    return outbound->stands_in ? policy_remote(policy, str_of(outbound->name), rule)
                               : policy_address(policy, &outbound->asked.address, rule);
}

/* The operator's proxy is told the name where it belongs to the address, for its own rules. */
static bool wants_name(const struct outbound *outbound)
{
    const struct target target = {.to = outbound->asked};

    return outbound->net->proxy.kind == PROXY_NONE &&
           dial_is_proxied(outbound->net->egress, &target);
}

/* A sandbox's own proxy gets the name and finds the address: it is not resolved here. */
static void outbound_by_proxy(struct outbound *outbound, enum verdict verdict, const char *rule)
{
    outbound->by_name = true;
    if (verdict == VERDICT_ALLOW || policy_name(outbound->net->policy, str_of(outbound->name))) {
        outbound_go(outbound, &outbound->asked);
    } else {
        outbound_refuse(outbound, rule);
    }
}

/* Whether the dial goes to an address that is found here for the name. A TLS server proves its
 * name; a plain HTTP server must at least have the name's address, or a program could send a rule's
 * headers anywhere. */
static bool needs_address(const struct outbound *outbound, enum verdict verdict)
{
    if (verdict == VERDICT_ALLOW) {
        return outbound->name[0] &&
               ((outbound_rule(outbound) && !outbound->secure) || wants_name(outbound));
    }
    return verdict == VERDICT_BY_NAME && policy_name(outbound->net->policy, str_of(outbound->name));
}

/* Decides by the name, or by "" when there is none. */
static void outbound_decide(struct outbound *outbound)
{
    char rule[POLICY_RULE_BYTES];
    enum verdict verdict = outbound_verdict(outbound, rule);

    (void)uv_read_stop((uv_stream_t *)&outbound->inner);
    outbound->named_only = verdict != VERDICT_ALLOW;
    if (outbound->net->names &&
        (outbound->stands_in || (verdict == VERDICT_BY_NAME && outbound->name[0]))) {
        outbound_by_proxy(outbound, verdict, rule);
    } else if (needs_address(outbound, verdict)) {
        outbound_resolve(outbound);
    } else if (verdict == VERDICT_ALLOW) {
        outbound_go(outbound, &outbound->asked);
    } else {
        outbound_refuse(outbound, rule);
    }
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    struct outbound *outbound = handle->data;
    size_t room = PEEK_BYTES_MAX - buf_len(&outbound->first);
    char *at = NULL;

    (void)suggested;
    *out = buf_reserve(&outbound->first, room, &at) < 0 ? uv_buf_init(NULL, 0)
                                                        : uv_buf_init(at, (unsigned)room);
}

static void on_first_bytes(uv_stream_t *stream, ssize_t n, const uv_buf_t *unused)
{
    struct outbound *outbound = stream->data;
    struct str name = {0};

    (void)unused;
    if (n == 0) {
        return;
    }
    if (n < 0) {
        outbound_quiet(outbound);
        return;
    }
    buf_commit(&outbound->first, (size_t)n);
    enum peek peek = peek_name(buf_str(&outbound->first), &name);
    if (peek == PEEK_MORE && buf_len(&outbound->first) < PEEK_BYTES_MAX) {
        return;
    }
    if (peek == PEEK_NAME && !outbound->stands_in) {
        (void)str_copy(outbound->name, sizeof(outbound->name), name);
    }
    outbound->secure = peek_is_tls(buf_str(&outbound->first));
    outbound_decide(outbound);
}

/* A program on a port that is not HTTP's may be waiting for its server to speak first. */
static void outbound_peek(struct outbound *outbound)
{
    bool http = outbound->asked.port == HTTP_PORT || outbound->asked.port == HTTPS_PORT;
    uint64_t patience_ms = outbound->named_only || http ? EGRESS_PEEK_TIMEOUT_MS : EGRESS_QUIET_MS;

    outbound->state = OUTBOUND_PEEKING;
    (void)uv_timer_start(&outbound->timer, on_timer, patience_ms, 0);
    (void)uv_read_start((uv_stream_t *)&outbound->inner, on_alloc, on_first_bytes);
}

/* ---- a change of policy ---- */

/* A connection that is not decided yet is decided by the new policy. */
void outbound_check(struct outbound *outbound)
{
    char rule[POLICY_RULE_BYTES];

    if (outbound->state == OUTBOUND_PEEKING || outbound->state == OUTBOUND_RESOLVING) {
        return;
    }
    enum verdict verdict = outbound_verdict(outbound, rule);
    if (verdict == VERDICT_DENY || (verdict == VERDICT_BY_NAME &&
                                    !policy_name(outbound->net->policy, str_of(outbound->name)))) {
        outbound_refuse(outbound, rule);
    } else if (outbound_rule(outbound)) {
        outbound_reset(outbound); /* its name has a rule now: the next one will find it */
    }
}

/* ---- the beginning ---- */

/* The target of the program, before the jail's firewall redirected it here; *own is the address it
 * arrived at. -ENOENT for a connection that was not redirected. */
static int asked_find(int fd, struct endpoint *out, struct endpoint *own)
{
    struct sockaddr_storage here, asked = {0};
    socklen_t here_len = sizeof(here), len = sizeof(asked);

    if (getsockname(fd, (struct sockaddr *)&here, &here_len) < 0 ||
        endpoint_from_sockaddr(&here, own) < 0) {
        return -ENOENT;
    }
    const bool v4 = address_is_v4(&own->address);
    /* The two options happen to have one number. */
    const int option = v4 ? SO_ORIGINAL_DST : IP6T_SO_ORIGINAL_DST; // NOLINT(bugprone-branch-clone)
    if (getsockopt(fd, v4 ? SOL_IP : SOL_IPV6, option, &asked, &len) < 0 ||
        endpoint_from_sockaddr(&asked, out) < 0) {
        return -ENOENT;
    }
    return address_eq(&own->address, &out->address) && own->port == out->port ? -ENOENT : 0;
}

static void fd_reset(int fd)
{
    const struct linger at_once = {.l_onoff = 1};

    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    fd_closep(&fd);
}

static struct outbound *outbound_new(struct egress_net *net, int fd, const struct endpoint *asked)
{
    struct outbound *outbound = xnew(struct outbound);

    outbound->net = net;
    net_hold(net);
    outbound->asked = *asked;
    buf_init(&outbound->first, PEEK_BYTES_MAX);
    (void)uv_timer_init(net->egress->loop, &outbound->timer);
    (void)uv_tcp_init(net->egress->loop, &outbound->inner);
    outbound->timer.data = outbound->inner.data = outbound;
    outbound->handles = 2;
    if (uv_tcp_open(&outbound->inner, fd) < 0) {
        abort(); /* it was accepted a moment ago */
    }
    DL_APPEND(net->outbounds, outbound);
    net->counters.open++;
    outbound->share = net_take(net);
    return outbound;
}

/* Why it is refused before its first bytes are read, or NULL. */
static const char *limit_check(const struct egress_net *net)
{
    if (net->counters.open == EGRESS_CONNECTIONS_MAX) {
        return "as many connections as a sandbox may have";
    }
    return shares_room(&net->egress->shares, net->team) == 0
               ? "as many connections as is the share of a team"
               : NULL;
}

/* Whether the program asks which sandbox it is in; not if the operator maps that address
 * elsewhere. */
static bool asks_self(const struct egress_net *net, const struct endpoint *asked)
{
    return names_is_self(&asked->address) && asked->port == HTTP_PORT &&
           !map_find(net->egress, asked);
}

static const char *place_check(const struct egress_net *net, const struct endpoint *asked)
{
    if (asks_self(net, asked)) {
        return NULL;
    }
    if (names_is_shells(&asked->address)) {
        return asked->port == HTTP_PORT ? NULL : "shells are asked by plain HTTP, on port 80";
    }
    if (net->names && names_has_block(&asked->address)) {
        return names_find(net->names, &asked->address) ? NULL : "no name has that address any more";
    }
    return map_find(net->egress, asked) ? NULL : guard_check(net->egress, asked);
}

void outbound_accept(struct egress_net *net, int fd)
{
    char rule[POLICY_RULE_BYTES];
    struct endpoint asked = {0}, own;
    const char *why = limit_check(net);

    if (asked_find(fd, &asked, &own) < 0) {
        why = "the gate itself is not a target";
    } else if (address_eq(&own.address, &asked.address) && asked.port == DNS_PORT) {
        dns_tcp_accept(net, fd);
        return;
    } else if (!why) {
        why = place_check(net, &asked);
    }
    if (why) {
        net_refused(net, &asked, (struct str){0}, why);
        fd_reset(fd);
        return;
    }
    if (names_is_shells(&asked.address)) {
        intercept_start(net, &(struct intercept_start){
                                 .fd = fd, .name = SHELL_HOST, .asked = asked, .shells = true});
        return;
    }
    if (asks_self(net, &asked)) {
        intercept_start(net, &(struct intercept_start){
                                 .fd = fd, .name = SELF_HOST, .asked = asked, .self = true});
        return;
    }
    struct outbound *outbound = outbound_new(net, fd, &asked);
    const char *name = names_find(net->names, &asked.address);
    outbound->stands_in = name != NULL;
    (void)str_copy(outbound->name, sizeof(outbound->name), str_of(name ? name : ""));
    enum verdict verdict = outbound_verdict(outbound, rule);
    outbound->named_only = verdict == VERDICT_BY_NAME;
    if (verdict == VERDICT_DENY) {
        outbound_refuse(outbound, rule);
    } else if (outbound->named_only || transforms_any(net->transforms) || wants_name(outbound)) {
        outbound_peek(outbound);
    } else {
        outbound->by_name = outbound->stands_in;
        outbound_dial(outbound, &asked);
    }
}
