/* The watchdog on a real loop that really stands still, and the thread that closes descriptors. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "check.h"
#include "lib/base/busy.h"
#include "lib/base/clock.h"
#include "lib/base/foreign.h"
#include "serve/daemon/fd_closer.h"
#include "serve/daemon/watchdog.h"
#include "tcp_pair.h"

enum { LOG_BYTES = 64 * 1024, STALL_MS = 2500, PATIENCE_MS = 20 * 1000 };

static uv_loop_t loop;
static struct watchdog *dog;
static uv_timer_t timer;
static int log_pipe[2], saved_stderr;

/* ---- what is logged ---- */

static void log_catch(void)
{
    (void)fflush(stderr);
    if (pipe2(log_pipe, O_CLOEXEC | O_NONBLOCK) < 0) {
        abort();
    }
    saved_stderr = dup(STDERR_FILENO);
    (void)dup2(log_pipe[1], STDERR_FILENO);
}

static void log_release(char out[LOG_BYTES])
{
    (void)dup2(saved_stderr, STDERR_FILENO);
    (void)close(saved_stderr);
    ssize_t n = read(log_pipe[0], out, LOG_BYTES - 1);
    out[n < 0 ? 0 : n] = '\0';
    (void)close(log_pipe[0]);
    (void)close(log_pipe[1]);
}

/* ---- the loop ---- */

static void setup(void)
{
    struct err err;

    if (uv_loop_init(&loop) < 0 || fd_closer_start(&err) < 0 ||
        watchdog_new(&loop, &dog, &err) < 0) {
        abort();
    }
    (void)uv_timer_init(&loop, &timer);
}

static void teardown(void)
{
    watchdog_free(dog);
    uv_close((uv_handle_t *)&timer, NULL);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&loop) < 0) {
        abort();
    }
    fd_closer_stop();
}

/* Uninterruptible, as a lock would be. */
static void on_stall(uv_timer_t *handle)
{
    int64_t until_ms = clock_mono_ms() + STALL_MS;

    (void)handle;
    busy("the test's callback");
    busy_detail(STR("GET"), STR("/slow"));
    while (clock_mono_ms() < until_ms) {
        struct timespec little = {.tv_nsec = 1000 * 1000};
        (void)nanosleep(&little, NULL);
    }
}

static void on_stop(uv_timer_t *handle)
{
    (void)handle;
    uv_stop(&loop);
}

static void run_for(uint64_t ms)
{
    (void)uv_timer_start(&timer, on_stop, ms, 0);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
}

static void a_stall_is_logged_with_what_was_running(void)
{
    static char text[LOG_BYTES];

    setup();
    log_catch();
    (void)uv_timer_start(&timer, on_stall, 0, 0);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    for (int i = 0; i < PATIENCE_MS / 100 && watchdog_figures(dog).stall_ms == 0; i++) {
        run_for(100);
    }
    log_release(text);
    CHECK_INT(watchdog_figures(dog).stalls, 1);
    CHECK(watchdog_figures(dog).stall_ms >= WATCHDOG_STALL_MS);
    CHECK(strstr(text, "it runs: the test's callback: GET /slow"));
    CHECK(strstr(text, "the server goes on; it stood still for about"));
    teardown();
}

static void a_loop_that_waits_does_not_stand_still(void)
{
    setup();
    run_for(3 * WATCHDOG_STALL_MS);
    CHECK_INT(watchdog_figures(dog).stalls, 0);
    teardown();
}

static void on_idle(uv_idle_t *idle)
{
    (void)idle;
}

static void a_loop_that_is_busy_does_not_stand_still(void)
{
    uv_idle_t idle;

    setup();
    (void)uv_idle_init(&loop, &idle);
    (void)uv_idle_start(&idle, on_idle);
    run_for(3 * WATCHDOG_STALL_MS);
    CHECK_INT(watchdog_figures(dog).stalls, 0);
    uv_close((uv_handle_t *)&idle, NULL);
    teardown();
}

/* ---- calls that wait ---- */

/* A socket whose close waits for a peer that does not read. */
static int lingering(int *peer)
{
    const struct linger linger = {.l_onoff = 1, .l_linger = 600};
    static char bytes[64 * 1024];
    int pair[2];

    tcp_pair(pair);
    while (send(pair[0], bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
    }
    if (setsockopt(pair[0], SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) < 0) {
        abort();
    }
    *peer = pair[1];
    return pair[0];
}

static void on_linger(uv_timer_t *handle)
{
    (void)handle;
    busy("a close");
    (void)close(*(int *)timer.data);
}

/* Should a wait get past all rules of lib/base/foreign.h, it is cut short. */
static void a_wait_that_can_be_interrupted_is(void)
{
    static char text[LOG_BYTES];
    int peer = -1, fd = lingering(&peer);

    setup();
    log_catch();
    timer.data = &fd;
    (void)uv_timer_start(&timer, on_linger, 0, 0);
    (void)uv_run(&loop, UV_RUN_DEFAULT); /* for ten minutes, without the signal */
    for (int i = 0; i < PATIENCE_MS / 100 && watchdog_figures(dog).stall_ms == 0; i++) {
        run_for(100);
    }
    log_release(text);
    CHECK_INT(watchdog_figures(dog).stalls, 1);
    CHECK(strstr(text, "it runs: a close"));
    (void)close(peer);
    teardown();
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

/* The option is set again when the closer has begun, as a jail with a copy can do. */
static void *set_linger(void *ctx)
{
    const struct linger linger = {.l_onoff = 1, .l_linger = 600};
    int fd = *(int *)ctx;

    for (int i = 0; i < 100 * 1000 && is_open(fd); i++) {
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    }
    return NULL;
}

static void the_closer_is_not_held_up(void)
{
    int peers[32], fds[32];
    pthread_t thread;

    setup();
    for (int i = 0; i < 32; i++) {
        fds[i] = lingering(&peers[i]);
    }
    int last = fds[31];
    if (pthread_create(&thread, NULL, set_linger, &last) != 0) {
        abort();
    }
    for (int i = 0; i < 32; i++) {
        int fd = fds[i];
        foreign_close(&fd, false);
        CHECK_INT(fd, -1);
    }
    for (int i = 0; i < PATIENCE_MS / 10 && is_open(last); i++) {
        run_for(10);
    }
    CHECK(!is_open(last));
    /* The thread may hold the file when the closer lets go of it: then the wait is the thread's. */
    while (pthread_tryjoin_np(thread, NULL) == EBUSY) {
        (void)pthread_kill(thread, SIGURG);
        run_for(10);
    }
    for (int i = 0; i < 32; i++) {
        (void)close(peers[i]);
    }
    teardown();
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a stall is logged with what was running", a_stall_is_logged_with_what_was_running},
        {"a loop that waits does not stand still", a_loop_that_waits_does_not_stand_still},
        {"a loop that is busy does not stand still", a_loop_that_is_busy_does_not_stand_still},
        {"a wait that can be interrupted is", a_wait_that_can_be_interrupted_is},
        {"the closer is not held up", the_closer_is_not_held_up},
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return check_run(tests, countof(tests));
}
