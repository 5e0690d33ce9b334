/* Jails with a single process, saved without CRIU. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "inside/stow/stow.h"
#include "keeper/checkpoint/alone.h"
#include "rig.h"

static struct rig rig;

/* ---- helpers ---- */

static struct rig_jail start(void)
{
    struct keeper_request req = rig_create_request("one", 0, "base");
    struct rig_jail jail = {.pidfd = -1, .channel = -1};

    (void)rig_create(&rig, &req, &jail); /* one that failed answers no probe */
    return jail;
}

/* The descriptors of the answer, or -1. */
static struct keeper_answer save_both(int *files, int *disk)
{
    struct keeper_request req = {.op = KEEPER_SAVE, .id = "one"};
    int fds[KEEPER_FDS_MAX] = KEEPER_FDS_NONE;

    (void)snprintf(req.save.name, sizeof(req.save.name), "saved-alone");
    req.save.flags = KEEPER_SAVE_ALONE;
    struct keeper_answer answer = rig_ask(&rig, &req, fds);
    *files = fds[KEEPER_FD_FILES];
    *disk = fds[KEEPER_FD_DISK];
    return answer;
}

static struct keeper_answer save(int *files)
{
    int disk;
    struct keeper_answer answer = save_both(files, &disk);

    if (disk >= 0) {
        (void)close(disk);
    }
    return answer;
}

static struct rig_jail copy(void)
{
    struct keeper_request req = rig_create_request("copy", 1, "base");
    struct rig_jail jail = {.pidfd = -1, .channel = -1};

    (void)snprintf(req.plan.from, sizeof(req.plan.from), "saved-alone");
    (void)rig_create(&rig, &req, &jail);
    return jail;
}

/* It is refused, says why, leaves nothing behind, and the jail runs on. */
static void refused(struct rig_jail *jail, const char *why)
{
    int files;
    struct keeper_answer answer = save(&files);

    CHECK_INT(answer.status, -EBUSY);
    CHECK_THAT(strstr(answer.err.msg, why), "%s", answer.err.msg);
    CHECK_INT(files, -1);
    CHECK_STR(rig_probe(jail, "write /root/after x"), "ok");
    struct rig_jail none = copy();
    CHECK_INT(none.pidfd, -1);
    rig_end(&rig, jail);
}

/* ---- the tests ---- */

/* Reads what the keeper wrote into a directory of the test's. */
static void files_read(int files, char dir[32])
{
    struct err err;

    (void)snprintf(dir, 32, "/tmp/alone.XXXXXX");
    CHECK(mkdtemp(dir));
    int top = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = stow_read(files, top, &err);
    CHECK_THAT(r == 0, "%s", err.msg);
    (void)close(top);
}

static void has(const char *dir, const char *name, const char *text)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    CHECK_STR(rig_host_read(path), text);
}

static void removed(const char *dir)
{
    char command[64];

    (void)snprintf(command, sizeof(command), "rm -rf %s", dir);
    CHECK_INT(system(command), 0); /* NOLINT(cert-env33-c): a directory of this test's */
}

static void a_disk_with_a_few_files_is_handed_out(void)
{
    struct rig_jail jail = start();
    char dir[32];
    int files, disk;

    CHECK_STR(rig_probe(&jail, "write /root/file disk"), "ok");
    CHECK_STR(rig_probe(&jail, "link /root/file /root/again"), "ok");
    struct keeper_answer answer = save_both(&files, &disk);
    CHECK_THAT(answer.status == 0, "%s", answer.err.msg);
    CHECK(answer.saved.frozen_usec > 0);
    CHECK(files >= 0 && disk >= 0);
    CHECK_INT(fcntl(disk, F_GET_SEALS), F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_WRITE | F_SEAL_SEAL);
    CHECK_STR(rig_probe(&jail, "write /root/file later"), "ok"); /* the channel stayed open */
    files_read(disk, dir);
    has(dir, "root/file", "disk");
    has(dir, "root/again", "disk");
    removed(dir);
    struct rig_jail none = copy(); /* nothing was saved */
    CHECK_INT(none.pidfd, -1);
    (void)close(files);
    (void)close(disk);
    rig_end(&rig, &jail);
}

/* Each needs a snapshot. */
static void snapshot_taken(struct rig_jail *jail)
{
    int files, disk;
    struct keeper_answer answer = save_both(&files, &disk);

    CHECK_THAT(answer.status == 0, "%s", answer.err.msg);
    CHECK_INT(files, -1);
    CHECK_INT(disk, -1);
    struct rig_jail made = copy();
    CHECK_STR(rig_probe(&made, "read /root/file"), "disk");
    rig_end(&rig, &made);
    rig_end(&rig, jail);
    CHECK_INT(rig_forget(&rig, "saved-alone").status, 0);
}

static void all_other_disks_are_saved_as_snapshots(void)
{
    static const char *const makes[] = {
        "remove /opt/old",       /* a whiteout */
        "rename /opt /moved",    /* a redirect */
        "fifo /root/fifo",       /* no plain file */
        "reserve /root/large 5", /* room that is taken, and nothing written to it */
        "fill /root/large 5",    /* more bytes than an image has */
        "files /root/f 600",     /* more files */
    };

    for (size_t i = 0; i < countof(makes); i++) {
        struct rig_jail jail = start();
        CHECK_STR(rig_probe(&jail, "write /root/file disk"), "ok");
        const char *said = rig_probe(&jail, makes[i]);
        CHECK_THAT(strstr(said, "ok"), "%s: %s", makes[i], said);
        snapshot_taken(&jail);
    }
}

static void files_in_memory_are_handed_out(void)
{
    struct rig_jail jail = start();
    char dir[32], path[128];
    struct stat st;
    int files;

    CHECK_STR(rig_probe(&jail, "write /run/one first"), "ok");
    CHECK_STR(rig_probe(&jail, "mkdir /run/deep"), "ok");
    CHECK_STR(rig_probe(&jail, "write /run/deep/two second"), "ok");
    CHECK_STR(rig_probe(&jail, "write /dev/shm/three third"), "ok");
    CHECK_STR(rig_probe(&jail, "write /run/lock/four fourth"), "ok");
    struct keeper_answer answer = save(&files);
    CHECK_THAT(answer.status == 0, "%s", answer.err.msg);
    CHECK(files >= 0);
    CHECK_INT(fcntl(files, F_GET_SEALS), F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_WRITE | F_SEAL_SEAL);
    files_read(files, dir);
    has(dir, "one", "first");
    has(dir, "deep/two", "second");
    has(dir, "atoll/shm/three", "third");
    has(dir, "lock/four", "fourth");
    (void)snprintf(path, sizeof(path), "%s/one", dir);
    CHECK_INT(stat(path, &st), 0);
    CHECK_INT(st.st_uid, 0); /* as it is inside, not the jail's range */
    (void)snprintf(path, sizeof(path), "%s/atoll/agent", dir);
    CHECK_INT(access(path, F_OK), -1);
    removed(dir);
    (void)close(files);
    rig_end(&rig, &jail);
}

static void hostile_files_cost_no_more_than_their_bytes(void)
{
    struct rig_jail jail = start();
    struct stat st;
    int files;

    CHECK_STR(rig_probe(&jail, "sparse /run/sparse 1099511627776"), "ok");
    CHECK_STR(rig_probe(&jail, "fifo /run/fifo"), "ok");
    CHECK_STR(rig_probe(&jail, "symlink /etc/shadow /run/link"), "ok");
    struct keeper_answer answer = save(&files);
    CHECK_THAT(answer.status == 0, "%s", answer.err.msg);
    CHECK_INT(fstat(files, &st), 0);
    CHECK(st.st_size > 0 && st.st_size < 16 * 1024);
    (void)close(files);
    rig_end(&rig, &jail);
}

static void another_process_refuses_it(void)
{
    struct rig_jail jail = start();

    CHECK_STR(rig_probe(&jail, "hold child"), "ok");
    refused(&jail, "more than one process");
}

static void system_v_objects_refuse_it(void)
{
    static const char *const kinds[] = {"ipc shm", "ipc sem", "ipc msg"};

    for (size_t i = 0; i < countof(kinds); i++) {
        struct rig_jail jail = start();
        CHECK_STR(rig_probe(&jail, kinds[i]), "ok");
        refused(&jail, "System V objects");
    }
}

static void a_message_queue_refuses_it(void)
{
    struct rig_jail jail = start();

    CHECK_STR(rig_probe(&jail, "ipc queue"), "ok");
    refused(&jail, "message queues");
}

static void too_much_in_memory_refuses_it(void)
{
    struct rig_jail jail = start();
    char command[64];

    (void)snprintf(command, sizeof(command), "fill /dev/shm/much %d",
                   ALONE_FILES_BYTES_MAX / 1024 / 1024 + 1);
    CHECK(strstr(rig_probe(&jail, command), "ok"));
    refused(&jail, "more than");
}

static void a_changed_dev_refuses_it(void)
{
    struct rig_jail jail = start();

    CHECK_STR(rig_probe(&jail, "write /dev/own x"), "ok");
    refused(&jail, "it has atoll/dev/own");
    jail = start();
    CHECK_STR(rig_probe(&jail, "remove /dev/stdout"), "ok");
    refused(&jail, "lacks files of its /dev");
    jail = start();
    CHECK_STR(rig_probe(&jail, "rename /run/atoll/shm /run/atoll/away"), "ok");
    refused(&jail, "it has atoll/away");
}

static void a_jail_that_is_gone_is_not_saved(void)
{
    int files;

    CHECK_INT(save(&files).status, -ENOENT);
    CHECK_INT(files, -1);
}

static void no_other_flag_goes_with_it(void)
{
    struct keeper_request req = {.op = KEEPER_SAVE, .id = "one"};

    (void)snprintf(req.save.name, sizeof(req.save.name), "saved-alone");
    req.save.flags = KEEPER_SAVE_ALONE | KEEPER_SAVE_STOP;
    CHECK_INT(rig_ask(&rig, &req, NULL).status, -EINVAL);
}

int main(int argc, char **argv)
{
    static const struct check_test tests[] = {
        {"a disk with a few files is handed out", a_disk_with_a_few_files_is_handed_out},
        {"all other disks are saved as snapshots", all_other_disks_are_saved_as_snapshots},
        {"files in memory are handed out", files_in_memory_are_handed_out},
        {"hostile files cost no more than their bytes",
         hostile_files_cost_no_more_than_their_bytes},
        {"another process refuses it", another_process_refuses_it},
        {"System V objects refuse it", system_v_objects_refuse_it},
        {"a message queue refuses it", a_message_queue_refuses_it},
        {"too much in memory refuses it", too_much_in_memory_refuses_it},
        {"a changed /dev refuses it", a_changed_dev_refuses_it},
        {"a jail that is gone is not saved", a_jail_that_is_gone_is_not_saved},
        {"no other flag goes with it", no_other_flag_goes_with_it},
    };

    return rig_main(&rig, argc, argv, NULL, tests, countof(tests));
}
