#include "keeper/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"

enum {
    PROGRAM_MAX = BPF_MAXINSNS,
    FAMILIES_MAX = 64, /* more than any kernel has */
    OPTIMIZE_TREE = 2, /* libseccomp: a binary tree over the numbers */
};

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif
#ifndef PR_SET_MEMORY_MERGE
#define PR_SET_MEMORY_MERGE 67
#endif

struct program {
    struct sock_filter *code;
    unsigned short len;
};

struct filters {
    struct program uses;
    struct program calls;
};

/* ---- which calls exist; those of uses_refused do as well ---- */

/* clang-format off */
static const char *const calls_known[] = {
    /* files and directories */
    "access", "chdir", "chmod", "chown", "chroot", "close", "close_range", "copy_file_range",
    "creat", "dup", "dup2", "dup3", "faccessat", "faccessat2", "fadvise64", "fallocate",
    "fchdir", "fchmod", "fchmodat", "fchown", "fchownat", "fcntl", "fdatasync", "fgetxattr",
    "flistxattr", "flock", "fremovexattr", "fsetxattr", "fstat", "fstatfs", "fsync",
    "ftruncate", "futimesat", "getcwd", "getdents", "getdents64", "getxattr", "ioctl", "lchown",
    "lgetxattr", "link", "linkat", "listxattr", "llistxattr", "lremovexattr", "lseek",
    "lsetxattr", "lstat", "mkdir", "mkdirat", "mknod", "mknodat", "name_to_handle_at",
    "newfstatat", "open", "openat", "openat2", "pread64", "preadv", "preadv2", "pwrite64",
    "pwritev", "pwritev2", "read", "readahead", "readlink", "readlinkat", "readv",
    "removexattr", "rename", "renameat", "renameat2", "rmdir", "sendfile", "setxattr", "splice",
    "stat", "statfs", "statx", "symlink", "symlinkat", "sync", "sync_file_range", "syncfs",
    "tee", "truncate", "umask", "unlink", "unlinkat", "ustat", "utime", "utimensat", "utimes",
    "vmsplice", "write", "writev",
    /* waiting and events */
    "epoll_create", "epoll_create1", "epoll_ctl", "epoll_ctl_old", "epoll_pwait",
    "epoll_pwait2", "epoll_wait", "epoll_wait_old", "eventfd", "eventfd2", "inotify_add_watch",
    "inotify_init", "inotify_init1", "inotify_rm_watch", "io_cancel", "io_destroy",
    "io_getevents", "io_pgetevents", "io_setup", "io_submit", "pipe", "pipe2", "poll", "ppoll",
    "pselect6", "select", "signalfd", "signalfd4", "timerfd_create", "timerfd_gettime",
    "timerfd_settime",
    /* memory */
    "brk", "get_mempolicy", "madvise", "mbind", "membarrier", "memfd_create", "mincore",
    "mlock", "mlock2", "mlockall", "mmap", "mprotect", "mremap", "msync", "munlock",
    "munlockall", "munmap", "pkey_alloc", "pkey_free", "pkey_mprotect", "process_madvise",
    "process_mrelease", "process_vm_readv", "process_vm_writev", "remap_file_pages",
    "set_mempolicy", "set_mempolicy_home_node",
    /* processes and threads */
    "arch_prctl", "capget", "capset", "clone", "execve", "execveat", "exit", "exit_group",
    "fork", "futex", "futex_waitv", "get_robust_list", "get_thread_area", "getcpu", "getegid",
    "geteuid", "getgid", "getgroups", "getpgid", "getpgrp", "getpid", "getppid", "getpriority",
    "getresgid", "getresuid", "getrlimit", "getrusage", "getsid", "gettid", "getuid",
    "ioprio_get", "ioprio_set", "kcmp", "kill", "personality", "pidfd_getfd", "pidfd_open",
    "pidfd_send_signal", "prctl", "prlimit64", "ptrace", "rseq", "sched_get_priority_max",
    "sched_get_priority_min", "sched_getaffinity", "sched_getattr", "sched_getparam",
    "sched_getscheduler", "sched_rr_get_interval", "sched_setaffinity", "sched_setattr",
    "sched_setparam", "sched_setscheduler", "sched_yield", "seccomp", "set_robust_list",
    "set_thread_area", "set_tid_address", "setfsgid", "setfsuid", "setgid", "setgroups",
    "setpgid", "setpriority", "setregid", "setresgid", "setresuid", "setreuid", "setrlimit",
    "setsid", "setuid", "sysinfo", "tgkill", "times", "tkill", "uname", "unshare", "vfork",
    "vhangup", "wait4", "waitid",
    /* signals and time */
    "alarm", "clock_getres", "clock_gettime", "clock_nanosleep", "getitimer", "gettimeofday",
    "nanosleep", "pause", "restart_syscall", "rt_sigaction", "rt_sigpending", "rt_sigprocmask",
    "rt_sigqueueinfo", "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait", "rt_tgsigqueueinfo",
    "setitimer", "sigaltstack", "time", "timer_create", "timer_delete", "timer_getoverrun",
    "timer_gettime", "timer_settime",
    /* sockets and other talk between processes */
    "accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt",
    "listen", "mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend",
    "mq_unlink", "msgctl", "msgget", "msgrcv", "msgsnd", "recvfrom", "recvmmsg", "recvmsg",
    "semctl", "semget", "semop", "semtimedop", "sendmmsg", "sendmsg", "sendto", "setsockopt",
    "shmat", "shmctl", "shmdt", "shmget", "shutdown", "socket", "socketpair", "getrandom",
};
/* clang-format on */

/* Newer than the libseccomp of Debian 12; these numbers are the same on every architecture. */
static const int calls_known_by_number[] = {
    451, /* cachestat */
    452, /* fchmodat2 */
    453, /* map_shadow_stack */
    454, /* futex_wake */
    455, /* futex_wait */
    456, /* futex_requeue */
    462, /* mseal */
    463, /* setxattrat */
    464, /* getxattrat */
    465, /* listxattrat */
    466, /* removexattrat */
};

/* ---- which uses of them are refused ---- */

/* clang-format off */
static const char *const uses_refused[] = {
    "acct", "add_key", "adjtimex", "bpf", "clock_adjtime", "clock_settime", "delete_module",
    "fanotify_init", "finit_module", "fsconfig", "fsmount", "fsopen", "fspick", "init_module",
    "ioperm", "iopl", "kexec_file_load", "kexec_load", "keyctl", "mount", "mount_setattr",
    "move_mount", "move_pages", "migrate_pages", "open_by_handle_at", "open_tree",
    "perf_event_open", "pivot_root", "quotactl", "quotactl_fd", "reboot", "request_key",
    "sethostname", "setdomainname", "setns", "settimeofday", "swapoff", "swapon", "syslog",
    "umount2", "userfaultfd",
};
/* clang-format on */

static const uint64_t namespace_flags[] = {
    CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWPID,    CLONE_NEWNET,
    CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP,
};

/* The kernel reads these arguments as 32 bits: what is above them must not hide a value. */
#define ARG32(n, value)                                                                            \
    (struct scmp_arg_cmp)                                                                          \
    {                                                                                              \
        (n), SCMP_CMP_MASKED_EQ, UINT32_MAX, (scmp_datum_t)(value)                                 \
    }
#define ARG_BIT(n, bit)                                                                            \
    (struct scmp_arg_cmp)                                                                          \
    {                                                                                              \
        (n), SCMP_CMP_MASKED_EQ, (bit), (bit)                                                      \
    }

static int refuse(scmp_filter_ctx ctx, int code, int call, unsigned n,
                  const struct scmp_arg_cmp *args)
{
    return seccomp_rule_add_array(ctx, SCMP_ACT_ERRNO((uint32_t)code), call, n, args);
}

static int refuse_namespaces(scmp_filter_ctx ctx)
{
    int r = refuse(ctx, EPERM, SCMP_SYS(unshare), 1, &ARG_BIT(0, CLONE_NEWTIME));

    for (size_t i = 0; r == 0 && i < countof(namespace_flags); i++) {
        r = refuse(ctx, EPERM, SCMP_SYS(clone), 1, &ARG_BIT(0, namespace_flags[i]));
        if (r == 0) {
            r = refuse(ctx, EPERM, SCMP_SYS(unshare), 1, &ARG_BIT(0, namespace_flags[i]));
        }
    }
    return r;
}

static bool family_allowed(unsigned family)
{
    return family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK;
}

static int refuse_families(scmp_filter_ctx ctx, int call)
{
    int r = 0;

    for (unsigned family = 0; r == 0 && family < FAMILIES_MAX; family++) {
        if (!family_allowed(family)) {
            r = refuse(ctx, EAFNOSUPPORT, call, 1, &ARG32(0, family));
        }
    }
    return r;
}

/* Of netlink only the routing table, which names an interface; of TCP neither the variant that
 * cannot be saved nor protocol modules. */
static int refuse_sockets(scmp_filter_ctx ctx)
{
    const struct scmp_arg_cmp mptcp[] = {ARG32(2, IPPROTO_MPTCP)};
    const struct scmp_arg_cmp ulp[] = {ARG32(1, IPPROTO_TCP), ARG32(2, TCP_ULP)};
    int r = refuse_families(ctx, SCMP_SYS(socket));

    if (r == 0) {
        r = refuse_families(ctx, SCMP_SYS(socketpair));
    }
    for (uint32_t protocol = NETLINK_ROUTE + 1; r == 0 && protocol < MAX_LINKS; protocol++) {
        const struct scmp_arg_cmp netlink[] = {ARG32(0, AF_NETLINK), ARG32(2, protocol)};
        r = refuse(ctx, EPROTONOSUPPORT, SCMP_SYS(socket), countof(netlink), netlink);
    }
    if (r == 0) {
        r = refuse(ctx, EPROTONOSUPPORT, SCMP_SYS(socket), countof(mptcp), mptcp);
    }
    if (r == 0) {
        r = refuse(ctx, ENOPROTOOPT, SCMP_SYS(setsockopt), countof(ulp), ulp);
    }
    return r;
}

/* Typing into a terminal that others read from. */
static int refuse_ioctls(scmp_filter_ctx ctx)
{
    int r = refuse(ctx, EPERM, SCMP_SYS(ioctl), 1, &ARG32(1, TIOCSTI));

    return r < 0 ? r : refuse(ctx, EPERM, SCMP_SYS(ioctl), 1, &ARG32(1, TIOCLINUX));
}

/* To have one's own pages merged with equal ones of others, and so to find out by timing that there
 * are such. Who is opted in is for the keeper to say; to opt out is not refused. */
static int refuse_merging(scmp_filter_ctx ctx)
{
    const struct scmp_arg_cmp process[] = {ARG32(0, PR_SET_MEMORY_MERGE), {1, SCMP_CMP_NE, 0, 0}};
    int r = refuse(ctx, EINVAL, SCMP_SYS(prctl), countof(process), process);

    return r < 0 ? r : refuse(ctx, EINVAL, SCMP_SYS(madvise), 1, &ARG32(2, MADV_MERGEABLE));
}

static int all_by_name(scmp_filter_ctx ctx, uint32_t action, const char *const *names, size_t n)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < n; i++) {
        int call = seccomp_syscall_resolve_name(names[i]);
        r = call == __NR_SCMP_ERROR ? -ENOENT : seccomp_rule_add_array(ctx, action, call, 0, NULL);
    }
    return r;
}

static int uses_fill(scmp_filter_ctx ctx)
{
    int r = all_by_name(ctx, SCMP_ACT_ERRNO(EPERM), uses_refused, countof(uses_refused));

    if (r == 0) {
        r = refuse_namespaces(ctx);
    }
    if (r == 0) {
        r = refuse_sockets(ctx);
    }
    if (r == 0) {
        r = refuse_merging(ctx);
    }
    return r < 0 ? r : refuse_ioctls(ctx);
}

static int calls_fill(scmp_filter_ctx ctx)
{
    int r = all_by_name(ctx, SCMP_ACT_ALLOW, calls_known, countof(calls_known));

    if (r == 0) {
        r = all_by_name(ctx, SCMP_ACT_ALLOW, uses_refused, countof(uses_refused));
    }
    for (size_t i = 0; r == 0 && i < countof(calls_known_by_number); i++) {
        r = seccomp_rule_add_array(ctx, SCMP_ACT_ALLOW, calls_known_by_number[i], 0, NULL);
    }
    return r;
}

/* ---- compiling and loading ---- */

static void context_release(scmp_filter_ctx *ctx)
{
    if (*ctx) {
        seccomp_release(*ctx);
    }
}

static int program_read(int fd, struct program *out)
{
    off_t bytes = lseek(fd, 0, SEEK_END);

    if (bytes <= 0 || bytes > (off_t)(PROGRAM_MAX * sizeof(struct sock_filter))) {
        return -E2BIG;
    }
    out->code = xcalloc(1, (size_t)bytes);
    out->len = (unsigned short)((size_t)bytes / sizeof(struct sock_filter));
    return pread(fd, out->code, (size_t)bytes, 0) == bytes ? 0 : -EIO;
}

/* libseccomp writes programs, but installs them only with its own state: so through a file. */
static int program_compile(uint32_t otherwise, int (*fill)(scmp_filter_ctx), struct program *out)
{
    scoped(context_release) scmp_filter_ctx ctx = seccomp_init(otherwise);
    scoped_fd fd = memfd_create("seccomp", MFD_CLOEXEC);

    if (!ctx || fd < 0) {
        return -ENOMEM;
    }
    /* 32-bit and x32 calls have other numbers: none of them exists in a jail. */
    int r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
    if (r == 0) {
        r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, OPTIMIZE_TREE);
    }
    if (r == 0) {
        r = fill(ctx);
    }
    if (r == 0) {
        r = seccomp_export_bpf(ctx, fd);
    }
    return r < 0 ? r : program_read(fd, out);
}

int filters_compile(struct filters **out, struct err *err)
{
    struct filters *filters = xnew(struct filters);

    int r = program_compile(SCMP_ACT_ALLOW, uses_fill, &filters->uses);
    if (r == 0) {
        r = program_compile(SCMP_ACT_ERRNO(ENOSYS), calls_fill, &filters->calls);
    }
    if (r < 0) {
        filters_free(filters);
        return err_set(err, -r, "compile the system call filter: %s", strerrordesc_np(-r));
    }
    *out = filters;
    return 0;
}

void filters_free(struct filters *filters)
{
    if (filters) {
        free(filters->uses.code);
        free(filters->calls.code);
        free(filters);
    }
}

static int program_load(const struct program *program, struct err *err)
{
    struct sock_fprog prog = {.len = program->len, .filter = program->code};

    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0) {
        return err_sys(err, "load the system call filter");
    }
    return 0;
}

int filters_load(const struct filters *filters, struct err *err)
{
    int r = program_load(&filters->uses, err);

    return r < 0 ? r : program_load(&filters->calls, err);
}
