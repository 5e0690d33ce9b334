/* route.c - asks the host's kernel where a packet to an address would go.
 *
 * Addresses come and go with interfaces; the routing table has them all, also those that no list of
 * interfaces shows. The kernel answers while the question is sent, so this does not wait.
 */
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <stdalign.h>
#include <sys/socket.h>

#include "lib/base/fd.h"
#include "serve/egress/internal.h"

enum { QUESTION_BYTES = 256, ANSWER_BYTES = 4096 };

int route_open(struct err *err)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

    return fd < 0 ? err_sys(err, "open a route socket") : fd;
}

static size_t question_make(char bytes[QUESTION_BYTES], const struct address *address)
{
    struct endpoint endpoint = {.address = *address};
    const bool v4 = address_is_v4(address);
    struct sockaddr_storage to;
    struct nlmsghdr *header = mnl_nlmsg_put_header(bytes);

    header->nlmsg_type = RTM_GETROUTE;
    header->nlmsg_flags = NLM_F_REQUEST;
    struct rtmsg *body = mnl_nlmsg_put_extra_header(header, sizeof(*body));
    body->rtm_family = v4 ? AF_INET : AF_INET6;
    body->rtm_dst_len = v4 ? 32 : 128;
    endpoint_to_sockaddr(&endpoint, &to);
    if (v4) {
        mnl_attr_put(header, RTA_DST, sizeof(struct in_addr),
                     &((struct sockaddr_in *)(void *)&to)->sin_addr);
    } else {
        mnl_attr_put(header, RTA_DST, sizeof(struct in6_addr),
                     &((struct sockaddr_in6 *)(void *)&to)->sin6_addr);
    }
    return header->nlmsg_len;
}

/* An address that cannot be asked about counts as the host's own: the guard then refuses it. */
enum route route_of(int fd, const struct address *address)
{
    alignas(struct nlmsghdr) char question[QUESTION_BYTES];
    alignas(struct nlmsghdr) char answer[ANSWER_BYTES];
    size_t len = question_make(question, address);

    if (send(fd, question, len, 0) < 0) {
        return ROUTE_HOST;
    }
    ssize_t got = recv(fd, answer, sizeof(answer), MSG_DONTWAIT);
    const struct nlmsghdr *header = (const void *)answer;
    if (got < 0 || !mnl_nlmsg_ok(header, (int)got)) {
        return ROUTE_HOST;
    }
    if (header->nlmsg_type == NLMSG_ERROR) {
        return ROUTE_NONE;
    }
    const struct rtmsg *route = mnl_nlmsg_get_payload(header);
    if (header->nlmsg_type != RTM_NEWROUTE || route->rtm_type == RTN_LOCAL ||
        route->rtm_type == RTN_BROADCAST || route->rtm_type == RTN_ANYCAST) {
        return ROUTE_HOST;
    }
    return route->rtm_type == RTN_UNICAST ? ROUTE_AWAY : ROUTE_NONE;
}
