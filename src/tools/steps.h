/* steps.h - scripts run one after the other in a sandbox, each with its result.
 *
 * Blocks:   the fiber.
 * Threads:  the loop's.
 */
#ifndef TOOLS_STEPS_H
#define TOOLS_STEPS_H

#include "tools/remote.h"

enum { STEP_OUTPUT_BYTES_MAX = 16 * 1024 }; /* shown of each, the end of it */

struct steps { /* borrowed, but for `done` */
    struct tool_call *call;
    const struct remote_sandbox *sandbox;
    const char *cwd;   /* NULL: the sandbox's own */
    const json_t *env; /* of each command; may be NULL */
    int64_t limit_s;   /* of each command; 0: as long as the sandbox lives */
    json_t *done;      /* array of {"name", "success", "exit_code", "output", "duration_ms"} */
};

/* 1 when the script succeeded, 0 when it ran and failed. Its output and its errors are one text. */
must_check int steps_run(struct steps *steps, const char *name, const char *script,
                         struct err *err);

/* The output of the last step; borrowed. */
const char *steps_output(const struct steps *steps);

#endif
