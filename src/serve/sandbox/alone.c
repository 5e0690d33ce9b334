/* alone.c - the save of a fork without CRIU, where the agent is the sandbox's only process.
 *
 *      CHANNEL_ALONE ─► KEEPER_SAVE with ALONE ─► CHANNEL_ALONE ─► done
 *      would the agent   is it alone, says the     has nothing
 *      be missed?        kernel; the disk          begun meanwhile?
 *
 * Any other answer, and any failure, gives this up: the fork is saved with its memory then, as if
 * nobody had asked. An agent that lies harms the forks of its own sandbox alone. The channel stays
 * open, and no stream is touched.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "serve/sandbox/internal.h"
#include "wire/channel.h"

struct question {
    struct sandbox *sb; /* counted */
    char name[KEEPER_SAVED_BYTES];
    bool taken; /* the keeper has saved the disk under that name */
};

static struct question *question_new(struct sandbox *sb)
{
    struct question *question = xnew(struct question);

    question->sb = sb;
    question->taken = sb->saves->alone->taken;
    memcpy(question->name, sb->saves->name, sizeof(question->name));
    sandbox_hold(sb);
    return question;
}

static void question_free(struct question *question)
{
    sandbox_release(question->sb);
    free(question);
}

/* The save that the question is about; NULL: it is over, because the sandbox was killed. */
static struct save *save_of(const struct question *question, enum save_phase phase)
{
    struct sandbox *sb = question->sb;

    return save_is(sb, phase) && strcmp(sb->saves->name, question->name) == 0 ? sb->saves : NULL;
}

static void give_up(struct sandbox *sb, const char *why)
{
    struct save *save = sb->saves;

    log_debug("sandbox %s: forked with its memory: %s", sb->id, why);
    if (save->phase == SAVE_TAKING || save->alone->taken) {
        saved_forget(sb->all, save->name);
    }
    alone_fini(save->alone);
    save->alone = NULL;
    save->flags = KEEPER_SAVE_MEMORY;
    saved_name_fork(save);
    save_set_phase(save, SAVE_WAITING);
    save_next(sb);
}

static void ask(struct sandbox *sb);

/* ---- the keeper ---- */

static void killed_meanwhile(const struct question *question)
{
    struct sandbox *sb = question->sb;

    if (!sb->all->closed) {
        saved_forget(sb->all, question->name);
        if (sb->destroy_due) {
            destroy_jail(sb->all, sb->id, &sb->jail, sb->destroy_slot);
        }
    }
    sb->destroy_due = false;
}

static void on_taken(void *ctx, const struct keeper_answer *answer, int fds[KEEPER_FDS_MAX])
{
    struct question *question = ctx;
    struct sandbox *sb = question->sb;
    struct save *save = save_of(question, SAVE_TAKING);

    if (!save) {
        killed_meanwhile(question);
    } else if (answer->status < 0) {
        give_up(sb, answer->err.msg);
    } else if (!sb->channel) {
        give_up(sb, "its channel has closed");
    } else {
        save->alone->taken = true;
        save->alone->saved = answer->saved;
        for (size_t i = 0; i < ALONE_FDS; i++) {
            save->alone->fds[i] = move_fd(&fds[i]);
        }
        ask(sb);
    }
    question_free(question);
}

static void take(struct sandbox *sb)
{
    struct keeper_request req = {.op = KEEPER_SAVE, .jail = sb->jail};

    memcpy(req.id, sb->id, sizeof(sb->id));
    memcpy(req.save.name, sb->saves->name, sizeof(sb->saves->name));
    req.save.flags = KEEPER_SAVE_ALONE;
    save_set_phase(sb->saves, SAVE_TAKING);
    keeper_client_ask_for(sb->all->use.keeper, sb->team_id, &req, on_taken, question_new(sb));
}

/* ---- the agent ---- */

static void answered(struct sandbox *sb, uint32_t requests)
{
    static const struct err none;
    struct save *save = sb->saves;
    struct alone *alone = save->alone;

    if (!alone->taken) {
        alone->requests = requests;
        take(sb);
    } else if (requests == alone->requests) {
        save_set_phase(save, SAVE_OVER);
        save_finish(sb, 0, &none, &alone->saved);
    } else {
        give_up(sb, "something began while its disk was copied");
    }
}

static void on_answer(void *ctx, int requests_or_error)
{
    struct question *question = ctx;
    struct sandbox *sb = question->sb;
    struct save *save = save_of(question, SAVE_ASKING);

    if (!save && question->taken && !sb->all->closed) {
        saved_forget(sb->all, question->name);
    } else if (save && requests_or_error < 0) {
        give_up(sb, requests_or_error == -EBUSY ? "its agent is not alone"
                                                : strerrordesc_np(-requests_or_error));
    } else if (save) {
        answered(sb, (uint32_t)requests_or_error);
    }
    question_free(question);
}

static void ask(struct sandbox *sb)
{
    save_set_phase(sb->saves, SAVE_ASKING);
    agent_channel_ask(sb->channel, CHANNEL_ALONE, 0, -1, on_answer, question_new(sb));
}

void alone_start(struct sandbox *sb)
{
    ask(sb);
}

bool alone_possible(const struct sandbox *sb)
{
    return json_array_size(json_object_get(sb->options, "volumeMounts")) == 0;
}

void alone_fini(struct alone *alone)
{
    for (size_t i = 0; i < ALONE_FDS; i++) {
        fd_closep(&alone->fds[i]);
    }
}

bool alone_has_save(const struct save *save)
{
    return !save->alone || save->alone->fds[KEEPER_FD_DISK] < 0;
}
