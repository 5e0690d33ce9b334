#include "keeper/jail/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libmnl/libmnl.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "keeper/jail/firewall.h"
#include "keeper/jail/kernel_setting.h"
#include "keeper/jail/orphans.h"
#include "lib/base/alloc.h"
#include "lib/base/log.h"
#include "wire/keeper.h"

enum {
    MESSAGE_BYTES = 256,
    LOOPBACK_INDEX = 1, /* the first device of every namespace */
};

struct network {
    struct firewall *firewall;
    int host; /* the keeper's network namespace, to return to */
};

int network_new(struct network **out, struct err *err)
{
    scoped_fd host = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

    if (host < 0) {
        return err_sys(err, "open /proc/self/ns/net");
    }
    struct network *network = xnew(struct network);
    network->firewall = firewall_new();
    network->host = move_fd(&host);
    *out = network;
    return 0;
}

void network_free(struct network *network)
{
    if (network) {
        firewall_free(network->firewall);
        fd_closep(&network->host);
        free(network);
    }
}

/* ---- inside ---- */

int network_loopback(struct err *err)
{
    struct ifreq req = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    scoped_fd fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &req) < 0) {
        return err_sys(err, "bring up the loopback interface");
    }
    return 0;
}

union message {
    alignas(struct nlmsghdr) char bytes[MESSAGE_BYTES];
    struct nlmsghdr header;
};

static void *message_begin(union message *message, uint16_t type, size_t extra)
{
    struct nlmsghdr *header = mnl_nlmsg_put_header(message->bytes);

    header->nlmsg_type = type;
    header->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
    return mnl_nlmsg_put_extra_header(header, extra);
}

static void put_address(union message *message, uint16_t attribute, int family, const char *text)
{
    uint8_t address[sizeof(struct in6_addr)];

    if (inet_pton(family, text, address) != 1) {
        abort();
    }
    mnl_attr_put(&message->header, attribute,
                 family == AF_INET ? sizeof(struct in_addr) : sizeof(struct in6_addr), address);
}

static int message_send(int fd, const union message *message, const char *what, struct err *err)
{
    struct {
        struct nlmsghdr header;
        struct nlmsgerr error;
        char rest[MESSAGE_BYTES];
    } answer;

    if (send(fd, message, message->header.nlmsg_len, 0) < 0) {
        return err_sys(err, "%s", what);
    }
    ssize_t got = recv(fd, &answer, sizeof(answer), MSG_DONTWAIT);
    if (got < (ssize_t)(sizeof(answer.header) + sizeof(answer.error)) ||
        answer.header.nlmsg_type != NLMSG_ERROR) {
        return err_set(err, EIO, "%s: the kernel did not answer", what);
    }
    return answer.error.error == 0 ? 0
                                   : err_set(err, -answer.error.error, "%s: %s", what,
                                             strerrordesc_np(-answer.error.error));
}

static int address_add(int fd, int family, const char *address, struct err *err)
{
    union message message;
    struct ifaddrmsg *body = message_begin(&message, RTM_NEWADDR, sizeof(*body));

    *body = (struct ifaddrmsg){
        .ifa_family = (uint8_t)family,
        .ifa_prefixlen = family == AF_INET ? 32 : 128,
        .ifa_flags = IFA_F_PERMANENT | IFA_F_NODAD,
        .ifa_scope = RT_SCOPE_UNIVERSE, /* otherwise programs conclude that there is no network */
        .ifa_index = LOOPBACK_INDEX,
    };
    put_address(&message, IFA_LOCAL, family, address);
    put_address(&message, IFA_ADDRESS, family, address);
    return message_send(fd, &message, "give the jail an address", err);
}

/* Makes every address local to this namespace. */
static int route_add(int fd, int family, const char *source, struct err *err)
{
    union message message;
    struct rtmsg *body = message_begin(&message, RTM_NEWROUTE, sizeof(*body));

    *body = (struct rtmsg){
        .rtm_family = (uint8_t)family,
        .rtm_table = RT_TABLE_LOCAL,
        .rtm_protocol = RTPROT_BOOT,
        .rtm_scope = family == AF_INET ? RT_SCOPE_HOST : RT_SCOPE_UNIVERSE,
        .rtm_type = RTN_LOCAL,
    };
    mnl_attr_put_u32(&message.header, RTA_OIF, LOOPBACK_INDEX);
    put_address(&message, RTA_PREFSRC, family, source);
    return message_send(fd, &message, "add the jail's route", err);
}

int network_open(const struct network *network, struct err *err)
{
    struct err no_ipv6;
    int r = firewall_load(network->firewall, err);

    if (r < 0) {
        return r;
    }
    scoped_fd fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0) {
        return err_sys(err, "open a route socket");
    }
    r = address_add(fd, AF_INET, NETWORK_SELF, err);
    r = r < 0 ? r : route_add(fd, AF_INET, NETWORK_SELF, err);
    if (r < 0) {
        return r;
    }
    /* Without this route, as on a machine without IPv6, IPv6 addresses are unreachable inside. */
    if (address_add(fd, AF_INET6, NETWORK_SELF6, &no_ipv6) == 0) {
        return route_add(fd, AF_INET6, NETWORK_SELF6, err);
    }
    return 0;
}

int network_settings(int proc_fd, struct err *err)
{
    static const char *const settings[][2] = {
        {"sys/net/mptcp/enabled", "0"},                   /* CRIU cannot save MPTCP connections */
        {"sys/net/ipv4/ip_unprivileged_port_start", "0"}, /* all ports belong to the jail */
        /* Closed and half-open connections use memory that no one is charged for. */
        {"sys/net/netfilter/nf_conntrack_tcp_timeout_time_wait", "1"},
        {"sys/net/netfilter/nf_conntrack_tcp_timeout_close", "1"},
        {"sys/net/netfilter/nf_conntrack_tcp_timeout_last_ack", "5"},
        {"sys/net/netfilter/nf_conntrack_tcp_timeout_syn_sent", "10"},
        {"sys/net/netfilter/nf_conntrack_tcp_timeout_syn_recv", "10"},
    };
    int r = 0;

    for (size_t i = 0; r == 0 && i < countof(settings); i++) {
        r = kernel_setting_write_if(proc_fd, settings[i][0], settings[i][1], err);
    }
    return r;
}

/* ---- sockets of the daemon ---- */

static int socket_open(int family, int type, uint16_t port, struct err *err)
{
    const int on = 1, off = 0;
    struct sockaddr_in gate = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    const bool v4 = family == AF_INET;
    scoped_fd fd = socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0) {
        return err_sys(err, "make a socket in the jail's network");
    }
    (void)inet_pton(AF_INET, NETWORK_GATE, &gate.sin_addr);
    /* Connections of an earlier daemon may still be closing on that port. */
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (!v4) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    }
    if (bind(fd, v4 ? (void *)&gate : (void *)&any, v4 ? sizeof(gate) : sizeof(any)) < 0 ||
        (type == SOCK_STREAM && listen(fd, NETWORK_BACKLOG) < 0)) {
        return err_sys(err, "listen on port %d of the jail's network", port);
    }
    return move_fd(&fd);
}

/* Opens a socket for both IPv4 and IPv6, where both exist. */
static int gate_open(struct err *err)
{
    int fd = socket_open(AF_INET6, SOCK_STREAM, NETWORK_TCP_PORT, err);

    return fd == -EAFNOSUPPORT ? socket_open(AF_INET, SOCK_STREAM, NETWORK_TCP_PORT, err) : fd;
}

static int sockets_make(struct network_sockets *out, struct err *err)
{
    /* The gate's address exists only if network_open() succeeded. */
    out->dns_udp = socket_open(AF_INET, SOCK_DGRAM, NETWORK_DNS_PORT, err);
    if (out->dns_udp < 0) {
        return out->dns_udp;
    }
    out->tcp = gate_open(err);
    return out->tcp < 0 ? out->tcp : 0;
}

static void network_leave(const struct network *network)
{
    if (setns(network->host, CLONE_NEWNET) < 0) {
        log_error("cannot leave a jail's network: %s", strerrordesc_np(errno));
        abort(); /* otherwise the next jail would be made inside this one */
    }
}

int network_sockets_open(const struct network *network, int pidfd, struct network_sockets *out,
                         struct err *err)
{
    *out = NETWORK_SOCKETS_NONE;
    if (setns(pidfd, CLONE_NEWNET) < 0) {
        return err_sys(err, "enter the jail's network");
    }
    int r = sockets_make(out, err);
    network_leave(network);
    if (r < 0) {
        network_sockets_closep(out);
        *out = NETWORK_SOCKETS_NONE;
    }
    return r;
}

static int inward_make(struct err *err)
{
    const int off = 0, bytes = NETWORK_INWARD_BYTES;
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 && errno == EAFNOSUPPORT) {
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    }
    if (fd < 0) {
        return err_sys(err, "make a socket in the jail's network");
    }
    (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes));
    return fd;
}

int network_inward_open(const struct network *network, int pidfd, int *out, size_t n,
                        struct err *err)
{
    int r = 0;

    memset(out, -1, n * sizeof(*out));
    if (setns(pidfd, CLONE_NEWNET) < 0) {
        return err_sys(err, "enter the jail's network");
    }
    for (size_t i = 0; r >= 0 && i < n; i++) {
        r = out[i] = inward_make(err);
    }
    network_leave(network);
    for (size_t i = 0; r < 0 && i < n; i++) {
        fd_closep(&out[i]);
    }
    return r < 0 ? r : 0;
}

socklen_t network_name(struct sockaddr_un *out, const char *name)
{
    size_t len = strlen(name);

    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(out->sun_path + 1, name, len);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
}

/* A socket finds abstract names of the namespace in which it was made. */
int network_connect(const struct network *network, int pidfd, const char *name, struct err *err)
{
    struct sockaddr_un address;
    socklen_t len = network_name(&address, name);

    if (setns(pidfd, CLONE_NEWNET) < 0) {
        return err_sys(err, "enter the jail's network");
    }
    scoped_fd fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int r = fd < 0 || connect(fd, (const struct sockaddr *)&address, len) < 0 ? -errno : 0;
    network_leave(network);
    return r < 0 ? err_code(err, -r, "connect to the agent") : move_fd(&fd);
}

/* Loopback must work, as in a new jail; the way out may fail. */
int network_restore(const struct network *network, pid_t pid, struct network_sockets *out,
                    struct err *err)
{
    scoped_fd proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    scoped_fd pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

    if (proc < 0 || pidfd < 0 || setns(pidfd, CLONE_NEWNET) < 0) {
        return err_sys(err, "enter the jail's network");
    }
    int r = network_loopback(err);
    if (r == 0) {
        r = network_settings(proc, err);
    }
    if (r == 0) {
        r = network_open(network, err);
    }
    network_leave(network);
    return r < 0 ? r : network_sockets_open(network, pidfd, out, err);
}

static bool is_at_home(const struct network *network)
{
    scoped_fd here = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    struct stat a, b;

    return here < 0 || fstat(here, &a) < 0 || fstat(network->host, &b) < 0 ||
           (a.st_ino == b.st_ino && a.st_dev == b.st_dev);
}

int network_orphans_reset(const struct network *network, pid_t pid, struct err *err)
{
    scoped_fd pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

    if (pidfd < 0 || setns(pidfd, CLONE_NEWNET) < 0) {
        return err_sys(err, "enter the jail's network");
    }
    /* The process may have ended: the host's own connections must not be ended. */
    int r = is_at_home(network) ? err_set(err, ESRCH, "process %d is in no jail's network", pid)
                                : orphans_reset(err);
    network_leave(network);
    return r;
}
