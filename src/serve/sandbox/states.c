#include "serve/sandbox/states.h"
#include "lib/base/clock.h"

#include "lib/base/log.h"
#include "serve/sandbox/internal.h"

/* ---- the tables ---- */

const struct phase sandbox_states[SANDBOX_STATES] = {
    /* A new one is created, parked, or loaded from a row that says running or paused. A row that
     * cannot be used is dropped. */
    [SANDBOX_NEW] = {.name = "new",
                     .next = PHASE(SANDBOX_STARTING) | PHASE(SANDBOX_PARKING) |
                             PHASE(SANDBOX_RUNNING) | PHASE(SANDBOX_PAUSED) |
                             PHASE(SANDBOX_KILLING)},
    [SANDBOX_PARKING] = {.name = "parking", .next = PHASE(SANDBOX_PARKED) | PHASE(SANDBOX_KILLING)},
    [SANDBOX_PARKED] = {.name = "parked", .next = PHASE(SANDBOX_STARTING) | PHASE(SANDBOX_KILLING)},
    [SANDBOX_STARTING] = {.name = "starting",
                          .next = PHASE(SANDBOX_RUNNING) | PHASE(SANDBOX_KILLING)},
    [SANDBOX_RUNNING] = {.name = "running",
                         .next = PHASE(SANDBOX_PAUSING) | PHASE(SANDBOX_KILLING)},
    [SANDBOX_PAUSING] = {.name = "pausing",
                         .next = PHASE(SANDBOX_PAUSED) | PHASE(SANDBOX_RUNNING) |
                                 PHASE(SANDBOX_KILLING)},
    [SANDBOX_PAUSED] = {.name = "paused", .next = PHASE(SANDBOX_RESUMING) | PHASE(SANDBOX_KILLING)},
    [SANDBOX_RESUMING] = {.name = "resuming",
                          .next = PHASE(SANDBOX_RUNNING) | PHASE(SANDBOX_PAUSED) |
                                  PHASE(SANDBOX_KILLING)},
    [SANDBOX_KILLING] = {.name = "killing", .next = 0},
};

const uint32_t timer_states[SANDBOX_TIMERS] = {
    [TIMER_START] = PHASE(SANDBOX_STARTING) | PHASE(SANDBOX_PARKING) | PHASE(SANDBOX_RESUMING),
    [TIMER_DRAIN] = PHASE(SANDBOX_PAUSING),
    [TIMER_LIFETIME] = PHASE(SANDBOX_RUNNING),
    [TIMER_RETENTION] = PHASE(SANDBOX_PAUSED),
};

const struct phase save_phases[SAVE_PHASES] = {
    /* The daemon before may have asked for the same pause: then it is found and recorded. */
    [SAVE_WAITING] = {.name = "waiting",
                      .next = PHASE(SAVE_CHECKING) | PHASE(SAVE_ASKING) | PHASE(SAVE_QUIETING) |
                              PHASE(SAVE_RECORDING) | PHASE(SAVE_OVER)},
    /* A fork that cannot do without the memory waits again, and is quieted next. */
    [SAVE_ASKING] = {.name = "asking",
                     .next = PHASE(SAVE_TAKING) | PHASE(SAVE_WAITING) | PHASE(SAVE_OVER)},
    [SAVE_TAKING] = {.name = "taking",
                     .next = PHASE(SAVE_ASKING) | PHASE(SAVE_WAITING) | PHASE(SAVE_OVER)},
    [SAVE_CHECKING] =
        {.name = "checking",
         .next = PHASE(SAVE_CHECKED) | PHASE(SAVE_OVER),
         .happens = "`KEEPER_SAVE` with LOOK, a dry run: a process that is traced, or holds "
                    "what cannot be saved, refuses the pause before anything has ended for it",
         .crash = "it runs"},
    [SAVE_CHECKED] = {.name = "checked",
                      .next = PHASE(SAVE_QUIETING) | PHASE(SAVE_RECORDING) | PHASE(SAVE_OVER)},
    [SAVE_QUIETING] = {.name = "quieting",
                       .next = PHASE(SAVE_DRAINING) | PHASE(SAVE_WRITING) | PHASE(SAVE_RECORDING) |
                               PHASE(SAVE_OVER),
                       .happens = "the agent ends its streams and is quiet; the channel is closed",
                       .crash = "it runs; the next hello ends the quiet"},
    [SAVE_DRAINING] =
        {.name = "draining",
         .next = PHASE(SAVE_WRITING) | PHASE(SAVE_RECORDING) | PHASE(SAVE_OVER),
         .happens = "calls to the agent end, and after 2 s the rest are cut off; what services "
                    "answer is held: the daemon stops reading it",
         .crash = "it runs, and what was held goes on"},
    [SAVE_WRITING] =
        {.name = "writing",
         .next = PHASE(SAVE_UNKNOWN) | PHASE(SAVE_RECORDING) | PHASE(SAVE_OVER),
         .happens = "`KEEPER_SAVE` with STOP and SYNC: disk and images are synced, then the "
                    "jail ends",
         .crash = "the daemon died: the row says running, there is no jail, and the save is "
                  "found by its name: paused"},
    [SAVE_UNKNOWN] = {.name = "unknown",
                      .next = PHASE(SAVE_RECORDING) | PHASE(SAVE_OVER),
                      .happens =
                          "only if the keeper died: the daemon attaches to the jail when the next "
                          "keeper is there",
                      .crash =
                          "what the keeper has decides: a jail that can be attached runs, a whole "
                          "save is a pause"},
    [SAVE_RECORDING] = {.name = "recording",
                        .next = PHASE(SAVE_OVER),
                        .happens =
                            "what was held ends; the row, with its event, is committed and synced",
                        .crash = "paused"},
    [SAVE_OVER] = {.name = "over",
                   .next = 0,
                   .happens = "the caller is told; the disk that the jail had is destroyed",
                   .crash = "paused"},
};

const struct phase start_phases[START_PHASES] = {
    /* A claimed jail is there already. */
    [START_NEW] = {.name = "new",
                   .next = PHASE(START_REFUSED) | PHASE(START_WAITING) | PHASE(START_MAKING) |
                           PHASE(START_CONFIGURING)},
    [START_REFUSED] = {.name = "refused", .next = 0},
    [START_WAITING] = {.name = "waiting", .next = PHASE(START_MAKING)},
    [START_MAKING] = {.name = "making",
                      .next = PHASE(START_ANSWERED),
                      .happens = "`KEEPER_RESTORE` (or CREATE, without memory) from the save",
                      .crash = "paused; the jail is destroyed"},
    /* The save of a template may be unusable: the jail is made anew without it. */
    [START_ANSWERED] = {.name = "answered", .next = PHASE(START_MAKING) | PHASE(START_CONFIGURING)},
    [START_CONFIGURING] =
        {.name = "configuring",
         .next = PHASE(START_COMMAND) | PHASE(START_READY),
         .happens = "the row, and `/init` with the sandbox's token and environment; then "
                    "the caller is told",
         .crash = "running if the row is there; a machine that loses power here comes "
                  "back with it paused, as it was"},
    [START_COMMAND] = {.name = "command", .next = PHASE(START_READY)},
    [START_READY] = {.name = "ready", .next = 0},
};

const struct phase start_rows[ROW_PHASES] = {
    [ROW_NONE] = {.name = "none", .next = PHASE(ROW_UNWANTED) | PHASE(ROW_GIVEN)},
    [ROW_UNWANTED] = {.name = "unwanted", .next = 0},
    [ROW_GIVEN] = {.name = "given", .next = PHASE(ROW_SAVED) | PHASE(ROW_NONE)},
    [ROW_SAVED] = {.name = "saved", .next = 0},
};

const struct phase forget_phases[FORGET_PHASES] = {
    [FORGET_NOT] = {.name = "kept", .next = PHASE(FORGET_WANTED)},
    [FORGET_WANTED] = {.name = "unwanted", .next = PHASE(FORGET_SETTLING)},
    [FORGET_SETTLING] = {.name = "settling",
                         .next = PHASE(FORGET_ASKED) | PHASE(FORGET_WANTED) | PHASE(FORGET_NOT),
                         .happens = "a synced write to the store, so that the row is durable",
                         .crash = "the same"},
    [FORGET_ASKED] = {.name = "forgetting",
                      .next = PHASE(FORGET_NOT) | PHASE(FORGET_WANTED),
                      .happens = "`KEEPER_FORGET` of the save",
                      .crash = "running; the next start forgets it"},
};

/* A keeper that goes away makes the whole pass begin again. */
const struct phase adopt_phases[ADOPT_PHASES] = {
    [ADOPT_WAITING] = {.name = "waiting", .next = PHASE(ADOPT_SAVES)},
    [ADOPT_SAVES] = {.name = "saves", .next = PHASE(ADOPT_ATTACHING) | PHASE(ADOPT_WAITING)},
    [ADOPT_ATTACHING] = {.name = "attaching", .next = PHASE(ADOPT_JAILS)},
    [ADOPT_JAILS] = {.name = "jails", .next = PHASE(ADOPT_READY) | PHASE(ADOPT_WAITING)},
    [ADOPT_READY] = {.name = "ready", .next = 0},
};

/* ---- the steps ---- */

bool phase_allows(const struct phase *table, unsigned from, unsigned to, const char *what,
                  const char *id)
{
    if (table[from].next & PHASE(to)) {
        return true;
    }
    log_error("%s %s cannot go from '%s' to '%s'", what, id, table[from].name, table[to].name);
    return false;
}

static void count(struct sandbox *sb, int change)
{
    if (!sb->internal) {
        sb->all->in_state[sb->state] += change;
    }
}

static void stop_other_timers(struct sandbox *sb)
{
    for (size_t i = 0; i < SANDBOX_TIMERS; i++) {
        if (!(timer_states[i] & PHASE(sb->state))) {
            (void)uv_timer_stop(&sb->timers[i]);
        }
    }
}

bool sandbox_set_state(struct sandbox *sb, enum sandbox_state state)
{
    if (!phase_allows(sandbox_states, sb->state, state, "sandbox", sb->id)) {
        return false;
    }
    count(sb, -1);
    sb->state = state;
    count(sb, +1);
    stop_other_timers(sb);
    usage_sums_update(sb);
    return true;
}

/* A step is over when the phase that follows it begins. */
static void save_mark(struct save *save, enum save_phase phase)
{
    const struct tracer *tracer = &save->sb->all->use.tracer;
    const struct trace_attribute id = {.name = "sandbox.id", .text = save->sb->id};
    bool wrote =
        save->phase == SAVE_WRITING || save->phase == SAVE_UNKNOWN || save->phase == SAVE_TAKING;
    const char *name = phase == SAVE_WRITING            ? "save.freeze"
                       : wrote && phase != SAVE_UNKNOWN ? "save.dump"
                       : save->phase == SAVE_RECORDING  ? "save.record"
                                                        : NULL;

    if (name && trace_wanted(tracer, &save->trace)) {
        int64_t now_us = clock_mono_us();

        trace_step(tracer, &save->trace, name, save->step_us, now_us, &id, 1);
        save->step_us = now_us;
    }
}

bool save_set_phase(struct save *save, enum save_phase phase)
{
    if (!phase_allows(save_phases, save->phase, phase, "the save of sandbox", save->sb->id)) {
        return false;
    }
    save_mark(save, phase);
    save->phase = phase;
    return true;
}

bool sandbox_is_users(const struct sandbox *sb)
{
    return !sb->internal && sb->state != SANDBOX_PARKING && sb->state != SANDBOX_PARKED;
}
