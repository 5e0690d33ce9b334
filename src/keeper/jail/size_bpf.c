#include "keeper/jail/size_bpf.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "keeper/jail/btf.h"
#include "keeper/jail/host.h"
#include "keeper/jail/size_bpf_program.h"
#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/small_file.h"

enum { TYPES_BYTES_MAX = 64 * 1024 * 1024 };

struct size_bpf {
    uint64_t host_memory_bytes;
    int map_fd;
    int links[SIZE_BPF_CALLS]; /* each keeps its program attached */
};

/* ---- the kernel ---- */

static int kernel_bpf(enum bpf_cmd command, union bpf_attr *attr)
{
    long r = syscall(SYS_bpf, command, attr, sizeof(*attr));

    return r < 0 ? -errno : (int)r;
}

static uint64_t address(const void *at)
{
    return (uintptr_t)at;
}

static int map_make(struct err *err)
{
    union bpf_attr attr = {
        .map_type = BPF_MAP_TYPE_HASH,
        .key_size = sizeof(uint64_t),
        .value_size = sizeof(struct size_bpf_entry),
        .max_entries = KEEPER_UID_SLOTS,
        .map_flags = BPF_F_NO_PREALLOC,
        .map_name = "atoll_told",
    };
    int fd = kernel_bpf(BPF_MAP_CREATE, &attr);

    return fd < 0 ? err_code(err, -fd, "the kernel makes no BPF map") : fd;
}

static int map_put(int map_fd, uint64_t group, const struct size_bpf_entry *entry, uint64_t flags)
{
    union bpf_attr attr = {
        .map_fd = (uint32_t)map_fd,
        .key = address(&group),
        .value = address(entry),
        .flags = flags,
    };

    return kernel_bpf(BPF_MAP_UPDATE_ELEM, &attr);
}

static int map_get(int map_fd, uint64_t group, struct size_bpf_entry *out)
{
    union bpf_attr attr = {
        .map_fd = (uint32_t)map_fd,
        .key = address(&group),
        .value = address(out),
    };

    return kernel_bpf(BPF_MAP_LOOKUP_ELEM, &attr);
}

/* ---- the programs ---- */

/* Reads the kernel's description of its types; the caller frees it. */
static int types_read(uint8_t **out, size_t *n, struct err *err)
{
    scoped_fd fd = open("/sys/kernel/btf/vmlinux", O_RDONLY | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0) {
        return err_sys(err, "the kernel does not describe its types (/sys/kernel/btf)");
    }
    if (st.st_size <= 0 || st.st_size > TYPES_BYTES_MAX) {
        return err_set(err, EFBIG, "the kernel's description of its types has %jd bytes",
                       (intmax_t)st.st_size);
    }
    *out = xcalloc(1, (size_t)st.st_size + 1);
    ssize_t got = small_file_read_fd(fd, (char *)*out, (size_t)st.st_size + 1);
    *n = got < 0 ? 0 : (size_t)got;
    return got < 0 ? err_sys(err, "read /sys/kernel/btf/vmlinux") : 0;
}

/* The kernel uses different errnos for its reasons, and most errnos for several reasons. ENOTSUPP
 * is internal to the kernel: functions of this machine cannot be attached to. */
static int refused(int r, const char *what, struct err *err)
{
    const char *why = strerrordesc_np(-r);

    return err_set(err, -r,
                   "the kernel refuses a BPF program that writes to memory of programs "
                   "(%s: %s), as it does when it is locked down (Secure Boot)",
                   what, why ? why : "not supported");
}

static int program_load(enum size_bpf_call which, int64_t type, int map_fd)
{
    struct bpf_insn insns[SIZE_BPF_INSNS_MAX];
    union bpf_attr attr = {
        .prog_type = BPF_PROG_TYPE_TRACING,
        .expected_attach_type = BPF_TRACE_FEXIT,
        .insn_cnt = (uint32_t)size_bpf_program(which, map_fd, insns),
        .insns = address(insns),
        .license = address("GPL"), /* see size_bpf_program.c */
        .prog_name = "atoll_told",
        .attach_btf_id = (uint32_t)type,
    };

    return kernel_bpf(BPF_PROG_LOAD, &attr);
}

/* Returns the descriptor of the BPF link. */
static int attach(const uint8_t *types, size_t types_n, enum size_bpf_call which, int map_fd,
                  struct err *err)
{
    const char *function = size_bpf_functions[which];
    const int64_t type = btf_function(types, types_n, function);

    if (type < 0) {
        return err_code(err, (int)-type, "the kernel tells of no function %s", function);
    }
    scoped_fd program = program_load(which, type, map_fd);
    if (program < 0) {
        return refused(program, "load", err);
    }
    union bpf_attr attr = {.raw_tracepoint = {.prog_fd = (uint32_t)program}};
    int link = kernel_bpf(BPF_RAW_TRACEPOINT_OPEN, &attr);
    return link < 0 ? refused(link, "attach", err) : link;
}

static int programs_start(struct size_bpf *size_bpf, struct err *err)
{
    uint8_t *types = NULL;
    size_t n = 0;
    int r = types_read(&types, &n, err);

    for (enum size_bpf_call i = 0; r >= 0 && i < SIZE_BPF_CALLS; i++) {
        r = size_bpf->links[i] = attach(types, n, i, size_bpf->map_fd, err);
    }
    free(types);
    return r < 0 ? r : 0;
}

static void size_bpf_closep(struct size_bpf **size_bpf)
{
    size_bpf_close(*size_bpf);
}

int size_bpf_open(struct size_bpf **out, struct err *err)
{
    scoped(size_bpf_closep) struct size_bpf *size_bpf = xnew(struct size_bpf);

    *size_bpf = (struct size_bpf){.map_fd = -1, .links = {-1, -1, -1}};
    int r = host_memory(&size_bpf->host_memory_bytes, err);
    if (r < 0) {
        return r;
    }
    size_bpf->map_fd = map_make(err);
    r = size_bpf->map_fd < 0 ? size_bpf->map_fd : programs_start(size_bpf, err);
    if (r == 0) {
        *out = move_ptr(&size_bpf);
    }
    return r;
}

void size_bpf_close(struct size_bpf *size_bpf)
{
    if (!size_bpf) {
        return;
    }
    for (size_t i = 0; i < SIZE_BPF_CALLS; i++) {
        fd_closep(&size_bpf->links[i]);
    }
    fd_closep(&size_bpf->map_fd);
    free(size_bpf);
}

/* ---- jails ---- */

static void put(struct size_bpf *size_bpf, const char *id, uint64_t group,
                const struct size_bpf_entry *entry, uint64_t flags)
{
    struct size_bpf_entry fitting = *entry;

    if (fitting.memory_bytes > size_bpf->host_memory_bytes) {
        fitting.memory_bytes = size_bpf->host_memory_bytes;
    }
    int r = map_put(size_bpf->map_fd, group, &fitting, flags);
    if (r < 0) {
        log_warn("jail %s is told the host's size by statfs() and sysinfo(): %s", id,
                 strerrordesc_np(-r));
    }
}

void size_bpf_add(struct size_bpf *size_bpf, struct cgroups *groups, struct pool *pool,
                  const char *id, const struct keeper_plan *plan)
{
    struct size_bpf_entry entry = {
        .disk_bytes = pool_limits_disk(pool) ? (uint64_t)plan->disk_mb << 20 : 0,
        .memory_bytes = (uint64_t)plan->memory_mb << 20,
    };

    if (!size_bpf) {
        return;
    }
    if (plan->from[0] || plan->keeps_disk) { /* all other disks are empty */
        entry.disk_used_bytes = pool_disk_bytes(pool, id);
    }
    put(size_bpf, id, cgroups_number(groups, id), &entry, BPF_ANY);
}

void size_bpf_found(struct size_bpf *size_bpf, struct cgroups *groups, struct pool *pool,
                    const char *id)
{
    struct keeper_usage usage = {0};

    if (!size_bpf || cgroups_sample(groups, id, &usage) < 0) {
        return;
    }
    const struct size_bpf_entry entry = {
        .disk_bytes = pool_disk_limit(pool, id),
        .disk_used_bytes = pool_disk_bytes(pool, id),
        .memory_bytes = cgroups_memory_limit(groups, id),
        .memory_used_bytes = usage.memory_bytes,
    };
    put(size_bpf, id, cgroups_number(groups, id), &entry, BPF_ANY);
}

void size_bpf_used(struct size_bpf *size_bpf, struct cgroups *groups, const char *id,
                   const struct keeper_usage *usage)
{
    const uint64_t group = size_bpf ? cgroups_number(groups, id) : 0;
    struct size_bpf_entry entry;

    if (!group || map_get(size_bpf->map_fd, group, &entry) < 0) {
        return;
    }
    entry.disk_used_bytes = usage->disk_bytes;
    entry.memory_used_bytes = usage->memory_bytes;
    put(size_bpf, id, group, &entry, BPF_EXIST);
}

void size_bpf_remove(struct size_bpf *size_bpf, struct cgroups *groups, const char *id)
{
    const uint64_t group = size_bpf ? cgroups_number(groups, id) : 0;

    union bpf_attr attr = {
        .map_fd = size_bpf ? (uint32_t)size_bpf->map_fd : 0,
        .key = address(&group),
    };

    if (group) {
        (void)kernel_bpf(BPF_MAP_DELETE_ELEM, &attr);
    }
}
