/* What statfs() and sysinfo() tell a jail. A kernel that lets nobody load the programs for it tells
 * the host's figures, and then `atoll doctor` must say so: its word decides what is expected here,
 * so that a kernel which allows them is never taken for one that does not. */
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "check.h"
#include "keeper/probe.h"
#include "lib/base/fd.h"
#include "rig.h"

enum { DISK_MB = 64, MEMORY_MB = 128 }; /* of rig_create_request() */

static struct rig rig;
static bool told; /* by doctor's word */

struct df {
    unsigned long type, blocks, free, available;
    long bsize;
};

struct memory {
    unsigned long total, free, swap;
    unsigned unit;
    long pages;
};

/* ---- helpers ---- */

static bool df_read(const char *text, struct df *out)
{
    return sscanf(text, "type %lx bsize %ld blocks %lu free %lu available %lu", // NOLINT
                  &out->type, &out->bsize, &out->blocks, &out->free, &out->available) == 5;
}

/* By statfs(), when fstatfs() says the same. */
static struct df df_of(const struct rig_jail *jail, const char *path)
{
    char command[64];
    struct df by_path = {0}, by_fd = {0};

    (void)snprintf(command, sizeof(command), "df %s", path);
    const char *text = rig_probe(jail, command);
    const char *second = strchr(text, '\n');
    if (!df_read(text, &by_path) || !second || !df_read(second + 1, &by_fd) ||
        by_path.blocks != by_fd.blocks) {
        printf("# '%s' says '%s'\n", command, text);
        return (struct df){0};
    }
    return by_path;
}

static struct memory memory_of(const struct rig_jail *jail)
{
    struct memory out = {0};
    const char *text = rig_probe(jail, "sysinfo");

    if (sscanf(text, "total %lu free %lu swap %lu unit %u pages %ld", // NOLINT
               &out.total, &out.free, &out.swap, &out.unit, &out.pages) != 5) {
        printf("# sysinfo says '%s'\n", text);
    }
    return out;
}

static struct rig_jail start(const char *id, uint32_t slot, uint32_t disk_mb, uint32_t memory_mb)
{
    struct rig_jail jail = {.pidfd = -1, .channel = -1};
    struct keeper_request req = rig_create_request(id, slot, "base");

    req.plan.disk_mb = disk_mb;
    req.plan.memory_mb = memory_mb;
    if (rig_create(&rig, &req, &jail).status < 0) {
        check_failed = true;
    }
    return jail;
}

static void jail_close(struct rig_jail *jail)
{
    fd_closep(&jail->pidfd);
    fd_closep(&jail->channel);
}

static void end(struct rig_jail *jail)
{
    jail_close(jail);
    (void)rig_destroy(&rig, jail->id);
}

static uint64_t disk_bytes_ask(const char *id)
{
    struct keeper_request req = {.op = KEEPER_USAGE};

    (void)snprintf(req.id, sizeof(req.id), "%s", id);
    return rig_ask(&rig, &req, NULL).usage.disk_bytes;
}

static void check_size(const struct rig_jail *jail, uint32_t disk_mb, uint32_t memory_mb)
{
    struct df df = df_of(jail, "/");
    struct memory memory = memory_of(jail);
    struct statfs pool;
    struct sysinfo host;

    CHECK_INT(statfs(rig.pool, &pool), 0);
    CHECK_INT(sysinfo(&host), 0);
    CHECK_INT(df.type, OVERLAYFS_SUPER_MAGIC);
    CHECK_INT(df.bsize, pool.f_bsize);
    CHECK_INT(df.blocks * (unsigned long)df.bsize,
              told ? (unsigned long)disk_mb << 20 : pool.f_blocks * (unsigned long)pool.f_bsize);
    CHECK(df.free <= df.blocks && df.available <= df.free);
    CHECK_INT(memory.total * memory.unit,
              told ? (unsigned long)memory_mb << 20 : host.totalram * host.mem_unit);
    CHECK_INT(memory.pages, memory.total * memory.unit / (unsigned long)sysconf(_SC_PAGESIZE));
    CHECK(memory.free <= memory.total);
    CHECK_INT(memory.swap, told ? 0 : host.totalswap + host.freeswap);
}

/* The number of a jail's group, which the maps have it under. */
static uint64_t group_of(const char *id)
{
    static const char *const roots[] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"};
    char path[128];
    struct stat st;

    for (size_t i = 0; i < countof(roots); i++) {
        (void)snprintf(path, sizeof(path), "%s/atoll-%s/%s", roots[i], rig.instance, id);
        if (stat(path, &st) == 0) {
            return st.st_ino;
        }
    }
    return 0;
}

static long kernel_bpf(enum bpf_cmd command, union bpf_attr *attr)
{
    return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

static bool is_ours(int map_fd)
{
    struct bpf_map_info info = {0};
    union bpf_attr attr = {
        .info = {.bpf_fd = (uint32_t)map_fd, .info_len = sizeof(info), .info = (uintptr_t)&info}};

    return kernel_bpf(BPF_OBJ_GET_INFO_BY_FD, &attr) == 0 && strcmp(info.name, "atoll_told") == 0;
}

/* How many maps of keepers have an entry for it. */
static int entries_of(uint64_t group)
{
    union bpf_attr next = {.start_id = 0};
    uint64_t value[8];
    int n = 0;

    while (kernel_bpf(BPF_MAP_GET_NEXT_ID, &next) == 0) {
        union bpf_attr by_id = {.map_id = next.next_id};
        scoped_fd fd = (int)kernel_bpf(BPF_MAP_GET_FD_BY_ID, &by_id);
        union bpf_attr look = {
            .map_fd = (uint32_t)fd, .key = (uintptr_t)&group, .value = (uintptr_t)value};
        n += fd >= 0 && is_ours(fd) && kernel_bpf(BPF_MAP_LOOKUP_ELEM, &look) == 0;
        next = (union bpf_attr){.start_id = next.next_id};
    }
    return n;
}

/* ---- tests ---- */

static void doctor_says_whether_it_works_and_why_not(void)
{
    const struct probe_result wanted = probe_size_bpf(true), unwanted = probe_size_bpf(false);

    CHECK_STR(wanted.name, "figures");
    if (told) {
        CHECK_STR(wanted.sentence, "df and sysinfo() in a sandbox tell its own limits");
    } else {
        CHECK_INT(wanted.verdict, PROBE_DEGRADED);
        CHECK_THAT(strstr(wanted.sentence, "in a sandbox tell the host's figures"), "%s",
                   wanted.sentence);
        CHECK_THAT(strstr(wanted.sentence, ": the kernel "), "%s", wanted.sentence);
    }
    CHECK_INT(unwanted.verdict, PROBE_OK);
    CHECK(strstr(unwanted.sentence, "bpf_figures is off"));
}

static void a_jail_is_told_its_own_size(void)
{
    struct rig_jail jail = start("one", 0, DISK_MB, MEMORY_MB);

    check_size(&jail, DISK_MB, MEMORY_MB);
    end(&jail);
}

static void each_jail_is_told_its_own(void)
{
    struct rig_jail one = start("one", 0, 32, 64), two = start("two", 1, 100, 256);

    check_size(&one, 32, 64);
    check_size(&two, 100, 256);
    check_size(&one, 32, 64);
    end(&two);
    end(&one);
}

static void a_limit_beyond_the_host_is_the_host(void)
{
    struct rig_jail jail = start("one", 0, KEEPER_DISK_MB_MAX, KEEPER_MEMORY_MB_MAX);
    struct df df = df_of(&jail, "/");
    struct memory memory = memory_of(&jail);
    struct statfs pool;
    struct sysinfo host;

    CHECK_INT(statfs(rig.pool, &pool), 0);
    CHECK_INT(sysinfo(&host), 0);
    CHECK_INT(df.blocks, pool.f_blocks);
    CHECK_INT(memory.total * memory.unit, host.totalram * host.mem_unit);
    end(&jail);
}

static void what_is_used_shows(void)
{
    struct rig_jail jail = start("one", 0, DISK_MB, MEMORY_MB);
    struct df before = df_of(&jail, "/");
    const unsigned long blocks = (20UL << 20) / (unsigned long)before.bsize;

    CHECK_STR(rig_probe(&jail, "fill /root/full 20"), "20 ok");
    int fd = open(rig.pool, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK_INT(syncfs(fd), 0); /* btrfs counts at its next commit */
    (void)close(fd);
    CHECK(disk_bytes_ask("one") >= 20UL << 20);
    struct df after = df_of(&jail, "/");
    CHECK_INT(after.blocks, before.blocks);
    CHECK_THAT(before.free - after.free >= blocks && before.free - after.free < blocks * 2,
               "%lu blocks free, then %lu", before.free, after.free);
    struct memory memory = memory_of(&jail);
    CHECK(!told || (memory.free < memory.total &&
                    memory.free > memory.total - (unsigned long)(MEMORY_MB << 20)));
    end(&jail);
}

/* In a jail, by the kernel's own word: the mounts are looked at from outside. */
static void other_file_systems_are_told_as_they_are(void)
{
    static const char *const paths[] = {"/run", "/dev", "/proc", "/sys", "/dev/shm"};
    struct rig_jail jail = start("one", 0, DISK_MB, MEMORY_MB);

    for (size_t i = 0; i < countof(paths); i++) {
        char path[64];
        struct statfs fs;
        (void)snprintf(path, sizeof(path), "/proc/%d/root%s", jail.name.pid, paths[i]);
        CHECK_INT(statfs(path, &fs), 0);
        struct df df = df_of(&jail, paths[i]);
        CHECK_INT(df.type, fs.f_type);
        CHECK_INT(df.blocks, fs.f_blocks);
        CHECK_INT(df.available, fs.f_bavail);
        CHECK(df.type != OVERLAYFS_SUPER_MAGIC);
    }
    end(&jail);
}

static void the_host_is_told_the_host(void)
{
    struct rig_jail jail = start("one", 0, DISK_MB, MEMORY_MB);
    char path[64];
    struct statfs pool, fs;

    (void)snprintf(path, sizeof(path), "/proc/%d/root/", jail.name.pid);
    CHECK_INT(statfs(path, &fs), 0);
    CHECK_INT(statfs(rig.pool, &pool), 0);
    CHECK_INT(fs.f_type, OVERLAYFS_SUPER_MAGIC);
    CHECK_INT(fs.f_blocks, pool.f_blocks);
    end(&jail);
}

static void a_bad_buffer_is_the_callers_error_as_ever(void)
{
    struct rig_jail jail = start("one", 0, DISK_MB, MEMORY_MB);

    CHECK_STR(rig_probe(&jail, "odd-buffers"),
              "ok ok EFAULT EFAULT EFAULT EFAULT EFAULT EFAULT EFAULT EFAULT EFAULT EFAULT EFAULT "
              "EFAULT clean");
    check_size(&jail, DISK_MB, MEMORY_MB);
    end(&jail);
}

static void a_restored_jail_is_told_the_size_that_it_has_now(void)
{
    struct rig_jail jail = start("one", 0, DISK_MB, MEMORY_MB), again;
    struct keeper_request req = rig_create_request("one", 3, "base");

    CHECK_STR(rig_probe(&jail, "fill /root/full 20"), "20 ok");
    rig_hang_up(&jail);
    CHECK_INT(
        rig_save(&rig, "one", "saved-one", KEEPER_SAVE_MEMORY | KEEPER_SAVE_STOP | KEEPER_SAVE_SYNC)
            .status,
        0);
    jail_close(&jail);
    CHECK_INT(rig_destroy(&rig, "one").status, 0);
    req.op = KEEPER_RESTORE;
    (void)snprintf(req.plan.from, sizeof(req.plan.from), "saved-one");
    req.plan.memory_mb = 222;
    req.plan.disk_mb = 90;
    CHECK_INT(rig_create(&rig, &req, &again).status, 0);
    check_size(&again, 90, 222);
    struct df df = df_of(&again, "/"); /* nobody has asked for its usage yet */
    const unsigned long used = (df.blocks - df.free) * (unsigned long)df.bsize;
    CHECK(!told || (used == disk_bytes_ask("one") && used >= 20 << 20));
    end(&again);
    CHECK_INT(rig_forget(&rig, "saved-one").status, 0);
}

/* No server asks for anything here: the new keeper finds the jail and its limits by itself. */
static void the_next_keeper_goes_on_telling(void)
{
    const bool was_told = told;
    struct rig_jail jail = start("one", 0, DISK_MB, MEMORY_MB);

    check_size(&jail, DISK_MB, MEMORY_MB);
    rig_keeper_kill(&rig);
    told = false; /* the programs went with their keeper */
    check_size(&jail, DISK_MB, MEMORY_MB);
    rig_keeper_start(&rig);
    (void)rig_ask(&rig, &(struct keeper_request){.op = KEEPER_HELLO}, NULL); /* it has looked */
    told = was_told;
    check_size(&jail, DISK_MB, MEMORY_MB);
    end(&jail);
}

static void what_is_told_of_a_jail_goes_with_it(void)
{
    struct rig_jail jail = start("one", 0, DISK_MB, MEMORY_MB);
    const uint64_t group = group_of("one");

    CHECK(group);
    CHECK_INT(entries_of(group), told ? 1 : 0);
    end(&jail);
    CHECK_INT(entries_of(group), 0);
    struct keeper_request req = rig_create_request("two", 0, "missing");
    CHECK(rig_create(&rig, &req, &jail).status < 0);
    CHECK_INT(group_of("two"), 0);
}

static bool begin(void)
{
    const struct probe_result result = probe_size_bpf(true);

    printf("# %s\n", result.sentence);
    told = result.verdict == PROBE_OK;
    return true;
}

int main(int argc, char **argv)
{
    static const struct check_test tests[] = {
        {"doctor says whether it works, and why not", doctor_says_whether_it_works_and_why_not},
        {"a jail is told its own size", a_jail_is_told_its_own_size},
        {"each jail is told its own", each_jail_is_told_its_own},
        {"a limit beyond the host is the host", a_limit_beyond_the_host_is_the_host},
        {"what is used shows", what_is_used_shows},
        {"other file systems are told as they are", other_file_systems_are_told_as_they_are},
        {"the host is told the host", the_host_is_told_the_host},
        {"a bad buffer is the caller's error as ever", a_bad_buffer_is_the_callers_error_as_ever},
        {"the next keeper goes on telling", the_next_keeper_goes_on_telling},
        {"what is told of a jail goes with it", what_is_told_of_a_jail_goes_with_it},
        {"a restored jail is told the size that it has now",
         a_restored_jail_is_told_the_size_that_it_has_now},
    };

    return rig_main(&rig, argc, argv, begin, tests, countof(tests));
}
