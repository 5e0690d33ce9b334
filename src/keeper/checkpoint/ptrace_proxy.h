/* ptrace_proxy.h - stands between CRIU and the processes that it looks into, so that they outlive
 * it.
 *
 * The kernel lets go of a process whose tracer dies, in whatever state it is: with CRIU's code in
 * it, it dies as well. So CRIU traces nothing itself. Its calls of ptrace() and wait4() come here
 * (a seccomp filter that notifies), and are made by this process, which is the tracer and notes
 * what they change (rollback.h). CRIU itself is held at the moment of its death, before its sockets
 * close; when it was killed, all that it had not let go of yet is put back and let go then. What
 * it need not ask the kernel for is answered here, too, and so are the limits of the jail's
 * processes where root itself may not read them.
 *
 * Owns:    the hold on CRIU and on the threads. Needs root and SIGCHLD at its default.
 * Blocks:  ptrace_proxy_serve() for a moment; putting back for a few milliseconds a process.
 * Threads: one, the same one always: the kernel means a thread when it says tracer.
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
/* Lets go of CRIU; by then it holds nothing. Fine with NULL. */
void ptrace_proxy_closep(struct ptrace_proxy **proxy);

/* In the new process, before it becomes CRIU. */
must_check int ptrace_proxy_enter(void *proxy);
/* After that, here: takes hold of CRIU. */
must_check int ptrace_proxy_hold(struct ptrace_proxy *proxy, pid_t criu, struct err *err);

/* Those that CRIU may trace: all threads of a group, which stands still from now on. `thaw` is
 * called when it has to run again, because CRIU died. */
must_check int ptrace_proxy_threads(struct ptrace_proxy *proxy, int group_fd,
                                    void (*thaw)(void *ctx), void *ctx, struct err *err);

/* What to wait for. When anything of it is ready, serve. */
void ptrace_proxy_polls(const struct ptrace_proxy *proxy, struct pollfd out[PTRACE_PROXY_POLLS]);
void ptrace_proxy_serve(struct ptrace_proxy *proxy);

#endif
