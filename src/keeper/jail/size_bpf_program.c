/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * The kernel lends bpf_probe_write_user() to programs under the GPL alone, so this file, which is
 * those programs, may be had under either licence. */
#include "keeper/jail/size_bpf_program.h"

#include <asm/ptrace.h>
#include <assert.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <sys/statfs.h>
#include <sys/sysinfo.h>

/* The offsets of the first two arguments of a system call in the kernel's struct pt_regs, which
 * begins like the one for user programs. */
#ifdef __aarch64__
#define FUNCTION(name) "__arm64_sys_" name
enum { ARGUMENT_1 = 0, ARGUMENT_2 = 8 };
#else
#define FUNCTION(name) "__x64_sys_" name
enum { ARGUMENT_1 = offsetof(struct pt_regs, rdi), ARGUMENT_2 = offsetof(struct pt_regs, rsi) };
#endif

const char *const size_bpf_functions[SIZE_BPF_CALLS] = {
    [SIZE_BPF_STATFS] = FUNCTION("statfs"),
    [SIZE_BPF_FSTATFS] = FUNCTION("fstatfs"),
    [SIZE_BPF_SYSINFO] = FUNCTION("sysinfo"),
};

static const int buffer_argument[SIZE_BPF_CALLS] = {
    [SIZE_BPF_STATFS] = ARGUMENT_2,
    [SIZE_BPF_FSTATFS] = ARGUMENT_2,
    [SIZE_BPF_SYSINFO] = ARGUMENT_1,
};

/* Helpers preserve R6 to R9 and the frame, and overwrite R1 to R5. */
enum { R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, FRAME };
enum { BUFFER = R7, ENTRY = R8 };

/* The layout of the frame, downwards from its end. */
enum {
    FRAME_KEY = -8,
    FRAME_UNIT = -16,                                     /* mem_unit of sysinfo */
    FRAME_BLOCK = FRAME_UNIT - 6 * (int)sizeof(uint64_t), /* data that is read or written at once */
    CONTEXT_REGS = 0,                                     /* for a function with one argument */
    CONTEXT_RESULT = 8,
    JUMP_OUT = INT16_MAX, /* placeholder: a jump to the end, whose place is not known yet */
};

static_assert(sizeof(((struct statfs *)NULL)->f_blocks) == sizeof(uint64_t) &&
                  sizeof(((struct sysinfo *)NULL)->totalram) == sizeof(uint64_t),
              "the 64-bit layouts: no jail can make a 32-bit call");
static_assert(offsetof(struct statfs, f_bavail) == offsetof(struct statfs, f_blocks) + 16,
              "f_blocks, f_bfree and f_bavail are written at once");
static_assert(offsetof(struct sysinfo, freeswap) == offsetof(struct sysinfo, totalram) + 40,
              "totalram to freeswap are written at once");

struct writer {
    struct bpf_insn *out;
    size_t n;
};

/* ---- instructions ---- */

static void emit(struct writer *w, int code, int dst, int src, int off, int imm)
{
    assert(w->n < SIZE_BPF_INSNS_MAX);
    w->out[w->n++] = (struct bpf_insn){
        .code = (uint8_t)code,
        .dst_reg = (uint8_t)(dst & 0xf),
        .src_reg = (uint8_t)(src & 0xf),
        .off = (int16_t)off,
        .imm = imm,
    };
}

static void move(struct writer *w, int dst, int src)
{
    emit(w, BPF_ALU64 | BPF_MOV | BPF_X, dst, src, 0, 0);
}

static void set(struct writer *w, int dst, int value)
{
    emit(w, BPF_ALU64 | BPF_MOV | BPF_K, dst, 0, 0, value);
}

static void add(struct writer *w, int dst, int value)
{
    emit(w, BPF_ALU64 | BPF_ADD | BPF_K, dst, 0, 0, value);
}

/* dst /= src, unsigned; 0 when src is 0. */
static void divide(struct writer *w, int dst, int src)
{
    emit(w, BPF_ALU64 | BPF_DIV | BPF_X, dst, src, 0, 0);
}

static void load(struct writer *w, int dst, int src, int off)
{
    emit(w, BPF_LDX | BPF_MEM | BPF_DW, dst, src, off, 0);
}

static void store(struct writer *w, int off, int src)
{
    emit(w, BPF_STX | BPF_MEM | BPF_DW, FRAME, src, off, 0);
}

static void call(struct writer *w, int helper)
{
    emit(w, BPF_JMP | BPF_CALL, 0, 0, 0, helper);
}

static void out_if(struct writer *w, int condition, int dst, int value)
{
    emit(w, BPF_JMP | condition | BPF_K, dst, 0, JUMP_OUT, value);
}

/* dst = the lesser of both, unsigned. */
static void least(struct writer *w, int dst, int other)
{
    emit(w, BPF_JMP | BPF_JLE | BPF_X, dst, other, 1, 0);
    move(w, dst, other);
}

/* dst -= src, at least 0. */
static void less(struct writer *w, int dst, int src)
{
    emit(w, BPF_JMP | BPF_JGE | BPF_X, dst, src, 1, 0);
    move(w, dst, src);
    emit(w, BPF_ALU64 | BPF_SUB | BPF_X, dst, src, 0, 0);
}

/* ---- parts of the programs ---- */

/* BUFFER: the address that the caller passed for the result. */
static void begin(struct writer *w, enum size_bpf_call which)
{
    load(w, R2, R1, CONTEXT_RESULT);
    out_if(w, BPF_JNE, R2, 0);
    load(w, R2, R1, CONTEXT_REGS);
    load(w, BUFFER, R2, buffer_argument[which]);
}

/* ENTRY: the entry of the jail. A process cannot move to a group above its own, so the group of the
 * jail is always among its groups, whatever namespaces and groups were made inside. */
static void find(struct writer *w, int map_fd)
{
    size_t found[SIZE_BPF_LEVELS_MAX];

    for (int level = 1; level <= SIZE_BPF_LEVELS_MAX; level++) {
        set(w, R1, level);
        call(w, BPF_FUNC_get_current_ancestor_cgroup_id);
        out_if(w, BPF_JEQ, R0, 0); /* the process has no deeper group */
        store(w, FRAME_KEY, R0);
        emit(w, BPF_LD | BPF_DW | BPF_IMM, R1, BPF_PSEUDO_MAP_FD, 0, map_fd);
        emit(w, 0, 0, 0, 0, 0);
        move(w, R2, FRAME);
        add(w, R2, FRAME_KEY);
        call(w, BPF_FUNC_map_lookup_elem);
        found[level - 1] = w->n;
        emit(w, BPF_JMP | BPF_JNE | BPF_K, R0, 0, 0, 0);
    }
    emit(w, BPF_JMP | BPF_JA, 0, 0, JUMP_OUT, 0);
    for (int i = 0; i < SIZE_BPF_LEVELS_MAX; i++) {
        w->out[found[i]].off = (int16_t)(w->n - found[i] - 1);
    }
    move(w, ENTRY, R0);
}

/* Copies from the caller's memory, at offset `at` of BUFFER, to the frame. */
static void read_user(struct writer *w, int off, size_t bytes, size_t at)
{
    move(w, R1, FRAME);
    add(w, R1, off);
    set(w, R2, (int)bytes);
    move(w, R3, BUFFER);
    add(w, R3, (int)at);
    call(w, BPF_FUNC_probe_read_user);
    out_if(w, BPF_JNE, R0, 0);
}

/* Copies from the frame to the caller's memory. A failure is ignored: the kernel has just written
 * there itself, and a caller that has unmapped the page since then gains nothing from an error. */
static void write_user(struct writer *w, size_t at, size_t bytes)
{
    move(w, R1, BUFFER);
    add(w, R1, (int)at);
    move(w, R2, FRAME);
    add(w, R2, FRAME_BLOCK);
    set(w, R3, (int)bytes);
    call(w, BPF_FUNC_probe_write_user);
}

/* A jail cannot mount, so an overlay is its own disk. If the pool has less room than the limit
 * leaves, that room is reported. */
static void answer_statfs(struct writer *w)
{
    enum { BSIZE = R1, BLOCKS = R2, FREE = R3, AVAILABLE = R4, OTHER = R5 };

    read_user(w, FRAME_BLOCK, offsetof(struct statfs, f_bavail) + sizeof(uint64_t), 0);
    load(w, R1, FRAME, FRAME_BLOCK + (int)offsetof(struct statfs, f_type));
    out_if(w, BPF_JNE, R1, OVERLAYFS_SUPER_MAGIC);
    load(w, BLOCKS, ENTRY, offsetof(struct size_bpf_entry, disk_bytes));
    out_if(w, BPF_JEQ, BLOCKS, 0);
    load(w, BSIZE, FRAME, FRAME_BLOCK + (int)offsetof(struct statfs, f_bsize));
    divide(w, BLOCKS, BSIZE);
    load(w, OTHER, FRAME, FRAME_BLOCK + (int)offsetof(struct statfs, f_blocks));
    least(w, BLOCKS, OTHER);
    load(w, OTHER, ENTRY, offsetof(struct size_bpf_entry, disk_used_bytes));
    divide(w, OTHER, BSIZE);
    move(w, FREE, BLOCKS);
    less(w, FREE, OTHER);
    load(w, AVAILABLE, FRAME, FRAME_BLOCK + (int)offsetof(struct statfs, f_bavail));
    least(w, AVAILABLE, FREE);
    store(w, FRAME_BLOCK, BLOCKS);
    store(w, FRAME_BLOCK + 8, FREE);
    store(w, FRAME_BLOCK + 16, AVAILABLE);
    write_user(w, offsetof(struct statfs, f_blocks), 3 * sizeof(uint64_t));
}

/* As in /proc/meminfo: swap, shared memory and buffers are 0. */
static void answer_sysinfo(struct writer *w)
{
    enum { UNIT = R1, TOTAL = R2, FREE = R3, USED = R4 };

    read_user(w, FRAME_UNIT, sizeof(uint32_t), offsetof(struct sysinfo, mem_unit));
    load(w, TOTAL, ENTRY, offsetof(struct size_bpf_entry, memory_bytes));
    out_if(w, BPF_JEQ, TOTAL, 0);
    emit(w, BPF_LDX | BPF_MEM | BPF_W, UNIT, FRAME, FRAME_UNIT, 0);
    divide(w, TOTAL, UNIT);
    load(w, USED, ENTRY, offsetof(struct size_bpf_entry, memory_used_bytes));
    divide(w, USED, UNIT);
    move(w, FREE, TOTAL);
    less(w, FREE, USED);
    store(w, FRAME_BLOCK, TOTAL);
    store(w, FRAME_BLOCK + 8, FREE);
    set(w, R5, 0);
    for (int off = 16; off < 6 * (int)sizeof(uint64_t); off += 8) {
        store(w, FRAME_BLOCK + off, R5);
    }
    write_user(w, offsetof(struct sysinfo, totalram), 6 * sizeof(uint64_t));
}

static void end(struct writer *w)
{
    for (size_t i = 0; i < w->n; i++) {
        if (w->out[i].off == JUMP_OUT) {
            w->out[i].off = (int16_t)(w->n - i - 1);
        }
    }
    set(w, R0, 0);
    emit(w, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

size_t size_bpf_program(enum size_bpf_call which, int map_fd,
                        struct bpf_insn out[SIZE_BPF_INSNS_MAX])
{
    struct writer w = {.out = out};

    begin(&w, which);
    find(&w, map_fd);
    if (which == SIZE_BPF_SYSINFO) {
        answer_sysinfo(&w);
    } else {
        answer_statfs(&w);
    }
    end(&w);
    return w.n;
}
