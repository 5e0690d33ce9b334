/* tracer.h - stands between CRIU and the processes that it looks into, so that they outlive it.
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
 * Blocks:  tracer_serve() for a moment; putting back for a few milliseconds a process.
 * Threads: one, the same one always: the kernel means a thread when it says tracer.
 */
#ifndef CHECKPOINT_TRACER_H
#define CHECKPOINT_TRACER_H

#include <poll.h>
#include <stdbool.h>
#include <sys/types.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

enum { TRACER_POLLS = 2 };

struct tracer;

must_check int tracer_open(struct tracer **out, struct err *err);
/* Lets go of CRIU; by then it holds nothing. Fine with NULL. */
void tracer_closep(struct tracer **tracer);

/* In the new process, before it becomes CRIU. */
must_check int tracer_enter(void *tracer);
/* After that, here: takes hold of CRIU. */
must_check int tracer_hold(struct tracer *tracer, pid_t criu, struct err *err);

/* Those that CRIU may trace: all threads of a group, which stands still from now on. `thaw` is
 * called when it has to run again, because CRIU died. */
must_check int tracer_threads(struct tracer *tracer, int group_fd, void (*thaw)(void *ctx),
                              void *ctx, struct err *err);

/* What to wait for. When anything of it is ready, serve. */
void tracer_polls(const struct tracer *tracer, struct pollfd out[TRACER_POLLS]);
void tracer_serve(struct tracer *tracer);

#endif
