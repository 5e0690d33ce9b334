/* image.h - a btrfs filesystem in a sparse file, mounted by a loop device.
 *
 * Owns:    <path>.img. The loop device frees itself when the filesystem is unmounted.
 * Needs:   root, a free loop device, and mkfs.btrfs when the image is not there yet.
 * Blocks:  for mkfs and mount.
 */
#ifndef DISK_IMAGE_H
#define DISK_IMAGE_H

#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

/* Mounts <path>.img over the directory `path`, making the image first when there is none: of
 * `bytes`, or less where the disk has less room; 0: of what the disk has room for. A half-made
 * image is never left under that name. */
must_check int image_mount(const char *path, uint64_t bytes, struct err *err);

/* Unmounts <path>.img if it is mounted and unused; waits a moment for processes that are ending. */
void image_unmount(const char *path);

#endif
