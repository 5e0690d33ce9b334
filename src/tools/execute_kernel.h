/* execute_kernel.h - code run by the kernels of code-interpreter-v1
 * (docs/internals/interpreter.md).
 *
 * Blocks:   the fiber.
 * Threads:  the loop's.
 */
#ifndef TOOLS_EXECUTE_KERNEL_H
#define TOOLS_EXECUTE_KERNEL_H

#include "tools/execute.h"

/* Fills in the result; when the time is over, as far as it had come. */
must_check int kernel_run(struct tool_call *call, const struct remote_sandbox *sandbox,
                          const struct execute_plan *plan, struct execute_result *out,
                          struct err *err);

#endif
