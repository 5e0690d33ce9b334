/* artifact_path.h - the names of code artifacts: "tools/calc.py", below a folder of their own.
 * Pure.
 */
#ifndef TOOLS_ARTIFACT_PATH_H
#define TOOLS_ARTIFACT_PATH_H

#include "base/compiler.h"
#include "base/err.h"

enum {
    ARTIFACT_PATH_BYTES_MAX = 255,
    ARTIFACT_DEPTH_MAX = 8,
};

/* Whether it stays below its folder, and is spelled one way only. -EINVAL with the reason. */
must_check int artifact_path_check(const char *path, struct err *err);

#endif
