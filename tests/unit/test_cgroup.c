/* Limits and mounts are checked against ordinary files, so this needs no privileges. What only the
 * kernel can answer is in tests/system/. */
#include "keeper/jail/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "check.h"
#include "lib/base/fd.h"
#include "tmpdir.h"

static const struct cgroup_limits limits = {.cpu_millis = 1500, .memory_mb = 512, .pids = 100};

static void touch(int dir_fd, const char *name)
{
    scoped_fd fd = openat(dir_fd, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    if (fd < 0) {
        abort();
    }
}

static const char *slurp(int dir_fd, const char *name)
{
    static char buf[64];
    scoped_fd fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, buf, sizeof(buf) - 1);

    buf[n > 0 ? n : 0] = '\0';
    return buf;
}

static void limits_of_the_unified_tree(void)
{
    struct err err = {0};
    scoped_tmpdir dir = tmpdir_make();

    touch(dir.fd, "memory.max");
    touch(dir.fd, "memory.swap.max");
    touch(dir.fd, "cpu.max");
    touch(dir.fd, "pids.max");
    CHECK_INT(cgroup_limit(dir.fd, true, CGROUP_ALL, &limits, &err), 0);
    CHECK_STR(slurp(dir.fd, "memory.max"), "536870912");
    CHECK_STR(slurp(dir.fd, "memory.swap.max"), "0");
    CHECK_STR(slurp(dir.fd, "cpu.max"), "150000 100000");
    CHECK_STR(slurp(dir.fd, "pids.max"), "100");
}

static void limits_of_the_old_trees(void)
{
    struct err err = {0};
    scoped_tmpdir dir = tmpdir_make();

    touch(dir.fd, "memory.limit_in_bytes");
    touch(dir.fd, "memory.memsw.limit_in_bytes");
    touch(dir.fd, "cpu.cfs_quota_us");
    CHECK_INT(cgroup_limit(dir.fd, false, CGROUP_MEMORY | CGROUP_CPU, &limits, &err), 0);
    CHECK_STR(slurp(dir.fd, "memory.limit_in_bytes"), "536870912");
    CHECK_STR(slurp(dir.fd, "memory.memsw.limit_in_bytes"), "536870912");
    CHECK_STR(slurp(dir.fd, "cpu.cfs_quota_us"), "150000");
}

static void swap_need_not_be_accounted(void)
{
    struct err err = {0};
    scoped_tmpdir dir = tmpdir_make();

    touch(dir.fd, "memory.max");
    CHECK_INT(cgroup_limit(dir.fd, true, CGROUP_MEMORY, &limits, &err), 0);
}

static void a_missing_controller_is_named(void)
{
    struct err err = {0};
    scoped_tmpdir dir = tmpdir_make();

    touch(dir.fd, "cpu.max");
    touch(dir.fd, "memory.max"); /* and no pids.max */
    CHECK_INT(cgroup_limit(dir.fd, true, CGROUP_ALL, &limits, &err), -ENOENT);
    CHECK_STR(err.msg, "open pids.max: No such file or directory");
}

static void hybrid_mounts_are_found(void)
{
    static const char text[] =
        "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
        "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
        "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
        "37 31 0:34 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
    struct cgroup_mounts mounts;

    cgroup_mounts_find(text, &mounts);
    CHECK_INT(mounts.n, 3);
    CHECK_STR(mounts.at[0].path, "/sys/fs/cgroup/unified");
    CHECK_STR(mounts.at[1].path, "/sys/fs/cgroup/cpu,cpuacct");
    CHECK_INT(mounts.at[1].controllers, CGROUP_CPU);
    CHECK_STR(mounts.at[2].path, "/sys/fs/cgroup/memory");
    CHECK_INT(mounts.at[2].controllers, CGROUP_MEMORY);
}

static void a_unified_host_has_one_mount(void)
{
    struct cgroup_mounts mounts;

    cgroup_mounts_find("30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n",
                       &mounts);
    CHECK_INT(mounts.n, 1);
    CHECK_STR(mounts.at[0].path, "/sys/fs/cgroup");
}

static void odd_mount_lines_are_passed_over(void)
{
    static const char *const texts[] = {
        "",
        "\n\n",
        "1 2 3",
        "1 2 0:1 / /x rw -",
        "1 2 0:1 / /x rw - cgroup",
        "- - - - - - - - -",
        "1 2 0:1 / /x rw - cgroup cgroup rw,nomemory,xpids\n",
    };

    for (size_t i = 0; i < countof(texts); i++) {
        struct cgroup_mounts mounts;
        cgroup_mounts_find(texts[i], &mounts);
        CHECK_INT(mounts.n, 1);
        CHECK_STR(mounts.at[0].path, "");
    }
}

static void values_are_found_by_their_whole_key(void)
{
    static const char text[] = "inactive_file 1\nfile 22\nactive_file 333\noom_kill 4";

    CHECK_INT(cgroup_stat_value(text, "file"), 22);
    CHECK_INT(cgroup_stat_value(text, "active_file"), 333);
    CHECK_INT(cgroup_stat_value(text, "inactive_file"), 1);
    CHECK_INT(cgroup_stat_value(text, "oom_kill"), 4);
    CHECK_INT(cgroup_stat_value(text, "oom"), 0);
    CHECK_INT(cgroup_stat_value("", "x"), 0);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"limits of the unified tree", limits_of_the_unified_tree},
        {"limits of the old trees", limits_of_the_old_trees},
        {"swap need not be accounted", swap_need_not_be_accounted},
        {"a missing controller is named", a_missing_controller_is_named},
        {"hybrid mounts are found", hybrid_mounts_are_found},
        {"a unified host has one mount", a_unified_host_has_one_mount},
        {"odd mount lines are passed over", odd_mount_lines_are_passed_over},
        {"values are found by their whole key", values_are_found_by_their_whole_key},
    };
    return check_run(tests, countof(tests));
}
