/* ptrace_proxy.h - makes CRIU's ptrace() calls for it, so that a jail survives the death of CRIU.
 *
 * When a tracer dies, the kernel releases its tracees in whatever state they are: a process with
 * CRIU's code in it dies as well. So CRIU traces nothing itself. A seccomp filter sends its calls
 * of ptrace() and wait4() to this process, which makes them, is the tracer, and notes what they
 * change (rollback.h). CRIU itself is stopped at the moment of its death, before its sockets close.
 * If it was killed, everything that it had not released is put back and released then. Some other
 * calls of CRIU are answered here too: those that need not reach the kernel, and the limits of the
 * jail's processes where root may not read them.
 *
 * Owns:    the hold on CRIU and on the threads.
 * Needs:   root, and SIGCHLD at its default.
 * Blocks:  ptrace_proxy_serve() for a moment; putting back takes a few milliseconds per process.
 * Threads: one, always the same: the kernel ties a tracee to a thread.
 */
#ifndef CHECKPOINT_PTRACE_PROXY_H
#define CHECKPOINT_PTRACE_PROXY_H

#include <poll.h>
#include <stdbool.h>
#include <sys/types.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

enum { PTRACE_PROXY_POLLS = 2 };

struct ptrace_proxy;

must_check int ptrace_proxy_open(struct ptrace_proxy **out, struct err *err);
/* Releases CRIU, which traces nothing by then. NULL is allowed. */
void ptrace_proxy_closep(struct ptrace_proxy **proxy);

/* Called in the new process, before it executes CRIU. */
must_check int ptrace_proxy_enter(void *proxy);
/* Called in the parent after that: attaches to CRIU. */
must_check int ptrace_proxy_hold(struct ptrace_proxy *proxy, pid_t criu, struct err *err);

/* Sets the threads that CRIU may trace: all of a group, which is frozen from now on. `thaw` is
 * called when the group must run again because CRIU died. */
must_check int ptrace_proxy_threads(struct ptrace_proxy *proxy, int group_fd,
                                    void (*thaw)(void *ctx), void *ctx, struct err *err);

/* The descriptors to poll. When one is ready, call ptrace_proxy_serve(). */
void ptrace_proxy_polls(const struct ptrace_proxy *proxy, struct pollfd out[PTRACE_PROXY_POLLS]);
void ptrace_proxy_serve(struct ptrace_proxy *proxy);

#endif
