#include "serve/sandbox/states.h"

#include "lib/base/log.h"
#include "serve/sandbox/internal.h"

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

bool phase_allows(const struct phase *table, unsigned from, unsigned to, const char *what,
                  const char *sandbox_id)
{
    if (table[from].next & PHASE(to)) {
        return true;
    }
    log_error("sandbox %s: %s cannot go from '%s' to '%s'", sandbox_id, what, table[from].name,
              table[to].name);
    return false;
}

static void count(struct sandbox *sb, int change)
{
    if (!sb->internal) {
        sb->all->in_state[sb->state] += change;
    }
}

bool sandbox_set_state(struct sandbox *sb, enum sandbox_state state)
{
    if (!phase_allows(sandbox_states, sb->state, state, "it", sb->id)) {
        return false;
    }
    count(sb, -1);
    sb->state = state;
    count(sb, +1);
    tally_note(sb);
    return true;
}

bool sandbox_is_users(const struct sandbox *sb)
{
    return !sb->internal && sb->state != SANDBOX_PARKING && sb->state != SANDBOX_PARKED;
}
