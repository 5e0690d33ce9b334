/* tree.h - directories walked: listed in order, removed whole.
 *
 * Blocks:   on the disk: for the thread pool.
 * Threads:  any, with its own arena.
 */
#ifndef AGENT_TREE_H
#define AGENT_TREE_H

#include <stdint.h>

#include "inside/agent/entry.h"

/* Entries below the directory `real`, down to depth levels, reported as if they lay below `shown`.
 * -ENOBUFS when the arena is full. */
must_check int tree_list(struct arena *arena, const char *real, const char *shown, uint32_t depth,
                         Filesystem__EntryInfo ***out, size_t *n);

/* Removes a file, a link or a directory with all below it, whatever its depth. 0 also when there is
 * none. */
must_check int tree_remove(const char *path);

#endif
