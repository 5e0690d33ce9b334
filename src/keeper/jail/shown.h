/* shown.h - what a jail is shown of its own size, where programs look for the machine's: its memory
 * in /proc/meminfo, its processors in /proc/stat, /proc/cpuinfo, /sys and its affinity.
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
 * Threads: one. shown_make() and shown_bind() run between clone3() and exec(): no memory is
 *          allocated there.
 */
#ifndef JAIL_SHOWN_H
#define JAIL_SHOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "keeper/jail/cgroup.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "wire/keeper.h"

enum {
    SHOWN_FILES = 4,
    SHOWN_CPU_BYTES = 8192,             /* of one in /proc/cpuinfo */
    SHOWN_BYTES_MAX = 16 * 1024 * 1024, /* of any of the files */
};

/* The files, by their names in the jail's private directory, and what each is bound over. */
struct shown_file {
    const char *name;
    const char *over; /* below /proc or /sys */
    bool in_sys;
};
extern const struct shown_file shown_files[SHOWN_FILES];

struct shown;

must_check int shown_new(struct shown **out, struct err *err);
void shown_free(struct shown *shown);

/* The jail's first process, or CRIU before it makes one: as many processors as the plan has, and no
 * more. Without effect where the host has no more than that. */
must_check int shown_bind(const struct shown *shown, const struct keeper_plan *plan,
                          struct err *err);

/* Makes shown_files[i] in dir_fd, which is new and the jail's. */
must_check int shown_make(const struct shown *shown, const struct keeper_plan *plan, int dir_fd,
                          size_t i, struct err *err);

/* A jail that was restored: the files say what its plan has, not what the saved one had. A jail
 * whose root has put something else in their place keeps that. */
void shown_restored(const struct shown *shown, struct cgroups *groups, const char *id,
                    const struct keeper_plan *plan, pid_t first);

#endif
