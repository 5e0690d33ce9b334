/* shown.h - what a jail is shown of its own size, where programs look for the machine's: its memory
 * in /proc/meminfo, its processors in /proc/stat, /proc/cpuinfo, /sys and its affinity.
 *
 * Four plain files in the jail's own /run are bound over those names, as its boot id is: nothing
 * hangs when nobody writes them any more, and a saved jail takes them along. The jail's root can
 * change them at their own place, and then misleads itself. What changes in them is written anew
 * whenever the daemon asks for the jail's usage, and it has run since.
 *
 * Owns:    what the host looked like at the start; for each jail that was asked for, its first
 *          process and what it had used. That is a cache: it can be lost at any moment.
 * Needs:   /proc of the host.
 * Blocks:  never on a jail.
 * Threads: one. shown_make() and shown_bind() run between clone3() and exec(): no memory is
 *          allocated there.
 */
#ifndef KEEPER_SHOWN_H
#define KEEPER_SHOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "base/err.h"
#include "keeper/cgroup.h"
#include "keeper/keeper.h"

enum {
    SHOWN_FILES = 4,
    SHOWN_CPUS_MAX = 1024,
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

/* Writes what has changed, if the jail has run since the last time. */
void shown_refresh(struct shown *shown, struct cgroups *groups, const char *id,
                   const struct keeper_usage *usage);
/* The jail has ended. */
void shown_forget(struct shown *shown, const char *id);

/* ---- parts that need no kernel, for tests ---- */

struct shown_figures {
    uint64_t memory_bytes; /* its limit */
    uint64_t used_bytes;   /* all that is charged */
    uint64_t cache_bytes;  /* of that, page cache */
    uint32_t cpus;
    uint64_t cpu_usec; /* that it has used */
    uint64_t up_usec;  /* for how long the host has been up */
    uint64_t boot_s;   /* when that was */
};

enum { SHOWN_MEMINFO_BYTES = 2048, SHOWN_STAT_BYTES = 512 + SHOWN_CPUS_MAX * 128 };

/* Both have the same length whatever the figures are: a reader never finds half of an old one at
 * the end. They return that length. */
size_t shown_meminfo(const struct shown_figures *f, char out[SHOWN_MEMINFO_BYTES]);
size_t shown_stat(const struct shown_figures *f, char out[SHOWN_STAT_BYTES]);
/* The first `cpus` of the host's /proc/cpuinfo, as if there were no others. At most `size` bytes.
 */
size_t shown_cpuinfo(const char *host, uint32_t cpus, char *out, size_t size);
/* "0" or "0-3", with the end of its line. */
size_t shown_online(uint32_t cpus, char out[32]);

#endif
