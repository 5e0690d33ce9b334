/* A jail, looked at from inside through the probe and from outside through the kernel. */
#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "check.h"
#include "rig.h"

static struct rig rig;
static struct rig_jail one; /* stays for all tests that only look */

/* ---- helpers ---- */

static const char *namespace_of(int pid, const char *name)
{
    static char target[64];
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid, name);
    ssize_t n = readlink(path, target, sizeof(target) - 1);
    target[n > 0 ? n : 0] = '\0';
    return target;
}

static struct keeper_usage usage_of(const char *id)
{
    struct keeper_request req = {.op = KEEPER_USAGE};

    (void)snprintf(req.id, sizeof(req.id), "%s", id);
    return rig_ask(&rig, &req, NULL).usage;
}

/* ---- who and where ---- */

static void root_inside_is_nobody_outside(void)
{
    char want[64];

    (void)snprintf(want, sizeof(want), "         0  %d      65536\n", KEEPER_UID_FIRST);
    CHECK_STR(rig_host_read_proc(one.name.pid, "uid_map"), want);
    CHECK_STR(rig_host_read_proc(one.name.pid, "gid_map"), want);
    CHECK(rig_says(&one, "read /proc/self/status", "Uid:\t0\t0\t0\t0\n"));
    CHECK(rig_says(&one, "read /proc/self/status", "Groups:\t \n"));
}

/* The kernel charges the owner for what a namespace uses. */
static void the_user_namespace_belongs_to_the_jail(void)
{
    char path[64];
    uid_t owner = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/ns/user", one.name.pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK_INT(ioctl(fd, NS_GET_OWNER_UID, &owner), 0);
    CHECK_INT(owner, KEEPER_UID_FIRST);
    (void)close(fd);
}

static void every_namespace_is_its_own(void)
{
    static const char *const names[] = {"user", "mnt",   "pid_for_children", "net", "ipc",
                                        "uts",  "cgroup"};

    for (size_t i = 0; i < countof(names); i++) {
        char host[64];
        (void)snprintf(host, sizeof(host), "%s", namespace_of(getpid(), names[i]));
        CHECK_THAT(strcmp(host, namespace_of(one.name.pid, names[i])) != 0, "shares %s", names[i]);
    }
    CHECK(rig_says(&one, "list /proc/1/fd", "3 -> socket:"));
}

static void capabilities_are_cut(void)
{
    /* chown dac_override fowner fsetid kill setgid setuid setpcap net_bind_service sys_chroot
     * audit_write setfcap */
    CHECK(rig_says(&one, "read /proc/1/status", "CapInh:\t0000000000000000\n"));
    CHECK(rig_says(&one, "read /proc/1/status", "CapPrm:\t00000000a00405fb\n"));
    CHECK(rig_says(&one, "read /proc/1/status", "CapEff:\t00000000a00405fb\n"));
    CHECK(rig_says(&one, "read /proc/1/status", "CapBnd:\t00000000a00405fb\n"));
    CHECK(rig_says(&one, "read /proc/1/status", "CapAmb:\t0000000000000000\n"));
}

static void the_filter_is_on_and_sudo_can_work(void)
{
    CHECK(rig_says(&one, "read /proc/1/status", "Seccomp:\t2\n"));
    CHECK(rig_says(&one, "read /proc/1/status", "NoNewPrivs:\t0\n"));
}

static void nothing_of_the_keeper_leaks(void)
{
    /* The probe's own: its connection, and the directory it lists. */
    CHECK_STR(rig_probe(&one, "read /proc/1/environ"),
              "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    CHECK(rig_says(&one, "list /proc/1/fd", "0 -> /dev/null\n"));
    CHECK(rig_says(&one, "list /proc/1/fd", "1 -> /dev/null\n"));
    CHECK(rig_says(&one, "list /proc/1/fd", "2 -> /dev/null\n"));
    char fds[1024];
    (void)snprintf(fds, sizeof(fds), "%s", rig_probe(&one, "list /proc/1/fd"));
    int n = 0;
    for (const char *p = fds; (p = strchr(p, '\n')); p++) {
        n++;
    }
    CHECK_INT(n, 6);
    CHECK(rig_says(&one, "read /proc/1/stat", "1 (agent) R 0 1 1 0 -1 ")); /* own session, no tty */
    CHECK(rig_says(&one, "read /proc/1/status", "SigIgn:\t0000000000000000\n"));
    CHECK(rig_says(&one, "read /proc/1/status", "SigBlk:\t0000000000000000\n"));
    CHECK(rig_says(&one, "read /proc/1/limits", "Max core file size        1 "));
}

static void only_its_processes_are_seen(void)
{
    CHECK(rig_says(&one, "list /proc", "\n1\n"));
    char text[8192], pid[32];
    (void)snprintf(text, sizeof(text), "\n%s", rig_probe(&one, "list /proc"));
    (void)snprintf(pid, sizeof(pid), "\n%d\n", one.name.pid);
    CHECK(!strstr(text, pid));
    CHECK(rig_says(&one, "read /proc/1/cgroup", "0::/\n"));
    CHECK(!strstr(rig_probe(&one, "read /proc/1/cgroup"), "atoll"));
}

static void the_name_and_boot_are_its_own(void)
{
    char inside[64];

    CHECK_STR(rig_probe(&one, "read /proc/sys/kernel/hostname"), "jail.test\n");
    CHECK_STR(rig_probe(&one, "read /etc/hosts"), "127.0.0.1 localhost\n127.0.1.1\tjail.test\n");
    CHECK_STR(rig_probe(&one, "read /etc/hostname"), "jail.test\n");
    (void)snprintf(inside, sizeof(inside), "%s",
                   rig_probe(&one, "read /proc/sys/kernel/random/boot_id"));
    CHECK_INT(strlen(inside), 37);
    CHECK(strcmp(inside, rig_host_read("/proc/sys/kernel/random/boot_id")) != 0);
}

static void proc_and_sys_are_covered(void)
{
    CHECK_STR(rig_probe(&one, "read /proc/keys"), "");
    CHECK(rig_says(&one, "stat /proc/timer_list", "20666 "));
    CHECK(rig_says(&one, "write /proc/sys/net/ipv4/ip_forward 1", "error E"));
    CHECK(rig_says(&one, "write /proc/sys/kernel/hostname x", "error E"));
    CHECK(rig_says(&one, "read /proc/self/mounts", "/proc/sys proc ro,nosuid,nodev,noexec"));
    CHECK_STR(rig_probe(&one, "list /sys/fs/cgroup"), "");
    CHECK_STR(rig_probe(&one, "read /sys/devices/system/cpu/online"), "0\n");
    CHECK(rig_says(&one, "read /proc/meminfo", "MemTotal:            131072 kB\n"));
    CHECK_STR(rig_probe(&one, "write /proc/meminfo x"), "error EROFS");
    CHECK_STR(rig_probe(&one, "write /proc/stat x"), "error EROFS");
    CHECK_STR(rig_probe(&one, "write /proc/cpuinfo x"), "error EROFS");
    CHECK_STR(rig_probe(&one, "write /sys/devices/system/cpu/online x"), "error EROFS");
    CHECK_STR(rig_probe(&one, "write /sys/x 1"), "error EROFS");
    CHECK_STR(rig_probe(&one, "list /sys/firmware"), "error ENOENT");
    CHECK_STR(rig_probe(&one, "read /proc/sys/net/mptcp/enabled"), "0\n");
}

static void dev_is_fresh(void)
{
    static const struct {
        const char *command, *want;
    } nodes[] = {
        {"stat /dev/null", "20666 65534:65534 1:3"},
        {"stat /dev/zero", "20666 65534:65534 1:5"},
        {"stat /dev/full", "20666 65534:65534 1:7"},
        {"stat /dev/random", "20666 65534:65534 1:8"},
        {"stat /dev/urandom", "20666 65534:65534 1:9"},
    };

    for (size_t i = 0; i < countof(nodes); i++) {
        CHECK_STR(rig_probe(&one, nodes[i].command), nodes[i].want);
    }
    CHECK(rig_says(&one, "list /dev", "ptmx -> pts/ptmx\n"));
    CHECK(rig_says(&one, "list /dev", "fd -> /proc/self/fd\n"));
    CHECK(rig_says(&one, "stat /dev/pts/ptmx", "20666 0:0 5:2"));
    CHECK(rig_says(&one, "stat /dev/shm", "41777 0:0"));
    CHECK(!strstr(rig_probe(&one, "list /dev"), "vda"));
    CHECK(!strstr(rig_probe(&one, "list /dev"), "loop"));
}

/* ---- system calls ---- */

static void calls_are_refused_with_an_errno(void)
{
    static const char *const calls[][2] = {
        {"bpf", "EPERM"},
        {"keyctl", "EPERM"},
        {"io_uring", "ENOSYS"},
        {"userfaultfd", "EPERM"},
        {"perf", "EPERM"},
        {"mount", "EPERM"},
        {"fsopen", "EPERM"},
        {"open_tree", "EPERM"},
        {"umount", "EPERM"},
        {"pivot_root", "EPERM"},
        {"setns", "EPERM"},
        {"handle", "EPERM"},
        {"clone3", "ENOSYS"},
        {"landlock", "ENOSYS"},
        {"secret", "ENOSYS"},
        {"settime", "EPERM"},
        {"reboot", "EPERM"},
        {"module", "EPERM"},
        {"unshare-user", "EPERM"},
        {"unshare-net", "EPERM"},
        {"unshare-mount", "EPERM"},
        {"unshare-time", "EPERM"},
        {"clone-user", "EPERM"},
        {"unshare-files", "ok"},
        {"alg", "EAFNOSUPPORT"},
        {"packet", "EAFNOSUPPORT"},
        {"vsock", "EAFNOSUPPORT"},
        {"high-bits", "EAFNOSUPPORT"},
        {"raw", "EPERM"},
        {"mptcp", "EPROTONOSUPPORT"},
        {"netlink-route", "ok"},
        {"netlink-audit", "EPROTONOSUPPORT"},
        {"inet", "ok"},
        {"inet-flags", "ok"},
        {"tcp", "ok"},
        {"udp", "ok"},
        {"ping", "EPROTONOSUPPORT"},
        {"sctp", "EPROTONOSUPPORT"},
        {"udp-lite", "EPROTONOSUPPORT"},
        {"pair-sctp", "EOPNOTSUPP"},
        {"udp-encap", "ENOPROTOOPT"},
        {"io_setup", "ENOSYS"},
        {"tiocsti", "EPERM"},
        {"tiocsti-high", "EPERM"},
        {"ulp", "ENOPROTOOPT"},
        {"i386", "ENOSYS"},
        {"future", "ENOSYS"},
    };

    for (size_t i = 0; i < countof(calls); i++) {
        char command[64];
        (void)snprintf(command, sizeof(command), "call %s", calls[i][0]);
        const char *got = rig_probe(&one, command);
        CHECK_THAT(strcmp(got, calls[i][1]) == 0, "%s is %s, want %s", calls[i][0], got,
                   calls[i][1]);
    }
}

/* ---- the disk ---- */

static void writes_stay_in_the_jail(void)
{
    char path[128];
    struct stat st;

    CHECK_STR(rig_probe(&one, "write /etc/hosts changed"), "ok");
    CHECK_STR(rig_probe(&one, "write /root/new text"), "ok");
    CHECK_STR(rig_probe(&one, "stat /root/new"), "100644 0:0 0:0");
    CHECK_STR(rig_probe(&one, "rename /opt/old /opt/renamed"), "ok");

    rig_layer_path(&rig, "base", "etc/hosts", path);
    CHECK_STR(rig_host_read(path), "127.0.0.1 localhost\n");
    rig_layer_path(&rig, "base", "root/new", path);
    CHECK_INT(access(path, F_OK), -1);
    rig_layer_path(&rig, "base", "opt/old", path);
    CHECK_INT(access(path, F_OK), 0);

    /* On disk the owner is plain: the range is only a way of looking. */
    (void)snprintf(path, sizeof(path), "%s/sandboxes/one/upper/root/new", rig.pool);
    CHECK_INT(stat(path, &st), 0);
    CHECK_INT(st.st_uid, 0);
}

static void device_nodes_of_a_template_do_not_open(void)
{
    char path[128];
    struct rig_jail jail;

    rig_layer(&rig, "devices");
    rig_layer_path(&rig, "devices", "root/null", path);
    CHECK_INT(mknod(path, S_IFCHR | 0666, makedev(1, 3)), 0);
    struct keeper_request req = rig_create_request("devices", 1, "devices");
    CHECK_INT(rig_create(&rig, &req, &jail).status, 0);
    CHECK_STR(rig_probe(&jail, "read /root/null"), "error EACCES");
    CHECK_INT(rig_destroy(&rig, "devices").status, 0);
    rig_jail_close(&jail);
}

static void layers_are_stacked_topmost_first(void)
{
    char path[128];
    struct rig_jail jail;

    rig_layer(&rig, "top");
    rig_layer_path(&rig, "top", "etc/hosts", path);
    FILE *hosts = fopen(path, "we");
    CHECK(hosts);
    fputs("127.0.1.1 jail.test top\n", hosts);
    fclose(hosts);
    struct keeper_request req = rig_create_request("stacked", 1, "top");
    (void)snprintf(req.plan.layers[1], KEEPER_LAYER_BYTES, "base");
    req.plan.layers_n = 2;
    CHECK_INT(rig_create(&rig, &req, &jail).status, 0);
    CHECK_STR(rig_probe(&jail, "read /etc/hosts"), "127.0.1.1 jail.test top\n");
    CHECK_INT(rig_destroy(&rig, "stacked").status, 0);
    rig_jail_close(&jail);
}

/* ---- limits ---- */

static void a_memory_hog_hurts_itself(void)
{
    uint32_t before = usage_of("one").oom_kills;

    CHECK_STR(rig_probe(&one, "hog 512"), "signal 9");
    CHECK(usage_of("one").oom_kills > before);
    CHECK(usage_of("one").memory_bytes <= 128u << 20);
    CHECK_STR(rig_probe(&one, "hog 16"), "exit 0"); /* the jail goes on */
}

static void a_fork_bomb_hurts_itself(void)
{
    CHECK(rig_says(&one, "forks 1000", " EAGAIN"));
    CHECK(strtol(rig_probe(&one, "forks 1000"), NULL, 10) < 64);
    CHECK_STR(rig_probe(&one, "forks 10"), "10 ok");
}

static void a_disk_filler_hurts_itself(void)
{
    struct rig_jail other;
    struct keeper_request req = rig_create_request("other", 2, "base");

    CHECK_INT(rig_create(&rig, &req, &other).status, 0);
    CHECK(rig_says(&one, "fill /root/big 1000", " EDQUOT"));
    CHECK(strtol(rig_probe(&one, "fill /root/big 1000"), NULL, 10) <= 64);
    CHECK_STR(rig_probe(&other, "fill /root/small 16"), "16 ok");
    CHECK_INT(rig_destroy(&rig, "other").status, 0);
    rig_jail_close(&other);
}

static void usage_is_told(void)
{
    struct keeper_usage usage = usage_of("one");

    CHECK(usage.memory_bytes > 0);
    CHECK(usage.cpu_usec > 0);
    CHECK_INT(usage.pids, 1);
}

/* ---- several ---- */

static void two_jails_do_not_meet(void)
{
    struct rig_jail two;
    struct keeper_request req = rig_create_request("two", 1, "base");
    char mine[64];

    CHECK_INT(rig_create(&rig, &req, &two).status, 0);
    CHECK_STR(rig_probe(&two, "write /root/secret x"), "ok");
    CHECK_STR(rig_probe(&one, "read /root/secret"), "error ENOENT");
    CHECK_STR(rig_probe(&two, "write /dev/shm/secret x"), "ok");
    CHECK_STR(rig_probe(&one, "read /dev/shm/secret"), "error ENOENT");
    (void)snprintf(mine, sizeof(mine), "%s",
                   rig_probe(&one, "read /proc/sys/kernel/random/boot_id"));
    CHECK(strcmp(mine, rig_probe(&two, "read /proc/sys/kernel/random/boot_id")) != 0);
    (void)snprintf(mine, sizeof(mine), "%s", namespace_of(one.name.pid, "net"));
    CHECK(strcmp(mine, namespace_of(two.name.pid, "net")) != 0);
    CHECK_INT(rig_destroy(&rig, "two").status, 0);
    rig_jail_close(&two);
}

static void an_id_is_taken_once(void)
{
    struct keeper_request req = rig_create_request("one", 3, "base");
    struct keeper_answer answer = rig_ask(&rig, &req, NULL);

    CHECK_INT(answer.status, -EEXIST);
    CHECK_STR(answer.err.msg, "jail one exists already");
    CHECK(rig_says(&one, "read /proc/self/status", "Uid:")); /* and the first is untouched */
}

static bool one_create(void)
{
    struct keeper_request req = rig_create_request("one", 0, "base");

    return rig_create(&rig, &req, &one).status == 0;
}

int main(int argc, char **argv)
{
    static const struct check_test tests[] = {
        {"root inside is nobody outside", root_inside_is_nobody_outside},
        {"the user namespace belongs to the jail", the_user_namespace_belongs_to_the_jail},
        {"every namespace is its own", every_namespace_is_its_own},
        {"capabilities are cut", capabilities_are_cut},
        {"the filter is on and sudo can work", the_filter_is_on_and_sudo_can_work},
        {"nothing of the keeper leaks", nothing_of_the_keeper_leaks},
        {"only its processes are seen", only_its_processes_are_seen},
        {"the name and boot are its own", the_name_and_boot_are_its_own},
        {"proc and sys are covered", proc_and_sys_are_covered},
        {"dev is fresh", dev_is_fresh},
        {"calls are refused with an errno", calls_are_refused_with_an_errno},
        {"writes stay in the jail", writes_stay_in_the_jail},
        {"device nodes of a template do not open", device_nodes_of_a_template_do_not_open},
        {"layers are stacked topmost first", layers_are_stacked_topmost_first},
        {"a memory hog hurts itself", a_memory_hog_hurts_itself},
        {"a fork bomb hurts itself", a_fork_bomb_hurts_itself},
        {"a disk filler hurts itself", a_disk_filler_hurts_itself},
        {"usage is told", usage_is_told},
        {"two jails do not meet", two_jails_do_not_meet},
        {"an id is taken once", an_id_is_taken_once},
    };

    return rig_main(&rig, argc, argv, one_create, tests, countof(tests));
}
