/* Forks of sandboxes in which the agent says that it is alone. */
#include <errno.h>
#include <string.h>

#include "check.h"
#include "lib/base/log.h"
#include "sandbox_house.h"

enum { COPIES = 5 };

static struct {
    int made, failed, refused, error;
} forks;

static char id[ID_SANDBOX_LEN + 1];

static void on_fork(void *ctx, uint32_t index, struct sandbox *sb, int error, const struct err *err)
{
    (void)ctx, (void)index, (void)err;
    forks.made += sb != NULL;
    forks.failed += sb == NULL;
    forks.error = error;
}

static void on_refused(void *ctx, int error, const struct err *err)
{
    (void)ctx, (void)err;
    forks.refused = error;
}

static void fork_it(void)
{
    const struct sandbox_fork fork = {
        .count = COPIES, .timeout_ms = 50000, .each = on_fork, .failed = on_refused};

    sandbox_fork(find(id), &fork);
}

static void begin(void)
{
    setup();
    memset(&forks, 0, sizeof(forks));
    create(60000);
    UNTIL(created.calls == 1);
    memcpy(id, created.id, sizeof(id));
    agent.is_alone = true;
    agent.alones = agent.files = agent.quiets = 0;
}

static void end(void)
{
    agent.is_alone = agent.begins = agent.refuses_files = false;
    keeper.refuses_alone = keeper.gives_disk = false;
    teardown();
}

static int saved_n(void)
{
    int n = 0;

    for (int i = 0; i < SAVED_MAX; i++) {
        n += keeper.saved[i][0] != '\0';
    }
    return n;
}

/* All copies were restored with the memory, and nothing else is left. */
static void made_with_memory(int saves)
{
    UNTIL(forks.made + forks.failed == COPIES);
    CHECK_INT(forks.made, COPIES);
    CHECK_INT(keeper.saves, saves);
    CHECK_INT(keeper.save.flags, KEEPER_SAVE_MEMORY);
    CHECK_INT(keeper.restores, COPIES);
    CHECK_INT(sandboxes_figures(all).forks_of_memory, COPIES);
    CHECK_INT(sandboxes_figures(all).forks_of_disks, 0);
    UNTIL(saved_n() == 0);
}

static void a_lone_agent_is_copied_with_its_disk(void)
{
    begin();
    fork_it();
    UNTIL(forks.made + forks.failed == COPIES);
    CHECK_INT(forks.made, COPIES);
    CHECK_INT(keeper.saves, 1);
    CHECK_INT(keeper.save.flags, KEEPER_SAVE_ALONE);
    CHECK_INT(keeper.restores, 0);
    CHECK_INT(keeper.creates, 1 + COPIES);
    CHECK_STR(keeper.plan.from, keeper.save.name);
    CHECK_INT(agent.alones, 2);
    CHECK_INT(agent.files, 0);
    CHECK_INT(agent.quiets, 0); /* the channel stayed open */
    CHECK_INT(keeper.attaches, 0);
    CHECK_INT(sandboxes_figures(all).forks_of_disks, COPIES);
    CHECK_INT(sandboxes_figures(all).forks_of_memory, 0);
    UNTIL(saved_n() == 0);
    end();
}

static void a_few_files_are_given_to_each_copy(void)
{
    begin();
    keeper.gives_disk = true;
    fork_it();
    UNTIL(forks.made + forks.failed == COPIES);
    CHECK_INT(forks.made, COPIES);
    CHECK_STR(keeper.plan.from, "");
    CHECK_INT(agent.files, 2 * COPIES);
    CHECK_INT(keeper.forgets, 0); /* nothing was saved */
    end();
}

static void a_copy_that_does_not_get_its_files_fails(void)
{
    begin();
    keeper.gives_disk = agent.refuses_files = true;
    fork_it();
    UNTIL(forks.made + forks.failed == COPIES);
    CHECK_INT(forks.failed, COPIES);
    CHECK(forks.error < 0);
    CHECK_INT(sandboxes_figures(all).running, 1);
    UNTIL(keeper.destroys == COPIES);
    end();
}

static void an_agent_that_lies_is_not_believed(void)
{
    begin();
    keeper.refuses_alone = true;
    fork_it();
    made_with_memory(2);
    CHECK_INT(agent.quiets, 1);
    end();
}

static void an_older_agent_is_saved_with_its_memory(void)
{
    begin();
    agent.is_alone = false;
    fork_it();
    made_with_memory(1);
    end();
}

static void a_request_meanwhile_needs_the_memory(void)
{
    begin();
    agent.begins = true;
    fork_it();
    made_with_memory(2);
    end();
}

static void volumes_need_the_memory(void)
{
    begin();
    struct sandbox *sb = find(id);
    (void)json_object_set_new(sb->options, "volumeMounts",
                              json_pack("[{ssss}]", "volumeID", "v", "path", "/v"));
    fork_it();
    made_with_memory(1);
    CHECK_INT(agent.alones, 0);
    end();
}

/* At each point of the save. */
static void a_kill_meanwhile_leaves_nothing(void)
{
    for (int turns = 0; turns < 12; turns++) {
        begin();
        fork_it();
        for (int i = 0; i < turns; i++) {
            (void)uv_run(&loop, UV_RUN_NOWAIT);
        }
        if (find(id)) {
            sandbox_kill(find(id), "test", NULL, NULL);
        }
        UNTIL(forks.refused != 0 || forks.made + forks.failed == COPIES);
        UNTIL(saved_n() == 0);
        UNTIL(!jail_find(id));
        end();
    }
}

static void a_keeper_that_dies_meanwhile_leaves_nothing(void)
{
    begin();
    keeper.dies_after_save = true;
    fork_it();
    UNTIL(forks.refused != 0);
    CHECK_INT(forks.refused, -EAGAIN);
    CHECK_INT(sandboxes_figures(all).running, 1);
    keeper.connected = true;
    sandboxes_keeper_changed(all, true);
    UNTIL(saved_n() == 0);
    forks.refused = 0;
    fork_it();
    UNTIL(forks.made + forks.failed == COPIES);
    CHECK_INT(forks.made, COPIES);
    end();
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a lone agent is copied with its disk", a_lone_agent_is_copied_with_its_disk},
        {"a few files are given to each copy", a_few_files_are_given_to_each_copy},
        {"a copy that does not get its files fails", a_copy_that_does_not_get_its_files_fails},
        {"an agent that lies is not believed", an_agent_that_lies_is_not_believed},
        {"an older agent is saved with its memory", an_older_agent_is_saved_with_its_memory},
        {"a request meanwhile needs the memory", a_request_meanwhile_needs_the_memory},
        {"volumes need the memory", volumes_need_the_memory},
        {"a kill meanwhile leaves nothing", a_kill_meanwhile_leaves_nothing},
        {"a keeper that dies meanwhile leaves nothing",
         a_keeper_that_dies_meanwhile_leaves_nothing},
    };

    log_init("test", LOG_ERROR);
    return check_run(tests, countof(tests));
}
