/* sandbox_timeout.h - the time that a sandbox has left, and its extension.
 *
 * Blocks:   the fiber.
 * Threads:  the loop's.
 */
#ifndef TOOLS_SANDBOX_TIMEOUT_H
#define TOOLS_SANDBOX_TIMEOUT_H

#include "tools/remote.h"

enum { TIMEOUT_MARGIN_S = 3 }; /* a command ends this long before its sandbox does */

/* The time until shortly before its end, at least a second: the result of a command that takes this
 * long still arrives. */
int64_t timeout_left_ms(const struct remote_sandbox *sandbox);

/* The same, or the seconds asked for (0: none), if they are fewer. */
int64_t timeout_limit_ms(const struct remote_sandbox *sandbox, int64_t limit_s);

/* Extends the life until that moment, or as far as the operator allows; never shortens it. The new
 * end is in sandbox->expires_ms. */
must_check int timeout_extend(struct tool_call *call, struct remote_sandbox *sandbox,
                              int64_t until_ms, struct err *err);

#endif
