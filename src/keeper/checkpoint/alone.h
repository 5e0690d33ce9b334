/* alone.h - carries out KEEPER_SAVE with ALONE: saves a jail in which the agent is the only
 * process, without CRIU.
 *
 * A new agent on a copy of the disk is as good as a restored one if the jail has nothing else. So
 * the jail is frozen, and the kernel is asked: the jail's group has one process, and its IPC
 * namespace has no System V object and no message queue, which can exist without any process. The
 * files of its tmpfs are written to a file in memory, for the new agent. A snapshot is taken of the
 * disk; but a disk with only a few small files is written to a file in memory, too, because each
 * snapshot waits for the file system, and a copy that needs none can begin in a parked jail.
 * Nothing that the agent says is relied upon. The jail cannot mount, change its host name or its
 * network's settings (filter.c, caps.c), so there is nothing more.
 *
 * Owns:    nothing.
 * Blocks:  for the snapshot of the disk; the jail stands still meanwhile.
 * Threads: one: the process of a task (task.h), which stays in the jail's IPC namespace.
 */
#ifndef CHECKPOINT_ALONE_H
#define CHECKPOINT_ALONE_H

#include "keeper/jail/jail.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "wire/keeper.h"

enum {
    ALONE_FILES_BYTES_MAX = 16 * 1024 * 1024, /* of the files in memory, with their names */
    ALONE_DISK_BYTES_MAX = 4 * 1024 * 1024,   /* of a disk that is written as an image, */
    ALONE_DISK_FILES_MAX = 512,               /* and how many files it may have */
};

/* Sets fds[KEEPER_FD_FILES] and fds[KEEPER_FD_DISK] to sealed files, or leaves them -1: see
 * KEEPER_SAVE_ALONE. Without the second, a snapshot of the disk is in begun_fd. -EBUSY when the
 * jail has more than its disk and its files in memory. The jail runs afterwards. */
must_check int alone_save(struct jail_shared *shared, const char *id, int begun_fd,
                          int fds[KEEPER_FDS_MAX], struct keeper_saved *out, struct err *err);

#endif
