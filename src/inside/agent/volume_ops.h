/* volume_ops.h - the disk operations of the content API of volumes, without HTTP.
 *
 * Owns:     nothing.
 * Needs:    clean absolute paths, in a process whose root is the volume's.
 * Blocks:   on the disk: for the thread pool.
 * Threads:  any.
 *
 * Each returns 0 or -errno with a sentence; files_status() has the status.
 */
#ifndef AGENT_VOLUME_OPS_H
#define AGENT_VOLUME_OPS_H

#include <jansson.h>
#include <stdbool.h>

#include "inside/agent/filesystem_ops.h"

enum {
    VOLUME_DIR_MODE = 0777, /* a volume is shared: by default a file is open to everybody */
    VOLUME_FILE_MODE = 0666,
    VOLUME_MODE_MAX = 07777,
    VOLUME_ID_MAX = 65535, /* of users and groups: as many as a jail has */
    VOLUME_DEPTH_MAX = 10,
};

/* How something is to be made. */
struct volume_terms {
    struct fs_owner owner;
    mode_t mode;
    bool force; /* a directory: with its parents, and fine if it is there; a file: likewise, and
                   over one that is there */
};

/* The values that a PATCH changes; -1: unchanged. */
struct volume_change {
    int64_t uid, gid, mode;
};

/* The entry itself, not what a link points to. */
must_check int volume_stat(const char *path, json_t **out, struct err *err);
must_check int volume_list(const char *path, uint32_t depth, json_t **out, struct err *err);
must_check int volume_make_dir(const char *path, const struct volume_terms *terms, json_t **out,
                               struct err *err);
must_check int volume_set(const char *path, const struct volume_change *change, json_t **out,
                          struct err *err);
must_check int volume_remove(const char *path, struct err *err);

/* Before a file is written at `path`: makes its parents if forced; else it must not be there
 * (-EEXIST) and its parent must (-ENOENT). */
must_check int volume_prepare(const char *path, const struct volume_terms *terms, struct err *err);

#endif
