/* artifacts.h - between artifacts.c, which keeps code artifacts, and artifact_run.c. */
#ifndef TOOLS_ARTIFACTS_H
#define TOOLS_ARTIFACTS_H

#include "tools/execute.h"

/* The team's artifact of that path, as the store has it, with its content. -EINVAL, -ENOENT. */
must_check int artifact_find(struct tool_call *call, const char *path, json_t **out,
                             struct err *err);

/* As answers show one, without its content. */
json_t *artifact_json(const json_t *row);

/* By its name, or by the end of the path when that is "". */
must_check int artifact_language(const char *given, const char *path, enum language *out,
                                 struct err *err);
must_check int artifact_entrypoint_check(const char *name, struct err *err);

#endif
