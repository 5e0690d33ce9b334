/* internal.h - shared by the files of egress/.
 *
 *   egress.c    settings, the guard, start and end
 *   net.c       one sandbox: its gate, policy, counters and log lines
 *   outbound.c  one connection, from accept to the dial
 *   destinations.c  where it has been, and where it was refused
 *   relay.c     copies between the two ends
 *   intercept.c, intercepted.c   connections and requests to names that have a rule, and to shells
 *   outgoing_head.c  the head of such a request;  shell_call.c  what is special about one to a
 * shell authority.c the certificate authority that a sandbox trusts for those dial.c      a
 * connection to the world, straight or through a proxy dns.c       names;  dns_tcp.c  the same over
 * TCP resolver.c  the host's resolvers (c-ares) on the loop route.c     whether an address is the
 * host's own, asked of the kernel names.c     addresses that stand for names address.c, policy.c,
 * transform.c, peek.c, dns_message.c, proxy.c, shell.c   pure
 */
#ifndef EGRESS_INTERNAL_H
#define EGRESS_INTERNAL_H

#include "lib/base/shares.h"
#include "lib/http/server.h"
#include "serve/egress/address.h"
#include "serve/egress/destinations.h"
#include "serve/egress/dns_message.h"
#include "serve/egress/egress.h"
#include "serve/egress/names.h"
#include "serve/egress/peek.h"
#include "serve/egress/policy.h"
#include "serve/egress/proxy.h"
#include "serve/egress/transform.h"

struct authority;
struct intercept;
struct resolver;
struct lookup;
struct tls_trust;

struct mapping {
    struct endpoint from; /* port 0: any */
    struct endpoint to;
};

struct egress {
    uv_loop_t *loop;
    struct block allow[EGRESS_LIST_MAX];
    size_t allow_n;
    struct mapping map[EGRESS_LIST_MAX];
    size_t map_n;
    uint16_t own_ports[EGRESS_LIST_MAX];
    size_t own_ports_n;
    struct resolver *resolver;
    struct proxy http_proxy, https_proxy; /* the operator's; the first for port 80 */
    char no_proxy[EGRESS_NO_PROXY_BYTES];
    int route_fd;
    struct http_server *http; /* of intercepted connections */
    struct tls_trust *trust;
    char *trusted; /* PEM, for sandboxes */
    uint8_t secret[EGRESS_SECRET_BYTES];
    int (*fill)(void *ctx, const char *sandbox_id, struct str what, struct buf *out,
                struct err *err);
    void (*log)(void *ctx, const char *sandbox_id, enum log_level level, struct str line);
    const struct shell *(*shell)(void *ctx, const char *sandbox_id, struct str name);
    void (*shell_called)(void *ctx, const char *sandbox_id, const json_t *call);
    void *ctx;
    struct shares shares;              /* connections, by team */
    char scratch[EGRESS_BUFFER_BYTES]; /* holds read bytes until they are written or kept */
};

/* ---- egress.c ---- */

/* Why no sandbox may reach it, or NULL. */
const char *guard_check(const struct egress *egress, const struct endpoint *to);
const struct endpoint *map_find(const struct egress *egress, const struct endpoint *from);

void egress_destroy(struct egress *egress); /* the last step of egress_free() */

/* ---- net.c ---- */

/* How many lines a sandbox may still put into the log. */
struct log_meter {
    uint64_t since_ms;
    uint32_t n, dropped;
};

struct outbound;
struct dns_query;
struct dns_conn;

struct egress_net {
    struct egress *egress;
    char id[32];
    char *team;
    struct policy *policy;
    struct transforms *transforms;
    json_t *shells;              /* names of those that it was granted; NULL: none */
    struct proxy proxy;          /* PROXY_NONE: it goes straight */
    char *proxy_authorities;     /* PEM; NULL: those of this machine */
    struct names *names;         /* NULL: it has no proxy, and names are resolved here */
    struct resolver *resolver;   /* of its own servers; NULL: the egress' */
    struct authority *authority; /* NULL until one is needed */
    struct egress_counters counters;
    struct destinations *destinations; /* counted */
    uint32_t handles;                  /* not closed yet; the last one frees */
    bool closed;

    int gate_fd;
    uv_poll_t gate;
    uv_udp_t dns;
    struct outbound *outbounds;
    struct intercept *intercepts;
    struct dns_query *queries;
    uint32_t queries_n;
    struct dns_conn *dns_conns;
    uint32_t dns_conns_n;

    struct log_meter refusals, requests;
};

/* Takes a place for a connection, to be given to share_give() when it ends. */
struct share *net_take(struct egress_net *net);
void net_hold(struct egress_net *net);
void net_release(struct egress_net *net);

struct resolver *net_resolver(const struct egress_net *net);

/* Logs why a proxy failed. */
void net_proxy_failed(struct egress_net *net, const struct target *to, const struct proxy *proxy,
                      const char *why);

/* Notes where a connection went, or failed to go; the entry is valid until the next call. */
struct destination *net_note(struct egress_net *net, const struct destination_seen *seen);

/* Counts and tells. `to` may be NULL. */
void net_refused(struct egress_net *net, const struct endpoint *to, struct str name,
                 const char *rule);

/* A request that a rule was applied to or a shell was asked for, or that was refused here (`why`).
 */
struct net_request {
    struct str method, host, path; /* without the query, which may hold secrets */
    int status;
    const char *rule, *why;
    struct str shell; /* its name; at == NULL: the request is a rule's */
    uint64_t took_ms; /* of a shell's */
};
void net_request_log(struct egress_net *net, const struct net_request *request);

/* ---- outbound.c ---- */

void outbound_accept(struct egress_net *net, int fd); /* takes fd */
void outbound_check(struct outbound *outbound);       /* the policy has changed */
void outbound_reset(struct outbound *outbound);

/* ---- dns.c ---- */

/* Where an answer goes: to a connection, or to the sender of a datagram. */
struct dns_asker {
    struct dns_conn *conn; /* NULL: UDP */
    struct sockaddr_storage peer;
};

/* Answers, now or later; false when that is no question. */
bool dns_ask(struct egress_net *net, struct str message, const struct dns_asker *asker);
void dns_forget(struct egress_net *net, const struct dns_conn *conn); /* its questions */
void dns_start(struct egress_net *net, int udp_fd);
void dns_stop_queries(struct egress_net *net); /* the programs will ask again */
void dns_stop(struct egress_net *net);

/* ---- dns_tcp.c ---- */

void dns_tcp_accept(struct egress_net *net, int fd);
void dns_tcp_answer(struct dns_conn *conn, struct str text);
void dns_tcp_stop(struct egress_net *net);

/* ---- resolver.c ---- */

must_check int resolver_new(uv_loop_t *loop, const char *servers, struct resolver **out,
                            struct err *err);
void resolver_free(struct resolver *resolver);

/* done is called once, from the loop, and not after lookup_cancel(). code: DNS_*; message: empty
 * when none came. */
typedef void lookup_done(void *ctx, int code, struct str message);
struct lookup *resolver_ask(struct resolver *resolver, const char *name, int class, int type,
                            lookup_done *done, void *ctx);

typedef void lookup_addresses_done(void *ctx, const struct address *addresses, size_t n);
struct lookup *resolver_addresses(struct resolver *resolver, const char *name,
                                  lookup_addresses_done *done, void *ctx);
void lookup_cancel(struct lookup *lookup); /* fine for NULL */

/* ---- route.c ---- */

must_check int route_open(struct err *err);
enum route { ROUTE_AWAY, ROUTE_HOST, ROUTE_NONE };
enum route route_of(int fd, const struct address *address);

#endif
