/* told_program.h - the BPF programs of told.h, as instructions. Pure: nothing here calls the
 * kernel.
 *
 * Each runs when one system call returns, in whichever process called it. It looks for the control
 * groups that the process is in, from the outermost inwards, in a map from the number of a jail's
 * group to a struct told_entry. Whoever is in none of them, and every call that failed, is let go
 * unchanged. The process is hostile: the programs read and write its memory through helpers that
 * fail on a bad address, believe nothing they read there, and have no loop.
 */
#ifndef JAIL_TOLD_PROGRAM_H
#define JAIL_TOLD_PROGRAM_H

#include <linux/bpf.h>
#include <stddef.h>
#include <stdint.h>

enum told_call { TOLD_STATFS, TOLD_FSTATFS, TOLD_SYSINFO, TOLD_CALLS };

enum {
    TOLD_INSNS_MAX = 256,
    TOLD_LEVELS_MAX = 16, /* how deep a jail's group may lie below the root of all */
};

/* What a jail is told; 0 for a limit: what the kernel says. */
struct told_entry {
    uint64_t disk_bytes;
    uint64_t disk_used_bytes;
    uint64_t memory_bytes;
    uint64_t memory_used_bytes;
};

/* The kernel's function for each call, whose return they run at. */
extern const char *const told_functions[TOLD_CALLS];

/* Returns how many instructions it takes. map_fd: from uint64_t to struct told_entry. */
size_t told_program(enum told_call call, int map_fd, struct bpf_insn out[TOLD_INSNS_MAX]);

#endif
