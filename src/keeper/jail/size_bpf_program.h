/* size_bpf_program.h - the BPF programs of size_bpf.h, as instructions. Pure: nothing here calls
 * the kernel.
 *
 * Each runs when one system call returns, in whichever process called it. It looks for the control
 * groups that the process is in, from the outermost inwards, in a map from the number of a jail's
 * group to a struct size_bpf_entry. Whoever is in none of them, and every call that failed, is let
 * go unchanged. The process is hostile: the programs read and write its memory through helpers that
 * fail on a bad address, believe nothing they read there, and have no loop.
 */
#ifndef JAIL_SIZE_BPF_PROGRAM_H
#define JAIL_SIZE_BPF_PROGRAM_H

#include <linux/bpf.h>
#include <stddef.h>
#include <stdint.h>

enum size_bpf_call { SIZE_BPF_STATFS, SIZE_BPF_FSTATFS, SIZE_BPF_SYSINFO, SIZE_BPF_CALLS };

enum {
    SIZE_BPF_INSNS_MAX = 256,
    SIZE_BPF_LEVELS_MAX = 16, /* how deep a jail's group may lie below the root of all */
};

/* What a jail is told; 0 for a limit: what the kernel says. */
struct size_bpf_entry {
    uint64_t disk_bytes;
    uint64_t disk_used_bytes;
    uint64_t memory_bytes;
    uint64_t memory_used_bytes;
};

/* The kernel's function for each call, whose return they run at. */
extern const char *const size_bpf_functions[SIZE_BPF_CALLS];

/* Returns how many instructions it takes. map_fd: from uint64_t to struct size_bpf_entry. */
size_t size_bpf_program(enum size_bpf_call call, int map_fd,
                        struct bpf_insn out[SIZE_BPF_INSNS_MAX]);

#endif
