/* dial.c - connections to a port inside a sandbox, for callers.
 *
 * A dial is asked of the channel. While there is no channel it waits in sb->dials, also when the
 * keeper is away: the keeper is back soon, and the sandbox runs all the while. A dial that was
 * under way on a channel that broke is asked once more.
 */
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "serve/sandbox/internal.h"
#include "wire/channel.h"

struct dial {
    struct dial *prev, *next; /* in sb->dials */
    struct sandbox *sb;       /* counted */
    uint32_t port;
    int tries;
    bool wakes; /* a sandbox that has been paused meanwhile is resumed for it */
    void (*done)(void *ctx, int fd_or_error);
    void *ctx;
    uv_timer_t patience; /* for a channel; initialised when the dial first waits */
    bool has_patience;
};

/* ---- dials ---- */

static void on_patience_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void dial_finish(struct dial *dial, int fd_or_error)
{
    dial->sb->all->dials++;
    dial->sb->all->dials_failed += fd_or_error < 0;
    dial->done(dial->ctx, fd_or_error);
    sandbox_release(dial->sb);
    if (dial->has_patience) {
        uv_close((uv_handle_t *)&dial->patience, on_patience_closed);
    } else {
        free(dial);
    }
}

static void dial_start(struct dial *dial);

static void dial_answered(void *ctx, int fd_or_error)
{
    struct dial *dial = ctx;

    if (dial->sb->state == SANDBOX_KILLING && fd_or_error < 0) {
        dial_finish(dial, -ENOTCONN);
    } else if (fd_or_error == -ECONNRESET && dial->tries < SANDBOX_DIAL_TRIES) {
        dial_start(dial);
    } else {
        dial_finish(dial, fd_or_error == -ECONNRESET ? -ETIMEDOUT : fd_or_error);
    }
}

static void on_patience(uv_timer_t *timer)
{
    struct dial *dial = timer->data;

    DL_DELETE(dial->sb->dials, dial);
    dial_finish(dial, -ETIMEDOUT);
}

static void dial_wait(struct dial *dial)
{
    struct sandbox *sb = dial->sb;

    if (!dial->has_patience) {
        if (uv_timer_init(sb->all->use.loop, &dial->patience) < 0) {
            abort();
        }
        dial->patience.data = dial;
        dial->has_patience = true;
    }
    (void)uv_timer_start(
        &dial->patience, on_patience,
        sb->state == SANDBOX_RUNNING ? SANDBOX_ATTACH_WAIT_MS : SANDBOX_RESTORE_TIMEOUT_MS, 0);
    DL_APPEND(sb->dials, dial);
    sandbox_attach(sb);
}

static void dial_start(struct dial *dial)
{
    struct sandbox *sb = dial->sb;

    if (!sb->channel) {
        dial_wait(dial);
        return;
    }
    if (dial->has_patience) {
        (void)uv_timer_stop(&dial->patience);
    }
    dial->tries++;
    agent_channel_connect(sb->channel, dial->port, dial_answered, dial);
}

static void dial_new(struct sandbox *sb, uint32_t port, bool wakes,
                     void (*done)(void *ctx, int fd_or_error), void *ctx)
{
    struct dial *dial = xnew(struct dial);
    int fd = -1;

    *dial = (struct dial){.sb = sb, .port = port, .wakes = wakes, .done = done, .ctx = ctx};
    sandbox_hold(sb);
    if (sb->state == SANDBOX_KILLING) {
        dial_finish(dial, -ENOTCONN);
    } else if (sb->state == SANDBOX_PAUSED) {
        dial_finish(dial, -ESHUTDOWN);
    } else if (sb->state == SANDBOX_PAUSING ||
               (sb->state == SANDBOX_RESUMING && port != CHANNEL_PORT_CONTROL)) {
        dial_wait(dial); /* only the daemon connects before the agent has its configuration */
    } else if ((fd = preconnect_take(sb, port)) >= 0) {
        dial_finish(dial, fd);
    } else {
        dial_start(dial);
    }
}

void sandbox_dial(struct sandbox *sb, uint32_t port, void (*done)(void *ctx, int fd_or_error),
                  void *ctx)
{
    dial_new(sb, port, true, done, ctx);
}

void sandbox_dial_awake(struct sandbox *sb, uint32_t port, void (*done)(void *ctx, int fd_or_error),
                        void *ctx)
{
    dial_new(sb, port, false, done, ctx);
}

bool sandbox_dials_wake(struct sandbox *sb)
{
    struct dial *dial = NULL, *next = NULL;

    DL_FOREACH_SAFE (sb->dials, dial, next) {
        if (!dial->wakes) {
            DL_DELETE(sb->dials, dial);
            dial_finish(dial, -ESHUTDOWN);
        }
    }
    return sb->dials != NULL;
}

void sandbox_fail_dials(struct sandbox *sb, int error)
{
    struct dial *dial = NULL;

    while ((dial = sb->dials)) {
        DL_DELETE(sb->dials, dial);
        dial_finish(dial, error);
    }
}

void sandbox_resume_dials(struct sandbox *sb)
{
    struct dial *waiting = sb->dials;

    sb->dials = NULL;
    while (waiting) {
        struct dial *dial = waiting;
        DL_DELETE(waiting, dial);
        dial_start(dial);
    }
}
