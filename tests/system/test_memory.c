/* Jails saved with their processes, and jails that go on where those were. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "rig.h"

static struct rig rig;

/* ---- helpers ---- */

static struct keeper_answer save(const char *id, const char *name, uint32_t flags)
{
    struct keeper_request req = {.op = KEEPER_SAVE, .save = {.flags = flags}};

    (void)snprintf(req.id, sizeof(req.id), "%s", id);
    (void)snprintf(req.save.name, sizeof(req.save.name), "%s", name);
    struct keeper_answer answer = rig_ask(&rig, &req, NULL);
    if (answer.status < 0) {
        printf("# save: %s\n", answer.err.msg);
    }
    return answer;
}

static struct keeper_answer forget(const char *name)
{
    struct keeper_request req = {.op = KEEPER_FORGET};

    (void)snprintf(req.save.name, sizeof(req.save.name), "%s", name);
    return rig_ask(&rig, &req, NULL);
}

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

static void hang_up(struct rig_jail *jail)
{
    (void)close(jail->channel);
    jail->channel = -1;
}

static void end(struct rig_jail *jail)
{
    CHECK_INT(rig_destroy(&rig, jail->id).status, 0);
    (void)close(jail->pidfd);
    hang_up(jail);
}

/* ---- the tests ---- */

static void a_jail_goes_on_where_it_was(void)
{
    struct rig_jail jail = start("one", 0);

    CHECK_STR(rig_probe(&jail, "write /root/file disk"), "ok");
    CHECK_STR(rig_probe(&jail, "write /dev/shm/file memory"), "ok");
    hang_up(&jail);
    struct keeper_answer answer =
        save("one", "saved-one", KEEPER_SAVE_MEMORY | KEEPER_SAVE_STOP | KEEPER_SAVE_SYNC);
    CHECK_INT(answer.status, 0);
    CHECK(answer.saved.memory_bytes > 0);
    CHECK_INT(rig_destroy(&rig, "one").status, 0);
    struct rig_jail again = restore("one", 5, "saved-one");
    CHECK_STR(rig_probe(&again, "read /root/file"), "disk");
    CHECK_STR(rig_probe(&again, "read /dev/shm/file"), "memory");
    end(&again);
    CHECK_INT(forget("saved-one").status, 0);
}

int main(int argc, char **argv)
{
    static const struct check_test tests[] = {
        {"a jail goes on where it was", a_jail_goes_on_where_it_was},
    };

    if (argc < 2 || geteuid() != 0) {
        printf("1..0 # SKIP needs root, and the probe's path as its argument\n");
        return 0;
    }
    rig_open(&rig, argv[1]);
    rig_layer(&rig, "base");
    int code = check_run(tests, countof(tests));
    rig_close(&rig);
    return code;
}
