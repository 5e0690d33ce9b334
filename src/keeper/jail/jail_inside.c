/* This code runs in a fork of the keeper that becomes pid 1 of the jail. It has every capability in
 * its own user namespace and none of the host's. The only tenant data it reads is the template's
 * tree, by the rules of jail_mounts.h. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "keeper/disk/mounts.h"
#include "keeper/disk/tenant_file.h"
#include "keeper/disk/volume.h"
#include "keeper/jail/caps.h"
#include "keeper/jail/jail.h"
#include "keeper/jail/jail_mounts.h"
#include "keeper/jail/kernel_setting.h"
#include "lib/base/fdpass.h"
#include "lib/base/small_file.h"
#include "wire/channel.h"

enum {
    FILES_MAX = 1048576,
    HOSTS_BYTES = 4096, /* searched part of /etc/hosts */
    HOSTS_BYTES_MAX = 16 * 1024 * 1024,
    RESOLVER_BYTES_MAX = 64,
    CHANNEL_BACKLOG = 16,
    SIGNAL_LAST = 64,
};

/* ---- the steps, one function each, in the order of inside_steps() ---- */

/* Receives the root, then the volumes of the plan. */
static int mounts_receive(int socket, const struct keeper_plan *plan, int out[JAIL_MOUNTS_MAX],
                          struct err *err)
{
    const size_t expected = 1 + plan->volumes_n;
    char byte;
    struct iovec iov = {&byte, 1};

    if (fdpass_receive(socket, &iov, 1, out, expected, 0) != 1 || out[expected - 1] < 0) {
        return err_set(err, ECANCELED, "the keeper gave up on this jail");
    }
    return 0;
}

static const unsigned long signal_default[4]; /* the kernel's struct sigaction: SIG_DFL, no flags */

/* Drops the keeper's identity: ids, session, keyring, signals, umask. */
static int identity_reset(struct err *err)
{
    sigset_t none;

    if (setresgid(0, 0, 0) < 0 || setgroups(0, NULL) < 0 || setresuid(0, 0, 0) < 0) {
        return err_sys(err, "become root of the jail");
    }
    /* After a change of ids a process cannot read its own /proc entries; this allows it again. */
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0 || setsid() < 0) {
        return err_sys(err, "start a session");
    }
    (void)syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING,
                  NULL); /* some kernels have no keyrings */
    /* By system call: the C library reserves two signals, and posix_spawn() would leave them
     * ignored in every program it starts. */
    for (int sig = 1; sig <= SIGNAL_LAST; sig++) {
        (void)syscall(SYS_rt_sigaction, sig, signal_default, NULL, sizeof(uint64_t));
    }
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)umask(022);
    return 0;
}

/* Opens the way out. A jail that does not need one continues without. */
static int network_make(const struct jail_inside *in, struct err *err)
{
    struct err why;
    int r = network_loopback(err);

    if (r < 0) {
        return r;
    }
    r = network_open(in->network, &why);
    if (r < 0 && in->plan->network) {
        *err = why;
        return r;
    }
    return 0;
}

/* A keeper may be protected from the out-of-memory killer; its jails must not be. */
static int oom_score_reset(int proc, struct err *err)
{
    char text[16];

    (void)small_file_read(proc, "self/oom_score_adj", text, sizeof(text));
    return text[0] == '-' ? kernel_setting_write_if(proc, "self/oom_score_adj", "0", err) : 0;
}

/* After this, no path leads to the host's tree or the keeper's. */
static int root_enter(int root, struct err *err)
{
    int r = mounts_attach(root, AT_FDCWD, "/root", err);

    if (r < 0) {
        return r;
    }
    if (fchdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 ||
        chdir("/") < 0) {
        return err_sys(err, "enter the root filesystem");
    }
    return 0;
}

/* Whether `word` is in the text, between blanks or line ends. */
static bool word_in(const char *text, const char *word)
{
    static const char blanks[] = " \t\n";
    size_t len = strlen(word);

    for (const char *p = text; (p = strstr(p, word)); p++) {
        if ((p == text || strchr(blanks, p[-1])) && strchr(blanks, p[len])) {
            return true; /* strchr() also matches the NUL at the end of the text */
        }
    }
    return false;
}

/* Adds a line to /etc/hosts unless one names the host already. A template without that file, or
 * with a link in its place, is left alone. */
static int hosts_name(int root, const char *hostname, struct err *err)
{
    const struct tenant_want want = {.access = O_RDWR | O_APPEND, .bytes_max = HOSTS_BYTES_MAX};
    char text[HOSTS_BYTES];
    struct err ignored;
    scoped_fd fd = tenant_file_open(root, "etc/hosts", &want, &ignored);
    ssize_t n = fd < 0 ? -1 : tenant_file_read(fd, text, sizeof(text));

    if (n < 0 || word_in(text, hostname)) {
        return 0;
    }
    const char *newline = n > 0 && text[n - 1] != '\n' ? "\n" : "";
    int len = snprintf(text, sizeof(text), "%s127.0.1.1\t%s\n", newline, hostname);
    return write(fd, text, (size_t)len) < 0 ? err_sys(err, "write /etc/hosts") : 0;
}

/* The file says what hostname(1) prints. As with /etc/hosts, a template without it, or with a link
 * in its place, is left alone. */
static int hostname_write(int root, const char *hostname, struct err *err)
{
    const struct tenant_want want = {.access = O_RDWR, .bytes_max = HOSTS_BYTES_MAX};
    char text[KEEPER_HOSTNAME_BYTES + 1], found[sizeof(text) + 1];
    struct err ignored;
    scoped_fd fd = tenant_file_open(root, "etc/hostname", &want, &ignored);
    int len = snprintf(text, sizeof(text), "%s\n", hostname);

    if (fd < 0 || (tenant_file_read(fd, found, sizeof(found)) == len && strcmp(found, text) == 0)) {
        return 0;
    }
    bool written = pwrite(fd, text, (size_t)len, 0) == len && ftruncate(fd, len) == 0;
    return written ? 0 : err_sys(err, "write /etc/hostname");
}

static bool file_says(int dir, const char *name, const char *text)
{
    const struct tenant_want want = {.bytes_max = RESOLVER_BYTES_MAX};
    char found[RESOLVER_BYTES_MAX + 1];
    struct err ignored;
    scoped_fd fd = tenant_file_open(dir, name, &want, &ignored);

    return fd >= 0 && tenant_file_read(fd, found, sizeof(found)) == (ssize_t)strlen(text) &&
           strcmp(found, text) == 0;
}

/* The daemon resolves names. This replaces a file or link of the template, unless it has the right
 * content already: an unchanged file need not be copied up. Without /etc nothing is done. */
static int resolver_name(int root, struct err *err)
{
    static const char text[] = "nameserver " NETWORK_GATE "\n";
    struct err ignored;
    scoped_fd etc = tenant_dir_open(root, "etc", false, &ignored);

    if (etc < 0 || file_says(etc, "resolv.conf", text)) {
        return 0;
    }
    return tenant_file_replace(etc, "resolv.conf", text, 0644, err);
}

static int hostname_set(int root, const char *hostname, struct err *err)
{
    if (sethostname(hostname, strlen(hostname)) < 0) {
        return err_sys(err, "set the host name");
    }
    int r = hosts_name(root, hostname, err);
    return r < 0 ? r : hostname_write(root, hostname, err);
}

static int channel_listen(struct err *err)
{
    struct sockaddr_un address;
    socklen_t len = network_name(&address, CHANNEL_NAME);
    scoped_fd fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, len) < 0 ||
        listen(fd, CHANNEL_BACKLOG) < 0) {
        return err_sys(err, "listen for the channel");
    }
    return move_fd(&fd);
}

static int limit(int what, rlim_t value, struct err *err)
{
    struct rlimit now;

    if (getrlimit((__rlimit_resource_t)what, &now) < 0) {
        return err_sys(err, "read a resource limit");
    }
    rlim_t allowed = value < now.rlim_max ? value : now.rlim_max;
    struct rlimit next = {allowed, allowed};
    if (setrlimit((__rlimit_resource_t)what, &next) < 0) {
        return err_sys(err, "set a resource limit");
    }
    return 0;
}

static int limits_set(struct err *err)
{
    int r = limit(RLIMIT_NOFILE, FILES_MAX, err);

    /* 1 and not 0: with 1 the kernel does not start the host's crash handler either. */
    return r < 0 ? r : limit(RLIMIT_CORE, 1, err);
}

/* Descriptors 0, 1 and 2 are the jail's /dev/null, 3 is the listener; all others close at
 * exec(). */
static int descriptors_arrange(int dev, int listener, int *report, struct err *err)
{
    scoped_fd null = openat(dev, "null", O_RDWR | O_CLOEXEC);
    int high = fcntl(*report, F_DUPFD_CLOEXEC, CHANNEL_LISTEN_FD + 1);
    scoped_fd source = fcntl(listener, F_DUPFD_CLOEXEC, CHANNEL_LISTEN_FD + 1);

    if (null < 0 || high < 0 || source < 0) {
        return err_sys(err, "arrange the descriptors");
    }
    *report = high;
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fd != null && dup2(null, fd) < 0) {
            return err_sys(err, "arrange the descriptors");
        }
    }
    if (dup2(source, CHANNEL_LISTEN_FD) < 0 ||
        syscall(SYS_close_range, CHANNEL_LISTEN_FD + 1, ~0U, CLOSE_RANGE_CLOEXEC) < 0) {
        return err_sys(err, "arrange the descriptors");
    }
    return 0;
}

static int agent_exec(struct err *err)
{
    char name[] = "atoll-agent";
    char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    char *argv[] = {name, NULL};
    char *envp[] = {path, NULL};

    (void)execve(JAIL_MOUNTS_AGENT, argv, envp);
    return err_sys(err, "run the agent");
}

/* ---- their order ---- */

static int inside_steps(const struct jail_inside *in, int *report, struct err *err)
{
    int given[JAIL_MOUNTS_MAX];
    struct jail_mounts mounts;
    int r;

    /* 1. Enter the groups, so that everything is charged to the jail; then do what needs no ids,
     * while the keeper prepares the rest. Then wait: when the root filesystem arrives, the ids are
     * mapped. */
    r = cgroups_v1_enter(in->v1_files, err);
    r = r < 0 ? r : size_files_bind(in->size_files, in->plan, err);
    r = r < 0 ? r : network_make(in, err);
    r = r < 0 ? r : mounts_receive(*report, in->plan, given, err);
    r = r < 0 ? r : identity_reset(err);
    if (r < 0) {
        return r;
    }
    const int root = given[0];
    /* 2. Take what comes from outside, then leave the outside. Set up the network while /proc/sys
     * is still writable. */
    r = jail_mounts_take(&mounts, err);
    r = r < 0 ? r : network_settings(mounts.proc, err);
    r = r < 0 ? r : oom_score_reset(mounts.proc, err);
    r = r < 0 ? r : root_enter(root, err);
    if (r < 0) {
        return r;
    }
    /* 3. Mount /dev, /proc, /sys and /run; the socket must exist before the agent. */
    r = jail_mounts_mount(&mounts, root, in->plan, in->size_files, err);
    r = r < 0 ? r : hostname_set(root, in->plan->hostname, err);
    r = r < 0 ? r : resolver_name(root, err);
    r = r < 0 ? r : volumes_attach(in->plan, given + 1, root, err);
    if (r < 0) {
        return r;
    }
    scoped_fd listener = channel_listen(err);
    if (listener < 0) {
        return listener;
    }
    /* 4. A cgroup namespace: the jail sees its own groups as the root. */
    if (unshare(CLONE_NEWCGROUP) < 0) {
        return err_sys(err, "enter a control group namespace");
    }
    if (in->merges) {
        merge_join();
    }
    /* 5. Drop privileges, in this order: loading the filter needs a capability that the reduced
     * bounding set removes only at exec(). */
    r = limits_set(err);
    r = r < 0 ? r : descriptors_arrange(mounts.dev, listener, report, err);
    r = r < 0 ? r : caps_bound(err);
    r = r < 0 ? r : filters_load(in->filters, err);
    if (r < 0) {
        return r;
    }
    /* 6. */
    return agent_exec(err);
}

_Noreturn void jail_inside(const struct jail_inside *in)
{
    struct err err = {0};
    int report = in->socket;

    (void)inside_steps(in, &report, &err);
    (void)send(report, &err, sizeof(err), MSG_NOSIGNAL);
    _exit(1);
}
