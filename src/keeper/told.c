#include "keeper/told.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "keeper/told_program.h"

struct told {
    uint64_t host_memory_bytes;
    int map_fd;
    int links[TOLD_CALLS]; /* each holds its program */
};

/* ---- the programs ---- */

static void btf_freep(struct btf **types)
{
    btf__free(*types);
}

/* The kernel has another errno for each of its reasons, and most of them for several. One of them
 * is the kernel's alone: ENOTSUPP, where functions of this machine cannot be attached to. */
static int refused(int r, const char *what, struct err *err)
{
    const char *why = strerrordesc_np(-r);

    return err_set(err, -r,
                   "the kernel refuses a BPF program that writes to memory of programs "
                   "(%s: %s), as it does when it is locked down (Secure Boot)",
                   what, why ? why : "not supported");
}

/* Returns what it is attached by. */
static int attach(const struct btf *types, enum told_call which, int map_fd, struct err *err)
{
    struct bpf_insn insns[TOLD_INSNS_MAX];
    const char *function = told_functions[which];
    size_t n = told_program(which, map_fd, insns);

    int type = btf__find_by_name_kind(types, function, BTF_KIND_FUNC);
    if (type < 0) {
        return err_set(err, ENOENT, "the kernel has no function %s to attach to", function);
    }
    LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = BPF_TRACE_FEXIT,
                .attach_btf_id = (uint32_t)type);
    scoped_fd program =
        bpf_prog_load(BPF_PROG_TYPE_TRACING, "atoll_told", "GPL", insns, n, &options);
    if (program < 0) {
        return refused(program, "load", err);
    }
    int link = bpf_raw_tracepoint_open(NULL, program);
    return link < 0 ? refused(link, "attach", err) : link;
}

static int map_make(struct err *err)
{
    LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_NO_PREALLOC);
    int fd = bpf_map_create(BPF_MAP_TYPE_HASH, "atoll_told", sizeof(uint64_t),
                            sizeof(struct told_entry), KEEPER_UID_SLOTS, &options);

    return fd < 0 ? err_set(err, -fd, "make a BPF map: %s", strerrordesc_np(-fd)) : fd;
}

static void told_closep(struct told **told)
{
    told_close(*told);
}

static int programs_start(struct told *told, struct err *err)
{
    (void)libbpf_set_print(NULL);
    scoped(btf_freep) struct btf *types = btf__load_vmlinux_btf();
    if (!types) {
        return err_set(err, errno, "the kernel does not describe its types (/sys/kernel/btf): %s",
                       strerrordesc_np(errno));
    }
    told->map_fd = map_make(err);
    if (told->map_fd < 0) {
        return told->map_fd;
    }
    for (enum told_call i = 0; i < TOLD_CALLS; i++) {
        told->links[i] = attach(types, i, told->map_fd, err);
        if (told->links[i] < 0) {
            return told->links[i];
        }
    }
    return 0;
}

int told_open(struct told **out, struct err *err)
{
    scoped(told_closep) struct told *told = xnew(struct told);
    struct sysinfo host;
    struct rlimit locked;

    *told = (struct told){.map_fd = -1, .links = {-1, -1, -1}};
    if (sysinfo(&host) < 0 || getrlimit(RLIMIT_MEMLOCK, &locked) < 0) {
        return err_sys(err, "ask for the host's memory");
    }
    told->host_memory_bytes = (uint64_t)host.totalram * host.mem_unit;

    int r = programs_start(told, err);
    (void)setrlimit(RLIMIT_MEMLOCK, &locked); /* which the library raises, and jails inherit */
    if (r == 0) {
        *out = move_ptr(&told);
    }
    return r;
}

void told_close(struct told *told)
{
    if (!told) {
        return;
    }
    for (size_t i = 0; i < TOLD_CALLS; i++) {
        fd_closep(&told->links[i]);
    }
    fd_closep(&told->map_fd);
    free(told);
}

/* ---- jails ---- */

static void put(struct told *told, const char *id, uint64_t group, const struct told_entry *entry,
                uint64_t flags)
{
    struct told_entry fitting = *entry;

    if (fitting.memory_bytes > told->host_memory_bytes) {
        fitting.memory_bytes = told->host_memory_bytes;
    }
    int r = bpf_map_update_elem(told->map_fd, &group, &fitting, flags);
    if (r < 0) {
        log_warn("jail %s is told the host's size by statfs() and sysinfo(): %s", id,
                 strerrordesc_np(-r));
    }
}

void told_add(struct told *told, struct cgroups *groups, struct pool *pool, const char *id,
              const struct keeper_plan *plan)
{
    struct told_entry entry = {
        .disk_bytes = pool_limits_disk(pool) ? (uint64_t)plan->disk_mb << 20 : 0,
        .memory_bytes = (uint64_t)plan->memory_mb << 20,
    };

    if (!told) {
        return;
    }
    if (plan->from[0] || plan->keeps_disk) { /* any other disk is empty */
        entry.disk_used_bytes = pool_disk_bytes(pool, id);
    }
    put(told, id, cgroups_number(groups, id), &entry, BPF_ANY);
}

void told_found(struct told *told, struct cgroups *groups, struct pool *pool, const char *id)
{
    struct keeper_usage usage = {0};

    if (!told || cgroups_sample(groups, id, &usage) < 0) {
        return;
    }
    const struct told_entry entry = {
        .disk_bytes = pool_disk_limit(pool, id),
        .disk_used_bytes = pool_disk_bytes(pool, id),
        .memory_bytes = cgroups_memory_limit(groups, id),
        .memory_used_bytes = usage.memory_bytes,
    };
    put(told, id, cgroups_number(groups, id), &entry, BPF_ANY);
}

void told_used(struct told *told, struct cgroups *groups, const char *id,
               const struct keeper_usage *usage)
{
    const uint64_t group = told ? cgroups_number(groups, id) : 0;
    struct told_entry entry;

    if (!group || bpf_map_lookup_elem(told->map_fd, &group, &entry) < 0) {
        return;
    }
    entry.disk_used_bytes = usage->disk_bytes;
    entry.memory_used_bytes = usage->memory_bytes;
    put(told, id, group, &entry, BPF_EXIST);
}

void told_remove(struct told *told, struct cgroups *groups, const char *id)
{
    const uint64_t group = told ? cgroups_number(groups, id) : 0;

    if (group) {
        (void)bpf_map_delete_elem(told->map_fd, &group);
    }
}
