/* Jails' disks kept under a name, and jails that begin with them. */
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

static const char *saved_after(const char *name)
{
    static struct keeper_answer answer;
    struct keeper_request req = {.op = KEEPER_LIST_SAVED};

    (void)snprintf(req.save.name, sizeof(req.save.name), "%s", name);

    answer = rig_ask(&rig, &req, NULL);
    return answer.status == 0 ? answer.saved.name : strerrorname_np(-answer.status);
}

static struct rig_jail start(const char *id, uint32_t slot, const char *from)
{
    struct keeper_request req = rig_create_request(id, slot, "base");
    struct rig_jail jail = {.pidfd = -1, .channel = -1};

    (void)snprintf(req.plan.from, sizeof(req.plan.from), "%s", from);
    (void)rig_create(&rig, &req, &jail); /* one that failed answers no probe */
    return jail;
}

static bool pool_has(const char *path)
{
    char whole[160];

    (void)snprintf(whole, sizeof(whole), "%s/%s", rig.pool, path);
    return access(whole, F_OK) == 0;
}

/* ---- the tests ---- */

static void a_running_jail_is_kept_and_goes_on(void)
{
    struct rig_jail jail = start("source", 0, "");

    CHECK_STR(rig_probe(&jail, "write /root/file before"), "ok");
    struct keeper_answer answer = rig_save(&rig, "source", "saved-one", KEEPER_SAVE_SYNC);
    CHECK_INT(answer.status, 0);
    CHECK(answer.saved.frozen_usec > 0);
    CHECK_STR(rig_probe(&jail, "write /root/file after!"), "ok");
    rig_end(&rig, &jail);

    struct rig_jail copy = start("copy", 1, "saved-one"); /* it outlives its source */
    CHECK_STR(rig_probe(&copy, "read /root/file"), "before");
    CHECK_STR(rig_probe(&copy, "write /root/file mine!!"), "ok");
    struct rig_jail other = start("other", 2, "saved-one");
    CHECK_STR(rig_probe(&other, "read /root/file"), "before");
    CHECK_STR(rig_probe(&copy, "read /root/file"), "mine!!");
    rig_end(&rig, &copy);
    rig_end(&rig, &other);
    CHECK_INT(rig_forget(&rig, "saved-one").status, 0);
}

/* Records of overlayfs about files of the layers, by handles that name their disk. */
static void what_was_done_to_the_template_is_kept(void)
{
    struct rig_jail jail = start("source", 0, "");

    CHECK_STR(rig_probe(&jail, "rename /opt/old /opt/new"), "ok");
    CHECK_STR(rig_probe(&jail, "mkdir /opt/new/sub"), "ok");
    CHECK_STR(rig_probe(&jail, "link /etc/hosts /etc/hosts2"), "ok");
    CHECK_STR(rig_probe(&jail, "remove /tmp"), "ok");
    CHECK_INT(rig_save(&rig, "source", "saved-deep", 0).status, 0);
    rig_end(&rig, &jail);
    for (int i = 0; i < 3; i++) { /* a copy of a copy of a copy */
        struct rig_jail copy = start("copy", 1, "saved-deep");
        CHECK_STR(rig_probe(&copy, "list /opt"), "new\n");
        CHECK_STR(rig_probe(&copy, "list /opt/new"), "sub\n");
        CHECK_STR(rig_probe(&copy, "stat /tmp"), "error ENOENT");
        CHECK_STR(rig_probe(&copy, "write /etc/hosts2 CHANGED"), "ok");
        CHECK(strncmp(rig_probe(&copy, "read /etc/hosts"), "CHANGED", 7) == 0);
        CHECK_STR(rig_probe(&copy, "rename /opt/new /opt/newer"), "ok");
        CHECK_STR(rig_probe(&copy, "rename /opt/newer /opt/new"), "ok");
        CHECK_INT(rig_forget(&rig, "saved-deep").status, 0);
        CHECK_INT(rig_save(&rig, "copy", "saved-deep", 0).status, 0);
        rig_end(&rig, &copy);
    }
    CHECK_INT(rig_forget(&rig, "saved-deep").status, 0);
}

static void a_stopped_jail_goes_on_with_its_own_disk(void)
{
    struct rig_jail jail = start("paused", 0, "");
    struct keeper_request again = rig_create_request("paused", 3, "base");

    CHECK_STR(rig_probe(&jail, "write /root/file kept"), "ok");
    struct keeper_answer answer =
        rig_save(&rig, "paused", "saved-stop", KEEPER_SAVE_STOP | KEEPER_SAVE_SYNC);
    CHECK_INT(answer.status, 0);
    CHECK_INT(answer.saved.frozen_usec, 0);
    CHECK_STR(rig_probe(&jail, "read /root/file"), "no answer");
    CHECK(pool_has("sandboxes/paused"));
    CHECK_INT(rig_save(&rig, "paused", "saved-disk", 0).status,
              0); /* what does not run has a disk still */

    again.plan.keeps_disk = 1;
    struct rig_jail second;
    CHECK_INT(rig_create(&rig, &again, &second).status, 0);
    CHECK_STR(rig_probe(&second, "read /root/file"), "kept");
    rig_end(&rig, &second);
    (void)close(jail.pidfd);
    (void)close(jail.channel);
    CHECK(!pool_has("sandboxes/paused"));
    again.plan.keeps_disk = 1;
    answer = rig_ask(&rig, &again, NULL);
    CHECK_INT(answer.status, -ENOENT);
    CHECK_STR(answer.err.msg, "jail paused has no disk to go on with");
    CHECK(!rig_trace_left(&rig, "paused"));

    struct rig_jail copy = start("copy", 1, "saved-disk");
    CHECK_STR(rig_probe(&copy, "read /root/file"), "kept");
    rig_end(&rig, &copy);
    CHECK_INT(rig_forget(&rig, "saved-stop").status, 0);
    CHECK_INT(rig_forget(&rig, "saved-disk").status, 0);
}

static void a_saved_disk_is_a_layer(void)
{
    struct rig_jail jail = start("source", 0, "");
    struct keeper_request req = rig_create_request("upon", 1, "saved-layer");

    CHECK_STR(rig_probe(&jail, "write /root/file below"), "ok");
    CHECK_STR(rig_probe(&jail, "remove /opt/old"), "ok");
    CHECK_STR(rig_probe(&jail, "rename /opt /srv"), "ok");
    CHECK_INT(rig_save(&rig, "source", "saved-layer", 0).status, 0);
    rig_end(&rig, &jail);
    (void)snprintf(req.plan.layers[1], KEEPER_LAYER_BYTES, "base");
    req.plan.layers_n = 2;
    struct rig_jail upon;
    CHECK_INT(rig_create(&rig, &req, &upon).status, 0);
    CHECK_STR(rig_probe(&upon, "read /root/file"), "below");
    CHECK_STR(rig_probe(&upon, "stat /root/file"), "100644 0:0 0:0");
    CHECK_STR(rig_probe(&upon, "stat /opt"), "error ENOENT");
    CHECK_STR(rig_probe(&upon, "list /srv"), "");
    CHECK_STR(rig_probe(&upon, "write /root/file above"), "ok");
    CHECK_INT(rig_save(&rig, "upon", "saved-above", 0).status, 0);
    rig_end(&rig, &upon);

    struct keeper_request next = rig_create_request("next", 2, "saved-above");
    (void)snprintf(next.plan.layers[1], KEEPER_LAYER_BYTES, "saved-layer");
    (void)snprintf(next.plan.layers[2], KEEPER_LAYER_BYTES, "base");
    next.plan.layers_n = 3;
    struct rig_jail third;
    CHECK_INT(rig_create(&rig, &next, &third).status, 0);
    CHECK_STR(rig_probe(&third, "read /root/file"), "above");
    CHECK_STR(rig_probe(&third, "list /srv"), "");
    rig_end(&rig, &third);
    CHECK_INT(rig_forget(&rig, "saved-above").status, 0);
    CHECK_INT(rig_forget(&rig, "saved-layer").status, 0);
}

static void a_copy_has_its_own_quota(void)
{
    struct rig_jail jail = start("source", 0, "");
    struct keeper_request req = rig_create_request("copy", 1, "base");

    CHECK_INT(rig_save(&rig, "source", "saved-small", 0).status, 0);
    rig_end(&rig, &jail);
    (void)snprintf(req.plan.from, sizeof(req.plan.from), "saved-small");
    req.plan.disk_mb = 16;
    struct rig_jail copy;
    CHECK_INT(rig_create(&rig, &req, &copy).status, 0);
    const char *said = rig_probe(&copy, "fill /root/big 100");
    CHECK_THAT(strstr(said, " EDQUOT"), "it says %s", said);
    rig_end(&rig, &copy);
    CHECK_INT(rig_forget(&rig, "saved-small").status, 0);
}

static void names_are_listed_taken_once_and_forgotten(void)
{
    struct rig_jail jail = start("source", 0, "");

    CHECK_STR(saved_after(""), "ENOENT");
    CHECK_INT(rig_save(&rig, "source", "saved-b", 0).status, 0);
    CHECK_INT(rig_save(&rig, "source", "saved-a", 0).status, 0);
    struct keeper_answer answer = rig_save(&rig, "source", "saved-a", 0);
    CHECK_INT(answer.status, -EEXIST);
    CHECK_STR(answer.err.msg, "saved-a exists already");
    CHECK_STR(saved_after(""), "saved-a");
    CHECK_STR(saved_after("saved-a"), "saved-b");
    CHECK_STR(saved_after("saved-b"), "ENOENT");
    CHECK_INT(rig_forget(&rig, "saved-a").status, 0);
    CHECK_INT(rig_forget(&rig, "saved-a").status, 0);
    CHECK_STR(saved_after(""), "saved-b");
    CHECK_STR(saved_after("saved-a"), "saved-b"); /* whoever had got as far as that misses none */
    CHECK_INT(rig_forget(&rig, "saved-b").status, 0);
    answer = rig_save(&rig, "nobody", "saved-c", 0);
    CHECK_INT(answer.status, -ENOENT);
    CHECK_STR(answer.err.msg, "save jail nobody: jail nobody has no disk");
    CHECK_STR(saved_after(""), "ENOENT");
    struct keeper_request req = rig_create_request("lost", 1, "base");
    (void)snprintf(req.plan.from, sizeof(req.plan.from), "saved-c");
    answer = rig_ask(&rig, &req, NULL);
    CHECK_INT(answer.status, -ENOENT);
    CHECK_STR(answer.err.msg, "nothing is saved as saved-c");
    CHECK(!rig_trace_left(&rig, "lost"));
    rig_end(&rig, &jail);
}

/* As a keeper that was killed in the middle leaves it. */
static void a_new_keeper_removes_what_is_half_made(void)
{
    char path[160];
    struct rig_jail jail = start("source", 0, "");

    CHECK_INT(rig_save(&rig, "source", "saved-whole", 0).status, 0);
    rig_keeper_kill(&rig);
    (void)snprintf(path, sizeof(path), "%s/saved/.saved-half", rig.pool);
    CHECK_INT(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof(path), "%s/saved/.saved-half/about", rig.pool);
    CHECK_INT(close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
    rig_keeper_start(&rig);
    CHECK_STR(saved_after(""), "saved-whole"); /* it answers when it has cleaned up */
    CHECK(!pool_has("saved/.saved-half"));
    CHECK_STR(saved_after("saved-whole"), "ENOENT");
    CHECK_STR(rig_probe(&jail, "read /proc/1/comm"), "agent\n");
    rig_end(&rig, &jail);
    CHECK_INT(rig_forget(&rig, "saved-whole").status, 0);
}

int main(int argc, char **argv)
{
    static const struct check_test tests[] = {
        {"a running jail is kept, and goes on", a_running_jail_is_kept_and_goes_on},
        {"what was done to the template is kept", what_was_done_to_the_template_is_kept},
        {"a stopped jail goes on with its own disk", a_stopped_jail_goes_on_with_its_own_disk},
        {"a saved disk is a layer", a_saved_disk_is_a_layer},
        {"a copy has its own quota", a_copy_has_its_own_quota},
        {"names are listed, taken once and forgotten", names_are_listed_taken_once_and_forgotten},
        {"a new keeper removes what is half made", a_new_keeper_removes_what_is_half_made},
    };

    return rig_main(&rig, argc, argv, NULL, tests, countof(tests));
}
