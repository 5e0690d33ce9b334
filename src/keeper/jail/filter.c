#include "keeper/jail/filter.h"

#include <endian.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/alloc.h"

enum {
    CODE_MAX = 1024,
    NUMBERS_MAX = 1024,     /* more than any kernel has */
    SOCKET_TYPE_MASK = 0xf, /* the flags of socket() are above */
};

#ifndef IPV6_FLOWLABEL_MGR
#define IPV6_FLOWLABEL_MGR 32 /* of <linux/in6.h>, which the C library's header excludes */
#endif
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif
#ifndef PR_SET_MEMORY_MERGE
#define PR_SET_MEMORY_MERGE 67
#endif

/* ---- which calls exist ---- */

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
    "inotify_init", "inotify_init1", "inotify_rm_watch", "pipe", "pipe2", "poll", "ppoll",
    "pselect6", "select", "signalfd", "signalfd4", "timerfd_create", "timerfd_gettime",
    "timerfd_settime", /* not io_setup: the whole host shares one limit of contexts */
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
    "sched_setparam", "sched_setscheduler", "sched_yield", "set_robust_list",
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

/* Calls that the libseccomp of Debian 12 does not know; the numbers are the same on every
 * architecture. */
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

/* ---- which calls are refused with any arguments ---- */

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

static const uint32_t namespace_flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET |
                                        CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;

/* ---- the verdict for each number ---- */

enum verdict {
    UNKNOWN,
    ALLOWED,
    REFUSED,
    /* These depend on arguments; each is for one call. */
    CLONE,
    UNSHARE,
    SOCKET,
    SOCKETPAIR,
    SETSOCKOPT,
    IOCTL,
    PRCTL,
    MADVISE,
    MMAP,
    MEMFD,
    SHMGET,
    VERDICTS,
};

struct table {
    uint8_t of[NUMBERS_MAX]; /* enum verdict */
};

static int number_set(struct table *table, int number, enum verdict verdict)
{
    if (number >= NUMBERS_MAX) {
        return -ERANGE;
    }
    if (number >= 0) { /* some calls exist on other architectures only */
        table->of[number] = (uint8_t)verdict;
    }
    return 0;
}

static int names_set(struct table *table, const char *const *names, size_t n, enum verdict verdict)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < n; i++) {
        int number = seccomp_syscall_resolve_name(names[i]);
        r = number == __NR_SCMP_ERROR ? -ENOENT : number_set(table, number, verdict);
    }
    return r;
}

static int table_fill(struct table *table)
{
    static const struct {
        int number;
        enum verdict verdict;
    } by_argument[] = {
        {SYS_clone, CLONE},           {SYS_unshare, UNSHARE},       {SYS_socket, SOCKET},
        {SYS_socketpair, SOCKETPAIR}, {SYS_setsockopt, SETSOCKOPT}, {SYS_ioctl, IOCTL},
        {SYS_prctl, PRCTL},           {SYS_madvise, MADVISE},       {SYS_mmap, MMAP},
        {SYS_memfd_create, MEMFD},    {SYS_shmget, SHMGET},
    };
    int r = names_set(table, calls_known, countof(calls_known), ALLOWED);

    for (size_t i = 0; r == 0 && i < countof(calls_known_by_number); i++) {
        r = number_set(table, calls_known_by_number[i], ALLOWED);
    }
    if (r == 0) {
        r = names_set(table, uses_refused, countof(uses_refused), REFUSED);
    }
    for (size_t i = 0; r == 0 && i < countof(by_argument); i++) {
        r = number_set(table, by_argument[i].number, by_argument[i].verdict);
    }
    return r;
}

/* ---- the program ---- */

struct filters {
    struct sock_filter code[CODE_MAX];
    unsigned short n;
};

struct range {
    uint32_t first;
    enum verdict verdict;
};

struct writer {
    struct filters *out;
    unsigned short leaf[VERDICTS]; /* start of the code that checks arguments */
    bool full;                     /* the program is too long */
};

static void emit(struct writer *w, unsigned op, uint32_t k, uint8_t if_true, uint8_t if_false)
{
    if (w->out->n == CODE_MAX) {
        w->full = true;
        return;
    }
    w->out->code[w->out->n++] = (struct sock_filter){(uint16_t)op, if_true, if_false, k};
}

static void load(struct writer *w, size_t offset)
{
    emit(w, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

/* The kernel reads these arguments as 32 bits: compare only the lower half. */
static void load_argument(struct writer *w, size_t i)
{
    load(w, offsetof(struct seccomp_data, args) + i * sizeof(uint64_t) +
                (BYTE_ORDER == BIG_ENDIAN ? sizeof(uint32_t) : 0));
}

/* The upper half. */
static void load_argument_high(struct writer *w, size_t i)
{
    load(w, offsetof(struct seccomp_data, args) + i * sizeof(uint64_t) +
                (BYTE_ORDER == BIG_ENDIAN ? 0 : sizeof(uint32_t)));
}

static void allow(struct writer *w)
{
    emit(w, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
}

static void fail(struct writer *w, int code)
{
    emit(w, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)code, 0, 0);
}

/* Skips the next instruction unless the loaded value compares so. */
static void unless_skip(struct writer *w, unsigned comparison, uint32_t k)
{
    emit(w, BPF_JMP | comparison | BPF_K, k, 0, 1);
}

static void leaf(struct writer *w, enum verdict verdict)
{
    if (verdict == UNKNOWN) {
        fail(w, ENOSYS);
    } else if (verdict == ALLOWED) {
        allow(w);
    } else if (verdict == REFUSED) {
        fail(w, EPERM);
    } else {
        w->leaf[verdict] = w->out->n;
        emit(w, BPF_JMP | BPF_JA, 0, 0, 0);
    }
}

/* A binary search: halves the ranges until one is left. */
static void tree(struct writer *w, const struct range *ranges, size_t n)
{
    const size_t half = n / 2;
    const unsigned at = w->out->n;

    if (n == 1) {
        leaf(w, ranges[0].verdict);
        return;
    }
    emit(w, BPF_JMP | BPF_JGE | BPF_K, ranges[half].first, 0, 0);
    tree(w, ranges, half);
    const unsigned distance = w->out->n - at - 1U;
    w->full = w->full || distance > UINT8_MAX;
    w->out->code[at].jt = (uint8_t)distance;
    tree(w, ranges + half, n - half);
}

static size_t ranges_find(const struct table *table, struct range out[NUMBERS_MAX + 1])
{
    size_t n = 0;

    for (uint32_t i = 0; i < NUMBERS_MAX; i++) {
        if (n == 0 || out[n - 1].verdict != table->of[i]) {
            out[n++] = (struct range){i, table->of[i]};
        }
    }
    if (out[n - 1].verdict != UNKNOWN) {
        out[n++] = (struct range){NUMBERS_MAX, UNKNOWN};
    }
    return n;
}

/* ---- which arguments are refused ---- */

static void namespaces_write(struct writer *w, uint32_t flags)
{
    load_argument(w, 0);
    unless_skip(w, BPF_JSET, flags);
    fail(w, EPERM);
    allow(w);
}

/* Family and type are decided; allows the family's own protocol, or the default. */
static void protocol_write(struct writer *w, uint32_t type, uint32_t protocol)
{
    emit(w, BPF_JMP | BPF_JEQ | BPF_K, type, 0, 6);
    load_argument(w, 2);
    unless_skip(w, BPF_JEQ, 0);
    allow(w);
    unless_skip(w, BPF_JEQ, protocol);
    allow(w);
    fail(w, EPROTONOSUPPORT);
}

/* Allows Unix sockets, TCP, UDP, and the routing table of netlink, which names interfaces. Any
 * other protocol is kernel code that no sandbox needs; some are loaded on first use. */
static void socket_write(struct writer *w)
{
    load_argument(w, 0);
    unless_skip(w, BPF_JEQ, AF_UNIX);
    allow(w);
    emit(w, BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 4);
    load_argument(w, 2);
    unless_skip(w, BPF_JEQ, NETLINK_ROUTE);
    allow(w);
    fail(w, EPROTONOSUPPORT);
    emit(w, BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 2, 0);
    emit(w, BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 1, 0);
    fail(w, EAFNOSUPPORT);
    load_argument(w, 1);
    emit(w, BPF_ALU | BPF_AND | BPF_K, SOCKET_TYPE_MASK, 0, 0);
    protocol_write(w, SOCK_STREAM, IPPROTO_TCP);
    protocol_write(w, SOCK_DGRAM, IPPROTO_UDP);
    unless_skip(w, BPF_JEQ, SOCK_RAW);
    fail(w, EPERM);
    fail(w, EPROTONOSUPPORT);
}

/* Other families have no pairs, but the kernel would load their protocols before it refuses. */
static void socketpair_write(struct writer *w)
{
    load_argument(w, 0);
    unless_skip(w, BPF_JEQ, AF_UNIX);
    allow(w);
    fail(w, EOPNOTSUPP);
}

/* Refuses other protocols below or above TCP and UDP; BPF programs on sockets, whose memory has one
 * limit for the whole host; and flow labels, of which the whole host has 4,096. */
static void setsockopt_write(struct writer *w)
{
    static const struct {
        uint32_t level, option;
    } refused[] = {
        {IPPROTO_TCP, TCP_ULP},
        {IPPROTO_UDP, UDP_ENCAP},
        {SOL_SOCKET, SO_ATTACH_FILTER},
        {SOL_SOCKET, SO_ATTACH_BPF},
        {SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF},
        {SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF},
        {IPPROTO_IPV6, IPV6_FLOWLABEL_MGR},
    };

    for (size_t i = 0; i < countof(refused); i++) {
        load_argument(w, 1);
        emit(w, BPF_JMP | BPF_JEQ | BPF_K, refused[i].level, 0, 3);
        load_argument(w, 2);
        unless_skip(w, BPF_JEQ, refused[i].option);
        fail(w, ENOPROTOOPT);
    }
    allow(w);
}

/* Refuses to type into a terminal that others read from, and line disciplines, which are kernel
 * modules loaded on demand. */
static void ioctl_write(struct writer *w)
{
    static const uint32_t refused[] = {TIOCSTI, TIOCLINUX, TIOCSETD};

    load_argument(w, 1);
    for (size_t i = 0; i < countof(refused); i++) {
        unless_skip(w, BPF_JEQ, refused[i]);
        fail(w, EPERM);
    }
    allow(w);
}

/* Huge pages that the host reserved are not for jails. */
static void flag_write(struct writer *w, size_t argument, uint32_t flag, int code)
{
    load_argument(w, argument);
    unless_skip(w, BPF_JSET, flag);
    fail(w, code);
    allow(w);
}

/* Refuses to opt in to page merging: timing would show whether another sandbox has an equal page.
 * The keeper decides who takes part; opting out is allowed. */
static void merge_write(struct writer *w)
{
    load_argument(w, 1);
    emit(w, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3);
    load_argument_high(w, 1);
    emit(w, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1);
    allow(w);
    fail(w, EINVAL);
}

/* Refuses seccomp filters: the memory for compiled filters has one limit for the whole host, and
 * one jail could use it up, so that no other jail could start. seccomp() does not exist in a
 * jail. */
static void prctl_write(struct writer *w)
{
    load_argument(w, 0);
    emit(w, BPF_JMP | BPF_JEQ | BPF_K, PR_SET_MEMORY_MERGE, 0, 6);
    merge_write(w);
    emit(w, BPF_JMP | BPF_JEQ | BPF_K, PR_SET_SECCOMP, 0, 3);
    load_argument(w, 1);
    unless_skip(w, BPF_JEQ, SECCOMP_MODE_FILTER);
    fail(w, EINVAL);
    allow(w);
}

static void madvise_write(struct writer *w)
{
    load_argument(w, 2);
    unless_skip(w, BPF_JEQ, MADV_MERGEABLE);
    fail(w, EINVAL);
    allow(w);
}

static void arguments_write(struct writer *w, enum verdict verdict)
{
    struct sock_filter *from = &w->out->code[w->leaf[verdict]];

    from->k = (uint32_t)(w->out->n - w->leaf[verdict] - 1);
    switch (verdict) {
    case CLONE:
        namespaces_write(w, namespace_flags);
        break;
    case UNSHARE:
        namespaces_write(w, namespace_flags | CLONE_NEWTIME);
        break;
    case SOCKET:
        socket_write(w);
        break;
    case SOCKETPAIR:
        socketpair_write(w);
        break;
    case SETSOCKOPT:
        setsockopt_write(w);
        break;
    case IOCTL:
        ioctl_write(w);
        break;
    case PRCTL:
        prctl_write(w);
        break;
    case MADVISE:
        madvise_write(w);
        break;
    case MMAP:
        flag_write(w, 3, MAP_HUGETLB, EINVAL);
        break;
    case MEMFD:
        flag_write(w, 1, MFD_HUGETLB, EINVAL);
        break;
    case SHMGET:
        flag_write(w, 2, SHM_HUGETLB, EPERM);
        break;
    case UNKNOWN:
    case ALLOWED:
    case REFUSED:
    case VERDICTS:
        abort();
    }
}

static int program_write(const struct table *table, struct filters *out)
{
    struct range ranges[NUMBERS_MAX + 1];
    struct writer w = {.out = out};
    const size_t n = ranges_find(table, ranges);

    /* 32-bit calls have other numbers, and x32 numbers are above all others: neither exists
     * here. */
    load(&w, offsetof(struct seccomp_data, arch));
    emit(&w, BPF_JMP | BPF_JEQ | BPF_K, seccomp_arch_native(), 1, 0);
    fail(&w, ENOSYS);
    load(&w, offsetof(struct seccomp_data, nr));
    tree(&w, ranges, n);
    for (enum verdict verdict = CLONE; verdict < VERDICTS; verdict++) {
        arguments_write(&w, verdict);
    }
    return w.full ? -E2BIG : 0;
}

/* ---- compiling and loading ---- */

int filters_compile(struct filters **out, struct err *err)
{
    struct filters *filters = xnew(struct filters);
    struct table table = {0};
    int r = table_fill(&table);

    if (r == 0) {
        r = program_write(&table, filters);
    }
    if (r < 0) {
        filters_free(filters);
        return err_code(err, -r, "compile the system call filter");
    }
    *out = filters;
    return 0;
}

void filters_free(struct filters *filters)
{
    free(filters);
}

int filters_load(const struct filters *filters, struct err *err)
{
    struct sock_fprog program = {
        .len = filters->n,
        .filter = (struct sock_filter *)(uintptr_t)filters->code, /* the kernel only reads it */
    };

    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0) {
        return err_sys(err, "load the system call filter");
    }
    return 0;
}
