#include "inside/agent/watch_rpc.h"

#include <errno.h>
#include <stdlib.h>

#include "inside/agent/call.h"
#include "inside/agent/watchers.h"
#include "lib/base/alloc.h"
#include "lib/base/id.h"

enum {
    REPLY_EVENTS_MAX = 32768, /* of GetWatcherEvents; what is left comes with the next call */
};

/* ---- opening, for both kinds ---- */

static void job_gone(void *ctx)
{
    struct watch_job *job = ctx;

    job->call = NULL;
}

static const struct rpc_watch job_watch = {.gone = job_gone};

static void open_run(struct watch_job *job)
{
    job->code = watch_open(job->table->watches, &job->plan, &job->watch, &job->err);
}

static void open_start(struct agent *agent, struct rpc_call *call, const char *path,
                       const struct watch_plan *options, void (*done)(struct watch_job *job))
{
    struct watchers *table = watchers_of(agent);
    struct watch_job *job = watch_job_new(table, open_run, done);
    struct user *user = xnew(struct user);

    job->plan = *options;
    enum rpc_code code = call_path(agent, call, path, user, job->plan.path, &job->err);
    free(user);
    if (code == RPC_OK && table->n >= WATCHERS_MAX) {
        (void)err_set(&job->err, ENOBUFS, "there are %d watches already: stop some first",
                      WATCHERS_MAX);
        code = RPC_RESOURCE_EXHAUSTED;
    }
    if (code != RPC_OK) {
        call_fail(call, code, &job->err);
        free(job);
        return;
    }
    table->n++;
    job->call = call;
    rpc_watch(call, &job_watch, job);
    watch_job_start(job);
}

/* Whether there is a watch and a client for it; else all is cleaned up. */
static bool open_succeeded(struct watch_job *job)
{
    if (job->code != RPC_OK) {
        job->table->n--;
        if (job->call) {
            call_fail(job->call, job->code, &job->err);
        }
        return false;
    }
    if (!job->call) {
        struct watcher nobody = {0};
        watcher_init(&nobody, job->table, job->watch);
        watcher_fini(&nobody);
        return false;
    }
    return true;
}

/* ---- WatchDir ---- */

struct stream {
    struct watcher watcher;
    struct rpc_call *call;
    uv_timer_t keepalive;
    uv_timer_t deadline;
    unsigned handles;
};

static void on_timer_closed(uv_handle_t *handle)
{
    struct stream *stream = handle->data;

    if (--stream->handles == 0) {
        free(stream);
    }
}

/* The call is over. */
static void stream_free(struct stream *stream)
{
    watcher_fini(&stream->watcher);
    uv_close((uv_handle_t *)&stream->keepalive, on_timer_closed);
    uv_close((uv_handle_t *)&stream->deadline, on_timer_closed);
}

static void send_event(struct stream *stream, Filesystem__FilesystemEvent *event)
{
    Filesystem__WatchDirResponse response;

    filesystem__watch_dir_response__init(&response);
    response.event_case = FILESYSTEM__WATCH_DIR_RESPONSE__EVENT_FILESYSTEM;
    response.filesystem = event;
    rpc_send(stream->call, &response.base);
    filesystem__filesystem_event__free_unpacked(event, NULL);
}

/* The stream of a removed directory ends without an error: its last event has reported the
 * removal. */
static void stream_end(struct stream *stream)
{
    if (stream->watcher.gone) {
        rpc_finish(stream->call);
    } else {
        call_fail(stream->call, stream->watcher.code, &stream->watcher.err);
    }
    stream_free(stream);
}

static void stream_pump(struct watcher *watcher)
{
    struct stream *stream = container_of(watcher, struct stream, watcher);
    Filesystem__FilesystemEvent *event;

    while (rpc_writable(stream->call) > 0 && (event = watcher_next(watcher))) {
        send_event(stream, event);
        (void)uv_timer_again(&stream->keepalive);
    }
    if (watcher->ended && buf_len(&watcher->queue) == 0) {
        stream_end(stream);
    }
}

static void on_credit(void *ctx)
{
    struct stream *stream = ctx;

    stream_pump(&stream->watcher);
}

static void on_gone(void *ctx)
{
    stream_free(ctx);
}

static void on_keepalive(uv_timer_t *timer)
{
    struct stream *stream = timer->data;
    Filesystem__WatchDirResponse__KeepAlive keepalive;
    Filesystem__WatchDirResponse response;

    if (rpc_writable(stream->call) == 0) {
        return; /* bytes are on their way: the client hears enough */
    }
    filesystem__watch_dir_response__keep_alive__init(&keepalive);
    filesystem__watch_dir_response__init(&response);
    response.event_case = FILESYSTEM__WATCH_DIR_RESPONSE__EVENT_KEEPALIVE;
    response.keepalive = &keepalive;
    rpc_send(stream->call, &response.base);
}

static void on_deadline(uv_timer_t *timer)
{
    struct stream *stream = timer->data;

    rpc_fail(stream->call, RPC_DEADLINE_EXCEEDED, "the timeout of %lld ms has passed",
             (long long)rpc_timeout_ms(stream->call));
    stream_free(stream);
}

static void timers_start(struct stream *stream, uv_loop_t *loop)
{
    uint64_t interval_ms = call_keepalive_ms(stream->call);
    int64_t timeout_ms = rpc_timeout_ms(stream->call);

    (void)uv_timer_init(loop, &stream->keepalive);
    (void)uv_timer_init(loop, &stream->deadline);
    stream->keepalive.data = stream->deadline.data = stream;
    stream->handles = 2;
    (void)uv_timer_start(&stream->keepalive, on_keepalive, interval_ms, interval_ms);
    if (timeout_ms > 0) {
        (void)uv_timer_start(&stream->deadline, on_deadline, (uint64_t)timeout_ms, 0);
    }
}

static void send_start(struct stream *stream)
{
    Filesystem__WatchDirResponse__StartEvent start;
    Filesystem__WatchDirResponse response;

    filesystem__watch_dir_response__start_event__init(&start);
    filesystem__watch_dir_response__init(&response);
    response.event_case = FILESYSTEM__WATCH_DIR_RESPONSE__EVENT_START;
    response.start = &start;
    rpc_send(stream->call, &response.base);
}

static void stream_opened(struct watch_job *job)
{
    static const struct rpc_watch watch = {.credit = on_credit, .gone = on_gone};

    if (!open_succeeded(job)) {
        return;
    }
    struct stream *stream = xnew(struct stream);
    stream->call = job->call;
    stream->watcher.pump = stream_pump;
    watcher_init(&stream->watcher, job->table, job->watch);
    timers_start(stream, job->table->loop);
    rpc_watch(stream->call, &watch, stream);
    send_start(stream);
    stream_pump(&stream->watcher);
}

void watch_dir_handle(void *ctx, struct rpc_call *call, const ProtobufCMessage *message)
{
    const Filesystem__WatchDirRequest *request = (const Filesystem__WatchDirRequest *)message;
    struct watch_plan plan = {
        .recursive = request->recursive,
        .include_entry = request->include_entry,
        .allow_network_mounts = request->allow_network_mounts,
    };

    open_start(ctx, call, request->path, &plan, stream_opened);
}

/* ---- CreateWatcher, GetWatcherEvents, RemoveWatcher ---- */

static struct watcher *polled_find(struct watchers *table, const char *id)
{
    struct watcher *watcher;

    HASH_FIND_STR(table->by_id, id, watcher);
    return watcher;
}

static void not_found(struct rpc_call *call, const char *id)
{
    rpc_fail(call, RPC_NOT_FOUND, "watcher with id %.64s not found", id);
}

static void polled_opened(struct watch_job *job)
{
    Filesystem__CreateWatcherResponse response;

    if (!open_succeeded(job)) {
        return;
    }
    struct watcher *watcher = xnew(struct watcher);
    watcher_init(watcher, job->table, job->watch);
    watcher->id[0] = 'w';
    id_alnum(watcher->id + 1, WATCHER_ID_LEN - 1);
    HASH_ADD_STR(job->table->by_id, id, watcher);
    filesystem__create_watcher_response__init(&response);
    response.watcher_id = watcher->id;
    rpc_reply(job->call, &response.base);
}

void create_watcher_handle(void *ctx, struct rpc_call *call, const ProtobufCMessage *message)
{
    const Filesystem__CreateWatcherRequest *request =
        (const Filesystem__CreateWatcherRequest *)message;
    struct watch_plan plan = {
        .recursive = request->recursive,
        .include_entry = request->include_entry,
        .allow_network_mounts = request->allow_network_mounts,
    };

    open_start(ctx, call, request->path, &plan, polled_opened);
}

static void events_reply(struct watcher *watcher, struct rpc_call *call)
{
    Filesystem__GetWatcherEventsResponse response = FILESYSTEM__GET_WATCHER_EVENTS_RESPONSE__INIT;
    Filesystem__FilesystemEvent **events = xcalloc(REPLY_EVENTS_MAX, sizeof(*events));
    size_t n = 0;

    while (n < REPLY_EVENTS_MAX && (events[n] = watcher_next(watcher))) {
        n++;
    }
    response.events = events;
    response.n_events = n;
    rpc_reply(call, &response.base);
    while (n > 0) {
        filesystem__filesystem_event__free_unpacked(events[--n], NULL);
    }
    free(events);
}

/* Events before the end are reported first, then the end on every call. */
static void polled_drained(struct watch_job *job)
{
    struct watcher *watcher = polled_find(job->table, job->id);

    if (!job->call) {
        return;
    }
    if (!watcher) {
        not_found(job->call, job->id);
    } else if (watcher->ended && buf_len(&watcher->queue) == 0) {
        call_fail(job->call, watcher->code, &watcher->err);
    } else {
        events_reply(watcher, job->call);
    }
}

void get_watcher_events_handle(void *ctx, struct rpc_call *call, const ProtobufCMessage *message)
{
    const Filesystem__GetWatcherEventsRequest *request =
        (const Filesystem__GetWatcherEventsRequest *)message;
    struct watchers *table = watchers_of(ctx);
    const struct watcher *watcher = polled_find(table, request->watcher_id);

    if (!watcher) {
        not_found(call, request->watcher_id);
        return;
    }
    struct watch_job *job = watch_job_new(table, watch_job_drain, polled_drained);
    memcpy(job->id, watcher->id, sizeof(job->id));
    job->call = call;
    rpc_watch(call, &job_watch, job);
    watch_job_start(job);
}

void remove_watcher_handle(void *ctx, struct rpc_call *call, const ProtobufCMessage *message)
{
    const Filesystem__RemoveWatcherRequest *request =
        (const Filesystem__RemoveWatcherRequest *)message;
    Filesystem__RemoveWatcherResponse response = FILESYSTEM__REMOVE_WATCHER_RESPONSE__INIT;
    struct watchers *table = watchers_of(ctx);
    struct watcher *watcher = polled_find(table, request->watcher_id);

    if (!watcher) {
        not_found(call, request->watcher_id);
        return;
    }
    HASH_DEL(table->by_id, watcher);
    watcher_fini(watcher);
    free(watcher);
    rpc_reply(call, &response.base);
}
