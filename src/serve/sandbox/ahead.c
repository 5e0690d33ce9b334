/* ahead.c - connections to the agent of a parked jail that are made before anybody needs them: the
 * one on which it will be told who it is, and the one that the first request from outside takes.
 *
 * Whoever dials gets them as if they had just been made. What nobody has asked for some time after
 * the claim is closed again, and nothing of them outlives the jail or a pause. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/foreign.h"
#include "serve/sandbox/internal.h"
#include "wire/channel.h"

enum { AHEAD_MS = 30 * 1000 };

struct ahead {
    struct ahead *prev, *next; /* in all->aheads, once it is claimed: the first is the oldest */
    struct sandbox *sb;
    int control, agent; /* -1: none */
    int64_t claimed_ms; /* 0: it lies parked */
};

static int *place_of(struct ahead *ahead, uint32_t port)
{
    return !ahead                         ? NULL
           : port == CHANNEL_PORT_CONTROL ? &ahead->control
           : port == AGENT_PORT           ? &ahead->agent
                                          : NULL;
}

/* ---- making ---- */

static void dialed(struct sandbox *sb, uint32_t port, int fd_or_error)
{
    scoped_foreign fd = fd_or_error;
    int *place = place_of(sb->ahead, port);

    if (fd >= 0 && place && *place < 0 && sb->ahead->claimed_ms == 0) {
        *place = move_fd(&fd);
    }
    sandbox_release(sb);
}

static void on_control(void *ctx, int fd_or_error)
{
    dialed(ctx, CHANNEL_PORT_CONTROL, fd_or_error);
}

static void on_agent(void *ctx, int fd_or_error)
{
    dialed(ctx, AGENT_PORT, fd_or_error);
}

void ahead_dial(struct sandbox *sb)
{
    struct ahead *ahead = xnew(struct ahead);

    sandbox_hold(sb);
    sandbox_hold(sb);
    sandbox_dial(sb, CHANNEL_PORT_CONTROL, on_control, sb);
    sandbox_dial(sb, AGENT_PORT, on_agent, sb);
    *ahead = (struct ahead){.sb = sb, .control = -1, .agent = -1};
    sb->ahead = ahead;
}

/* ---- taking ---- */

/* The agent neither speaks first nor has it closed the connection. */
static bool is_silent(int fd)
{
    char byte;

    return fd >= 0 && recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static void claim(struct ahead *ahead)
{
    ahead->claimed_ms = clock_mono_ms();
    DL_APPEND(ahead->sb->all->aheads, ahead);
}

int ahead_take(struct sandbox *sb, uint32_t port)
{
    int *place = place_of(sb->ahead, port);

    if (!place) {
        return -1;
    }
    int fd = is_silent(*place) ? move_fd(place) : -1;
    if (port == AGENT_PORT) {
        ahead_drop(sb);
    } else if (sb->ahead->claimed_ms == 0) {
        claim(sb->ahead);
    }
    return fd;
}

void ahead_drop(struct sandbox *sb)
{
    struct ahead *ahead = move_ptr(&sb->ahead);

    if (!ahead) {
        return;
    }
    if (ahead->claimed_ms) {
        DL_DELETE(sb->all->aheads, ahead);
    }
    foreign_closep(&ahead->control);
    foreign_closep(&ahead->agent);
    free(ahead);
}

void ahead_expire(struct sandboxes *all)
{
    int64_t before_ms = clock_mono_ms() - AHEAD_MS;

    while (all->aheads && all->aheads->claimed_ms <= before_ms) {
        ahead_drop(all->aheads->sb);
    }
}
