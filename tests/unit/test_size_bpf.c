/* The functions that they are attached to, as keeper/jail/btf.c finds them in the kernel's
 * description, and the programs of keeper/jail/size_bpf_program.c, run by a small interpreter of
 * BPF in place of the kernel. What the kernel's own verifier says of them is
 * tests/system/test_size_bpf.c's.
 */
#include <asm/ptrace.h>
#include <errno.h>
#include <linux/btf.h>
#include <linux/magic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/statfs.h>
#include <sys/sysinfo.h>

#include "check.h"
#include "keeper/jail/btf.h"
#include "keeper/jail/size_bpf_program.h"
#include "lib/base/compiler.h"

enum {
    MAP_FD = 77,
    STEPS_MAX = 1000,
    STACK_BYTES = 512,
    JAIL = 4711, /* the number of its group */
    BLOCK = 4096,
    LEVELS = 20,
};

/* ---- the kernel ---- */

static struct kernel {
    uint64_t groups[LEVELS + 1]; /* the caller's, from the root; 0: no deeper */
    struct size_bpf_entry entry; /* of JAIL */
    const void *user;            /* the caller's memory: all else fails */
    size_t user_bytes;
    bool read_only;
    int writes;
} kernel;

static bool is_user(uint64_t at, uint64_t bytes)
{
    uint64_t start = (uintptr_t)kernel.user;

    return at >= start && at + bytes <= start + kernel.user_bytes;
}

static uint64_t helper(int number, const uint64_t *r)
{
    switch (number) {
    case BPF_FUNC_get_current_ancestor_cgroup_id:
        return r[1] <= LEVELS ? kernel.groups[r[1]] : 0;
    case BPF_FUNC_map_lookup_elem:
        return r[1] == MAP_FD && *(uint64_t *)(uintptr_t)r[2] == JAIL ? (uintptr_t)&kernel.entry
                                                                      : 0;
    case BPF_FUNC_probe_read_user:
        if (!is_user(r[3], r[2])) {
            return (uint64_t)-14;
        }
        memcpy((void *)(uintptr_t)r[1], (void *)(uintptr_t)r[3], r[2]);
        return 0;
    case BPF_FUNC_probe_write_user:
        if (!is_user(r[1], r[3]) || kernel.read_only) {
            return (uint64_t)-14;
        }
        memcpy((void *)(uintptr_t)r[1], (void *)(uintptr_t)r[2], r[3]);
        kernel.writes++;
        return 0;
    default:
        printf("# helper %d is not known\n", number);
        abort();
    }
}

static bool jumps(const struct bpf_insn *in, const uint64_t *r)
{
    uint64_t other = BPF_SRC(in->code) == BPF_X ? r[in->src_reg] : (uint64_t)(int64_t)in->imm;

    switch (BPF_OP(in->code)) {
    case BPF_JA:
        return true;
    case BPF_JEQ:
        return r[in->dst_reg] == other;
    case BPF_JNE:
        return r[in->dst_reg] != other;
    case BPF_JLE:
        return r[in->dst_reg] <= other;
    case BPF_JGE:
        return r[in->dst_reg] >= other;
    default:
        abort();
    }
}

static void calculate(const struct bpf_insn *in, uint64_t *r)
{
    uint64_t other = BPF_SRC(in->code) == BPF_X ? r[in->src_reg] : (uint64_t)(int64_t)in->imm;
    uint64_t *to = &r[in->dst_reg];

    switch (BPF_OP(in->code)) {
    case BPF_MOV:
        *to = other;
        break;
    case BPF_ADD:
        *to += other;
        break;
    case BPF_SUB:
        *to -= other;
        break;
    case BPF_DIV:
        *to = other ? *to / other : 0;
        break;
    default:
        abort();
    }
}

/* Every load and store of these programs is of 8 bytes, but one load of 4. */
static void move_memory(const struct bpf_insn *in, uint64_t *r)
{
    if (BPF_CLASS(in->code) == BPF_STX) {
        memcpy((char *)(uintptr_t)r[in->dst_reg] + in->off, &r[in->src_reg], 8);
        return;
    }
    const char *from = (const char *)(uintptr_t)r[in->src_reg] + in->off;
    r[in->dst_reg] = 0;
    memcpy(&r[in->dst_reg], from, BPF_SIZE(in->code) == BPF_W ? 4 : 8);
}

static uint64_t run(const struct bpf_insn *insns, size_t n, const uint64_t context[2])
{
    uint8_t stack[STACK_BYTES];
    uint64_t r[11] = {[1] = (uintptr_t)context, [10] = (uintptr_t)(stack + sizeof(stack))};

    memset(stack, 0xee, sizeof(stack));
    for (size_t at = 0, steps = 0; at < n && steps < STEPS_MAX; at++, steps++) {
        const struct bpf_insn *in = &insns[at];
        switch (BPF_CLASS(in->code)) {
        case BPF_ALU64:
            calculate(in, r);
            break;
        case BPF_LDX:
        case BPF_STX:
            move_memory(in, r);
            break;
        case BPF_LD: /* of a map, in two instructions */
            r[in->dst_reg] = (uint64_t)in->imm;
            at++;
            break;
        case BPF_JMP:
            if (BPF_OP(in->code) == BPF_EXIT) {
                return r[0];
            }
            if (BPF_OP(in->code) == BPF_CALL) {
                r[0] = helper(in->imm, r);
                memset(&r[1], 0xcc, 5 * sizeof(r[1])); /* as any helper may */
            } else if (jumps(in, r)) {
                at += (size_t)in->off;
            }
            break;
        default:
            abort();
        }
    }
    printf("# the program does not end\n");
    abort();
}

/* ---- callers ---- */

/* What happens when `call` returned `result` to a process that wanted its answer at `user`. */
static uint64_t returned(enum size_bpf_call call, long result, const void *user, size_t bytes)
{
    struct bpf_insn insns[SIZE_BPF_INSNS_MAX];
    uint64_t regs[64] = {0};
    const uint64_t context[2] = {(uintptr_t)regs, (uint64_t)result};

    kernel.user = user;
    kernel.user_bytes = bytes;
    kernel.writes = 0;
#ifdef __aarch64__
    regs[call == SIZE_BPF_SYSINFO ? 0 : 1] = (uintptr_t)user;
#else
    size_t at =
        call == SIZE_BPF_SYSINFO ? offsetof(struct pt_regs, rdi) : offsetof(struct pt_regs, rsi);
    regs[at / sizeof(regs[0])] = (uintptr_t)user;
#endif
    return run(insns, size_bpf_program(call, MAP_FD, insns), context);
}

static void in_jail(uint64_t disk, uint64_t disk_used, uint64_t memory, uint64_t memory_used)
{
    kernel = (struct kernel){
        .groups = {1, 20, JAIL, 21},
        .entry = {disk, disk_used, memory, memory_used},
    };
}

static struct statfs pool(void)
{
    struct statfs fs = {.f_type = OVERLAYFS_SUPER_MAGIC,
                        .f_bsize = BLOCK,
                        .f_blocks = 1000000,
                        .f_bfree = 900000,
                        .f_bavail = 800000,
                        .f_files = 11,
                        .f_frsize = BLOCK};

    return fs;
}

/* ---- tests ---- */

static void a_jail_is_told_its_own_disk(void)
{
    static const enum size_bpf_call calls[] = {SIZE_BPF_STATFS, SIZE_BPF_FSTATFS};

    for (size_t i = 0; i < countof(calls); i++) {
        struct statfs fs = pool(), want = pool();
        in_jail(100 * BLOCK, 30 * BLOCK, 0, 0);
        want.f_blocks = 100;
        want.f_bfree = want.f_bavail = 70;
        CHECK_INT(returned(calls[i], 0, &fs, sizeof(fs)), 0);
        CHECK_INT(memcmp(&fs, &want, sizeof(fs)), 0);
        CHECK_INT(kernel.writes, 1);
    }
}

static void a_disk_that_is_beyond_its_limit_is_full(void)
{
    struct statfs fs = pool();

    in_jail(100 * BLOCK, 130 * BLOCK, 0, 0);
    (void)returned(SIZE_BPF_STATFS, 0, &fs, sizeof(fs));
    CHECK_INT(fs.f_blocks, 100);
    CHECK_INT(fs.f_bfree, 0);
    CHECK_INT(fs.f_bavail, 0);
}

static void a_full_pool_has_no_more_room_than_it_has(void)
{
    struct statfs fs = pool();

    in_jail(100 * BLOCK, 30 * BLOCK, 0, 0);
    fs.f_bavail = 5;
    (void)returned(SIZE_BPF_STATFS, 0, &fs, sizeof(fs));
    CHECK_INT(fs.f_blocks, 100);
    CHECK_INT(fs.f_bfree, 70); /* so that `df` shows what the jail uses */
    CHECK_INT(fs.f_bavail, 5);
}

static void a_pool_smaller_than_the_limit_is_told_itself(void)
{
    struct statfs fs = pool();

    in_jail(2000000ULL * BLOCK, 30 * BLOCK, 0, 0);
    (void)returned(SIZE_BPF_STATFS, 0, &fs, sizeof(fs));
    CHECK_INT(fs.f_blocks, 1000000);
    CHECK_INT(fs.f_bfree, 1000000 - 30);
    CHECK_INT(fs.f_bavail, 800000);
}

static void other_file_systems_stay(void)
{
    static const long types[] = {TMPFS_MAGIC, BTRFS_SUPER_MAGIC, PROC_SUPER_MAGIC, 0,
                                 OVERLAYFS_SUPER_MAGIC | (1L << 32)};

    in_jail(100 * BLOCK, 0, 1 << 20, 0);
    for (size_t i = 0; i < countof(types); i++) {
        struct statfs fs = pool(), want;
        fs.f_type = types[i];
        want = fs;
        (void)returned(SIZE_BPF_STATFS, 0, &fs, sizeof(fs));
        CHECK_INT(memcmp(&fs, &want, sizeof(fs)), 0);
        CHECK_INT(kernel.writes, 0);
    }
}

static void a_jail_is_told_its_own_memory(void)
{
    static const uint32_t units[] = {1, 4096};

    for (size_t i = 0; i < countof(units); i++) {
        struct sysinfo info;
        memset(&info, 0x11, sizeof(info));
        info.mem_unit = units[i];
        struct sysinfo want = info;
        in_jail(0, 0, 512 << 20, 100 << 20);
        want.totalram = (512UL << 20) / units[i];
        want.freeram = (412UL << 20) / units[i];
        want.sharedram = want.bufferram = want.totalswap = want.freeswap = 0;
        CHECK_INT(returned(SIZE_BPF_SYSINFO, 0, &info, sizeof(info)), 0);
        CHECK_INT(memcmp(&info, &want, sizeof(info)), 0);
        CHECK_INT(kernel.writes, 1);
    }
}

static void memory_beyond_the_limit_leaves_none(void)
{
    struct sysinfo info = {.mem_unit = 1};

    in_jail(0, 0, 512 << 20, 513 << 20);
    (void)returned(SIZE_BPF_SYSINFO, 0, &info, sizeof(info));
    CHECK_INT(info.totalram, 512 << 20);
    CHECK_INT(info.freeram, 0);
}

/* In `fs` and `info` alike. */
static void check_stays(long result)
{
    struct statfs fs = pool(), fs_want = pool();
    struct sysinfo info = {.totalram = 7, .mem_unit = 1}, info_want = info;

    CHECK_INT(returned(SIZE_BPF_STATFS, result, &fs, sizeof(fs)), 0);
    CHECK_INT(memcmp(&fs, &fs_want, sizeof(fs)), 0);
    CHECK_INT(kernel.writes, 0);
    CHECK_INT(returned(SIZE_BPF_SYSINFO, result, &info, sizeof(info)), 0);
    CHECK_INT(memcmp(&info, &info_want, sizeof(info)), 0);
    CHECK_INT(kernel.writes, 0);
}

static void who_is_in_no_jail_is_told_the_host(void)
{
    in_jail(100 * BLOCK, 0, 512 << 20, 0);
    memcpy(kernel.groups, (uint64_t[]){1, 20, JAIL + 1, 21}, 4 * sizeof(uint64_t));
    check_stays(0);
}

static void a_call_that_failed_stays_so(void)
{
    in_jail(100 * BLOCK, 0, 512 << 20, 0);
    check_stays(-14);
}

static void a_jail_without_limits_is_told_the_host(void)
{
    in_jail(0, 0, 0, 0);
    check_stays(0);
}

static void a_jail_is_found_at_any_level(void)
{
    for (int level = 1; level <= SIZE_BPF_LEVELS_MAX; level++) {
        struct statfs fs = pool();
        in_jail(100 * BLOCK, 0, 0, 0);
        for (int i = 0; i <= LEVELS; i++) {
            kernel.groups[i] = (uint64_t)(i == level ? JAIL : i + 1);
        }
        (void)returned(SIZE_BPF_STATFS, 0, &fs, sizeof(fs));
        CHECK_INT(fs.f_blocks, 100);
    }
}

static void memory_that_went_away_is_left_alone(void)
{
    struct statfs fs = pool(), want = pool();

    in_jail(100 * BLOCK, 0, 512 << 20, 0);
    CHECK_INT(returned(SIZE_BPF_STATFS, 0, &fs, 8), 0); /* the rest is gone */
    CHECK_INT(kernel.writes, 0);
    kernel.read_only = true;
    CHECK_INT(returned(SIZE_BPF_STATFS, 0, &fs, sizeof(fs)), 0);
    CHECK_INT(memcmp(&fs, &want, sizeof(fs)), 0);
}

/* Another thread may have changed it between the call and the program. */
static void nonsense_in_the_buffer_is_answered_with_nonsense(void)
{
    struct statfs fs = pool();
    struct sysinfo info = {.mem_unit = 0};

    in_jail(100 * BLOCK, 0, 512 << 20, 0);
    fs.f_bsize = 0;
    CHECK_INT(returned(SIZE_BPF_STATFS, 0, &fs, sizeof(fs)), 0);
    CHECK_INT(fs.f_blocks, 0);
    CHECK_INT(returned(SIZE_BPF_SYSINFO, 0, &info, sizeof(info)), 0);
    CHECK_INT(info.totalram, 0);
}

/* As the verifier will: every jump leads forward, to an instruction of the program. */
static void the_programs_cannot_loop(void)
{
    for (enum size_bpf_call call = 0; call < SIZE_BPF_CALLS; call++) {
        struct bpf_insn insns[SIZE_BPF_INSNS_MAX];
        size_t n = size_bpf_program(call, MAP_FD, insns);
        CHECK(n <= SIZE_BPF_INSNS_MAX);
        for (size_t i = 0; i < n; i++) {
            const struct bpf_insn *in = &insns[i];
            if (BPF_CLASS(in->code) == BPF_JMP && BPF_OP(in->code) != BPF_CALL) {
                CHECK_THAT(in->off >= 0 && i + 1 + (size_t)in->off < n + (in->off == 0),
                           "instruction %zu of %s jumps to %d", i, size_bpf_functions[call],
                           in->off);
            }
        }
        CHECK_INT(insns[n - 1].code, BPF_JMP | BPF_EXIT);
    }
}

/* ---- the kernel's description ---- */

enum { WANTED = 10 }; /* the number of that type below */

static const char names[] = "\0other\0wanted\0int";
enum { NAME_OTHER = 1, NAME_WANTED = 7, NAME_INT = 14 };

/* A type, and what follows it. */
#define TYPE(name, kind, parts) (name), (uint32_t)(kind) << 24 | (parts), 0

/* With one of each kind that is followed by something. */
/* clang-format off */
static const uint32_t types[] = {
    TYPE(NAME_INT, BTF_KIND_INT, 0), 32,
    TYPE(0, BTF_KIND_ARRAY, 0), 1, 1, 4,
    TYPE(NAME_WANTED, BTF_KIND_STRUCT, 2), 0, 1, 0, 0, 1, 32,
    TYPE(0, BTF_KIND_ENUM, 1), 0, 5,
    TYPE(0, BTF_KIND_FUNC_PROTO, 2), 0, 1, 0, 1,
    TYPE(NAME_OTHER, BTF_KIND_FUNC, 1),
    TYPE(0, BTF_KIND_DATASEC, 1), 1, 0, 4,
    TYPE(0, BTF_KIND_DECL_TAG, 0), 0,
    TYPE(0, BTF_KIND_ENUM64, 1), 0, 5, 0,
    TYPE(NAME_WANTED, BTF_KIND_FUNC, 1),
    TYPE(NAME_WANTED, BTF_KIND_VAR, 0), 1,
}; /* clang-format on */

/* Memory of exactly n bytes, so that a sanitizer sees who reads beyond. */
static int64_t find_in(const struct btf_header *header, size_t n, const char *name)
{
    uint8_t whole[sizeof(*header) + sizeof(types) + sizeof(names)];

    memcpy(whole, header, sizeof(*header));
    memcpy(whole + sizeof(*header), types, sizeof(types));
    memcpy(whole + sizeof(*header) + sizeof(types), names, sizeof(names));
    uint8_t *bytes = malloc(n ? n : 1);
    memcpy(bytes, whole, n);
    int64_t found = btf_function(bytes, n, name);
    free(bytes);
    return found;
}

static const struct btf_header good = {
    .magic = BTF_MAGIC,
    .version = BTF_VERSION,
    .hdr_len = sizeof(struct btf_header),
    .type_len = sizeof(types),
    .str_off = sizeof(types),
    .str_len = sizeof(names),
};
enum { WHOLE = sizeof(good) + sizeof(types) + sizeof(names) };

static void a_function_is_found_by_its_name(void)
{
    CHECK_INT(find_in(&good, WHOLE, "wanted"), WANTED);
    CHECK_INT(find_in(&good, WHOLE, "other"), 6);
    CHECK_INT(find_in(&good, WHOLE, "want"), -ENOENT);
    CHECK_INT(find_in(&good, WHOLE, "int"), -ENOENT); /* which is no function */
}

static void a_description_that_is_cut_short_is_none(void)
{
    for (size_t n = 0; n < WHOLE; n++) {
        CHECK_INT(find_in(&good, n, "wanted"), -EPROTO);
    }
    for (uint32_t n = 1; n < sizeof(types); n++) {
        struct btf_header header = good;
        header.type_len = n;
        CHECK(find_in(&header, WHOLE, "nothing") < 0);
    }
    struct btf_header header = good;
    header.str_off = UINT32_MAX;
    CHECK_INT(find_in(&header, WHOLE, "wanted"), -EPROTO);
    header = good;
    header.hdr_len = UINT32_MAX;
    CHECK_INT(find_in(&header, WHOLE, "wanted"), -EPROTO);
}

static void a_description_of_another_kind_is_none(void)
{
    struct btf_header header = good;

    header.version = BTF_VERSION + 1;
    CHECK_INT(find_in(&header, WHOLE, "wanted"), -EPROTO);
    header = good;
    header.magic = 0;
    CHECK_INT(find_in(&header, WHOLE, "wanted"), -EPROTO);
    header = good;
    header.type_off = 4; /* so that no type begins where one should */
    header.type_len -= 4;
    CHECK_INT(find_in(&header, WHOLE, "wanted"), -EPROTO);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a jail is told its own disk", a_jail_is_told_its_own_disk},
        {"a disk that is beyond its limit is full", a_disk_that_is_beyond_its_limit_is_full},
        {"a full pool has no more room than it has", a_full_pool_has_no_more_room_than_it_has},
        {"a pool smaller than the limit is told itself",
         a_pool_smaller_than_the_limit_is_told_itself},
        {"other file systems stay", other_file_systems_stay},
        {"a jail is told its own memory", a_jail_is_told_its_own_memory},
        {"memory beyond the limit leaves none", memory_beyond_the_limit_leaves_none},
        {"who is in no jail is told the host", who_is_in_no_jail_is_told_the_host},
        {"a call that failed stays so", a_call_that_failed_stays_so},
        {"a jail without limits is told the host", a_jail_without_limits_is_told_the_host},
        {"a jail is found at any level", a_jail_is_found_at_any_level},
        {"memory that went away is left alone", memory_that_went_away_is_left_alone},
        {"nonsense in the buffer is answered with nonsense",
         nonsense_in_the_buffer_is_answered_with_nonsense},
        {"the programs cannot loop", the_programs_cannot_loop},
        {"a function is found by its name", a_function_is_found_by_its_name},
        {"a description that is cut short is none", a_description_that_is_cut_short_is_none},
        {"a description of another kind is none", a_description_of_another_kind_is_none},
    };

    return check_run(tests, countof(tests));
}
