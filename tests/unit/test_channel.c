/* The daemon's end of the channel, against an agent's end that this test plays, well and badly. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "check.h"
#include "lib/base/fd.h"
#include "lib/base/fdpass.h"
#include "lib/base/foreign.h"
#include "serve/sandbox/channel.h"
#include "tcp_pair.h"
#include "wire/channel.h"

static uv_loop_t loop;
static struct agent_channel *channel;
static int agent = -1; /* its end */
static int broken, oom_asked;
static bool broken_hostile;
static char broken_why[128];
static int answers[8], answers_n;
static struct sandbox_log lines[8];
static char texts[8][CHANNEL_LOG_BYTES_MAX + 1];
static int lines_n;

static void on_broken(void *ctx, const char *why, bool hostile)
{
    (void)ctx;
    broken_hostile = hostile;
    (void)snprintf(broken_why, sizeof(broken_why), "%s", why);
    broken++;
    channel = NULL;
}

static void on_oom(void *ctx)
{
    (void)ctx;
    oom_asked++;
}

static void on_log(void *ctx, const struct sandbox_log *log)
{
    (void)ctx;
    (void)str_copy(texts[lines_n], sizeof(texts[0]), log->line);
    lines[lines_n++] = *log;
}

static void on_answer(void *ctx, int fd_or_error)
{
    (void)ctx;
    answers[answers_n++] = fd_or_error;
}

/* ---- the keeper ---- */

static struct {
    keeper_done *done; /* NULL: nobody has asked */
    void *ctx;
    uint32_t sockets_n;
    int asked;
    int error; /* of its answers */
} keeper;

void keeper_client_ask(struct keeper_client *client, const struct keeper_request *req,
                       keeper_done *done, void *ctx)
{
    (void)client;
    if (req->op != KEEPER_SOCKETS || strcmp(req->id, "one") != 0 || req->jail.pid != 7 ||
        keeper.done) {
        abort();
    }
    keeper.done = done;
    keeper.ctx = ctx;
    keeper.sockets_n = req->sockets_n;
    keeper.asked++;
}

static void keeper_answers(void)
{
    struct keeper_answer answer = {.op = KEEPER_SOCKETS, .status = keeper.error};
    int fds[KEEPER_FDS_MAX] = KEEPER_FDS_NONE;
    keeper_done *done = keeper.done;

    if (!done) {
        return;
    }
    for (uint32_t i = 0; keeper.error == 0 && i < keeper.sockets_n; i++) {
        fds[i] = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    }
    keeper.done = NULL;
    done(keeper.ctx, &answer, fds);
    fdpass_close(fds, KEEPER_FDS_MAX);
}

static void turn(void)
{
    for (int i = 0; i < 5; i++) {
        keeper_answers();
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
}

static uint32_t version;

static void setup_version(uint32_t agents)
{
    const struct agent_channel_jail jail = {
        .id = "one", .name = {.pid = 7}, .version = agents, .sockets = {-1, -1}};
    static const struct agent_channel_handler handler = {
        .on_broken = on_broken, .on_oom = on_oom, .on_log = on_log};
    int ends[2];

    broken = oom_asked = answers_n = lines_n = 0;
    if (uv_loop_init(&loop) < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0) {
        abort();
    }
    agent = ends[1];
    memset(&keeper, 0, sizeof(keeper));
    version = agents;
    channel = agent_channel_new(&loop, ends[0], &jail, &handler, NULL);
}

static void setup(void)
{
    setup_version(CHANNEL_VERSION_FIRST);
}

static void teardown(void)
{
    agent_channel_close(channel);
    channel = NULL;
    for (int i = 0; i < answers_n; i++) {
        fd_closep(&answers[i]);
    }
    keeper_answers();
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&loop) < 0) {
        abort();
    }
    fd_closep(&agent);
}

/* ---- the agent's half ---- */

static struct channel_message hear(void)
{
    struct channel_message message = {0};

    if (recv(agent, &message, sizeof(message), 0) != (ssize_t)sizeof(message)) {
        message.op = 0;
    }
    return message;
}

static void say_with(const void *data, size_t len, const int *fds, size_t fds_n)
{
    (void)fdpass_send(agent, data, len, fds, fds_n, 0);
    turn();
}

static void say(uint32_t op, uint32_t seq, int32_t status, uint32_t value)
{
    struct channel_message message = {.op = op, .seq = seq, .status = status, .value = value};

    say_with(&message, sizeof(message), NULL, 0);
}

static void say_fds(uint32_t seq, const int *fds, size_t n)
{
    struct channel_message message = {.op = CHANNEL_CONNECT, .seq = seq};

    say_with(&message, sizeof(message), fds, n);
}

static void greet(void)
{
    struct channel_message hello = hear();

    if (hello.op == CHANNEL_HELLO && hello.value == version) {
        say(CHANNEL_HELLO, 0, 0, version);
    }
}

/* Of an agent of the first release, which makes the connection. */
static uint32_t ask(void)
{
    agent_channel_connect(channel, AGENT_PORT, on_answer, NULL);
    struct channel_message question = hear();
    return question.op == CHANNEL_CONNECT && question.value == AGENT_PORT ? question.seq : 0;
}

/* Of any other: *fd is its end of the connection. */
static uint32_t ask_giving(uint32_t port, int *fd)
{
    struct channel_message message = {0};
    struct iovec iov = {&message, sizeof(message)};

    agent_channel_connect(channel, port, on_answer, NULL);
    turn();
    ssize_t n = fdpass_receive(agent, &iov, 1, fd, 1, MSG_DONTWAIT);
    return n == (ssize_t)sizeof(message) && message.op == CHANNEL_CONNECT && message.value == port
               ? message.seq
               : 0;
}

static int open_fds(void)
{
    int n = 0;

    for (int fd = 0; fd < 256; fd++) {
        n += fcntl(fd, F_GETFD) >= 0;
    }
    return n;
}

/* ---- tests ---- */

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

/* One question to the keeper for many requests, at most KEEPER_SOCKETS_MAX at a time. */
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

/* What is no connected TCP socket is said to be none, and is closed. */
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

/* A service that resets what it has just accepted is no hostile agent. */
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

static void questions_share_a_count(void)
{
    setup();
    greet();
    say(CHANNEL_OOM, 10, 0, 0);
    say(CHANNEL_OOM, 11, 0, 0);
    CHECK_INT(oom_asked, 1);
    agent_channel_answer_oom(channel, 3);
    struct channel_message answer = hear();
    CHECK_INT(answer.op, CHANNEL_OOM);
    CHECK_INT(answer.seq, 10);
    CHECK_INT(answer.value, 3);
    CHECK_INT(oom_asked, 2); /* 11 came after the first count was asked for */
    agent_channel_answer_oom(channel, 4);
    answer = hear();
    CHECK_INT(answer.seq, 11);
    CHECK_INT(answer.value, 4);
    teardown();
}

static void too_many_questions_break(void)
{
    setup();
    greet();
    for (uint32_t i = 0; i <= CHANNEL_QUESTIONS_MAX; i++) {
        say(CHANNEL_OOM, i, 0, 0);
    }
    CHECK_INT(broken, 1);
    CHECK_INT(oom_asked, 1);
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

/* ---- log lines ---- */

static void say_line(uint32_t seq, uint32_t level, const char *text, size_t len)
{
    char data[sizeof(struct channel_message) + sizeof(struct channel_log) + 2 * 4096];
    struct channel_message message = {.op = CHANNEL_LOG, .seq = seq};
    struct channel_log log = {.wall_ms = 1234, .level = level, .lost = 2};

    memcpy(data, &message, sizeof(message));
    memcpy(data + sizeof(message), &log, sizeof(log));
    memcpy(data + sizeof(message) + sizeof(log), text, len);
    say_with(data, sizeof(message) + sizeof(log) + len, NULL, 0);
}

static void begin(void)
{
    setup();
    greet();
}

static void lines_come_within_credit(void)
{
    begin();
    agent_channel_credit_logs(channel, 7);
    struct channel_message credit = hear();
    CHECK_INT(credit.op, CHANNEL_LOG);
    CHECK_INT(credit.seq, 7);
    CHECK_INT(credit.value, SANDBOX_LOG_WINDOW);
    say_line(8, LOG_WARN, "{\"a\":1}", 7);
    say_line(7 + SANDBOX_LOG_WINDOW, LOG_INFO, "x", 1);
    CHECK_INT(lines_n, 2);
    CHECK_STR(texts[0], "{\"a\":1}");
    CHECK_INT(lines[0].seq, 8);
    CHECK_INT(lines[0].lost, 2);
    CHECK_INT(lines[0].wall_ms, 1234);
    CHECK_INT(lines[0].level, LOG_WARN);
    CHECK_INT(broken, 0);
    teardown();
}

/* An agent that was taken over may send anything. */
static void bad_lines_break(void)
{
    static const struct {
        uint32_t seq, level;
        size_t len;
    } bad[] = {
        {SANDBOX_LOG_WINDOW + 1, LOG_INFO, 5},    /* beyond the credit */
        {0, LOG_INFO, 5},                         /* before it */
        {1, LOG_ERROR + 1, 5},                    /* no level */
        {1, LOG_INFO, 0},                         /* no text */
        {1, LOG_INFO, CHANNEL_LOG_BYTES_MAX + 1}, /* too much of it */
    };
    static char text[2 * CHANNEL_LOG_BYTES_MAX];

    memset(text, 'x', sizeof(text));
    for (size_t i = 0; i < countof(bad); i++) {
        begin();
        agent_channel_credit_logs(channel, 0);
        say_line(bad[i].seq, bad[i].level, text, bad[i].len);
        CHECK_INT(broken, 1);
        CHECK_INT(lines_n, 0);
        teardown();
    }
    begin(); /* nothing was asked for */
    say_line(1, LOG_INFO, "x", 1);
    CHECK_INT(broken, 1);
    teardown();
}

static void the_longest_line_fits(void)
{
    static char text[CHANNEL_LOG_BYTES_MAX];

    memset(text, 'x', sizeof(text));
    begin();
    agent_channel_credit_logs(channel, 0);
    say_line(1, LOG_INFO, text, sizeof(text));
    CHECK_INT(lines_n, 1);
    CHECK_INT(strlen(texts[0]), CHANNEL_LOG_BYTES_MAX);
    teardown();
}

static void an_older_agent_has_no_log(void)
{
    begin();
    agent_channel_credit_logs(channel, 0);
    say(CHANNEL_LOG, 0, -EPROTONOSUPPORT, 0);
    CHECK_INT(broken, 0);
    CHECK_INT(lines_n, 0);
    teardown();
}

static int quiet;

static void on_quiet(void *ctx, int error)
{
    (void)ctx;
    quiet = error == 0 ? 1 : error;
}

static struct channel_message ask_quiet(void)
{
    quiet = 0;
    agent_channel_quiet(channel, CHANNEL_QUIET_HOLD, on_quiet);
    turn();
    return hear();
}

/* It is quiet when its end of the channel is seen to be closed; that is no break. */
static void quiet_is_known_by_the_close(void)
{
    for (int unread = 0; unread < 2; unread++) {
        setup();
        greet();
        struct channel_message asked = ask_quiet();
        CHECK_INT(asked.op, CHANNEL_QUIET);
        CHECK_INT(asked.value, CHANNEL_QUIET_HOLD);
        agent_channel_connect(channel, AGENT_PORT, on_answer, NULL);
        if (!unread) {
            (void)hear(); /* else the close resets, before the answer is read */
        }
        struct channel_message answer = {.op = CHANNEL_QUIET, .seq = asked.seq};
        (void)send(agent, &answer, sizeof(answer), MSG_NOSIGNAL);
        fd_closep(&agent);
        turn();
        CHECK_INT(quiet, 1);
        CHECK_INT(broken, 0);
        CHECK_INT(answers_n, 1);
        CHECK_INT(answers[0], -ECONNRESET);
        channel = NULL;
        teardown();
    }
}

static void on_answer_again(void *ctx, int fd_or_error)
{
    answers[answers_n++] = fd_or_error;
    agent_channel_connect(ctx, AGENT_PORT, on_answer, NULL);
}

/* The edge asks again when a request fails, before anybody is told that the channel is gone. */
static void asking_again_while_it_closes_is_refused(void)
{
    setup();
    greet();
    agent_channel_connect(channel, AGENT_PORT, on_answer_again, channel);
    (void)hear();
    struct channel_message asked = ask_quiet();
    say(CHANNEL_QUIET, asked.seq, 0, 0);
    fd_closep(&agent);
    turn();
    CHECK_INT(quiet, 1);
    CHECK_INT(answers_n, 2);
    CHECK(answers[0] < 0 && answers[1] < 0);
    channel = NULL;
    teardown();
}

static void who_cannot_be_quiet_says_so(void)
{
    setup();
    greet();
    struct channel_message asked = ask_quiet();
    say(CHANNEL_QUIET, asked.seq, -EPROTONOSUPPORT, 0);
    CHECK_INT(quiet, -EPROTONOSUPPORT);
    CHECK_INT(broken, 0);
    (void)ask_quiet();
    fd_closep(&agent); /* without an answer */
    turn();
    CHECK_INT(quiet, -ECONNRESET);
    CHECK_INT(broken, 1);
    channel = NULL;
    teardown();

    setup();
    greet();
    say(CHANNEL_QUIET, 7, 0, 0);
    CHECK_INT(broken, 1);
    channel = NULL;
    teardown();
}

/* Its word alone would hold up a pause, and with it the end of the sandbox's time. */
static void who_says_it_is_quiet_and_stays_is_cut_off(void)
{
    setup();
    greet();
    struct channel_message asked = ask_quiet();
    say(CHANNEL_QUIET, asked.seq, 0, 0);
    CHECK_INT(quiet, 0);
    while (quiet == 0 && uv_run(&loop, UV_RUN_ONCE)) {
        ; /* until CHANNEL_TIMEOUT_MS have passed */
    }
    CHECK_INT(quiet, -ECONNRESET);
    CHECK_INT(broken, 1);
    CHECK(strstr(broken_why, "does not close") != NULL);
    teardown();
}

static void last_words_are_heard(void)
{
    struct channel_message message = {.op = CHANNEL_LOG, .seq = 1};
    struct channel_log log = {.level = LOG_INFO};
    char data[sizeof(message) + sizeof(log) + 1];

    begin();
    agent_channel_credit_logs(channel, 0);
    memcpy(data, &message, sizeof(message));
    memcpy(data + sizeof(message), &log, sizeof(log));
    data[sizeof(data) - 1] = 'x';
    CHECK_INT(send(agent, data, sizeof(data), 0), sizeof(data)); /* and the loop does not run */
    agent_channel_drain_logs(channel);
    CHECK_INT(lines_n, 1);
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
        {"questions share a count", questions_share_a_count},
        {"too many questions break", too_many_questions_break},
        {"too many requests are refused", too_many_requests_are_refused},
        {"lines come within credit", lines_come_within_credit},
        {"bad lines break", bad_lines_break},
        {"the longest line fits", the_longest_line_fits},
        {"an older agent has no log", an_older_agent_has_no_log},
        {"quiet is known by the close", quiet_is_known_by_the_close},
        {"asking again while it closes is refused", asking_again_while_it_closes_is_refused},
        {"who cannot be quiet says so", who_cannot_be_quiet_says_so},
        {"who says it is quiet and stays is cut off", who_says_it_is_quiet_and_stays_is_cut_off},
        {"last words are heard", last_words_are_heard},
    };

    return check_run(tests, countof(tests));
}
