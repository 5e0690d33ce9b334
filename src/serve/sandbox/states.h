/* states.h - the allowed steps between the states of a sandbox, and between the phases of a save,
 * of a start, of the removal of a save and of adoption.
 *
 * Each state machine is an enum and a table of struct phase. A single function per machine changes
 * the state. It refuses a step that the table does not have, and logs a sentence. The tables also
 * say what a crash leaves: docs/internals/memory.md shows these sentences, and a unit test
 * compares.
 *
 * Owns:     the tables. Needs nothing, blocks never, any thread.
 */
#ifndef SANDBOX_STATES_H
#define SANDBOX_STATES_H

#include <stdbool.h>
#include <stdint.h>

#include "serve/sandbox/sandbox.h"

/* A sandbox has at most one save at a time (save.c). Not every save has all phases. */
enum save_phase {
    SAVE_WAITING,   /* behind other saves, or for a channel to the agent */
    SAVE_CHECKING,  /* a pause with memory: the keeper's dry run */
    SAVE_CHECKED,   /* the dry run found nothing; the channel broke meanwhile and is made anew */
    SAVE_ASKING,    /* a fork: the agent is asked whether it is alone; before TAKING, and after */
    SAVE_TAKING,    /* a fork: the keeper saves without the memory */
    SAVE_QUIETING,  /* the agent was asked to be quiet and to close its channel */
    SAVE_DRAINING,  /* a pause: what comes from outside ends */
    SAVE_WRITING,   /* the keeper saves */
    SAVE_UNKNOWN,   /* the keeper went away meanwhile: the outcome is not known */
    SAVE_RECORDING, /* a pause: the store writes the row */
    SAVE_OVER,
    SAVE_PHASES
};

/* STARTING, PARKING and RESUMING (create.c). Its end is that there is no struct start. */
enum start_phase {
    START_NEW,
    START_REFUSED,     /* before anything began: the caller is told from the loop */
    START_WAITING,     /* for adoption, for the keeper, or for an older jail to be gone */
    START_MAKING,      /* the keeper makes the jail */
    START_ANSWERED,    /* the keeper has answered: from here on a jail may exist */
    START_CONFIGURING, /* the agent is told who it is, while the store writes the row */
    START_COMMAND,     /* the template's start command runs until it is ready */
    START_READY,       /* all is up; the row may not be on record yet */
    START_PHASES
};

/* The row of a start, which the store writes meanwhile. */
enum start_row { ROW_NONE, ROW_UNWANTED, ROW_GIVEN, ROW_SAVED, ROW_PHASES };

/* The removal of a save (saved.c). */
enum forget_phase {
    FORGET_NOT,      /* somebody may want it */
    FORGET_WANTED,   /* as soon as nothing holds it, and the keeper is there */
    FORGET_SETTLING, /* the store syncs that no row refers to it */
    FORGET_ASKED,    /* the keeper removes it */
    FORGET_PHASES
};

/* The daemon's start (adopt.c). */
enum adoption {
    ADOPT_WAITING,   /* for the keeper */
    ADOPT_SAVES,     /* the keeper lists its saves */
    ADOPT_ATTACHING, /* each sandbox that is on record as running is attached */
    ADOPT_JAILS,     /* the keeper lists its jails: unknown ones are destroyed */
    ADOPT_READY,
    ADOPT_PHASES
};

/* A timer for each meaning. It runs only in its own states: a change of the state stops it. */
enum sandbox_timer {
    TIMER_START,     /* STARTING, PARKING, RESUMING: the time that the phase may take */
    TIMER_DRAIN,     /* PAUSING: the time that what comes from outside has to end */
    TIMER_LIFETIME,  /* RUNNING: until it is killed or paused */
    TIMER_RETENTION, /* PAUSED: until it is removed */
    SANDBOX_TIMERS
};

struct phase {
    const char *name;
    uint32_t next;       /* PHASE() of each that may follow */
    const char *happens; /* its row in a table of docs/internals/memory.md; NULL: it has none */
    const char *crash;   /* the outcome if daemon, keeper or machine end in this phase */
};

#define PHASE(number) (UINT32_C(1) << (number))

extern const struct phase sandbox_states[SANDBOX_STATES];
extern const uint32_t timer_states[SANDBOX_TIMERS]; /* PHASE() of each state it runs in */
extern const struct phase save_phases[SAVE_PHASES];
extern const struct phase start_phases[START_PHASES];
extern const struct phase start_rows[ROW_PHASES];
extern const struct phase forget_phases[FORGET_PHASES];
extern const struct phase adopt_phases[ADOPT_PHASES];

/* May `to` follow `from`? When it may not, the log says "WHAT ID cannot go from ...". */
bool phase_allows(const struct phase *table, unsigned from, unsigned to, const char *what,
                  const char *id);

#endif
