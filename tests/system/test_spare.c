/* Disks that ended jails leave behind for the next jails (spare.h). Where the kernel has no simple
 * quotas, none is kept. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "keeper/disk/spare.h"
#include "keeper/disk/subvol.h"
#include "lib/base/fd.h"
#include "rig.h"

enum { DISK_MB = 40 };

static struct rig rig;

/* ---- helpers ---- */

static struct rig_jail start(const char *id)
{
    struct keeper_request req = rig_create_request(id, 1, "base");
    struct rig_jail jail = {.pidfd = -1, .channel = -1};

    (void)snprintf(jail.id, sizeof(jail.id), "%s", id);
    req.plan.disk_mb = DISK_MB;
    (void)rig_create(&rig, &req, &jail); /* one that failed answers no probe, and has no disk */
    return jail;
}

static void end(struct rig_jail *jail)
{
    rig_jail_close(jail);
    CHECK_INT(rig_destroy(&rig, jail->id).status, 0);
    CHECK(!rig_trace_left(&rig, jail->id));
}

static uint64_t disk_of(const char *id)
{
    char path[160];

    (void)snprintf(path, sizeof(path), "%s/sandboxes/%s", rig.pool, id);
    scoped_fd fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? 0 : subvol_id(fd);
}

static bool can_be_kept(void)
{
    scoped_fd fd = open(rig.pool, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return subvol_quotas_are_simple(fd);
}

static int spares_n(void)
{
    char path[96];
    int n = 0;

    (void)snprintf(path, sizeof(path), "%s/spare", rig.pool);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        n += entry->d_name[0] != '.';
    }
    if (dir) {
        (void)closedir(dir);
    }
    return n;
}

static void write_file(const struct rig_jail *jail, int i)
{
    char command[64];

    (void)snprintf(command, sizeof(command), "write /root/f%d text", i);
    CHECK_STR(rig_probe(jail, command), "ok");
}

static void remove_file(const struct rig_jail *jail, int i)
{
    char command[64];

    (void)snprintf(command, sizeof(command), "remove /root/f%d", i);
    CHECK_STR(rig_probe(jail, command), "ok");
}

/* ---- the tests ---- */

static void a_disk_is_given_to_the_next_jail_as_new(void)
{
    struct rig_jail first = start("a");
    const uint64_t disk = disk_of("a");

    CHECK(disk != 0);
    CHECK_STR(rig_probe(&first, "write /root/secret text"), "ok");
    CHECK_STR(rig_probe(&first, "rename /opt/old /opt/new"), "ok");
    CHECK_STR(rig_probe(&first, "remove /tmp"), "ok");
    end(&first);
    CHECK_INT(spares_n(), can_be_kept());

    struct rig_jail next = start("b");
    CHECK_INT(disk_of("b") == disk, can_be_kept());
    CHECK_INT(spares_n(), 0);
    CHECK_STR(rig_probe(&next, "stat /root/secret"), "error ENOENT");
    CHECK_STR(rig_probe(&next, "list /opt"), "old\n");
    CHECK_THAT(strstr(rig_probe(&next, "stat /tmp"), "error") == NULL, "/tmp is not there");
    const char *said = rig_probe(&next, "fill /root/much 80"); /* twice its limit */
    CHECK_THAT(!strstr(said, "ok") && atoi(said) >= DISK_MB - 8 && atoi(said) <= DISK_MB,
               "it says %s", said);
    end(&next);
    CHECK_INT(spares_n(), 0); /* too much is charged to it */
}

static void a_disk_with_many_files_is_removed(void)
{
    struct rig_jail jail = start("c");

    for (int i = 0; i <= SPARE_FILES_MAX; i++) {
        write_file(&jail, i);
    }
    end(&jail);
    CHECK_INT(spares_n(), 0);
}

/* Otherwise the numbers of inodes would tell the next jail how many files there were. */
static void a_disk_that_had_many_files_is_removed(void)
{
    struct rig_jail jail = start("d");

    for (int i = 0; i <= SPARE_FILES_MAX; i++) {
        write_file(&jail, i);
        remove_file(&jail, i);
    }
    end(&jail);
    CHECK_INT(spares_n(), 0);
}

/* Its data is shared with the save, and stays charged to it. */
static void a_disk_that_was_saved_is_removed(void)
{
    struct rig_jail jail = start("e");

    write_file(&jail, 0);
    rig_hang_up(&jail);
    CHECK_INT(rig_save(&rig, "e", "saved-e", KEEPER_SAVE_STOP | KEEPER_SAVE_SYNC).status, 0);
    (void)close(jail.pidfd);
    CHECK_INT(rig_destroy(&rig, "e").status, 0);
    CHECK_INT(spares_n(), 0);
    CHECK_INT(rig_forget(&rig, "saved-e").status, 0);
}

static void a_jail_that_exists_keeps_its_disk(void)
{
    struct rig_jail one = start("f"), two = start("g");
    struct keeper_request again = rig_create_request("f", 2, "base");
    struct rig_jail none;

    end(&two);
    CHECK_INT(spares_n(), can_be_kept());
    CHECK_INT(rig_create(&rig, &again, &none).status, -EEXIST);
    CHECK_INT(spares_n(), can_be_kept());
    end(&one);
}

static void the_next_keeper_removes_what_is_left(void)
{
    struct rig_jail jail = start("h");

    end(&jail);
    CHECK_INT(spares_n() > 0, can_be_kept());
    rig_keeper_kill(&rig);
    rig_keeper_start(&rig);
    CHECK_INT(spares_n(), 0);
    jail = start("i");
    end(&jail);
}

int main(int argc, char **argv)
{
    static const struct check_test tests[] = {
        {"a disk is given to the next jail as new", a_disk_is_given_to_the_next_jail_as_new},
        {"a disk with many files is removed", a_disk_with_many_files_is_removed},
        {"a disk that had many files is removed", a_disk_that_had_many_files_is_removed},
        {"a disk that was saved is removed", a_disk_that_was_saved_is_removed},
        {"a jail that exists keeps its disk", a_jail_that_exists_keeps_its_disk},
        {"the next keeper removes what is left", the_next_keeper_removes_what_is_left},
    };

    return rig_main(&rig, argc, argv, NULL, tests, countof(tests));
}
