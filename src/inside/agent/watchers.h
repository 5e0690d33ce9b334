/* watchers.h - the watches of clients on the loop, and the thread that does their work.
 *
 * Everything on watch.h's side is done by jobs in the thread pool, one at a time and in order:
 * opening, closing, draining the kernel's queue. After each job what watches have to tell goes to
 * their watchers, so the loop and a job never touch a watch at once.
 *
 * Owns:     the watchers, their watches and the events that wait in them.
 * Blocks:   never.
 * Threads:  the loop's.
 */
#ifndef AGENT_WATCHERS_H
#define AGENT_WATCHERS_H

#include "inside/agent/watch.h"
#include "lib/base/table.h"

enum {
    WATCHERS_MAX = 4096,                        /* streams and polled ones together */
    WATCHERS_KEPT_BYTES_MAX = 64 * 1024 * 1024, /* events that wait, of all together */
    WATCHER_ID_LEN = 21,                        /* 'w' and twenty of [a-z0-9] */
};

struct watchers {
    uv_loop_t *loop;
    struct watches *watches; /* the job's while there is one */
    struct watcher *by_id;   /* those that are polled */
    size_t n;                /* with those being opened */
    size_t kept_bytes;
    uv_work_t work;
    struct watch_job *running; /* NULL: none */
    struct watch_job *jobs;
    struct watch_inbox *inbox; /* the instance in the loop; NULL: none */
    bool draining;             /* a job will read it */
};

/* The loop's half of a watch. */
struct watcher {
    struct watchers *table;
    struct watch *watch;
    struct buf queue;
    bool ended;
    bool gone;
    enum rpc_code code;
    struct err err;
    void (*pump)(struct watcher *watcher); /* there is news; may be NULL, may free it */

    char id[WATCHER_ID_LEN + 1]; /* of one that is polled */
    UT_hash_handle hh;
};

struct watch_job {
    struct watchers *table;
    void (*run)(struct watch_job *job);  /* in the pool */
    void (*done)(struct watch_job *job); /* on the loop; may be NULL */
    struct rpc_call *call;               /* NULL: nobody waits */
    struct watch_plan plan;
    struct watch *watch;
    enum rpc_code code;
    struct err err;
    char id[WATCHER_ID_LEN + 1];
    struct watch_job *prev, *next;
};

/* The agent's table, made when it is first asked for. */
struct watchers *watchers_of(struct agent *agent);

/* The table frees the job when it is done. */
struct watch_job *watch_job_new(struct watchers *table, void (*run)(struct watch_job *job),
                                void (*done)(struct watch_job *job));
void watch_job_start(struct watch_job *job);
void watch_job_drain(struct watch_job *job); /* a run: handles what the kernel has queued */

/* Takes an opened watch over, with all that it has to tell already. */
void watcher_init(struct watcher *watcher, struct watchers *table, struct watch *watch);
/* Lets go of the watch and of what waits. Does not free. */
void watcher_fini(struct watcher *watcher);

/* The oldest event that waits, to be freed by the caller; NULL: none. */
Filesystem__FilesystemEvent *watcher_next(struct watcher *watcher);

#endif
