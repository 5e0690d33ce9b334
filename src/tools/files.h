/* files.h - shared by files.c and files_tree.c. */
#ifndef TOOLS_FILES_H
#define TOOLS_FILES_H

#include "tools/remote.h"

int64_t entry_size(const json_t *entry);
bool entry_is_directory(const json_t *entry);

/* Sets content, encoding and truncated. */
void content_put(json_t *out, struct str data, bool cut);

struct tree_plan {
    int64_t files_max; /* files to read; -1: all */
    size_t bytes_max;  /* of each */
    bool hidden;
};

/* Sets type, tree, files, files_total and truncated. */
must_check int tree_read(struct tool_call *call, const struct remote_sandbox *sandbox,
                         const char *root, const struct tree_plan *plan, json_t *reply,
                         struct err *err);

#endif
