/* artifact_path.h - the names of code artifacts: "tools/calc.py", below a folder of their own.
 * Pure.
 */
#ifndef TOOLS_ARTIFACT_PATH_H
#define TOOLS_ARTIFACT_PATH_H

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/str.h"

enum {
    ARTIFACT_PATH_BYTES_MAX = 255,
    ARTIFACT_DEPTH_MAX = 8,
};

/* Why a path does not stay below its folder, or leads nowhere, to follow the path in a sentence;
 * NULL: it does stay. Its parts may have any other characters. */
const char *path_wrong(struct str path);

/* The path without the folder of all artifacts: "Code/tools/calc.py" is "tools/calc.py". A path
 * without that folder is returned as it is. */
const char *artifact_path_short(const char *path);

/* Whether it stays below its folder, and is spelled one way only. -EINVAL with the reason. */
must_check int artifact_path_check(const char *path, struct err *err);

#endif
