/* size_bpf.h - makes system calls return a jail's own size: its disk in statfs() and fstatfs(),
 * which `df` uses, and its memory in sysinfo(). Files are the matter of size_files.h.
 *
 * The kernel has these figures only for the whole host. Three small BPF programs
 * (size_bpf_program.h) run when those calls return, and overwrite the result for a process in a
 * jail. They are not pinned in any file system: they end with this process and its forks, and then
 * jails see the host's figures again. A locked-down kernel, as under Secure Boot, does not load
 * them.
 *
 * Owns:    the programs, their attachment, and a map with an entry for each jail.
 * Needs:   CAP_SYS_ADMIN; the kernel's types in /sys/kernel/btf.
 * Blocks:  size_bpf_open() for tens of milliseconds; the rest never.
 * Threads: one. A forked process may use its copy.
 */
#ifndef JAIL_SIZE_BPF_H
#define JAIL_SIZE_BPF_H

#include <stdint.h>

#include "keeper/disk/pool.h"
#include "keeper/jail/cgroup.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "wire/keeper.h"

struct size_bpf;

must_check int size_bpf_open(struct size_bpf **out, struct err *err);
void size_bpf_close(struct size_bpf *size_bpf);

/* In all of these, size_bpf may be NULL; then they do nothing. */

/* Adds a new jail that has its control group and its disk, before anything runs in it. */
void size_bpf_add(struct size_bpf *size_bpf, struct cgroups *groups, struct pool *pool,
                  const char *id, const struct keeper_plan *plan);
/* Adds a jail that an earlier keeper made: its limits are read from its group and its disk. */
void size_bpf_found(struct size_bpf *size_bpf, struct cgroups *groups, struct pool *pool,
                    const char *id);
/* Sets the current usage. */
void size_bpf_used(struct size_bpf *size_bpf, struct cgroups *groups, const char *id,
                   const struct keeper_usage *usage);
/* Called before the group is removed. Does nothing when there is no entry. */
void size_bpf_remove(struct size_bpf *size_bpf, struct cgroups *groups, const char *id);

#endif
