#include "keeper/jail/orphans.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/base/alloc.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"

enum {
    ENDS_BYTES_MAX = 64 * 1024 * 1024, /* more than half a million connections */
    ANSWER_BYTES = 32 * 1024,
    /* States in which data from the other end is expected. */
    WAITING = 1 << TCP_ESTABLISHED | 1 << TCP_FIN_WAIT1 | 1 << TCP_FIN_WAIT2,
    ANY_STATE = (1 << (TCP_CLOSING + 1)) - 1,
};

struct place {
    uint8_t address[sizeof(struct in6_addr)]; /* IPv4 addresses are mapped to IPv6 */
    uint16_t port;
};

struct end {
    struct place here, there; /* first, because the array is sorted by them */
    uint8_t family;
    uint8_t state;
    struct inet_diag_sockid id;
};

static int end_compare(const void *a, const void *b)
{
    return memcmp(a, b, offsetof(struct end, family));
}

/* ---- all connections ---- */

static struct place place_of(uint8_t family, const __be32 address[4], __be16 port)
{
    struct place place = {.address = {[10] = 0xff, [11] = 0xff}, .port = port};

    if (family == AF_INET) {
        memcpy(place.address + 12, address, sizeof(struct in_addr));
    } else {
        memcpy(place.address, address, sizeof(place.address));
    }
    return place;
}

static int on_end(const struct nlmsghdr *header, void *ctx)
{
    struct buf *ends = ctx;
    const struct inet_diag_msg *msg = mnl_nlmsg_get_payload(header);

    if (mnl_nlmsg_get_payload_len(header) < sizeof(*msg)) {
        return MNL_CB_OK;
    }
    const struct end end = {
        .here = place_of(msg->idiag_family, msg->id.idiag_src, msg->id.idiag_sport),
        .there = place_of(msg->idiag_family, msg->id.idiag_dst, msg->id.idiag_dport),
        .family = msg->idiag_family,
        .state = msg->idiag_state,
        .id = msg->id,
    };
    int r = buf_append(ends, &end, sizeof(end));
    errno = -r;
    return r < 0 ? MNL_CB_ERROR : MNL_CB_OK;
}

struct question {
    struct nlmsghdr header;
    struct inet_diag_req_v2 body;
};

static struct question question_of(uint16_t type, uint16_t flags, uint8_t family)
{
    return (struct question){
        .header = {.nlmsg_len = sizeof(struct question),
                   .nlmsg_type = type,
                   .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags)},
        .body = {.sdiag_family = family, .sdiag_protocol = IPPROTO_TCP, .idiag_states = ANY_STATE},
    };
}

static int ends_list(int fd, uint8_t family, struct buf *out, struct err *err)
{
    const struct question question = question_of(SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, family);
    char *answer = xcalloc(1, ANSWER_BYTES);
    ssize_t n = send(fd, &question, sizeof(question), 0);
    int r = MNL_CB_OK;

    while (n >= 0 && r == MNL_CB_OK) {
        n = recv(fd, answer, ANSWER_BYTES, 0);
        r = n < 0 ? MNL_CB_ERROR : mnl_cb_run(answer, (size_t)n, 0, 0, on_end, out);
    }
    int error = n < 0 || r == MNL_CB_ERROR ? errno : 0;
    free(answer);
    return error ? err_code(err, error, "list the jail's connections") : 0;
}

/* ---- connections without a peer ---- */

static bool has_other(const struct end *all, size_t n, const struct end *end)
{
    const struct end other = {.here = end->there, .there = end->here};

    return bsearch(&other, all, n, sizeof(other), end_compare);
}

static int end_reset(int fd, const struct end *end, struct err *err)
{
    struct question question = question_of(SOCK_DESTROY, NLM_F_ACK, end->family);
    struct {
        struct nlmsghdr header;
        struct nlmsgerr error;
        struct question asked;
    } answer = {0};

    question.body.id = end->id;
    if (send(fd, &question, sizeof(question), 0) < 0 || recv(fd, &answer, sizeof(answer), 0) < 0) {
        return err_sys(err, "end a connection of the jail's");
    }
    int error = -answer.error.error;
    return error == 0 || error == ENOENT ? 0
                                         : err_code(err, error, "end a connection of the jail's");
}

static int ends_check(int fd, struct end *all, size_t n, struct err *err)
{
    int r = 0;

    qsort(all, n, sizeof(*all), end_compare);
    for (size_t i = 0; r == 0 && i < n; i++) {
        if (WAITING & 1 << all[i].state && !has_other(all, n, &all[i])) {
            r = end_reset(fd, &all[i], err);
        }
    }
    return r;
}

int orphans_reset(struct err *err)
{
    scoped_buf(ends, ENDS_BYTES_MAX);
    scoped_fd fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);

    if (fd < 0) {
        return err_sys(err, "look at the jail's connections");
    }
    int r = ends_list(fd, AF_INET, &ends, err);
    if (r == 0) {
        r = ends_list(fd, AF_INET6, &ends, err);
    }
    void *all = buf_at(&ends);
    return r < 0 || !all ? r : ends_check(fd, all, buf_len(&ends) / sizeof(struct end), err);
}
