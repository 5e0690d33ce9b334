/* The keeper's socket in the hands of a server that was taken over. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "keeper/handle.h"
#include "lib/base/fdpass.h"
#include "rig.h"
#include "tcp_pair.h"

enum {
    LINGER_S = 10 * 60,
    STUFFING_BYTES = 64 * 1024,
    CLIENTS = 4,
    REFUSAL_MS = 5000,
    ANSWER_MS = 60 * 1000
};

static struct rig rig;

/* A connection whose close waits: bytes lie in it that the other end never reads. */
static int lingering_open(int *other)
{
    const struct linger linger = {.l_onoff = 1, .l_linger = LINGER_S};
    static char stuffing[STUFFING_BYTES];
    int pair[2];

    tcp_pair(pair);
    while (send(pair[0], stuffing, sizeof(stuffing), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
    }
    if (setsockopt(pair[0], SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) < 0) {
        abort();
    }
    *other = pair[1];
    return pair[0];
}

static void keeper_stop(void)
{
    int status = 0;

    if (kill(rig.keeper, SIGSTOP) < 0 || waitpid(rig.keeper, &status, WUNTRACED) != rig.keeper ||
        !WIFSTOPPED(status)) {
        abort();
    }
}

static void keeper_go_on(void)
{
    if (kill(rig.keeper, SIGCONT) < 0) {
        abort();
    }
}

/* The keeper stands still meanwhile: had it closed its copy before this side closes the other, the
 * close that waits would be the test's. Returns the end that keeps the close waiting. */
static int request_with_connection(struct rig *to, struct keeper_request *req)
{
    int other = -1;
    int fd = lingering_open(&other);

    req->version = KEEPER_VERSION;
    req->seq = ++to->seq;
    if (fdpass_send(to->fd, req, sizeof(*req), &fd, 1, 0) != (ssize_t)sizeof(*req)) {
        abort();
    }
    /* The message has the last copy from now on: this one's close does not wait. */
    (void)close(fd);
    return other;
}

static void descriptors_of_a_request_hold_nobody_up(void)
{
    struct keeper_request hello = {.op = KEEPER_HELLO};

    keeper_stop();
    int other = request_with_connection(&rig, &hello);
    keeper_go_on();
    CHECK_INT(rig_receive(&rig, NULL).status, 0);
    CHECK_INT(rig_ask(&rig, &hello, NULL).status, 0);
    (void)close(other);
}

/* Messages that are never read: the keeper drops a client that sends nonsense, with all that is
 * left.
 */
static void descriptors_of_a_client_that_is_dropped_hold_nobody_up(void)
{
    struct keeper_request hello = {.op = KEEPER_HELLO};
    struct rig beside = rig_beside(&rig);

    keeper_stop(); /* both lie there when it looks */
    CHECK_INT(send(beside.fd, "nonsense", 8, MSG_NOSIGNAL), 8);
    int other = request_with_connection(&beside, &hello);
    (void)close(beside.fd);
    keeper_go_on();
    CHECK_INT(rig_ask(&rig, &hello, NULL).status, 0);
    CHECK_INT(rig_ask(&rig, &hello, NULL).status, 0);
    (void)close(other);
}

/* Its requests may have any size; the version is at their beginning. */
static void a_server_of_another_version_is_told_ours(void)
{
    const struct keeper_request req = {.version = KEEPER_VERSION + 1, .op = KEEPER_HELLO};
    const size_t sizes[] = {sizeof(req.version), sizeof(req) - 8, sizeof(req)};
    struct keeper_request hello = {.op = KEEPER_HELLO};

    for (size_t i = 0; i < countof(sizes); i++) {
        struct rig beside = rig_beside(&rig);
        struct keeper_answer answer = {0};

        CHECK_INT(send(beside.fd, &req, sizes[i], MSG_NOSIGNAL), (ssize_t)sizes[i]);
        CHECK_INT(recv(beside.fd, &answer, sizeof(answer), 0), (ssize_t)sizeof(answer));
        CHECK_INT(answer.version, KEEPER_VERSION);
        CHECK(answer.status < 0);
        (void)close(beside.fd);
    }
    CHECK_INT(rig_ask(&rig, &hello, NULL).status, 0);
}

/* ---- work ---- */

static void groups_freeze(const char *value)
{
    static const char *const roots[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    char path[128];
    bool done = false;

    for (size_t i = 0; i < countof(roots); i++) {
        (void)snprintf(path, sizeof(path), "%s/atoll-%s/cgroup.freeze", roots[i], rig.instance);
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        done |= fd >= 0 && write(fd, value, 1) == 1;
        (void)close(fd);
    }
    CHECK(done);
}

static struct keeper_answer any_answer(const struct rig *from)
{
    struct keeper_answer answer = {0};
    struct pollfd ready = {.fd = from->fd, .events = POLLIN};

    if (poll(&ready, 1, ANSWER_MS) != 1 ||
        recv(from->fd, &answer, sizeof(answer), 0) != (ssize_t)sizeof(answer)) {
        abort();
    }
    return answer;
}

/* Workers stand still from their birth, so that all are there at one time. Several clients: one
 * that does not take so many answers at once is dropped. */
static void workers_are_bounded(void)
{
    struct keeper_request save = {.op = KEEPER_SAVE};
    struct keeper_request hello = {.op = KEEPER_HELLO};
    struct rig clients[CLIENTS];

    groups_freeze("1");
    for (int i = 0; i < HANDLE_TASKS_MAX; i++) {
        struct rig *client = &clients[i % CLIENTS];
        if (i < CLIENTS) {
            *client = rig_beside(&rig);
        }
        (void)snprintf(save.id, sizeof(save.id), "none%d", i);
        (void)snprintf(save.save.name, sizeof(save.save.name), "saved-none%d", i);
        rig_send(client, &save);
        CHECK_INT(rig_ask(client, &hello, NULL).status, 0); /* so it has been taken up */
    }
    (void)snprintf(save.id, sizeof(save.id), "more");
    (void)snprintf(save.save.name, sizeof(save.save.name), "saved-more");
    rig_send(&rig, &save);
    struct pollfd refused = {.fd = rig.fd, .events = POLLIN};
    (void)poll(&refused, 1, REFUSAL_MS); /* one that is taken up is answered when all go on */
    groups_freeze("0");
    CHECK_INT(rig_receive(&rig, NULL).status, -EAGAIN);
    for (int i = 0; i < HANDLE_TASKS_MAX; i++) {
        CHECK(any_answer(&clients[i % CLIENTS]).status < 0);
    }
    for (int i = 0; i < CLIENTS; i++) {
        (void)close(clients[i].fd);
    }
}

int main(int argc, char **argv)
{
    static const struct check_test tests[] = {
        {"descriptors of a request hold nobody up", descriptors_of_a_request_hold_nobody_up},
        {"descriptors of a client that is dropped hold nobody up",
         descriptors_of_a_client_that_is_dropped_hold_nobody_up},
        {"a server of another version is told ours", a_server_of_another_version_is_told_ours},
        {"workers are bounded", workers_are_bounded},
    };

    return rig_main(&rig, argc, argv, NULL, tests, countof(tests));
}
