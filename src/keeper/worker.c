#include "keeper/worker.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utlist.h>

#include "keeper/answer.h"
#include "keeper/checkpoint/zygote.h"
#include "keeper/internal.h"
#include "keeper/jail/kernel_setting.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/fdpass.h"
#include "lib/base/log.h"

enum { CPU_WEIGHT_MAX = 10000 };

/* A request that a worker has. The worker knows it by its number, in the place of `seq`. */
struct job {
    struct job *prev, *next;
    uint32_t number;
    uint32_t place; /* of a create, in the worker's notes, and in `reserved` of its request */
    uint64_t client;
    struct keeper_request req;
};

/* Memory that a worker shares with the keeper: the numbers of creates for whose jails it found
 * nothing before it began. Whatever is found of such a jail is its work. */
struct notes {
    _Atomic uint32_t found_nothing[WORKER_JOBS_MAX];
};

struct worker {
    int socket; /* -1: it does not run */
    int pidfd;
    struct notes *notes; /* of the process that runs now */
    struct job *jobs;
    size_t creates_n;
};

struct workers {
    struct handler *handler;
    size_t n;
    uint32_t numbers;
    int64_t restart_ms; /* not before, when one could not be started */
    struct worker at[WORKERS_MAX];
};

/* ---- in a worker ---- */

struct inside {
    struct handler *handler;
    struct notes *notes;
    int socket;
    pid_t keeper;
    struct pollfd *polled;
    size_t polled_cap;
};

static void inside_answer(void *ctx, uint64_t client, const struct keeper_answer *answer,
                          const int *fds, size_t fds_n)
{
    const struct inside *inside = ctx;

    (void)client;
    if (fdpass_send(inside->socket, answer, sizeof(*answer), fds, fds_n, 0) < 0) {
        _exit(1); /* the keeper is gone, or must see that this answer will not come */
    }
}

static void inside_child(void *ctx)
{
    struct inside *inside = ctx;

    fd_closep(&inside->socket);
}

/* The kernel forgets the signal whenever this process changes its credentials, as every create
 * does: it is asked for again before every wait. */
static void inside_end_with_keeper(const struct inside *inside)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != inside->keeper) {
        _exit(1);
    }
}

/* The worker looks, and not the keeper: a lookup waits for the directories that other workers
 * change. */
static void inside_note(const struct inside *inside, const struct keeper_request *req)
{
    struct jail_shared *shared = inside->handler->shared;
    const bool has_disk =
        !req->plan.from[0] && !req->plan.keeps_disk && pool_disk_exists(shared->pool, req->id);

    if (!cgroups_exists(shared->groups, req->id) && !has_disk) {
        inside->notes->found_nothing[req->reserved] = req->seq;
    }
}

static void inside_receive(const struct inside *inside)
{
    struct keeper_request req;
    ssize_t n = recv(inside->socket, &req, sizeof(req), MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n != (ssize_t)sizeof(req)) {
        _exit(0); /* the keeper is closing; jails that start just now continue */
    }
    if (req.op == KEEPER_CREATE) {
        inside_note(inside, &req);
        req.reserved = 0;
    }
    handler_request(inside->handler, 0, &req);
}

static void inside_step(struct inside *inside)
{
    size_t n = 1 + handler_poll_n(inside->handler);

    if (n > inside->polled_cap) {
        free(inside->polled);
        inside->polled_cap = n * 2;
        inside->polled = xcalloc(inside->polled_cap, sizeof(struct pollfd));
    }
    inside->polled[0] = (struct pollfd){.fd = inside->socket, .events = POLLIN};
    handler_poll(inside->handler, inside->polled + 1);

    int timeout_us = handler_timeout_us(inside->handler);
    struct timespec timeout = {.tv_nsec = timeout_us * 1000L};
    inside_end_with_keeper(inside);
    int ready = ppoll(inside->polled, n, timeout_us < 0 ? NULL : &timeout, NULL);
    if (ready < 0 && errno != EINTR) {
        _exit(1);
    }
    handler_settle(inside->handler, inside->polled + 1);
    if (ready > 0 && inside->polled[0].revents) {
        inside_receive(inside);
    }
}

/* SIGTERM and SIGINT stay blocked: the keeper tells its workers when to end. */
static _Noreturn void inside_run(struct handler *theirs, struct notes *notes, int socket,
                                 pid_t keeper)
{
    struct inside inside = {.notes = notes, .socket = socket, .keeper = keeper};

    (void)prctl(PR_SET_NAME, "keeper-worker");
    if (handler_leave(theirs) < 0 || madvise(notes, sizeof(*notes), MADV_DONTFORK) < 0) {
        _exit(1);
    }
    zygotes_leave(theirs->shared);
    inside.handler = handler_new(theirs->shared, inside_answer, inside_child, &inside);
    inside.handler->is_worker = true;
    for (;;) {
        inside_step(&inside);
    }
}

/* ---- jobs ---- */

static void job_free(struct worker *worker, struct job *job)
{
    DL_DELETE(worker->jobs, job);
    worker->creates_n -= job->req.op == KEEPER_CREATE;
    free(job);
}

static const struct job *job_find(const struct worker *worker, const char *id, uint32_t op)
{
    const struct job *job;

    DL_FOREACH (worker->jobs, job) {
        if (strcmp(job->req.id, id) == 0 && (!op || job->req.op == op)) {
            return job;
        }
    }
    return NULL;
}

bool workers_have(const struct workers *workers, const char *id, uint32_t op)
{
    for (size_t i = 0; workers && i < workers->n; i++) {
        if (job_find(&workers->at[i], id, op)) {
            return true;
        }
    }
    return false;
}

size_t workers_jobs(const struct workers *workers, uint32_t op)
{
    const struct job *job;
    size_t n = 0;

    for (size_t i = 0; workers && i < workers->n; i++) {
        DL_FOREACH (workers->at[i].jobs, job) {
            n += job->req.op == op;
        }
    }
    return n;
}

static void answer_forward(struct workers *workers, struct worker *worker,
                           struct keeper_answer *answer, const int *fds, size_t fds_n)
{
    struct handler *handler = workers->handler;
    struct job *job;

    DL_SEARCH_SCALAR(worker->jobs, job, number, answer->seq);
    if (job) {
        answer->seq = job->req.seq;
        handler->answer(handler->ctx, job->client, answer, fds, fds_n);
        job_free(worker, job);
    }
}

static void answers_take(struct workers *workers, struct worker *worker)
{
    for (;;) {
        struct keeper_answer answer;
        struct iovec iov = {&answer, sizeof(answer)};
        int fds[KEEPER_FDS_MAX];
        size_t fds_n = 0;

        ssize_t n = fdpass_receive(worker->socket, &iov, 1, fds, KEEPER_FDS_MAX, MSG_DONTWAIT);
        if (n != (ssize_t)sizeof(answer) && n != -ETOOMANYREFS) {
            return;
        }
        while (fds_n < KEEPER_FDS_MAX && fds[fds_n] >= 0) {
            fds_n++;
        }
        answer_forward(workers, worker, &answer, fds, fds_n);
        fdpass_close(fds, KEEPER_FDS_MAX);
    }
}

/* ---- start and end ---- */

/* Where groups share out processor time, a worker must not get as little as a busy jail does. */
static void weight_raise(int group_fd)
{
    struct err ignored;

    (void)!kernel_setting_write_number_if(group_fd, "cpu.weight", CPU_WEIGHT_MAX, &ignored);
}

/* New for every process: none writes into the notes of the next. */
static int notes_make(struct notes **notes)
{
    void *made =
        mmap(NULL, sizeof(**notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (made == MAP_FAILED) {
        return -1;
    }
    if (*notes) {
        (void)munmap(*notes, sizeof(**notes));
    }
    *notes = made;
    return 0;
}

static int worker_start(struct workers *workers, size_t i, struct err *err)
{
    struct worker *worker = &workers->at[i];
    char id[KEEPER_ID_BYTES], name[CGROUP_TASK_BYTES];
    const pid_t keeper = getpid();

    (void)snprintf(id, sizeof(id), "worker-%zu", i); /* no jail can have a name with a dash */
    if (notes_make(&worker->notes) < 0) {
        return err_sys(err, "share memory with a worker");
    }
    scoped_fd group = cgroups_task_make(workers->handler->shared->groups, id, name, err);
    if (group < 0) {
        return group;
    }
    weight_raise(group);
    pid_t pid = task_fork("a worker", group, &worker->socket, &worker->pidfd, err);
    if (pid == 0) {
        const int socket = move_fd(&worker->socket);
        fd_closep(&group);
        inside_run(workers->handler, worker->notes, socket, keeper);
    }
    return pid < 0 ? pid : 0;
}

static void workers_start_missing(struct workers *workers)
{
    struct err err;

    for (size_t i = 0; i < workers->n; i++) {
        if (workers->at[i].socket < 0 && worker_start(workers, i, &err) < 0) {
            log_warn("the keeper goes on with fewer workers: %s", err.msg);
            workers->restart_ms = clock_mono_ms() + WORKER_RESTART_MS;
            return;
        }
    }
}

size_t workers_count(uint32_t wanted)
{
    cpu_set_t set;
    size_t n = wanted;

    if (!wanted && sched_getaffinity(0, sizeof(set), &set) == 0) {
        n = (size_t)CPU_COUNT(&set);
        n = n < WORKERS_AUTO_MAX ? n : WORKERS_AUTO_MAX;
    }
    if (n < 2) {
        return 0;
    }
    return n < WORKERS_MAX ? n : WORKERS_MAX;
}

struct workers *workers_new(struct handler *handler, size_t n)
{
    struct workers *workers = xnew(struct workers);

    workers->handler = handler;
    workers->n = n;
    for (size_t i = 0; i < n; i++) {
        workers->at[i].socket = workers->at[i].pidfd = -1;
    }
    handler->workers = workers; /* a worker closes the descriptors of those before it */
    workers_start_missing(workers);
    return workers;
}

void workers_leave(struct workers *workers)
{
    for (size_t i = 0; workers && i < workers->n; i++) {
        fd_closep(&workers->at[i].socket);
        fd_closep(&workers->at[i].pidfd);
    }
}

/* A worker ends when its socket closes, after the step that it is in. */
void workers_free(struct workers *workers)
{
    if (!workers) {
        return;
    }
    for (size_t i = 0; i < workers->n; i++) {
        fd_closep(&workers->at[i].socket);
    }
    const int64_t until_ms = clock_mono_ms() + WORKER_END_TIMEOUT_MS;
    for (size_t i = 0; i < workers->n; i++) {
        struct pollfd ended = {.fd = workers->at[i].pidfd, .events = POLLIN};
        int64_t left_ms = until_ms - clock_mono_ms();
        if (ended.fd >= 0 && poll(&ended, 1, left_ms > 0 ? (int)left_ms : 0) != 1) {
            (void)syscall(SYS_pidfd_send_signal, ended.fd, SIGKILL, NULL, 0);
        }
        while (workers->at[i].jobs) {
            job_free(&workers->at[i], workers->at[i].jobs);
        }
    }
    workers_leave(workers);
    for (size_t i = 0; i < workers->n; i++) {
        if (workers->at[i].notes) {
            (void)munmap(workers->at[i].notes, sizeof(struct notes));
        }
    }
    free(workers);
}

/* The parts that must be removed, of a jail that a worker had. */
static unsigned parts_of(const struct worker *worker, const struct job *job)
{
    if (job->req.op == KEEPER_DESTROY) {
        return JAIL_ALL;
    }
    if (worker->notes->found_nothing[job->place] == job->number) {
        return job->req.plan.keeps_disk ? JAIL_GROUPS : JAIL_ALL;
    }
    /* It had not begun: the only thing to remove is a disk that was copied for this create. */
    return job->req.plan.from[0] && !job->req.plan.keeps_disk ? JAIL_DISK : 0;
}

/* Its answers have been taken. */
static void worker_lost(struct workers *workers, struct worker *worker)
{
    struct handler *handler = workers->handler;
    struct job *jobs = worker->jobs;

    log_warn("a worker of the keeper ended");
    fd_closep(&worker->socket);
    fd_closep(&worker->pidfd);
    worker->jobs = NULL;
    worker->creates_n = 0;
    while (jobs) {
        struct job *job = jobs;
        struct err err;
        int r = err_set(&err, EIO, "the worker of the keeper that had jail %s ended", job->req.id);
        const bool ends = job->req.op == KEEPER_DESTROY;
        const struct keeper_answer answer = answer_to(&job->req, ends ? 0 : r, &err);
        DL_DELETE(jobs, job);
        remove_and_answer(handler, job->client, job->req.id, parts_of(worker, job), &answer);
        free(job);
    }
}

/* ---- in the keeper ---- */

size_t workers_poll_n(const struct workers *workers)
{
    return workers ? workers->n * WORKER_POLLED : 0;
}

void workers_poll(const struct workers *workers, struct pollfd *out)
{
    for (size_t i = 0; workers && i < workers->n; i++) {
        *out++ = (struct pollfd){.fd = workers->at[i].socket, .events = POLLIN};
        *out++ = (struct pollfd){.fd = workers->at[i].pidfd, .events = POLLIN};
    }
}

void workers_settle(struct workers *workers, const struct pollfd *polled)
{
    bool lost = false;

    for (size_t i = 0; workers && i < workers->n; i++) {
        struct worker *worker = &workers->at[i];
        const struct pollfd *its = polled + i * WORKER_POLLED;
        if (worker->socket >= 0 && (its[0].revents || its[1].revents)) {
            answers_take(workers, worker);
        }
        if (worker->socket >= 0 && its[1].revents) {
            worker_lost(workers, worker);
            lost = true;
        }
    }
    if (lost) {
        workers_start_missing(workers);
    }
}

static bool is_ours(const struct handler *handler, const struct keeper_request *req)
{
    return request_task_of(handler, req->id) || ending_of(handler, req->id) ||
           starting_has(&handler->startings, req->id);
}

/* The one with the fewest requests. A second request to end a jail goes to the worker that ends it.
 */
static struct worker *worker_choose(struct workers *workers, const struct keeper_request *req)
{
    struct worker *best = NULL;
    size_t best_n = SIZE_MAX;

    for (size_t i = 0; i < workers->n; i++) {
        struct worker *worker = &workers->at[i];
        const struct job *job;
        size_t n;
        if (worker->socket < 0) {
            continue;
        }
        if (job_find(worker, req->id, 0)) {
            return worker;
        }
        DL_COUNT(worker->jobs, job, n);
        if (n < best_n && worker->creates_n < WORKER_JOBS_MAX) {
            best = worker;
            best_n = n;
        }
    }
    return best;
}

/* There is one: a worker has at most WORKER_JOBS_MAX creates. */
static uint32_t place_free(const struct worker *worker)
{
    const struct job *job;
    uint32_t taken = 0, place = 0;

    _Static_assert(WORKER_JOBS_MAX <= 31, "the places of a worker are bits of a number");
    DL_FOREACH (worker->jobs, job) {
        taken |= job->req.op == KEEPER_CREATE ? 1U << job->place : 0;
    }
    while (taken & 1U << place) {
        place++;
    }
    assert(place < WORKER_JOBS_MAX);
    return place;
}

bool workers_take(struct workers *workers, uint64_t client, const struct keeper_request *req)
{
    if (!workers) {
        return false;
    }
    if (workers->restart_ms && clock_mono_ms() >= workers->restart_ms) {
        workers->restart_ms = 0;
        workers_start_missing(workers);
    }
    /* The keeper itself marks volumes as used, between its other requests: none is removed while a
     * worker begins to use it. */
    if (is_ours(workers->handler, req) || workers_have(workers, req->id, KEEPER_CREATE) ||
        (req->op == KEEPER_CREATE &&
         (workers_have(workers, req->id, KEEPER_DESTROY) || req->plan.volumes_n > 0))) {
        return false;
    }
    struct worker *worker = worker_choose(workers, req);
    if (!worker) {
        return false;
    }
    struct job *job = xnew(struct job);
    job->req = *req;
    job->client = client;
    job->number = ++workers->numbers;

    job->place = req->op == KEEPER_CREATE ? place_free(worker) : 0;

    struct keeper_request sent = *req;
    sent.seq = job->number;
    sent.reserved = job->place;
    if (send(worker->socket, &sent, sizeof(sent), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
        free(job); /* it has too much to do, or has just ended */
        return false;
    }
    DL_APPEND(worker->jobs, job);
    worker->creates_n += req->op == KEEPER_CREATE;
    return true;
}
