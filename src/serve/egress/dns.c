/* dns.c - answers the DNS questions of sandboxes.
 *
 * A name that its policy does not allow is answered as not existing, without asking a resolver: a
 * question is itself a way to send data out. Addresses are checked when a connection is made, so an
 * answer with the host's own addresses allows nothing.
 */
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "serve/egress/internal.h"
#include "serve/egress/shell.h"

struct dns_query {
    struct dns_query *prev, *next; /* in net->queries */
    struct egress_net *net;
    struct dns_asker asker;
    struct dns_question question;
    struct lookup *lookup;
};

/* ---- answers ---- */

/* An answer that does not fit into the socket is lost, like any datagram: the program asks
 * again. */
static void udp_answer(struct egress_net *net, const struct dns_asker *to, const struct buf *text)
{
    uv_buf_t buf = uv_buf_init(buf_at(text), (unsigned)buf_len(text));

    (void)uv_udp_try_send(&net->dns, &buf, 1, (const struct sockaddr *)&to->peer);
}

static void answer(struct egress_net *net, const struct dns_asker *to,
                   const struct dns_question *question, int code, struct str message)
{
    scoped_buf(text, DNS_MESSAGE_BYTES_MAX);

    if (dns_answer_from(&text, question, message) < 0) {
        buf_clear(&text);
        (void)!dns_answer_empty(&text, question, code); /* fits where a whole message does */
    }
    if (to->conn) {
        dns_tcp_answer(to->conn, buf_str(&text));
    } else {
        dns_answer_fit_udp(&text, question);
        udp_answer(net, to, &text);
    }
}

/* ---- questions ---- */

static void query_free(struct dns_query *query)
{
    DL_DELETE(query->net->queries, query);
    query->net->queries_n--;
    lookup_cancel(query->lookup);
    free(query);
}

/* So that connections to these addresses are shown with the name. */
static void names_note(struct egress_net *net, const struct dns_question *question,
                       struct str message)
{
    enum { NOTED_MAX = 16 };
    struct address found[NOTED_MAX];
    size_t n = dns_answer_addresses(message, (uint8_t(*)[16])found, NOTED_MAX);

    for (size_t i = 0; i < n; i++) {
        destinations_name(net->destinations, &found[i], question->name);
    }
}

static void on_looked_up(void *ctx, int code, struct str message)
{
    struct dns_query *query = ctx;
    struct dns_query mine = *query;

    query->lookup = NULL;
    query_free(query);
    names_note(mine.net, &mine.question, message);
    answer(mine.net, &mine.asker, &mine.question, code, message);
}

/* On a machine without IPv6, programs would try such addresses first, in vain. */
static bool no_ipv6(const struct egress *egress)
{
    static const struct address somewhere = {{0x20, 0x01, 0x04, 0x70, [15] = 1}};

    return route_of(egress->route_fd, &somewhere) != ROUTE_AWAY;
}

/* An address that this side has made up. */
static void answer_own(struct egress_net *net, const struct dns_asker *to,
                       const struct dns_question *question, struct address address)
{
    scoped_buf(text, DNS_UDP_BYTES_MAX);

    if (dns_answer_address(&text, question, address.bytes + sizeof(address.bytes) - 4) < 0) {
        abort(); /* a question and one record always fit */
    }
    if (to->conn) {
        dns_tcp_answer(to->conn, buf_str(&text));
    } else {
        udp_answer(net, to, &text);
    }
}

/* The name always resolves: a program without a grant gets a sentence by HTTP, which DNS cannot
 * give. */
static bool is_shells(const struct dns_question *question)
{
    return str_ieq(str_of(question->name), STR(SHELL_HOST));
}

static bool is_self(const struct dns_question *question)
{
    return str_ieq(str_of(question->name), STR(SELF_HOST));
}

/* The answer that needs no resolver: a DNS_* code, or -1. */
static int known_answer(struct egress_net *net, const struct dns_question *question)
{
    struct str name = str_of(question->name);
    char rule[POLICY_RULE_BYTES];

    if (question->class != DNS_CLASS_IN || question->type == DNS_TYPE_ANY) {
        return DNS_NOTIMP;
    }
    if (is_shells(question) || is_self(question)) {
        return question->type == DNS_TYPE_A ? -1 : DNS_NOERROR;
    }
    if (policy_remote(net->policy, name, rule) == VERDICT_DENY) {
        net->counters.names_refused++;
        net_refused(net, NULL, name, rule);
        return DNS_NXDOMAIN;
    }
    if (net->names) {
        return question->type == DNS_TYPE_A && name.len ? -1 : DNS_NOERROR;
    }
    if (net->queries_n == EGRESS_DNS_PENDING_MAX) {
        return DNS_SERVFAIL;
    }
    return question->type == DNS_TYPE_AAAA && no_ipv6(net->egress) ? DNS_NOERROR : -1;
}

bool dns_ask(struct egress_net *net, struct str message, const struct dns_asker *asker)
{
    struct dns_question question;
    int r = dns_question_parse(message, &question);

    if (r == -EINVAL) {
        return false;
    }
    net->counters.names++;
    int code = r == -ENOTSUP ? DNS_NOTIMP : r < 0 ? DNS_FORMERR : known_answer(net, &question);
    if (code >= 0) {
        answer(net, asker, &question, code, (struct str){0});
        return true;
    }
    if (is_shells(&question) || is_self(&question)) {
        answer_own(net, asker, &question, is_self(&question) ? names_self() : names_shells());
        return true;
    }
    if (net->names) { /* behind a proxy no name is looked up here: each has one that stands for it
                       */
        answer_own(net, asker, &question, names_address(net->names, str_of(question.name)));
        return true;
    }
    struct dns_query *query = xnew(struct dns_query);
    *query = (struct dns_query){.net = net, .asker = *asker, .question = question};
    DL_APPEND(net->queries, query);
    net->queries_n++;
    query->lookup = resolver_ask(net_resolver(net), question.name, question.class, question.type,
                                 on_looked_up, query);
    return true;
}

void dns_forget(struct egress_net *net, const struct dns_conn *conn)
{
    struct dns_query *query, *next;

    DL_FOREACH_SAFE (net->queries, query, next) {
        if (query->asker.conn == conn) {
            query_free(query);
        }
    }
}

/* ---- UDP ---- */

static void on_datagram(uv_udp_t *udp, ssize_t n, const uv_buf_t *buf, const struct sockaddr *peer,
                        unsigned flags)
{
    struct dns_asker asker = {0};

    if (n <= 0 || !peer || peer->sa_family != AF_INET || flags & UV_UDP_PARTIAL) {
        return;
    }
    memcpy(&asker.peer, peer, sizeof(struct sockaddr_in));
    (void)dns_ask(udp->data, (struct str){buf->base, (size_t)n}, &asker);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    struct egress_net *net = handle->data;

    (void)suggested;
    *out = uv_buf_init(net->egress->scratch, DNS_UDP_BYTES_MAX);
}

void dns_start(struct egress_net *net, int udp_fd)
{
    if (uv_udp_init(net->egress->loop, &net->dns) < 0 || uv_udp_open(&net->dns, udp_fd) < 0) {
        abort(); /* the keeper gave us something that is no socket */
    }
    net->dns.data = net;
    net_hold(net);
    (void)uv_udp_recv_start(&net->dns, on_alloc, on_datagram);
}

static void on_closed(uv_handle_t *handle)
{
    net_release(handle->data);
}

void dns_stop_queries(struct egress_net *net)
{
    while (net->queries) {
        query_free(net->queries);
    }
}

void dns_stop(struct egress_net *net)
{
    dns_stop_queries(net);
    uv_close((uv_handle_t *)&net->dns, on_closed);
}
