/* atomic_file.h - a file written aside and put in its place whole.
 *
 * The bytes go to a temporary file in the target's own directory, which rename() then puts over the
 * target: a reader sees the old file or the new one, and a cut upload leaves nothing. A link is
 * followed, and stays. Where no file can be made beside the target, or the target is a mount of its
 * own (/proc, /sys, a bound file), it is written in place.
 *
 * Owns:     the descriptor and the temporary file until commit or abort.
 * Blocks:   on the disk: for the thread pool.
 * Threads:  any one at a time.
 */
#ifndef AGENT_ATOMIC_FILE_H
#define AGENT_ATOMIC_FILE_H

#include <stdbool.h>

#include "inside/agent/filesystem_ops.h"
#include "inside/agent/metadata.h"

/* Names of temporary files end in random letters. Which of the two it is tells a watch whether the
 * rename makes a file or replaces one. */
#define ATOMIC_FILE_NEW ".atoll-new-"
#define ATOMIC_FILE_OLD ".atoll-old-"

struct atomic_file {
    int fd;          /* -1 when closed */
    char *target;    /* links resolved */
    char *temporary; /* NULL: written in place, or committed */
    mode_t mode;
    bool fresh;   /* replaces no file: -EEXIST at the commit */
    bool durable; /* committed means on the disk, file and name */
    struct fs_owner owner;
};

/* Makes missing parents. Errors have a sentence: EISDIR, EINVAL (not a regular file), ENOTDIR (a
 * parent is a file), ENOSPC and EDQUOT are the client's to see as such. */
must_check int atomic_file_open(struct atomic_file *file, const char *path, struct fs_owner owner,
                                struct err *err);
must_check int atomic_file_write(struct atomic_file *file, const void *data, size_t len,
                                 struct err *err);

/* All bytes are there: sets metadata, owner and mode and closes. */
must_check int atomic_file_close(struct atomic_file *file, const struct metadata *metadata,
                                 struct err *err);
must_check int atomic_file_commit(struct atomic_file *file, struct err *err);

/* Removes what has not been committed; frees. At any time, also after a failed open. */
void atomic_file_fini(struct atomic_file *file);

bool atomic_file_is_temporary(const char *name);

#endif
