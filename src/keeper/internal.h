/* internal.h - the parts of the handler (handle.h): one list of jails that are ending, one of work
 * that is done in processes of its own. */
#ifndef KEEPER_INTERNAL_H
#define KEEPER_INTERNAL_H

#include "keeper/checkpoint/task.h"
#include "keeper/handle.h"
#include "keeper/jail/starting.h"
#include "keeper/name_list.h"
#include "keeper/worker.h"

/* A jail whose parts are being removed; its processes may still be exiting. */
struct ending {
    struct ending *prev, *next;
    char id[KEEPER_ID_BYTES];
    unsigned parts; /* JAIL_*: what is removed */
    int events_fd;  /* of the jail's group, or -1 */
    int64_t deadline_ms;
    int retry_us;
    int64_t look_us; /* when the next attempt is due, whatever its group reports */
    uint64_t client;
    struct keeper_answer answer;
    struct keeper_request *retry; /* a restore to repeat when all is gone, or NULL */
    bool retry_tcp_close;
};

/* A request that is carried out in a process of its own. */
struct request_task {
    struct request_task *prev, *next;
    struct handler *handler;
    struct task process;
    int64_t deadline_ms; /* then it is asked to leave, and a little later killed */
    bool overdue;
    uint64_t client;
    bool is_retry;
    bool lazy;  /* its memory may come later */
    int zygote; /* its socket, which the keeper may have closed since; -1: restored without one */
    char group[CGROUP_TASK_BYTES];
    struct keeper_request req;
};

struct handler {
    struct jail_shared *shared;
    handler_answer *answer;
    handler_child *child;
    void *ctx;
    struct ending *endings;
    size_t endings_n;
    struct request_task *tasks;
    size_t tasks_n;
    struct startings startings;
    struct name_list names;
    struct name_list saved;
    struct workers *workers; /* NULL: this process starts and ends jails itself */
    bool is_worker;          /* this process is one: the keeper has prepared the disk of a create */
};

/* In a process that was forked from the one of this handler: closes the descriptors that are not
 * for it, so that those which others poll close when the keeper ends. */
must_check int handler_leave(struct handler *handler);
/* An answer without descriptors. */
void handler_answer_plain(struct handler *handler, uint64_t client,
                          const struct keeper_answer *answer);
/* Fills `out` in the order of an answer (KEEPER_FD_*). Returns how many. */
uint32_t handler_jail_fds(const struct jail *jail, int out[KEEPER_FDS_MAX]);

/* ---- ending.c ---- */

struct ending *ending_of(const struct handler *handler, const char *id);
/* Removes the parts of the jail, then sends the answer. */
void ending_begin(struct handler *handler, uint64_t client, const char *id, unsigned parts,
                  const struct keeper_answer *answer);
/* Removes the parts of the jail, then starts the restore `retry` again instead of answering. */
void ending_begin_with_retry(struct handler *handler, uint64_t client, const char *id,
                             unsigned parts, const struct keeper_answer *answer,
                             const struct keeper_request *retry, bool retry_tcp_close);
/* Removes the parts that a failure left (0: none), then sends the answer. */
void remove_and_answer(struct handler *handler, uint64_t client, const char *id, unsigned made,
                       const struct keeper_answer *answer);
/* Continues with those that `polled` reports, or whose next attempt is due. `polled` has entries
 * for the first n of the list; the others are new and are looked at in any case. */
void endings_step(struct handler *handler, const struct pollfd *polled, size_t n);
void ending_free(struct handler *handler, struct ending *ending);

/* ---- request_task.c ---- */

const struct request_task *request_task_of(const struct handler *handler, const char *id);
/* Starts a process that calls `run` with the struct request_task. Answers when that fails. */
void request_task_begin(struct handler *handler, uint64_t client, const struct keeper_request *req,
                        task_function *run, bool is_retry);
void request_task_begin_with_zygote(struct handler *handler, uint64_t client,
                                    const struct keeper_request *req, task_function *run,
                                    bool is_retry, int zygote, bool lazy);
/* Ends the task when its process has reported, and continues with what waited for it. */
void request_task_step(struct handler *handler, struct request_task *task);
void request_task_free(struct request_task *task);

/* ---- handle_tasks.c: requests that are carried out by tasks ---- */

void handle_create(struct handler *handler, uint64_t client, const struct keeper_request *req);
void handle_save(struct handler *handler, uint64_t client, const struct keeper_request *req);
void handle_restore(struct handler *handler, uint64_t client, const struct keeper_request *req);
void handle_forget(struct handler *handler, uint64_t client, const struct keeper_request *req);
void handle_pack(struct handler *handler, uint64_t client, const struct keeper_request *req);
void handle_volume_make(struct handler *handler, uint64_t client, const struct keeper_request *req);
void handle_volume_remove(struct handler *handler, uint64_t client,
                          const struct keeper_request *req);
/* A restore that failed is tried again: without a zygote, or without its connections. */
void restore_retry(struct handler *handler, uint64_t client, const struct keeper_request *req,
                   bool tcp_close);
/* The task is over. `reported` is false when its process ended without a result: what it began is
 * removed then. */
void request_task_over(struct handler *handler, const struct request_task *was, bool reported,
                       struct task_result *result, const int *fds);

#endif
