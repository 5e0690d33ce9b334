/* sandbox_timeout.h - how long a sandbox has, and giving it more.
 *
 * Blocks:   the fiber. Threads: the loop's.
 */
#ifndef TOOLS_SANDBOX_TIMEOUT_H
#define TOOLS_SANDBOX_TIMEOUT_H

#include "tools/remote.h"

enum { TIMEOUT_MARGIN_S = 3 }; /* that what runs in it is ended before it */

/* Until shortly before its end, at least a second: what runs that long is still heard of. */
int64_t timeout_left_ms(const struct remote_sandbox *sandbox);

/* That, or the seconds that were asked for (0: none were), if they are fewer. */
int64_t timeout_limit_ms(const struct remote_sandbox *sandbox, int64_t limit_s);

/* To live until that moment, or as long as the operator lets it; never shorter than it had. What
 * came of it is in sandbox->expires_ms. */
must_check int timeout_extend(struct tool_call *call, struct remote_sandbox *sandbox,
                              int64_t until_ms, struct err *err);

#endif
