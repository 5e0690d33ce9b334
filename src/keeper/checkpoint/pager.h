/* pager.h - fills the memory of a restored jail while it runs.
 *
 * It takes userfaultfds from CRIU (lazyfill_wire.h). Pages that somebody waits for come first, the
 * others in order. It is told of every fork, mremap, munmap and MADV_DONTNEED, and each such call
 * waits until it has read of it.
 *
 * Owns:    the descriptors it is sent.
 * Needs:   a process of its own, which the jail cannot reach.
 * Blocks:  until all memory is there, or the jail has ended.
 * Threads: one.
 */
#ifndef CHECKPOINT_PAGER_H
#define CHECKPOINT_PAGER_H

#include "lib/base/compiler.h"
#include "lib/base/err.h"

struct pager_use {
    int socket;   /* to CRIU */
    int watch_fd; /* readable when this process is to give up, or -1 */
    int group_fd; /* of the jail */
};

/* 0: all is there, the jail has ended, or it was never restored. On failure memory is missing, and
 * the jail must end before the descriptors close: pages would be empty. */
must_check int pager_run(const struct pager_use *use, struct err *err);

#endif
