/* merge.h - merges equal pages of sandboxes, by the kernel's KSM.
 *
 * A process opts in, for itself and its descendants. A kernel thread (ksmd) scans the memory of
 * such processes again and again, and merges equal pages; a merged page is copied when it is
 * written to. Sandboxes that were restored from one image consist almost entirely of equal pages.
 *
 * The pace of the scan is a setting of the whole machine. If someone else runs KSM already, the
 * settings are left alone. Otherwise the first keeper sets them, and the last one restores the
 * previous values. Keepers find each other by locks on MERGE_RECORD, which holds the previous
 * values, also for a keeper that follows one that was killed.
 *
 * Owns:    the settings below /sys/kernel/mm/ksm, as described, from merge_start() to merge_stop().
 * Needs:   root, Linux 6.9 with KSM, and for merge_start() the host's paths.
 * Blocks:  for a file, and for a lock that is held for microseconds.
 * Threads: one.
 */
#ifndef JAIL_MERGE_H
#define JAIL_MERGE_H

#include "lib/base/compiler.h"
#include "lib/base/err.h"

#define MERGE_RECORD "/run/atoll-ksm" /* gone after a reboot, as the settings are */

/* A page takes a microsecond or less: so ksmd uses at most a tenth of one processor, and scans 400
 * MB per second. */
enum {
    MERGE_PAGES_AT_ONCE = 2000,
    MERGE_REST_MS = 20, /* pause after each */
};

struct merge {
    int ksm_fd;    /* /sys/kernel/mm/ksm */
    int record_fd; /* held locked */
};
#define MERGE_NONE ((struct merge){-1, -1})

/* 0 when this kernel supports it; else -ENOSYS with a sentence. */
must_check int merge_check(struct err *err);

must_check int merge_start(struct merge *out, struct err *err);
/* Merged pages stay merged until they are written to. MERGE_NONE is allowed. */
void merge_stop(struct merge *merge);

/* Called in a process forked from the keeper: releases the lock on the record, changes nothing. */
void merge_leave(struct merge *merge);

/* Restores the settings that a killed keeper left, unless a keeper uses them: for a keeper without
 * merging. */
void merge_sweep(void);

/* Opts in this process and its descendants. */
void merge_join(void);

#endif
