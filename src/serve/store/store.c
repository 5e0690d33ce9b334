/* The loop's thread appends jobs to `queue`. The writer takes up to STORE_BATCH_MAX of them, has
 * the engine run them in one transaction, moves them to `finished` and wakes the loop, which calls
 * their `done`.
 *
 * A database on another machine may be away. The writer then tries again after a pause. A job that
 * somebody waits for fails after STORE_AWAY_MS; the others are kept for when the database is back,
 * up to STORE_KEPT_MAX of them. The order of the jobs stays.
 */
#include "serve/store/store.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/busy.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "serve/store/engine.h"

struct store {
    uv_thread_t writer;
    uv_async_t wake; /* on the loop */
    uv_timer_t late; /* likewise: wakes the writer for jobs that can wait */
    int handles;     /* that libuv has not closed yet */
    struct events_watch *watches;

    uint64_t waiting, failed; /* used on the loop alone, for store_figures() */

    uv_mutex_t lock; /* guards the five below */
    uv_cond_t work;
    struct store_job *queue;
    struct store_job *finished;
    struct histogram commit;
    bool closing;

    atomic_bool away; /* set by the writer */

    /* used by the writer alone */
    struct store_engine *engine;
    bool last_try;    /* the store is closing: jobs that cannot be run now fail */
    int64_t pause_ms; /* until the next try to reach a database that is away */
    int64_t purged_mono_ms;
};

/* ---- jobs ---- */

static void job_queue(struct store *store, struct store_job *job, bool wakes)
{
    store->waiting++;
    job->queued_mono_ms = clock_mono_ms();
    uv_mutex_lock(&store->lock);
    assert(!store->closing);
    DL_APPEND(store->queue, job);
    if (wakes) {
        uv_cond_signal(&store->work);
    }
    uv_mutex_unlock(&store->lock);
}

void store_submit(struct store *store, struct store_job *job, enum store_durability durability,
                  store_done *done, void *ctx)
{
    job->durability = durability;
    job->done = done;
    job->ctx = ctx;
    job_queue(store, job, true);
}

static void on_late(uv_timer_t *timer)
{
    struct store *store = container_of(timer, struct store, late);

    uv_mutex_lock(&store->lock);
    uv_cond_signal(&store->work);
    uv_mutex_unlock(&store->lock);
}

void store_submit_late(struct store *store, struct store_job *job)
{
    job->durability = STORE_LAZY;
    job_queue(store, job, false);
    if (!uv_is_active((uv_handle_t *)&store->late)) {
        (void)uv_timer_start(&store->late, on_late, STORE_LATE_MS, 0);
    }
}

/* ---- the writer's thread ---- */

/* Deletes rows that are older than STORE_EVENTS_KEPT_MS. A purge that fails is tried again in an
 * hour: old rows do no harm. */
static void purge(struct store *store)
{
    static const char sql[] = "DELETE FROM sandboxes WHERE state = 'killed' AND end_ms < %lld;"
                              "DELETE FROM deliveries WHERE created_ms < %lld;"
                              "DELETE FROM events WHERE timestamp_ms < %lld";
    long long before = (long long)(clock_wall_ms() - STORE_EVENTS_KEPT_MS);
    int64_t now = clock_mono_ms();
    char text[sizeof(sql) + 64];
    struct err err;

    if (store->purged_mono_ms != 0 && now - store->purged_mono_ms < STORE_PURGE_EVERY_MS) {
        return;
    }
    store->purged_mono_ms = now;
    (void)snprintf(text, sizeof(text), sql, before, before, before);
    if (store->engine->exec(store->engine, text, "forget old events", &err) < 0) {
        log_warn("store: %s", err.msg);
    }
}

/* Waits for the pause to end, and not for jobs: only the database can end it. */
static void pause_wait(struct store *store)
{
    int64_t until = clock_mono_ms() + store->pause_ms;

    for (int64_t left; !store->closing && (left = until - clock_mono_ms()) > 0;) {
        (void)uv_cond_timedwait(&store->work, &store->lock, (uint64_t)left * 1000000);
    }
}

/* False when the store is closing and nothing is left to do. */
static bool batch_take(struct store *store, struct store_job **batch)
{
    *batch = NULL;
    uv_mutex_lock(&store->lock);
    if (store->away) {
        pause_wait(store);
    }
    while (!store->queue && !store->closing && !store->away) {
        uv_cond_wait(&store->work, &store->lock);
    }
    for (int i = 0; i < STORE_BATCH_MAX && store->queue; i++) {
        struct store_job *job = store->queue;

        DL_DELETE(store->queue, job);
        DL_APPEND(*batch, job);
    }
    store->last_try = store->closing;
    uv_mutex_unlock(&store->lock);
    return *batch || store->away;
}

/* The jobs of the queue that need not wait any longer for a database that is away. */
static void queue_expire(struct store *store, struct store_job **finished)
{
    struct store_job *job, *next;
    int64_t now = clock_mono_ms();
    int kept = 0;

    DL_FOREACH_SAFE (store->queue, job, next) {
        bool late =
            job->done ? now - job->queued_mono_ms >= STORE_AWAY_MS : ++kept > STORE_KEPT_MAX;

        if (late || store->last_try) {
            DL_DELETE(store->queue, job);
            DL_APPEND(*finished, job);
            (void)err_set(&job->err, EAGAIN, STORE_AWAY_SENTENCE, job->steps[0].statement->what);
        }
    }
}

static void away_note(struct store *store, const struct err *why)
{
    if (!store->away) {
        log_warn("store: %s; changes wait for it", why->msg);
        store->pause_ms = STORE_RETRY_MS;
    } else if (store->pause_ms < STORE_RETRY_MAX_MS) {
        store->pause_ms *= 2;
    }
    store->away = true;
}

static void back_note(struct store *store)
{
    if (store->away) {
        log_info("store: the database is back");
        store->away = false;
    }
}

/* Gives the jobs that were run to the loop, and puts the others back to the head of the queue. */
static void batch_hand_over(struct store *store, struct store_job *batch,
                            struct store_job *finished)
{
    uv_mutex_lock(&store->lock);
    DL_CONCAT(batch, store->queue);
    store->queue = batch;
    if (store->away) {
        queue_expire(store, &finished);
    }
    if (finished) {
        DL_CONCAT(store->finished, finished);
    }
    uv_mutex_unlock(&store->lock);
    (void)uv_async_send(&store->wake);
}

static void batch_run(struct store *store, struct store_job *batch)
{
    struct store_job *finished = NULL;
    struct err why = {0};
    int64_t begun_us = clock_mono_us();

    if (store->engine->run(store->engine, &batch, &finished, &why) < 0) {
        away_note(store, &why);
    } else {
        back_note(store);
    }
    if (finished) {
        uv_mutex_lock(&store->lock);
        histogram_add(&store->commit, clock_mono_us() - begun_us);
        uv_mutex_unlock(&store->lock);
    }
    batch_hand_over(store, batch, finished);
}

/* The database is still away when the store is closed: the jobs that it has not answered fail. */
static void writer_give_up(struct store *store)
{
    struct store_job *finished = NULL;

    store->engine->abandon(store->engine, &finished);
    store->away = false;
    batch_hand_over(store, NULL, finished);
}

static void writer_main(void *arg)
{
    struct store *store = arg;
    struct store_job *batch;

    while (batch_take(store, &batch)) {
        batch_run(store, batch);
        if (store->away && store->last_try) {
            writer_give_up(store);
        } else if (!store->away) {
            purge(store);
        }
    }
}

/* ---- the loop's thread ---- */

static void watches_note(struct store *store, const struct store_job *job)
{
    struct events_watch *watch;

    if (!job->event_team[0] || job->err.code != 0) {
        return;
    }
    DL_FOREACH (store->watches, watch) {
        watch->due = watch->due || !watch->team_id || strcmp(watch->team_id, job->event_team) == 0;
    }
}

static void watches_call(struct store *store)
{
    struct events_watch *watch;

    DL_FOREACH (store->watches, watch) {
        if (watch->due) {
            watch->due = false;
            watch->on_event(watch);
        }
    }
}

static void finished_deliver(struct store *store)
{
    struct store_job *job, *next;

    uv_mutex_lock(&store->lock);
    struct store_job *finished = store->finished;
    store->finished = NULL;
    uv_mutex_unlock(&store->lock);

    DL_FOREACH_SAFE (finished, job, next) {
        watches_note(store, job);
        store->waiting--;
        store->failed += job->err.code != 0;
        if (job->done) {
            job->done(job->ctx, -job->err.code, &job->err);
        } else if (job->err.code != 0) {
            log_error("store: %s", job->err.msg); /* there is no caller to tell */
        }
        store_job_free(job);
    }
    watches_call(store);
}

struct store_figures store_figures(struct store *store)
{
    struct store_figures figures = {.waiting = store->waiting, .failed = store->failed};

    uv_mutex_lock(&store->lock);
    figures.commit = store->commit;
    uv_mutex_unlock(&store->lock);
    return figures;
}

void store_events_watch(struct store *store, struct events_watch *watch)
{
    watch->due = false;
    DL_APPEND(store->watches, watch);
}

void store_events_unwatch(struct store *store, struct events_watch *watch)
{
    DL_DELETE(store->watches, watch);
}

static void on_wake(uv_async_t *wake)
{
    busy("results of the store");
    finished_deliver(container_of(wake, struct store, wake));
}

/* ---- opening and closing ---- */

uv_loop_t *store_loop(const struct store *store)
{
    return store->wake.loop;
}

bool store_away(const struct store *store)
{
    return store->away;
}

struct store_source *store_source_use(struct store *store)
{
    (void)atomic_fetch_add(&store->engine->source->uses, 1);
    return store->engine->source;
}

bool store_is_postgres(const char *where)
{
    return str_starts(str_of(where), STR("postgresql://")) ||
           str_starts(str_of(where), STR("postgres://"));
}

/* A template and its first build are stored one after the other. A template that was stored without
 * its build was reported to no client, and no sandbox could start from it. */
static int halves_remove(struct store *store, struct err *err)
{
    return store->engine->exec(store->engine,
                               "DELETE FROM templates WHERE team_id IS NOT NULL AND build_id = ''"
                               " AND saved IS NULL AND snapshot_of IS NULL"
                               " AND id NOT IN (SELECT template_id FROM builds)",
                               "remove templates that were cut short", err);
}

static int store_prepare(struct store *store, const char *where, struct err *err)
{
    if (!store_is_postgres(where) && where[0] != '/') { /* which may hold a password */
        return err_set(err, EINVAL,
                       "the database is not a URL such as postgresql://user@host/name");
    }
    int r = store_is_postgres(where) ? postgres_open(where, &store->engine, err)
                                     : sqlite_open(where, &store->engine, err);

    return r < 0 ? r : halves_remove(store, err);
}

static void engine_close(struct store *store)
{
    if (store->engine) {
        store->engine->close(store->engine);
        store->engine = NULL;
    }
}

static void store_free(struct store *store)
{
    uv_cond_destroy(&store->work);
    uv_mutex_destroy(&store->lock);
    free(store);
}

static void on_closed(uv_handle_t *handle)
{
    struct store *store = handle->data;

    if (--store->handles == 0) {
        store_free(store);
    }
}

static void handles_close(struct store *store)
{
    store->wake.data = store->late.data = store;
    store->handles = 2;
    uv_close((uv_handle_t *)&store->late, on_closed);
    uv_close((uv_handle_t *)&store->wake, on_closed);
}

int store_open(uv_loop_t *loop, const char *where, struct store **out, struct err *err)
{
    struct store *store = xnew(struct store);
    int r;

    if (uv_mutex_init(&store->lock) < 0 || uv_cond_init(&store->work) < 0) {
        abort();
    }
    r = store_prepare(store, where, err);
    if (r < 0) {
        engine_close(store);
        store_free(store);
        return r;
    }
    purge(store);

    r = uv_async_init(loop, &store->wake, on_wake);
    if (r < 0) {
        engine_close(store);
        store_free(store);
        return err_set(err, -r, "watch the database's writer: %s", uv_strerror(r));
    }
    (void)uv_timer_init(loop, &store->late);
    r = uv_thread_create(&store->writer, writer_main, store);
    if (r < 0) {
        engine_close(store);
        handles_close(store);
        return err_set(err, -r, "start the database's writer: %s", uv_strerror(r));
    }
    *out = store;
    return 0;
}

void store_close(struct store *store)
{
    if (!store) {
        return;
    }
    uv_mutex_lock(&store->lock);
    store->closing = true;
    uv_cond_signal(&store->work);
    uv_mutex_unlock(&store->lock);

    (void)uv_thread_join(&store->writer);
    finished_deliver(store);
    engine_close(store);
    handles_close(store);
}
