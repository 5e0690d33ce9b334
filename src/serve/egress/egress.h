/* egress.h - the way out of sandboxes: connections and names, each by its sandbox's policy.
 *
 * A jail's network leads to two sockets, which the keeper hands over (keeper/jail/network.h). On
 * them this module takes every TCP connection and every DNS question of the jail. It decides, dials
 * from the host on the jail's behalf, and copies. It has no privilege.
 *
 *      gate ── where to? ── guard ── policy ──┬── dial ── copy
 *                                             ├── peek at the name ── resolve ── guard ── dial
 *                                             ├── a name with a rule ── intercept ── dial
 *                                             └── the shells' own ── shell_call ── dial
 *
 * guard: what no sandbox may reach unless the operator names it: the host itself, private networks,
 * link-local addresses and the clouds' metadata among them. policy: what this sandbox may reach.
 *
 * Owns:    the sockets of every sandbox that was opened, its connections, the resolver.
 * Needs:   a loop.
 * Blocks:  never.
 * Threads: the loop's.
 */
#ifndef EGRESS_EGRESS_H
#define EGRESS_EGRESS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "lib/base/buf.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/log.h"

enum {
    EGRESS_CONNECTIONS_MAX = 1024,         /* of one sandbox at one time */
    EGRESS_FILES_SHARE = 4,                /* all together: this part of the process's limit */
    EGRESS_ACCEPT_BATCH = 32,              /* taken from one sandbox before others have a turn */
    EGRESS_BUFFER_BYTES = 64 * 1024,       /* of one direction of one connection, at most */
    EGRESS_CONNECT_TIMEOUT_MS = 30 * 1000, /* until the other side has answered */
    EGRESS_PEEK_TIMEOUT_MS = 10 * 1000,    /* until a connection has said its name */
    EGRESS_HALF_OPEN_MS = 5 * 60 * 1000,   /* silence, once one side has finished */
    EGRESS_KEEPALIVE_S = 60,               /* silence until a dead peer is asked for */
    EGRESS_DNS_PENDING_MAX = 256,          /* questions of one sandbox under way */
    EGRESS_DNS_CONNECTIONS_MAX = 16,       /* over TCP, of one sandbox */
    EGRESS_DNS_IDLE_MS = 10 * 1000,
    EGRESS_LOG_BURST = 10,            /* refusals of one sandbox told in */
    EGRESS_LOG_WINDOW_MS = 60 * 1000, /* that time; the rest are counted */
    EGRESS_LIST_MAX = 64,             /* entries of a setting */
    EGRESS_QUIET_MS = 500,            /* silence on a port that is not HTTP's: after it */
                                      /* the program is waiting for its server's greeting */
    EGRESS_REQUESTS_LOGGED = 600,     /* of one sandbox, in EGRESS_LOG_WINDOW_MS */
    EGRESS_SECRET_BYTES = 32,
    EGRESS_NO_PROXY_BYTES = 1024,
    EGRESS_HASH_BYTES = 9,
};

/* The operator's settings; lists are separated by commas. */
struct egress_options {
    uv_loop_t *loop;
    /* Blocks that sandboxes may reach although they are reserved or the host's. */
    const char *allow;
    const char *map; /* "address[:port]=address:port": dials go there instead, past the guard */
    const char *dns; /* "address[:port]" of resolvers; empty: those of the host */
    const char *http_proxy, *https_proxy; /* URLs; the first is for port 80 */
    const char *no_proxy;                 /* names and blocks that are reached without */
    /* PEM: authorities that every sandbox is to trust, the host's own; or "". */
    const char *trusted;
    const char *ca; /* a file of authorities that servers may have besides the host's; or "" */
    uint8_t secret[EGRESS_SECRET_BYTES]; /* the sandboxes' authorities are derived from it */

    /* `fill` appends the value of a rule's placeholder (transform.h) to `out`; `log` takes lines
     * about a sandbox, each a JSON object. Either may be NULL. */
    int (*fill)(void *ctx, const char *sandbox_id, struct str what, struct buf *out,
                struct err *err);
    void (*log)(void *ctx, const char *sandbox_id, enum log_level level, struct str line);

    /* The API shell of that name that the sandbox's team has, valid until the next return to the
     * loop; NULL: none. And where calls of shells go on record, each with its shell, method, path,
     * status and time. Either may be NULL. */
    const struct shell *(*shell)(void *ctx, const char *sandbox_id, struct str name);
    void (*shell_called)(void *ctx, const char *sandbox_id, const json_t *call);
    void *ctx;
};

struct shell;      /* serve/egress/shell.h */
struct egress;     /* all of it */
struct egress_net; /* one sandbox's */

/* Whether allow, map and the proxies can be read; the other options are not used. */
must_check int egress_check(const struct egress_options *options, struct err *err);

must_check int egress_new(const struct egress_options *options, struct egress **out,
                          struct err *err);
/* A port of the daemon's own: on the host's addresses it is refused, whatever `allow` says. */
void egress_guard_port(struct egress *egress, uint16_t port);

/* After its nets have been closed; the loop must run once more. */
void egress_free(struct egress *egress);

/* Descriptors that come with a jail; taken over. */
struct egress_sockets {
    int gate, dns_udp;
};

/* `id` names the sandbox in the log. options: the sandbox's, for its policy. */
struct egress_net *egress_open(struct egress *egress, const char *id, const char *team,
                               const json_t *options, const struct egress_sockets *sockets);
/* Sets the team whose share its connections count in: it has none yet. */
void egress_set_team(struct egress_net *net, const char *team);

/* Applies at once: connections that are no longer allowed are reset. */
void egress_set_policy(struct egress_net *net, const json_t *options);

struct egress_counters {
    uint64_t connections; /* that got through */
    uint64_t refused;     /* by a rule or a limit */
    uint64_t failed;      /* could not be dialled */
    uint64_t bytes_out, bytes_in;
    uint64_t names, names_refused;
    uint32_t open; /* connections now */
};
struct egress_counters egress_counters(const struct egress_net *net);

/* Where it has been (serve/egress/destinations.h). *kept NULL: takes a hold on the net's list,
 * which the caller releases. Otherwise the net goes on with that list. */
struct destinations;
void egress_share_destinations(struct egress_net *net, struct destinations **kept);

/* Resets its connections. Fine for NULL. */
void egress_close(struct egress_net *net);

/* The certificates of authorities that a sandbox is to trust: its own first, which its rules need,
 * with the name by which OpenSSL finds that in a directory ("" when it has no rules), then those of
 * the host's operator. PEM, which the caller frees; NULL: there are none. */
char *egress_authority(const struct egress *egress, const char *id, const json_t *options,
                       char hash[EGRESS_HASH_BYTES]);

/* Whether the options allow any connection at all, including API shells. */
bool egress_wanted(const json_t *options);

#endif
