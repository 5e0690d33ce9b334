/* states.h - what may follow what: the states of a sandbox, as a table of allowed steps.
 *
 * Each state machine of this folder is an enum and a table of struct phase. One function per
 * machine changes the state. It refuses a step that the table does not have, and logs a sentence.
 *
 * Owns:     the tables. Needs nothing, blocks never, any thread.
 */
#ifndef SANDBOX_STATES_H
#define SANDBOX_STATES_H

#include <stdbool.h>
#include <stdint.h>

#include "serve/sandbox/sandbox.h"

struct phase {
    const char *name;
    uint32_t next; /* PHASE() of each that may follow */
};

#define PHASE(number) (UINT32_C(1) << (number))

extern const struct phase sandbox_states[SANDBOX_STATES];

/* May `to` follow `from`? When it may not, the log says "sandbox ID: WHAT cannot go from ...". */
bool phase_allows(const struct phase *table, unsigned from, unsigned to, const char *what,
                  const char *sandbox_id);

#endif
