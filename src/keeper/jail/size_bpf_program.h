/* size_bpf_program.h - the BPF programs of size_bpf.h, as instructions. Pure: nothing here calls
 * the kernel.
 *
 * Each program runs when one system call returns, in any process. It looks up the control groups of
 * the process, from the outermost inwards, in a map from the id of a jail's group to a struct
 * size_bpf_entry. The result is left unchanged when none is found, and when the call failed. The
 * process is hostile: the programs read and write its memory through helpers that fail on a bad
 * address, trust no value they read there, and have no loop.
 */
#ifndef JAIL_SIZE_BPF_PROGRAM_H
#define JAIL_SIZE_BPF_PROGRAM_H

#include <linux/bpf.h>
#include <stddef.h>
#include <stdint.h>

enum size_bpf_call { SIZE_BPF_STATFS, SIZE_BPF_FSTATFS, SIZE_BPF_SYSINFO, SIZE_BPF_CALLS };

enum {
    SIZE_BPF_INSNS_MAX = 256,
    SIZE_BPF_LEVELS_MAX = 16, /* greatest depth of a jail's group below the root */
};

/* The figures of a jail. A limit of 0: the kernel's figure is left as it is. */
struct size_bpf_entry {
    uint64_t disk_bytes;
    uint64_t disk_used_bytes;
    uint64_t memory_bytes;
    uint64_t memory_used_bytes;
};

/* The kernel function of each call; the program runs at its return. */
extern const char *const size_bpf_functions[SIZE_BPF_CALLS];

/* Returns the number of instructions. map_fd: a map from uint64_t to struct size_bpf_entry. */
size_t size_bpf_program(enum size_bpf_call call, int map_fd,
                        struct bpf_insn out[SIZE_BPF_INSNS_MAX]);

#endif
