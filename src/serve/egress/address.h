/* address.h - IP addresses and blocks of them, of both families in one form. Pure.
 *
 * An IPv4 address is kept as its IPv4-mapped IPv6 form, so the two spellings of one address are
 * the same bytes and no rule can be passed by spelling it the other way.
 */
#ifndef EGRESS_ADDRESS_H
#define EGRESS_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "lib/base/compiler.h"
#include "lib/base/str.h"

struct address {
    uint8_t bytes[16];
};

/* 1.2.3.0/24 or 2001:db8::/32 or one address. 0.0.0.0/0 is every address of both families. */
struct block {
    struct address base;
    uint8_t bits; /* 0 to 128, of the mapped form */
};

struct endpoint {
    struct address address;
    uint16_t port;
};

enum { ADDRESS_TEXT_BYTES = INET6_ADDRSTRLEN, ENDPOINT_TEXT_BYTES = INET6_ADDRSTRLEN + 8 };

must_check int address_parse(struct str text, struct address *out); /* 0 or -EINVAL */
bool address_is_v4(const struct address *address);
bool address_eq(const struct address *a, const struct address *b);
void address_text(const struct address *address, char out[ADDRESS_TEXT_BYTES]);

must_check int block_parse(struct str text, struct block *out);
bool block_has(const struct block *block, const struct address *address);

/* "1.2.3.4:80" or "[2001:db8::1]:80"; without a port *out has port 0. */
must_check int endpoint_parse(struct str text, struct endpoint *out);
must_check int endpoint_from_sockaddr(const struct sockaddr_storage *from, struct endpoint *out);
void endpoint_to_sockaddr(const struct endpoint *endpoint, struct sockaddr_storage *out);
void endpoint_text(const struct endpoint *endpoint, char out[ENDPOINT_TEXT_BYTES]);

/* The kind of an address that is no public host: "private", "link-local"; NULL for a public one.
 * Forms that contain an IPv4 address for a gateway to unpack count as reserved. */
const char *address_reserved(const struct address *address);

#endif
