/* A jail, looked at from inside through the probe and from outside through the kernel. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <linux/sockios.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "rig.h"

static struct rig rig;
static struct rig_jail one; /* stays for all tests that only look */

/* ---- helpers ---- */

static bool says(const struct rig_jail *jail, const char *command, const char *part)
{
    const char *text = rig_probe(jail, command);
    bool found = strstr(text, part) != NULL;

    if (!found) {
        printf("# '%s' says '%.400s', want '%s'\n", command, text, part);
    }
    return found;
}

static const char *host_read(const char *path)
{
    static char text[4096];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    text[n > 0 ? n : 0] = '\0';
    (void)close(fd);
    return text;
}

static const char *host_read_proc(int pid, const char *name)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
    return host_read(path);
}

static const char *namespace_of(int pid, const char *name)
{
    static char target[64];
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid, name);
    ssize_t n = readlink(path, target, sizeof(target) - 1);
    target[n > 0 ? n : 0] = '\0';
    return target;
}

static void layer_path(char out[128], const char *layer, const char *path)
{
    (void)snprintf(out, 128, "%s/layers/%s/%s", rig.pool, layer, path);
}

static struct keeper_usage usage_of(const char *id)
{
    struct keeper_request req = {.op = KEEPER_USAGE};

    (void)snprintf(req.id, sizeof(req.id), "%s", id);
    return rig_ask(&rig, &req, NULL).usage;
}

static void jail_close(struct rig_jail *jail)
{
    (void)close(jail->pidfd);
    (void)close(jail->channel);
}

/* ---- who and where ---- */

static void root_inside_is_nobody_outside(void)
{
    char want[64];

    (void)snprintf(want, sizeof(want), "         0  %d      65536\n", KEEPER_UID_FIRST);
    CHECK_STR(host_read_proc(one.name.pid, "uid_map"), want);
    CHECK_STR(host_read_proc(one.name.pid, "gid_map"), want);
    CHECK(says(&one, "read /proc/self/status", "Uid:\t0\t0\t0\t0\n"));
    CHECK(says(&one, "read /proc/self/status", "Groups:\t \n"));
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
    CHECK(says(&one, "list /proc/1/fd", "3 -> socket:"));
}

static void capabilities_are_cut(void)
{
    /* chown dac_override fowner fsetid kill setgid setuid setpcap net_bind_service sys_chroot
     * audit_write setfcap */
    CHECK(says(&one, "read /proc/1/status", "CapInh:\t0000000000000000\n"));
    CHECK(says(&one, "read /proc/1/status", "CapPrm:\t00000000a00405fb\n"));
    CHECK(says(&one, "read /proc/1/status", "CapEff:\t00000000a00405fb\n"));
    CHECK(says(&one, "read /proc/1/status", "CapBnd:\t00000000a00405fb\n"));
    CHECK(says(&one, "read /proc/1/status", "CapAmb:\t0000000000000000\n"));
}

static void the_filter_is_on_and_sudo_can_work(void)
{
    CHECK(says(&one, "read /proc/1/status", "Seccomp:\t2\n"));
    CHECK(says(&one, "read /proc/1/status", "NoNewPrivs:\t0\n"));
}

static void nothing_of_the_keeper_leaks(void)
{
    /* The probe's own: its connection, and the directory it lists. */
    CHECK_STR(rig_probe(&one, "read /proc/1/environ"),
              "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    CHECK(says(&one, "list /proc/1/fd", "0 -> /dev/null\n"));
    CHECK(says(&one, "list /proc/1/fd", "1 -> /dev/null\n"));
    CHECK(says(&one, "list /proc/1/fd", "2 -> /dev/null\n"));
    char fds[1024];
    (void)snprintf(fds, sizeof(fds), "%s", rig_probe(&one, "list /proc/1/fd"));
    int n = 0;
    for (const char *p = fds; (p = strchr(p, '\n')); p++) {
        n++;
    }
    CHECK_INT(n, 6);
    CHECK(says(&one, "read /proc/1/stat", "1 (agent) R 0 1 1 0 -1 ")); /* own session, no tty */
    CHECK(says(&one, "read /proc/1/status", "SigIgn:\t0000000000000000\n"));
    CHECK(says(&one, "read /proc/1/status", "SigBlk:\t0000000000000000\n"));
    CHECK(says(&one, "read /proc/1/limits", "Max core file size        1 "));
}

static void only_its_processes_are_seen(void)
{
    CHECK(says(&one, "list /proc", "\n1\n"));
    char text[8192], pid[32];
    (void)snprintf(text, sizeof(text), "\n%s", rig_probe(&one, "list /proc"));
    (void)snprintf(pid, sizeof(pid), "\n%d\n", one.name.pid);
    CHECK(!strstr(text, pid));
    CHECK(says(&one, "read /proc/1/cgroup", "0::/\n"));
    CHECK(!strstr(rig_probe(&one, "read /proc/1/cgroup"), "atoll"));
}

static void the_name_and_boot_are_its_own(void)
{
    char inside[64];

    CHECK_STR(rig_probe(&one, "read /proc/sys/kernel/hostname"), "jail.test\n");
    CHECK_STR(rig_probe(&one, "read /etc/hosts"), "127.0.0.1 localhost\n127.0.1.1\tjail.test\n");
    (void)snprintf(inside, sizeof(inside), "%s",
                   rig_probe(&one, "read /proc/sys/kernel/random/boot_id"));
    CHECK_INT(strlen(inside), 37);
    CHECK(strcmp(inside, host_read("/proc/sys/kernel/random/boot_id")) != 0);
}

static void proc_and_sys_are_covered(void)
{
    CHECK_STR(rig_probe(&one, "read /proc/keys"), "");
    CHECK(says(&one, "stat /proc/timer_list", "20666 "));
    CHECK(says(&one, "write /proc/sys/net/ipv4/ip_forward 1", "error E"));
    CHECK(says(&one, "write /proc/sys/kernel/hostname x", "error E"));
    CHECK(says(&one, "read /proc/self/mounts", "/proc/sys proc ro,nosuid,nodev,noexec"));
    CHECK_STR(rig_probe(&one, "list /sys/fs/cgroup"), "");
    CHECK_STR(rig_probe(&one, "read /sys/devices/system/cpu/online"), "0\n");
    CHECK(says(&one, "read /proc/meminfo", "MemTotal:            131072 kB\n"));
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
    CHECK(says(&one, "list /dev", "ptmx -> pts/ptmx\n"));
    CHECK(says(&one, "list /dev", "fd -> /proc/self/fd\n"));
    CHECK(says(&one, "stat /dev/pts/ptmx", "20666 0:0 5:2"));
    CHECK(says(&one, "stat /dev/shm", "41777 0:0"));
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

    layer_path(path, "base", "etc/hosts");
    CHECK_STR(host_read(path), "127.0.0.1 localhost\n");
    layer_path(path, "base", "root/new");
    CHECK_INT(access(path, F_OK), -1);
    layer_path(path, "base", "opt/old");
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
    layer_path(path, "devices", "root/null");
    CHECK_INT(mknod(path, S_IFCHR | 0666, makedev(1, 3)), 0);
    struct keeper_request req = rig_create_request("devices", 1, "devices");
    CHECK_INT(rig_create(&rig, &req, &jail).status, 0);
    CHECK_STR(rig_probe(&jail, "read /root/null"), "error EACCES");
    CHECK_INT(rig_destroy(&rig, "devices").status, 0);
    jail_close(&jail);
}

static void layers_are_stacked_topmost_first(void)
{
    char path[128];
    struct rig_jail jail;

    rig_layer(&rig, "top");
    layer_path(path, "top", "etc/hosts");
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
    jail_close(&jail);
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
    CHECK(says(&one, "forks 1000", " EAGAIN"));
    CHECK(strtol(rig_probe(&one, "forks 1000"), NULL, 10) < 64);
    CHECK_STR(rig_probe(&one, "forks 10"), "10 ok");
}

static void a_disk_filler_hurts_itself(void)
{
    struct rig_jail other;
    struct keeper_request req = rig_create_request("other", 2, "base");

    CHECK_INT(rig_create(&rig, &req, &other).status, 0);
    CHECK(says(&one, "fill /root/big 1000", " EDQUOT"));
    CHECK(strtol(rig_probe(&one, "fill /root/big 1000"), NULL, 10) <= 64);
    CHECK_STR(rig_probe(&other, "fill /root/small 16"), "16 ok");
    CHECK_INT(rig_destroy(&rig, "other").status, 0);
    jail_close(&other);
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
    jail_close(&two);
}

static void an_id_is_taken_once(void)
{
    struct keeper_request req = rig_create_request("one", 3, "base");
    struct keeper_answer answer = rig_ask(&rig, &req, NULL);

    CHECK_INT(answer.status, -EEXIST);
    CHECK_STR(answer.err.msg, "jail one exists already");
    CHECK(says(&one, "read /proc/self/status", "Uid:")); /* and the first is untouched */
}

/* ---- failing and ending ---- */

static void failing_create_leaves_nothing(const char *id, const char *layer, int status,
                                          const char *part)
{
    struct keeper_request req = rig_create_request(id, 5, layer);
    struct keeper_answer answer = rig_ask(&rig, &req, NULL);

    CHECK_INT(answer.status, status);
    CHECK_THAT(strstr(answer.err.msg, part), "it says '%s'", answer.err.msg);
    CHECK(!rig_trace_left(&rig, id));
}

static void a_missing_layer_is_named(void)
{
    failing_create_leaves_nothing("nolayer", "nosuch", -ENOENT, "no layer nosuch");
}

static void links_in_a_template_are_refused(void)
{
    static const char *const names[] = {"dev", "proc", "sys", "run"};

    for (size_t i = 0; i < countof(names); i++) {
        char layer[32], path[128], want[96];
        (void)snprintf(layer, sizeof(layer), "link-%s", names[i]);
        rig_layer(&rig, layer);
        layer_path(path, layer, names[i]);
        CHECK_INT(rmdir(path), 0);
        CHECK_INT(symlink("/tmp", path), 0);
        (void)snprintf(want, sizeof(want),
                       "/%s of the template is, or lies behind, a symbolic link", names[i]);
        failing_create_leaves_nothing("linked", layer, -ELOOP, want);
    }
}

static void links_below_dev_are_hidden(void)
{
    char path[128];
    struct rig_jail jail;

    rig_layer(&rig, "devnull");
    layer_path(path, "devnull", "dev/null");
    CHECK_INT(symlink("/proc/sys/kernel/core_pattern", path), 0);
    layer_path(path, "devnull", "dev/pts");
    CHECK_INT(symlink("/proc", path), 0);
    struct keeper_request req = rig_create_request("devnull", 5, "devnull");
    CHECK_INT(rig_create(&rig, &req, &jail).status, 0);
    CHECK(says(&jail, "stat /dev/null", " 1:3"));
    CHECK(says(&jail, "stat /dev/pts/ptmx", " 5:2"));
    CHECK_INT(rig_destroy(&rig, "devnull").status, 0);
    jail_close(&jail);
}

static void a_name_within_a_name_is_not_one(void)
{
    struct rig_jail jail;
    struct keeper_request req = rig_create_request("host", 5, "base");

    (void)snprintf(req.plan.hostname, sizeof(req.plan.hostname), "%s",
                   "local"); /* the template's file has localhost */
    CHECK_INT(rig_create(&rig, &req, &jail).status, 0);
    CHECK_STR(rig_probe(&jail, "read /etc/hosts"), "127.0.0.1 localhost\n127.0.1.1\tlocal\n");
    CHECK_INT(rig_destroy(&rig, "host").status, 0);
    jail_close(&jail);
}

static void a_bare_template_works(void)
{
    char path[128];
    struct rig_jail jail;

    layer_path(path, "bare", "");
    CHECK_INT(mkdir(path, 0755), 0);
    struct keeper_request req = rig_create_request("bare", 5, "bare");
    CHECK_INT(rig_create(&rig, &req, &jail).status, 0);
    CHECK(says(&jail, "list /", "proc\n"));
    CHECK_INT(rig_destroy(&rig, "bare").status, 0);
    jail_close(&jail);
}

static void bad_fields_are_answered(void)
{
    struct keeper_request req = rig_create_request("x", 0, "../../etc");
    struct keeper_answer answer = rig_ask(&rig, &req, NULL);

    CHECK_INT(answer.status, -EINVAL);
    CHECK_STR(answer.err.msg, "layers has a character that is not allowed in it");
}

static void destroy_is_complete_and_repeatable(void)
{
    struct rig_jail jail;
    struct keeper_request req = rig_create_request("gone", 6, "base");

    CHECK_INT(rig_create(&rig, &req, &jail).status, 0);
    CHECK(rig_trace_left(&rig, "gone"));
    CHECK_STR(rig_probe(&jail, "write /root/x y"), "ok");
    CHECK_INT(rig_destroy(&rig, "gone").status, 0);
    CHECK(!rig_trace_left(&rig, "gone"));
    struct pollfd ended = {.fd = jail.pidfd, .events = POLLIN};
    CHECK_INT(poll(&ended, 1, 10 * 1000), 1);
    CHECK_STR(rig_probe(&jail, "stat /"), "no answer");
    CHECK_INT(rig_destroy(&rig, "gone").status, 0);
    CHECK_INT(rig_destroy(&rig, "neverwas").status, 0);
    jail_close(&jail);
}

static void a_jail_that_ends_itself_is_seen(void)
{
    struct rig_jail jail;
    struct keeper_request req = rig_create_request("quits", 6, "base");

    CHECK_INT(rig_create(&rig, &req, &jail).status, 0);
    CHECK_STR(rig_probe(&jail, "exit"), "no answer");
    struct pollfd ended = {.fd = jail.pidfd, .events = POLLIN};
    CHECK_INT(poll(&ended, 1, 10 * 1000), 1);
    CHECK(rig_trace_left(&rig, "quits")); /* until it is destroyed */
    CHECK_INT(rig_destroy(&rig, "quits").status, 0);
    CHECK(!rig_trace_left(&rig, "quits"));
    jail_close(&jail);
}

/* ---- the keeper's own death ---- */

static struct keeper_answer attach(const char *id, struct keeper_jail name, int fds[KEEPER_FDS_MAX])
{
    struct keeper_request req = {.op = KEEPER_ATTACH, .jail = name};

    (void)snprintf(req.id, sizeof(req.id), "%s", id);
    return rig_ask(&rig, &req, fds);
}

static void fds_close(int fds[KEEPER_FDS_MAX], int from)
{
    for (int i = from; i < KEEPER_FDS_MAX; i++) {
        if (fds[i] >= 0) {
            (void)close(fds[i]);
        }
    }
}

static void jails_outlive_the_keeper(void)
{
    int fds[KEEPER_FDS_MAX];
    struct keeper_request hello = {.op = KEEPER_HELLO};
    struct keeper_request list = {.op = KEEPER_LIST};

    rig_keeper_kill(&rig);
    CHECK(says(&one, "read /proc/self/status", "Uid:")); /* also while there is none */
    rig_keeper_start(&rig);

    CHECK_INT(rig_ask(&rig, &hello, NULL).state.jails, 1);
    CHECK_STR(rig_ask(&rig, &list, NULL).id, "one");
    strcpy(list.id, "one");
    CHECK_INT(rig_ask(&rig, &list, NULL).status, -ENOENT);

    (void)close(one.channel); /* the probe serves one connection at a time */
    CHECK_INT(attach("one", one.name, fds).status, 0);
    (void)close(fds[KEEPER_FD_PIDFD]);
    fds_close(fds, KEEPER_FD_SOCKET);
    one.channel = fds[KEEPER_FD_CHANNEL];
    (void)fcntl(one.channel, F_SETFL, 0);
    CHECK(says(&one, "read /proc/self/status", "Uid:\t0"));
}

/* The network namespace that a socket lives in. */
static ino_t socket_namespace(int fd)
{
    struct stat st = {0};
    int ns = ioctl(fd, SIOCGSKNS);

    if (ns >= 0) {
        (void)fstat(ns, &st);
        (void)close(ns);
    }
    return st.st_ino;
}

static void the_ends_of_its_network_come_with_a_jail(void)
{
    struct keeper_request req = rig_create_request("net", 4, "base"), again = {0};
    int fds[KEEPER_FDS_MAX], fresh[KEEPER_FDS_MAX];
    char path[64];
    struct stat st;

    req.plan.network = 1;
    struct keeper_answer answer = rig_ask(&rig, &req, fds);
    CHECK_INT(answer.status, 0);
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/net", answer.jail.pid);
    CHECK_INT(stat(path, &st), 0);
    for (int i = KEEPER_FD_SOCKET; i < KEEPER_FDS_JAIL; i++) {
        CHECK_INT(socket_namespace(fds[i]), st.st_ino);
    }
    (void)close(fds[KEEPER_FD_CHANNEL]);

    /* While one daemon has them there are no others, and that is no reason to refuse a jail. */
    again =
        (struct keeper_request){.op = KEEPER_ATTACH, .jail = answer.jail, .plan = {.network = 1}};
    (void)snprintf(again.id, sizeof(again.id), "net");
    CHECK_INT(rig_ask(&rig, &again, fresh).status, 0);
    CHECK_INT(fresh[KEEPER_FD_GATE], -1);
    fds_close(fresh, 0);
    fds_close(fds, KEEPER_FD_SOCKET);
    CHECK_INT(rig_ask(&rig, &again, fresh).status, 0);
    CHECK_INT(socket_namespace(fresh[KEEPER_FD_GATE]), st.st_ino);
    CHECK_INT(socket_namespace(fresh[KEEPER_FD_DNS_UDP]), st.st_ino);
    fds_close(fresh, 0);
    (void)close(fds[KEEPER_FD_PIDFD]);
    CHECK_INT(rig_destroy(&rig, "net").status, 0);
}

/* Whether a connection from there reaches what listens inside, and nothing of the host's. */
static void sockets_are_in_the_jails_network(void)
{
    struct keeper_request req = {.op = KEEPER_SOCKETS, .jail = one.name, .sockets_n = 3};
    int fds[KEEPER_FDS_MAX];
    char path[64];
    struct stat st;

    (void)snprintf(req.id, sizeof(req.id), "one");
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/net", one.name.pid);
    CHECK_INT(stat(path, &st), 0);
    CHECK_INT(rig_ask(&rig, &req, fds).status, 0);
    for (int i = 0; i < KEEPER_FDS_MAX; i++) {
        CHECK_INT(fds[i] >= 0, i < 3);
        CHECK(i >= 3 || socket_namespace(fds[i]) == st.st_ino);
        CHECK(i >= 3 || fcntl(fds[i], F_GETFL) & O_NONBLOCK);
    }
    fds_close(fds, 0);

    req.jail.start_ticks++;
    CHECK_INT(rig_ask(&rig, &req, fds).status, -ESRCH);
    CHECK_INT(fds[0], -1);
    req.jail = (struct keeper_jail){.pid = getpid(), .start_ticks = 1}; /* of the host */
    CHECK_INT(rig_ask(&rig, &req, fds).status, -ESRCH);
}

static void attach_takes_only_that_process(void)
{
    struct keeper_jail name = one.name;

    CHECK_INT(attach("two", name, NULL).status, -ESRCH);
    name.start_ticks++;
    CHECK_INT(attach("one", name, NULL).status, -ESRCH);
    name = one.name;
    name.pid = getpid();
    CHECK_INT(attach("one", name, NULL).status, -ESRCH);
    name.pid = 0x7ffffff0;
    CHECK_INT(attach("one", name, NULL).status, -ESRCH);
}

static void a_second_keeper_is_refused(void)
{
    struct rig second = rig;
    int status;

    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        const struct keeper_options options = {.socket_path = second.socket,
                                               .pool_path = second.pool,
                                               .agent_path = second.agent,
                                               .instance = second.instance};
        _exit(keeper_main(&options));
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    CHECK(says(&one, "read /proc/self/status", "Uid:"));
    CHECK_INT(access(rig.socket, F_OK), 0);
}

static int keeper_connect(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", rig.socket);
    return connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 ? fd : -1;
}

static void a_message_of_the_wrong_size_ends_only_its_sender(void)
{
    struct keeper_request hello = {.version = KEEPER_VERSION, .op = KEEPER_HELLO};
    char byte;

    int fd = keeper_connect();
    CHECK(fd >= 0);
    CHECK(send(fd, &hello, 5, MSG_NOSIGNAL) == 5);
    struct pollfd closed = {.fd = fd, .events = POLLIN};
    CHECK_INT(poll(&closed, 1, 10 * 1000), 1);
    CHECK_INT(recv(fd, &byte, 1, 0), 0);
    (void)close(fd);
    CHECK_INT(rig_ask(&rig, &hello, NULL).status, 0);
}

static void a_client_that_does_not_read_stops_nobody(void)
{
    struct keeper_request usage = {.version = KEEPER_VERSION, .op = KEEPER_USAGE, .id = "one"};
    struct keeper_request hello = {.op = KEEPER_HELLO};
    int fd = keeper_connect();

    CHECK(fd >= 0);
    for (int i = 0; i < 10000; i++) {
        if (send(fd, &usage, sizeof(usage), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
            break; /* both directions are full */
        }
    }
    CHECK_INT(rig_ask(&rig, &hello, NULL).status, 0);
    (void)close(fd);
    CHECK_INT(rig_ask(&rig, &hello, NULL).status, 0);
}

static int entries_in(const char *path)
{
    int n = 0;
    DIR *dir = opendir(path);

    while (dir && readdir(dir)) {
        n++;
    }
    return dir ? closedir(dir), n : -1;
}

static void the_keeper_keeps_nothing(void)
{
    struct keeper_request hello = {.op = KEEPER_HELLO};
    char fds[64], mounts[8192];
    struct rig_jail jail;

    CHECK_INT(rig_ask(&rig, &hello, NULL).status, 0);
    (void)snprintf(fds, sizeof(fds), "/proc/%d/fd", rig.keeper);
    (void)snprintf(mounts, sizeof(mounts), "%s", host_read_proc(rig.keeper, "mountinfo"));
    int before = entries_in(fds);

    for (int i = 0; i < 20; i++) {
        struct keeper_request good = rig_create_request("again", 7, "base");
        struct keeper_request bad = rig_create_request("bad", 8, i % 2 ? "nosuch" : "link-dev");
        CHECK_INT(rig_create(&rig, &good, &jail).status, 0);
        CHECK(rig_ask(&rig, &bad, NULL).status < 0);
        CHECK_INT(rig_destroy(&rig, "again").status, 0);
        jail_close(&jail);
    }
    CHECK_INT(rig_ask(&rig, &hello, NULL).status, 0); /* it is through with the last one */
    CHECK_INT(entries_in(fds), before);
    CHECK_STR(host_read_proc(rig.keeper, "mountinfo"), mounts);
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
        {"a missing layer is named", a_missing_layer_is_named},
        {"links in a template are refused", links_in_a_template_are_refused},
        {"links below dev are hidden", links_below_dev_are_hidden},
        {"a name within a name is not one", a_name_within_a_name_is_not_one},
        {"a bare template works", a_bare_template_works},
        {"bad fields are answered", bad_fields_are_answered},
        {"destroy is complete and repeatable", destroy_is_complete_and_repeatable},
        {"a jail that ends itself is seen", a_jail_that_ends_itself_is_seen},
        {"jails outlive the keeper", jails_outlive_the_keeper},
        {"the ends of its network come with a jail", the_ends_of_its_network_come_with_a_jail},
        {"sockets are in the jail's network", sockets_are_in_the_jails_network},
        {"attach takes only that process", attach_takes_only_that_process},
        {"a second keeper is refused", a_second_keeper_is_refused},
        {"a message of the wrong size ends only its sender",
         a_message_of_the_wrong_size_ends_only_its_sender},
        {"a client that does not read stops nobody", a_client_that_does_not_read_stops_nobody},
        {"the keeper keeps nothing", the_keeper_keeps_nothing},
    };

    return rig_main(&rig, argc, argv, one_create, tests, countof(tests));
}
