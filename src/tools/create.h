/* create.h - the sandbox that a tool's parameters describe.
 *
 * Blocks:   the fiber.
 * Threads:  the loop's.
 */
#ifndef TOOLS_CREATE_H
#define TOOLS_CREATE_H

#include "tools/remote.h"

/* Uses these fields of `input`: envs, metadata, timeout_seconds, env_injection, allow_internet,
 * shells and the keys that become variables, as far as they are there. The variables are on record
 * when this returns. */
must_check int create_remote(struct tool_call *call, const json_t *input,
                             const char *template_alias, struct remote_sandbox *out,
                             struct err *err);

#endif
