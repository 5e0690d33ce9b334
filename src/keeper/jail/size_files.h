/* size_files.h - files that show a jail its own size instead of the host's: its memory in
 * /proc/meminfo, its processors in /proc/stat, /proc/cpuinfo and /sys. Sets its affinity, too.
 *
 * Four plain files in the jail's own /run are bound over those names, like the boot id: nothing
 * hangs when no one updates them, and a saved jail contains them. The jail's root can change them
 * in /run, and then misleads only itself. The keeper writes them while nothing of the jail runs,
 * never later: a process inside could hold the kernel's lock of the file for as long as it likes.
 * The jail's agent updates the changing figures (inside/agent/proc_files.c).
 *
 * Owns:    the host's figures from the start.
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
    SIZE_FILES_BYTES_MAX = 16 * 1024 * 1024, /* of any of the files */
};

/* The files: the name in the jail's private directory, and the path that each covers. */
struct size_file {
    const char *name;
    const char *over; /* below /proc or /sys */
    bool in_sys;
};
extern const struct size_file size_files_files[SIZE_FILES_N];

struct size_files;

must_check int size_files_new(struct size_files **out, struct err *err);
void size_files_free(struct size_files *size_files);

/* Called in the jail's first process, or in CRIU before it makes one: sets the affinity to as many
 * processors as the plan has. No effect where the host has no more than that. */
must_check int size_files_bind(const struct size_files *size_files, const struct keeper_plan *plan,
                               struct err *err);

/* Makes file i in dir_fd, a new directory of the jail. */
must_check int size_files_make(const struct size_files *size_files, const struct keeper_plan *plan,
                               int dir_fd, size_t i, struct err *err);

/* Updates the files of a restored jail to its plan. If the jail's root has replaced one of them, it
 * is left alone. */
void size_files_restored(const struct size_files *size_files, struct cgroups *groups,
                         const char *id, const struct keeper_plan *plan, pid_t first);

#endif
