/* copy_tree.h - trees of a place that has no tar, entry by entry: volumes, and sandboxes whose
 * template lacks the program. To the other end of the copy it looks like tar.
 *
 * Owns:     nothing that lasts.
 * Blocks:   until all is copied.
 * Threads:  that of its end of the copy.
 */
#ifndef CLI_COPY_TREE_H
#define CLI_COPY_TREE_H

#include <archive.h>

#include "cli/copy.h"

struct tree_entry { /* borrowed from the list */
    const char *name, *path, *target;
    enum place_type type; /* PLACE_MISSING: a symbolic link */
    mode_t mode;
    int64_t bytes;
};

struct tree_ops {
    /* Lists a directory; the caller decrefs the list. */
    int (*list)(const struct place *place, const char *path, json_t **out, struct err *err);
    struct tree_entry (*entry)(const json_t *row);
    int (*make_dir)(const struct place *place, const char *path, mode_t mode, struct err *err);
    /* The handle of a request that gets or sends a file; the caller frees both. */
    int (*file)(const struct place *place, bool sends, const char *path, mode_t mode, CURL *easy,
                struct curl_slist **headers, struct err *err);
};

must_check int tree_send(struct copy *copy, const struct tree_ops *ops, int out, struct err *err);
must_check int tree_receive(struct copy *copy, const struct tree_ops *ops, int in, struct err *err);

#endif
