/* The daemon's end of the socket, on a libuv loop, with a real keeper at the other. */
#include <errno.h>
#include <unistd.h>

#include "check.h"
#include "rig.h"
#include "serve/keeper/client.h"

enum { MANY = 200 };

static struct rig rig;
static uv_loop_t loop;
static struct keeper_client *client;
static int states; /* +1 for each connect, so many calls of on_state in all in states_n */
static int states_n;
static int answers;
static int last_status;
static int late_at; /* how many had been answered when on_late() was */
static struct keeper_jail last_jail;

static void on_state(void *ctx, bool connected)
{
    (void)ctx;
    states += connected ? 1 : -1;
    states_n++;
}

static void on_answer(void *ctx, const struct keeper_answer *answer, int fds[KEEPER_FDS_MAX])
{
    int *pidfd = ctx;

    answers++;
    last_status = answer->status;
    last_jail = answer->jail;
    if (pidfd) {
        *pidfd = move_fd(&fds[KEEPER_FD_PIDFD]);
    }
}

static void on_late(void *ctx, const struct keeper_answer *answer, int fds[KEEPER_FDS_MAX])
{
    on_answer(ctx, answer, fds);
    late_at = answers;
}

/* Runs the loop until `*what` is `want`, or far too long. */
static bool run_until(const int *what, int want)
{
    for (int i = 0; i < 100000 && *what != want; i++) {
        (void)uv_run(&loop, UV_RUN_ONCE);
    }
    return *what == want;
}

static void unconnected_questions_are_refused_from_the_loop(void)
{
    struct keeper_request req = {.op = KEEPER_HELLO};

    client = keeper_client_new(&loop, rig.socket, on_state, NULL);
    keeper_client_ask(client, &req, on_answer, NULL);
    CHECK_INT(answers, 0);
    CHECK(run_until(&answers, 1));
    CHECK_INT(last_status, -ENOTCONN);
}

static void it_connects_and_knows_the_status(void)
{
    CHECK(run_until(&states, 1));
    CHECK(keeper_client_connected(client));
    CHECK_INT(keeper_client_status(client)->jails, 0);
}

static void descriptors_come_through(void)
{
    int pidfd = -1;
    struct keeper_request req = rig_create_request("client", 0, "base");

    answers = 0;
    keeper_client_ask(client, &req, on_answer, &pidfd);
    CHECK(run_until(&answers, 1));
    CHECK_INT(last_status, 0);
    CHECK(last_jail.pid > 1 && last_jail.start_ticks > 0);
    CHECK(pidfd >= 0);
    (void)close(pidfd);
}

static void many_questions_at_once_are_all_answered(void)
{
    struct keeper_request req = {.op = KEEPER_USAGE, .id = "client"};

    answers = 0;
    for (int i = 0; i < 2000; i++) { /* far more than the socket holds */
        keeper_client_ask(client, &req, on_answer, NULL);
    }
    CHECK(run_until(&answers, 2000));
    CHECK_INT(last_status, 0);
    CHECK_INT(states_n, 1);
}

static void owners_take_turns(void)
{
    struct keeper_request req = {.op = KEEPER_USAGE, .id = "client"};

    answers = late_at = 0;
    for (int i = 0; i < MANY; i++) {
        keeper_client_ask_for(client, "first", &req, on_answer, NULL);
    }
    keeper_client_ask_for(client, "second", &req, on_late, NULL);
    CHECK(keeper_client_figures(client).queued > 0);
    CHECK(run_until(&answers, MANY + 1));
    CHECK(late_at > 0 && late_at < MANY / 2);
    CHECK_INT(keeper_client_figures(client).queued, 0);
}

/* Also those whose turn had not come. */
static void a_dead_keeper_is_told_to_all_who_wait(void)
{
    struct keeper_request req = {.op = KEEPER_USAGE, .id = "client"};

    rig_keeper_kill(&rig);
    answers = 0;
    for (int i = 0; i < MANY; i++) {
        keeper_client_ask_for(client, i % 2 ? "first" : "second", &req, on_answer, NULL);
    }
    CHECK(run_until(&answers, MANY));
    CHECK_INT(last_status, -ECONNRESET);
    CHECK(run_until(&states, 0));
    rig_keeper_start(&rig);
    CHECK(run_until(&states, 1));
    answers = 0;
    keeper_client_ask_for(client, "first", &req, on_answer, NULL);
    CHECK(run_until(&answers, 1));
    CHECK_INT(last_status, 0); /* no slot was lost with it */
}

static void it_comes_back_with_the_keeper(void)
{
    struct keeper_request req = {.op = KEEPER_HELLO};

    rig_keeper_kill(&rig);
    answers = 0;
    keeper_client_ask(client, &req, on_answer, NULL);
    CHECK(run_until(&answers, 1));
    CHECK_INT(last_status, -ECONNRESET);
    CHECK(run_until(&states, 0));
    CHECK(!keeper_client_connected(client));

    rig_keeper_start(&rig);
    CHECK(run_until(&states, 1));
    CHECK_INT(keeper_client_status(client)->jails, 1);
}

static void freeing_answers_what_is_open(void)
{
    struct keeper_request req = {.op = KEEPER_DESTROY, .id = "client"};

    answers = 0;
    keeper_client_ask(client, &req, on_answer, NULL);
    keeper_client_free(client);
    CHECK_INT(answers, 1);
    CHECK_INT(last_status, -ECONNRESET);
    while (uv_run(&loop, UV_RUN_DEFAULT) != 0) {
    }
    CHECK_INT(uv_loop_close(&loop), 0);
}

static bool loop_begin(void)
{
    return uv_loop_init(&loop) == 0;
}

int main(int argc, char **argv)
{
    static const struct check_test tests[] = {
        {"unconnected questions are refused from the loop",
         unconnected_questions_are_refused_from_the_loop},
        {"it connects and knows the status", it_connects_and_knows_the_status},
        {"descriptors come through", descriptors_come_through},
        {"many questions at once are all answered", many_questions_at_once_are_all_answered},
        {"owners take turns", owners_take_turns},
        {"a dead keeper is told to all who wait", a_dead_keeper_is_told_to_all_who_wait},
        {"it comes back with the keeper", it_comes_back_with_the_keeper},
        {"freeing answers what is open", freeing_answers_what_is_open},
    };

    return rig_main(&rig, argc, argv, loop_begin, tests, countof(tests));
}
