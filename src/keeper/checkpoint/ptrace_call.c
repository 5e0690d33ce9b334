#include "keeper/checkpoint/ptrace_call.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/alloc.h"
#include "lib/base/compiler.h"

enum {
    BYTES_MAX = 64 * 1024, /* limit for the data of one call */
    WAIT_LOOKS = 1000,     /* polls without a pause before it sleeps between them */
    GET_THREAD_AREA = 25,
    ARCH_PRCTL = 30,
    SHADOW_STACK_STATUS = 0x5005,
    GET_FILTER = 0x420c,
    GET_METADATA = 0x420d,
    GET_RSEQ = 0x420f,
    FILTER_ENTRY_BYTES = 8,
    FIXED_BYTES_FP = 512,
};

/* The meaning of `addr` and `data` for a request. */
enum shape {
    SHAPE_VALUES = 1, /* two numbers */
    SHAPE_OUT,        /* data: address that receives a fixed number of bytes */
    SHAPE_IN,         /* data: address of a fixed number of bytes */
    SHAPE_SIZED_OUT,  /* as SHAPE_OUT, with the number in addr */
    SHAPE_SIZED_IN,
    SHAPE_SIZED_BOTH,
    SHAPE_VECTOR_OUT, /* data: a struct iovec, whose length is set */
    SHAPE_VECTOR_IN,
    SHAPE_SIGNALS, /* addr: which and how many to read; data: receives as many as are returned */
    SHAPE_FILTER,  /* data: receives the instructions, as many as are returned; or NULL */
    SHAPE_STATUS,  /* addr: receives a word; data: what is asked for */
};

static const struct request {
    long number;
    enum shape shape;
    size_t bytes;
    bool changes;
    bool runs;
} requests[] = {
    {PTRACE_SEIZE, SHAPE_VALUES, 0, false, false},
    {PTRACE_INTERRUPT, SHAPE_VALUES, 0, false, false},
    {PTRACE_DETACH, SHAPE_VALUES, 0, false, false},
    {PTRACE_SETOPTIONS, SHAPE_VALUES, 0, false, false},
    {PTRACE_CONT, SHAPE_VALUES, 0, true, true},
    {PTRACE_SYSCALL, SHAPE_VALUES, 0, true, true},
    {PTRACE_SINGLESTEP, SHAPE_VALUES, 0, true, true},
    {PTRACE_POKETEXT, SHAPE_VALUES, 0, true, false},
    {PTRACE_POKEDATA, SHAPE_VALUES, 0, true, false},
    {PTRACE_POKEUSER, SHAPE_VALUES, 0, true, false},
    {PTRACE_PEEKTEXT, SHAPE_OUT, sizeof(long), false, false},
    {PTRACE_PEEKDATA, SHAPE_OUT, sizeof(long), false, false},
    {PTRACE_PEEKUSER, SHAPE_OUT, sizeof(long), false, false},
    {PTRACE_GETSIGINFO, SHAPE_OUT, sizeof(siginfo_t), false, false},
#ifndef __aarch64__
    {PTRACE_GETREGS, SHAPE_OUT, sizeof(struct user_regs_struct), false, false},
    {PTRACE_SETREGS, SHAPE_IN, sizeof(struct user_regs_struct), true, false},
    {PTRACE_GETFPREGS, SHAPE_OUT, FIXED_BYTES_FP, false, false},
    {PTRACE_SETFPREGS, SHAPE_IN, FIXED_BYTES_FP, true, false},
    {GET_THREAD_AREA, SHAPE_OUT, 16, false, false},
    {ARCH_PRCTL, SHAPE_STATUS, sizeof(uint64_t), false, false},
#endif
    {PTRACE_GETREGSET, SHAPE_VECTOR_OUT, 0, false, false},
    {PTRACE_SETREGSET, SHAPE_VECTOR_IN, 0, true, false},
    {PTRACE_GETSIGMASK, SHAPE_SIZED_OUT, 0, false, false},
    {PTRACE_SETSIGMASK, SHAPE_SIZED_IN, 0, true, false},
    {PTRACE_PEEKSIGINFO, SHAPE_SIGNALS, 0, false, false},
    {GET_FILTER, SHAPE_FILTER, 0, false, false},
    {GET_METADATA, SHAPE_SIZED_BOTH, 0, false, false},
    {GET_RSEQ, SHAPE_SIZED_OUT, 0, false, false},
};

static const struct request *request_of(long number)
{
    for (size_t i = 0; i < countof(requests); i++) {
        if (requests[i].number == number) {
            return &requests[i];
        }
    }
    return NULL;
}

bool ptrace_call_changes(long request)
{
    const struct request *known = request_of(request);

    return known && known->changes;
}

bool ptrace_call_runs(long request)
{
    const struct request *known = request_of(request);

    return known && known->runs;
}

/* ---- the caller's memory ---- */

int ptrace_call_write(pid_t caller, uint64_t at, const void *bytes, size_t n)
{
    struct iovec here = {(void *)(uintptr_t)bytes, n};
    struct iovec there = {(void *)(uintptr_t)at, n};

    return n == 0 || process_vm_writev(caller, &here, 1, &there, 1, 0) == (ssize_t)n ? 0 : -EFAULT;
}

static int caller_read(pid_t caller, uint64_t at, void *bytes, size_t n)
{
    struct iovec here = {bytes, n};
    struct iovec there = {(void *)(uintptr_t)at, n};

    return n == 0 || process_vm_readv(caller, &here, 1, &there, 1, 0) == (ssize_t)n ? 0 : -EFAULT;
}

/* ---- the shapes ---- */

/* Makes the system call directly: the C library's ptrace() treats some requests differently. */
static long raw(const uint64_t args[4], uint64_t addr, uint64_t data)
{
    long r = syscall(SYS_ptrace, args[0], args[1], addr, data);

    return r < 0 ? -errno : r;
}

static long bytes_call(pid_t caller, const uint64_t args[4], size_t n, bool in, bool out)
{
    uint8_t bytes[BYTES_MAX];

    if (n > sizeof(bytes)) {
        return -EINVAL;
    }
    if (in && caller_read(caller, args[3], bytes, n) < 0) {
        return -EFAULT;
    }
    long r = raw(args, args[2], (uintptr_t)bytes);
    return r >= 0 && out && ptrace_call_write(caller, args[3], bytes, n) < 0 ? -EFAULT : r;
}

static long vector_call(pid_t caller, const uint64_t args[4], bool in)
{
    uint8_t bytes[BYTES_MAX];
    struct iovec theirs;

    if (caller_read(caller, args[3], &theirs, sizeof(theirs)) < 0) {
        return -EFAULT;
    }
    struct iovec own = {bytes, theirs.iov_len < sizeof(bytes) ? theirs.iov_len : sizeof(bytes)};
    if (in && caller_read(caller, (uintptr_t)theirs.iov_base, bytes, own.iov_len) < 0) {
        return -EFAULT;
    }
    long r = raw(args, args[2], (uintptr_t)&own);
    if (r < 0) {
        return r;
    }
    theirs.iov_len = own.iov_len;
    if ((!in && ptrace_call_write(caller, (uintptr_t)theirs.iov_base, bytes, own.iov_len) < 0) ||
        ptrace_call_write(caller, args[3], &theirs, sizeof(theirs)) < 0) {
        return -EFAULT;
    }
    return r;
}

static long signals_call(pid_t caller, const uint64_t args[4])
{
    struct __ptrace_peeksiginfo_args which;

    if (caller_read(caller, args[2], &which, sizeof(which)) < 0) {
        return -EFAULT;
    }
    if (which.nr < 0 || (size_t)which.nr > BYTES_MAX / sizeof(siginfo_t)) {
        which.nr = BYTES_MAX / sizeof(siginfo_t); /* the caller asks again for the rest */
    }
    siginfo_t infos[BYTES_MAX / sizeof(siginfo_t)];
    long r = raw(args, (uintptr_t)&which, (uintptr_t)infos);
    return r > 0 && ptrace_call_write(caller, args[3], infos, (size_t)r * sizeof(infos[0])) < 0
               ? -EFAULT
               : r;
}

static long filter_call(pid_t caller, const uint64_t args[4])
{
    uint8_t bytes[BYTES_MAX];
    long r = raw(args, args[2], args[3] ? (uintptr_t)bytes : 0);

    return r > 0 && args[3] &&
                   ptrace_call_write(caller, args[3], bytes, (size_t)r * FILTER_ENTRY_BYTES) < 0
               ? -EFAULT
               : r;
}

static long status_call(pid_t caller, const uint64_t args[4])
{
    uint64_t word = 0;

    if (args[3] != SHADOW_STACK_STATUS) {
        return -EIO;
    }
    long r = raw(args, (uintptr_t)&word, args[3]);
    return r >= 0 && ptrace_call_write(caller, args[2], &word, sizeof(word)) < 0 ? -EFAULT : r;
}

long ptrace_call(pid_t caller, const uint64_t args[4])
{
    const struct request *request = request_of((long)args[0]);

    switch (request ? request->shape : (enum shape)0) {
    case SHAPE_VALUES:
        return raw(args, args[2], args[3]);
    case SHAPE_OUT:
    case SHAPE_IN:
        return bytes_call(caller, args, request->bytes, request->shape == SHAPE_IN,
                          request->shape == SHAPE_OUT);
    case SHAPE_SIZED_OUT:
    case SHAPE_SIZED_IN:
    case SHAPE_SIZED_BOTH:
        return bytes_call(caller, args, args[2], request->shape != SHAPE_SIZED_OUT,
                          request->shape != SHAPE_SIZED_IN);
    case SHAPE_VECTOR_OUT:
    case SHAPE_VECTOR_IN:
        return vector_call(caller, args, request->shape == SHAPE_VECTOR_IN);
    case SHAPE_SIGNALS:
        return signals_call(caller, args);
    case SHAPE_FILTER:
        return filter_call(caller, args);
    case SHAPE_STATUS:
        return status_call(caller, args);
    }
    return -EIO;
}

void ptrace_call_pause(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
}

/* Most threads have stopped after a few polls. */
bool ptrace_call_wait(pid_t tid, int *status)
{
    pid_t r = waitpid(tid, status, WNOHANG | __WALL);

    for (int i = 0; r == 0 && i < WAIT_LOOKS; i++) {
        (void)sched_yield();
        r = waitpid(tid, status, WNOHANG | __WALL);
    }
    for (int ms = 0; r == 0 && ms < PTRACE_CALL_WAIT_MS; ms++) {
        ptrace_call_pause();
        r = waitpid(tid, status, WNOHANG | __WALL);
    }
    return r == tid;
}
