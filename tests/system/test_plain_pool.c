/* A machine where no btrfs can be made: jails all the same, without a disk limit, and said so. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "check.h"
#include "keeper/probe.h"
#include "rig.h"

static struct rig rig;

static void the_lack_is_told(void)
{
    struct keeper_request hello = {.op = KEEPER_HELLO};
    struct keeper_answer answer = rig_ask(&rig, &hello, NULL);

    CHECK_INT(answer.status, 0);
    CHECK(answer.state.lacks & KEEPER_LACKS_DISK_LIMIT);
}

static void no_half_made_image_is_left(void)
{
    char path[80];

    (void)snprintf(path, sizeof(path), "%s.img", rig.pool);
    CHECK_INT(access(path, F_OK), -1);
    (void)snprintf(path, sizeof(path), "%s.img.part", rig.pool);
    CHECK_INT(access(path, F_OK), -1);
}

static void jails_work_all_the_same(void)
{
    struct rig_jail jail;
    struct keeper_request req = rig_create_request("plain", 0, "base");
    char path[80];

    CHECK_INT(rig_create(&rig, &req, &jail).status, 0);
    CHECK_STR(rig_probe(&jail, "fill /root/x 100"), "100 ok");
    CHECK_STR(rig_probe(&jail, "stat /root/x"), "100644 0:0 0:0");
    CHECK_INT(rig_destroy(&rig, "plain").status, 0);
    CHECK(!rig_trace_left(&rig, "plain"));
    (void)close(jail.pidfd);
    (void)close(jail.channel);

    /* Its files go in the background; rmdir() of trash works when they are gone. */
    (void)snprintf(path, sizeof(path), "%s/trash", rig.pool);
    int r = -1;
    for (int i = 0; i < 3000 && (r = rmdir(path)) < 0; i++) {
        (void)poll(NULL, 0, 10);
    }
    CHECK_INT(r, 0);
}

static void disks_are_saved_by_copying(void)
{
    struct rig_jail jail, copy;
    struct keeper_request req = rig_create_request("source", 0, "base");
    struct keeper_request save = {
        .op = KEEPER_SAVE, .id = "source", .save = {.name = "saved-x", .flags = KEEPER_SAVE_SYNC}};
    struct keeper_request forget = {.op = KEEPER_FORGET, .save = {.name = "saved-x"}};

    CHECK_INT(rig_create(&rig, &req, &jail).status, 0);
    CHECK_STR(rig_probe(&jail, "write /root/x before"), "ok");
    CHECK_STR(rig_probe(&jail, "rename /opt/old /opt/new"), "ok");
    CHECK_STR(rig_probe(&jail, "remove /tmp"), "ok");
    struct keeper_answer answer = rig_ask(&rig, &save, NULL);
    CHECK_THAT(answer.status == 0, "it says %s", answer.err.msg);
    CHECK_STR(rig_probe(&jail, "write /root/x after!"), "ok");

    req = rig_create_request("copy", 1, "base");
    strcpy(req.plan.from, "saved-x");
    CHECK_INT(rig_create(&rig, &req, &copy).status, 0);
    CHECK_STR(rig_probe(&copy, "read /root/x"), "before");
    CHECK_STR(rig_probe(&copy, "list /opt"), "new\n");
    CHECK_STR(rig_probe(&copy, "stat /tmp"), "error ENOENT");
    CHECK_STR(rig_probe(&copy, "stat /root/x"), "100644 0:0 0:0");
    CHECK_INT(rig_destroy(&rig, "copy").status, 0);
    CHECK_INT(rig_destroy(&rig, "source").status, 0);
    CHECK_INT(rig_ask(&rig, &forget, NULL).status, 0);
    (void)close(jail.pidfd);
    (void)close(jail.channel);
    (void)close(copy.pidfd);
    (void)close(copy.channel);
}

static void the_doctor_has_a_sentence_for_every_point(void)
{
    struct probe_result results[PROBE_RESULTS_MAX];
    size_t n = probe_machine(rig.dir, results);

    CHECK(n >= 10);
    for (size_t i = 0; i < n; i++) {
        printf("# %s: %d: %s\n", results[i].name, (int)results[i].verdict, results[i].sentence);
        CHECK(results[i].name[0] && results[i].sentence[0]);
        CHECK(results[i].verdict != PROBE_MISSING); /* jails were just made on this machine */
    }
}

int main(int argc, char **argv)
{
    static const struct check_test tests[] = {
        {"the lack is told", the_lack_is_told},
        {"no half-made image is left", no_half_made_image_is_left},
        {"disks are saved by copying", disks_are_saved_by_copying},
        {"jails work all the same", jails_work_all_the_same},
        {"the doctor has a sentence for every point", the_doctor_has_a_sentence_for_every_point},
    };
    struct statfs fs;

    if (statfs("/tmp", &fs) == 0 && fs.f_type == 0x9123683e) {
        printf("1..0 # SKIP /tmp is on btrfs, so a plain pool cannot be had there\n");
        return 0;
    }
    (void)setenv("PATH", "/nonexistent", 1); /* no mkfs.btrfs to be found */
    return rig_main(&rig, argc, argv, NULL, tests, countof(tests));
}
