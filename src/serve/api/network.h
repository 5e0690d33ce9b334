/* network.h - the `network` part of a create: what may be in it. Pure. */
#ifndef API_NETWORK_H
#define API_NETWORK_H

#include <jansson.h>
#include <stdbool.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

enum {
    NETWORK_ADDRESSES_MAX = 1000, /* of allowOut and of denyOut */
    NETWORK_DNS_SERVERS_MAX = 16,
    NETWORK_HTTPS_PORTS_MAX = 64,
    NETWORK_HOST_BYTES_MAX = 253,
    NETWORK_LOGIN_BYTES_MAX = 255,
    NETWORK_RULE_DOMAINS_MAX = 10,
    NETWORK_RULE_TRANSFORMS_MAX = 1, /* of one domain */
    NETWORK_RULE_DOMAIN_BYTES_MAX = 128,
    NETWORK_RULE_HEADERS_MAX = 20,
    NETWORK_HEADER_NAME_BYTES_MAX = 64,
    NETWORK_HEADER_VALUE_BYTES_MAX = 2048,
};

/* *out: a fresh object of the fields that are known, which the caller owns. */
must_check int network_parse(const json_t *network, json_t **out, struct err *err);

/* The same for a change of what a running sandbox may reach: `body` has the fields of egress alone,
 * and replaces all of those in `before` (NULL: none); the others stay. */
must_check int network_update(const json_t *before, const json_t *body, json_t **out,
                              struct err *err);

/* False when it says that its ports want a token. */
bool network_is_public(const json_t *network);

/* A copy for showing: without the proxy's password. */
json_t *network_shown(const json_t *network);

#endif
