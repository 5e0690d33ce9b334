/* merge.h - equal pages of sandboxes, held once: the kernel's KSM.
 *
 * A process opts in, with all that come of it. A thread of the kernel's (ksmd) goes through the
 * memory of such processes again and again and lets equal pages be one, which is copied when
 * somebody writes to it. Sandboxes that were restored from one image are nearly all equal pages.
 *
 * How fast it looks is a setting of the whole machine. Somebody else who runs KSM is not interfered
 * with. Otherwise the first keeper that wants it sets it going, and the last one puts back what was
 * there: they know of each other by locks on MERGE_RECORD, which holds it meanwhile, also for a
 * keeper that comes after one that was killed.
 *
 * Owns:    the settings below /sys/kernel/mm/ksm, as said, from merge_start() to merge_stop().
 * Needs:   root, Linux 6.9 with KSM, and for merge_start() the host's paths.
 * Blocks:  for a file and a lock that is held for microseconds.
 */
#ifndef JAIL_MERGE_H
#define JAIL_MERGE_H

#include "lib/base/compiler.h"
#include "lib/base/err.h"

#define MERGE_RECORD "/run/atoll-ksm" /* gone when the machine starts anew, as the settings are */

/* At a microsecond or less for a page ksmd takes at most a tenth of one processor, and goes through
 * 400 MB in a second. */
enum {
    MERGE_PAGES_AT_ONCE = 2000,
    MERGE_REST_MS = 20, /* before the next */
};

struct merge {
    int ksm_fd;    /* /sys/kernel/mm/ksm */
    int record_fd; /* held locked */
};
#define MERGE_NONE ((struct merge){-1, -1})

/* Whether this kernel can; else -ENOSYS with a sentence. */
must_check int merge_check(struct err *err);

must_check int merge_start(struct merge *out, struct err *err);
/* What is merged stays so until it is written to. Fine for MERGE_NONE. */
void merge_stop(struct merge *merge);

/* In a process that was forked from the keeper: lets go of the lock on the record, changes nothing.
 */
void merge_leave(struct merge *merge);

/* Puts back what a keeper left that was killed, unless somebody is at it: for one that does not
 * want it. */
void merge_sweep(void);

/* For this process and all that come of it. */
void merge_join(void);

#endif
