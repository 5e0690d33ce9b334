#include "channel_fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/base/fd.h"
#include "lib/base/fdpass.h"

uv_loop_t loop;
struct agent_channel *channel;
int agent = -1;
int broken, oom_asked;
bool broken_hostile;
char broken_why[128];
int answers[8], answers_n;
struct sandbox_log lines[8];
char texts[8][CHANNEL_LOG_BYTES_MAX + 1];
int lines_n;
uint32_t version;

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

void on_answer(void *ctx, int fd_or_error)
{
    (void)ctx;
    answers[answers_n++] = fd_or_error;
}

/* ---- the keeper ---- */

struct played_keeper keeper;

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

void keeper_answers(void)
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

void turn(void)
{
    for (int i = 0; i < 5; i++) {
        keeper_answers();
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
}

void setup_version(uint32_t agents)
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

void setup(void)
{
    setup_version(CHANNEL_VERSION_FIRST);
}

void teardown(void)
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

struct channel_message hear(void)
{
    struct channel_message message = {0};

    if (recv(agent, &message, sizeof(message), 0) != (ssize_t)sizeof(message)) {
        message.op = 0;
    }
    return message;
}

void say_with(const void *data, size_t len, const int *fds, size_t fds_n)
{
    (void)fdpass_send(agent, data, len, fds, fds_n, 0);
    turn();
}

void say(uint32_t op, uint32_t seq, int32_t status, uint32_t value)
{
    struct channel_message message = {.op = op, .seq = seq, .status = status, .value = value};

    say_with(&message, sizeof(message), NULL, 0);
}

void say_fds(uint32_t seq, const int *fds, size_t n)
{
    struct channel_message message = {.op = CHANNEL_CONNECT, .seq = seq};

    say_with(&message, sizeof(message), fds, n);
}

void greet(void)
{
    struct channel_message hello = hear();

    if (hello.op == CHANNEL_HELLO && hello.value == version) {
        say(CHANNEL_HELLO, 0, 0, version);
    }
}

uint32_t ask(void)
{
    agent_channel_connect(channel, AGENT_PORT, on_answer, NULL);
    struct channel_message question = hear();
    return question.op == CHANNEL_CONNECT && question.value == AGENT_PORT ? question.seq : 0;
}

uint32_t ask_giving(uint32_t port, int *fd)
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

int open_fds(void)
{
    int n = 0;

    for (int fd = 0; fd < 256; fd++) {
        n += fcntl(fd, F_GETFD) >= 0;
    }
    return n;
}
