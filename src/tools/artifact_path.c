#include "tools/artifact_path.h"

#include <errno.h>
#include <string.h>

const char *path_wrong(struct str path)
{
    struct str segment;

    if (path.len > 0 && (path.at[0] == '/' || path.at[0] == '~')) {
        return "is absolute: it must be below its folder";
    }
    do {
        if (!str_split(&path, '/', &segment) || segment.len == 0) {
            return "has an empty part: it must name a file, with one slash between folders";
        }
        if (str_eq(segment, STR("..")) || str_eq(segment, STR("."))) {
            return "leads out of its folder, or nowhere: \".\" and \"..\" are not taken";
        }
    } while (path.at);
    return NULL;
}

const char *artifact_path_short(const char *path)
{
    static const char *const folders[] = {"Code/", "Hermes/Code/", "hermes/Code/",
                                          "knowledge/hermes/Code/"};

    for (size_t i = 0; i < countof(folders); i++) {
        if (str_starts(str_of(path), str_of(folders[i]))) {
            return path + strlen(folders[i]);
        }
    }
    return path;
}

static const char *segment_wrong(struct str segment)
{
    static const char known[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

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

/* A run puts files of its own beside the artifact. */
static bool is_taken(struct str first)
{
    return str_eq(first, STR("input.json")) || str_eq(first, STR(".result.json"));
}

static const char *artifact_path_wrong(const char *path)
{
    struct str rest = str_of(path), segment;
    const char *why =
        strchr(path, '\\') ? "has a backslash: folders are separated by \"/\"" : path_wrong(rest);
    size_t depth = 0;

    while (!why && str_split(&rest, '/', &segment)) {
        why = depth == 0 && is_taken(segment)
                  ? "is taken: a run puts the input, or the result, there"
                  : segment_wrong(segment);
        depth++;
    }
    return !why && depth > ARTIFACT_DEPTH_MAX ? "has too many folders: 8 parts at most" : why;
}

int artifact_path_check(const char *path, struct err *err)
{
    if (path[0] == '\0' || strlen(path) > ARTIFACT_PATH_BYTES_MAX) {
        return err_set(err, EINVAL, "codePath: must have 1 to %d characters",
                       ARTIFACT_PATH_BYTES_MAX);
    }
    const char *why = artifact_path_wrong(path);
    return why ? err_set(err, EINVAL, "codePath: \"%.80s\" %s", path, why) : 0;
}
