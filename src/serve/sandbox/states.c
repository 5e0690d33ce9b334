#include "serve/sandbox/states.h"

#include "lib/base/log.h"
#include "serve/sandbox/internal.h"

/* ---- the tables ---- */

const struct phase sandbox_states[SANDBOX_STATES] = {
    /* A new one is created, parked, or loaded from a row that says running or paused. A row that
     * cannot be used is dropped. */
    [SANDBOX_NEW] = {"new", PHASE(SANDBOX_STARTING) | PHASE(SANDBOX_PARKING) |
                                PHASE(SANDBOX_RUNNING) | PHASE(SANDBOX_PAUSED) |
                                PHASE(SANDBOX_KILLING)},
    [SANDBOX_PARKING] = {"parking", PHASE(SANDBOX_PARKED) | PHASE(SANDBOX_KILLING)},
    [SANDBOX_PARKED] = {"parked", PHASE(SANDBOX_STARTING) | PHASE(SANDBOX_KILLING)},
    [SANDBOX_STARTING] = {"starting", PHASE(SANDBOX_RUNNING) | PHASE(SANDBOX_KILLING)},
    [SANDBOX_RUNNING] = {"running", PHASE(SANDBOX_PAUSING) | PHASE(SANDBOX_KILLING)},
    [SANDBOX_PAUSING] = {"pausing",
                         PHASE(SANDBOX_PAUSED) | PHASE(SANDBOX_RUNNING) | PHASE(SANDBOX_KILLING)},
    [SANDBOX_PAUSED] = {"paused", PHASE(SANDBOX_RESUMING) | PHASE(SANDBOX_KILLING)},
    [SANDBOX_RESUMING] = {"resuming",
                          PHASE(SANDBOX_RUNNING) | PHASE(SANDBOX_PAUSED) | PHASE(SANDBOX_KILLING)},
    [SANDBOX_KILLING] = {"killing", 0},
};

const uint32_t timer_states[SANDBOX_TIMERS] = {
    [TIMER_START] = PHASE(SANDBOX_STARTING) | PHASE(SANDBOX_PARKING) | PHASE(SANDBOX_RESUMING),
    [TIMER_DRAIN] = PHASE(SANDBOX_PAUSING),
    [TIMER_LIFETIME] = PHASE(SANDBOX_RUNNING),
    [TIMER_RETENTION] = PHASE(SANDBOX_PAUSED),
};

const struct phase save_phases[SAVE_PHASES] = {
    /* The daemon before may have asked for the same pause: it is found, and recorded. */
    [SAVE_WAITING] = {"waiting", PHASE(SAVE_CHECKING) | PHASE(SAVE_QUIETING) |
                                     PHASE(SAVE_RECORDING) | PHASE(SAVE_OVER)},
    [SAVE_CHECKING] = {"checking", PHASE(SAVE_CHECKED) | PHASE(SAVE_OVER),
                       "`KEEPER_SAVE` with LOOK, a dry run: a process that is traced, or holds "
                       "what cannot be saved, refuses the pause before anything has ended for it",
                       "it runs"},
    [SAVE_CHECKED] = {"checked", PHASE(SAVE_QUIETING) | PHASE(SAVE_RECORDING) | PHASE(SAVE_OVER)},
    [SAVE_QUIETING] = {"quieting",
                       PHASE(SAVE_DRAINING) | PHASE(SAVE_WRITING) | PHASE(SAVE_RECORDING) |
                           PHASE(SAVE_OVER),
                       "the agent ends its streams and is quiet; the channel is closed",
                       "it runs; the next hello ends the quiet"},
    [SAVE_DRAINING] = {"draining", PHASE(SAVE_WRITING) | PHASE(SAVE_RECORDING) | PHASE(SAVE_OVER),
                       "calls to the agent end, and after 2 s the rest are cut off; what services "
                       "answer is held: the daemon stops reading it",
                       "it runs, and what was held goes on"},
    [SAVE_WRITING] = {"writing", PHASE(SAVE_UNKNOWN) | PHASE(SAVE_RECORDING) | PHASE(SAVE_OVER),
                      "`KEEPER_SAVE` with STOP and SYNC: disk and images are synced, then the "
                      "jail ends",
                      "the daemon died: the row says running, there is no jail, and the save is "
                      "found by its name: paused"},
    [SAVE_UNKNOWN] = {"unknown", PHASE(SAVE_RECORDING) | PHASE(SAVE_OVER),
                      "only if the keeper died: the daemon attaches to the jail when the next "
                      "keeper is there",
                      "what the keeper has decides: a jail that can be attached runs, a whole "
                      "save is a pause"},
    [SAVE_RECORDING] = {"recording", PHASE(SAVE_OVER),
                        "what was held ends; the row, with its event, is committed and synced",
                        "paused"},
    [SAVE_OVER] = {"over", 0, "the caller is told; the disk that the jail had is destroyed",
                   "paused"},
};

const struct phase start_phases[START_PHASES] = {
    /* A claimed jail is there already. */
    [START_NEW] = {"new", PHASE(START_REFUSED) | PHASE(START_WAITING) | PHASE(START_MAKING) |
                              PHASE(START_CONFIGURING)},
    [START_REFUSED] = {"refused", 0},
    [START_WAITING] = {"waiting", PHASE(START_MAKING)},
    [START_MAKING] = {"making", PHASE(START_ANSWERED),
                      "`KEEPER_RESTORE` (or CREATE, without memory) from the save",
                      "paused; the jail is destroyed"},
    /* The save of a template may be unusable: the jail is made anew without it. */
    [START_ANSWERED] = {"answered", PHASE(START_MAKING) | PHASE(START_CONFIGURING)},
    [START_CONFIGURING] = {"configuring", PHASE(START_COMMAND) | PHASE(START_READY),
                           "the row, and `/init` with the sandbox's token and environment; then "
                           "the caller is told",
                           "running if the row is there; a machine that loses power here comes "
                           "back with it paused, as it was"},
    [START_COMMAND] = {"command", PHASE(START_READY)},
    [START_READY] = {"ready", 0},
};

const struct phase start_rows[ROW_PHASES] = {
    [ROW_NONE] = {"none", PHASE(ROW_UNWANTED) | PHASE(ROW_GIVEN)},
    [ROW_UNWANTED] = {"unwanted", 0},
    [ROW_GIVEN] = {"given", PHASE(ROW_SAVED) | PHASE(ROW_NONE)},
    [ROW_SAVED] = {"saved", 0},
};

const struct phase forget_phases[FORGET_PHASES] = {
    [FORGET_NOT] = {"kept", PHASE(FORGET_WANTED)},
    [FORGET_WANTED] = {"unwanted", PHASE(FORGET_SETTLING)},
    [FORGET_SETTLING] = {"settling", PHASE(FORGET_ASKED) | PHASE(FORGET_WANTED) | PHASE(FORGET_NOT),
                         "a synced write to the store, so that the row is durable", "the same"},
    [FORGET_ASKED] = {"forgetting", PHASE(FORGET_NOT) | PHASE(FORGET_WANTED),
                      "`KEEPER_FORGET` of the save", "running; the next start forgets it"},
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

bool save_set_phase(struct save *save, enum save_phase phase)
{
    if (!phase_allows(save_phases, save->phase, phase, "the save of sandbox", save->sb->id)) {
        return false;
    }
    save->phase = phase;
    return true;
}

bool sandbox_is_users(const struct sandbox *sb)
{
    return !sb->internal && sb->state != SANDBOX_PARKING && sb->state != SANDBOX_PARKED;
}
