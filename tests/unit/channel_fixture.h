/* channel_fixture.h - the daemon's end of a channel, with the agent's end and the keeper in the
 * hands of a test. There is one channel at a time, from setup() to teardown(). */
#ifndef TESTS_UNIT_CHANNEL_FIXTURE_H
#define TESTS_UNIT_CHANNEL_FIXTURE_H

#include "check.h"
#include "serve/sandbox/channel.h"
#include "wire/channel.h"

extern uv_loop_t loop;
extern struct agent_channel *channel; /* NULL: it is closed, or broke */
extern uint32_t version;              /* the agent's */
extern int agent;                     /* its end */

/* Calls of the channel's handler since setup(). */
extern int broken, oom_asked;
extern bool broken_hostile;
extern char broken_why[128];
extern struct sandbox_log lines[8];
extern char texts[8][CHANNEL_LOG_BYTES_MAX + 1];
extern int lines_n;

/* Answers to agent_channel_connect(channel, port, on_answer, NULL): descriptors or -errno. */
extern int answers[8], answers_n;
void on_answer(void *ctx, int fd_or_error);

extern struct played_keeper {
    keeper_done *done; /* NULL: no request waits for an answer */
    void *ctx;
    uint32_t sockets_n;
    int asked;
    int error; /* of its answers */
} keeper;
void keeper_answers(void);

void setup(void); /* with an agent of the first release */
void setup_version(uint32_t agents);
void teardown(void);
void turn(void); /* a few rounds of the loop and of the keeper */

/* The agent's half. */
struct channel_message hear(void);
void say_with(const void *data, size_t len, const int *fds, size_t fds_n);
void say(uint32_t op, uint32_t seq, int32_t status, uint32_t value);
void say_fds(uint32_t seq, const int *fds, size_t n);
void greet(void);

/* Connects to the agent: the number of the question that it hears, 0 if it hears none. An agent of
 * the first release makes the connection; any other is given its end, *fd. */
uint32_t ask(void);
uint32_t ask_giving(uint32_t port, int *fd);

int open_fds(void);

#endif
