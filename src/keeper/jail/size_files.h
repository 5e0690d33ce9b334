/* size_files.h - what a jail is shown of its own size, where programs look for the machine's: its
 * memory in /proc/meminfo, its processors in /proc/stat, /proc/cpuinfo, /sys and its affinity.
 *
 * Four plain files in the jail's own /run are bound over those names, as its boot id is: nothing
 * hangs when nobody writes them any more, and a saved jail takes them along. The jail's root can
 * change them at their own place, and then misleads itself. The keeper writes them while nothing of
 * the jail runs, never later: a process inside could hold the kernel's lock of the file for as long
 * as it likes. What changes in them is written by the jail's agent (inside/agent/shown.c).
 *
 * Owns:    what the host looked like at the start.
 * Needs:   /proc of the host.
 * Blocks:  never on a jail.
 * Threads: one. size_files_make() and size_files_bind() run between clone3() and exec(): no memory
 * is allocated there.
 */
#ifndef JAIL_SIZE_FILES_H
#define JAIL_SIZE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "keeper/jail/cgroup.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "wire/keeper.h"

enum {
    SIZE_FILES_N = 4,
    SIZE_FILES_CPU_BYTES = 8192,             /* of one in /proc/cpuinfo */
    SIZE_FILES_BYTES_MAX = 16 * 1024 * 1024, /* of any of the files */
};

/* The files, by their names in the jail's private directory, and what each is bound over. */
struct size_file {
    const char *name;
    const char *over; /* below /proc or /sys */
    bool in_sys;
};
extern const struct size_file size_files_files[SIZE_FILES_N];

struct size_files;

must_check int size_files_new(struct size_files **out, struct err *err);
void size_files_free(struct size_files *size_files);

/* The jail's first process, or CRIU before it makes one: as many processors as the plan has, and no
 * more. Without effect where the host has no more than that. */
must_check int size_files_bind(const struct size_files *size_files, const struct keeper_plan *plan,
                               struct err *err);

/* Makes size_files_files[i] in dir_fd, which is new and the jail's. */
must_check int size_files_make(const struct size_files *size_files, const struct keeper_plan *plan,
                               int dir_fd, size_t i, struct err *err);

/* A jail that was restored: the files say what its plan has, not what the saved one had. A jail
 * whose root has put something else in their place keeps that. */
void size_files_restored(const struct size_files *size_files, struct cgroups *groups,
                         const char *id, const struct keeper_plan *plan, pid_t first);

#endif
