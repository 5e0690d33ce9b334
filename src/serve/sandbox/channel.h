/* channel.h - the daemon's end of the socket to a jail's agent (wire/channel.h has the messages).
 *
 * Owns:     the socket, the requests that wait for an answer, and sockets for new connections.
 * Needs:    a loop; the keeper, for those sockets.
 * Blocks:   never.
 * Threads:  the loop's.
 *
 * Connections to the jail's services and to the agent itself are made here (jail_tcp.h). The agent
 * is given its end of those that are for itself, and says whether it serves it.
 *
 * The agent lives where hostile code runs, so its messages are checked: an answer must belong to a
 * question and come once. Anything else, and a message of another size or version, breaks the
 * channel. A descriptor in any message says that the agent is in somebody else's hands. An agent of
 * the first release, which the keeper knows, makes those for itself and hands them out; they are
 * taken and closed by the rules of lib/base/foreign.h. Nothing the agent sends is kept in memory,
 * and a flood of messages is read a few at a time.
 */
#ifndef SANDBOX_CHANNEL_H
#define SANDBOX_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "serve/keeper/client.h"
#include "serve/sandbox/sandbox.h"

enum {
    CHANNEL_REQUESTS_MAX = 1024, /* waiting for an answer */
    CHANNEL_QUESTIONS_MAX = 64,  /* of the agent's, not answered yet */
    CHANNEL_BATCH = 32,          /* messages read before others have their turn */
    CHANNEL_OUT_MAX = 2048,      /* messages not yet taken by the socket */
    CHANNEL_TIMEOUT_MS = 10 * 1000,
    CHANNEL_KEEPER_MS = 200, /* until a keeper that is away is asked again */
};

struct agent_channel;

struct agent_channel_handler {
    /* Once, from the loop: the channel is closed already, and the requests under way are answered
     * with -ECONNRESET next. `why` is a clause for the log. hostile: the agent broke the protocol;
     * its jail must end, or a process in it keeps the descriptors that it handed over. */
    void (*on_broken)(void *ctx, const char *why, bool hostile);

    /* The agent wants to know how many processes the kernel killed for memory. Called again only
     * after agent_channel_answer_oom(), which answers all that asked before this call. */
    void (*on_oom)(void *ctx);

    /* A line of the agent's log, within the credit given. */
    void (*on_log)(void *ctx, const struct sandbox_log *log);
};

/* fd_or_error: a socket that done owns and that lib/base/foreign.h has rules for, -errno of the
 * connect or the agent's, -ETIMEDOUT, -ECONNRESET when the channel broke, -ENOTCONN when it was
 * closed. */
typedef void agent_channel_done(void *ctx, int fd_or_error);

/* Which jail it leads to. */
struct agent_channel_jail {
    struct keeper_client *keeper;
    const char *id; /* copied */
    struct keeper_jail name;
    uint32_t version;                 /* the keeper's word: CHANNEL_VERSION or _FIRST */
    int past;                         /* enum channel_past */
    int sockets[KEEPER_JAIL_SOCKETS]; /* of the keeper's answer, or -1; taken over */
};

/* As the keeper's answer to CREATE, ATTACH or RESTORE has it; takes the sockets out of fds. */
struct agent_channel_jail agent_channel_jail(struct keeper_client *keeper, const char *id, int past,
                                             const struct keeper_answer *answer,
                                             int fds[KEEPER_FDS_MAX]);

/* Takes the descriptor over, and says hello. */
struct agent_channel *agent_channel_new(uv_loop_t *loop, int fd,
                                        const struct agent_channel_jail *jail,
                                        const struct agent_channel_handler *handler, void *ctx);

/* Polls the socket: the loop may not have delivered the hang-up yet. */
bool agent_channel_is_open(const struct agent_channel *ch);

/* Asks the agent to be quiet (enum channel_quiet), so that its jail can be saved. The agent then
 * closes the channel, and `done` is called with 0: the channel is closed and freed, waiting
 * requests were told -ECONNRESET, and on_broken is not called. With -errno the agent is not quiet,
 * and the channel is unchanged or, if on_broken was called, broken. */
void agent_channel_quiet(struct agent_channel *ch, int how, void (*done)(void *ctx, int error));

/* -EAGAIN (to done, at once) when too many wait already. port: as CHANNEL_CONNECT has it, or one of
 * the jail's services: 127.0.0.1 first, and when that refuses, [::1]. */
void agent_channel_connect(struct agent_channel *ch, uint32_t port, agent_channel_done *done,
                           void *ctx);

/* Asks the agent CHANNEL_ALONE or CHANNEL_FILES, with a value and a descriptor that is taken over
 * (or -1). done gets the value of its answer, or -errno as above: -EPROTONOSUPPORT from older
 * agents. */
void agent_channel_ask(struct agent_channel *ch, uint32_t op, uint32_t value, int fd,
                       agent_channel_done *done, void *ctx);

void agent_channel_answer_oom(struct agent_channel *ch, uint32_t count);

/* Sends the agent the usage of its jail, to show inside. An agent that does not read gets
 * nothing. */
void agent_channel_tell_used(struct agent_channel *ch, const struct keeper_usage *usage);

/* The agent may drop lines up to seq, and send SANDBOX_LOG_WINDOW more. */
void agent_channel_credit_logs(struct agent_channel *ch, uint32_t seq);

/* Takes the lines that have come and were not read yet, before a close. */
void agent_channel_drain_logs(struct agent_channel *ch);

/* Closes the sockets that no request has needed yet. */
void agent_channel_spare_none(struct agent_channel *ch);

/* Answers waiting requests with -ENOTCONN before it returns. Accepts NULL. */
void agent_channel_close(struct agent_channel *ch);

#endif
