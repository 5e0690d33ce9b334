/* life.h - how long a sandbox has, and giving it more.
 *
 * Blocks:   the fiber. Threads: the loop's.
 */
#ifndef TOOLS_LIFE_H
#define TOOLS_LIFE_H

#include "tools/remote.h"

enum { LIFE_MARGIN_S = 3 }; /* that what runs in it is ended before it */

/* Until shortly before its end, at least a second: what runs that long is still heard of. */
int64_t life_left_ms(const struct remote_sandbox *sandbox);

/* That, or the seconds that were asked for (0: none were), if they are fewer. */
int64_t life_limit_ms(const struct remote_sandbox *sandbox, int64_t limit_s);

/* To live until that moment, or as long as the operator lets it; never shorter than it had. What
 * came of it is in sandbox->expires_ms. */
must_check int life_reach(struct tool_call *call, struct remote_sandbox *sandbox, int64_t until_ms,
                          struct err *err);

#endif
