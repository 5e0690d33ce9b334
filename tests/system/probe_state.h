/* probe_state.h - the part of the probe that holds state. */
#ifndef TESTS_SYSTEM_PROBE_STATE_H
#define TESTS_SYSTEM_PROBE_STATE_H

/* "ok", or what went wrong. */
const char *state_do(const char *verb, const char *name);

#endif
