/* filesystem_ops.h - the operations of filesystem.Filesystem on the disk, without the wire.
 *
 * Owns:     nothing; answers live in the caller's arena.
 * Needs:    clean absolute paths (user_path()).
 * Blocks:   on the disk: for the thread pool.
 * Threads:  any, with its own arena.
 *
 * Each returns RPC_OK, or the code to answer with and the sentence in err.
 */
#ifndef AGENT_FILESYSTEM_OPS_H
#define AGENT_FILESYSTEM_OPS_H

#include <limits.h>

#include "inside/agent/entry.h"
#include "lib/base/err.h"
#include "lib/rpc/rpc.h"

enum {
    FS_LISTING_BYTES_MAX = 128 * 1024 * 1024, /* about 400,000 entries */
};

struct fs_owner {
    uid_t uid;
    gid_t gid;
};

must_check enum rpc_code fs_stat(struct arena *arena, const char *path, Filesystem__EntryInfo **out,
                                 struct err *err);

/* Depth first, names in byte order, links not followed but for the path itself. Entries that vanish
 * meanwhile are left out. */
must_check enum rpc_code fs_list(struct arena *arena, const char *path, uint32_t depth,
                                 Filesystem__EntryInfo ***out, size_t *n, struct err *err);

must_check enum rpc_code fs_make_dir(struct arena *arena, const char *path, struct fs_owner owner,
                                     Filesystem__EntryInfo **out, struct err *err);
must_check enum rpc_code fs_move(struct arena *arena, const char *source, const char *destination,
                                 struct fs_owner owner, Filesystem__EntryInfo **out,
                                 struct err *err);

/* With all that is below it. A path that is not there is a success. */
must_check enum rpc_code fs_remove(const char *path, struct err *err);

/* The real directory behind the path, without links: not_found, or invalid_argument for what is not
 * a directory. */
must_check enum rpc_code fs_resolve_directory(const char *path, char real[PATH_MAX],
                                              struct err *err);

/* Makes the directory and its parents where they are missing, 0755 and the owner's. -ENOTDIR with a
 * sentence when something else is in the way. */
must_check int fs_make_dirs(const char *path, struct fs_owner owner, struct err *err);

/* Makes the parents of the file at `path`. */
must_check int fs_make_parents(const char *path, struct fs_owner owner, struct err *err);

#endif
