/* Sandboxes from create to their end. */
#include <errno.h>
#include <signal.h>

#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "sandbox_house.h"
#include "serve/sandbox/start_command.h"
#include "wire/channel.h"

/* ---- tests ---- */

static void a_create_runs(void)
{
    setup();
    create(60000);
    UNTIL(created.calls == 1);
    CHECK_INT(created.error, 0);
    CHECK_STR(recorded(created.id), "running/");
    struct sandbox *sb = find(created.id);
    CHECK(sb);
    struct sandbox_info info = sandbox_info(sb);
    CHECK_INT(info.state, SANDBOX_RUNNING);
    CHECK_INT(info.end_ms - info.started_ms, 60000);
    CHECK_INT(strlen(info.access_token), 44);
    CHECK_INT(sandboxes_figures(all).running, 1);
    CHECK_INT(sandboxes_figures(all).starting, 0);
    CHECK_INT(keeper.plan.layers_n, 3);
    CHECK_STR(keeper.plan.layers[0], "top");
    CHECK_STR(keeper.plan.layers[2], "bottom");
    CHECK_INT(keeper.plan.cpu_millis, 2000);
    CHECK_STR(keeper.plan.hostname, created.id);

    json_t *init = json_loads(agent.init, 0, NULL);
    const json_t *env = json_object_get(init, "envVars");
    CHECK_STR(json_string_value(json_object_get(init, "accessToken")), info.access_token);
    CHECK_STR(json_string_value(json_object_get(init, "defaultUser")), "user");
    CHECK_STR(json_string_value(json_object_get(init, "sandboxID")), created.id);
    CHECK_INT(json_integer_value(json_object_get(init, "memoryMB")), 512);
    CHECK_STR(json_string_value(json_object_get(env, "A")), "t");
    CHECK_STR(json_string_value(json_object_get(env, "B")), "create");
    CHECK_STR(json_string_value(json_object_get(env, "C")), "create");
    json_decref(init);
    teardown();
}

static int gone, killed;

static void on_gone(struct sandbox_watch *watch)
{
    gone += watch->sandbox == NULL;
}

static void on_killed(void *ctx, int error, const struct err *err)
{
    (void)ctx, (void)error, (void)err;
    killed++;
}

static void a_kill_is_at_once_and_on_record(void)
{
    struct sandbox_watch watch = {.gone = on_gone};

    setup();
    create(60000);
    UNTIL(created.calls == 1);
    gone = killed = 0;
    sandbox_watch_set(&watch, find(created.id));
    sandbox_kill(find(created.id), "request", on_killed, NULL);
    CHECK_INT(gone, 1);
    CHECK(!find(created.id));
    UNTIL(killed == 1 && keeper.destroys == 1);
    CHECK(!jail_find(created.id));
    CHECK_STR(recorded(created.id), "killed/request");
    teardown();
}

static void time_ends_it(void)
{
    setup();
    create(200);
    UNTIL(created.calls == 1);
    char id[ID_SANDBOX_LEN + 1];
    memcpy(id, created.id, sizeof(id));
    CHECK_INT(created.error, 0);
    UNTIL(!find(id) && keeper.destroys == 1);
    UNTIL(strcmp(recorded(id), "killed/timeout") == 0);
    teardown();
}

static int moved;

static void on_moved(void *ctx, int error, const struct err *err)
{
    (void)ctx, (void)err;
    moved += error == 0;
}

static void the_end_can_be_moved(void)
{
    setup();
    moved = 0;
    create(60000);
    UNTIL(created.calls == 1);
    struct sandbox *sb = find(created.id);
    int64_t end_ms = sandbox_info(sb).end_ms;
    sandbox_set_end(sb, end_ms - 1000, true, on_moved, NULL);
    CHECK_INT(moved, 1);
    CHECK_INT(sandbox_info(sb).end_ms, end_ms);
    sandbox_set_end(sb, end_ms + 1000, true, on_moved, NULL);
    CHECK_INT(sandbox_info(sb).end_ms, end_ms + 1000);
    sandbox_set_end(sb, clock_wall_ms(), false, on_moved, NULL);
    UNTIL(!find(created.id) && moved == 3);
    teardown();
}

static void a_death_is_noticed(void)
{
    static const char *const reasons[] = {"killed/the sandbox's first process ended",
                                          "killed/out of memory"};

    for (uint32_t oom = 0; oom < 2; oom++) {
        setup();
        keeper.oom_kills = oom;
        create(60000);
        UNTIL(created.calls == 1);
        struct jail *jail = jail_find(created.id);
        CHECK(jail && !find(created.id)->pidfd); /* the end of the channel tells */
        jail_stop(jail);
        UNTIL(!find(created.id));
        UNTIL(strcmp(recorded(created.id), reasons[oom]) == 0);
        UNTIL(keeper.destroys == 1);
        teardown();
    }
}

static void a_start_that_fails_leaves_nothing(void)
{
    setup();
    agent.refuses_init = true;
    create(60000);
    UNTIL(created.calls == 1);
    CHECK_INT(created.error, -EIO);
    CHECK_THAT(strstr(created.message, "no room"), "message is '%s'", created.message);
    UNTIL(keeper.destroys == 1);
    CHECK_INT(sandboxes_figures(all).starting, 0);
    CHECK(all->slots.used[0] == 0);
    teardown();
}

static void a_kill_while_starting_works(void)
{
    setup();
    UNTIL(ready);
    create(60000);
    CHECK_INT(sandboxes_figures(all).starting, 1);
    sandbox_kill(all->table.by_id, "request", NULL, NULL);
    CHECK_INT(created.calls, 1);
    CHECK_INT(created.error, -EIO);
    UNTIL(keeper.creates == 1 && keeper.destroys == 1);
    UNTIL(all->slots.used[0] == 0);
    teardown();
}

static void several_start_at_once(void)
{
    setup();
    for (int i = 0; i < 8; i++) {
        create(60000);
    }
    created.calls = 0;
    UNTIL(created.calls == 8);
    CHECK_INT(sandboxes_figures(all).running, 8);
    CHECK_INT(all->slots.used[0], 0xff);
    teardown();
}

static void each_state_is_in_its_teams_tally(void)
{
    static const char key[] = "made-by-this";
    json_t *options = json_pack("{ss}", SANDBOX_KEY_OPTION, key);
    struct sandbox_params params = {
        .team_id = "team", .template = &template, .timeout_ms = 60000, .options = options};

    setup();
    created = (struct house_created){0};
    sandbox_create(all, &params, on_created, NULL);
    CHECK_INT(sandboxes_used(all, "team").alive, 1); /* from its first moment */
    CHECK_INT(sandboxes_running(all, "team"), 0);
    CHECK(!sandboxes_find_key(all, "team", key));
    UNTIL(created.calls == 1);
    CHECK_INT(sandboxes_running(all, "team"), 1);
    CHECK_INT(sandboxes_used(all, "another").alive, 0);
    CHECK(sandboxes_find_key(all, "team", key) == find(created.id));
    CHECK(!sandboxes_find_key(all, "another", key));

    close_house(); /* a key outlives the daemon */
    open_house();
    UNTIL(ready == 1);
    CHECK_INT(sandboxes_used(all, "team").alive, 1);
    CHECK(sandboxes_find_key(all, "team", key) == find(created.id));

    sandbox_kill(find(created.id), SANDBOX_END_REQUEST, NULL, NULL);
    CHECK_INT(sandboxes_used(all, "team").alive, 0);
    CHECK_INT(sandboxes_running(all, "team"), 0);
    CHECK(!sandboxes_find_key(all, "team", key));
    teardown();
    json_decref(options);
}

enum { BURST = 6 };

struct order {
    size_t n;
    bool wrong;
    int64_t last_ms;
};

static bool note_order(void *ctx, struct sandbox *sb)
{
    struct order *order = ctx;
    char name[8];

    (void)snprintf(name, sizeof(name), "%zu", order->n++);
    const char *had = json_string_value(json_object_get(sandbox_info(sb).metadata, "n"));
    order->wrong |= strcmp(had, name) != 0 || sandbox_info(sb).created_ms <= order->last_ms;
    order->last_ms = sandbox_info(sb).created_ms;
    return true;
}

static void those_of_one_millisecond_are_listed_as_they_were_created(void)
{
    struct order order = {0}, again = {0};

    setup();
    created = (struct house_created){0};
    for (int i = 0; i < BURST; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "%d", i);
        json_t *metadata = json_pack("{ss}", "n", name);
        struct sandbox_params params = {
            .team_id = "team", .template = &template, .timeout_ms = 60000, .metadata = metadata};
        sandbox_create(all, &params, on_created, NULL);
        json_decref(metadata);
    }
    UNTIL(created.calls == BURST);
    sandboxes_each(all, true, NULL, note_order, &order);
    CHECK_INT(order.n, BURST);
    CHECK(!order.wrong);
    close_house(); /* nor does a restart change it */
    open_house();
    UNTIL(ready == 1);
    sandboxes_each(all, true, NULL, note_order, &again);
    CHECK_INT(again.n, BURST);
    CHECK(!again.wrong);
    teardown();
}

static void what_a_sandbox_takes_is_charged_to_its_team_and_its_key(void)
{
    json_t *options = json_pack("{ss}", SANDBOX_MAKER_OPTION, "a-key");
    struct sandbox_params params = {
        .team_id = "team", .template = &template, .timeout_ms = 60000, .options = options};
    static const char *const accounts[] = {"team", "a-key"};

    setup();
    created = (struct house_created){0};
    sandbox_create(all, &params, on_created, NULL);
    UNTIL(created.calls == 1);
    for (size_t i = 0; i < countof(accounts); i++) {
        struct sandboxes_used used = sandboxes_used(all, accounts[i]);
        CHECK_INT(used.alive, 1);
        CHECK_INT(used.cpus, template.cpu_count);
        CHECK_INT(used.memory_mb, template.memory_mb);
        CHECK_INT(used.disk_bytes >> 20, template.disk_mb);
    }
    UNTIL(sandboxes_used(all, "a-key").sandbox_ms >= 20);
    sandbox_kill(find(created.id), SANDBOX_END_REQUEST, NULL, NULL);
    struct sandboxes_used after = sandboxes_used(all, "a-key");
    CHECK_INT(after.alive + after.cpus + after.memory_mb + after.disk_bytes, 0);
    CHECK_INT(after.cpu_ms, after.sandbox_ms * template.cpu_count);
    CHECK_INT(sandboxes_used(all, "a-key").sandbox_ms, after.sandbox_ms);
    teardown();
    json_decref(options);
}

static void a_create_tells_where_its_time_went(void)
{
    struct sandboxes_step steps[SANDBOX_STEPS];

    setup();
    create(60000);
    UNTIL(created.calls == 1);
    sandboxes_steps(all, steps);
    CHECK_STR(steps[SANDBOX_STEP_JAIL].name, "jail");
    CHECK_INT(steps[SANDBOX_STEP_DIAL].took->count, 1);
    CHECK_INT(steps[SANDBOX_STEP_INIT].took->count, 1);
    CHECK_INT(steps[SANDBOX_STEP_COMMAND].took->count, 0); /* the template has none */
    CHECK_INT(steps[SANDBOX_STEP_RECORD].took->count, 1);
    teardown();
}

static void without_the_keeper(void)
{
    setup();
    create(60000);
    UNTIL(created.calls == 1);
    char id[ID_SANDBOX_LEN + 1];
    memcpy(id, created.id, sizeof(id));
    keeper.connected = false;
    sandboxes_keeper_changed(all, false);
    create(60000); /* waits, in vain */
    UNTIL(created.calls == 1);
    CHECK_INT(created.error, -EAGAIN);
    CHECK_STR(created.message, "the keeper is not running; try again");
    CHECK_INT(keeper.creates, 1);

    killed = 0;
    sandbox_kill(find(id), "request", on_killed, NULL);
    UNTIL(killed == 1);
    CHECK(jail_find(id)); /* nobody could */
    keeper.connected = true;
    sandboxes_keeper_changed(all, true);
    UNTIL(!jail_find(id));
    UNTIL(all->slots.used[0] == 0);
    teardown();
}

/* A keeper that was started again loses no create. */
static void a_create_waits_for_the_keeper(void)
{
    setup();
    UNTIL(ready);
    keeper.connected = false;
    sandboxes_keeper_changed(all, false);
    create(60000);
    for (int i = 0; i < 20; i++) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
    CHECK_INT(created.calls, 0);
    keeper.connected = true;
    sandboxes_keeper_changed(all, true);
    UNTIL(created.calls == 1);
    CHECK_INT(created.error, 0);
    CHECK(find(created.id));
    teardown();
}

/* Whether it waits still or has been asked for: whoever asked is told, once. */
static void a_stop_answers_creates(void)
{
    for (int connected = 0; connected < 2; connected++) {
        setup();
        UNTIL(ready);
        keeper.connected = connected;
        create(60000);
        sandboxes_free(all);
        CHECK_INT(created.calls, 1);
        CHECK_INT(created.error, -EAGAIN);
        CHECK_STR(created.message, "the daemon is stopping; try again");
        all = NULL;
        teardown();
        CHECK_INT(created.calls, 1);
    }
}

static int dialed;

static void on_dialed(void *ctx, int fd_or_error)
{
    (void)ctx;
    dialed = fd_or_error;
}

static void dials_and_mends_the_channel(void)
{
    char text[8] = "";

    setup();
    create(60000);
    UNTIL(created.calls == 1);
    dialed = 0;
    sandbox_dial(find(created.id), AGENT_PORT, on_dialed, NULL);
    UNTIL(dialed != 0);
    CHECK(dialed > 0);
    struct pollfd readable = {.fd = dialed, .events = POLLIN};
    CHECK_INT(poll(&readable, 1, PATIENCE_MS), 1);
    CHECK_INT(read(dialed, text, 7), 7);
    CHECK_STR(text, "service");
    (void)close(dialed);

    dialed = 0;
    sandbox_dial(find(created.id), 1, on_dialed, NULL);
    UNTIL(dialed == -ECONNREFUSED);

    /* An unpacker makes this agent drop its channel each time: asked twice, then given up. */
    dialed = 0;
    sandbox_dial(find(created.id), CHANNEL_PORT_UNPACK, on_dialed, NULL);
    UNTIL(dialed == -ETIMEDOUT);
    CHECK_INT(keeper.attaches, 1);
    CHECK(find(created.id));
    dialed = 0;
    sandbox_dial(find(created.id), AGENT_PORT, on_dialed, NULL);
    UNTIL(dialed > 0);
    (void)close(dialed);
    CHECK_INT(keeper.attaches, 2);

    (void)kill(jail_find(created.id)->pid, SIGKILL); /* and its channel says nothing */
    UNTIL(!find(created.id));
    teardown();
}

static uint32_t oom_told(void)
{
    pthread_mutex_lock(&agent.lock);
    uint32_t count = agent.oom_count;
    pthread_mutex_unlock(&agent.lock);
    return count;
}

static void tells_the_agent_of_oom_kills(void)
{
    setup();
    agent.asks_oom = true;
    keeper.oom_kills = 5;
    create(60000);
    UNTIL(created.calls == 1);
    UNTIL(oom_told() == 5);
    teardown();
}

static void a_restart_adopts(void)
{
    char ids[3][ID_SANDBOX_LEN + 1];

    setup();
    for (int i = 0; i < 3; i++) {
        create(i == 2 ? 400 : 60000);
        UNTIL(created.calls == 1);
        memcpy(ids[i], created.id, sizeof(ids[i]));
    }
    int64_t end_ms = sandbox_info(find(ids[0])).end_ms;
    int64_t third_ms = sandbox_info(find(ids[2])).end_ms;
    close_house();
    CHECK(jail_find(ids[0]));

    struct jail *second = jail_find(ids[1]);
    CHECK(second);
    jail_stop(second);
    (void)jail_start("iorphan");
    while (clock_wall_ms() <= third_ms) {
        (void)poll(NULL, 0, 10);
    }
    open_house();
    CHECK(find(ids[0])); /* found from the first moment */
    CHECK(!find(ids[2]));
    CHECK(find(ids[1]) && !sandboxes_adopted(all)); /* it has not been looked for yet */
    create(60000);
    UNTIL(ready == 1);
    CHECK(sandboxes_adopted(all));
    UNTIL(!jail_find("iorphan") && !jail_find(ids[2]));
    UNTIL(created.calls == 1);
    CHECK_INT(created.error, 0);
    CHECK(find(ids[0]) && !find(ids[1]));
    CHECK_INT(sandbox_info(find(ids[0])).end_ms, end_ms);
    UNTIL(strcmp(recorded(ids[1]), "killed/it was gone when the daemon looked for it") == 0);
    UNTIL(strcmp(recorded(ids[2]), "killed/timeout") == 0);
    dialed = 0;
    sandbox_dial(find(ids[0]), AGENT_PORT, on_dialed, NULL);
    UNTIL(dialed > 0);
    (void)close(dialed);
    UNTIL(agent.inits >= 5); /* three creates, one adoption, one create */
    teardown();
}

static void adoption_waits_for_the_keeper(void)
{
    setup();
    create(60000);
    UNTIL(created.calls == 1);
    char id[ID_SANDBOX_LEN + 1];
    memcpy(id, created.id, sizeof(id));
    close_house();
    keeper.connected = false;
    open_house();
    create(60000);
    dialed = 0;
    sandbox_dial(find(id), AGENT_PORT, on_dialed, NULL);
    for (int i = 0; i < 20; i++) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
    CHECK_INT(ready, 0);
    CHECK_INT(created.calls, 0);
    CHECK_INT(dialed, 0);
    keeper.connected = true;
    sandboxes_keeper_changed(all, true);
    UNTIL(created.calls == 1 && ready == 1 && dialed != 0);
    CHECK(dialed > 0);
    (void)close(dialed);
    CHECK_INT(created.error, 0);
    CHECK(find(id));
    teardown();
}

static int command_error;

static void on_command(void *ctx, int error, const struct err *err)
{
    (void)ctx, (void)err;
    command_error = error;
}

static bool run_timed_out;

static void on_run_ended(void *ctx, const struct run_end *end)
{
    (void)ctx;
    command_error = end->error;
    run_timed_out = end->timed_out;
}

/* A build would have its place among the builds that run for good. */
static void a_command_has_a_limit_without_the_agents_word(void)
{
    static const struct run_handler handler = {.ended = on_run_ended};
    const struct run_plan plan = {.argv = RUN_SHELL("true"), .timeout_ms = 100};

    setup();
    create(600 * 1000);
    UNTIL(created.calls == 1);
    agent.is_silent = true;
    command_error = 1;
    CHECK(sandbox_run(find(created.id), &plan, &handler, NULL) != NULL);
    UNTIL(command_error != 1);
    CHECK_INT(command_error, -ETIMEDOUT);
    CHECK(run_timed_out);
    agent.is_silent = false;
    teardown();
}

/* What runs in the jail may hold the agent's answer back, but not the sandbox's life. */
static void a_start_command_has_a_limit_without_the_agents_word(void)
{
    static const struct start_command_handler handler = {.done = on_command};
    const struct start_command_plan plan = {.ready_cmd = "true", .limit_ms = 100};

    setup();
    create(600 * 1000);
    UNTIL(created.calls == 1);
    CHECK_INT(created.error, 0);
    agent.is_silent = true;
    command_error = 1;
    (void)start_command_new(find(created.id), &plan, &handler, NULL);
    UNTIL(command_error != 1);
    CHECK_INT(command_error, -ETIMEDOUT);
    agent.is_silent = false;
    teardown();
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a command has a limit without the agent's word",
         a_command_has_a_limit_without_the_agents_word},
        {"a start command has a limit without the agent's word",
         a_start_command_has_a_limit_without_the_agents_word},
        {"a create runs", a_create_runs},
        {"a kill is at once, and on record", a_kill_is_at_once_and_on_record},
        {"time ends it", time_ends_it},
        {"the end can be moved", the_end_can_be_moved},
        {"a death is noticed", a_death_is_noticed},
        {"a start that fails leaves nothing", a_start_that_fails_leaves_nothing},
        {"a kill while starting works", a_kill_while_starting_works},
        {"several start at once", several_start_at_once},
        {"each state is in its team's tally", each_state_is_in_its_teams_tally},
        {"those of one millisecond are listed as they were created",
         those_of_one_millisecond_are_listed_as_they_were_created},
        {"what a sandbox takes is charged to its team and its key",
         what_a_sandbox_takes_is_charged_to_its_team_and_its_key},
        {"a create tells where its time went", a_create_tells_where_its_time_went},
        {"without the keeper", without_the_keeper},
        {"a create waits for the keeper", a_create_waits_for_the_keeper},
        {"a stop answers creates", a_stop_answers_creates},
        {"dials, and mends the channel", dials_and_mends_the_channel},
        {"tells the agent of out-of-memory kills", tells_the_agent_of_oom_kills},
        {"a restart adopts", a_restart_adopts},
        {"adoption waits for the keeper", adoption_waits_for_the_keeper},
    };

    log_init("test", LOG_ERROR);
    return check_run(tests, countof(tests));
}
