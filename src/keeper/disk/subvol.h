/* subvol.h - btrfs subvolumes by the directory they lie in. Each call is 0 (or a value) or -errno.
 *
 * Owns:    nothing. Needs CAP_SYS_ADMIN. Blocks for the disk; a snapshot for what of its source is
 *          not written yet.
 */
#ifndef DISK_SUBVOL_H
#define DISK_SUBVOL_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/compiler.h"

must_check int subvol_create(int dir_fd, const char *name);
/* What source_fd lies in, as it is now, under a new name. Its quota group becomes a member of
 * `group`, if that is not 0. */
must_check int subvol_snapshot(int source_fd, int dir_fd, const char *name, bool read_only,
                               uint64_t group);
/* -EINVAL when it is none. The bytes are freed in the background. */
must_check int subvol_destroy(int dir_fd, const char *name);
/* The id of the one that fd lies in: also that of its quota group, at level 0. 0 when unknown. */
uint64_t subvol_id(int fd);
struct subvol_look {
    bool is_copy;        /* it was made as a snapshot of another */
    uint64_t generation; /* another one after each commit that changed something in it */
};
must_check int subvol_look(int fd, struct subvol_look *out);

/* ---- quotas ---- */

/* Whether the filesystem that fd lies on charges data to the subvolume that wrote it (simple
 * quotas, Linux 6.7), rather than to all that hold it (full quotas). */
bool subvol_quotas_are_simple(int fd);
/* The bytes of the one that fd lies in, shared ones too, each once: what full quotas charge it for.
 * Of the kernel's own blocks for it the sum is a guess. Reads all of its tree, but no file. */
must_check int subvol_measure(int fd, uint64_t *bytes);
/* Waits until the quota groups' figures are those of now. */
must_check int subvol_commit(int fd);

/* In all that follow, group 0 is that of the subvolume that fd lies in. */
enum { SUBVOL_LEVEL_SHIFT = 48 };   /* the level of a group, in its number */
#define SUBVOL_UNLIMITED UINT64_MAX /* the kernel's word for no limit */
/* At most so many bytes charged to it. The call takes room where fd lies. */
must_check int subvol_limit(int fd, uint64_t group, uint64_t bytes);
/* That limit; 0 when there is none. */
uint64_t subvol_limit_bytes(int fd, uint64_t group);
/* Bytes charged to it at the last commit; 0 when the filesystem does not count. */
uint64_t subvol_bytes(int fd, uint64_t group);

/* A group of the level above that has the subvolume of that id as a member. Returns it in *out; it
 * may have been there already. A member that is removed stays as long as it is charged for
 * something. fd is of another subvolume: the call itself takes room in the one that it lies in. */
must_check int subvol_group_make(int fd, uint64_t id, uint64_t *out);
/* Removes groups that are charged for nothing and whose subvolumes are gone. */
must_check int subvol_groups_sweep(int fd);

#endif
