/* artifacts.h - between artifacts.c, which keeps code artifacts, and those that place and run them.
 */
#ifndef TOOLS_ARTIFACTS_H
#define TOOLS_ARTIFACTS_H

#include "tools/execute.h"

/* The team's artifact of that path, or of artifact_path_short(), as the store has it, with its
 * content. -EINVAL, -ENOENT. */
must_check int artifact_find(struct tool_call *call, const char *path, json_t **out,
                             struct err *err);

/* The team's artifacts by path, without their contents. */
must_check int artifacts_list(struct tool_call *call, json_t **out, struct err *err);

#define ARTIFACT_FOLDER "/home/user/Code"

/* Writes artifacts below ARTIFACT_FOLDER: those in the folder of `beside`, which is left out
 * itself; all of them when it is NULL. *left is how many did not fit. */
must_check int artifacts_place(struct tool_call *call, const struct remote_sandbox *sandbox,
                               const char *beside, size_t *left, struct err *err);

/* Writes what code imports to call API shells: for Python in the home directory, for
 * Node.js in /node_modules. */
must_check int artifact_helpers_place(struct tool_call *call, const struct remote_sandbox *sandbox,
                                      struct err *err);

/* As answers show one, without its content. */
json_t *artifact_json(const json_t *row);

/* By its name, or by the end of the path when that is "". */
must_check int artifact_language(const char *given, const char *path, enum language *out,
                                 struct err *err);
must_check int artifact_entrypoint_check(const char *name, struct err *err);

#endif
