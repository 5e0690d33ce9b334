/* faulty_vfs.h - SQLite's file layer with faults: writes that fail, tear or find the disk full,
 * syncs that fail, and power that goes away with all that was not synced.
 *
 * It becomes the default of the process, so the store under test does not know. The shared index
 * (-shm) stays SQLite's own: it is rebuilt after a crash. */
#ifndef TESTS_FAULTY_VFS_H
#define TESTS_FAULTY_VFS_H

#include <stdbool.h>

enum fault { FAULT_NONE, FAULT_WRITE, FAULT_FULL, FAULT_TORN, FAULT_SYNC };

/* Once per process, before anything is opened. */
void faulty_vfs_install(void);

/* The operation of that kind that comes after `after` others fails; with `forever`, all that come
 * after it too. FAULT_NONE: all is well again. */
void faulty_vfs_arm(enum fault fault, int after, bool forever);

/* How often the fault has struck since it was armed. */
int faulty_vfs_struck(void);

/* From here on no write has an effect, and every sync fails: the machine is dead. */
void faulty_vfs_cut_power(void);

/* Once everything is closed: takes back, in every file, what was written since its last sync, and
 * the machine lives again. */
void faulty_vfs_restore_power(void);

#endif
