/* jail.c - the daemon's hold on a jail: the channel to its agent, its network, and the watch for
 * its death.
 *
 * A channel that breaks while the jail lives is replaced through the keeper (KEEPER_ATTACH).
 *
 * The agent is the jail's first process, so the end of the channel also tells of the jail's death:
 * the daemon asks the keeper at once, which knows. Only a jail whose agent drops its channel and
 * lives on is watched by a pidfd from there on, and gets its next channel when a caller needs one.
 * All other jails do without that descriptor.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "serve/sandbox/internal.h"
#include "wire/channel.h"

/* ---- the channel ---- */

static void on_broken(void *ctx, const char *why, bool hostile)
{
    struct sandbox *sb = ctx;

    sb->channel = NULL;
    if (sb->start) {
        struct err err;
        (void)err_set(&err, EIO, "the sandbox's agent gave up: %s", why);
        start_lost(sb, &err);
    } else if (sb->state == SANDBOX_PARKED) {
        parked_drop(sb, "the channel to its agent broke");
    } else if (hostile) {
        log_warn("sandbox %s: %s: its agent was taken over, and the sandbox ends", sb->id, why);
        sandbox_kill(sb, SANDBOX_END_TAKEN_OVER, NULL, NULL);
    } else {
        if (log_turn(&sb->broke_told_ms)) {
            log_warn("sandbox %s: the channel to its agent broke: %s", sb->id, why);
        }
        sandbox_note_wrong(sb, "the connection to its agent broke: %s", why);
        sb->broke = true;
        if (!sb->pidfd) {
            sandbox_attach(sb);
        }
    }
}

struct oom_question {
    struct sandbox *sb; /* counted */
    struct agent_channel *channel;
};

static void on_oom_count(void *ctx, const struct keeper_answer *answer, int fds[KEEPER_FDS_MAX])
{
    struct oom_question *question = ctx;
    struct sandbox *sb = question->sb;

    (void)fds;
    if (answer->status == 0 && answer->usage.oom_kills > sb->oom_kills) {
        sb->oom_kills = answer->usage.oom_kills;
        sandbox_note_wrong(sb, "out of memory: the kernel ended a process of it, %u by now",
                           sb->oom_kills);
        if (log_turn(&sb->oom_told_ms)) {
            log_warn("sandbox %s: out of memory: the kernel killed in it, %u times by now", sb->id,
                     sb->oom_kills);
        }
    }
    if (sb->channel && sb->channel == question->channel) {
        agent_channel_answer_oom(sb->channel, answer->status == 0 ? answer->usage.oom_kills : 0);
    }
    sandbox_release(sb);
    free(question);
}

static void on_oom(void *ctx)
{
    struct sandbox *sb = ctx;
    struct oom_question *question = xnew(struct oom_question);
    struct keeper_request req = {.op = KEEPER_USAGE, .jail = sb->jail};

    *question = (struct oom_question){.sb = sb, .channel = sb->channel};
    sandbox_hold(sb);
    memcpy(req.id, sb->id, sizeof(sb->id));
    keeper_client_ask(sb->all->use.keeper, &req, on_oom_count, question);
}

static void on_log(void *ctx, const struct sandbox_log *log)
{
    struct sandbox *sb = ctx;
    const struct sandbox_log_sink *sink = &sb->all->use.logs;

    if (sink->attached) {
        sink->line(sink->ctx, sb, log);
    }
}

void sandbox_tell_used(struct sandbox *sb, const struct keeper_usage *usage)
{
    if (sb->channel && sb->state == SANDBOX_RUNNING) {
        agent_channel_tell_used(sb->channel, usage);
    }
}

void sandbox_log_credit(struct sandbox *sb, uint32_t seq)
{
    if (sb->channel) {
        agent_channel_credit_logs(sb->channel, seq);
    }
}

static const struct agent_channel_handler channel_handler = {
    .on_broken = on_broken, .on_oom = on_oom, .on_log = on_log};

/* ---- the jail ---- */

struct agent_channel_jail agent_channel_jail(struct keeper_client *keeper, const char *id, int past,
                                             const struct keeper_answer *answer,
                                             int fds[KEEPER_FDS_MAX])
{
    return (struct agent_channel_jail){
        .keeper = keeper,
        .id = id,
        .name = answer->jail,
        .version = answer->channel,
        .past = past,
        .sockets = {move_fd(&fds[KEEPER_FD_SOCKET]), move_fd(&fds[KEEPER_FD_SOCKET_2])},
    };
}

struct jail_poll {
    uv_poll_t poll;
    struct sandbox *sb; /* counted */
    int fd;
};

static void on_pidfd(uv_poll_t *poll, int status, int events)
{
    struct jail_poll *jail = poll->data;

    (void)status, (void)events;
    sandbox_died(jail->sb);
}

void sandbox_watch_jail(struct sandbox *sb, bool watched)
{
    if (!sb->pidfd) {
        return;
    }
    if (watched && uv_poll_start(&sb->pidfd->poll, UV_READABLE, on_pidfd) < 0) {
        abort(); /* the keeper gave us something that is not a pidfd */
    }
    if (!watched) {
        (void)uv_poll_stop(&sb->pidfd->poll);
    }
}

bool sandbox_is_up(const struct sandbox *sb)
{
    return sb->channel && agent_channel_is_open(sb->channel);
}

static void take_pidfd(struct sandbox *sb, int fd)
{
    struct jail_poll *jail = xnew(struct jail_poll);

    *jail = (struct jail_poll){.sb = sb, .fd = fd};
    if (uv_poll_init(sb->all->use.loop, &jail->poll, fd) < 0) {
        abort();
    }
    jail->poll.data = jail;
    sandbox_hold(sb);
    sb->pidfd = jail;
    sandbox_watch_jail(sb, true);
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct jail_poll *jail = handle->data;

    sandbox_release(jail->sb);
    free(jail);
}

void sandbox_drop_jail(struct sandbox *sb)
{
    struct jail_poll *jail = move_ptr(&sb->pidfd);

    sb->broke = false; /* the next jail is another */
    preconnect_drop(sb);
    agent_channel_close(move_ptr(&sb->channel));
    egress_close(move_ptr(&sb->net));
    if (jail) {
        uv_close((uv_handle_t *)&jail->poll, on_poll_closed);
        fd_closep(&jail->fd);
    }
}

void sandbox_take_jail(struct sandbox *sb, int past, const struct keeper_answer *answer,
                       int fds[KEEPER_FDS_MAX])
{
    struct egress *egress = sb->all->use.egress;

    sb->attached = true;
    if (sb->broke && !sb->pidfd) {
        take_pidfd(sb, move_fd(&fds[KEEPER_FD_PIDFD]));
    }
    if (egress && !sb->net && fds[KEEPER_FD_DNS_UDP] >= 0) {
        const struct egress_sockets sockets = {.gate = move_fd(&fds[KEEPER_FD_GATE]),
                                               .dns_udp = move_fd(&fds[KEEPER_FD_DNS_UDP])};
        sb->net = egress_open(egress, sb->id, sb->team_id, sb->options, &sockets);
        egress_share_destinations(sb->net, &sb->destinations);
    }
    agent_channel_close(sb->channel);
    const struct agent_channel_jail jail =
        agent_channel_jail(sb->all->use.keeper, sb->id, past, answer, fds);
    sb->channel = agent_channel_new(sb->all->use.loop, move_fd(&fds[KEEPER_FD_CHANNEL]), &jail,
                                    &channel_handler, sb);
    if (sb->all->use.logs.attached && sandbox_is_users(sb)) {
        sb->all->use.logs.attached(sb->all->use.logs.ctx, sb);
    }
}

static void on_init(struct sandbox *sb, int error, const struct err *err)
{
    if (error < 0 && sb->state != SANDBOX_KILLING) {
        log_warn("sandbox %s: its agent did not take its configuration again: %s", sb->id,
                 err->msg);
    }
}

/* Nothing that ran before the machine started can be there. */
static bool is_older_than_the_boot(const struct sandbox *sb)
{
    struct timespec up;

    if (clock_gettime(CLOCK_BOOTTIME, &up) < 0) {
        return false;
    }
    return sb->started_ms < clock_wall_ms() - (int64_t)up.tv_sec * 1000;
}

static void attach_failed(struct sandbox *sb, const struct keeper_answer *answer)
{
    if (answer->status == -ENOTCONN || answer->status == -ECONNRESET) {
        return; /* tried again when the keeper is back; dials wait for that */
    }
    log_warn("sandbox %s: attach: %s", sb->id, answer->err.msg);
    if (sb->attached && !save_is(sb, SAVE_UNKNOWN)) {
        sandbox_died(sb);
        return;
    }
    sandbox_lost(sb, is_older_than_the_boot(sb) ? SANDBOX_END_HOST_RESTART
                                                : "it was gone when the daemon looked for it");
}

static void attach_worked(struct sandbox *sb, const struct keeper_answer *answer,
                          int fds[KEEPER_FDS_MAX])
{
    struct err err;

    sandbox_take_jail(sb, CHANNEL_PAST_NONE, answer, fds);
    if (sb->init_due) {
        sb->init_due = false;
        sandbox_init_agent(sb, on_init);
    }
    if (save_is(sb, SAVE_UNKNOWN)) {
        (void)err_set(&err, EAGAIN, "the keeper ended while it saved the sandbox; try again");
        save_abort(sb, -EAGAIN, &err);
    }
    sandbox_resume_dials(sb);
    if (sb->channel) {
        agent_channel_spare_none(sb->channel); /* many may be adopted, and idle */
    }
    save_next(sb);
}

static void on_attached(void *ctx, const struct keeper_answer *answer, int fds[KEEPER_FDS_MAX])
{
    struct sandbox *sb = ctx;
    struct sandboxes *all = sb->all;

    sb->attaching = false;
    all->attaching_n--;
    if (sb->state != SANDBOX_RUNNING && !save_is(sb, SAVE_UNKNOWN)) {
        ; /* it ended, or is being paused */
    } else if (answer->status == 0 && fds[KEEPER_FD_PIDFD] >= 0 && fds[KEEPER_FD_CHANNEL] >= 0) {
        attach_worked(sb, answer, fds);
    } else {
        attach_failed(sb, answer);
    }
    adopt_pump(all);
    sandbox_release(sb);
}

void sandbox_attach(struct sandbox *sb)
{
    struct keeper_request req = {.op = KEEPER_ATTACH, .jail = sb->jail};

    bool saved =
        save_is(sb, SAVE_DRAINING) || save_is(sb, SAVE_WRITING); /* no channel may be open */

    if (sb->attaching || saved || (sb->state != SANDBOX_RUNNING && !save_is(sb, SAVE_UNKNOWN))) {
        return;
    }
    sb->attaching = true;
    sb->all->attaching_n++;
    sandbox_hold(sb);
    memcpy(req.id, sb->id, sizeof(sb->id));
    req.plan.network = sb->all->use.egress && !sb->net;
    keeper_client_ask(sb->all->use.keeper, &req, on_attached, sb);
}
