/* subvol.h - btrfs subvolumes by the directory they lie in. Each call is 0 (or a value) or -errno.
 *
 * Owns:    nothing. Needs CAP_SYS_ADMIN. Blocks for the disk; a snapshot for what of its source is
 *          not written yet.
 */
#ifndef KEEPER_SUBVOL_H
#define KEEPER_SUBVOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

must_check int subvol_create(int dir_fd, const char *name);
/* What source_fd lies in, as it is now, under a new name. */
must_check int subvol_snapshot(int source_fd, int dir_fd, const char *name, bool read_only);
/* -EINVAL when it is none. The bytes are freed in the background. */
must_check int subvol_destroy(int dir_fd, const char *name);
#define SUBVOL_UNLIMITED UINT64_MAX /* the kernel's word for no limit */
/* At most so many bytes charged to the one that fd lies in. */
must_check int subvol_limit(int fd, uint64_t bytes);
/* That limit; 0 when there is none. */
uint64_t subvol_limit_bytes(int fd);
/* The id of the one that fd lies in: also that of its quota group, at level 0. 0 when unknown. */
uint64_t subvol_id(int fd);
/* Bytes charged to the one that fd lies in; 0 when the filesystem does not count. */
uint64_t subvol_bytes(int fd);

#endif
