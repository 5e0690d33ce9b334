/* hub.h - what the connections of one loop share: the buffer they read into, and the queue of what
 * is to be done later in the same turn of the loop.
 *
 * Owns:     its libuv handles and buffers. Held by reference; the last release closes it.
 * Needs:    a libuv loop.
 * Blocks:   never.
 * Threads:  the loop's: a hub is found by its loop among those of the calling thread.
 *
 * A task queued from an I/O callback runs when the callbacks of this turn are through; queued from
 * a timer, before the loop sleeps. That is where writes are gathered, and why a handler is never
 * called back from inside its own call.
 */
#ifndef HTTP_HUB_H
#define HTTP_HUB_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

enum {
    HUB_READ_BYTES = 128 * 1024,
    HUB_PLAIN_BYTES = 16 * 1024, /* one TLS record */
};

struct hub_task {
    struct hub_task *prev, *next;
    void (*run)(struct hub_task *task);
    bool queued;
};

struct hub {
    struct hub *next;
    uv_loop_t *loop;
    unsigned refs;
    unsigned handles; /* not closed yet */
    uv_idle_t idle;   /* keeps the loop from sleeping while tasks wait */
    uv_check_t check;
    struct hub_task *tasks;
    size_t tasks_n;
    char *read_bytes;  /* HUB_READ_BYTES, lent to one read at a time */
    char *plain_bytes; /* HUB_PLAIN_BYTES, made when TLS first wants it */
};

struct hub *hub_get(uv_loop_t *loop);
void hub_put(struct hub *hub);

/* Queues once; a task that waits already stays where it is. */
void hub_queue(struct hub *hub, struct hub_task *task);
void hub_cancel(struct hub *hub, struct hub_task *task);

char *hub_plain(struct hub *hub);

#endif
