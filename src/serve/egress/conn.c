/* conn.c - a connection out, until both of its ends are there.
 *
 *      accepted ─┬─ refused: reset
 *                ├─ PEEKING ─┬─ RESOLVING ─┐
 *                │           │             │
 *                └───────────┴─► DIALLING ─┴─► RELAYING
 *
 * Where a name decides, the dial goes to an address that this side has resolved for the name, and
 * to the one the program had only if it is among those: a name alone is only the program's word.
 */
#include "serve/egress/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <stdlib.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "serve/egress/dial.h"
#include "serve/egress/intercept.h"
#include "serve/egress/shell.h"

enum { DNS_PORT = 53, HTTP_PORT = 80, HTTPS_PORT = 443 };

/* ---- the end of one ---- */

static void on_closed(uv_handle_t *handle)
{
    struct conn *conn = handle->data;

    if (--conn->handles > 0) {
        return;
    }
    free(conn->out.kept);
    free(conn->in.kept);
    buf_fini(&conn->first);
    net_release(conn->net);
    free(conn);
}

/* From here on callbacks find CONN_CLOSED, and the memory goes with the last handle. */
static void conn_leave(struct conn *conn)
{
    struct egress_net *net = conn->net;

    conn->state = CONN_CLOSED;
    DL_DELETE(net->conns, conn);
    net->counters.open--;
    share_give(move_ptr(&conn->share));
    lookup_cancel(move_ptr(&conn->lookup));
    dial_cancel(move_ptr(&conn->dial));
    uv_close((uv_handle_t *)&conn->timer, on_closed);
}

void conn_close(struct conn *conn)
{
    conn_leave(conn);
    uv_close((uv_handle_t *)&conn->inner, on_closed);
    uv_close((uv_handle_t *)&conn->outer, on_closed);
}

static void tcp_reset(uv_tcp_t *tcp)
{
    if (uv_tcp_close_reset(tcp, on_closed) < 0) {
        uv_close((uv_handle_t *)tcp, on_closed); /* it is shutting down already */
    }
}

void conn_reset(struct conn *conn)
{
    conn_leave(conn);
    tcp_reset(&conn->inner);
    if (conn->outer_used) {
        tcp_reset(&conn->outer);
    }
}

static void conn_refuse(struct conn *conn, const char *rule)
{
    net_refused(conn->net, &conn->asked, str_of(conn->name), rule);
    conn_reset(conn);
}

static void conn_fail(struct conn *conn, int error)
{
    char text[ENDPOINT_TEXT_BYTES];

    endpoint_text(&conn->asked, text);
    log_debug("sandbox %s: egress to %s: %s", conn->net->id, text, uv_strerror(error));
    conn->net->counters.failed++;
    conn_reset(conn);
}

static void conn_decide(struct conn *conn);

/* It says no name, or not yet. */
static void conn_quiet(struct conn *conn)
{
    if (conn->named_only) {
        conn_refuse(conn, "it says no name, and only names are allowed");
    } else {
        conn_decide(conn);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct conn *conn = timer->data;

    if (conn->state == CONN_PEEKING) {
        conn_quiet(conn);
    } else if (conn->state == CONN_RELAYING) {
        conn_reset(conn);
    } else {
        conn_fail(conn, UV_ETIMEDOUT);
    }
}

/* ---- dialling ---- */

static void on_dialled(void *ctx, int fd_or_error)
{
    struct conn *conn = ctx;

    conn->dial = NULL;
    if (fd_or_error < 0) {
        conn_fail(conn, fd_or_error);
        return;
    }
    (void)uv_tcp_init(conn->net->egress->loop, &conn->outer);
    conn->outer.data = conn;
    conn->outer_used = true;
    conn->handles++;
    if (uv_tcp_open(&conn->outer, fd_or_error) < 0) {
        abort(); /* it was connected a moment ago */
    }
    conn->state = CONN_RELAYING;
    conn->net->counters.connections++;
    relay_start(conn);
}

static void conn_dial(struct conn *conn, const struct endpoint *to)
{
    struct target target = {.to = *to};

    if (conn->by_name) {
        (void)str_copy(target.name, sizeof(target.name), str_of(conn->name));
    }
    conn->state = CONN_DIALLING;
    (void)uv_timer_stop(&conn->timer);
    conn->dial = dial_start(conn->net, &target, on_dialled, conn);
}

/* ---- a name that has a rule ---- */

static const struct transform *conn_rule(const struct conn *conn)
{
    return transforms_find(conn->net->transforms, str_of(conn->name));
}

/* The socket changes hands, with what was read of it. */
static void conn_intercept(struct conn *conn, const struct endpoint *to)
{
    uv_os_fd_t fd = -1;

    if (uv_fileno((uv_handle_t *)&conn->inner, &fd) < 0 ||
        (fd = fcntl(fd, F_DUPFD_CLOEXEC, 0)) < 0) {
        conn_fail(conn, -errno);
        return;
    }
    intercept_start(conn->net, &(struct intercept_start){.fd = fd,
                                                         .first = buf_str(&conn->first),
                                                         .name = conn->name,
                                                         .asked = conn->asked,
                                                         .to = *to,
                                                         .secure = conn->secure});
    conn_leave(conn);
    uv_close((uv_handle_t *)&conn->inner, on_closed);
}

/* Towards an address that the policy and the guard allow. */
static void conn_go(struct conn *conn, const struct endpoint *to)
{
    if (conn_rule(conn)) {
        conn_intercept(conn, to);
    } else {
        conn_dial(conn, to);
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
    struct conn *conn = ctx;
    struct endpoint to = {.port = conn->asked.port};

    conn->lookup = NULL;
    conn->by_name = true; /* of a proxy; it is this side's word by now that the name leads there */
    if (!conn->named_only && !conn_rule(conn)) {
        conn->by_name = is_among(&conn->asked.address, addresses, n);
        conn_dial(conn, &conn->asked);
    } else if (conn->named_only && !policy_name(conn->net->policy, str_of(conn->name))) {
        conn_refuse(conn, "allowOut does not have that name");
    } else if (n == 0) {
        conn_fail(conn, UV_EAI_NONAME);
    } else if (!dial_choose(conn->net->egress, addresses, n, &conn->asked.address, &to)) {
        conn_refuse(conn, "no address of that name may be reached");
    } else {
        conn_go(conn, &to);
    }
}

static void conn_resolve(struct conn *conn)
{
    conn->state = CONN_RESOLVING;
    (void)uv_timer_start(&conn->timer, on_timer, EGRESS_CONNECT_TIMEOUT_MS, 0);
    conn->lookup = resolver_addresses(net_resolver(conn->net), conn->name, on_resolved, conn);
}

/* What the policy says of where it goes. */
static enum verdict conn_verdict(const struct conn *conn, char rule[POLICY_RULE_BYTES])
{
    const struct policy *policy = conn->net->policy;

    return conn->stands_in ? policy_remote(policy, str_of(conn->name), rule)
                           : policy_address(policy, &conn->asked.address, rule);
}

/* The operator's proxy is told names where they are the address' own, for its own rules. */
static bool wants_name(const struct conn *conn)
{
    const struct target target = {.to = conn->asked};

    return conn->net->proxy.kind == PROXY_NONE && dial_is_proxied(conn->net->egress, &target);
}

/* A sandbox's own proxy is given the name and finds the address: nobody is asked for it here. */
static void conn_by_proxy(struct conn *conn, enum verdict verdict, const char *rule)
{
    conn->by_name = true;
    if (verdict == VERDICT_ALLOW || policy_name(conn->net->policy, str_of(conn->name))) {
        conn_go(conn, &conn->asked);
    } else {
        conn_refuse(conn, rule);
    }
}

/* Whether the dial goes to an address that is found here for the name. A server of TLS proves its
 * name; who speaks plain HTTP must at least have its address, or a program could send a rule's
 * headers anywhere. */
static bool needs_address(const struct conn *conn, enum verdict verdict)
{
    if (verdict == VERDICT_ALLOW) {
        return conn->name[0] && ((conn_rule(conn) && !conn->secure) || wants_name(conn));
    }
    return verdict == VERDICT_BY_NAME && policy_name(conn->net->policy, str_of(conn->name));
}

/* With the name there is, or "" when there is none. */
static void conn_decide(struct conn *conn)
{
    char rule[POLICY_RULE_BYTES];
    enum verdict verdict = conn_verdict(conn, rule);

    (void)uv_read_stop((uv_stream_t *)&conn->inner);
    conn->named_only = verdict != VERDICT_ALLOW;
    if (conn->net->names && (conn->stands_in || (verdict == VERDICT_BY_NAME && conn->name[0]))) {
        conn_by_proxy(conn, verdict, rule);
    } else if (needs_address(conn, verdict)) {
        conn_resolve(conn);
    } else if (verdict == VERDICT_ALLOW) {
        conn_go(conn, &conn->asked);
    } else {
        conn_refuse(conn, rule);
    }
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    struct conn *conn = handle->data;
    size_t room = PEEK_BYTES_MAX - buf_len(&conn->first);
    char *at = NULL;

    (void)suggested;
    *out = buf_reserve(&conn->first, room, &at) < 0 ? uv_buf_init(NULL, 0)
                                                    : uv_buf_init(at, (unsigned)room);
}

static void on_first_bytes(uv_stream_t *stream, ssize_t n, const uv_buf_t *unused)
{
    struct conn *conn = stream->data;
    struct str name = {0};

    (void)unused;
    if (n == 0) {
        return;
    }
    if (n < 0) {
        conn_quiet(conn);
        return;
    }
    buf_commit(&conn->first, (size_t)n);
    enum peek peek = peek_name(buf_str(&conn->first), &name);
    if (peek == PEEK_MORE && buf_len(&conn->first) < PEEK_BYTES_MAX) {
        return;
    }
    if (peek == PEEK_NAME && !conn->stands_in) {
        (void)str_copy(conn->name, sizeof(conn->name), name);
    }
    conn->secure = peek_is_tls(buf_str(&conn->first));
    conn_decide(conn);
}

/* A program on a port that is not HTTP's may be waiting for its server to speak first. */
static void conn_peek(struct conn *conn)
{
    bool http = conn->asked.port == HTTP_PORT || conn->asked.port == HTTPS_PORT;
    uint64_t patience_ms = conn->named_only || http ? EGRESS_PEEK_TIMEOUT_MS : EGRESS_QUIET_MS;

    conn->state = CONN_PEEKING;
    (void)uv_timer_start(&conn->timer, on_timer, patience_ms, 0);
    (void)uv_read_start((uv_stream_t *)&conn->inner, on_alloc, on_first_bytes);
}

/* ---- a change of policy ---- */

/* One that is still on its way is decided by the new policy when it gets there. */
void conn_check(struct conn *conn)
{
    char rule[POLICY_RULE_BYTES];

    if (conn->state == CONN_PEEKING || conn->state == CONN_RESOLVING) {
        return;
    }
    enum verdict verdict = conn_verdict(conn, rule);
    if (verdict == VERDICT_DENY ||
        (verdict == VERDICT_BY_NAME && !policy_name(conn->net->policy, str_of(conn->name)))) {
        conn_refuse(conn, rule);
    } else if (conn_rule(conn)) {
        conn_reset(conn); /* its name has a rule now: the next one will find it */
    }
}

/* ---- the beginning ---- */

/* Where the program wanted to go, before the jail's firewall turned it here; *own is where it came
 * to. -ENOENT for one that came by itself. */
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

static struct conn *conn_new(struct egress_net *net, int fd, const struct endpoint *asked)
{
    struct conn *conn = xnew(struct conn);

    conn->net = net;
    net_hold(net);
    conn->asked = *asked;
    buf_init(&conn->first, PEEK_BYTES_MAX);
    (void)uv_timer_init(net->egress->loop, &conn->timer);
    (void)uv_tcp_init(net->egress->loop, &conn->inner);
    conn->timer.data = conn->inner.data = conn;
    conn->handles = 2;
    if (uv_tcp_open(&conn->inner, fd) < 0) {
        abort(); /* it was accepted a moment ago */
    }
    DL_APPEND(net->conns, conn);
    net->counters.open++;
    conn->share = net_take(net);
    return conn;
}

/* Why it may not even be looked at, or NULL. */
static const char *limit_check(const struct egress_net *net)
{
    if (net->counters.open == EGRESS_CONNECTIONS_MAX) {
        return "as many connections as a sandbox may have";
    }
    return shares_room(&net->egress->shares, net->team) == 0
               ? "as many connections as is the share of a team"
               : NULL;
}

/* Unless the operator leads that address elsewhere. */
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

void conn_accept(struct egress_net *net, int fd)
{
    char rule[POLICY_RULE_BYTES];
    struct endpoint asked = {0}, own;
    const char *why = limit_check(net);

    if (asked_find(fd, &asked, &own) < 0) {
        why = "the gate itself is no place to go";
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
    struct conn *conn = conn_new(net, fd, &asked);
    const char *name = names_find(net->names, &asked.address);
    conn->stands_in = name != NULL;
    (void)str_copy(conn->name, sizeof(conn->name), str_of(name ? name : ""));
    enum verdict verdict = conn_verdict(conn, rule);
    conn->named_only = verdict == VERDICT_BY_NAME;
    if (verdict == VERDICT_DENY) {
        conn_refuse(conn, rule);
    } else if (conn->named_only || transforms_any(net->transforms) || wants_name(conn)) {
        conn_peek(conn);
    } else {
        conn->by_name = conn->stands_in;
        conn_dial(conn, &asked);
    }
}
