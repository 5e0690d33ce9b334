/* take.h - makes files of records that were read and checked (record.h).
 *
 * Nothing else uses the tree while it is made. Every name is opened from the tree's own directory,
 * without links, and each file is made anew: a name that is there already is refused.
 *
 * Owns:    the file that is being written.
 * Needs:   root; it changes the working directory.
 * Blocks:  for the disk.
 * Threads: one.
 */
#ifndef TRAVEL_TAKE_H
#define TRAVEL_TAKE_H

#include "keeper/travel/record.h"

struct take {
    int root_fd;   /* borrowed; -1: none */
    int parent_fd; /* of the last path; -1: none */
    char parent[RECORD_PATH_BYTES_MAX + 1];
    int fd; /* the plain file that takes DATA; -1: none. What follows is set when it ends */
    uint32_t mode;
    int64_t mtime_s;
    uint32_t mtime_ns;
    struct buf attributes;
};
#define TAKE_NONE                                                                                  \
    {                                                                                              \
        .root_fd = -1, .parent_fd = -1, .fd = -1, .attributes = {.max = RECORD_BODY_BYTES_MAX }    \
    }

/* The records that follow belong below this directory. */
must_check int take_begin(struct take *take, int root_fd, struct err *err);
/* ENTRY, DATA, LINK or STAMP. */
must_check int take_record(struct take *take, const struct record *record, struct err *err);
/* Ends the last file. */
must_check int take_end(struct take *take, struct err *err);
void take_fini(struct take *take);

#endif
