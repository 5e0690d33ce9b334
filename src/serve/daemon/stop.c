#include "serve/daemon/stop.h"

void stop_block(sigset_t *set)
{
    (void)sigemptyset(set);
    (void)sigaddset(set, SIGCHLD);
    (void)sigaddset(set, SIGTERM);
    (void)sigaddset(set, SIGINT);
    (void)sigaddset(set, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, set, NULL);
}

bool stop_asked(void)
{
    sigset_t pending;

    return sigpending(&pending) == 0 &&
           (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1 ||
            sigismember(&pending, SIGHUP) == 1);
}
