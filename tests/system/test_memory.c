/* Jails saved with their processes, and jails that go on where those were. */
#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "lib/base/fdpass.h"
#include "rig.h"

static struct rig rig;

/* ---- helpers ---- */

static struct rig_jail start(const char *id, uint32_t slot)
{
    struct keeper_request req = rig_create_request(id, slot, "base");
    struct rig_jail jail = {.pidfd = -1, .channel = -1};

    (void)rig_create(&rig, &req, &jail); /* one that failed answers no probe */
    return jail;
}

static struct rig_jail restore(const char *id, uint32_t slot, const char *from)
{
    struct keeper_request req = rig_create_request(id, slot, "base");
    struct rig_jail jail = {.pidfd = -1, .channel = -1};

    req.op = KEEPER_RESTORE;
    (void)snprintf(req.plan.from, sizeof(req.plan.from), "%s", from);
    (void)rig_create(&rig, &req, &jail);
    return jail;
}

static void end(struct rig_jail *jail)
{
    CHECK_INT(rig_destroy(&rig, jail->id).status, 0);
    (void)close(jail->pidfd);
    rig_hang_up(jail);
}

static uid_t owner_of(const struct rig_jail *jail)
{
    char path[64];
    uid_t owner = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/ns/user", jail->name.pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int r = ioctl(fd, NS_GET_OWNER_UID, &owner);
    (void)close(fd);
    return r < 0 ? 0 : owner;
}

/* ---- the tests ---- */

static void a_jail_goes_on_where_it_was(void)
{
    struct rig_jail jail = start("one", 0);

    CHECK_STR(rig_probe(&jail, "write /root/file disk"), "ok");
    CHECK_STR(rig_probe(&jail, "write /dev/shm/file memory"), "ok");
    rig_hang_up(&jail);
    struct keeper_answer answer = rig_save(
        &rig, "one", "saved-one", KEEPER_SAVE_MEMORY | KEEPER_SAVE_STOP | KEEPER_SAVE_SYNC);
    CHECK_INT(answer.status, 0);
    CHECK(answer.saved.memory_bytes > 0);
    CHECK_INT(rig_destroy(&rig, "one").status, 0);
    struct rig_jail again = restore("one", 5, "saved-one");
    CHECK_STR(rig_probe(&again, "read /root/file"), "disk");
    CHECK_STR(rig_probe(&again, "read /dev/shm/file"), "memory");
    CHECK_INT(owner_of(&again), KEEPER_UID_FIRST + 5 * KEEPER_UID_RANGE);
    CHECK(strstr(rig_probe(&again, "read /proc/1/status"), "Uid:\t0\t0\t0\t0\n"));
    CHECK(strstr(rig_probe(&again, "read /proc/mounts"), "max=256"));
    CHECK_STR(rig_probe(&again, "read /proc/cmdline"), "");
    end(&again);
    CHECK_INT(rig_forget(&rig, "saved-one").status, 0);
}

/* Its plan may have other limits than the saved jail had. */
static void a_jail_is_shown_the_size_that_it_has_now(void)
{
    struct rig_jail jail, again;
    struct keeper_request req = rig_create_request("one", 1, "base");
    char cpus[64];

    req.plan.cpu_millis = 2000;
    CHECK_INT(rig_create(&rig, &req, &jail).status, 0);
    (void)snprintf(cpus, sizeof(cpus), "%s",
                   rig_probe(&jail, "read /sys/devices/system/cpu/online"));
    CHECK_STR(cpus, sysconf(_SC_NPROCESSORS_ONLN) > 1 ? "0-1\n" : "0\n");
    rig_hang_up(&jail);
    CHECK_INT(rig_save(&rig, "one", "saved-one", KEEPER_SAVE_MEMORY | KEEPER_SAVE_STOP).status, 0);
    CHECK_INT(rig_destroy(&rig, "one").status, 0);
    req.op = KEEPER_RESTORE;
    (void)snprintf(req.plan.from, sizeof(req.plan.from), "saved-one");
    req.plan.memory_mb = 777;
    req.plan.cpu_millis = 500;
    CHECK_INT(rig_create(&rig, &req, &again).status, 0);
    CHECK(strstr(rig_probe(&again, "read /proc/meminfo"), "MemTotal:            795648 kB\n"));
    CHECK_STR(rig_probe(&again, "read /sys/devices/system/cpu/online"), "0\n");
    CHECK(!strstr(rig_probe(&again, "read /proc/stat"), "cpu1"));
    const char *list = strstr(rig_probe(&again, "read /proc/1/status"), "\nCpus_allowed_list:");
    CHECK(list);
    (void)snprintf(cpus, sizeof(cpus), "%.*s", (int)strcspn(list + 1, "\n"), list + 1);
    CHECK_THAT(!strpbrk(cpus, "-,"), "%s", cpus);
    end(&again);
    CHECK_INT(rig_forget(&rig, "saved-one").status, 0);
}

static const char *const kinds[] = {"memory",  "child", "timer", "watch",
                                    "deleted", "pipes", "tcp",   "terminal"};

static void all(const struct rig_jail *jail, const char *verb)
{
    for (size_t i = 0; i < countof(kinds); i++) {
        char command[32];
        (void)snprintf(command, sizeof(command), "%s %s", verb, kinds[i]);
        const char *said = rig_probe(jail, command);
        CHECK_THAT(strcmp(said, "ok") == 0, "%s: %s", command, said);
    }
}

static void everything_a_process_has_is_there_again(void)
{
    struct rig_jail jail = start("one", 0);

    all(&jail, "hold");
    rig_hang_up(&jail);
    CHECK_INT(rig_save(&rig, "one", "saved-one", KEEPER_SAVE_MEMORY | KEEPER_SAVE_STOP).status, 0);
    CHECK_INT(rig_destroy(&rig, "one").status, 0);
    struct rig_jail again = restore("one", 0, "saved-one");
    all(&again, "check");
    end(&again);
    CHECK_INT(rig_forget(&rig, "saved-one").status, 0);
}

static void a_jail_that_is_copied_runs_on(void)
{
    struct rig_jail jail = start("one", 0);
    struct keeper_request attach = {.op = KEEPER_ATTACH, .id = "one"};
    int fds[KEEPER_FDS_MAX];
    char boot[64];

    all(&jail, "hold");
    (void)snprintf(boot, sizeof(boot), "%s",
                   rig_probe(&jail, "read /proc/sys/kernel/random/boot_id"));
    rig_hang_up(&jail);
    struct keeper_answer answer = rig_save(&rig, "one", "saved-one", KEEPER_SAVE_MEMORY);
    CHECK_INT(answer.status, 0);
    CHECK(answer.saved.frozen_usec > 0);
    attach.jail = jail.name;
    CHECK_INT(rig_ask(&rig, &attach, fds).status, 0);
    jail.channel = fds[KEEPER_FD_CHANNEL];
    (void)fcntl(jail.channel, F_SETFL, 0);
    (void)close(fds[KEEPER_FD_PIDFD]);
    fdpass_close(fds + KEEPER_FD_SOCKET, KEEPER_FDS_MAX - KEEPER_FD_SOCKET);
    all(&jail, "check");

    struct rig_jail copy = restore("copy", 1, "saved-one");
    all(&copy, "check");
    CHECK(strcmp(rig_probe(&copy, "read /proc/sys/kernel/random/boot_id"), boot) != 0);
    CHECK_STR(rig_probe(&copy, "write /root/mine copy"), "ok");
    CHECK_STR(rig_probe(&jail, "read /root/mine"), "error ENOENT");
    end(&copy);
    CHECK_STR(rig_probe(&jail, "read /proc/sys/kernel/random/boot_id"), boot);
    end(&jail);
    CHECK_INT(rig_forget(&rig, "saved-one").status, 0);
}

static void ten_copies_go_their_own_ways(void)
{
    enum { COPIES = 10 };
    struct rig_jail jail = start("one", 0);
    struct rig_jail copies[COPIES];

    all(&jail, "hold");
    rig_hang_up(&jail);
    CHECK_INT(rig_save(&rig, "one", "saved-one", KEEPER_SAVE_MEMORY).status, 0);
    for (int i = 0; i < COPIES; i++) {
        char id[8], command[48];
        (void)snprintf(id, sizeof(id), "c%d", i);
        copies[i] = restore(id, (uint32_t)i + 1, "saved-one");
        (void)snprintf(command, sizeof(command), "write /root/mine %d", i);
        CHECK_STR(rig_probe(&copies[i], command), "ok");
        (void)snprintf(command, sizeof(command), "write /dev/shm/mine %d", i);
        CHECK_STR(rig_probe(&copies[i], command), "ok");
    }
    for (int i = 0; i < COPIES; i++) {
        char want[8];
        (void)snprintf(want, sizeof(want), "%d", i);
        CHECK_STR(rig_probe(&copies[i], "read /root/mine"), want);
        CHECK_STR(rig_probe(&copies[i], "read /dev/shm/mine"), want);
        all(&copies[i], "check");
        end(&copies[i]);
    }
    end(&jail);
    CHECK_INT(rig_forget(&rig, "saved-one").status, 0);
}

static void it_can_be_done_again_and_again(void)
{
    enum { ROUNDS = 20 };
    struct rig_jail jail = start("one", 0);

    all(&jail, "hold");
    for (int i = 0; i < ROUNDS; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "saved-%d", i);
        rig_hang_up(&jail);
        CHECK_INT(rig_save(&rig, "one", name, KEEPER_SAVE_MEMORY | KEEPER_SAVE_STOP).status, 0);
        CHECK_INT(rig_destroy(&rig, "one").status, 0);
        (void)close(jail.pidfd);
        jail = restore("one", (uint32_t)i % 3, name);
        all(&jail, "check");
        CHECK_INT(rig_forget(&rig, name).status, 0);
    }
    end(&jail);
}

/* The saved disk is not needed: what the jail left is used as it is. */
static void its_own_disk_will_do(void)
{
    struct rig_jail jail = start("one", 0);
    struct keeper_request req = rig_create_request("one", 0, "base");

    all(&jail, "hold");
    rig_hang_up(&jail);
    CHECK_INT(rig_save(&rig, "one", "saved-one", KEEPER_SAVE_MEMORY | KEEPER_SAVE_STOP).status, 0);
    (void)close(jail.pidfd);
    req.op = KEEPER_RESTORE;
    req.plan.keeps_disk = 1;
    (void)snprintf(req.plan.from, sizeof(req.plan.from), "saved-one");
    CHECK_INT(rig_create(&rig, &req, &jail).status, 0);
    all(&jail, "check");
    end(&jail);
    CHECK_INT(rig_forget(&rig, "saved-one").status, 0);
}

static void a_socket_that_cannot_be_saved_is_named(void)
{
    struct rig_jail jail = start("one", 0);
    struct keeper_request list = {.op = KEEPER_LIST_SAVED};

    CHECK_STR(rig_probe(&jail, "hold child"), "ok");
    struct keeper_answer answer =
        rig_save(&rig, "one", "saved-one", KEEPER_SAVE_MEMORY | KEEPER_SAVE_STOP);
    CHECK_INT(answer.status, -EAGAIN);
    /* Its child has it too: either may be named. */
    CHECK_THAT(strstr(answer.err.msg, " (agent) holds a unix socket whose other end is outside the "
                                      "sandbox, which cannot be saved"),
               "it says: %s", answer.err.msg);
    CHECK_INT(rig_ask(&rig, &list, NULL).status, -ENOENT);
    CHECK_STR(rig_probe(&jail, "check child"), "ok");            /* it runs on */
    CHECK_INT(rig_save(&rig, "one", "saved-disk", 0).status, 0); /* and its disk can be saved */
    end(&jail);
    CHECK_INT(rig_forget(&rig, "saved-disk").status, 0);
}

static void a_traced_process_is_named(void)
{
    struct rig_jail jail = start("one", 0);

    CHECK_STR(rig_probe(&jail, "hold traced"), "ok");
    struct keeper_answer answer =
        rig_save(&rig, "one", "saved-one", KEEPER_SAVE_MEMORY | KEEPER_SAVE_STOP);
    CHECK_INT(answer.status, -ENOTSUP);
    CHECK_STR(answer.err.msg, "save jail one: process 2 (agent) is being traced by another");
    CHECK_STR(rig_probe(&jail, "read /proc/1/comm"), "agent\n");
    end(&jail);
}

static void connections_out_are_reset(void)
{
    struct keeper_request req = rig_create_request("one", 0, "base");
    int fds[KEEPER_FDS_MAX];

    req.plan.network = 1;
    struct keeper_answer answer = rig_ask(&rig, &req, fds);
    CHECK_INT(answer.status, 0);
    struct rig_jail jail = {.id = "one", .name = answer.jail, .channel = fds[KEEPER_FD_CHANNEL]};
    (void)fcntl(jail.channel, F_SETFL, 0);
    CHECK_STR(rig_probe(&jail, "hold outward"), "ok");
    CHECK_STR(rig_probe(&jail, "hold tcp"), "ok");
    rig_hang_up(&jail);
    CHECK_INT(rig_save(&rig, "one", "saved-one", KEEPER_SAVE_MEMORY | KEEPER_SAVE_STOP).status, 0);
    CHECK_INT(rig_destroy(&rig, "one").status, 0);
    for (int i = 0; i < KEEPER_FDS_MAX; i++) {
        (void)close(i == KEEPER_FD_CHANNEL ? -1 : fds[i]);
    }
    req.op = KEEPER_RESTORE;
    (void)snprintf(req.plan.from, sizeof(req.plan.from), "saved-one");
    answer = rig_ask(&rig, &req, fds);
    CHECK_INT(answer.status, 0);
    CHECK(fds[KEEPER_FD_GATE] >= 0 && fds[KEEPER_FD_DNS_UDP] >= 0);
    struct rig_jail again = {.id = "one", .name = answer.jail, .channel = fds[KEEPER_FD_CHANNEL]};
    (void)fcntl(again.channel, F_SETFL, 0);
    CHECK_STR(rig_probe(&again, "check outward"), "ok");
    CHECK_STR(rig_probe(&again, "check tcp"), "ok");
    CHECK_STR(rig_probe(&again, "hold outward"), "ok"); /* and a new one goes out */
    CHECK_INT(rig_destroy(&rig, "one").status, 0);
    for (int i = 0; i < KEEPER_FDS_MAX; i++) {
        (void)close(fds[i]);
    }
    CHECK_INT(rig_forget(&rig, "saved-one").status, 0);
}

/* CRIU works in the jail's groups: what it takes itself must not cost the jail its life. */
static void a_jail_at_its_limits_goes_on(void)
{
    struct rig_jail jail = start("one", 0);
    struct keeper_request usage = {.op = KEEPER_USAGE, .id = "one"};

    CHECK_STR(rig_probe(&jail, "hold much"), "ok");
    rig_hang_up(&jail);
    CHECK_INT(rig_save(&rig, "one", "saved-one", KEEPER_SAVE_MEMORY | KEEPER_SAVE_STOP).status, 0);
    CHECK_INT(rig_destroy(&rig, "one").status, 0);
    (void)close(jail.pidfd);
    struct rig_jail again = restore("one", 0, "saved-one");
    CHECK_STR(rig_probe(&again, "check much"), "ok");
    CHECK(rig_ask(&rig, &usage, NULL).usage.memory_bytes <= 128u << 20);
    CHECK_STR(rig_probe(&again, "hog 64"), "signal 9"); /* and its limit is its limit */
    end(&again);
    CHECK_INT(rig_forget(&rig, "saved-one").status, 0);
}

/* CRIU writes pages that processes share once for each of them: a small jail could fill the pool.
 */
static void a_small_jail_does_not_fill_the_pool(void)
{
    struct keeper_request req = rig_create_request("one", 0, "base");
    struct rig_jail jail = {.pidfd = -1, .channel = -1};

    req.plan.pids = 128;
    CHECK_INT(rig_create(&rig, &req, &jail).status, 0);
    CHECK_STR(rig_probe(&jail, "hold family"), "ok");
    rig_hang_up(&jail);
    struct keeper_answer answer = rig_save(&rig, "one", "saved-one", KEEPER_SAVE_MEMORY);
    CHECK_INT(answer.status, -ENOSPC);
    CHECK_THAT(strstr(answer.err.msg, "share"), "it says: %s", answer.err.msg);
    CHECK_INT(rig_forget(&rig, "saved-one").status, 0);
    CHECK_INT(rig_destroy(&rig, "one").status, 0); /* it ran on, or there is nothing to end */
    (void)close(jail.pidfd);
}

/* At several moments of it: whatever became of the work, nothing is left when destroy is answered.
 */
static void a_jail_can_be_destroyed_while_it_is_worked_on(void)
{
    struct rig beside = rig_beside(&rig);
    struct rig_jail source = start("source", 5);

    CHECK_STR(rig_probe(&source, "hold memory"), "ok");
    rig_hang_up(&source);
    CHECK_INT(rig_save(&rig, "source", "saved-source", KEEPER_SAVE_MEMORY).status, 0);
    for (unsigned i = 0; i < 10; i++) {
        struct keeper_request work = {.op = KEEPER_SAVE,
                                      .id = "one",
                                      .save = {.name = "saved-one", .flags = KEEPER_SAVE_MEMORY}};
        struct rig_jail jail = {.pidfd = -1, .channel = -1};
        int fds[KEEPER_FDS_MAX];
        if (i % 2) {
            work = rig_create_request("one", 0, "base");
            work.op = KEEPER_RESTORE;
            (void)snprintf(work.plan.from, sizeof(work.plan.from), "saved-source");
        } else {
            jail = start("one", 0);
            rig_hang_up(&jail);
        }
        rig_send(&rig, &work);
        (void)usleep(i * 15 * 1000);
        CHECK_INT(rig_destroy(&beside, "one").status, 0);
        CHECK(!rig_trace_left(&rig, "one"));
        struct keeper_answer answer = rig_receive(&rig, fds);
        printf("# %s: %s\n", i % 2 ? "restore" : "save", answer.status ? answer.err.msg : "done");
        for (int k = 0; k < KEEPER_FDS_MAX; k++) {
            (void)close(fds[k]);
        }
        (void)close(jail.pidfd);
        CHECK_INT(rig_forget(&rig, "saved-one").status, 0);
    }
    end(&source);
    (void)close(beside.fd);
    CHECK_INT(rig_forget(&rig, "saved-source").status, 0);
}

static void what_was_saved_without_memory_is_not_restored(void)
{
    struct rig_jail jail = start("one", 0);
    struct keeper_request req = rig_create_request("two", 1, "base");

    CHECK_INT(rig_save(&rig, "one", "saved-disk", 0).status, 0);
    end(&jail);
    req.op = KEEPER_RESTORE;
    (void)snprintf(req.plan.from, sizeof(req.plan.from), "saved-disk");
    struct keeper_answer answer = rig_ask(&rig, &req, NULL);
    CHECK_INT(answer.status, -ENOENT);
    CHECK_STR(answer.err.msg, "saved-disk was saved without its memory");
    CHECK(!rig_trace_left(&rig, "two"));
    CHECK_INT(rig_forget(&rig, "saved-disk").status, 0);
}

static struct keeper_request with_volume(struct keeper_request req)
{
    req.plan.volumes_n = 1;
    (void)snprintf(req.plan.volumes[0].volume, KEEPER_VOLUME_BYTES, "shared");
    (void)snprintf(req.plan.volumes[0].path, KEEPER_VOLUME_PATH_BYTES, "/mnt/shared data");
    return req;
}

/* What a volume holds is not saved with the jail: it is there again, as it is by then. */
static void volumes_are_there_again(void)
{
    struct keeper_request make = {.op = KEEPER_VOLUME_MAKE,
                                  .volume = {.name = "shared", .size_mb = 64}};
    struct keeper_request drop = {.op = KEEPER_VOLUME_REMOVE, .volume = {.name = "shared"}};
    struct keeper_request req = with_volume(rig_create_request("one", 0, "base"));
    struct rig_jail jail, copy;
    char path[160];

    CHECK_INT(rig_ask(&rig, &make, NULL).status, 0);
    CHECK_INT(rig_create(&rig, &req, &jail).status, 0);
    CHECK_STR(rig_probe(&jail, "hold volume"), "ok");
    rig_hang_up(&jail);
    CHECK_INT(rig_save(&rig, "one", "saved-one", KEEPER_SAVE_MEMORY).status, 0);
    CHECK_INT(rig_destroy(&rig, "one").status, 0);
    (void)close(jail.pidfd);
    (void)snprintf(path, sizeof(path), "%s/volumes/shared/outside", rig.pool);
    CHECK_INT(close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644)), 0);

    req = with_volume(rig_create_request("copy", 3, "base"));
    req.op = KEEPER_RESTORE;
    (void)snprintf(req.plan.from, sizeof(req.plan.from), "saved-one");
    CHECK_INT(rig_create(&rig, &req, &copy).status, 0);
    CHECK_STR(rig_probe(&copy, "check volume"), "ok");
    CHECK_INT(rig_ask(&rig, &drop, NULL).status, -EBUSY);
    end(&copy);
    CHECK_INT(rig_ask(&rig, &drop, NULL).status, 0);
    CHECK_INT(rig_forget(&rig, "saved-one").status, 0);
}

int main(int argc, char **argv)
{
    static const struct check_test tests[] = {
        {"a jail goes on where it was", a_jail_goes_on_where_it_was},
        {"a jail is shown the size that it has now", a_jail_is_shown_the_size_that_it_has_now},
        {"everything a process has is there again", everything_a_process_has_is_there_again},
        {"a jail that is copied runs on", a_jail_that_is_copied_runs_on},
        {"ten copies go their own ways", ten_copies_go_their_own_ways},
        {"it can be done again and again", it_can_be_done_again_and_again},
        {"its own disk will do", its_own_disk_will_do},
        {"a socket that cannot be saved is named", a_socket_that_cannot_be_saved_is_named},
        {"a traced process is named", a_traced_process_is_named},
        {"connections out are reset", connections_out_are_reset},
        {"volumes are there again", volumes_are_there_again},
        {"a jail at its limits goes on", a_jail_at_its_limits_goes_on},
        {"a small jail does not fill the pool", a_small_jail_does_not_fill_the_pool},
        {"a jail can be destroyed while it is worked on",
         a_jail_can_be_destroyed_while_it_is_worked_on},
        {"what was saved without memory is not restored",
         what_was_saved_without_memory_is_not_restored},
    };

    return rig_main(&rig, argc, argv, NULL, tests, countof(tests));
}
