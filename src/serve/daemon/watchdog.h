/* watchdog.h - notices a loop that stands still, and logs what was running.
 *
 * Nothing on the loop's thread may block. When something does block, every client waits and no log
 * line tells why. So a separate thread watches the loop: a loop that has neither finished a turn
 * nor waited for events for WATCHDOG_STALL_MS stands still. The log gets a line with the name of
 * what is running (lib/base/busy.h) then, and another when the loop goes on, with how long it took.
 * Meanwhile the loop's thread gets SIGURG, so that a system call that waits and can be interrupted
 * ends.
 *
 * Owns:     the thread; a handle on the loop, which does not keep the loop alive.
 * Needs:    a loop that runs from now on; a handler of SIGURG (serve/daemon/fd_closer.h).
 * Blocks:   watchdog_free(), for a moment.
 * Threads:  the loop's, but watchdog_figures(): any.
 */
#ifndef DAEMON_WATCHDOG_H
#define DAEMON_WATCHDOG_H

#include <stdint.h>
#include <uv.h>

#include "lib/base/err.h"

enum {
    WATCHDOG_STALL_MS = 1000,
    WATCHDOG_LOOK_MS = 500, /* how often it looks */
    WATCHDOG_NEAR_MS = 50,  /* while the loop stands still */
};

struct watchdog;

struct watchdog_figures {
    uint64_t stalls;   /* that have been seen, the present one included */
    uint64_t stall_ms; /* of those that are over, together */
};

must_check int watchdog_new(uv_loop_t *loop, struct watchdog **out, struct err *err);
void watchdog_free(struct watchdog *dog); /* accepts NULL; the loop closes the handle */

struct watchdog_figures watchdog_figures(const struct watchdog *dog);

#endif
