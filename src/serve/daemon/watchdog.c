#include "serve/daemon/watchdog.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "lib/base/alloc.h"
#include "lib/base/busy.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"

enum { NS_PER_MS = 1000 * 1000, MS_PER_S = 1000 };

struct watchdog {
    uv_loop_t *loop;
    uv_prepare_t turn;
    _Atomic uint64_t turns; /* that the loop has made */
    pthread_t loop_thread, thread;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool ending;
    _Atomic uint64_t stalls, stall_ms;
};

/* The loop, as seen last. */
struct sight {
    uint64_t turns, idle_ns;
    int64_t moved_ms; /* when it was last seen to move */
    bool stalled;
    char what[BUSY_TEXT_BYTES];
};

static void on_turn(uv_prepare_t *handle)
{
    struct watchdog *dog = handle->data;

    atomic_fetch_add_explicit(&dog->turns, 1, memory_order_relaxed);
}

/* ---- the thread ---- */

/* A loop that waits for events makes no turn, but its idle time grows as we look. */
static bool has_moved(struct watchdog *dog, struct sight *sight)
{
    uint64_t turns = atomic_load_explicit(&dog->turns, memory_order_relaxed);
    uint64_t idle_ns = uv_metrics_idle_time(dog->loop);
    bool moved = turns != sight->turns || idle_ns != sight->idle_ns;

    sight->turns = turns;
    sight->idle_ns = idle_ns;
    return moved;
}

static void stall_begin(struct watchdog *dog, struct sight *sight, int64_t stood_ms)
{
    sight->stalled = true;
    atomic_fetch_add(&dog->stalls, 1);
    busy_show(sight->what);
    log_warn("the server has been standing still for %.1f s; it runs: %s",
             (double)stood_ms / MS_PER_S, sight->what);
}

static void stall_end(struct watchdog *dog, struct sight *sight, int64_t stood_ms)
{
    sight->stalled = false;
    atomic_fetch_add(&dog->stall_ms, (uint64_t)stood_ms);
    log_warn("the server goes on; it stood still for about %.1f s, and ran: %s",
             (double)stood_ms / MS_PER_S, sight->what);
}

static void look(struct watchdog *dog, struct sight *sight)
{
    int64_t now_ms = clock_mono_ms();
    int64_t stood_ms = now_ms - sight->moved_ms;

    if (has_moved(dog, sight)) {
        if (sight->stalled) {
            stall_end(dog, sight, stood_ms);
        }
        sight->moved_ms = now_ms;
        return;
    }
    if (stood_ms >= WATCHDOG_STALL_MS && !sight->stalled) {
        stall_begin(dog, sight, stood_ms);
    }
    if (sight->stalled) {
        (void)pthread_kill(dog->loop_thread, SIGURG);
    }
}

static struct timespec time_in(int ms)
{
    struct timespec at;

    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    int64_t ns = at.tv_nsec + (int64_t)ms * NS_PER_MS;
    at.tv_sec += ns / (NS_PER_MS * (int64_t)MS_PER_S);
    at.tv_nsec = ns % (NS_PER_MS * (int64_t)MS_PER_S);
    return at;
}

static void *watch(void *ctx)
{
    struct watchdog *dog = ctx;
    struct sight sight = {.moved_ms = clock_mono_ms()};

    pthread_mutex_lock(&dog->lock);
    while (!dog->ending) {
        struct timespec next = time_in(sight.stalled ? WATCHDOG_NEAR_MS : WATCHDOG_LOOK_MS);
        (void)pthread_cond_timedwait(&dog->ended, &dog->lock, &next);
        if (!dog->ending) {
            look(dog, &sight);
        }
    }
    pthread_mutex_unlock(&dog->lock);
    return NULL;
}

/* ---- life ---- */

static void lock_init(struct watchdog *dog)
{
    pthread_condattr_t steady;

    (void)pthread_condattr_init(&steady);
    (void)pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&dog->ended, &steady);
    (void)pthread_condattr_destroy(&steady);
    (void)pthread_mutex_init(&dog->lock, NULL);
}

static void lock_fini(struct watchdog *dog)
{
    (void)pthread_cond_destroy(&dog->ended);
    (void)pthread_mutex_destroy(&dog->lock);
}

int watchdog_new(uv_loop_t *loop, struct watchdog **out, struct err *err)
{
    struct watchdog *dog = xnew(struct watchdog);

    dog->loop = loop;
    dog->loop_thread = pthread_self();
    lock_init(dog);
    (void)uv_loop_configure(loop, UV_METRICS_IDLE_TIME);
    int r = pthread_create(&dog->thread, NULL, watch, dog);
    if (r != 0) {
        lock_fini(dog);
        free(dog);
        return err_set(err, r, "start the thread that watches the loop");
    }
    (void)uv_prepare_init(loop, &dog->turn);
    dog->turn.data = dog;
    (void)uv_prepare_start(&dog->turn, on_turn);
    uv_unref((uv_handle_t *)&dog->turn);
    *out = dog;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void watchdog_free(struct watchdog *dog)
{
    if (!dog) {
        return;
    }
    pthread_mutex_lock(&dog->lock);
    dog->ending = true;
    pthread_cond_signal(&dog->ended);
    pthread_mutex_unlock(&dog->lock);
    (void)pthread_join(dog->thread, NULL);
    lock_fini(dog);
    uv_close((uv_handle_t *)&dog->turn, on_closed);
}

struct watchdog_figures watchdog_figures(const struct watchdog *dog)
{
    return (struct watchdog_figures){.stalls = atomic_load(&dog->stalls),
                                     .stall_ms = atomic_load(&dog->stall_ms)};
}
