/* proxy.h - proxies that connections may go through, and the talk with them. Pure.
 *
 * Two kinds: SOCKS5 (RFC 1928, with user and password of RFC 1929), and HTTP with CONNECT. A proxy
 * is told a name where there is one, and finds the address itself.
 *
 * A proxy is not trusted with more than the connection: exactly its own bytes are read, so that
 * nothing from the server behind it is lost, and anything outside of the protocol ends the talk.
 */
#ifndef EGRESS_PROXY_H
#define EGRESS_PROXY_H

#include <jansson.h>
#include <stdbool.h>

#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "serve/egress/address.h"
#include "serve/egress/policy.h"

enum {
    PROXY_WORD_BYTES = 256,      /* user or password, and NUL */
    PROXY_ANSWER_MAX = 8 * 1024, /* bytes that a proxy may say before it is through */
};

enum proxy_kind { PROXY_NONE, PROXY_SOCKS5, PROXY_HTTP };

struct proxy {
    enum proxy_kind kind;
    char host[POLICY_NAME_BYTES]; /* a name or an address, without brackets */
    uint16_t port;
    char user[PROXY_WORD_BYTES], password[PROXY_WORD_BYTES]; /* "": none */
    bool tls;                            /* all that is said to it goes through TLS */
    char server_name[POLICY_NAME_BYTES]; /* that its certificate is for */
};

/* "host:port", "[v6]:port". -EINVAL when it is not that. */
must_check int proxy_parse_address(struct str text, struct proxy *out);

/* "http://[user:password@]host[:port]" or "socks5://...", percent-encoded; "" is none. */
must_check int proxy_parse_url(struct str url, struct proxy *out);

/* network.egressProxy of a sandbox's options; PROXY_NONE when there is none. A proxy that cannot be
 * parsed has the port 0, and nothing is reached through it. */
void proxy_of_options(const json_t *options, struct proxy *out);

/* The authorities (PEM) that its certificate is verified with; NULL: those of this machine. */
const char *proxy_authorities(const json_t *options);

/* Whether NO_PROXY has the name or the address: names, ".domain", blocks, "*". */
bool proxy_is_exempt(const char *no_proxy, struct str name, const struct address *address);

/* The target of a proxied connection: the name if there is one, else the address. */
struct target {
    char name[POLICY_NAME_BYTES];
    struct endpoint to;
};

enum talk_stage { TALK_GREETING, TALK_LOGIN, TALK_ANSWER };

struct talk {
    const struct proxy *proxy;
    const struct target *target;
    enum talk_stage stage;
};

/* Writes the first message to the proxy. */
must_check int talk_begin(struct talk *talk, struct buf *out);

/* `got` has the bytes received and not used yet. 1: the proxy is through; 0: the talk continues.
 * *used says how many bytes were used, and `out` gets the next message. -errno with a clause that
 * says why. */
must_check int talk_step(struct talk *talk, struct str got, size_t *used, struct buf *out,
                         struct err *err);

#endif
