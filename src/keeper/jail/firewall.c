#include "keeper/jail/firewall.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <libnftnl/chain.h>
#include <libnftnl/common.h>
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <libnftnl/table.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "keeper/jail/network.h"
#include "lib/base/alloc.h"
#include "lib/base/fd.h"

#define TABLE "atoll"

enum {
    MESSAGES_BYTES = 16 * 1024,
    MESSAGE_ROOM = 1024, /* more than the largest message */
    ANSWER_BYTES = 8 * 1024,
};

enum act { ACCEPT, NOTRACK, TO_GATE, RESET, REFUSE, DROP };

/* ---- the rules, in their order ---- */

static const struct chain {
    const char *name, *type;
    uint32_t hook;
    int priority;
} chains[] = {
    {"own", "filter", NF_INET_LOCAL_OUT, -300}, /* before connections are tracked */
    {"way", "nat", NF_INET_LOCAL_OUT, -100},
    {"end", "filter", NF_INET_LOCAL_IN,
     0}, /* a packet that is refused on the way out gives EPERM instead */
};

static const struct rule {
    const char *chain;
    const char *block; /* of the destination; NULL: all of that family */
    unsigned bits;
    uint8_t family;   /* NFPROTO_*; UNSPEC: both */
    uint8_t protocol; /* IPPROTO_*; 0: any */
    enum act act;
    uint16_t port; /* of the destination; 0: any */
} rules[] = {
    /* Only connections to the outside are tracked: no one is charged for the memory of tracking. */
    {"own", "127.0.0.0", 8, NFPROTO_IPV4, 0, NOTRACK, 0},
    {"own", "::1", 128, NFPROTO_IPV6, 0, NOTRACK, 0},
    {"own", NULL, 0, NFPROTO_UNSPEC, IPPROTO_TCP, ACCEPT, 0},
    {"own", NULL, 0, NFPROTO_UNSPEC, 0, NOTRACK, 0},
    /* The kernel keeps a neighbour entry for every IPv6 destination for a minute, in a table of the
     * whole host and in memory that no one is charged for. So packets that would be refused are
     * dropped on the way out: the program sees EPERM. For IPv4 all of loopback is one neighbour. */
    {"own", "::1", 128, NFPROTO_IPV6, 0, ACCEPT, 0},
    {"own", NETWORK_GATE6, NETWORK_OWN_BITS6, NFPROTO_IPV6, 0, ACCEPT, 0},
    {"own", NULL, 0, NFPROTO_IPV6, 0, DROP, 0},

    /* Every connection goes to the daemon, except those to the daemon itself or to the jail. DNS
     * over TCP arrives where all other connections do. */
    {"way", NETWORK_GATE, 32, NFPROTO_IPV4, IPPROTO_TCP, TO_GATE, NETWORK_DNS_PORT},
    {"way", NETWORK_GATE, NETWORK_OWN_BITS, NFPROTO_IPV4, 0, ACCEPT, 0},
    {"way", NETWORK_GATE6, NETWORK_OWN_BITS6, NFPROTO_IPV6, 0, ACCEPT, 0},
    {"way", NULL, 0, NFPROTO_IPV4, IPPROTO_TCP, TO_GATE, 0},
    {"way", NULL, 0, NFPROTO_IPV6, IPPROTO_TCP, TO_GATE, 0},

    /* Everything else is refused rather than dropped, so that programs continue at once. A TCP
     * packet that comes here belongs to a connection from before a restore, which no one holds any
     * more. */
    {"end", "127.0.0.0", 8, NFPROTO_IPV4, 0, ACCEPT, 0},
    {"end", "::1", 128, NFPROTO_IPV6, 0, ACCEPT, 0},
    {"end", NETWORK_GATE, NETWORK_OWN_BITS, NFPROTO_IPV4, 0, ACCEPT, 0},
    {"end", NETWORK_GATE6, NETWORK_OWN_BITS6, NFPROTO_IPV6, 0, ACCEPT, 0},
    {"end", NULL, 0, NFPROTO_UNSPEC, IPPROTO_TCP, RESET, 0},
    {"end", NULL, 0, NFPROTO_UNSPEC, 0, REFUSE, 0},
};

/* ---- expressions ---- */

static struct nftnl_expr *add(struct nftnl_rule *rule, const char *kind)
{
    struct nftnl_expr *expr = nftnl_expr_alloc(kind);

    if (!expr) {
        abort();
    }
    nftnl_rule_add_expr(rule, expr);
    return expr;
}

static void equals(struct nftnl_rule *rule, const void *data, uint32_t len)
{
    struct nftnl_expr *expr = add(rule, "cmp");

    nftnl_expr_set_u32(expr, NFTNL_EXPR_CMP_SREG, NFT_REG_1);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_CMP_OP, NFT_CMP_EQ);
    nftnl_expr_set(expr, NFTNL_EXPR_CMP_DATA, data, len);
}

static void match_meta(struct nftnl_rule *rule, uint32_t key, uint8_t want)
{
    struct nftnl_expr *expr = add(rule, "meta");

    nftnl_expr_set_u32(expr, NFTNL_EXPR_META_KEY, key);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_META_DREG, NFT_REG_1);
    equals(rule, &want, sizeof(want));
}

static void match_port(struct nftnl_rule *rule, uint16_t port)
{
    const uint16_t want = htons(port);
    struct nftnl_expr *load = add(rule, "payload");

    nftnl_expr_set_u32(load, NFTNL_EXPR_PAYLOAD_DREG, NFT_REG_1);
    nftnl_expr_set_u32(load, NFTNL_EXPR_PAYLOAD_BASE, NFT_PAYLOAD_TRANSPORT_HEADER);
    nftnl_expr_set_u32(load, NFTNL_EXPR_PAYLOAD_OFFSET, offsetof(struct tcphdr, dest));
    nftnl_expr_set_u32(load, NFTNL_EXPR_PAYLOAD_LEN, sizeof(want));
    equals(rule, &want, sizeof(want));
}

static void match_destination(struct nftnl_rule *rule, const struct rule *row)
{
    const bool v4 = row->family == NFPROTO_IPV4;
    const uint32_t len = v4 ? sizeof(struct in_addr) : sizeof(struct in6_addr);
    uint8_t address[sizeof(struct in6_addr)], mask[sizeof(address)] = {0};
    const uint8_t zero[sizeof(address)] = {0};

    if (inet_pton(v4 ? AF_INET : AF_INET6, row->block, address) != 1) {
        abort();
    }
    for (unsigned bit = 0; bit < row->bits; bit++) {
        mask[bit / 8] |= (uint8_t)(0x80 >> bit % 8);
    }
    for (uint32_t i = 0; i < len; i++) {
        address[i] &= mask[i];
    }
    struct nftnl_expr *load = add(rule, "payload");
    nftnl_expr_set_u32(load, NFTNL_EXPR_PAYLOAD_DREG, NFT_REG_1);
    nftnl_expr_set_u32(load, NFTNL_EXPR_PAYLOAD_BASE, NFT_PAYLOAD_NETWORK_HEADER);
    nftnl_expr_set_u32(load, NFTNL_EXPR_PAYLOAD_OFFSET,
                       v4 ? offsetof(struct iphdr, daddr) : offsetof(struct ip6_hdr, ip6_dst));
    nftnl_expr_set_u32(load, NFTNL_EXPR_PAYLOAD_LEN, len);
    struct nftnl_expr *cut = add(rule, "bitwise");
    nftnl_expr_set_u32(cut, NFTNL_EXPR_BITWISE_SREG, NFT_REG_1);
    nftnl_expr_set_u32(cut, NFTNL_EXPR_BITWISE_DREG, NFT_REG_1);
    nftnl_expr_set_u32(cut, NFTNL_EXPR_BITWISE_LEN, len);
    nftnl_expr_set(cut, NFTNL_EXPR_BITWISE_MASK, mask, len);
    nftnl_expr_set(cut, NFTNL_EXPR_BITWISE_XOR, zero, len);
    equals(rule, address, len);
}

static void immediate(struct nftnl_rule *rule, uint32_t reg, const void *data, uint32_t len)
{
    struct nftnl_expr *expr = add(rule, "immediate");

    nftnl_expr_set_u32(expr, NFTNL_EXPR_IMM_DREG, reg);
    nftnl_expr_set(expr, NFTNL_EXPR_IMM_DATA, data, len);
}

static void to_gate(struct nftnl_rule *rule, uint8_t family)
{
    const bool v4 = family == NFPROTO_IPV4;
    const uint16_t port = htons(NETWORK_TCP_PORT);
    uint8_t gate[sizeof(struct in6_addr)];

    if (inet_pton(v4 ? AF_INET : AF_INET6, v4 ? NETWORK_GATE : NETWORK_GATE6, gate) != 1) {
        abort();
    }
    immediate(rule, NFT_REG_1, gate, v4 ? sizeof(struct in_addr) : sizeof(gate));
    immediate(rule, NFT_REG_2, &port, sizeof(port));
    struct nftnl_expr *nat = add(rule, "nat");
    nftnl_expr_set_u32(nat, NFTNL_EXPR_NAT_TYPE, NFT_NAT_DNAT);
    nftnl_expr_set_u32(nat, NFTNL_EXPR_NAT_FAMILY, family);
    nftnl_expr_set_u32(nat, NFTNL_EXPR_NAT_REG_ADDR_MIN, NFT_REG_1);
    nftnl_expr_set_u32(nat, NFTNL_EXPR_NAT_REG_PROTO_MIN, NFT_REG_2);
}

static void act(struct nftnl_rule *rule, const struct rule *row)
{
    struct nftnl_expr *expr;

    switch (row->act) {
    case ACCEPT:
    case DROP:
        expr = add(rule, "immediate");
        nftnl_expr_set_u32(expr, NFTNL_EXPR_IMM_DREG, NFT_REG_VERDICT);
        nftnl_expr_set_u32(expr, NFTNL_EXPR_IMM_VERDICT, row->act == DROP ? NF_DROP : NF_ACCEPT);
        return;
    case NOTRACK:
        (void)add(rule, "notrack");
        return;
    case TO_GATE:
        to_gate(rule, row->family);
        return;
    case RESET:
        expr = add(rule, "reject");
        nftnl_expr_set_u32(expr, NFTNL_EXPR_REJECT_TYPE, NFT_REJECT_TCP_RST);
        return;
    case REFUSE:
        expr = add(rule, "reject");
        nftnl_expr_set_u32(expr, NFTNL_EXPR_REJECT_TYPE, NFT_REJECT_ICMPX_UNREACH);
        nftnl_expr_set_u8(expr, NFTNL_EXPR_REJECT_CODE, NFT_REJECT_ICMPX_PORT_UNREACH);
        return;
    }
}

/* ---- messages ---- */

struct firewall {
    char bytes[MESSAGES_BYTES];
    size_t len;
    uint32_t seq; /* of the last message */
};

/* The place of the next message. */
static char *room(struct firewall *firewall)
{
    if (firewall->len + MESSAGE_ROOM > sizeof(firewall->bytes)) {
        abort(); /* the rules above do not fit */
    }
    return firewall->bytes + firewall->len;
}

static struct nlmsghdr *begin(struct firewall *firewall, uint16_t type, uint16_t flags)
{
    return nftnl_nlmsg_build_hdr(room(firewall), type, NFPROTO_INET, NLM_F_CREATE | flags,
                                 ++firewall->seq);
}

static void done(struct firewall *firewall, const struct nlmsghdr *message)
{
    firewall->len += message->nlmsg_len; /* libmnl pads every attribute */
}

static void put_table(struct firewall *firewall)
{
    struct nftnl_table *table = nftnl_table_alloc();

    if (!table || nftnl_table_set_str(table, NFTNL_TABLE_NAME, TABLE) < 0) {
        abort();
    }
    struct nlmsghdr *message = begin(firewall, NFT_MSG_NEWTABLE, NLM_F_EXCL);
    nftnl_table_nlmsg_build_payload(message, table);
    done(firewall, message);
    nftnl_table_free(table);
}

static void put_chain(struct firewall *firewall, const struct chain *row)
{
    struct nftnl_chain *chain = nftnl_chain_alloc();

    if (!chain || nftnl_chain_set_str(chain, NFTNL_CHAIN_TABLE, TABLE) < 0 ||
        nftnl_chain_set_str(chain, NFTNL_CHAIN_NAME, row->name) < 0 ||
        nftnl_chain_set_str(chain, NFTNL_CHAIN_TYPE, row->type) < 0) {
        abort();
    }
    nftnl_chain_set_u32(chain, NFTNL_CHAIN_HOOKNUM, row->hook);
    nftnl_chain_set_s32(chain, NFTNL_CHAIN_PRIO, row->priority);
    nftnl_chain_set_u32(chain, NFTNL_CHAIN_POLICY, NF_ACCEPT);
    struct nlmsghdr *message = begin(firewall, NFT_MSG_NEWCHAIN, NLM_F_EXCL);
    nftnl_chain_nlmsg_build_payload(message, chain);
    done(firewall, message);
    nftnl_chain_free(chain);
}

static void put_rule(struct firewall *firewall, const struct rule *row, bool last)
{
    struct nftnl_rule *rule = nftnl_rule_alloc();

    if (!rule || nftnl_rule_set_str(rule, NFTNL_RULE_TABLE, TABLE) < 0 ||
        nftnl_rule_set_str(rule, NFTNL_RULE_CHAIN, row->chain) < 0) {
        abort();
    }
    if (row->family != NFPROTO_UNSPEC) {
        match_meta(rule, NFT_META_NFPROTO, row->family);
    }
    if (row->protocol) {
        match_meta(rule, NFT_META_L4PROTO, row->protocol);
    }
    if (row->block) {
        match_destination(rule, row);
    }
    if (row->port) {
        match_port(rule, row->port);
    }
    act(rule, row);
    struct nlmsghdr *message =
        begin(firewall, NFT_MSG_NEWRULE, (uint16_t)(NLM_F_APPEND | (last ? NLM_F_ACK : 0)));
    nftnl_rule_nlmsg_build_payload(message, rule);
    done(firewall, message);
    nftnl_rule_free(rule);
}

struct firewall *firewall_new(void)
{
    struct firewall *firewall = xnew(struct firewall);

    done(firewall, nftnl_batch_begin(room(firewall), 0));
    put_table(firewall);
    for (size_t i = 0; i < countof(chains); i++) {
        put_chain(firewall, &chains[i]);
    }
    for (size_t i = 0; i < countof(rules); i++) {
        put_rule(firewall, &rules[i], i + 1 == countof(rules));
    }
    done(firewall, nftnl_batch_end(room(firewall), firewall->seq + 1));
    return firewall;
}

void firewall_free(struct firewall *firewall)
{
    free(firewall);
}

/* ---- loading ---- */

/* 1 when the last message was accepted, and so all of them; 0 to read on; -errno. */
static int answer_read(const struct nlmsghdr *message, uint32_t last)
{
    if (message->nlmsg_type != NLMSG_ERROR) {
        return 0;
    }
    const struct nlmsgerr *error = mnl_nlmsg_get_payload(message);
    return error->error < 0 ? error->error : message->nlmsg_seq == last;
}

int firewall_load(const struct firewall *firewall, struct err *err)
{
    alignas(struct nlmsghdr) char answer[ANSWER_BYTES];
    scoped_fd fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);

    if (fd < 0 || send(fd, firewall->bytes, firewall->len, 0) < 0) {
        return err_sys(err, "send the rules of the jail's network");
    }
    /* The kernel has applied the messages, and all answers are in the socket. */
    for (int r = 0; r == 0;) {
        ssize_t got = recv(fd, answer, sizeof(answer), MSG_DONTWAIT);
        int left = (int)got;

        if (got < 0) {
            return err_sys(err, "load the rules of the jail's network");
        }
        for (const struct nlmsghdr *message = (void *)answer; r == 0 && mnl_nlmsg_ok(message, left);
             message = mnl_nlmsg_next(message, &left)) {
            r = answer_read(message, firewall->seq);
        }
        if (r < 0) {
            return err_set(err, -r,
                           "load the rules of the jail's network: %s (is nf_tables there?)",
                           strerrordesc_np(-r));
        }
    }
    return 0;
}
