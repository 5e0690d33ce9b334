#include "keeper/checkpoint/tracer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "keeper/checkpoint/rollback.h"
#include "keeper/checkpoint/traced.h"
#include "keeper/jail/caps.h"
#include "keeper/jail/userns.h"
#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "lib/base/fdpass.h"
#include "lib/base/log.h"
#include "lib/base/small_file.h"

enum {
    THREADS_BYTES_MAX = 8 * 1024 * 1024,
};

struct held {
    pid_t tid;
    bool seized;
    bool stopped;
    bool told; /* of `status`, which nobody has taken yet */
    int status;
    struct rollback rollback;
};

struct tracer {
    int pair[2]; /* the listener comes over it */
    int listener;
    int signals;   /* a signalfd of SIGCHLD: a thread stopped, or CRIU did */
    int silent[2]; /* a socket that takes everything and says nothing; its other end */
    pid_t criu;
    bool over; /* CRIU is */
    struct held *threads;
    size_t threads_n;
    bool waits; /* CRIU does, in `waiting` */
    struct seccomp_notif waiting;
    void (*thaw)(void *ctx);
    void *ctx;
};

/* ---- the start ---- */

static void no_signals(sigset_t *out)
{
    (void)sigemptyset(out);
    (void)sigaddset(out, SIGCHLD);
}

int tracer_open(struct tracer **out, struct err *err)
{
    struct tracer *tracer = xnew(struct tracer);
    sigset_t set;

    *tracer = (struct tracer){.pair = {-1, -1}, .listener = -1, .signals = -1, .silent = {-1, -1}};
    *out = tracer;
    no_signals(&set);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    tracer->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (tracer->signals < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, tracer->pair) < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, tracer->silent) < 0 ||
        shutdown(tracer->silent[1], SHUT_WR) < 0) {
        return err_sys(err, "prepare to trace");
    }
    return 0;
}

void tracer_closep(struct tracer **at)
{
    struct tracer *tracer = *at;

    if (!tracer) {
        return;
    }
    for (size_t i = 0; i < tracer->threads_n; i++) {
        rollback_free(&tracer->threads[i].rollback);
    }
    free(tracer->threads);
    fd_closep(&tracer->pair[0]);
    fd_closep(&tracer->pair[1]);
    fd_closep(&tracer->listener);
    fd_closep(&tracer->signals);
    fd_closep(&tracer->silent[0]);
    fd_closep(&tracer->silent[1]);
    free(tracer);
    *at = NULL;
}

int tracer_enter(void *ctx)
{
    struct tracer *tracer = ctx;
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    int r = filter ? 0 : -ENOMEM;

    if (r == 0) {
        r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_NNP, 0);
    }
    if (r == 0) {
        r = seccomp_rule_add(filter, SCMP_ACT_NOTIFY, SCMP_SYS(ptrace), 0);
    }
    if (r == 0) {
        r = seccomp_rule_add(filter, SCMP_ACT_NOTIFY, SCMP_SYS(wait4), 0);
    }
    if (r == 0) {
        r = seccomp_rule_add(filter, SCMP_ACT_NOTIFY, SCMP_SYS(socket), 2,
                             SCMP_A0(SCMP_CMP_EQ, AF_NETLINK, 0),
                             SCMP_A2(SCMP_CMP_EQ, NETLINK_NETFILTER, 0));
    }
    if (r == 0 && !caps_has(CAP_SYS_RESOURCE)) {
        r = seccomp_rule_add(filter, SCMP_ACT_NOTIFY, SCMP_SYS(prlimit64), 1,
                             SCMP_A2(SCMP_CMP_EQ, 0, 0));
    }
    if (r == 0) {
        r = seccomp_load(filter);
    }
    int listener = r == 0 ? seccomp_notify_fd(filter) : -1;
    ssize_t n = listener < 0 ? -1 : fdpass_send(tracer->pair[1], "", 1, &listener, 1, 0);
    if (listener >= 0) {
        (void)close(listener);
    }
    seccomp_release(filter);
    return n == 1 ? 0 : -1;
}

int tracer_hold(struct tracer *tracer, pid_t criu, struct err *err)
{
    char byte;
    struct iovec iov = {&byte, 1};

    fd_closep(&tracer->pair[1]);
    ssize_t n = fdpass_receive(tracer->pair[0], &iov, 1, &tracer->listener, 1, 0);
    if (n != 1 || tracer->listener < 0) {
        return err_set(err, EIO, "CRIU's calls cannot be seen");
    }
    if (ptrace(PTRACE_SEIZE, criu, NULL, PTRACE_O_TRACEEXIT) < 0) {
        return err_sys(err, "take hold of CRIU");
    }
    tracer->criu = criu;
    return 0;
}

static int held_compare(const void *a, const void *b)
{
    pid_t one = ((const struct held *)a)->tid, other = ((const struct held *)b)->tid;

    return (one > other) - (one < other);
}

int tracer_threads(struct tracer *tracer, int group_fd, void (*thaw)(void *ctx), void *ctx,
                   struct err *err)
{
    scoped_text text = xcalloc(1, THREADS_BYTES_MAX);

    if (small_file_read(group_fd, "cgroup.threads", text, THREADS_BYTES_MAX) < 0) {
        return err_sys(err, "list the jail's threads");
    }
    for (char *at = text; *at; at += *at == '\n') {
        pid_t tid = (pid_t)strtol(at, &at, 10);
        tracer->threads =
            xrealloc(tracer->threads, (tracer->threads_n + 1) * sizeof(*tracer->threads));
        tracer->threads[tracer->threads_n++] = (struct held){.tid = tid};
    }
    if (tracer->threads_n) {
        qsort(tracer->threads, tracer->threads_n, sizeof(*tracer->threads), held_compare);
    }
    tracer->thaw = thaw;
    tracer->ctx = ctx;
    return 0;
}

static struct held *held_of(const struct tracer *tracer, pid_t tid)
{
    const struct held key = {.tid = tid};

    return tracer->threads_n ? bsearch(&key, tracer->threads, tracer->threads_n,
                                       sizeof(*tracer->threads), held_compare)
                             : NULL;
}

/* ---- answers ---- */

/* False when it does not wait for one any more: a signal came, or it died. */
static bool answer(const struct tracer *tracer, const struct seccomp_notif *call, long value)
{
    struct seccomp_notif_resp resp = {.id = call->id};

    if (value < 0) {
        resp.error = (int)value;
    } else {
        resp.val = value;
    }
    return ioctl(tracer->listener, SECCOMP_IOCTL_NOTIF_SEND, &resp) == 0;
}

/* It is not about the jail: the kernel does as asked. */
static void answer_own(const struct tracer *tracer, const struct seccomp_notif *call)
{
    struct seccomp_notif_resp resp = {.id = call->id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};

    (void)ioctl(tracer->listener, SECCOMP_IOCTL_NOTIF_SEND, &resp);
}

/* ---- waiting ---- */

static void held_look(struct held *held)
{
    if (held->seized && !held->told &&
        waitpid(held->tid, &held->status, WNOHANG | __WALL) == held->tid) {
        held->told = held->stopped = true;
        held->seized = WIFSTOPPED(held->status);
    }
}

/* All are looked at unless the one that is wanted is ready: one that is killed may end only when
 * the end of others, who stood still, has been seen. */
static struct held *held_ready(struct tracer *tracer, pid_t wanted)
{
    struct held *ready = wanted > 0 ? held_of(tracer, wanted) : NULL;

    if (ready) {
        held_look(ready);
        if (ready->told) {
            return ready;
        }
        ready = NULL;
    }
    for (size_t i = 0; i < tracer->threads_n; i++) {
        struct held *held = &tracer->threads[i];
        held_look(held);
        if (held->told && !ready && (wanted <= 0 || wanted == held->tid)) {
            ready = held;
        }
    }
    return ready;
}

/* CRIU's wait4(), as soon as there is something to tell. */
static void wait_serve(struct tracer *tracer)
{
    const struct seccomp_notif *call = &tracer->waiting;
    struct held *held = tracer->waits ? held_ready(tracer, (pid_t)call->data.args[0]) : NULL;
    bool at_once = (int)call->data.args[2] & WNOHANG;

    if (!tracer->waits || (!held && !at_once)) {
        return;
    }
    tracer->waits = false;
    long value = held ? held->tid : 0;
    if (held && call->data.args[1] &&
        traced_write((pid_t)call->pid, call->data.args[1], &held->status, sizeof(int)) < 0) {
        value = -EFAULT;
    }
    if (answer(tracer, call, value) && held) {
        held->told = false;
    }
}

static void wait_take(struct tracer *tracer, const struct seccomp_notif *call)
{
    pid_t wanted = (pid_t)call->data.args[0];
    const struct held *held = wanted > 0 ? held_of(tracer, wanted) : NULL;

    if ((held && held->seized) || (wanted == -1 && (int)call->data.args[2] & (int)__WALL)) {
        tracer->waiting = *call;
        tracer->waits = true;
        wait_serve(tracer);
    } else {
        answer_own(tracer, call);
    }
}

/* ---- tracing ---- */

static void note(struct held *held, const struct seccomp_notif *call)
{
    long request = (long)call->data.args[0];

    if (traced_changes(request)) {
        rollback_note(&held->rollback, held->tid);
    }
    if (request == PTRACE_POKEDATA || request == PTRACE_POKETEXT) {
        rollback_note_word(&held->rollback, held->tid, call->data.args[2]);
    }
}

static void trace_serve(struct tracer *tracer, const struct seccomp_notif *call)
{
    struct held *held = held_of(tracer, (pid_t)call->data.args[1]);
    long request = (long)call->data.args[0];

    if (!held || (!held->seized && request != PTRACE_SEIZE)) {
        answer_own(tracer, call);
        return;
    }
    note(held, call);
    long value = traced_call((pid_t)call->pid, (const uint64_t *)call->data.args);
    if (value >= 0 && request == PTRACE_SEIZE) {
        held->seized = true;
    } else if (value >= 0 && request == PTRACE_DETACH) {
        held->seized = false;
    } else if (value >= 0 && traced_runs(request)) {
        held->stopped = false;
    }
    (void)answer(tracer, call, value);
}

/* ---- limits ---- */

static long limit_read(pid_t tid, int resource, struct rlimit *out)
{
    uid_t owner = 0;
    struct err err;
    int r = userns_owner(tid, &owner, &err);

    if (r == 0) {
        r = caps_own_as(owner, &err);
    }
    if (r < 0) {
        return r;
    }
    r = prlimit(tid, (__rlimit_resource_t)resource, NULL, out) < 0 ? -errno : 0;
    int back = caps_own_as(0, &err);
    assert(back == 0); /* going on as somebody else would be worse than ending */
    return r;
}

/* To read the limits of another user takes CAP_SYS_RESOURCE over that user's namespace. Where root
 * has been denied that, the owner of the namespace has it still. */
static void limit_serve(const struct tracer *tracer, const struct seccomp_notif *call)
{
    struct rlimit limit;

    if (!held_of(tracer, (pid_t)call->data.args[0])) {
        answer_own(tracer, call);
        return;
    }
    long value = limit_read((pid_t)call->data.args[0], (int)call->data.args[1], &limit);
    if (value == 0) {
        value = traced_write((pid_t)call->pid, call->data.args[3], &limit, sizeof(limit));
    }
    (void)answer(tracer, call, value);
}

/* ---- what is not asked ---- */

static bool holds(const struct tracer *tracer)
{
    for (size_t i = 0; i < tracer->threads_n; i++) {
        if (tracer->threads[i].seized) {
            return true;
        }
    }
    return false;
}

/* CRIU asks for the connections that the kernel tracks in the jail's network, twice, and each time
 * the kernel goes through those of the whole machine: some ten milliseconds, in which the jail
 * stands still. None is of use to a restored jail: those within it are not tracked, and the others
 * end. So it asks nobody, who says that this is all. */
static void netfilter_serve(const struct tracer *tracer, const struct seccomp_notif *call)
{
    struct seccomp_notif_addfd silent = {
        .id = call->id,
        .flags = SECCOMP_ADDFD_FLAG_SEND,
        .srcfd = (uint32_t)tracer->silent[0],
        .newfd_flags = O_CLOEXEC,
    };

    /* Before it holds anybody, it asks what the kernel can do. */
    if (!holds(tracer) || ioctl(tracer->listener, SECCOMP_IOCTL_NOTIF_ADDFD, &silent) < 0) {
        answer_own(tracer, call);
    }
}

/* ---- the death of CRIU ---- */

/* Notes what has become of those that are held. False: one still runs. */
static bool all_stand(struct tracer *tracer)
{
    bool stand = true;

    for (size_t i = 0; i < tracer->threads_n; i++) {
        struct held *held = &tracer->threads[i];
        pid_t r = held->seized ? waitpid(held->tid, &held->status, WNOHANG | __WALL) : 0;

        if (r == held->tid && WIFSTOPPED(held->status)) {
            held->stopped = true;
        } else if (r != 0) {
            held->seized = false; /* it has ended */
        }
        stand = stand && (!held->seized || held->stopped);
    }
    return stand;
}

/* All are looked at in turn: one that is being killed may wait for others to be gone, and the
 * kernel waits for us to have seen their end. */
static void stop_all(struct tracer *tracer)
{
    for (size_t i = 0; i < tracer->threads_n; i++) {
        struct held *held = &tracer->threads[i];
        if (held->seized && !held->stopped) {
            (void)ptrace(PTRACE_INTERRUPT, held->tid, NULL, NULL);
        }
    }
    tracer->thaw(tracer->ctx); /* whoever is held stands still without */
    for (int ms = 0; !all_stand(tracer) && ms < TRACED_WAIT_MS; ms++) {
        traced_pause();
    }
    for (size_t i = 0; i < tracer->threads_n; i++) {
        tracer->threads[i].seized = tracer->threads[i].seized && tracer->threads[i].stopped;
    }
}

static void put_back(struct tracer *tracer)
{
    size_t n = 0;

    if (!holds(tracer)) {
        return;
    }
    stop_all(tracer);
    for (size_t i = 0; i < tracer->threads_n; i++) {
        struct held *held = &tracer->threads[i];
        if (held->seized) {
            rollback_process(&held->rollback, held->tid);
            rollback_sockets(held->tid);
        }
    }
    for (size_t i = 0; i < tracer->threads_n; i++) {
        struct held *held = &tracer->threads[i];
        if (held->seized) {
            rollback_thread(&held->rollback, held->tid);
            (void)ptrace(PTRACE_DETACH, held->tid, NULL, NULL);
            held->seized = false;
            n++;
        }
    }
    log_warn("CRIU was ended in the middle of its work: %zu threads are put back", n);
}

/* It stops for signals, which go on to it, and when it ends. */
static void criu_serve(struct tracer *tracer)
{
    siginfo_t info = {0};

    if (tracer->over || waitid(P_PID, (id_t)tracer->criu, &info, WSTOPPED | WNOHANG | __WALL) < 0 ||
        info.si_pid != tracer->criu) {
        return;
    }
    int event = info.si_status >> CHAR_BIT;
    if (event == PTRACE_EVENT_EXIT) {
        tracer->over = true;
        tracer->waits = false;
        put_back(tracer);
    }
    (void)ptrace(PTRACE_CONT, tracer->criu, NULL, event ? 0 : info.si_status);
}

/* ---- all of it ---- */

void tracer_polls(const struct tracer *tracer, struct pollfd out[TRACER_POLLS])
{
    out[0] = (struct pollfd){.fd = tracer->over ? -1 : tracer->listener, .events = POLLIN};
    out[1] = (struct pollfd){.fd = tracer->signals, .events = POLLIN};
}

static void call_serve(struct tracer *tracer)
{
    struct seccomp_notif call = {0};

    if (ioctl(tracer->listener, SECCOMP_IOCTL_NOTIF_RECV, &call) < 0) {
        return; /* it was taken back */
    }
    if (call.data.nr == SYS_ptrace) {
        trace_serve(tracer, &call);
    } else if (call.data.nr == SYS_socket) {
        netfilter_serve(tracer, &call);
    } else if (call.data.nr == SYS_prlimit64) {
        limit_serve(tracer, &call);
    } else {
        wait_take(tracer, &call);
    }
}

void tracer_serve(struct tracer *tracer)
{
    struct pollfd ready[TRACER_POLLS];
    struct signalfd_siginfo info;

    tracer_polls(tracer, ready);
    if (poll(ready, TRACER_POLLS, 0) <= 0) {
        return;
    }
    if (ready[0].revents & POLLIN) {
        call_serve(tracer);
    }
    if (ready[1].revents & POLLIN) {
        while (read(tracer->signals, &info, sizeof(info)) > 0) {
        }
        wait_serve(tracer);
        criu_serve(tracer);
    }
}
