/* loop_context.h - shared by all connections of one loop: the buffer they read into, and the queue
 * of tasks for later in the same turn of the loop.
 *
 * Owns:     its libuv handles and buffers. Held by reference; the last release closes it.
 * Needs:    a libuv loop.
 * Blocks:   never.
 * Threads:  the loop's: a context is found by its loop among those of the calling thread.
 *
 * A task queued from an I/O callback runs when the callbacks of this turn are through; queued from
 * a timer, before the loop sleeps. Tasks gather writes, and make sure that a handler is never
 * called back from inside its own call.
 */
#ifndef HTTP_LOOP_CONTEXT_H
#define HTTP_LOOP_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "lib/base/buf.h"

enum {
    LOOP_READ_BYTES = 128 * 1024,
    LOOP_PLAIN_BYTES = 16 * 1024, /* one TLS record */
    LOOP_SPARE_BYTES_MAX = 1024 * 1024,
};

struct loop_task {
    struct loop_task *prev, *next;
    void (*run)(struct loop_task *task);
    bool queued;
};

struct loop_context {
    struct loop_context *next;
    uv_loop_t *loop;
    unsigned refs;
    unsigned handles; /* not closed yet */
    uv_idle_t idle;   /* keeps the loop from sleeping while tasks wait */
    uv_check_t check;
    struct loop_task *tasks;
    size_t tasks_n;
    char *read_bytes;  /* LOOP_READ_BYTES, used by one read at a time */
    char *plain_bytes; /* LOOP_PLAIN_BYTES, made when TLS first wants it */
    struct buf spare;  /* memory that a connection has returned, for the next that gathers writes */
};

struct loop_context *loop_context_get(uv_loop_t *loop);
void loop_context_put(struct loop_context *context);

/* Queues once; a task that waits already stays where it is. */
void loop_task_queue(struct loop_context *context, struct loop_task *task);
void loop_task_cancel(struct loop_context *context, struct loop_task *task);

char *loop_context_plain(struct loop_context *context);

/* Memory for bytes that a socket does not take at once. A connection borrows it only as long as it
 * has such bytes: fresh memory for each would cost more, in page faults, than the copy into it.
 * `out` has none when it borrows. */
void loop_context_lend(struct loop_context *context, struct buf *out);
void loop_context_return(struct loop_context *context, struct buf *out);

#endif
