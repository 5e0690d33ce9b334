/* restart.h - when a process that has ended is started again: the supervisor's children and
 * atoll-tools. The wait doubles with each crash in a row. */
#ifndef DAEMON_RESTART_H
#define DAEMON_RESTART_H

#include <stdint.h>

enum {
    RESTART_FIRST_MS = 100,
    RESTART_MAX_MS = 10 * 1000,
    RESTART_HEALTHY_MS = 30 * 1000, /* after this long a crash counts as the first again */
    RESTART_DOUBLINGS_MAX = 8,
};

static inline int64_t restart_delay_ms(unsigned crashes)
{
    unsigned doublings = crashes < RESTART_DOUBLINGS_MAX ? crashes : RESTART_DOUBLINGS_MAX;
    int64_t ms = (int64_t)RESTART_FIRST_MS << doublings;

    return ms < RESTART_MAX_MS ? ms : RESTART_MAX_MS;
}

#endif
