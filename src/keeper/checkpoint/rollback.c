#include "keeper/checkpoint/rollback.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "keeper/checkpoint/ptrace_call.h"
#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/small_file.h"
#include "lib/base/str.h"

#ifndef TCP_REPAIR_OFF_NO_WP
#define TCP_REPAIR_OFF_NO_WP (-1)
#endif
#ifndef PTRACE_EVENT_STOP
#define PTRACE_EVENT_STOP 128
#endif

enum {
    EXTENDED_BYTES_MAX = 64 * 1024,
    MAPS_BYTES_MAX = 64 * 1024 * 1024,
    FDS_MAX = 1024 * 1024,
    STOPS_MAX = 16, /* stops that may come before the expected one */
    EVENT_SHIFT = 16,
};

#ifdef __aarch64__
#define EXTENDED_TYPE NT_PRFPREG
static const unsigned long call_code[] = {0xd4200000d4000001}; /* svc #0; brk #0 */
#else
#define EXTENDED_TYPE NT_X86_XSTATE
static const unsigned long call_code[] = {0xcccccccccccc050f}; /* syscall; int3 */
#endif

void rollback_free(struct rollback *rollback)
{
    free(rollback->extended);
    free(rollback->words);
    free(rollback->ranges);
    free(rollback->fds);
    *rollback = (struct rollback){0};
}

/* ---- noting ---- */

void rollback_note(struct rollback *rollback, pid_t tid)
{
    uint8_t bytes[EXTENDED_BYTES_MAX];
    struct iovec regs = {&rollback->regs, sizeof(rollback->regs)};
    struct iovec extended = {bytes, sizeof(bytes)};

    if (rollback->noted || ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &regs) < 0 ||
        ptrace(PTRACE_GETSIGMASK, tid, sizeof(rollback->mask), &rollback->mask) < 0) {
        return;
    }
    rollback->noted = true;
    if (ptrace(PTRACE_GETREGSET, tid, EXTENDED_TYPE, &extended) == 0) {
        rollback->extended = xcalloc(1, extended.iov_len);
        rollback->extended_n = extended.iov_len;
        memcpy(rollback->extended, bytes, extended.iov_len);
    }
}

static char *maps_text(pid_t tid)
{
    char path[32];
    char *text = NULL;

    (void)snprintf(path, sizeof(path), "/proc/%d/maps", tid);
    scoped_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && small_file_text(fd, MAPS_BYTES_MAX, &text) >= 0 ? text : xstrdup("");
}

/* "7f00-7f01 r-xp ..." */
static bool range_read(struct str line, struct rollback_range *out)
{
    char text[64], *at = NULL;

    (void)snprintf(text, sizeof(text), "%.*s", (int)line.len, line.at);
    out->start = strtoul(text, &at, 16);
    if (*at != '-') {
        return false;
    }
    out->end = strtoul(at + 1, &at, 16);
    out->prot = PROT_NONE;
    if (strlen(at) < 4) {
        return false;
    }
    out->prot |= at[1] == 'r' ? PROT_READ : 0;
    out->prot |= at[2] == 'w' ? PROT_WRITE : 0;
    out->prot |= at[3] == 'x' ? PROT_EXEC : 0;
    return out->start < out->end;
}

size_t rollback_ranges_read(const char *maps, struct rollback_range **out)
{
    struct str rest = str_of(maps), line;
    size_t n = 0, room = 64;

    *out = xcalloc(room, sizeof(**out));
    while (str_split(&rest, '\n', &line)) {
        if (n == room) {
            *out = xrealloc(*out, (room *= 2) * sizeof(**out));
        }
        n += range_read(line, &(*out)[n]);
    }
    return n;
}

static size_t ranges_now(pid_t tid, struct rollback_range **out)
{
    scoped_text maps = maps_text(tid);

    return rollback_ranges_read(maps, out);
}

static void fds_each(pid_t tid, void (*each)(void *ctx, size_t fd), void *ctx)
{
    char path[32];

    (void)snprintf(path, sizeof(path), "/proc/%d/fd", tid);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (entry->d_name[0] != '.') {
            each(ctx, strtoul(entry->d_name, NULL, 10));
        }
    }
    if (dir) {
        (void)closedir(dir);
    }
}

static void fd_note(void *ctx, size_t fd)
{
    struct rollback *rollback = ctx;

    if (fd >= rollback->fds_n && fd < FDS_MAX) {
        size_t n = (fd + 64) * 2;
        rollback->fds = xrealloc(rollback->fds, n * sizeof(bool));
        memset(rollback->fds + rollback->fds_n, 0, (n - rollback->fds_n) * sizeof(bool));
        rollback->fds_n = n;
    }
    if (fd < rollback->fds_n) {
        rollback->fds[fd] = true;
    }
}

void rollback_note_word(struct rollback *rollback, pid_t tid, unsigned long at)
{
    if (!rollback->entered) {
        rollback->entered = true;
        rollback->ranges_n = ranges_now(tid, &rollback->ranges);
        fds_each(tid, fd_note, rollback);
    }
    for (size_t i = 0; i < rollback->words_n; i++) {
        if (rollback->words[i].at == at) {
            return;
        }
    }
    errno = 0;
    unsigned long was = (unsigned long)ptrace(PTRACE_PEEKDATA, tid, at, NULL);
    if (errno == 0) {
        rollback->words =
            xrealloc(rollback->words, (rollback->words_n + 1) * sizeof(*rollback->words));
        rollback->words[rollback->words_n++] = (struct rollback_word){at, was};
    }
}

/* ---- comparing ---- */

/* The first range that ends after an address; n when there is none. */
static size_t range_find(const struct rollback_range *ranges, size_t n, unsigned long at)
{
    size_t low = 0, high = n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges[middle].end <= at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool rollback_ranges_differ(const struct rollback_range *was, size_t was_n,
                            const struct rollback_range *now, unsigned long *at,
                            struct rollback_range *out)
{
    while (*at < now->end) {
        size_t i = range_find(was, was_n, *at);
        bool known = i < was_n && was[i].start <= *at;
        unsigned long end = i == was_n ? now->end : known ? was[i].end : was[i].start;
        *out =
            (struct rollback_range){*at, end < now->end ? end : now->end, known ? was[i].prot : -1};
        *at = out->end;
        if (out->prot != now->prot) {
            return true;
        }
    }
    return false;
}

/* ---- making it call the kernel ---- */

static void call_set(struct user_regs_struct *regs, unsigned long ip, long number,
                     const unsigned long args[3])
{
#ifdef __aarch64__
    regs->pc = ip;
    regs->regs[8] = (unsigned long)number;
    for (int i = 0; i < 3; i++) {
        regs->regs[i] = args[i];
    }
#else
    regs->rip = ip;
    regs->rax = (unsigned long)number;
    regs->orig_rax = (unsigned long)-1; /* no system call to restart */
    regs->rdi = args[0];
    regs->rsi = args[1];
    regs->rdx = args[2];
#endif
}

/* Lets the thread run until it hits the trap after the call. */
static bool trap_wait(pid_t tid)
{
    for (int i = 0; i < STOPS_MAX; i++) {
        int status = 0;
        if (ptrace(PTRACE_CONT, tid, NULL, NULL) < 0 || !ptrace_call_wait(tid, &status) ||
            !WIFSTOPPED(status)) {
            return false;
        }
        if (WSTOPSIG(status) == SIGTRAP && status >> EVENT_SHIFT == 0) {
            return true;
        }
    }
    return false;
}

static void call(const struct rollback *rollback, pid_t tid, unsigned long ip, long number,
                 const unsigned long args[3])
{
    struct user_regs_struct regs = rollback->regs;
    struct iovec iov = {&regs, sizeof(regs)};

    call_set(&regs, ip, number, args);
    if (ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &iov) < 0 || !trap_wait(tid)) {
        log_warn("process %d cannot be made to call the kernel", tid);
    }
}

/* ---- undoing ---- */

static void words_write(const struct rollback_word *words, size_t n, pid_t tid)
{
    for (size_t i = 0; i < n; i++) {
        (void)ptrace(PTRACE_POKEDATA, tid, words[i].at, words[i].was);
    }
}

static void mappings_undo(const struct rollback *rollback, pid_t tid, unsigned long ip)
{
    struct rollback_range *now = NULL, piece;
    size_t n = ranges_now(tid, &now);

    for (size_t i = 0; i < n; i++) {
        unsigned long at = now[i].start;
        while (rollback_ranges_differ(rollback->ranges, rollback->ranges_n, &now[i], &at, &piece)) {
            const unsigned long args[3] = {piece.start, piece.end - piece.start,
                                           (unsigned long)piece.prot};
            call(rollback, tid, ip, piece.prot < 0 ? SYS_munmap : SYS_mprotect, args);
        }
    }
    free(now);
}

struct closing {
    const struct rollback *rollback;
    pid_t tid;
    unsigned long ip;
};

static void fd_undo(void *ctx, size_t fd)
{
    const struct closing *closing = ctx;
    const unsigned long args[3] = {fd};

    if (fd >= closing->rollback->fds_n || !closing->rollback->fds[fd]) {
        call(closing->rollback, closing->tid, closing->ip, SYS_close, args);
    }
}

void rollback_process(const struct rollback *rollback, pid_t tid)
{
    if (!rollback->entered || !rollback->words_n) {
        return;
    }
    words_write(rollback->words, rollback->words_n, tid);
    const struct rollback_word code = {rollback->words[0].at, call_code[0]};
    struct closing closing = {rollback, tid, code.at};
    (void)ptrace(PTRACE_SETOPTIONS, tid, NULL, PTRACE_O_SUSPEND_SECCOMP);
    words_write(&code, 1, tid);
    fds_each(tid, fd_undo, &closing);
    mappings_undo(rollback, tid, code.at);
    words_write(rollback->words, 1, tid);
}

static void socket_undo(void *ctx, size_t fd)
{
    const int *pidfd = ctx;
    int on = 0, off = TCP_REPAIR_OFF_NO_WP;
    socklen_t size = sizeof(on);
    scoped_fd socket = (int)syscall(SYS_pidfd_getfd, *pidfd, (int)fd, 0);

    if (socket >= 0 && getsockopt(socket, IPPROTO_TCP, TCP_REPAIR, &on, &size) == 0 && on == 1 &&
        setsockopt(socket, IPPROTO_TCP, TCP_REPAIR, &off, sizeof(off)) < 0) {
        log_warn("a connection stays held: %s", strerrordesc_np(errno));
    }
}

void rollback_sockets(pid_t tid)
{
    scoped_fd pidfd = (int)syscall(SYS_pidfd_open, tid, 0);

    if (pidfd >= 0) {
        fds_each(tid, socket_undo, &pidfd);
    }
}

void rollback_thread(const struct rollback *rollback, pid_t tid)
{
    struct iovec regs = {(void *)(uintptr_t)&rollback->regs, sizeof(rollback->regs)};
    struct iovec extended = {rollback->extended, rollback->extended_n};

    if (!rollback->noted) {
        return;
    }
    if (rollback->extended) {
        (void)ptrace(PTRACE_SETREGSET, tid, EXTENDED_TYPE, &extended);
    }
    if ((ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &regs) < 0 ||
         ptrace(PTRACE_SETSIGMASK, tid, sizeof(rollback->mask), &rollback->mask) < 0) &&
        errno != ESRCH) { /* the thread was killed meanwhile */
        log_warn("thread %d cannot be put back: %s", tid, strerrordesc_np(errno));
    }
}
