/* size_bpf.h - what a jail is told of its own size by system calls: its disk by statfs() and
 * fstatfs(), which `df` goes by, and its memory by sysinfo(). Files are size_files.h's.
 *
 * The kernel knows these figures for the whole host alone. Three small BPF programs
 * (size_bpf_program.h) run when those calls return, and write over the answer of a process that is
 * in a jail. They are found in no file and pinned nowhere: they go when this process and those it
 * has forked go, and then the host's figures are told again. Kernels that are locked down, as under
 * Secure Boot, let nobody load them.
 *
 * Owns:    the programs, where they are attached, and a map with an entry for each jail.
 * Needs:   CAP_SYS_ADMIN; the kernel's types in /sys/kernel/btf.
 * Blocks:  size_bpf_open() for tens of milliseconds; the rest never.
 * Threads: one. A process that is forked may go on with a copy.
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

/* In all of these `told` may be NULL, and then they do nothing. */

/* A new jail, once it has its control group and its disk, and before anything runs in it. */
void size_bpf_add(struct size_bpf *size_bpf, struct cgroups *groups, struct pool *pool,
                  const char *id, const struct keeper_plan *plan);
/* One that an earlier keeper made: what it may have is read from its group and its disk. */
void size_bpf_found(struct size_bpf *size_bpf, struct cgroups *groups, struct pool *pool,
                    const char *id);
/* What it uses now. */
void size_bpf_used(struct size_bpf *size_bpf, struct cgroups *groups, const char *id,
                   const struct keeper_usage *usage);
/* Before its group is removed. Fine when there is none. */
void size_bpf_remove(struct size_bpf *size_bpf, struct cgroups *groups, const char *id);

#endif
