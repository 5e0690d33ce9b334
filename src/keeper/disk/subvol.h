/* subvol.h - btrfs subvolumes, by the directory they are in. Each call returns 0 (or a value) or
 * -errno.
 *
 * Owns:    nothing.
 * Needs:   CAP_SYS_ADMIN.
 * Blocks:  for the disk; a snapshot until the data of its source is written.
 * Threads: any.
 */
#ifndef DISK_SUBVOL_H
#define DISK_SUBVOL_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/compiler.h"

must_check int subvol_create(int dir_fd, const char *name);
/* Makes a snapshot of the subvolume of source_fd under a new name. Its quota group becomes a member
 * of `group`, if that is not 0. */
must_check int subvol_snapshot(int source_fd, int dir_fd, const char *name, bool read_only,
                               uint64_t group);
/* Nobody can write to it from now on. */
must_check int subvol_make_read_only(int fd);
/* -EINVAL when it is not a subvolume. The space is freed in the background. */
must_check int subvol_destroy(int dir_fd, const char *name);
/* The id of the subvolume of fd, which is also the id of its quota group at level 0. 0 when
 * unknown. */
uint64_t subvol_id(int fd);
struct subvol_look {
    bool is_copy;        /* made as a snapshot of another */
    uint64_t generation; /* changes with each commit that changed the subvolume */
};
must_check int subvol_look(int fd, struct subvol_look *out);

/* ---- quotas ---- */

/* Whether the file system of fd charges data to the subvolume that wrote it (simple quotas, Linux
 * 6.7), rather than to all that hold it (full quotas). */
bool subvol_quotas_are_simple(int fd);
/* The bytes of the subvolume of fd, including shared ones, each once: what full quotas would
 * charge. The size of its metadata is estimated. Reads all of its tree, but no file. */
must_check int subvol_measure(int fd, uint64_t *bytes);
/* Waits until the figures of the quota groups are current. */
must_check int subvol_commit(int fd);

/* In all functions below, group 0 is that of the subvolume of fd. */
enum { SUBVOL_LEVEL_SHIFT = 48 };   /* the level of a group, in its number */
#define SUBVOL_UNLIMITED UINT64_MAX /* the kernel's value for no limit */
/* Limits the bytes charged to it. The call needs space in the subvolume of fd. */
must_check int subvol_limit(int fd, uint64_t group, uint64_t bytes);
/* Its limit; 0 when there is none. */
uint64_t subvol_limit_bytes(int fd, uint64_t group);
/* Bytes charged to it at the last commit; 0 when the filesystem does not count. */
uint64_t subvol_bytes(int fd, uint64_t group);

/* Makes a group of the level above with the subvolume of that id as a member, or finds it. Returns
 * it in *out. A removed member stays while it is charged for something. fd must be in another
 * subvolume: the call needs space in that one. */
must_check int subvol_group_make(int fd, uint64_t id, uint64_t *out);
/* Removes groups that are charged for nothing and whose subvolumes are gone. */
must_check int subvol_groups_sweep(int fd);

#endif
