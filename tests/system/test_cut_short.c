/* kill -9 of the keeper, of its workers and of CRIU in the middle of a save or a restore, at
 * moments that differ from round to round: the jail runs on, what was saved is whole or not there,
 * and both can be used afterwards.
 *
 * CRIU lets the processes it looks into run a few instructions of its own. When it is killed, the
 * worker beside it puts them back. With that worker killed as well nobody can: then a jail that
 * ended is counted and said, and all else must hold. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "lib/base/fdpass.h"
#include "rig.h"

enum {
    ROUNDS = 12, /* of each kind */
    SPAN_US = 150 * 1000,
    CRIU_ROUNDS = 60,
    CRIU_SPAN_US = 60 * 1000, /* about what its part of a save takes */
    WORK_TIMEOUT_MS = 5000,   /* for work that hangs */
};

enum victim { KEEPER, WORKERS, CRIU };
static const char *const victims[] = {"keeper", "workers", "criu"};

static struct rig rig;

/* ---- helpers ---- */

static bool attach(struct rig_jail *jail)
{
    struct keeper_request req = {.op = KEEPER_ATTACH, .jail = jail->name};
    int fds[KEEPER_FDS_MAX];

    (void)snprintf(req.id, sizeof(req.id), "%s", jail->id);
    struct keeper_answer answer = rig_ask(&rig, &req, fds);
    if (answer.status < 0) {
        printf("# attach: %s\n", answer.err.msg);
        return false;
    }
    (void)close(fds[KEEPER_FD_PIDFD]);
    fdpass_close(fds + KEEPER_FD_SOCKET, KEEPER_FDS_MAX - KEEPER_FD_SOCKET);
    jail->channel = fds[KEEPER_FD_CHANNEL];
    (void)fcntl(jail->channel, F_SETFL, 0);
    return true;
}

static bool is_saved(const char *name)
{
    struct keeper_request req = {.op = KEEPER_LIST_SAVED};

    for (;;) {
        struct keeper_answer answer = rig_ask(&rig, &req, NULL);
        if (answer.status < 0 || strcmp(answer.saved.name, name) == 0) {
            return answer.status == 0;
        }
        memcpy(req.save.name, answer.saved.name, sizeof(req.save.name));
    }
}

static void forget(const char *name)
{
    struct keeper_request req = {.op = KEEPER_FORGET};

    (void)snprintf(req.save.name, sizeof(req.save.name), "%s", name);
    CHECK_INT(rig_ask(&rig, &req, NULL).status, 0);
}

static struct keeper_request restore_request(const char *id, uint32_t slot, const char *from)
{
    struct keeper_request req = rig_create_request(id, slot, "base");

    req.op = KEEPER_RESTORE;
    (void)snprintf(req.plan.from, sizeof(req.plan.from), "%s", from);
    return req;
}

/* A signal to all of the keeper's own group for work on a jail, or to those of a name in it and in
 * the jail's. Returns to how many. */
static int group_signal(const char *group, const char *only, int number)
{
    char path[256];
    int n = 0;

    for (int i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof(path), "/sys/fs/cgroup%s/atoll-%s/%s/cgroup.procs",
                       i ? "/unified" : "", rig.instance, group);
        FILE *procs = fopen(path, "re");
        for (int pid; procs && fscanf(procs, "%d", &pid) == 1;) {
            char comm[64], name[32] = "";
            (void)snprintf(comm, sizeof(comm), "/proc/%d/comm", pid);
            FILE *file = fopen(comm, "re");
            if (file && fscanf(file, "%31s", name) == 1 && (!only || strcmp(name, only) == 0)) {
                n += kill(pid, number) == 0;
            }
            if (file) {
                (void)fclose(file);
            }
        }
        if (procs) {
            (void)fclose(procs);
        }
    }
    return n;
}

/* Started through the loader, it goes by its name. */
static int criu_signal(const char *id, int number)
{
    char work[KEEPER_ID_BYTES + 1];

    (void)snprintf(work, sizeof(work), ".%s", id);
    return group_signal(work, "criu", number) + group_signal(work, "ld-linux-x86-64", number) +
           group_signal(id, "criu", number) + group_signal(id, "ld-linux-x86-64", number);
}

static bool strike(enum victim victim, const char *id, long span_us)
{
    char work[KEEPER_ID_BYTES + 1];

    (void)usleep((useconds_t)(random() % span_us));
    (void)snprintf(work, sizeof(work), ".%s", id);
    switch (victim) {
    case KEEPER:
        rig_keeper_kill(&rig);
        rig_keeper_start(&rig);
        return true;
    case WORKERS:
        (void)group_signal(work, NULL, SIGKILL);
        return false;
    case CRIU:
        (void)criu_signal(id, SIGKILL);
        return false;
    }
    return false;
}

/* ---- the rounds ---- */

static void save_round(enum victim victim, int round)
{
    struct keeper_request create = rig_create_request("one", 0, "base");
    struct keeper_request save = {.op = KEEPER_SAVE, .id = "one", .save = {.name = "saved-cut"}};
    struct rig_jail jail, copy;

    save.save.flags = KEEPER_SAVE_MEMORY | (round % 2 ? KEEPER_SAVE_SYNC : 0);
    CHECK_INT(rig_create(&rig, &create, &jail).status, 0);
    CHECK_STR(rig_probe(&jail, "hold child"), "ok");
    CHECK_STR(rig_probe(&jail, "hold memory"), "ok");
    rig_hang_up(&jail);
    rig_send(&rig, &save);
    if (!strike(victim, "one", SPAN_US)) {
        struct keeper_answer answer = rig_receive(&rig, NULL);
        printf("# %s, round %d: %s\n", victims[victim], round,
               answer.status ? answer.err.msg : "saved");
        CHECK_INT(is_saved("saved-cut"), answer.status == 0);
    }
    bool runs = attach(&jail) && strcmp(rig_probe(&jail, "check child"), "ok") == 0 &&
                strcmp(rig_probe(&jail, "check memory"), "ok") == 0;
    CHECK_THAT(runs || victim == WORKERS, "the jail ended with %s in round %d", victims[victim],
               round);
    if (is_saved("saved-cut")) {
        struct keeper_request restore = restore_request("copy", 1, "saved-cut");
        CHECK_INT(rig_create(&rig, &restore, &copy).status, 0);
        CHECK_STR(rig_probe(&copy, "check memory"), "ok");
        CHECK_INT(rig_destroy(&rig, "copy").status, 0);
        (void)close(copy.channel);
        (void)close(copy.pidfd);
        forget("saved-cut");
    }
    if (runs) {
        rig_hang_up(&jail);
        save.save.flags = KEEPER_SAVE_MEMORY; /* and the name is free again */
        struct keeper_answer again = rig_ask(&rig, &save, NULL);
        CHECK_THAT(again.status == 0, "%s, round %d: again: %s", victims[victim], round,
                   again.err.msg);
        forget("saved-cut");
    } else {
        printf("# %s, round %d: the jail ended too\n", victims[victim], round);
    }
    CHECK_INT(rig_destroy(&rig, "one").status, 0);
    (void)close(jail.pidfd);
}

static void restore_round(enum victim victim, int round)
{
    struct keeper_request restore = restore_request("copy", 1 + (uint32_t)round % 2, "saved-whole");
    int fds[KEEPER_FDS_MAX];
    struct rig_jail copy;

    rig_send(&rig, &restore);
    if (!strike(victim, "copy", SPAN_US)) {
        struct keeper_answer answer = rig_receive(&rig, fds);
        printf("# %s, round %d: %s\n", victims[victim], round,
               answer.status ? answer.err.msg : "restored");
        for (int i = 0; i < KEEPER_FDS_MAX; i++) {
            (void)close(fds[i]);
        }
        CHECK(answer.status == 0 || !rig_trace_left(&rig, "copy"));
    }
    CHECK_INT(rig_destroy(&rig, "copy").status,
              0); /* as the daemon does with what it did not get */
    CHECK(!rig_trace_left(&rig, "copy"));
    CHECK_INT(rig_create(&rig, &restore, &copy).status, 0);
    CHECK_STR(rig_probe(&copy, "check child"), "ok");
    CHECK_STR(rig_probe(&copy, "check memory"), "ok");
    CHECK_INT(rig_destroy(&rig, "copy").status, 0);
    (void)close(copy.channel);
    (void)close(copy.pidfd);
}

static void a_save_can_be_cut_short_at_any_moment(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        for (enum victim victim = KEEPER; victim <= CRIU; victim++) {
            save_round(victim, round);
        }
    }
}

/* After the save has its name, and before the worker has told: failure is what is told then. */
static void a_save_is_told_or_gone(void)
{
    struct keeper_request create = rig_create_request("one", 0, "base");
    struct keeper_request save = {
        .op = KEEPER_SAVE, .id = "one", .save = {.name = "saved-cut", .flags = KEEPER_SAVE_SYNC}};
    struct rig_jail jail;
    char path[96];
    int failed = 0;

    (void)snprintf(path, sizeof(path), "%s/saved/saved-cut", rig.pool);
    CHECK_INT(rig_create(&rig, &create, &jail).status, 0);
    for (int round = 0; round < ROUNDS; round++) {
        struct pollfd told = {.fd = rig.fd, .events = POLLIN};
        rig_send(&rig, &save);
        while (access(path, F_OK) < 0 && poll(&told, 1, 0) == 0) {
            continue;
        }
        (void)group_signal(".one", NULL, SIGKILL);
        struct keeper_answer answer = rig_receive(&rig, NULL);
        CHECK_INT(is_saved("saved-cut"), answer.status == 0);
        failed += answer.status != 0;
        forget("saved-cut");
    }
    printf("# %d of %d saves lost their worker\n", failed, ROUNDS);
    CHECK_INT(rig_destroy(&rig, "one").status, 0);
    (void)close(jail.channel);
    (void)close(jail.pidfd);
}

/* One jail through all of it: nothing of CRIU's stays in its processes, nothing of theirs is lost.
 */
static void a_jail_outlives_criu(void)
{
    static const char *const kinds[] = {"memory", "child",    "timer", "pipes",
                                        "tcp",    "terminal", "own"};
    struct keeper_request create = rig_create_request("one", 0, "base");
    struct keeper_request save = {.op = KEEPER_SAVE, .id = "one", .save = {.name = "saved-cut"}};
    struct rig_jail jail;
    char command[32];

    save.save.flags = KEEPER_SAVE_MEMORY;
    CHECK_INT(rig_create(&rig, &create, &jail).status, 0);
    for (size_t i = 0; i < countof(kinds); i++) {
        (void)snprintf(command, sizeof(command), "hold %s", kinds[i]);
        CHECK_STR(rig_probe(&jail, command), "ok");
    }
    for (int round = 0, failed = 0; round < CRIU_ROUNDS && !failed; round++) {
        rig_hang_up(&jail);
        rig_send(&rig, &save);
        (void)strike(CRIU, "one", CRIU_SPAN_US);
        (void)rig_receive(&rig, NULL);
        forget("saved-cut");
        failed = !attach(&jail);
        CHECK_THAT(!failed, "the jail ended with CRIU in round %d", round);
        for (size_t i = 0; !failed && i < countof(kinds); i++) {
            (void)snprintf(command, sizeof(command), "check %s", kinds[i]);
            const char *said = rig_probe(&jail, command);
            failed = strcmp(said, "ok") != 0;
            CHECK_THAT(!failed, "%s in round %d: %s", command, round, said);
        }
    }
    CHECK_INT(rig_destroy(&rig, "one").status, 0);
    (void)close(jail.channel);
    (void)close(jail.pidfd);
}

static void a_restore_can_be_cut_short_at_any_moment(void)
{
    struct keeper_request create = rig_create_request("one", 0, "base");
    struct keeper_request save = {.op = KEEPER_SAVE,
                                  .id = "one",
                                  .save = {.name = "saved-whole", .flags = KEEPER_SAVE_MEMORY}};
    struct rig_jail jail;

    CHECK_INT(rig_create(&rig, &create, &jail).status, 0);
    CHECK_STR(rig_probe(&jail, "hold child"), "ok");
    CHECK_STR(rig_probe(&jail, "hold memory"), "ok");
    rig_hang_up(&jail);
    CHECK_INT(rig_ask(&rig, &save, NULL).status, 0);
    CHECK_INT(rig_destroy(&rig, "one").status, 0);
    (void)close(jail.pidfd);
    for (int round = 0; round < ROUNDS; round++) {
        for (enum victim victim = KEEPER; victim <= CRIU; victim++) {
            restore_round(victim, round);
        }
    }
    forget("saved-whole");
}

/* Stops CRIU as soon as it is there: what it does then never ends. */
static void criu_stop(const char *id)
{
    while (criu_signal(id, SIGSTOP) == 0) {
        (void)usleep(1000);
    }
}

static void keeper_with_timeout(int ms)
{
    rig.task_timeout_ms = ms;
    rig_keeper_kill(&rig);
    rig_keeper_start(&rig);
}

/* A keeper for which all work takes too long looks at it whenever somebody asks something. CRIU
 * cannot be stopped here: whoever traces it lets it go on. */
static struct keeper_answer save_given_up(struct keeper_request *save)
{
    struct keeper_request hello = {.op = KEEPER_HELLO};
    struct rig beside = rig_beside(&rig);

    rig_send(&rig, save);
    (void)usleep((useconds_t)(random() % SPAN_US));
    (void)rig_ask(&beside, &hello, NULL);
    (void)close(beside.fd);
    return rig_receive(&rig, NULL);
}

static void a_save_that_takes_too_long_is_given_up(void)
{
    struct keeper_request create = rig_create_request("one", 0, "base");
    struct keeper_request save = {
        .op = KEEPER_SAVE, .id = "one", .save = {.name = "saved-cut", .flags = KEEPER_SAVE_MEMORY}};
    struct rig_jail jail;
    int given_up = 0;

    CHECK_INT(rig_create(&rig, &create, &jail).status, 0);
    CHECK_STR(rig_probe(&jail, "hold child"), "ok");
    CHECK_STR(rig_probe(&jail, "hold memory"), "ok");
    keeper_with_timeout(1);
    for (int round = 0; round < ROUNDS; round++) {
        rig_hang_up(&jail);
        struct keeper_answer answer = save_given_up(&save);
        bool saved = answer.status == 0;
        CHECK_THAT(saved || (answer.status == -ETIMEDOUT && strstr(answer.err.msg, "took")),
                   "it says: %s", answer.err.msg);
        CHECK_INT(is_saved("saved-cut"), saved);
        given_up += !saved;
        forget("saved-cut");
        CHECK(attach(&jail));
        CHECK_STR(rig_probe(&jail, "check child"), "ok");
        CHECK_STR(rig_probe(&jail, "check memory"), "ok");
    }
    CHECK_THAT(given_up > 0, "no save was given up in %d", ROUNDS);
    keeper_with_timeout(WORK_TIMEOUT_MS);
    rig_hang_up(&jail);
    CHECK_INT(rig_ask(&rig, &save, NULL).status, 0); /* for the next test */
    CHECK_INT(rig_destroy(&rig, "one").status, 0);
    (void)close(jail.pidfd);
}

static void a_restore_that_hangs_is_given_up(void)
{
    struct keeper_request restore = restore_request("copy", 1, "saved-cut");
    struct rig_jail copy;

    rig_send(&rig, &restore);
    criu_stop("copy");
    struct keeper_answer answer = rig_receive(&rig, NULL);
    CHECK_INT(answer.status, -ETIMEDOUT);
    CHECK_THAT(strstr(answer.err.msg, "longer than"), "it says: %s", answer.err.msg);
    CHECK(!rig_trace_left(&rig, "copy"));
    CHECK_INT(criu_signal("copy", 0), 0);
    CHECK_INT(rig_create(&rig, &restore, &copy).status, 0);
    CHECK_STR(rig_probe(&copy, "check memory"), "ok");
    CHECK_INT(rig_destroy(&rig, "copy").status, 0);
    (void)close(copy.channel);
    (void)close(copy.pidfd);
    forget("saved-cut");
}

int main(int argc, char **argv)
{
    static const struct check_test tests[] = {
        {"a save can be cut short at any moment", a_save_can_be_cut_short_at_any_moment},
        {"a save is told or gone", a_save_is_told_or_gone},
        {"a jail outlives CRIU", a_jail_outlives_criu},
        {"a restore can be cut short at any moment", a_restore_can_be_cut_short_at_any_moment},
        {"a save that takes too long is given up", a_save_that_takes_too_long_is_given_up},
        {"a restore that hangs is given up", a_restore_that_hangs_is_given_up},
    };
    unsigned seed = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : (unsigned)getpid();
    printf("# seed %u\n", seed);
    srandom(seed);
    return rig_main(&rig, argc, argv, NULL, tests, countof(tests));
}
