/* A jail's pid 1 for tests, in the agent's place: it answers questions about where it is.
 *
 * It takes one connection at a time on the channel's descriptor; a message is a command in words,
 * the answer is text. Whatever may die of it runs in a child. Static, so that a template needs no
 * files at all. Like the agent, it is also what CRIU calls tar. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/keyctl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inside/stow/stow.h"
#include "lib/base/compiler.h"
#include "probe.h"
#include "probe_state.h"
#include "wire/channel.h"

static char answer[PROBE_BYTES];
static size_t answer_len;

static void printf_like(1, 2) say(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    int n = vsnprintf(answer + answer_len, sizeof(answer) - answer_len, fmt, ap);
    va_end(ap);
    answer_len += n > 0 ? (size_t)n : 0;
    answer_len = answer_len < sizeof(answer) ? answer_len : sizeof(answer) - 1;
}

static void say_errno(void)
{
    say("error %s", strerrorname_np(errno));
}

/* ---- files ---- */

static void do_read(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = 0;

    if (fd < 0) {
        say_errno();
        return;
    }
    while ((n = read(fd, answer + answer_len, sizeof(answer) - 1 - answer_len)) > 0) {
        answer_len += (size_t)n;
    }
    answer[answer_len] = '\0';
    if (n < 0) {
        say_errno();
    }
    (void)close(fd);
}

static void do_write(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    if (fd < 0 || write(fd, text, strlen(text)) < 0) {
        say_errno();
    } else {
        say("ok");
    }
    if (fd >= 0) {
        (void)close(fd);
    }
}

static void do_list(const char *path)
{
    DIR *dir = opendir(path);

    if (!dir) {
        say_errno();
        return;
    }
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            char target[256] = "";
            (void)!readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);
            say("%s%s%s\n", entry->d_name, target[0] ? " -> " : "", target);
        }
    }
    (void)closedir(dir);
}

static void do_stat(const char *path)
{
    struct stat st;

    if (lstat(path, &st) < 0) {
        say_errno();
        return;
    }
    say("%o %u:%u %u:%u", st.st_mode, st.st_uid, st.st_gid, major(st.st_rdev), minor(st.st_rdev));
}

/* ---- its own size ---- */

static void say_fs(int r, const struct statfs *fs)
{
    if (r < 0) {
        say_errno();
        return;
    }
    say("type %lx bsize %ld blocks %lu free %lu available %lu\n", (unsigned long)fs->f_type,
        (long)fs->f_bsize, (unsigned long)fs->f_blocks, (unsigned long)fs->f_bfree,
        (unsigned long)fs->f_bavail);
}

/* By both calls. */
static void do_df(const char *path)
{
    struct statfs fs;
    int fd = open(path, O_PATH | O_CLOEXEC);

    say_fs(statfs(path, &fs), &fs);
    say_fs(fstatfs(fd, &fs), &fs);
    (void)close(fd);
}

static void do_sysinfo(void)
{
    struct sysinfo info;

    if (sysinfo(&info) < 0) {
        say_errno();
        return;
    }
    say("total %lu free %lu swap %lu unit %u pages %ld\n", info.totalram, info.freeram,
        info.totalswap + info.freeswap, info.mem_unit, sysconf(_SC_PHYS_PAGES));
}

/* Buffers that end at the end of what is mapped, that reach beyond it, that may not be written, and
 * that are none at all. Says each result, and whether a byte before the buffer has changed. */
static void do_odd_buffers(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *at = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *locked = mmap(NULL, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)munmap(at + page, page);
    const unsigned long places[] = {
        (unsigned long)(at + page - sizeof(struct statfs)),
        (unsigned long)(at + page - 20), /* unmapped from f_blocks on */
        (unsigned long)locked,
        0,
        8,
        ~0UL - 64,
        1UL << 63,
    };
    for (size_t i = 0; i < countof(places); i++) {
        long r = syscall(SYS_statfs, "/", places[i]);
        say("%s ", r < 0 ? strerrorname_np(errno) : "ok");
        r = syscall(SYS_sysinfo, places[i]);
        say("%s ", r < 0 ? strerrorname_np(errno) : "ok");
    }
    const struct statfs *fs = (void *)(at + page - sizeof(*fs));
    say("%s", at[page - sizeof(*fs) - 1] == 0 ? "clean" : "dirty");
    (void)munmap(at, page);
    (void)munmap(locked, page);
}

/* ---- limits ---- */

/* How a child that runs fn(amount) ends. */
static void in_child(void (*fn)(unsigned long amount), unsigned long amount)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        fn(amount);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0) {
        say_errno();
    } else if (WIFSIGNALED(status)) {
        say("signal %d", WTERMSIG(status));
    } else {
        say("exit %d", WEXITSTATUS(status));
    }
}

static void hog(unsigned long megabytes)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY);

    (void)!write(fd, "1000", 4); /* as the agent does for what it starts */
    for (unsigned long i = 0; i < megabytes; i++) {
        char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) {
            _exit(1);
        }
        memset(p, 1, 1 << 20);
    }
}

static void do_forks(unsigned long n)
{
    unsigned long made = 0;
    int stop[2];

    if (pipe2(stop, O_CLOEXEC) < 0) {
        say_errno();
        return;
    }
    for (; made < n; made++) {
        pid_t pid = fork();
        if (pid < 0) {
            break;
        }
        if (pid == 0) {
            char byte;
            (void)close(stop[1]);
            (void)!read(stop[0], &byte, 1);
            _exit(0);
        }
    }
    say("%lu %s", made, made < n ? strerrorname_np(errno) : "ok");
    (void)close(stop[0]);
    (void)close(stop[1]);
    while (wait(NULL) > 0 || errno == EINTR) {
    }
}

static void do_fill(const char *path, unsigned long megabytes)
{
    static char block[1 << 20];
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    size_t want = megabytes << 20, done = 0;
    ssize_t n = 0;

    memset(block, 'x', sizeof(block));
    while (fd >= 0 && done < want && (n = write(fd, block, sizeof(block))) > 0) {
        done += (size_t)n;
    }
    bool full = n < 0 || fsync(fd) < 0;
    say("%zu %s", done >> 20, full ? strerrorname_np(errno) : "ok");
    (void)close(fd);
}

/* ---- system calls that must not work ---- */

static long try_clone(unsigned long flags)
{
    long pid = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);

    if (pid == 0) {
        _exit(0);
    }
    if (pid > 0) {
        (void)waitpid((pid_t)pid, NULL, 0);
    }
    return pid;
}

static long try_ulp(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    long r = setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", 3);

    int saved = errno;
    (void)close(fd);
    errno = saved;
    return r;
}

static long try_i386(void)
{
#ifdef __x86_64__
    long r;
    __asm__ volatile("int $0x80" : "=a"(r) : "a"(20L) : "memory"); /* getpid */
    errno = r < 0 ? (int)-r : 0;
    return r;
#else
    errno = ENOSYS;
    return -1;
#endif
}

static long try_call(const char *name)
{
    static const struct {
        const char *name;
        long number;
        long args[3];
    } calls[] = {
        {"bpf", SYS_bpf, {0}},
        {"keyctl", SYS_keyctl, {KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0}},
        {"io_uring", SYS_io_uring_setup, {1, 0, 0}},
        {"userfaultfd", SYS_userfaultfd, {0}},
        {"perf", SYS_perf_event_open, {0}},
        {"mount", SYS_mount, {0}},
        {"fsopen", SYS_fsopen, {0}},
        {"open_tree", SYS_open_tree, {0}},
        {"umount", SYS_umount2, {0}},
        {"pivot_root", SYS_pivot_root, {0}},
        {"setns", SYS_setns, {0}},
        {"handle", SYS_open_by_handle_at, {0}},
        {"clone3", SYS_clone3, {0}},
        {"landlock", SYS_landlock_create_ruleset, {0, 0, 1}},
        {"secret", SYS_memfd_secret, {0}},
        {"settime", SYS_settimeofday, {0}},
        {"reboot", SYS_reboot, {0}},
        {"module", SYS_init_module, {0}},
        {"unshare-user", SYS_unshare, {CLONE_NEWUSER, 0, 0}},
        {"unshare-net", SYS_unshare, {CLONE_NEWNET, 0, 0}},
        {"unshare-mount", SYS_unshare, {CLONE_NEWNS, 0, 0}},
        {"unshare-time", SYS_unshare, {0x80, 0, 0}},
        {"unshare-files", SYS_unshare, {CLONE_FILES, 0, 0}},
        {"alg", SYS_socket, {AF_ALG, SOCK_SEQPACKET, 0}},
        {"packet", SYS_socket, {AF_PACKET, SOCK_RAW, 0}},
        {"vsock", SYS_socket, {AF_VSOCK, SOCK_STREAM, 0}},
        {"high-bits", SYS_socket, {AF_VSOCK | (1L << 32), SOCK_STREAM, 0}},
        {"raw", SYS_socket, {AF_INET, SOCK_RAW, IPPROTO_ICMP}},
        {"mptcp", SYS_socket, {AF_INET, SOCK_STREAM, 262}},
        {"netlink-route", SYS_socket, {AF_NETLINK, SOCK_RAW, 0}},
        {"netlink-audit", SYS_socket, {AF_NETLINK, SOCK_RAW, 9}},
        {"inet", SYS_socket, {AF_INET, SOCK_STREAM, 0}},
        {"inet-flags", SYS_socket, {AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0}},
        {"tcp", SYS_socket, {AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP}},
        {"udp", SYS_socket, {AF_INET, SOCK_DGRAM, IPPROTO_UDP}},
        {"ping", SYS_socket, {AF_INET, SOCK_DGRAM, IPPROTO_ICMP}},
        {"sctp", SYS_socket, {AF_INET, SOCK_STREAM | SOCK_NONBLOCK, IPPROTO_SCTP}},
        {"udp-lite", SYS_socket, {AF_INET6, SOCK_DGRAM, IPPROTO_UDPLITE}},
        {"pair-sctp", SYS_socketpair, {AF_INET, SOCK_STREAM, IPPROTO_SCTP}},
        {"udp-encap", SYS_setsockopt, {-1, IPPROTO_UDP, UDP_ENCAP}},
        {"io_setup", SYS_io_setup, {1, 0, 0}},
        {"tiocsti", SYS_ioctl, {0, TIOCSTI, 0}},
        {"tiocsti-high", SYS_ioctl, {0, TIOCSTI | (1L << 32), 0}},
        {"future", 1000, {0}},
    };

    if (strcmp(name, "clone-user") == 0) {
        return try_clone(CLONE_NEWUSER);
    }
    if (strcmp(name, "ulp") == 0) {
        return try_ulp();
    }
    if (strcmp(name, "i386") == 0) {
        return try_i386();
    }
    for (size_t i = 0; i < countof(calls); i++) {
        if (strcmp(name, calls[i].name) == 0) {
            return syscall(calls[i].number, calls[i].args[0], calls[i].args[1], calls[i].args[2], 0,
                           0, 0);
        }
    }
    errno = ENOENT;
    return -1;
}

static void do_call(const char *name)
{
    long r = try_call(name);

    if (r < 0) {
        say("%s", strerrorname_np(errno));
    } else {
        say("ok");
    }
}

/* ---- serving ---- */

/* As many empty files, with names that begin so. */
static void do_files(const char *path, unsigned long n)
{
    char name[PATH_MAX];
    bool made = true;

    for (unsigned long i = 0; made && i < n; i++) {
        (void)snprintf(name, sizeof(name), "%s%lu", path, i);
        made = close(open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) == 0;
    }
    if (made) {
        say("ok");
    } else {
        say_errno();
    }
}

/* Objects that outlive their maker. */
static void do_ipc(const char *kind)
{
    int r = strcmp(kind, "shm") == 0   ? shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600)
            : strcmp(kind, "sem") == 0 ? semget(IPC_PRIVATE, 1, IPC_CREAT | 0600)
            : strcmp(kind, "msg") == 0
                ? msgget(IPC_PRIVATE, IPC_CREAT | 0600)
                : (int)syscall(SYS_mq_open, "probe", O_CREAT | O_RDWR, 0600, NULL);

    if (r < 0) {
        say_errno();
    } else {
        say("ok");
    }
}

static void do_command(char *text)
{
    char *words[4] = {NULL};
    char *rest = text;

    for (size_t i = 0; i < countof(words) && rest; i++) {
        words[i] = strsep(&rest, " ");
    }
    answer_len = 0;
    answer[0] = '\0';
    const char *what = words[0] ? words[0] : "";
    const char *path = words[1] ? words[1] : "";
    const char *more = words[2] ? words[2] : "";
    if (strcmp(what, "read") == 0) {
        do_read(path);
    } else if (strcmp(what, "write") == 0) {
        do_write(path, more);
    } else if (strcmp(what, "list") == 0) {
        do_list(path);
    } else if (strcmp(what, "stat") == 0) {
        do_stat(path);
    } else if (strcmp(what, "df") == 0) {
        do_df(path);
    } else if (strcmp(what, "sysinfo") == 0) {
        do_sysinfo();
    } else if (strcmp(what, "odd-buffers") == 0) {
        do_odd_buffers();
    } else if (strcmp(what, "rename") == 0) {
        rename(path, more) < 0 ? say_errno() : say("ok");
    } else if (strcmp(what, "remove") == 0) {
        remove(path) < 0 ? say_errno() : say("ok");
    } else if (strcmp(what, "mkdir") == 0) {
        mkdir(path, 0755) < 0 ? say_errno() : say("ok");
    } else if (strcmp(what, "link") == 0) {
        link(path, more) < 0 ? say_errno() : say("ok");
    } else if (strcmp(what, "hog") == 0) {
        in_child(hog, strtoul(path, NULL, 10));
    } else if (strcmp(what, "forks") == 0) {
        do_forks(strtoul(path, NULL, 10));
    } else if (strcmp(what, "fill") == 0) {
        do_fill(path, strtoul(more, NULL, 10));
    } else if (strcmp(what, "sparse") == 0) {
        creat(path, 0600) < 0 || truncate(path, strtoll(more, NULL, 10)) < 0 ? say_errno()
                                                                             : say("ok");
    } else if (strcmp(what, "reserve") == 0) {
        int fd = creat(path, 0600);
        posix_fallocate(fd, 0, strtoll(more, NULL, 10) << 20) != 0 ? say_errno() : say("ok");
        (void)close(fd);
    } else if (strcmp(what, "fifo") == 0) {
        mkfifo(path, 0600) < 0 ? say_errno() : say("ok");
    } else if (strcmp(what, "symlink") == 0) {
        symlink(path, more) < 0 ? say_errno() : say("ok");
    } else if (strcmp(what, "files") == 0) {
        do_files(path, strtoul(more, NULL, 10));
    } else if (strcmp(what, "ipc") == 0) {
        do_ipc(path);
    } else if (strcmp(what, "call") == 0) {
        do_call(path);
    } else if (strcmp(what, "hold") == 0 || strcmp(what, "check") == 0) {
        say("%s", state_do(what, path));
    } else if (strcmp(what, "exit") == 0) {
        _exit(0);
    } else {
        say("unknown command");
    }
}

int main(int argc, char **argv, char **envp)
{
    char text[PROBE_BYTES];

    (void)envp;
    if (argc > 1 && strcmp(argv[0], CHANNEL_TAR_PROGRAM) == 0) {
        return stow_main(argc, argv);
    }
    for (;;) {
        int fd = accept4(CHANNEL_LISTEN_FD, NULL, NULL, SOCK_CLOEXEC);
        ssize_t n;
        while (fd >= 0 && (n = recv(fd, text, sizeof(text) - 1, 0)) > 0) {
            text[n] = '\0';
            do_command(text);
            if (send(fd, answer, answer_len ? answer_len : 1, MSG_NOSIGNAL) < 0) {
                break;
            }
        }
        (void)close(fd);
    }
}
