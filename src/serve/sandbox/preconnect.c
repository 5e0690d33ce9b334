/* preconnect.c - two connections to the agent of a parked jail, made before a caller needs them:
 * the control connection for /init, and the one that the first request from outside takes.
 *
 * A dial gets them as if they had just been made. A connection that no dial has taken some time
 * after the claim is closed again. None of them outlives the jail or a pause. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/foreign.h"
#include "serve/sandbox/internal.h"
#include "wire/channel.h"

enum { PRECONNECT_MS = 30 * 1000 };

struct preconnect {
    /* In all->preconnects, once it is claimed: the first is the oldest. */
    struct preconnect *prev, *next;
    struct sandbox *sb;
    int control, agent; /* -1: none */
    int64_t claimed_ms; /* 0: it lies parked */
};

static int *place_of(struct preconnect *pre, uint32_t port)
{
    return !pre                           ? NULL
           : port == CHANNEL_PORT_CONTROL ? &pre->control
           : port == AGENT_PORT           ? &pre->agent
                                          : NULL;
}

/* ---- making ---- */

static void dialed(struct sandbox *sb, uint32_t port, int fd_or_error)
{
    scoped_foreign fd = fd_or_error;
    int *place = place_of(sb->preconnect, port);

    if (fd >= 0 && place && *place < 0 && sb->preconnect->claimed_ms == 0) {
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

void preconnect_dial(struct sandbox *sb)
{
    struct preconnect *pre = xnew(struct preconnect);

    sandbox_hold(sb);
    sandbox_hold(sb);
    sandbox_dial(sb, CHANNEL_PORT_CONTROL, on_control, sb);
    sandbox_dial(sb, AGENT_PORT, on_agent, sb);
    *pre = (struct preconnect){.sb = sb, .control = -1, .agent = -1};
    sb->preconnect = pre;
}

/* ---- taking ---- */

/* The agent neither speaks first nor has it closed the connection. */
static bool is_silent(int fd)
{
    char byte;

    return fd >= 0 && recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static void claim(struct preconnect *pre)
{
    pre->claimed_ms = clock_mono_ms();
    DL_APPEND(pre->sb->all->preconnects, pre);
}

int preconnect_take(struct sandbox *sb, uint32_t port)
{
    int *place = place_of(sb->preconnect, port);

    if (!place) {
        return -1;
    }
    int fd = is_silent(*place) ? move_fd(place) : -1;
    if (port == AGENT_PORT) {
        preconnect_drop(sb);
    } else if (sb->preconnect->claimed_ms == 0) {
        claim(sb->preconnect);
    }
    return fd;
}

void preconnect_drop(struct sandbox *sb)
{
    struct preconnect *pre = move_ptr(&sb->preconnect);

    if (!pre) {
        return;
    }
    if (pre->claimed_ms) {
        DL_DELETE(sb->all->preconnects, pre);
    }
    foreign_closep(&pre->control);
    foreign_closep(&pre->agent);
    free(pre);
}

void preconnect_expire(struct sandboxes *all)
{
    int64_t before_ms = clock_mono_ms() - PRECONNECT_MS;

    while (all->preconnects && all->preconnects->claimed_ms <= before_ms) {
        preconnect_drop(all->preconnects->sb);
    }
}
