/* extract.h - a tar stream from a sandbox becomes files below one directory.
 *
 * The stream is hostile. No name leads out of the directory: none is absolute or has "..", and no
 * symbolic link is followed on the way to a file, neither one of the stream nor one that was there
 * before. Links are made as they are named, devices and sockets are left out, and the bits for
 * set-user-id and their kin are dropped. Each file is written under a temporary name and put in its
 * place whole.
 *
 * Owns:     nothing that lasts.
 * Blocks:   until the stream ends.
 * Threads:  any.
 */
#ifndef CLI_EXTRACT_H
#define CLI_EXTRACT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

/* `skipped` counts the entries that were left out. Directories that were there before keep their
 * mode, and so does the root unless it is new. */
must_check int extract_tree(int in, int root, bool root_is_new, atomic_int *skipped,
                            struct err *err);

/* A path of the stream, checked: "./a//b/" is "a/b", "." is "". -EINVAL with a sentence. Pure. */
must_check int extract_name(const char *name, char *out, size_t size, struct err *err);

#endif
