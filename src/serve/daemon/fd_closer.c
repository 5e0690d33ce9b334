#include "serve/daemon/fd_closer.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/alloc.h"
#include "lib/base/foreign.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum { NS_PER_MS = 1000 * 1000 };

struct entry {
    struct entry *next;
    int fd;
    bool reset;
};

static struct {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct entry *first, **last;
    bool running, stopping;
} closer = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

static void closer_take(int fd, bool reset)
{
    struct entry *entry = xnew(struct entry);

    *entry = (struct entry){.fd = fd, .reset = reset};
    pthread_mutex_lock(&closer.lock);
    *closer.last = entry;
    closer.last = &entry->next;
    pthread_cond_signal(&closer.more);
    pthread_mutex_unlock(&closer.lock);
}

/* Takes the whole queue; NULL when the thread is to end. */
static struct entry *closer_wait(void)
{
    pthread_mutex_lock(&closer.lock);
    while (!closer.first && !closer.stopping) {
        pthread_cond_wait(&closer.more, &closer.lock);
    }
    struct entry *entries = closer.first;
    closer.first = NULL;
    closer.last = &closer.first;
    pthread_mutex_unlock(&closer.lock);
    return entries;
}

/* Starts or stops a signal to this thread every FD_CLOSER_WAIT_MS. */
static void interrupts_set(timer_t timer, bool on)
{
    const struct timespec wait = {.tv_nsec = on ? (long)FD_CLOSER_WAIT_MS * NS_PER_MS : 0};
    const struct itimerspec every = {.it_interval = wait, .it_value = wait};

    (void)timer_settime(timer, 0, &every, NULL);
}

static void *closer_run(void *ctx)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGURG};
    struct entry *entries = NULL;
    timer_t timer;

    (void)ctx;
    event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) < 0) {
        abort(); /* the process has no other timers of this kind */
    }
    while ((entries = closer_wait())) {
        interrupts_set(timer, true);
        while (entries) {
            struct entry *entry = entries;
            entries = entry->next;
            foreign_close_now(entry->fd, entry->reset);
            free(entry);
        }
        interrupts_set(timer, false);
    }
    (void)timer_delete(timer);
    return NULL;
}

static void on_interrupt(int number)
{
    (void)number; /* that it comes is enough */
}

int fd_closer_start(struct err *err)
{
    const struct sigaction interrupt = {.sa_handler = on_interrupt}; /* calls are not restarted */

    closer.last = &closer.first;
    closer.stopping = false;
    (void)sigaction(SIGURG, &interrupt, NULL);
    int r = pthread_create(&closer.thread, NULL, closer_run, NULL);
    if (r != 0) {
        return err_set(err, r, "start the thread that closes descriptors of jails");
    }
    closer.running = true;
    foreign_closer_set(closer_take);
    return 0;
}

void fd_closer_stop(void)
{
    if (!closer.running) {
        return;
    }
    foreign_closer_set(NULL);
    pthread_mutex_lock(&closer.lock);
    closer.stopping = true;
    pthread_cond_signal(&closer.more);
    pthread_mutex_unlock(&closer.lock);
    (void)pthread_join(closer.thread, NULL);
    closer.running = false;
}
