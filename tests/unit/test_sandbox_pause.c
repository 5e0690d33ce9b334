/* Sandboxes that are paused, resumed, kept as snapshots and forked. */
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "sandbox_house.h"
#include "wire/channel.h"

static struct {
    int calls, error;
    char message[512];
} paused;

static void on_paused(void *ctx, int error, const struct err *err)
{
    (void)ctx;
    paused.calls++;
    paused.error = error;
    (void)snprintf(paused.message, sizeof(paused.message), "%s", error < 0 ? err->msg : "");
}

static struct {
    int calls, error;
    int64_t end_ms;
} resumed;

static void on_resumed(void *ctx, struct sandbox *sb, int error, const struct err *err)
{
    (void)ctx, (void)err;
    resumed.calls++;
    resumed.error = error;
    resumed.end_ms = sb ? sandbox_info(sb).end_ms : 0;
}

static char id[ID_SANDBOX_LEN + 1];

static void begin(void)
{
    setup();
    memset(&paused, 0, sizeof(paused));
    memset(&resumed, 0, sizeof(resumed));
    create(60000);
    UNTIL(created.calls == 1);
    memcpy(id, created.id, sizeof(id));
}

static void pause_it(bool memory)
{
    paused.calls = 0;
    sandbox_pause(find(id), memory, on_paused, NULL);
    UNTIL(paused.calls == 1);
}

static int saved_n(void)
{
    int n = 0;

    for (int i = 0; i < SAVED_MAX; i++) {
        n += keeper.saved[i][0] != '\0';
    }
    return n;
}

static int past(void)
{
    pthread_mutex_lock(&agent.lock);
    int last = agent.past;
    pthread_mutex_unlock(&agent.lock);
    return last;
}

/* ---- pause and resume ---- */

static void pauses_and_resumes_with_memory(void)
{
    begin();
    int64_t started_ms = sandbox_info(find(id)).started_ms;
    char token[64];
    (void)snprintf(token, sizeof(token), "%s", sandbox_info(find(id)).access_token);
    pause_it(true);
    CHECK_INT(paused.error, 0);
    CHECK_INT(keeper.save.flags, KEEPER_SAVE_MEMORY | KEEPER_SAVE_STOP | KEEPER_SAVE_SYNC);
    CHECK_INT(agent.how_quiet, CHANNEL_QUIET_END);
    CHECK_STR(recorded(id), "paused/");
    CHECK_INT(sandbox_info(find(id)).state, SANDBOX_PAUSED);
    CHECK_INT(sandboxes_figures(all).paused, 1);
    CHECK_INT(sandboxes_figures(all).running, 0);
    CHECK_INT(sandboxes_saved(all).paused_memory, 4096);
    CHECK_INT(sandboxes_saved(all).paused_disk, 8192);
    CHECK_INT(sandbox_info(find(id)).saved_bytes, 4096 + 8192);
    UNTIL(keeper.destroys == 1 && all->slots.used[0] == 0);

    (void)poll(NULL, 0, 5);
    sandbox_resume(find(id), 30000, true, on_resumed, NULL);
    CHECK_INT(sandbox_info(find(id)).state, SANDBOX_PAUSED); /* until it is back */
    UNTIL(resumed.calls == 1);
    CHECK_INT(resumed.error, 0);
    CHECK_INT(keeper.restores, 1);
    CHECK_STR(keeper.plan.from, keeper.save.name);
    CHECK_STR(keeper.plan.layers[0], "top");
    CHECK_INT(past(), CHANNEL_PAST_RESTORED);
    struct sandbox_info info = sandbox_info(find(id));
    CHECK_INT(info.state, SANDBOX_RUNNING);
    CHECK(info.started_ms > started_ms);
    CHECK_INT(info.end_ms - info.started_ms, 30000);
    CHECK_STR(info.access_token, token);
    CHECK_STR(recorded(id), "running/");
    UNTIL(saved_n() == 0);
    CHECK_INT(sandboxes_saved(all).paused_memory, 0);
    CHECK_INT(sandbox_info(find(id)).saved_bytes, 0);
    teardown();
}

static void pauses_without_memory(void)
{
    begin();
    pause_it(false);
    CHECK_INT(paused.error, 0);
    CHECK_INT(keeper.save.flags, KEEPER_SAVE_STOP | KEEPER_SAVE_SYNC);
    sandbox_resume(find(id), 30000, true, on_resumed, NULL);
    UNTIL(resumed.calls == 1);
    CHECK_INT(resumed.error, 0);
    CHECK_INT(keeper.restores, 0);
    CHECK_INT(keeper.creates, 2);
    CHECK_STR(keeper.plan.from, keeper.save.name);
    CHECK_INT(past(), CHANNEL_PAST_NONE);
    teardown();
}

static void a_cold_start_of_one_with_memory(void)
{
    begin();
    pause_it(true);
    sandbox_resume(find(id), 30000, false, on_resumed, NULL);
    UNTIL(resumed.calls == 1);
    CHECK_INT(resumed.error, 0);
    CHECK_INT(keeper.restores, 0);
    CHECK_INT(keeper.creates, 2);
    teardown();
}

static void pauses_at_once_are_one(void)
{
    begin();
    for (int i = 0; i < 3; i++) {
        sandbox_pause(find(id), true, on_paused, NULL);
    }
    UNTIL(paused.calls == 3);
    CHECK_INT(paused.error, 0);
    CHECK_INT(keeper.saves, 1);
    pause_it(true);
    CHECK_INT(paused.error, -EALREADY);
    teardown();
}

static void a_pause_that_fails_runs_on(void)
{
    begin();
    keeper.refuses_save = true;
    pause_it(true);
    CHECK_INT(paused.error, -EOPNOTSUPP);
    CHECK_THAT(strstr(paused.message, "process 7 (gdb)") && strstr(paused.message, "memory: false"),
               "message is '%s'", paused.message);
    CHECK_INT(sandbox_info(find(id)).state, SANDBOX_RUNNING);
    CHECK_STR(recorded(id), "running/");
    UNTIL(find(id)->channel); /* attached anew, which ends the agent's quiet */
    CHECK(jail_find(id));
    CHECK_INT(saved_n(), 0);
    pause_it(false);
    CHECK_INT(paused.error, 0);
    teardown();
}

static void time_pauses_it(void)
{
    json_t *options = json_pack("{sbsbsi}", "autoPause", 1, "autoResume", 1, "timeout", 1000);
    struct sandbox_params params = {.team_id = "team",
                                    .template = &template,
                                    .timeout_ms = 100,
                                    .secure = true,
                                    .options = options};

    for (int refuses = 0; refuses < 2; refuses++) {
        setup();
        keeper.refuses_save = refuses;
        memset(&created, 0, sizeof(created));
        sandbox_create(all, &params, on_created, NULL);
        UNTIL(created.calls == 1);
        memcpy(id, created.id, sizeof(id));
        UNTIL(strcmp(recorded(id), "paused/") == 0);
        UNTIL(find(id)->state == SANDBOX_PAUSED);
        CHECK_INT(sandbox_returns(find(id)), !refuses); /* traffic wakes no bare disk */
        teardown();
    }
    json_decref(options);
}

static int dialed;

static void on_dialed(void *ctx, int fd_or_error)
{
    (void)ctx;
    dialed = fd_or_error;
}

static void traffic_wakes_it(void)
{
    begin();
    (void)json_object_set_new(find(id)->options, "autoResume", json_true());
    (void)json_object_set_new(find(id)->options, "timeout", json_integer(1000));
    sandbox_pause(find(id), true, on_paused, NULL);
    dialed = 0;
    sandbox_dial(find(id), AGENT_PORT, on_dialed, NULL); /* comes while it is being paused */
    UNTIL(dialed != 0);
    CHECK(dialed > 0);
    fd_closep(&dialed);
    CHECK_INT(paused.calls, 1);
    struct sandbox_info info = sandbox_info(find(id));
    CHECK_INT(info.state, SANDBOX_RUNNING);
    CHECK_INT(info.end_ms - info.started_ms, 1000 * 1000);

    pause_it(true);
    sandbox_wake(find(id));
    dialed = 0;
    sandbox_dial(find(id), AGENT_PORT, on_dialed, NULL);
    UNTIL(dialed > 0);
    fd_closep(&dialed);

    pause_it(true);
    dialed = 0;
    sandbox_dial(find(id), AGENT_PORT, on_dialed, NULL); /* nobody has woken it */
    CHECK_INT(dialed, -ESHUTDOWN);
    teardown();
}

/* A request that came while it ran, without the right to wake it, and waits for the channel. */
static void who_may_not_wake_it_does_not(void)
{
    begin();
    (void)json_object_set_new(find(id)->options, "autoResume", json_true());
    sandbox_pause(find(id), true, on_paused, NULL);
    dialed = 0;
    sandbox_dial_awake(find(id), AGENT_PORT, on_dialed, NULL);
    UNTIL(dialed != 0);
    CHECK_INT(dialed, -ESHUTDOWN);
    UNTIL(paused.calls == 1);
    CHECK_INT(find(id)->state, SANDBOX_PAUSED);
    CHECK_INT(keeper.restores, 0);
    teardown();
}

static void those_who_want_it_share_a_resume(void)
{
    begin();
    sandbox_pause(find(id), true, on_paused, NULL);
    sandbox_resume(find(id), 30000, true, on_resumed, NULL); /* waits for the pause */
    UNTIL(keeper.restores == 1);
    sandbox_resume(find(id), 90000, true, on_resumed, NULL);
    UNTIL(resumed.calls == 2);
    CHECK_INT(paused.calls, 1);
    CHECK_INT(paused.error, 0);
    CHECK_INT(resumed.error, 0);
    CHECK_INT(keeper.restores, 1);
    struct sandbox_info info = sandbox_info(find(id));
    CHECK(info.end_ms - info.started_ms >= 90000);
    teardown();
}

static void a_resume_that_fails_can_be_made_again(void)
{
    begin();
    pause_it(true);
    int64_t end_ms = sandbox_info(find(id)).end_ms;
    keeper.refuses_restore = true;
    sandbox_resume(find(id), 30000, true, on_resumed, NULL);
    UNTIL(resumed.calls == 1);
    CHECK_INT(resumed.error, -EIO);
    CHECK_INT(find(id)->state, SANDBOX_PAUSED);
    CHECK_INT(sandbox_info(find(id)).end_ms, end_ms);
    CHECK_INT(saved_n(), 1);

    keeper.refuses_restore = false;
    agent.refuses_init = true;
    sandbox_resume(find(id), 30000, true, on_resumed, NULL);
    UNTIL(resumed.calls == 2);
    CHECK_INT(resumed.error, -EIO);
    UNTIL(strcmp(recorded(id), "paused/") == 0);
    UNTIL(!jail_find(id));
    CHECK_INT(saved_n(), 1);

    agent.refuses_init = false;
    sandbox_resume(find(id), 30000, true, on_resumed, NULL);
    UNTIL(resumed.calls == 3);
    CHECK_INT(resumed.error, 0);
    UNTIL(saved_n() == 0);
    teardown();
}

static int gone, told, cut, off;

static void on_gone(struct sandbox_watch *watch)
{
    (void)watch;
    gone++;
}

static void on_pausing(struct sandbox_watch *watch, enum sandbox_pausing how)
{
    told += how == SANDBOX_PAUSE_BEGINS;
    cut += how == SANDBOX_PAUSE_DUE;
    off += how == SANDBOX_PAUSE_OFF;
    CHECK(watch->told == (how != SANDBOX_PAUSE_OFF));
}

static void a_pause_waits_for_what_ends_well(void)
{
    struct sandbox_watch slow = {.gone = on_gone, .pausing = on_pausing};
    struct sandbox_watch quick = {.gone = on_gone, .pausing = on_pausing};
    struct sandbox_watch waiting = {.gone = on_gone, .pausing = on_pausing};

    begin();
    gone = told = cut = 0;
    sandbox_watch_set(&slow, find(id));
    sandbox_watch_set(&quick, find(id));
    sandbox_pause(find(id), true, on_paused, NULL);
    sandbox_watch_set(&waiting, find(id)); /* for the resume */
    UNTIL(told == 2);
    sandbox_watch_unset(&quick);
    UNTIL(agent.quiets == 1);
    for (int i = 0; i < 50; i++) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        (void)poll(NULL, 0, 1);
    }
    CHECK_INT(keeper.saves, 0);
    UNTIL(paused.calls == 1); /* the slow one is cut off */
    CHECK_INT(cut, 1);
    CHECK_INT(gone, 1);
    CHECK(!slow.sandbox && slow.told && waiting.sandbox);
    sandbox_watch_unset(&waiting);
    teardown();
}

static int back;

static void on_back(struct sandbox_watch *watch)
{
    back += resumed.calls == 0 && sandbox_info(watch->sandbox).state == SANDBOX_RUNNING;
    sandbox_watch_unset(watch);
}

static void those_who_wait_know_of_a_resume_before_its_caller(void)
{
    struct sandbox_watch waiting[2] = {
        {.gone = on_gone, .pausing = on_pausing, .resumed = on_back},
        {.gone = on_gone, .pausing = on_pausing, .resumed = on_back},
    };

    begin();
    back = gone = 0;
    pause_it(true);
    sandbox_watch_set(&waiting[0], find(id));
    sandbox_watch_set(&waiting[1], find(id));
    sandbox_resume(find(id), 30000, true, on_resumed, NULL);
    UNTIL(resumed.calls == 1);
    CHECK_INT(back, 2);
    CHECK_INT(gone, 0);
    teardown();
}

static void what_is_held_goes_on_when_a_pause_fails(void)
{
    struct sandbox_watch held = {.gone = on_gone, .pausing = on_pausing};

    begin();
    gone = told = cut = off = 0;
    sandbox_watch_set(&held, find(id));
    keeper.refuses_save = true;
    sandbox_pause(find(id), true, on_paused, NULL);
    UNTIL(told == 1);
    sandbox_watch_settle(&held);
    UNTIL(paused.calls == 1 && off == 1);
    CHECK(held.sandbox && !held.told && gone + cut == 0);

    keeper.refuses_save = false;
    sandbox_pause(find(id), true, on_paused, NULL); /* it is told again */
    UNTIL(told == 2);
    sandbox_kill(find(id), "request", NULL, NULL);
    CHECK(gone == 1 && !held.told); /* that is no pause */
    teardown();
}

/* ---- kill ---- */

static void a_kill_at_any_moment(void)
{
    for (int moment = 0; moment < 4; moment++) {
        begin();
        sandbox_pause(find(id), true, on_paused, NULL);
        if (moment == 1) {
            UNTIL(agent.quiets == 1);
        } else if (moment >= 2) {
            UNTIL(paused.calls == 1);
        }
        if (moment == 3) {
            sandbox_resume(find(id), 30000, true, on_resumed, NULL);
        }
        sandbox_kill(find(id), "request", NULL, NULL);
        CHECK(!find(id));
        UNTIL(strcmp(recorded(id), "killed/request") == 0);
        UNTIL(paused.calls == 1 && resumed.calls == (moment == 3));
        UNTIL(!jail_find(id) && saved_n() == 0);
        UNTIL(all->slots.used[0] == 0);
        CHECK_INT(sandboxes_figures(all).paused, 0);
        teardown();
    }
}

static void retention_ends_it(void)
{
    begin();
    all->use.retention_ms = 100;
    pause_it(true);
    UNTIL(!find(id));
    UNTIL(strcmp(recorded(id), "killed/" SANDBOX_END_RETENTION) == 0);
    UNTIL(saved_n() == 0);
    teardown();
}

/* ---- what dies in between ---- */

static void a_paused_one_survives_a_restart(void)
{
    begin();
    pause_it(true);
    close_house();
    (void)jail_start(id);                                       /* what a resume left */
    (void)snprintf(saved_slot(""), 32, "saved-%s", "leftover"); /* of a fork, say */
    open_house();
    CHECK_INT(sandbox_info(find(id)).state, SANDBOX_PAUSED);
    UNTIL(ready == 1);
    UNTIL(!jail_find(id) && saved_n() == 1);
    sandbox_resume(find(id), 30000, true, on_resumed, NULL);
    UNTIL(resumed.calls == 1);
    CHECK_INT(resumed.error, 0);
    CHECK_INT(keeper.restores, 1);
    CHECK_STR(keeper.plan.layers[1], "middle");
    teardown();
}

/* A client may ask for a paused sandbox before the jails of the last daemon were looked at. */
static void a_resume_before_adoption_finds_no_leftover(void)
{
    begin();
    pause_it(true);
    close_house();
    (void)jail_start(id); /* a power cut ended a resume */
    int destroys = keeper.destroys;
    open_house();
    sandbox_resume(find(id), 30000, true, on_resumed, NULL);
    CHECK_INT(ready, 0);
    UNTIL(resumed.calls == 1);
    CHECK_INT(resumed.error, 0);
    CHECK_INT(keeper.destroys, destroys + 1);
    CHECK_INT(sandbox_info(find(id)).state, SANDBOX_RUNNING);
    teardown();
}

static void a_pause_that_nobody_heard_of_is_found(void)
{
    begin();
    char name[KEEPER_SAVED_BYTES];
    saved_name_pause(find(id), true, name);
    close_house();
    jail_stop(jail_find(id)); /* the keeper was through, the daemon had died */
    (void)snprintf(saved_slot(""), KEEPER_SAVED_BYTES, "%s", name);
    open_house();
    UNTIL(ready == 1);
    UNTIL(strcmp(recorded(id), "paused/") == 0);
    CHECK_INT(saved_n(), 1);
    UNTIL(find(id)->state == SANDBOX_PAUSED);
    sandbox_resume(find(id), 30000, true, on_resumed, NULL);
    UNTIL(resumed.calls == 1);
    CHECK_INT(resumed.error, 0);
    teardown();
}

/* The daemon is back before the keeper has finished what its predecessor asked for. */
static void a_pause_that_ends_after_a_restart_is_found(void)
{
    begin();
    char name[KEEPER_SAVED_BYTES];
    saved_name_pause(find(id), false, name);
    close_house();
    open_house();
    UNTIL(ready == 1 && find(id)->channel);
    (void)snprintf(saved_slot(""), KEEPER_SAVED_BYTES, "%s", name);
    jail_stop(jail_find(id));
    UNTIL(strcmp(recorded(id), "paused/") == 0);
    CHECK_INT(saved_n(), 1);
    teardown();
}

static void a_keeper_that_dies_has_saved_or_not(void)
{
    for (int saved = 0; saved < 2; saved++) {
        begin();
        keeper.dies_after_save = saved;
        sandbox_pause(find(id), true, on_paused, NULL);
        if (!saved) {
            UNTIL(agent.quiets == 1);
            UNTIL(save_is(find(id), SAVE_WRITING) || !(keeper.connected = false));
        }
        UNTIL(!keeper.connected);
        for (int i = 0; i < 20; i++) {
            (void)uv_run(&loop, UV_RUN_NOWAIT);
        }
        CHECK_INT(paused.calls, 0);
        keeper.connected = true;
        sandboxes_keeper_changed(all, true);
        UNTIL(paused.calls == 1);
        CHECK_INT(paused.error, saved ? 0 : -EAGAIN);
        CHECK_STR(recorded(id), saved ? "paused/" : "running/");
        CHECK_INT(saved_n(), saved);
        teardown();
    }
}

static void a_kill_while_the_outcome_is_unknown_leaves_nothing(void)
{
    begin();
    keeper.dies_after_save = true;
    sandbox_pause(find(id), true, on_paused, NULL);
    UNTIL(save_is(find(id), SAVE_UNKNOWN));
    sandbox_kill(find(id), SANDBOX_END_REQUEST, NULL, NULL);
    CHECK_INT(paused.error, -ENOENT);
    keeper.connected = true;
    sandboxes_keeper_changed(all, true);
    UNTIL(keeper.destroys == 1 && saved_n() == 0 && all->slots.used[0] == 0);
    teardown();
}

/* ---- snapshots and forks ---- */

static struct {
    int calls, error;
    char template_id[ID_TEMPLATE_LEN + 1];
} snapped;

static void on_snapped(void *ctx, int error, const struct err *err,
                       const struct sandbox_snapshot *snapshot)
{
    (void)ctx, (void)err;
    snapped.calls++;
    snapped.error = error;
    if (snapshot) {
        (void)snprintf(snapped.template_id, sizeof(snapped.template_id), "%s",
                       snapshot->template_id);
    }
}

/* The daemon before had asked for a pause of the disk alone. */
static void what_waits_when_a_pause_is_found_comes_too_late(void)
{
    begin();
    char name[KEEPER_SAVED_BYTES];
    saved_name_pause(find(id), false, name);
    close_house();
    jail_stop(jail_find(id));
    (void)snprintf(saved_slot(""), KEEPER_SAVED_BYTES, "%s", name);
    open_house();
    snapped.calls = 0;
    sandbox_snapshot(find(id), NULL, "default", true, on_snapped, NULL);
    sandbox_pause(find(id), true, on_paused, NULL);
    UNTIL(snapped.calls == 1 && paused.calls == 1);
    CHECK_INT(snapped.error, -ESTALE);
    CHECK_INT(paused.error, 0);
    CHECK_STR(recorded(id), "paused/");
    CHECK_STR(find(id)->saved, name);
    teardown();
}

static const struct template *snapshot_of(const char *name)
{
    int why = 0;

    return templates_find(templates, "team", str_of(name), &why);
}

static void take_snapshot(const char *alias)
{
    memset(&snapped, 0, sizeof(snapped));
    sandbox_snapshot(find(id), alias, "default", true, on_snapped, NULL);
    UNTIL(snapped.calls == 1);
    CHECK_INT(snapped.error, 0);
}

static void removed(void *ctx, int error, const struct err *err)
{
    (void)err;
    *(int *)ctx = error == 0;
}

static void a_snapshot_starts_others(void)
{
    int gone_now = 0;

    begin();
    take_snapshot("snap");
    CHECK_INT(keeper.save.flags, KEEPER_SAVE_MEMORY | KEEPER_SAVE_SYNC);
    CHECK_INT(agent.how_quiet, CHANNEL_QUIET_HOLD);
    CHECK_INT(sandbox_info(find(id)).state, SANDBOX_RUNNING);
    UNTIL(find(id)->channel);
    const struct template *t = snapshot_of("snap:default");
    CHECK(t);
    CHECK_STR(t->snapshot_of, id);
    CHECK_STR(t->layers, "top,middle,bottom");

    sandbox_kill(find(id), "request", NULL, NULL); /* it outlives its sandbox, and a daemon */
    UNTIL(!jail_find(id));
    close_house();
    open_house();
    UNTIL(ready == 1);
    t = snapshot_of("snap");
    CHECK(t);
    struct sandbox_params params = {
        .team_id = "team", .template = t, .timeout_ms = 60000, .secure = true};
    memset(&created, 0, sizeof(created));
    sandbox_create(all, &params, on_created, NULL);
    UNTIL(created.calls == 1);
    CHECK_INT(created.error, 0);
    CHECK_INT(keeper.restores, 1);
    CHECK_STR(keeper.plan.hostname, created.id);
    CHECK_INT(past(), CHANNEL_PAST_COPIED);

    sandboxes_forget_template(all, t, removed, &gone_now);
    CHECK(!snapshot_of("snap"));
    UNTIL(gone_now && saved_n() == 0);
    CHECK(find(created.id));
    teardown();
}

static void a_name_takes_the_newer_snapshot(void)
{
    char first[KEEPER_SAVED_BYTES];

    begin();
    take_snapshot("snap");
    char template_id[ID_TEMPLATE_LEN + 1];
    memcpy(template_id, snapped.template_id, sizeof(template_id));
    memcpy(first, keeper.save.name, sizeof(first));
    take_snapshot("snap");
    CHECK_STR(snapped.template_id, template_id);
    CHECK_STR(snapshot_of("snap")->saved, keeper.save.name);
    UNTIL(!saved_slot(first));
    CHECK_INT(saved_n(), 1);
    take_snapshot(NULL);
    CHECK(strcmp(snapped.template_id, template_id) != 0);
    CHECK(snapshot_of(snapped.template_id));
    teardown();
}

static struct {
    int made, failed, refused;
} forks;

static void on_fork(void *ctx, uint32_t index, struct sandbox *sb, int error, const struct err *err)
{
    (void)ctx, (void)index, (void)error, (void)err;
    forks.made += sb != NULL;
    forks.failed += sb == NULL;
}

static void on_fork_refused(void *ctx, int error, const struct err *err)
{
    (void)ctx, (void)err;
    forks.refused = error;
}

static void forks_are_sandboxes_of_their_own(void)
{
    const struct sandbox_fork fork = {
        .count = 20, .timeout_ms = 50000, .each = on_fork, .failed = on_fork_refused};

    begin();
    memset(&forks, 0, sizeof(forks));
    int64_t end_ms = sandbox_info(find(id)).end_ms;
    sandbox_fork(find(id), &fork);
    UNTIL(forks.made + forks.failed == 20);
    CHECK_INT(forks.made, 20);
    CHECK_INT(keeper.saves, 1);
    CHECK_INT(keeper.restores, 20);
    CHECK_INT(sandboxes_figures(all).running, 21);
    CHECK_INT(sandbox_info(find(id)).end_ms, end_ms);
    UNTIL(saved_n() == 0);

    keeper.refuses_save = true;
    sandbox_fork(find(id), &fork);
    UNTIL(forks.refused != 0);
    CHECK_INT(forks.refused, -EOPNOTSUPP);
    CHECK_INT(forks.made + forks.failed, 20);
    teardown();
}

static void saves_wait_in_line(void)
{
    const struct sandbox_fork fork = {
        .count = 1, .timeout_ms = 50000, .each = on_fork, .failed = on_fork_refused};

    begin();
    memset(&snapped, 0, sizeof(snapped));
    memset(&forks, 0, sizeof(forks));
    sandbox_snapshot(find(id), NULL, "default", true, on_snapped, NULL);
    sandbox_pause(find(id), true, on_paused, NULL);
    sandbox_fork(find(id), &fork);
    UNTIL(snapped.calls == 1 && paused.calls == 1 && forks.refused != 0);
    CHECK_INT(snapped.error, 0);
    CHECK_INT(paused.error, 0);
    CHECK_INT(forks.refused, -ESTALE);
    teardown();
}

int main(void)
{
    static const struct check_test tests[] = {
        {"pauses and resumes with memory", pauses_and_resumes_with_memory},
        {"pauses without memory", pauses_without_memory},
        {"starts one anew that was paused with memory", a_cold_start_of_one_with_memory},
        {"pauses at once are one", pauses_at_once_are_one},
        {"a pause that fails leaves it running", a_pause_that_fails_runs_on},
        {"what is held goes on when a pause fails", what_is_held_goes_on_when_a_pause_fails},
        {"its time pauses it", time_pauses_it},
        {"traffic wakes it", traffic_wakes_it},
        {"who may not wake it does not", who_may_not_wake_it_does_not},
        {"those who want it back share a resume", those_who_want_it_share_a_resume},
        {"a resume that fails can be made again", a_resume_that_fails_can_be_made_again},
        {"a pause waits for what ends well", a_pause_waits_for_what_ends_well},
        {"those who wait know of a resume before its caller",
         those_who_wait_know_of_a_resume_before_its_caller},
        {"a kill works at any moment", a_kill_at_any_moment},
        {"retention ends it", retention_ends_it},
        {"a paused one survives a restart", a_paused_one_survives_a_restart},
        {"a resume before adoption finds no leftover", a_resume_before_adoption_finds_no_leftover},
        {"a pause that nobody heard of is found", a_pause_that_nobody_heard_of_is_found},
        {"a pause that ends after a restart is found", a_pause_that_ends_after_a_restart_is_found},
        {"a keeper that dies has saved or not", a_keeper_that_dies_has_saved_or_not},
        {"a kill while the outcome is unknown leaves nothing",
         a_kill_while_the_outcome_is_unknown_leaves_nothing},
        {"what waits when a pause is found comes too late",
         what_waits_when_a_pause_is_found_comes_too_late},
        {"a snapshot starts others", a_snapshot_starts_others},
        {"a name takes the newer snapshot", a_name_takes_the_newer_snapshot},
        {"forks are sandboxes of their own", forks_are_sandboxes_of_their_own},
        {"saves wait in line", saves_wait_in_line},
    };

    log_init("test", LOG_ERROR);
    return check_run(tests, countof(tests));
}
