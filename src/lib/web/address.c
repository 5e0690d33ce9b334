#include "lib/web/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>

#include "lib/base/compiler.h"

struct range4 {
    uint32_t net, mask;
};

#define NET4(a, b, c, d, bits)                                                                     \
    {                                                                                              \
        (uint32_t)(a) << 24 | (b) << 16 | (c) << 8 | (d), UINT32_MAX << (32 - (bits))              \
    }

static const struct range4 ranges4[] = {
    NET4(0, 0, 0, 0, 8),          /* "this network": the kernel takes it for this machine */
    NET4(127, 0, 0, 0, 8),        /* loopback */
    NET4(169, 254, 0, 0, 16),     /* link-local, and most metadata services */
    NET4(100, 100, 100, 200, 32), /* metadata services elsewhere */
    NET4(192, 0, 0, 192, 32),     NET4(224, 0, 0, 0, 3), /* multicast, reserved, broadcast */
};

static bool is_special4(struct in_addr addr)
{
    uint32_t host = ntohl(addr.s_addr);

    for (size_t i = 0; i < countof(ranges4); i++) {
        if ((host & ranges4[i].mask) == ranges4[i].net) {
            return true;
        }
    }
    return false;
}

/* 2002::/16, 2001::/32 and 64:ff9b:1::/48 hold an IPv4 address, each at a place of its own. Nobody
 * offers a service there. */
static bool is_tunnel6(const struct in6_addr *addr)
{
    static const uint8_t six_to_four[] = {0x20, 0x02};
    static const uint8_t teredo[] = {0x20, 0x01, 0x00, 0x00};
    static const uint8_t local_nat64[] = {0x00, 0x64, 0xff, 0x9b, 0x00, 0x01};

    return memcmp(addr, six_to_four, sizeof(six_to_four)) == 0 ||
           memcmp(addr, teredo, sizeof(teredo)) == 0 ||
           memcmp(addr, local_nat64, sizeof(local_nat64)) == 0;
}

static bool is_special6(const struct in6_addr *addr)
{
    static const uint8_t metadata[16] = {0xfd, 0x00, 0x0e, 0xc2, [14] = 0x02, [15] = 0x54};

    return IN6_IS_ADDR_LOOPBACK(addr) || IN6_IS_ADDR_UNSPECIFIED(addr) ||
           IN6_IS_ADDR_LINKLOCAL(addr) || IN6_IS_ADDR_SITELOCAL(addr) ||
           IN6_IS_ADDR_MULTICAST(addr) || memcmp(addr, metadata, sizeof(metadata)) == 0 ||
           is_tunnel6(addr);
}

/* The IPv4 address inside ::ffff:a.b.c.d, ::a.b.c.d, 64:ff9b::a.b.c.d and ::ffff:0:a.b.c.d. */
static bool embedded4(const struct in6_addr *addr, struct in_addr *out)
{
    static const uint8_t nat64[12] = {0x00, 0x64, 0xff, 0x9b};
    static const uint8_t siit[12] = {[8] = 0xff, [9] = 0xff};

    if (!IN6_IS_ADDR_V4MAPPED(addr) && !IN6_IS_ADDR_V4COMPAT(addr) &&
        memcmp(addr, nat64, sizeof(nat64)) != 0 && memcmp(addr, siit, sizeof(siit)) != 0) {
        return false;
    }
    memcpy(out, addr->s6_addr + 12, sizeof(*out));
    return true;
}

static bool is_interface(const struct sockaddr *one, const void *addr, size_t len)
{
    if (one->sa_family == AF_INET && len == sizeof(struct in_addr)) {
        return memcmp(&((const struct sockaddr_in *)(const void *)one)->sin_addr, addr, len) == 0;
    }
    if (one->sa_family == AF_INET6 && len == sizeof(struct in6_addr)) {
        return memcmp(&((const struct sockaddr_in6 *)(const void *)one)->sin6_addr, addr, len) == 0;
    }
    return false;
}

/* When the kernel does not tell, every address may be one. */
static bool has_interface(const void *addr, size_t len)
{
    struct ifaddrs *all = NULL;
    bool found = false;

    if (getifaddrs(&all) < 0) {
        return true;
    }
    for (const struct ifaddrs *it = all; it && !found; it = it->ifa_next) {
        found = it->ifa_addr && is_interface(it->ifa_addr, addr, len);
    }
    freeifaddrs(all);
    return found;
}

static bool is_own4(struct in_addr addr)
{
    return is_special4(addr) || has_interface(&addr, sizeof(addr));
}

bool address_is_own(const struct sockaddr *addr)
{
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    struct in_addr inner;

    if (addr->sa_family == AF_INET) {
        memcpy(&in, addr, sizeof(in));
        return is_own4(in.sin_addr);
    }
    if (addr->sa_family != AF_INET6) {
        return true;
    }
    memcpy(&in6, addr, sizeof(in6));
    if (is_special6(&in6.sin6_addr) || has_interface(&in6.sin6_addr, sizeof(in6.sin6_addr))) {
        return true;
    }
    return embedded4(&in6.sin6_addr, &inner) && is_own4(inner);
}
