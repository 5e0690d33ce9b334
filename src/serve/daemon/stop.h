/* stop.h - being asked to end while root prepares: SIGTERM, SIGINT or SIGHUP.
 *
 * They are blocked, so that each arrives when the current work can be ended in order:
 * waits look for one, and run_contained() ends its program.
 */
#ifndef DAEMON_STOP_H
#define DAEMON_STOP_H

#include <signal.h>
#include <stdbool.h>

/* Blocks them and SIGCHLD. `set` is what sigtimedwait() is to wait for. */
void stop_block(sigset_t *set);

/* Whether a signal is pending. It stays pending: the next caller sees it too. */
bool stop_asked(void);

static inline bool stop_is(int signal_number)
{
    return signal_number == SIGTERM || signal_number == SIGINT || signal_number == SIGHUP;
}

#endif
