#include "keeper/checkpoint/criu_uid.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/securebits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "keeper/checkpoint/ptrace_call.h"
#include "lib/base/compiler.h"
#include "lib/base/fd.h"
#include "lib/base/small_file.h"

#ifndef NT_ARM_SYSTEM_CALL
#define NT_ARM_SYSTEM_CALL 0x404
#endif

enum {
    CHILDREN_BYTES = 1024,      /* room for pids as text */
    STOPS_MAX = 16,             /* stops that may come before the expected one */
    CALL_STOP = SIGTRAP | 0x80, /* PTRACE_O_TRACESYSGOOD marks a system call so */
    CALL_CODE_BYTES_ARM = 4,    /* length of the instruction that calls the kernel */
    CALL_CODE_BYTES_X86 = 2,
};

struct call {
    long number;
    unsigned long args[3];
};

/* ---- registers ---- */

static int registers_get(pid_t pid, struct user_regs_struct *out)
{
    struct iovec iov = {out, sizeof(*out)};

    return ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &iov) < 0 ? -errno : 0;
}

static int registers_set(pid_t pid, const struct user_regs_struct *regs)
{
    struct iovec iov = {(void *)(uintptr_t)regs, sizeof(*regs)};

    return ptrace(PTRACE_SETREGSET, pid, NT_PRSTATUS, &iov) < 0 ? -errno : 0;
}

#ifdef __aarch64__

static int call_exchange(pid_t pid, struct user_regs_struct regs, const struct call *call)
{
    int number = (int)call->number;
    struct iovec iov = {&number, sizeof(number)};

    for (int i = 0; i < 3; i++) {
        regs.regs[i] = call->args[i];
    }
    int r = registers_set(pid, &regs);
    return r == 0 && ptrace(PTRACE_SETREGSET, pid, NT_ARM_SYSTEM_CALL, &iov) < 0 ? -errno : r;
}

static long call_result(const struct user_regs_struct *regs)
{
    return (long)regs->regs[0];
}

static void call_rewind(struct user_regs_struct *regs)
{
    regs->pc -= CALL_CODE_BYTES_ARM;
}

#else

static int call_exchange(pid_t pid, struct user_regs_struct regs, const struct call *call)
{
    regs.orig_rax = (unsigned long)call->number;
    regs.rdi = call->args[0];
    regs.rsi = call->args[1];
    regs.rdx = call->args[2];
    return registers_set(pid, &regs);
}

static long call_result(const struct user_regs_struct *regs)
{
    return (long)regs->rax;
}

static void call_rewind(struct user_regs_struct *regs)
{
    regs->rip -= CALL_CODE_BYTES_X86;
    regs->rax = regs->orig_rax;
}

#endif

/* ---- stops ---- */

/* Lets the process run until it enters or leaves a system call. Signals that arrive meanwhile are
 * delivered to it. */
static int call_stop_wait(pid_t pid)
{
    unsigned long signal_number = 0;

    for (int i = 0; i < STOPS_MAX; i++) {
        int status = 0;
        if (ptrace(PTRACE_SYSCALL, pid, NULL, signal_number) < 0) {
            return -errno;
        }
        if (!ptrace_call_wait(pid, &status)) {
            return -ETIMEDOUT;
        }
        if (!WIFSTOPPED(status)) {
            return -ESRCH;
        }
        if (WSTOPSIG(status) == CALL_STOP) {
            return 0;
        }
        signal_number = status >> 16 ? 0 : (unsigned long)WSTOPSIG(status);
    }
    return -EBUSY;
}

/* Replaces the call that the process is about to make by this one, and makes the process repeat its
 * own call afterwards. */
static int call_make(pid_t pid, const struct call *call)
{
    struct user_regs_struct own = {0}, after = {0};
    int r = call_stop_wait(pid);

    if (r == 0) {
        r = registers_get(pid, &own);
    }
    if (r == 0) {
        r = call_exchange(pid, own, call);
    }
    if (r == 0) {
        r = call_stop_wait(pid);
    }
    if (r == 0) {
        r = registers_get(pid, &after);
    }
    if (r < 0) {
        return r;
    }
    call_rewind(&own);
    r = registers_set(pid, &own);
    return r < 0 ? r : (int)call_result(&after);
}

static int calls_make(pid_t pid, const struct call *calls, size_t n)
{
    int status = 0;

    if (ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) < 0) {
        return -errno;
    }
    if (!ptrace_call_wait(pid, &status) || !WIFSTOPPED(status)) {
        return -ESRCH;
    }
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = call_make(pid, &calls[i]);
    }
    return r;
}

/* With `tied`, the process is the caller's child and ends with it (task.h). The change of uid makes
 * the kernel forget that, so it is set again. */
static int process_uid_set(pid_t pid, uid_t uid, bool tied, struct err *err)
{
    const unsigned long same = (unsigned long)-1;
    const struct call keep = {SYS_prctl, {PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0}};
    const struct call plain = {SYS_prctl, {PR_SET_SECUREBITS, SECUREBITS_DEFAULT, 0}};
    const struct call change = {SYS_setresuid, {same, uid, same}};
    /* The change clears the flag; CRIU's children need it to open their own /proc. */
    const struct call dumpable = {SYS_prctl, {PR_SET_DUMPABLE, 1, 0}};
    const struct call die_with_parent = {SYS_prctl, {PR_SET_PDEATHSIG, SIGKILL, 0}};
    const struct call there[] = {keep, change, dumpable, die_with_parent};
    const struct call back[] = {change, plain, dumpable, die_with_parent};

    /* If this process dies before the flag is set again, CRIU ends with its tracer. */
    if (ptrace(PTRACE_SEIZE, pid, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) < 0) {
        return err_set(err, EIO, "take hold of CRIU: %s", strerrordesc_np(errno));
    }
    int r = calls_make(pid, uid ? there : back, countof(there) - !tied);
    (void)ptrace(PTRACE_DETACH, pid, NULL, NULL);
    if (r < 0) { /* mostly because it was killed: a retry may succeed */
        return err_set(err, EIO, "make CRIU take the effective uid %u: %s", uid,
                       strerrordesc_np(-r));
    }
    return 0;
}

int criu_uid_set(pid_t pid, uid_t uid, bool tied, struct err *err)
{
    char path[64], text[CHILDREN_BYTES];
    int r = process_uid_set(pid, uid, tied, err);

    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
    if (r == 0 && small_file_read(AT_FDCWD, path, text, sizeof(text)) < 0) {
        return err_sys(err, "read %s", path);
    }
    for (char *at = text, *end = NULL; r == 0; at = end) {
        pid_t child = (pid_t)strtol(at, &end, 10);
        if (end == at) {
            break;
        }
        r = process_uid_set(child, uid, false, err);
    }
    return r;
}
