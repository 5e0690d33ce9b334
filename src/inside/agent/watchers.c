#include "inside/agent/watchers.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <utlist.h>

#include "lib/base/alloc.h"

/* The inotify instance in the loop. Apart, because it may be replaced while libuv still lets go. */
struct watch_inbox {
    uv_poll_t poll;
    struct watchers *table;
    int fd;
};

struct watchers *watchers_of(struct agent *agent)
{
    if (!agent->watchers) {
        agent->watchers = xnew(struct watchers);
        agent->watchers->loop = agent->loop;
        agent->watchers->watches = watches_new();
    }
    return agent->watchers;
}

/* ---- events on their way ---- */

static void end_with(struct watcher *watcher, enum rpc_code code, const struct err *err)
{
    watcher->ended = true;
    watcher->code = code;
    watcher->err = *err;
}

static int queue_append(struct watcher *watcher, struct str events, struct err *err)
{
    struct watchers *table = watcher->table;

    if (events.len > WATCHERS_KEPT_BYTES_MAX - table->kept_bytes) {
        return err_set(err, ENOBUFS, "more than %d bytes of events of all watches wait to be read",
                       WATCHERS_KEPT_BYTES_MAX);
    }
    if (buf_append(&watcher->queue, events.at, events.len) < 0) {
        return err_set(err, ENOBUFS, "more than %d bytes of events of '%.160s' wait to be read",
                       WATCH_KEPT_BYTES_MAX, watcher->watch->plan.path);
    }
    table->kept_bytes += events.len;
    return 0;
}

/* Takes the watch's events. If they do not fit, the watch ends: after a gap nothing is reported. */
static void news_take(struct watcher *watcher)
{
    struct watch *watch = watcher->watch;
    struct err err;

    if (watcher->ended) {
        buf_clear(&watch->events);
        return;
    }
    if (queue_append(watcher, buf_str(&watch->events), &err) < 0) {
        end_with(watcher, RPC_RESOURCE_EXHAUSTED, &err);
    } else if (watch->ended) {
        end_with(watcher, watch->code, &watch->err);
        watcher->gone = watch->gone;
    }
    buf_fini(&watch->events);
    buf_init(&watch->events, WATCH_KEPT_BYTES_MAX);
}

static void news_distribute(struct watchers *table)
{
    struct watch *watch;

    while ((watch = watches_touched(table->watches))) {
        struct watcher *watcher = watch->owner;
        if (!watcher) {
            continue; /* being opened, and takes it then; or being closed */
        }
        news_take(watcher);
        if (watcher->pump) {
            watcher->pump(watcher);
        }
    }
}

Filesystem__FilesystemEvent *watcher_next(struct watcher *watcher)
{
    uint32_t len;

    if (buf_len(&watcher->queue) == 0) {
        return NULL;
    }
    memcpy(&len, buf_at(&watcher->queue), sizeof(len));
    const uint8_t *bytes = (const uint8_t *)buf_at(&watcher->queue) + sizeof(len);
    Filesystem__FilesystemEvent *event = filesystem__filesystem_event__unpack(NULL, len, bytes);
    if (!event) {
        abort(); /* we have packed it: there is no memory */
    }
    buf_consume(&watcher->queue, sizeof(len) + len);
    watcher->table->kept_bytes -= sizeof(len) + len;
    if (buf_len(&watcher->queue) == 0) {
        buf_fini(&watcher->queue); /* one that is idle costs nothing */
        buf_init(&watcher->queue, WATCH_KEPT_BYTES_MAX);
    }
    return event;
}

/* ---- jobs ---- */

static void jobs_next(struct watchers *table);

void watch_job_drain(struct watch_job *job)
{
    watches_drain(job->table->watches);
}

static void on_inbox_closed(uv_handle_t *handle)
{
    struct watch_inbox *inbox = handle->data;

    (void)close(inbox->fd);
    free(inbox);
}

static void on_drained(struct watch_job *job)
{
    job->table->draining = false;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    const struct watch_inbox *inbox = poll->data;

    (void)status, (void)events; /* the read tells */
    (void)uv_poll_stop(poll);   /* until the job has read: it would be called all the time */
    inbox->table->draining = true;
    watch_job_start(watch_job_new(inbox->table, watch_job_drain, on_drained));
}

/* Follows the instance: listens to it, or lets it go with the last watch. */
static void inbox_update(struct watchers *table)
{
    int unused_fd = watches_release(table->watches);

    if (unused_fd >= 0) {
        if (table->inbox) {
            uv_close((uv_handle_t *)&table->inbox->poll, on_inbox_closed);
            table->inbox = NULL;
        } else {
            (void)close(unused_fd);
        }
    }
    if (table->watches->fd < 0) {
        return;
    }
    if (!table->inbox) {
        table->inbox = xnew(struct watch_inbox);
        table->inbox->table = table;
        table->inbox->fd = table->watches->fd;
        table->inbox->poll.data = table->inbox;
        if (uv_poll_init(table->loop, &table->inbox->poll, table->inbox->fd) < 0) {
            abort(); /* only for what cannot be polled */
        }
    }
    if (!table->draining) {
        (void)uv_poll_start(&table->inbox->poll, UV_READABLE, on_readable);
    }
}

static void on_work(uv_work_t *work)
{
    struct watchers *table = container_of(work, struct watchers, work);

    table->running->run(table->running);
}

static void on_worked(uv_work_t *work, int status)
{
    struct watchers *table = container_of(work, struct watchers, work);
    struct watch_job *job = table->running; /* still: no other starts while we look at watches */

    assert(status == 0); /* nobody cancels */
    news_distribute(table);
    if (job->done) {
        job->done(job);
    }
    inbox_update(table);
    table->running = NULL;
    free(job);
    jobs_next(table);
}

static void jobs_next(struct watchers *table)
{
    if (table->running || !table->jobs) {
        return;
    }
    table->running = table->jobs;
    DL_DELETE(table->jobs, table->running);
    if (uv_queue_work(table->loop, &table->work, on_work, on_worked) < 0) {
        abort(); /* only without a callback */
    }
}

struct watch_job *watch_job_new(struct watchers *table, void (*run)(struct watch_job *job),
                                void (*done)(struct watch_job *job))
{
    struct watch_job *job = xnew(struct watch_job);

    job->table = table;
    job->run = run;
    job->done = done;
    return job;
}

void watch_job_start(struct watch_job *job)
{
    struct watchers *table = job->table;

    DL_APPEND(table->jobs, job);
    jobs_next(table);
}

/* ---- watchers ---- */

static void close_run(struct watch_job *job)
{
    watch_close(job->watch);
}

void watcher_init(struct watcher *watcher, struct watchers *table, struct watch *watch)
{
    watcher->table = table;
    watcher->watch = watch;
    watch->owner = watcher;
    buf_init(&watcher->queue, WATCH_KEPT_BYTES_MAX);
    news_take(watcher);
}

void watcher_fini(struct watcher *watcher)
{
    struct watch_job *job = watch_job_new(watcher->table, close_run, NULL);

    watcher->table->kept_bytes -= buf_len(&watcher->queue);
    watcher->table->n--;
    buf_fini(&watcher->queue);
    job->watch = watcher->watch;
    watcher->watch->owner = NULL;
    watch_job_start(job);
}
