/* The limit of a disk, over pauses, snapshots and copies; with simple quotas, where the kernel has
 * them, and with full ones. */
#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "keeper/disk/subvol.h"
#include "lib/base/fd.h"
#include "rig.h"

static struct rig rig;

enum {
    DISK_MB = 100,
    PART_MB = 30,
    SLACK_MB = 4, /* what btrfs keeps of files beside their content, and guesses of it */
    STOP = KEEPER_SAVE_STOP,
    PATIENCE_MS = 60 * 1000,
};

/* ---- helpers ---- */

static struct rig_jail start(const char *id, const char *from, enum keeper_op op)
{
    struct keeper_request req = rig_create_request(id, 1, "base");
    struct rig_jail jail = {.pidfd = -1, .channel = -1};

    (void)snprintf(jail.id, sizeof(jail.id), "%s", id);
    req.op = op;
    req.plan.uid_slot = (uint32_t)(id[0] - 'a'); /* of its own for each letter */
    req.plan.disk_mb = DISK_MB;
    (void)snprintf(req.plan.from, sizeof(req.plan.from), "%s", from);
    (void)rig_create(&rig, &req, &jail); /* one that failed answers no probe */
    return jail;
}

/* Pauses it and has it go on, with its disk alone or with its memory too. */
static void pause_and_resume(struct rig_jail *jail, uint32_t flags)
{
    char id[KEEPER_ID_BYTES];

    (void)snprintf(id, sizeof(id), "%s", jail->id);
    rig_hang_up(jail);
    CHECK_INT(rig_save(&rig, id, "saved-pause", flags | STOP | KEEPER_SAVE_SYNC).status, 0);
    (void)close(jail->pidfd);
    CHECK_INT(rig_destroy(&rig, id).status, 0);
    *jail = start(id, "saved-pause", flags & KEEPER_SAVE_MEMORY ? KEEPER_RESTORE : KEEPER_CREATE);
    CHECK_INT(rig_forget(&rig, "saved-pause").status, 0);
}

static const char *fill(const struct rig_jail *jail, const char *name, int megabytes)
{
    char command[64];

    (void)snprintf(command, sizeof(command), "fill /root/%s %d", name, megabytes);
    return rig_probe(jail, command);
}

static int filled(const struct rig_jail *jail, const char *name, int megabytes)
{
    return atoi(fill(jail, name, megabytes));
}

static void check_part(const struct rig_jail *jail, const char *name)
{
    char said[16];

    (void)snprintf(said, sizeof(said), "%d ok", PART_MB);
    CHECK_STR(fill(jail, name, PART_MB), said);
}

static void check_full_after(const struct rig_jail *jail, const char *name, int megabytes)
{
    const char *said = fill(jail, name, 2 * DISK_MB);

    CHECK_THAT(!strstr(said, "ok"), "it says %s", said);
    CHECK_THAT(atoi(said) <= megabytes && atoi(said) >= megabytes - 2 * SLACK_MB, "it says %s",
               said);
}

static void file_remove(const struct rig_jail *jail, const char *name)
{
    char command[64];

    (void)snprintf(command, sizeof(command), "remove /root/%s", name);
    CHECK_STR(rig_probe(jail, command), "ok");
}

static void disk_sync(void)
{
    scoped_fd fd = open(rig.pool, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    /* The kernel's own sync of btrfs: subvolumes that were removed are freed soon after. */
    CHECK_INT(ioctl(fd, BTRFS_IOC_SYNC, NULL), 0);
}

static int used_mb(const char *id)
{
    struct keeper_request req = {.op = KEEPER_USAGE};

    disk_sync();
    (void)snprintf(req.id, sizeof(req.id), "%s", id);
    return (int)(rig_ask(&rig, &req, NULL).usage.disk_bytes >> 20);
}

/* The server asks for usage all the time: the keeper measures when it is asked, and then takes a
 * moment. */
static bool has_room_soon(const struct rig_jail *jail, const char *name, int megabytes)
{
    for (int waited_ms = 0; waited_ms < PATIENCE_MS; waited_ms += 500) {
        (void)used_mb(jail->id);
        if (filled(jail, name, megabytes) == megabytes) {
            return true;
        }
        (void)rig_probe(jail, "remove /root/again");
        (void)poll(NULL, 0, 500);
    }
    return false;
}

/* ---- the tests ---- */

static void a_limit_follows_a_sandbox_over_pauses(void)
{
    struct rig_jail jail = start("a", "", KEEPER_CREATE);

    check_part(&jail, "one");
    pause_and_resume(&jail, 0);
    check_part(&jail, "two");
    pause_and_resume(&jail, 0);
    CHECK_THAT(used_mb("a") >= 2 * PART_MB && used_mb("a") <= 2 * PART_MB + SLACK_MB,
               "%d MB are in use", used_mb("a"));
    check_part(&jail, "three");
    pause_and_resume(&jail, 0);
    check_full_after(&jail, "four", DISK_MB - 3 * PART_MB);
    rig_end(&rig, &jail);
}

static void what_it_deletes_gives_room_after_pauses(void)
{
    struct rig_jail jail = start("a", "", KEEPER_CREATE);

    check_part(&jail, "one");
    check_part(&jail, "two");
    pause_and_resume(&jail, 0);
    check_full_after(&jail, "three", DISK_MB - 2 * PART_MB);
    file_remove(&jail, "one");
    CHECK(has_room_soon(&jail, "again", PART_MB));
    pause_and_resume(&jail, 0);
    check_full_after(&jail, "four", SLACK_MB);
    rig_end(&rig, &jail);
}

static void a_full_disk_is_paused_and_goes_on(void)
{
    struct rig_jail jail = start("a", "", KEEPER_CREATE);

    check_full_after(&jail, "all", DISK_MB);
    pause_and_resume(&jail, 0);
    CHECK_THAT(filled(&jail, "more", 10) <= SLACK_MB, "there is room");
    pause_and_resume(&jail, KEEPER_SAVE_MEMORY);
    CHECK_THAT(filled(&jail, "most", 10) <= SLACK_MB, "there is room");
    pause_and_resume(&jail, KEEPER_SAVE_MEMORY);
    CHECK_STR(rig_probe(&jail, "read /proc/1/comm"), "agent\n");
    file_remove(&jail, "all");
    CHECK(has_room_soon(&jail, "again", PART_MB));
    rig_end(&rig, &jail);
}

/* Twelve pauses of a full disk: each needs some blocks, and they may not add up. */
static void pauses_themselves_take_no_room(void)
{
    struct rig_jail jail = start("a", "", KEEPER_CREATE);

    check_part(&jail, "one");
    for (int i = 0; i < 12; i++) {
        pause_and_resume(&jail, 0);
    }
    CHECK_THAT(used_mb("a") <= PART_MB + SLACK_MB, "%d MB are in use", used_mb("a"));
    check_full_after(&jail, "two", DISK_MB - PART_MB);
    rig_end(&rig, &jail);
}

static void a_copy_counts_what_it_was_born_with(void)
{
    struct rig_jail jail = start("a", "", KEEPER_CREATE);

    check_part(&jail, "one");
    check_part(&jail, "two");
    CHECK_INT(rig_save(&rig, "a", "saved-copy", 0).status, 0);
    struct rig_jail copy = start("b", "saved-copy", KEEPER_CREATE);
    struct rig_jail other = start("c", "saved-copy", KEEPER_CREATE);
    CHECK_THAT(used_mb("b") >= 2 * PART_MB && used_mb("b") <= 2 * PART_MB + SLACK_MB,
               "%d MB are in use", used_mb("b"));
    check_full_after(&copy, "three", DISK_MB - 2 * PART_MB);
    pause_and_resume(&copy, 0);
    CHECK_THAT(filled(&copy, "more", 10) <= SLACK_MB, "there is room");
    check_part(&other, "three");

    file_remove(&copy, "one"); /* which the save and two others hold */
    CHECK(has_room_soon(&copy, "again", PART_MB));
    CHECK_THAT(filled(&copy, "most", 2 * PART_MB) <= SLACK_MB, "there is room");
    file_remove(&other, "one");
    file_remove(&other, "two");
    CHECK(has_room_soon(&other, "again", 2 * PART_MB)); /* more than it seemed to have, at once */
    rig_end(&rig, &copy);
    rig_end(&rig, &other);
    rig_end(&rig, &jail);
    CHECK_INT(rig_forget(&rig, "saved-copy").status, 0);
}

static void one_that_was_copied_has_room_for_what_it_deletes(void)
{
    struct rig_jail jail = start("a", "", KEEPER_CREATE);

    check_part(&jail, "one");
    check_part(&jail, "two");
    CHECK_INT(rig_save(&rig, "a", "saved-copy", 0).status, 0);
    check_full_after(&jail, "three", DISK_MB - 2 * PART_MB);
    file_remove(&jail, "one");
    CHECK(has_room_soon(&jail, "again", PART_MB));
    pause_and_resume(&jail, 0);
    CHECK_THAT(filled(&jail, "most", 2 * PART_MB) <= SLACK_MB, "there is room");
    file_remove(&jail, "two");
    file_remove(&jail, "again");
    CHECK(has_room_soon(&jail, "again", PART_MB));
    rig_end(&rig, &jail);
    CHECK_INT(rig_forget(&rig, "saved-copy").status, 0);
}

/* A chain of copies, each of which was paused first. */
static void a_limit_follows_from_copy_to_copy(void)
{
    struct rig_jail jail = start("a", "", KEEPER_CREATE);

    check_part(&jail, "one");
    CHECK_INT(rig_save(&rig, "a", "saved-first", 0).status, 0);
    rig_end(&rig, &jail);
    jail = start("b", "saved-first", KEEPER_CREATE);
    pause_and_resume(&jail, 0);
    check_part(&jail, "two");
    CHECK_INT(rig_save(&rig, "b", "saved-second", 0).status, 0);
    rig_end(&rig, &jail);
    jail = start("c", "saved-second", KEEPER_CREATE);
    check_part(&jail, "three");
    check_full_after(&jail, "four", DISK_MB - 3 * PART_MB);
    rig_end(&rig, &jail);
    CHECK_INT(rig_forget(&rig, "saved-first").status, 0);
    CHECK_INT(rig_forget(&rig, "saved-second").status, 0);
}

/* It left no records: what it saved is measured. */
static void what_an_earlier_release_saved_has_its_limit(void)
{
    char path[160];
    struct rig_jail jail = start("a", "", KEEPER_CREATE);

    check_part(&jail, "one");
    check_part(&jail, "two");
    rig_hang_up(&jail);
    CHECK_INT(rig_save(&rig, "a", "saved-early", STOP).status, 0);
    (void)close(jail.pidfd);
    CHECK_INT(rig_destroy(&rig, "a").status, 0);
    (void)snprintf(path, sizeof(path), "%s/saved/saved-early/charge", rig.pool);
    (void)unlink(path);
    jail = start("a", "saved-early", KEEPER_CREATE);
    CHECK_INT(rig_forget(&rig, "saved-early").status, 0);

    /* A jail that it had resumed keeps running under this release. */
    (void)snprintf(path, sizeof(path), "%s/charges/a", rig.pool);
    (void)unlink(path);
    pause_and_resume(&jail, 0);
    check_full_after(&jail, "three", DISK_MB - 2 * PART_MB);
    rig_end(&rig, &jail);
}

static void the_next_keeper_knows_the_limit(void)
{
    struct rig_jail jail = start("a", "", KEEPER_CREATE);

    check_part(&jail, "one");
    pause_and_resume(&jail, 0);
    rig_keeper_kill(&rig);
    rig_keeper_start(&rig);
    CHECK_THAT(used_mb("a") >= PART_MB && used_mb("a") <= PART_MB + SLACK_MB, "%d MB are in use",
               used_mb("a"));
    check_full_after(&jail, "two", DISK_MB - PART_MB);
    rig_end(&rig, &jail);
}

/* ---- leftovers ---- */

static int groups_n(void)
{
    char command[128], line[16] = "";

    (void)snprintf(command, sizeof(command), "btrfs qgroup show %s | grep -c '^[01]/[0-9]'",
                   rig.pool);
    FILE *said = popen(command, "re");
    const bool is_said = said && fgets(line, sizeof(line), said);
    return said && pclose(said) >= 0 && is_said ? atoi(line) : -1;
}

static void nothing_is_left_of_groups_and_records(void)
{
    char path[160];
    int n = 1000;

    /* Those of the pool itself and of nothing else, once the kernel has freed what was removed. */
    for (int waited_ms = 0; n > 1 && waited_ms < 2 * PATIENCE_MS; waited_ms += 1000) {
        rig_keeper_kill(&rig);
        disk_sync();
        rig_keeper_start(&rig);
        (void)poll(NULL, 0, 1000);
        n = groups_n();
    }
    CHECK_INT(n, 1);
    (void)snprintf(path, sizeof(path), "%s/charges", rig.pool);
    CHECK_INT(rmdir(path), 0);
    CHECK_INT(mkdir(path, 0700), 0);
}

/* ---- full quotas ---- */

static bool is_simple(void)
{
    scoped_fd fd = open(rig.pool, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return subvol_quotas_are_simple(fd);
}

/* As a kernel before 6.7 makes them. */
static void a_keeper_leaves_full_quotas_as_it_finds_them(void)
{
    struct btrfs_ioctl_quota_ctl_args off = {.cmd = BTRFS_QUOTA_CTL_DISABLE},
                                      on = {.cmd = BTRFS_QUOTA_CTL_ENABLE};
    scoped_fd fd = open(rig.pool, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    rig_keeper_kill(&rig);
    CHECK_INT(ioctl(fd, BTRFS_IOC_QUOTA_CTL, &off), 0);
    CHECK_INT(ioctl(fd, BTRFS_IOC_QUOTA_CTL, &on), 0);
    CHECK_INT(ioctl(fd, BTRFS_IOC_QUOTA_RESCAN_WAIT, NULL), 0);
    fd_closep(&fd);
    rig_keeper_start(&rig);
    CHECK(!is_simple());
}

#define WITH_EITHER(kind)                                                                          \
    {kind "a limit follows a sandbox over pauses", a_limit_follows_a_sandbox_over_pauses},         \
        {kind "what it deletes gives room after pauses", what_it_deletes_gives_room_after_pauses}, \
        {kind "a full disk is paused and goes on", a_full_disk_is_paused_and_goes_on},             \
        {kind "pauses themselves take no room", pauses_themselves_take_no_room},                   \
        {kind "a copy counts what it was born with", a_copy_counts_what_it_was_born_with},         \
        {kind "one that was copied has room for what it deletes",                                  \
         one_that_was_copied_has_room_for_what_it_deletes},                                        \
        {kind "a limit follows from copy to copy", a_limit_follows_from_copy_to_copy},             \
        {kind "what an earlier release saved has its limit",                                       \
         what_an_earlier_release_saved_has_its_limit},                                             \
        {kind "the next keeper knows the limit", the_next_keeper_knows_the_limit},                 \
    {                                                                                              \
        kind "nothing is left of groups and records", nothing_is_left_of_groups_and_records        \
    }

int main(int argc, char **argv)
{
    static const struct check_test tests[] = {
        WITH_EITHER(""),
        {"a keeper leaves full quotas as it finds them",
         a_keeper_leaves_full_quotas_as_it_finds_them},
        WITH_EITHER("full quotas: "),
    };

    return rig_main(&rig, argc, argv, NULL, tests, countof(tests));
}
