#include "keeper/checkpoint/ptrace_proxy.h"

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

#include "keeper/checkpoint/ptrace_call.h"
#include "keeper/checkpoint/rollback.h"
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
    bool has_status; /* `status` was not delivered to CRIU yet */
    int status;
    struct rollback rollback;
};

struct ptrace_proxy {
    int pair[2]; /* the seccomp listener arrives over it */
    int listener;
    int signals;   /* a signalfd for SIGCHLD: a thread or CRIU has stopped */
    int silent[2]; /* a socket whose peer reads nothing and answers nothing; and that peer */
    pid_t criu;
    bool over; /* CRIU has ended */
    struct held *threads;
    size_t threads_n;
    bool waits; /* CRIU is blocked in the call `waiting` */
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

int ptrace_proxy_open(struct ptrace_proxy **out, struct err *err)
{
    struct ptrace_proxy *proxy = xnew(struct ptrace_proxy);
    sigset_t set;

    *proxy =
        (struct ptrace_proxy){.pair = {-1, -1}, .listener = -1, .signals = -1, .silent = {-1, -1}};
    *out = proxy;
    no_signals(&set);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    proxy->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (proxy->signals < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, proxy->pair) < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, proxy->silent) < 0 ||
        shutdown(proxy->silent[1], SHUT_WR) < 0) {
        return err_sys(err, "prepare to trace");
    }
    return 0;
}

void ptrace_proxy_closep(struct ptrace_proxy **at)
{
    struct ptrace_proxy *proxy = *at;

    if (!proxy) {
        return;
    }
    for (size_t i = 0; i < proxy->threads_n; i++) {
        rollback_free(&proxy->threads[i].rollback);
    }
    free(proxy->threads);
    fd_closep(&proxy->pair[0]);
    fd_closep(&proxy->pair[1]);
    fd_closep(&proxy->listener);
    fd_closep(&proxy->signals);
    fd_closep(&proxy->silent[0]);
    fd_closep(&proxy->silent[1]);
    free(proxy);
    *at = NULL;
}

int ptrace_proxy_enter(void *ctx)
{
    struct ptrace_proxy *proxy = ctx;
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
    ssize_t n = listener < 0 ? -1 : fdpass_send(proxy->pair[1], "", 1, &listener, 1, 0);
    if (listener >= 0) {
        (void)close(listener);
    }
    seccomp_release(filter);
    return n == 1 ? 0 : -1;
}

int ptrace_proxy_hold(struct ptrace_proxy *proxy, pid_t criu, struct err *err)
{
    char byte;
    struct iovec iov = {&byte, 1};

    fd_closep(&proxy->pair[1]);
    ssize_t n = fdpass_receive(proxy->pair[0], &iov, 1, &proxy->listener, 1, 0);
    if (n != 1 || proxy->listener < 0) {
        return err_set(err, EIO, "CRIU's calls cannot be seen");
    }
    if (ptrace(PTRACE_SEIZE, criu, NULL, PTRACE_O_TRACEEXIT) < 0) {
        return err_sys(err, "take hold of CRIU");
    }
    proxy->criu = criu;
    return 0;
}

static int held_compare(const void *a, const void *b)
{
    pid_t one = ((const struct held *)a)->tid, other = ((const struct held *)b)->tid;

    return (one > other) - (one < other);
}

int ptrace_proxy_threads(struct ptrace_proxy *proxy, int group_fd, void (*thaw)(void *ctx),
                         void *ctx, struct err *err)
{
    scoped_text text = xcalloc(1, THREADS_BYTES_MAX);

    if (small_file_read(group_fd, "cgroup.threads", text, THREADS_BYTES_MAX) < 0) {
        return err_sys(err, "list the jail's threads");
    }
    for (char *at = text; *at; at += *at == '\n') {
        pid_t tid = (pid_t)strtol(at, &at, 10);
        proxy->threads = xrealloc(proxy->threads, (proxy->threads_n + 1) * sizeof(*proxy->threads));
        proxy->threads[proxy->threads_n++] = (struct held){.tid = tid};
    }
    if (proxy->threads_n) {
        qsort(proxy->threads, proxy->threads_n, sizeof(*proxy->threads), held_compare);
    }
    proxy->thaw = thaw;
    proxy->ctx = ctx;
    return 0;
}

static struct held *held_of(const struct ptrace_proxy *proxy, pid_t tid)
{
    const struct held key = {.tid = tid};

    return proxy->threads_n ? bsearch(&key, proxy->threads, proxy->threads_n,
                                      sizeof(*proxy->threads), held_compare)
                            : NULL;
}

/* ---- answers ---- */

/* False when CRIU no longer waits for the answer: it got a signal, or died. */
static bool answer(const struct ptrace_proxy *proxy, const struct seccomp_notif *call, long value)
{
    struct seccomp_notif_resp resp = {.id = call->id};

    if (value < 0) {
        resp.error = (int)value;
    } else {
        resp.val = value;
    }
    return ioctl(proxy->listener, SECCOMP_IOCTL_NOTIF_SEND, &resp) == 0;
}

/* The call is not about the jail: the kernel carries it out. */
static void answer_own(const struct ptrace_proxy *proxy, const struct seccomp_notif *call)
{
    struct seccomp_notif_resp resp = {.id = call->id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};

    (void)ioctl(proxy->listener, SECCOMP_IOCTL_NOTIF_SEND, &resp);
}

/* ---- waiting ---- */

static void held_look(struct held *held)
{
    if (held->seized && !held->has_status &&
        waitpid(held->tid, &held->status, WNOHANG | __WALL) == held->tid) {
        held->has_status = held->stopped = true;
        held->seized = WIFSTOPPED(held->status);
    }
}

/* Looks at all threads unless the wanted one is ready: a killed process may be unable to end before
 * the end of others has been seen. */
static struct held *held_ready(struct ptrace_proxy *proxy, pid_t wanted)
{
    struct held *ready = wanted > 0 ? held_of(proxy, wanted) : NULL;

    if (ready) {
        held_look(ready);
        if (ready->has_status) {
            return ready;
        }
        ready = NULL;
    }
    for (size_t i = 0; i < proxy->threads_n; i++) {
        struct held *held = &proxy->threads[i];
        held_look(held);
        if (held->has_status && !ready && (wanted <= 0 || wanted == held->tid)) {
            ready = held;
        }
    }
    return ready;
}

/* Answers CRIU's wait4() as soon as a thread has a status. */
static void wait_serve(struct ptrace_proxy *proxy)
{
    const struct seccomp_notif *call = &proxy->waiting;
    struct held *held = proxy->waits ? held_ready(proxy, (pid_t)call->data.args[0]) : NULL;
    bool at_once = (int)call->data.args[2] & WNOHANG;

    if (!proxy->waits || (!held && !at_once)) {
        return;
    }
    proxy->waits = false;
    long value = held ? held->tid : 0;
    if (held && call->data.args[1] &&
        ptrace_call_write((pid_t)call->pid, call->data.args[1], &held->status, sizeof(int)) < 0) {
        value = -EFAULT;
    }
    if (answer(proxy, call, value) && held) {
        held->has_status = false;
    }
}

static void wait_take(struct ptrace_proxy *proxy, const struct seccomp_notif *call)
{
    pid_t wanted = (pid_t)call->data.args[0];
    const struct held *held = wanted > 0 ? held_of(proxy, wanted) : NULL;

    if ((held && held->seized) || (wanted == -1 && (int)call->data.args[2] & (int)__WALL)) {
        proxy->waiting = *call;
        proxy->waits = true;
        wait_serve(proxy);
    } else {
        answer_own(proxy, call);
    }
}

/* ---- tracing ---- */

static void note(struct held *held, const struct seccomp_notif *call)
{
    long request = (long)call->data.args[0];

    if (ptrace_call_changes(request)) {
        rollback_note(&held->rollback, held->tid);
    }
    if (request == PTRACE_POKEDATA || request == PTRACE_POKETEXT) {
        rollback_note_word(&held->rollback, held->tid, call->data.args[2]);
    }
}

static void trace_serve(struct ptrace_proxy *proxy, const struct seccomp_notif *call)
{
    struct held *held = held_of(proxy, (pid_t)call->data.args[1]);
    long request = (long)call->data.args[0];

    if (!held || (!held->seized && request != PTRACE_SEIZE)) {
        answer_own(proxy, call);
        return;
    }
    note(held, call);
    long value = ptrace_call((pid_t)call->pid, (const uint64_t *)call->data.args);
    if (value >= 0 && request == PTRACE_SEIZE) {
        held->seized = true;
    } else if (value >= 0 && request == PTRACE_DETACH) {
        held->seized = false;
    } else if (value >= 0 && ptrace_call_runs(request)) {
        held->stopped = false;
    }
    (void)answer(proxy, call, value);
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
    assert(back == 0); /* continuing with another uid would be worse than ending */
    return r;
}

/* Reading the limits of another user's process needs CAP_SYS_RESOURCE in that user's namespace.
 * Where root was denied that, the owner of the namespace still has it. */
static void limit_serve(const struct ptrace_proxy *proxy, const struct seccomp_notif *call)
{
    struct rlimit limit;

    if (!held_of(proxy, (pid_t)call->data.args[0])) {
        answer_own(proxy, call);
        return;
    }
    long value = limit_read((pid_t)call->data.args[0], (int)call->data.args[1], &limit);
    if (value == 0) {
        value = ptrace_call_write((pid_t)call->pid, call->data.args[3], &limit, sizeof(limit));
    }
    (void)answer(proxy, call, value);
}

/* ---- calls that need not reach the kernel ---- */

static bool holds(const struct ptrace_proxy *proxy)
{
    for (size_t i = 0; i < proxy->threads_n; i++) {
        if (proxy->threads[i].seized) {
            return true;
        }
    }
    return false;
}

/* CRIU asks twice for the connections that the kernel tracks in the jail's network. Each time the
 * kernel walks those of the whole machine, some ten milliseconds while the jail is frozen. A
 * restored jail needs none of them: connections within it are not tracked, and the others end. So
 * CRIU gets a socket that answers "no more". */
static void netfilter_serve(const struct ptrace_proxy *proxy, const struct seccomp_notif *call)
{
    struct seccomp_notif_addfd silent = {
        .id = call->id,
        .flags = SECCOMP_ADDFD_FLAG_SEND,
        .srcfd = (uint32_t)proxy->silent[0],
        .newfd_flags = O_CLOEXEC,
    };

    /* Before CRIU traces a process it probes what the kernel can do: let it. */
    if (!holds(proxy) || ioctl(proxy->listener, SECCOMP_IOCTL_NOTIF_ADDFD, &silent) < 0) {
        answer_own(proxy, call);
    }
}

/* ---- the death of CRIU ---- */

/* Updates the state of the traced threads. False while one still runs. */
static bool all_stand(struct ptrace_proxy *proxy)
{
    bool stand = true;

    for (size_t i = 0; i < proxy->threads_n; i++) {
        struct held *held = &proxy->threads[i];
        pid_t r = held->seized ? waitpid(held->tid, &held->status, WNOHANG | __WALL) : 0;

        if (r == held->tid && WIFSTOPPED(held->status)) {
            held->stopped = true;
        } else if (r != 0) {
            held->seized = false; /* the thread has ended */
        }
        stand = stand && (!held->seized || held->stopped);
    }
    return stand;
}

/* Looks at all threads in turn: a process that is being killed may wait for others to be gone, and
 * the kernel waits until their end has been seen here. */
static void stop_all(struct ptrace_proxy *proxy)
{
    for (size_t i = 0; i < proxy->threads_n; i++) {
        struct held *held = &proxy->threads[i];
        if (held->seized && !held->stopped) {
            (void)ptrace(PTRACE_INTERRUPT, held->tid, NULL, NULL);
        }
    }
    proxy->thaw(proxy->ctx); /* traced threads stay stopped without the freezer */
    for (int ms = 0; !all_stand(proxy) && ms < PTRACE_CALL_WAIT_MS; ms++) {
        ptrace_call_pause();
    }
    for (size_t i = 0; i < proxy->threads_n; i++) {
        proxy->threads[i].seized = proxy->threads[i].seized && proxy->threads[i].stopped;
    }
}

static void put_back(struct ptrace_proxy *proxy)
{
    size_t n = 0;

    if (!holds(proxy)) {
        return;
    }
    stop_all(proxy);
    for (size_t i = 0; i < proxy->threads_n; i++) {
        struct held *held = &proxy->threads[i];
        if (held->seized) {
            rollback_process(&held->rollback, held->tid);
            rollback_sockets(held->tid);
        }
    }
    for (size_t i = 0; i < proxy->threads_n; i++) {
        struct held *held = &proxy->threads[i];
        if (held->seized) {
            rollback_thread(&held->rollback, held->tid);
            (void)ptrace(PTRACE_DETACH, held->tid, NULL, NULL);
            held->seized = false;
            n++;
        }
    }
    log_warn("CRIU was ended in the middle of its work: %zu threads are put back", n);
}

/* CRIU stops for signals, which are delivered to it, and when it ends. */
static void criu_serve(struct ptrace_proxy *proxy)
{
    siginfo_t info = {0};

    if (proxy->over || waitid(P_PID, (id_t)proxy->criu, &info, WSTOPPED | WNOHANG | __WALL) < 0 ||
        info.si_pid != proxy->criu) {
        return;
    }
    int event = info.si_status >> CHAR_BIT;
    if (event == PTRACE_EVENT_EXIT) {
        proxy->over = true;
        proxy->waits = false;
        put_back(proxy);
    }
    (void)ptrace(PTRACE_CONT, proxy->criu, NULL, event ? 0 : info.si_status);
}

/* ---- all of it ---- */

void ptrace_proxy_polls(const struct ptrace_proxy *proxy, struct pollfd out[PTRACE_PROXY_POLLS])
{
    out[0] = (struct pollfd){.fd = proxy->over ? -1 : proxy->listener, .events = POLLIN};
    out[1] = (struct pollfd){.fd = proxy->signals, .events = POLLIN};
}

static void call_serve(struct ptrace_proxy *proxy)
{
    struct seccomp_notif call = {0};

    if (ioctl(proxy->listener, SECCOMP_IOCTL_NOTIF_RECV, &call) < 0) {
        return; /* CRIU gave up the call */
    }
    if (call.data.nr == SYS_ptrace) {
        trace_serve(proxy, &call);
    } else if (call.data.nr == SYS_socket) {
        netfilter_serve(proxy, &call);
    } else if (call.data.nr == SYS_prlimit64) {
        limit_serve(proxy, &call);
    } else {
        wait_take(proxy, &call);
    }
}

void ptrace_proxy_serve(struct ptrace_proxy *proxy)
{
    struct pollfd ready[PTRACE_PROXY_POLLS];
    struct signalfd_siginfo info;

    ptrace_proxy_polls(proxy, ready);
    if (poll(ready, PTRACE_PROXY_POLLS, 0) <= 0) {
        return;
    }
    if (ready[0].revents & POLLIN) {
        call_serve(proxy);
    }
    if (ready[1].revents & POLLIN) {
        while (read(proxy->signals, &info, sizeof(info)) > 0) {
        }
        wait_serve(proxy);
        criu_serve(proxy);
    }
}
