/* Connections into a sandbox by the daemon's end of the channel, against an agent's end that this
 * test plays, well and badly. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "channel_fixture.h"
#include "lib/base/fd.h"
#include "lib/base/fdpass.h"
#include "lib/base/foreign.h"
#include "tcp_pair.h"

static void hands_out_sockets(void)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 20};
    socklen_t len = sizeof(linger);
    int pair[2];
    char byte = 0;

    setup();
    greet();
    uint32_t seq = ask();
    CHECK(seq != 0);
    tcp_pair(pair);
    CHECK_INT(setsockopt(pair[0], SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
    say_fds(seq, &pair[0], 1);
    CHECK_INT(answers_n, 1);
    CHECK(answers[0] >= 0);
    CHECK(fcntl(answers[0], F_GETFD) & FD_CLOEXEC);
    CHECK_INT(getsockopt(answers[0], SOL_SOCKET, SO_LINGER, &linger, &len), 0);
    CHECK_INT(linger.l_onoff, 0);
    CHECK_INT(write(pair[1], "x", 1), 1);
    CHECK_INT(read(answers[0], &byte, 1), 1);
    CHECK_INT(byte, 'x');
    (void)close(pair[0]), (void)close(pair[1]);
    teardown();
}

static void answers_come_in_any_order(void)
{
    setup();
    greet();
    uint32_t first = ask(), second = ask();
    say(CHANNEL_CONNECT, second, -ECONNREFUSED, 0);
    say(CHANNEL_CONNECT, first, -ENETUNREACH, 0);
    CHECK_INT(answers_n, 2);
    CHECK_INT(answers[0], -ECONNREFUSED);
    CHECK_INT(answers[1], -ENETUNREACH);
    CHECK_INT(broken, 0);
    teardown();
}

static void requests_need_not_wait_for_the_hello(void)
{
    setup();
    agent_channel_connect(channel, AGENT_PORT, on_answer, NULL);
    CHECK_INT(hear().op, CHANNEL_HELLO);
    struct channel_message question = hear();
    CHECK_INT(question.op, CHANNEL_CONNECT);
    say(CHANNEL_HELLO, 0, 0, version);
    say(CHANNEL_CONNECT, question.seq, -ECONNREFUSED, 0);
    CHECK_INT(answers[0], -ECONNREFUSED);
    teardown();
}

static void another_version_breaks(void)
{
    setup();
    agent_channel_connect(channel, AGENT_PORT, on_answer, NULL);
    say(CHANNEL_HELLO, 0, 0, CHANNEL_VERSION + 1);
    CHECK_INT(broken, 1);
    CHECK_INT(answers[0], -ECONNRESET);
    teardown();
}

/* ---- connections that are made from outside ---- */

static void the_agent_is_given_its_end(void)
{
    static const uint32_t ports[] = {AGENT_PORT, CHANNEL_PORT_CONTROL, CHANNEL_PORT_UNPACK};
    char byte = 0;

    for (size_t i = 0; i < countof(ports); i++) {
        int fd = -1;
        setup_version(CHANNEL_VERSION);
        greet();
        uint32_t seq = ask_giving(ports[i], &fd);
        CHECK(seq != 0);
        CHECK(fd >= 0);
        CHECK_INT(answers_n, 0); /* not before it says so */
        say(CHANNEL_CONNECT, seq, 0, 0);
        CHECK_INT(answers_n, 1);
        CHECK(fcntl(answers[0], F_GETFD) & FD_CLOEXEC);
        CHECK(fcntl(answers[0], F_GETFL) & O_NONBLOCK);
        CHECK_INT(write(fd, "x", 1), 1);
        CHECK_INT(recv(answers[0], &byte, 1, 0), 1);
        CHECK_INT(byte, 'x');
        CHECK_INT(keeper.asked, 1);
        CHECK_INT(keeper.sockets_n, 2);
        fd_closep(&fd);
        teardown();
    }
}

static void what_it_does_not_serve_is_closed(void)
{
    int before = open_fds();
    int fd = -1;
    char byte;

    setup_version(CHANNEL_VERSION);
    greet();
    say(CHANNEL_CONNECT, ask_giving(CHANNEL_PORT_UNPACK, &fd), -ENOMEM, 0);
    CHECK_INT(answers[0], -ENOMEM);
    CHECK_INT(read(fd, &byte, 1), 0);
    fd_closep(&fd);
    teardown();
    CHECK_INT(open_fds(), before);
}

/* An agent that was taken over may say that it is of the first release, and hand out sockets of
 * which it keeps a copy. */
static void nothing_is_taken_from_the_agent(void)
{
    int before = open_fds();
    int pair[2], fd = -1;

    setup_version(CHANNEL_VERSION);
    say(CHANNEL_HELLO, 0, 0, CHANNEL_VERSION_FIRST);
    CHECK_INT(broken, 1);
    CHECK_STR(broken_why, "it speaks another version");
    teardown();

    tcp_pair(pair);
    setup_version(CHANNEL_VERSION);
    greet();
    say_fds(ask_giving(AGENT_PORT, &fd), pair, 1);
    CHECK_INT(broken, 1);
    CHECK_STR(broken_why, "it handed over a descriptor, which no agent does");
    CHECK(broken_hostile);
    CHECK_INT(answers[0], -ECONNRESET);
    fd_closep(&fd);
    (void)close(pair[0]), (void)close(pair[1]);
    teardown();
    CHECK_INT(open_fds(), before);
}

static int service(int family, uint16_t *port)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr *address = family == AF_INET ? (void *)&v4 : (void *)&v6;
    socklen_t len = family == AF_INET ? sizeof(v4) : sizeof(v6);
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd, address, len) < 0 || listen(fd, 8) < 0 || getsockname(fd, address, &len) < 0) {
        abort();
    }
    *port = ntohs(family == AF_INET ? v4.sin_port : v6.sin6_port);
    return fd;
}

static void services_are_reached_without_the_agent(void)
{
    static const int families[] = {AF_INET, AF_INET6};

    for (size_t i = 0; i < countof(families); i++) {
        uint16_t port = 0;
        int fd = service(families[i], &port);
        setup_version(i == 0 ? CHANNEL_VERSION : CHANNEL_VERSION_FIRST);
        greet();
        agent_channel_connect(channel, port, on_answer, NULL);
        turn();
        CHECK_INT(answers_n, 1);
        CHECK_THAT(answers[0] >= 0, "family %d: %d", families[i], answers[0]);
        CHECK_INT(keeper.asked, i + 1); /* the second address needs a socket of its own */
        int peer = accept(fd, NULL, NULL);
        CHECK(peer >= 0);
        (void)close(peer), (void)close(fd);
        agent_channel_connect(channel, port, on_answer, NULL); /* nobody listens any more */
        turn();
        CHECK_INT(answers_n, 2);
        CHECK_INT(answers[1], -ECONNREFUSED);
        struct channel_message none;
        CHECK_INT(recv(agent, &none, sizeof(none), MSG_DONTWAIT), -1);
        teardown();
    }
}

static void a_keeper_that_is_away_is_asked_again(void)
{
    uint16_t port = 0;
    int fd = service(AF_INET, &port);

    setup_version(CHANNEL_VERSION);
    greet();
    keeper.error = -ENOTCONN;
    agent_channel_connect(channel, port, on_answer, NULL);
    turn();
    CHECK_INT(answers_n, 0);
    keeper.error = 0;
    while (answers_n == 0 && uv_run(&loop, UV_RUN_ONCE)) {
        keeper_answers();
    }
    CHECK(answers[0] >= 0);
    CHECK_INT(keeper.asked, 2);
    agent_channel_connect(channel, port, on_answer, NULL);
    keeper.error = -ESRCH; /* the jail is gone */
    turn();
    CHECK_INT(answers[1], -ECONNRESET);
    (void)close(fd);
    teardown();
}

static void a_late_answer_of_the_keeper_finds_it_closed(void)
{
    int before = open_fds();

    setup_version(CHANNEL_VERSION);
    greet();
    agent_channel_connect(channel, 80, on_answer, NULL);
    agent_channel_close(channel);
    channel = NULL;
    CHECK_INT(answers[0], -ENOTCONN);
    CHECK(keeper.done != NULL);
    teardown();
    CHECK_INT(open_fds(), before);
}

/* A single question to the keeper serves many requests, at most KEEPER_SOCKETS_MAX. */
static void requests_share_a_question(void)
{
    uint16_t port = 0;
    int fd = service(AF_INET, &port);

    setup_version(CHANNEL_VERSION);
    greet();
    for (int i = 0; i < 3; i++) {
        agent_channel_connect(channel, port, on_answer, NULL);
    }
    turn();
    CHECK_INT(answers_n, 3);
    CHECK_INT(keeper.asked, 2); /* the first asked before the others were there */
    CHECK_INT(keeper.sockets_n, 2);
    (void)close(fd);
    teardown();
}

/* ---- an agent of the first release ---- */

static void closing_answers_what_waits(void)
{
    setup();
    greet();
    (void)ask();
    agent_channel_close(channel);
    channel = NULL;
    CHECK_INT(answers[0], -ENOTCONN);
    CHECK_INT(broken, 0);
    teardown();
}

static void the_agents_end_closing_breaks(void)
{
    setup();
    greet();
    (void)ask();
    fd_closep(&agent);
    turn();
    CHECK_INT(broken, 1);
    CHECK_INT(answers[0], -ECONNRESET);
    teardown();
}

/* Each breaks the channel, and none leaves a descriptor behind. */
static void bad_answers_break(void)
{
    int socks[2];

    tcp_pair(socks);
    int two[2] = {socks[0], socks[1]};
    int many[FDPASS_MAX];
    for (int i = 0; i < FDPASS_MAX; i++) {
        many[i] = socks[0];
    }
    int before = open_fds();
    for (int i = 0; i < 8; i++) {
        setup();
        greet();
        uint32_t seq = ask();
        switch (i) {
        case 0: /* success without a socket */
            say(CHANNEL_CONNECT, seq, 0, 0);
            break;
        case 1:
            say_fds(seq, two, 2);
            break;
        case 2:
            say_fds(seq, many, FDPASS_MAX);
            break;
        case 3: /* nobody asked that */
            say_fds(seq + 1, &socks[0], 1);
            break;
        case 4: /* a status that is no errno */
            say(CHANNEL_CONNECT, seq, 7, 0);
            break;
        case 5: /* too short */
            say_with(&seq, sizeof(seq), &socks[0], 1);
            break;
        case 6: /* an operation that does not exist */
            say(99, seq, 0, 0);
            break;
        default: /* the same answer twice */
            say(CHANNEL_CONNECT, seq, -ECONNREFUSED, 0);
            say(CHANNEL_CONNECT, seq, -ECONNREFUSED, 0);
            break;
        }
        CHECK_THAT(broken == 1, "case %d did not break the channel", i);
        teardown();
        CHECK_THAT(open_fds() == before, "case %d left a descriptor", i);
    }
    (void)close(socks[0]), (void)close(socks[1]);
}

static int listening(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    return fd >= 0 && listen(fd, 1) == 0 ? fd : -1;
}

static int half_of(int family, int type)
{
    int pair[2];

    if (socketpair(family, type | SOCK_CLOEXEC, 0, pair) < 0) {
        return -1;
    }
    (void)close(pair[1]);
    return pair[0];
}

/* Anything but a connected TCP socket is named in the reason, and closed. */
static void only_connected_tcp_is_taken(void)
{
    struct {
        int fd;
        const char *why;
    } const cases[] = {
        {half_of(AF_UNIX, SOCK_STREAM), "it handed over a socket that is not TCP"},
        {half_of(AF_UNIX, SOCK_SEQPACKET), "it handed over a socket that is not TCP"},
        {socket(AF_INET, SOCK_DGRAM, 0), "it handed over a socket that is not TCP"},
        {socket(AF_INET, SOCK_STREAM, 0), "it handed over a socket that is not connected"},
        {socket(AF_INET6, SOCK_STREAM, 0), "it handed over a socket that is not connected"},
        {listening(), "it handed over a socket that is not connected"},
        {memfd_create("x", MFD_CLOEXEC), "it handed over a descriptor that is not a socket"},
        {open("/dev/null", O_RDWR), "it handed over a descriptor that is not a socket"},
        {epoll_create1(EPOLL_CLOEXEC), "it handed over a descriptor that is not a socket"},
    };
    int before = open_fds();

    for (size_t i = 0; i < countof(cases); i++) {
        CHECK(cases[i].fd >= 0);
        setup();
        greet();
        say_fds(ask(), &cases[i].fd, 1);
        CHECK_INT(broken, 1);
        CHECK_STR(broken_why, cases[i].why);
        CHECK_INT(answers[0], -ECONNRESET);
        teardown();
        CHECK_THAT(open_fds() == before, "case %zu left a descriptor", i);
    }
    for (size_t i = 0; i < countof(cases); i++) {
        (void)close(cases[i].fd);
    }
}

/* A service that resets a connection it has just accepted is not hostile. */
static void a_connection_that_was_reset_is_taken(void)
{
    const struct linger reset = {.l_onoff = 1, .l_linger = 0};
    int pair[2];

    tcp_pair(pair);
    CHECK_INT(setsockopt(pair[1], SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
    (void)close(pair[1]);
    setup();
    greet();
    say_fds(ask(), &pair[0], 1);
    CHECK_INT(broken, 0);
    CHECK(answers[0] >= 0);
    (void)close(pair[0]);
    teardown();
}

static int closed[8], closed_n;

static void closer(int fd, bool reset)
{
    (void)reset;
    closed[closed_n++] = fd;
}

/* The kernel would close them on the loop's thread, which may block: so all are received, and left
 * to the closer. */
static void the_closer_gets_every_descriptor(void)
{
    int socks[2], many[3];

    tcp_pair(socks);
    many[0] = many[1] = many[2] = socks[0];
    closed_n = 0;
    setup();
    greet();
    int first = open_fds();
    foreign_closer_set(closer);
    say_fds(ask(), many, 3);
    CHECK_INT(broken, 1);
    CHECK_INT(closed_n, 4); /* the channel, too: messages in it may hold more */
    CHECK_INT(open_fds(), first + 3);
    foreign_closer_set(NULL);
    for (int i = 0; i < closed_n; i++) {
        (void)close(closed[i]);
    }
    (void)close(socks[0]), (void)close(socks[1]);
    teardown();
}

static int refused;

static void on_refused(void *ctx, int fd_or_error)
{
    (void)ctx;
    refused += fd_or_error == -EAGAIN;
}

static void too_many_requests_are_refused(void)
{
    setup();
    refused = 0;
    for (int i = 0; i < CHANNEL_REQUESTS_MAX + 5; i++) {
        agent_channel_connect(channel, AGENT_PORT, on_refused, NULL);
    }
    CHECK_INT(refused, 5);

    /* The agent reads late: every request still arrives, in order. */
    CHECK_INT(hear().op, CHANNEL_HELLO);
    for (int i = 0; i < CHANNEL_REQUESTS_MAX; i++) {
        turn();
        CHECK_INT(hear().seq, i + 1);
    }
    teardown();
}

int main(void)
{
    static const struct check_test tests[] = {
        {"hands out sockets", hands_out_sockets},
        {"answers come in any order", answers_come_in_any_order},
        {"requests need not wait for the hello", requests_need_not_wait_for_the_hello},
        {"another version breaks", another_version_breaks},
        {"the agent is given its end", the_agent_is_given_its_end},
        {"what it does not serve is closed", what_it_does_not_serve_is_closed},
        {"nothing is taken from the agent", nothing_is_taken_from_the_agent},
        {"services are reached without the agent", services_are_reached_without_the_agent},
        {"a keeper that is away is asked again", a_keeper_that_is_away_is_asked_again},
        {"a late answer of the keeper finds it closed",
         a_late_answer_of_the_keeper_finds_it_closed},
        {"requests share a question", requests_share_a_question},
        {"closing answers what waits", closing_answers_what_waits},
        {"the agent's end closing breaks", the_agents_end_closing_breaks},
        {"bad answers break, and leak nothing", bad_answers_break},
        {"only connected TCP is taken", only_connected_tcp_is_taken},
        {"a connection that was reset is taken", a_connection_that_was_reset_is_taken},
        {"the closer gets every descriptor", the_closer_gets_every_descriptor},
        {"too many requests are refused", too_many_requests_are_refused},
    };

    return check_run(tests, countof(tests));
}
