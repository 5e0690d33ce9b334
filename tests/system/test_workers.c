/* The keeper's workers: several processes start and end jails, and kill -9 of any of them, at
 * moments that differ from round to round, loses no answer, leaves no trace and touches no other
 * jail. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "lib/base/fdpass.h"
#include "rig.h"

enum {
    SIDES = 6, /* connections that ask at the same time */
    ROUNDS = 40,
    SPAN_US = 12 * 1000, /* longer than a create takes on an idle machine */
    WORKERS_LOOKED_AT = 16,
    WAIT_TRIES = 2000, /* of 5 ms */
};

static struct rig rig;
static struct rig sides[SIDES];

/* ---- helpers ---- */

/* Returns how many there are. */
static int workers_of(pid_t keeper, pid_t out[WORKERS_LOOKED_AT])
{
    char path[64], text[4096];
    int n = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", keeper, keeper);
    (void)snprintf(text, sizeof(text), "%s", rig_host_read(path));
    for (char *at = text; *at && n < WORKERS_LOOKED_AT; at += strspn(at, " \n")) {
        pid_t pid = (pid_t)strtol(at, &at, 10);
        if (strcmp(rig_host_read_proc(pid, "comm"), "keeper-worker\n") == 0) {
            out[n++] = pid;
        }
    }
    return n;
}

static bool all_are_there(void)
{
    pid_t pids[WORKERS_LOOKED_AT];

    for (int i = 0; i < WAIT_TRIES; i++) {
        if (workers_of(rig.keeper, pids) == RIG_WORKERS) {
            return true;
        }
        (void)usleep(5000);
    }
    return false;
}

/* It may not have been reaped. */
static bool is_over(pid_t worker)
{
    return strcmp(rig_host_read_proc(worker, "comm"), "keeper-worker\n") != 0 ||
           strstr(rig_host_read_proc(worker, "status"), "State:\tZ");
}

static pid_t parent_of(pid_t pid)
{
    const char *status = rig_host_read_proc(pid, "status");
    const char *line = strstr(status, "\nPPid:");

    return line ? (pid_t)strtol(line + strlen("\nPPid:"), NULL, 10) : 0;
}

static void worker_strike(void)
{
    pid_t pids[WORKERS_LOOKED_AT];

    (void)usleep((useconds_t)(random() % SPAN_US));
    int n = workers_of(rig.keeper, pids);
    if (n > 0) {
        (void)kill(pids[random() % n], SIGKILL);
    }
}

static void id_of(int i, char out[KEEPER_ID_BYTES])
{
    (void)snprintf(out, KEEPER_ID_BYTES, "jail%d", i);
}

static void destroy_send(int i)
{
    struct keeper_request req = {.op = KEEPER_DESTROY};

    id_of(i, req.id);
    rig_send(&sides[i], &req);
}

static void create_send(int i)
{
    char id[KEEPER_ID_BYTES];

    id_of(i, id);
    struct keeper_request req = rig_create_request(id, (uint32_t)i, "base");
    rig_send(&sides[i], &req);
}

/* ---- the tests ---- */

static void several_processes_start_jails(void)
{
    pid_t parents[SIDES];
    bool several = false;

    CHECK(all_are_there());
    for (int i = 0; i < SIDES; i++) {
        create_send(i);
    }
    for (int i = 0; i < SIDES; i++) {
        struct keeper_answer answer = rig_receive(&sides[i], NULL);
        CHECK_THAT(answer.status == 0, "create: %s", answer.err.msg);
        parents[i] = parent_of(answer.jail.pid);
        CHECK(parents[i] != rig.keeper);
        several = several || parents[i] != parents[0];
    }
    CHECK(several);
    for (int i = 0; i < SIDES; i++) {
        destroy_send(i);
    }
    for (int i = 0; i < SIDES; i++) {
        char id[KEEPER_ID_BYTES];
        id_of(i, id);
        CHECK_INT(rig_receive(&sides[i], NULL).status, 0);
        CHECK(!rig_trace_left(&rig, id));
    }
}

/* Creates that are begun beside the kill; then their ends, beside another. */
static void round_of_kills(int round, int *failed)
{
    for (int i = 0; i < SIDES; i++) {
        create_send(i);
    }
    worker_strike();
    for (int i = 0; i < SIDES; i++) {
        char id[KEEPER_ID_BYTES];
        id_of(i, id);
        struct keeper_answer answer = rig_receive(&sides[i], NULL);
        CHECK_THAT(answer.status == 0 || answer.status == -EIO, "round %d: %s", round,
                   answer.err.msg);
        CHECK_INT(rig_trace_left(&rig, id), answer.status == 0);
        *failed += answer.status != 0;
    }
    for (int i = 0; i < SIDES; i++) {
        destroy_send(i);
    }
    worker_strike();
    for (int i = 0; i < SIDES; i++) {
        char id[KEEPER_ID_BYTES];
        id_of(i, id);
        struct keeper_answer answer = rig_receive(&sides[i], NULL);
        CHECK_THAT(answer.status == 0, "round %d: %s", round, answer.err.msg);
        CHECK(!rig_trace_left(&rig, id));
    }
}

static void a_worker_can_be_killed_at_any_moment(void)
{
    struct keeper_request req = rig_create_request("witness", SIDES, "base");
    struct rig_jail witness;
    int failed = 0;

    CHECK_INT(rig_create(&rig, &req, &witness).status, 0);
    for (int round = 0; round < ROUNDS; round++) {
        round_of_kills(round, &failed);
        CHECK(rig_says(&witness, "read /proc/self/status", "Uid:"));
    }
    printf("# %d of %d creates lost their worker\n", failed, ROUNDS * SIDES);
    CHECK(failed > 0);
    CHECK(all_are_there());
    rig_end(&rig, &witness);
}

/* By a worker that looked, or because it was killed before it could tell. */
static bool is_refused(int status)
{
    return status == -EEXIST || status == -EIO;
}

/* A jail that exists is not taken for what a killed worker had begun, nor is a disk that waits for
 * its jail. */
static void a_second_create_ends_nothing(void)
{
    struct keeper_request req = rig_create_request("jail0", 0, "base");
    struct keeper_request save = {
        .op = KEEPER_SAVE, .id = "jail0", .save = {.name = "saved-w", .flags = KEEPER_SAVE_STOP}};
    char disk[96];
    struct rig_jail jail;

    CHECK_INT(rig_create(&rig, &req, &jail).status, 0);
    for (int round = 0; round < ROUNDS / 4; round++) {
        create_send(0);
        worker_strike();
        CHECK(is_refused(rig_receive(&sides[0], NULL).status));
        CHECK(rig_says(&jail, "read /proc/self/status", "Uid:"));
    }
    CHECK_INT(rig_ask(&rig, &save, NULL).status, 0);
    rig_jail_close(&jail);
    (void)snprintf(disk, sizeof(disk), "%s/sandboxes/jail0", rig.pool);
    for (int round = 0; round < ROUNDS / 4; round++) {
        create_send(0);
        worker_strike();
        CHECK(is_refused(rig_receive(&sides[0], NULL).status));
        CHECK_INT(access(disk, F_OK), 0);
    }
    CHECK_INT(rig_forget(&rig, "saved-w").status, 0);
    CHECK_INT(rig_destroy(&rig, "jail0").status, 0);
    CHECK(all_are_there());
}

/* The jail is ended as soon as it is there, and a task for it is refused meanwhile. */
static void a_jail_can_be_ended_while_it_starts(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        create_send(0);
        (void)usleep((useconds_t)(random() % SPAN_US));
        CHECK_INT(rig_destroy(&rig, "jail0").status, 0);
        (void)rig_receive(&sides[0], NULL); /* it was there before, or came to nothing */
        CHECK(!rig_trace_left(&rig, "jail0"));
    }
}

static void workers_end_with_their_keeper(void)
{
    pid_t old[WORKERS_LOOKED_AT];
    const int n = workers_of(rig.keeper, old);

    CHECK_INT(n, RIG_WORKERS);
    for (int i = 0; i < SIDES; i++) {
        create_send(i);
    }
    for (int i = 0; i < SIDES; i++) {
        (void)close(sides[i].fd);
    }
    rig_keeper_kill(&rig);
    rig_keeper_start(&rig); /* it serves when the work of the one before is over */
    struct keeper_request hello = {.op = KEEPER_HELLO};
    CHECK_INT(rig_ask(&rig, &hello, NULL).status, 0);
    for (int i = 0; i < n; i++) {
        CHECK(is_over(old[i]));
    }
    for (int i = 0; i < SIDES; i++) {
        char id[KEEPER_ID_BYTES];
        id_of(i, id);
        CHECK_INT(rig_destroy(&rig, id).status, 0);
        CHECK(!rig_trace_left(&rig, id));
    }
}

static bool begin(void)
{
    for (int i = 0; i < SIDES; i++) {
        sides[i] = rig_beside(&rig);
    }
    return true;
}

int main(int argc, char **argv)
{
    static const struct check_test tests[] = {
        {"several processes start jails", several_processes_start_jails},
        {"a worker can be killed at any moment", a_worker_can_be_killed_at_any_moment},
        {"a second create ends nothing", a_second_create_ends_nothing},
        {"a jail can be ended while it starts", a_jail_can_be_ended_while_it_starts},
        {"workers end with their keeper", workers_end_with_their_keeper},
    };
    unsigned seed = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : (unsigned)getpid();
    printf("# seed %u\n", seed);
    srandom(seed);
    return rig_main(&rig, argc, argv, begin, tests, countof(tests));
}
