#include "serve/egress/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>

enum {
    V4_BITS = 96, /* of the mapped form that come before an IPv4 address */
    V4_AT = 12,
    BITS_MAX = 128,
    PORT_DIGITS = 5,
};

static const uint8_t v4_prefix[V4_AT] = {[10] = 0xff, [11] = 0xff};

/* ---- addresses ---- */

static void address_set_v4(struct address *out, const void *bytes)
{
    memcpy(out->bytes, v4_prefix, V4_AT);
    memcpy(out->bytes + V4_AT, bytes, sizeof(struct in_addr));
}

int address_parse(struct str text, struct address *out)
{
    char copy[ADDRESS_TEXT_BYTES];
    struct in_addr v4;
    struct in6_addr v6;

    if (!str_copy(copy, sizeof(copy), text)) {
        return -EINVAL;
    }
    if (inet_pton(AF_INET, copy, &v4) == 1) {
        address_set_v4(out, &v4);
        return 0;
    }
    if (inet_pton(AF_INET6, copy, &v6) == 1) {
        memcpy(out->bytes, &v6, sizeof(out->bytes));
        return 0;
    }
    return -EINVAL;
}

bool address_is_v4(const struct address *address)
{
    return memcmp(address->bytes, v4_prefix, V4_AT) == 0;
}

bool address_eq(const struct address *a, const struct address *b)
{
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

void address_text(const struct address *address, char out[ADDRESS_TEXT_BYTES])
{
    if (address_is_v4(address)) {
        (void)inet_ntop(AF_INET, address->bytes + V4_AT, out, ADDRESS_TEXT_BYTES);
    } else {
        (void)inet_ntop(AF_INET6, address->bytes, out, ADDRESS_TEXT_BYTES);
    }
}

/* ---- numbers ---- */

/* Digits alone, at most max; -1 for anything else. */
static long number_parse(struct str text, long max)
{
    long n = 0;

    if (text.len == 0 || text.len > PORT_DIGITS) {
        return -1;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9') {
            return -1;
        }
        n = n * 10 + (text.at[i] - '0');
    }
    return n <= max ? n : -1;
}

/* ---- blocks ---- */

int block_parse(struct str text, struct block *out)
{
    size_t slash = str_find(text, '/');
    struct str head = {text.at, slash};

    if (address_parse(head, &out->base) < 0) {
        return -EINVAL;
    }
    /* By how it is written: ::ffff:0:0/96 is a block of the long form. */
    bool v4 = str_find(head, ':') == head.len;
    long bits = v4 ? BITS_MAX - V4_BITS : BITS_MAX;
    if (slash < text.len) {
        bits = number_parse(str_skip(text, slash + 1), bits);
    }
    if (bits < 0) {
        return -EINVAL;
    }
    out->bits = (uint8_t)(v4 && bits > 0 ? bits + V4_BITS : bits);
    return 0;
}

bool block_has(const struct block *block, const struct address *address)
{
    const size_t whole = block->bits / 8;
    const unsigned rest = block->bits % 8;
    const uint8_t mask = (uint8_t)(0xff00 >> rest);

    if (block->bits == 0) {
        /* ::/0 is every long address; 0.0.0.0/0 is everything. */
        return address_is_v4(&block->base) || !address_is_v4(address);
    }
    if (memcmp(block->base.bytes, address->bytes, whole) != 0) {
        return false;
    }
    return rest == 0 || ((block->base.bytes[whole] ^ address->bytes[whole]) & mask) == 0;
}

/* ---- endpoints ---- */

int endpoint_parse(struct str text, struct endpoint *out)
{
    struct str host = text, port = {0};

    if (text.len && text.at[0] == '[') {
        size_t end = str_find(text, ']');
        if (end == text.len) {
            return -EINVAL;
        }
        host = (struct str){text.at + 1, end - 1};
        port = str_skip(text, end + 1);
    } else {
        size_t colon = str_find(text, ':');
        if (colon < text.len && str_find(str_skip(text, colon + 1), ':') + colon + 1 == text.len) {
            host.len = colon; /* one colon: a port. More: a long address without one */
            port = str_skip(text, colon);
        }
    }
    if (address_parse(host, &out->address) < 0) {
        return -EINVAL;
    }
    long number = 0;
    if (port.len) {
        number = port.at[0] == ':' ? number_parse(str_skip(port, 1), UINT16_MAX) : -1;
        if (number <= 0) {
            return -EINVAL;
        }
    }
    out->port = (uint16_t)number;
    return 0;
}

int endpoint_from_sockaddr(const struct sockaddr_storage *from, struct endpoint *out)
{
    if (from->ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const void *)from;
        address_set_v4(&out->address, &v4->sin_addr);
        out->port = ntohs(v4->sin_port);
        return 0;
    }
    if (from->ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const void *)from;
        memcpy(out->address.bytes, &v6->sin6_addr, sizeof(out->address.bytes));
        out->port = ntohs(v6->sin6_port);
        return 0;
    }
    return -EAFNOSUPPORT;
}

void endpoint_to_sockaddr(const struct endpoint *endpoint, struct sockaddr_storage *out)
{
    *out = (struct sockaddr_storage){0};
    if (address_is_v4(&endpoint->address)) {
        struct sockaddr_in *v4 = (void *)out;
        v4->sin_family = AF_INET;
        v4->sin_port = htons(endpoint->port);
        memcpy(&v4->sin_addr, endpoint->address.bytes + V4_AT, sizeof(v4->sin_addr));
    } else {
        struct sockaddr_in6 *v6 = (void *)out;
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(endpoint->port);
        memcpy(&v6->sin6_addr, endpoint->address.bytes, sizeof(v6->sin6_addr));
    }
}

void endpoint_text(const struct endpoint *endpoint, char out[ENDPOINT_TEXT_BYTES])
{
    char text[ADDRESS_TEXT_BYTES];
    bool v4 = address_is_v4(&endpoint->address);

    address_text(&endpoint->address, text);
    (void)snprintf(out, ENDPOINT_TEXT_BYTES, v4 ? "%s:%u" : "[%s]:%u", text, endpoint->port);
}

/* ---- reserved addresses ---- */

const char *address_reserved(const struct address *address)
{
    static const struct {
        const char *block, *what;
    } rows[] = {
        {"0.0.0.0/8", "unspecified"},
        {"10.0.0.0/8", "private"},
        {"100.64.0.0/10", "carrier-private"},
        {"127.0.0.0/8", "loopback"},
        {"169.254.0.0/16", "link-local"}, /* and the clouds' metadata services */
        {"172.16.0.0/12", "private"},
        {"192.0.0.0/24", "protocol"},
        {"192.88.99.0/24", "tunnel"},
        {"192.168.0.0/16", "private"},
        {"198.18.0.0/15", "benchmark"},
        {"224.0.0.0/4", "multicast"},
        {"240.0.0.0/4", "reserved"},
        {"::/96", "unspecified or loopback"},
        {"::ffff:0:0:0/96", "translated"},
        {"64:ff9b::/96", "translated"},
        {"64:ff9b:1::/48", "translated"},
        {"100::/64", "discard"},
        {"100:0:0:1::/64", "discard"},
        {"2001::/32", "tunnel"},
        {"2001:2::/48", "benchmark"},
        {"2001:10::/28", "identifier"},
        {"2001:20::/28", "identifier"},
        {"2002::/16", "tunnel"},
        {"5f00::/16", "segment routing"},
        {"fc00::/7", "private"},
        {"fe80::/10", "link-local"},
        {"fec0::/10", "private"},
        {"ff00::/8", "multicast"},
    };
    static struct block blocks[countof(rows)];
    static bool parsed;

    for (size_t i = 0; !parsed && i < countof(rows); i++) {
        (void)!block_parse(str_of(rows[i].block), &blocks[i]);
    }
    parsed = true;
    for (size_t i = 0; i < countof(rows); i++) {
        if (block_has(&blocks[i], address)) {
            return rows[i].what;
        }
    }
    return NULL;
}
