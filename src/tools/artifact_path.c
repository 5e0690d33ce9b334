#include "tools/artifact_path.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"

static int refuse(struct err *err, const char *path, const char *why)
{
    return err_set(err, EINVAL, "codePath: \"%.80s\" %s", path, why);
}

static const char *segment_wrong(struct str segment)
{
    static const char known[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

    if (segment.len == 0) {
        return "has an empty part: it must name a file, with one slash between folders";
    }
    if (str_eq(segment, STR("..")) || str_eq(segment, STR("."))) {
        return "leads out of the artifact folder, or nowhere: \".\" and \"..\" are not taken";
    }
    if (segment.at[0] == '-') {
        return "has a part that begins with a dash: programs would take it for an option";
    }
    for (size_t i = 0; i < segment.len; i++) {
        if (!memchr(known, segment.at[i], sizeof(known) - 1)) {
            return "has other characters than letters, digits, \".\", \"_\", \"-\" and \"/\"";
        }
    }
    return NULL;
}

int artifact_path_check(const char *path, struct err *err)
{
    struct str rest = str_of(path), segment;
    size_t depth = 0;

    if (path[0] == '\0' || rest.len > ARTIFACT_PATH_BYTES_MAX) {
        return err_set(err, EINVAL, "codePath: must have 1 to %d characters",
                       ARTIFACT_PATH_BYTES_MAX);
    }
    if (path[0] == '/' || path[0] == '~') {
        return refuse(err, path, "is absolute: it must be below the artifact folder");
    }
    if (strchr(path, '\\')) {
        return refuse(err, path, "has a backslash: folders are separated by \"/\"");
    }
    while (str_split(&rest, '/', &segment)) {
        const char *why = segment_wrong(segment);

        if (why) {
            return refuse(err, path, why);
        }
        depth++;
    }
    return depth <= ARTIFACT_DEPTH_MAX ? 0
                                       : refuse(err, path, "has too many folders: 8 parts at most");
}
