/* create.c - from a template to a RUNNING sandbox, and from a paused one back to it.
 *
 *      wait ─► KEEPER_CREATE ─┬─► connect, POST /init ─► start command ─┬─► RUNNING, done
 *              or RESTORE     └─► save the row ─────────────────────────┘
 *
 * states.c has the phases. A start waits for adoption, for a keeper that is away (it is restarted
 * in a moment), and until an older jail of the same sandbox is gone. The two branches run at once.
 * When the daemon dies, whatever the phase, nothing is lost and nothing is left: adoption destroys
 * a jail without a row, or whose row says paused; a jail with a row is adopted and told its
 * configuration again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/text.h"
#include "serve/sandbox/internal.h"
#include "serve/sandbox/start_command.h"
#include "wire/channel.h"

struct start {
    struct start *prev, *next; /* in all->waiting */
    struct sandbox *sb;
    struct keeper_request request;
    int past; /* enum channel_past */
    sandbox_created *done;
    void *ctx;
    uint32_t waited_ms;
    enum start_phase phase;        /* start_set_phase() alone writes it */
    enum start_row row;            /* start_set_row() alone writes it */
    bool claimed;                  /* it was parked */
    bool started;                  /* its save has the template's command running */
    int files[ALONE_FDS];          /* of its source, for its agent; -1: none */
    bool lacks_files;              /* there was no descriptor left for one of them */
    char *start_cmd, *ready_cmd;   /* of the template; NULL: none */
    json_t *start_context;         /* of these, as a template's; NULL: the sandbox's own */
    struct start_command *command; /* under way */
    int64_t started_ms;            /* RESUMING: what they were, should it fail */
    int64_t end_ms;
    int64_t step_us; /* when the last step was over */
    struct trace_place trace;
    int error; /* REFUSED: why */
    struct err err;
};

static void start_set_phase(struct start *start, enum start_phase phase)
{
    if (phase_allows(start_phases, start->phase, phase, "the start of sandbox", start->sb->id)) {
        start->phase = phase;
    }
}

static void start_set_row(struct start *start, enum start_row row)
{
    if (phase_allows(start_rows, start->row, row, "the row of sandbox", start->sb->id)) {
        start->row = row;
    }
}

static bool row_was_given(const struct start *start)
{
    return start->row == ROW_GIVEN || start->row == ROW_SAVED;
}

void start_mark(struct sandbox *sb, enum sandbox_step step)
{
    static const char *const names[] = {"start.jail", "start.dial", "start.init", "start.command",
                                        "start.record"};
    bool created = sb->state == SANDBOX_STARTING;

    if (!sb->start || sb->internal || !(created || sb->state == SANDBOX_RESUMING)) {
        return;
    }
    const struct trace_attribute attributes[] = {
        {.name = "sandbox.id", .text = sb->id},
        {.name = "atoll.template.id", .text = sb->template_id},
        {.name = "atoll.start.claimed", .number = sb->start->claimed},
    };
    int64_t now_us = clock_mono_us();

    if (created) {
        histogram_add(&sb->all->steps[step], now_us - sb->start->step_us);
    }
    trace_step(&sb->all->use.tracer, &sb->start->trace, names[step], sb->start->step_us, now_us,
               attributes, countof(attributes));
    sb->start->step_us = now_us;
}

void sandbox_trace(struct sandbox *sb, const struct trace_place *place)
{
    sb->trace = *place;
}

/* ---- the end of a start ---- */

static struct start start_take(struct sandbox *sb)
{
    struct start *start = move_ptr(&sb->start), copy = *start;

    if (start->phase == START_WAITING) {
        DL_DELETE(sb->all->waiting, start);
    }
    start_command_free(start->command);
    for (size_t i = 0; i < ALONE_FDS; i++) {
        fd_closep(&start->files[i]);
    }
    free(start->start_cmd);
    free(start->ready_cmd);
    json_decref(start->start_context);
    if (start->request.plan.from[0] && start->phase != START_MAKING) {
        saved_release(sb->all, start->request.plan.from);
    }
    free(start);
    return copy;
}

void start_drop(struct sandbox *sb)
{
    struct err err;

    if (!sb->start) {
        return;
    }
    struct start start = start_take(sb);
    (void)err_set(&err, EAGAIN, "the daemon is stopping; try again");
    start.done(start.ctx, NULL, -EAGAIN, &err);
}

/* The jail is destroyed when the keeper has made it: it cannot be destroyed before. */
static void undo_jail(struct sandbox *sb, const struct start *start)
{
    uint32_t slot = sb->uid_slot;

    sb->uid_slot = SLOT_NONE;
    if (start->phase == START_MAKING) {
        sb->destroy_due = true;
        sb->destroy_slot = slot;
    } else if (start->phase > START_MAKING) {
        destroy_jail(sb->all, sb->id, &sb->jail, slot);
    } else {
        slots_give(&sb->all->slots, slot);
    }
}

/* It is paused as it was: a resume uses nothing up before it has succeeded. */
static void back_to_paused(struct sandbox *sb, const struct start *start)
{
    sb->all->resumes_failed++;
    sb->started_ms = start->started_ms;
    sb->end_ms = start->end_ms;
    sandbox_drop_jail(sb);
    undo_jail(sb, start);
    (void)!sandbox_set_state(sb, SANDBOX_PAUSED);
    sandbox_arm(sb);
    if (row_was_given(start)) {
        sandbox_record(sb, CHANGE_PAUSED, NULL, NULL, NULL);
    }
    sandbox_fail_dials(sb, -EHOSTDOWN);
}

/* Removes all of it, and ends what is on record of it. */
static void take_back(struct sandbox *sb, const struct start *start)
{
    sandbox_leave(sb);
    undo_jail(sb, start);
    if (row_was_given(start)) {
        sandbox_record_end(sb, "it did not start", NULL, NULL);
    }
}

void start_fail(struct sandbox *sb, int error, const struct err *err)
{
    struct err why = *err;
    bool resumed = sb->state == SANDBOX_RESUMING;

    if (!sb->internal) { /* else its owner logs it */
        log_warn("sandbox %s: %s: %s", sb->id, resumed ? "resume" : "create", why.msg);
    }
    sandbox_hold(sb);
    struct start start = start_take(sb);
    if (resumed) {
        sandbox_note_wrong(sb, "it could not be resumed: %s", why.msg);
        back_to_paused(sb, &start);
    } else {
        sb->all->create_failed += sb->state == SANDBOX_STARTING;
        take_back(sb, &start);
    }
    start.done(start.ctx, NULL, error, &why);
    sandbox_release(sb);
}

static void create_new(struct sandboxes *all, const struct sandbox_params *params,
                       sandbox_created *done, void *ctx);

/* A claimed jail has died: the create starts again with a new jail. False: the template has changed
 * meanwhile. */
static bool start_again(struct sandbox *sb, int64_t timeout_ms, const struct start *start)
{
    const struct template *t = templates_by_id(sb->all->use.templates, sb->template_id);

    if (!t || !text_same(t->build_id, sb->build_id)) {
        return false;
    }
    const struct sandbox_params params = {.team_id = sb->team_id,
                                          .template = t,
                                          .timeout_ms = timeout_ms,
                                          .secure = sb->access_token != NULL,
                                          .metadata = sb->metadata,
                                          .env_vars = sb->env_vars,
                                          .options = sb->options,
                                          .trace = &start->trace};
    create_new(sb->all, &params, start->done, start->ctx);
    return true;
}

/* The caller does not know the sandbox yet: the row is ended, and the next one has another id. */
static void claim_lost(struct sandbox *sb, const struct err *err)
{
    int64_t timeout_ms = sb->end_ms - sb->started_ms;
    struct err why = *err;

    log_warn("sandbox %s: lost as it was claimed, another is made: %s", sb->id, why.msg);
    sandbox_hold(sb);
    struct start start = start_take(sb);
    take_back(sb, &start);
    if (!start_again(sb, timeout_ms, &start)) {
        sb->all->create_failed++;
        start.done(start.ctx, NULL, -EIO, &why);
    }
    sandbox_release(sb);
}

void start_lost(struct sandbox *sb, const struct err *err)
{
    if (sb->start->claimed && !sb->fork_of) { /* a copy would lack the files of its source */
        claim_lost(sb, err);
    } else {
        start_fail(sb, err->code == EOPNOTSUPP ? -EOPNOTSUPP : -EIO, err);
    }
}

static void set_patience(struct sandbox *sb, uint32_t ms)
{
    sandbox_timer_start(sb, TIMER_START, ms);
}

static uint32_t patience_ms(const struct start *start)
{
    return start->request.op == KEEPER_RESTORE ? SANDBOX_RESTORE_TIMEOUT_MS
                                               : SANDBOX_START_TIMEOUT_MS;
}

/* Adoption takes its time when there is much to adopt; a keeper that stays away does not. */
static bool waits_on(struct sandbox *sb)
{
    sb->start->waited_ms += SANDBOX_KEEPER_WAIT_MS;
    return sb->start->waited_ms < SANDBOX_START_TIMEOUT_MS &&
           keeper_client_connected(sb->all->use.keeper);
}

void start_timeout(struct sandbox *sb)
{
    struct start *start = sb->start;
    struct err err;

    if (start->phase == START_REFUSED || (start->lacks_files && start->phase > START_MAKING)) {
        start_fail(sb, start->error, &start->err);
    } else if (start->phase == START_WAITING && waits_on(sb)) {
        set_patience(sb, SANDBOX_KEEPER_WAIT_MS);
    } else if (start->phase == START_WAITING) {
        (void)err_set(&err, EAGAIN, "%s; try again",
                      keeper_client_connected(sb->all->use.keeper)
                          ? "the sandbox's jail of before is not gone yet"
                          : "the keeper is not running");
        start_fail(sb, -EAGAIN, &err);
    } else {
        (void)err_set(&err, ETIMEDOUT, "the sandbox did not start within %u s",
                      patience_ms(start) / 1000);
        start_fail(sb, -ETIMEDOUT, &err);
    }
}

static void start_check(struct sandbox *sb)
{
    static const struct err none;
    bool resumed = sb->state == SANDBOX_RESUMING, parked = sb->state == SANDBOX_PARKING;

    if (sb->start->phase != START_READY ||
        (sb->start->row != ROW_SAVED && sb->start->row != ROW_UNWANTED)) {
        return;
    }
    start_mark(sb, SANDBOX_STEP_RECORD);
    struct start start = start_take(sb);
    (void)!sandbox_set_state(sb, parked ? SANDBOX_PARKED : SANDBOX_RUNNING);
    if (resumed) {
        sb->all->resumes++;
        saved_forget(sb->all, sb->saved);
        free(move_ptr(&sb->saved));
        sb->saved_bytes = sb->saved_disk_bytes = 0;
    } else if (sandbox_is_users(sb)) {
        sb->all->created++;
        table_show(&sb->all->table, sb);
    }
    sandbox_arm(sb);
    log_write(parked ? LOG_DEBUG : LOG_INFO, "sandbox %s: %s, template %s", sb->id,
              resumed  ? "resumed"
              : parked ? "parked"
                       : "running",
              sb->template_id);
    sandbox_hold(sb);
    start.done(start.ctx, sb, 0, &none);
    sandbox_resume_dials(sb);
    sandbox_release(sb);
}

/* ---- its steps, last first ---- */

static bool is_starting(const struct sandbox *sb)
{
    return sb->start && (sb->state == SANDBOX_STARTING || sb->state == SANDBOX_PARKING ||
                         sb->state == SANDBOX_RESUMING);
}

static void on_recorded(void *ctx, int error, const struct err *err)
{
    struct sandbox *sb = ctx;

    if (is_starting(sb) && error < 0) {
        start_set_row(sb->start, ROW_NONE); /* nothing is on record, so no end has to be recorded */
        sb->on_record = sb->state == SANDBOX_RESUMING;
        start_fail(sb, error == -EDQUOT || error == -EAGAIN ? error : -EIO, err);
    } else if (is_starting(sb)) {
        start_set_row(sb->start, ROW_SAVED);
        start_check(sb);
    }
    sandbox_release(sb);
}

static void on_command(void *ctx, int error, const struct err *err)
{
    struct sandbox *sb = ctx;

    sb->start->command = NULL;
    if (error < 0 && sb->state == SANDBOX_RESUMING) {
        log_warn("sandbox %s: resumed without what its template starts: %s", sb->id, err->msg);
        sandbox_note_wrong(sb, "it was resumed without what its template starts: %s", err->msg);
        error = 0; /* the caller wants its files back */
    }
    if (error < 0) {
        start_fail(sb, error == -ETIMEDOUT ? error : -EIO, err);
    } else {
        start_mark(sb, SANDBOX_STEP_COMMAND);
        start_set_phase(sb->start, START_READY);
        start_check(sb);
    }
}

static bool has_command(const struct start *start)
{
    return start->start_cmd || start->ready_cmd;
}

static int64_t ready_limit_ms(const struct sandbox *sb)
{
    int64_t asked_ms = sb->all->use.ready_limit_ms;
    int64_t limit_ms = asked_ms > 0 ? asked_ms : START_READY_LIMIT_MS;

    return sandbox_is_users(sb) ? limit_ms : START_AHEAD_FACTOR * limit_ms;
}

static void start_run_command(struct sandbox *sb)
{
    static const struct start_command_handler handler = {.done = on_command};
    struct start_command_plan plan = {.start_cmd = sb->start->start_cmd,
                                      .ready_cmd = sb->start->ready_cmd,
                                      .limit_ms = ready_limit_ms(sb),
                                      .settle_ms = START_SETTLE_MS};

    start_command_context(&plan, sb->start->start_context);
    json_t *env = plan.env ? json_deep_copy(plan.env) : json_object();
    if (!sandbox_is_users(sb)) {
        (void)json_object_set_new(env, START_KEPT_VARIABLE, json_string("1"));
    }
    plan.env = env;
    start_set_phase(sb->start, START_COMMAND);
    (void)uv_timer_stop(&sb->timers[TIMER_START]); /* the command has a limit of its own */
    sb->start->command = start_command_new(sb, &plan, &handler, sb);
    json_decref(env);
}

static void on_init(struct sandbox *sb, int error, const struct err *err)
{
    if (!is_starting(sb)) {
        return;
    }
    if (error < 0) {
        start_lost(sb, err);
        return;
    }
    start_mark(sb, SANDBOX_STEP_INIT);
    if (has_command(sb->start) && !sb->start->started) {
        start_run_command(sb);
    } else {
        start_set_phase(sb->start, START_READY);
        start_check(sb);
    }
}

static int create_error(int status)
{
    switch (status) {
    case -ENOTCONN:
    case -ECONNRESET:
        return -EAGAIN;
    case -ENOSPC:
    case -EDQUOT:
    case -ENOMEM:
    case -EMFILE:
    case -ENFILE:
        return -ENOSPC;
    case -ELOOP:
    case -ENOTDIR:
    case -EXDEV:
    case -ENODEV:
        return -EINVAL; /* a place where a volume cannot be mounted, or one that needs one */
    default:
        return -EIO;
    }
}

static void start_record(struct sandbox *sb, enum sandbox_change change)
{
    if (!sandbox_is_users(sb)) {
        start_set_row(sb->start, ROW_UNWANTED);
        return;
    }
    start_set_row(sb->start, ROW_GIVEN);
    sb->on_record = true;
    sandbox_hold(sb);
    sandbox_record(sb, change, NULL, on_recorded, sb);
}

static void configure(struct sandbox *sb);

static void on_files(void *ctx, int error)
{
    struct sandbox *sb = ctx;
    struct err err;

    if (is_starting(sb) && error < 0) {
        (void)err_set(&err, -error, "the files of its source could not be copied: %s",
                      strerrordesc_np(-error));
        start_lost(sb, &err);
    } else if (is_starting(sb)) {
        configure(sb);
    }
    sandbox_release(sb);
}

/* The files of its source come first: all that its agent does next finds them there. */
static void configure(struct sandbox *sb)
{
    static const uint32_t places[ALONE_FDS] = {
        [KEEPER_FD_FILES] = CHANNEL_PLACE_RUN, [KEEPER_FD_DISK] = CHANNEL_PLACE_ROOT};

    if (sb->start->lacks_files) {
        set_patience(sb, 0); /* the caller is told from the loop */
        return;
    }
    for (size_t i = 0; i < ALONE_FDS; i++) {
        int fd = move_fd(&sb->start->files[i]);
        if (fd >= 0) {
            sandbox_hold(sb);
            agent_channel_ask(sb->channel, CHANNEL_FILES, places[i], fd, on_files, sb);
            return;
        }
    }
    sandbox_init_agent(sb, on_init);
}

static void jail_made(struct sandbox *sb, const struct keeper_answer *answer,
                      int fds[KEEPER_FDS_MAX])
{
    bool resumed = sb->state == SANDBOX_RESUMING;

    start_mark(sb, SANDBOX_STEP_JAIL);
    start_set_phase(sb->start, START_CONFIGURING);
    sb->jail = answer->jail;
    if (resumed) {
        sb->started_ms = clock_wall_ms();
        sb->end_ms = sb->started_ms + resume_span_ms(sb);
    }
    sandbox_take_jail(sb, sb->start->past, answer, fds);
    start_record(sb, resumed ? CHANGE_RESUMED : CHANGE_CREATED);
    configure(sb);
}

static void start_jail(struct sandbox *sb);

/* The save of its template cannot be used, but its layers and its command are still there. The
 * keeper has left nothing under the sandbox's id. */
static void start_without_save(struct sandbox *sb, const struct err *err)
{
    struct keeper_plan *plan = &sb->start->request.plan;

    log_warn("sandbox %s: started anew, with the command of its template: %s", sb->id, err->msg);
    prestart_redo(sb->all, sb, plan->from);
    saved_release(sb->all, plan->from);
    memset(plan->from, 0, sizeof(plan->from));
    sb->start->request.op = KEEPER_CREATE;
    sb->start->past = CHANNEL_PAST_NONE;
    plan->channel_min = 0;
    sb->start->started = sb->prestarted = false;
    start_jail(sb);
}

static void jail_failed(struct sandbox *sb, int error, const struct err *err)
{
    if (error == -EIO && sb->prestarted && sb->state == SANDBOX_STARTING) {
        start_without_save(sb, err);
    } else {
        start_fail(sb, error, err);
    }
}

struct making {
    struct sandbox *sb;            /* counted */
    bool awaited;                  /* a caller waits for it: parked jails wait behind it */
    char from[KEEPER_SAVED_BYTES]; /* held, unless "" */
};

/* The start was given up meanwhile: a jail that was made is destroyed. */
static void given_up(const struct making *making)
{
    struct sandbox *sb = making->sb;

    if (making->from[0]) {
        saved_release(sb->all, making->from);
    }
    if (sb->destroy_due && !sb->all->closed) {
        destroy_jail(sb->all, sb->id, &sb->jail, sb->destroy_slot);
    }
    sb->destroy_due = false;
}

static void on_jail(void *ctx, const struct keeper_answer *answer, int fds[KEEPER_FDS_MAX])
{
    struct making *making = ctx;
    struct sandbox *sb = making->sb;
    struct err err;

    sb->all->making_n -= making->awaited;
    parked_refill(sb->all);
    if (sb->destroy_due || !is_starting(sb)) {
        given_up(making);
        sandbox_release(sb);
        free(making);
        return;
    }
    start_set_phase(sb->start, START_ANSWERED);
    if (answer->status == -ENOTCONN || answer->status == -ECONNRESET) {
        (void)err_set(&err, EAGAIN, "the keeper is not running; try again");
        start_fail(sb, -EAGAIN, &err);
    } else if (answer->status < 0) {
        jail_failed(sb, create_error(answer->status), &answer->err);
    } else if (fds[KEEPER_FD_PIDFD] < 0 || fds[KEEPER_FD_CHANNEL] < 0) {
        (void)err_set(&err, ENOSPC, "the server has no descriptors left for another sandbox");
        start_fail(sb, -ENOSPC, &err);
    } else {
        jail_made(sb, answer, fds);
    }
    sandbox_release(sb);
    free(making);
}

static void start_jail(struct sandbox *sb)
{
    struct making *making = xnew(struct making);

    making->sb = sb;
    making->awaited = sb->state != SANDBOX_PARKING;
    memcpy(making->from, sb->start->request.plan.from, sizeof(making->from));
    start_set_phase(sb->start, START_MAKING);
    set_patience(sb, patience_ms(sb->start));
    sb->all->making_n += making->awaited;
    sandbox_hold(sb);
    keeper_client_ask_for(sb->all->use.keeper, sb->team_id, &sb->start->request, on_jail, making);
}

static bool may_start(const struct sandbox *sb)
{
    return sb->all->adoption == ADOPT_READY && keeper_client_connected(sb->all->use.keeper) &&
           !sb->destroy_due && !destroy_has(sb->all, sb->id);
}

void start_waiting(struct sandboxes *all)
{
    struct start *start = NULL, *next = NULL;

    DL_FOREACH_SAFE (all->waiting, start, next) {
        if (may_start(start->sb)) {
            DL_DELETE(all->waiting, start);
            start_jail(start->sb);
        }
    }
}

/* A start without memory runs the template's command, which the memory would have had. */
static void take_commands(struct start *start, const json_t *options)
{
    text_set(&start->start_cmd, json_string_value(json_object_get(options, "startCmd")));
    text_set(&start->ready_cmd, json_string_value(json_object_get(options, "readyCmd")));
    start->start_context = json_incref(json_object_get(options, "startContext"));
}

void start_begin(struct sandbox *sb, const char *from, bool memory, int past, sandbox_created *done,
                 void *ctx)
{
    struct start *start = xnew(struct start);

    *start = (struct start){.sb = sb,
                            .past = past,
                            .done = done,
                            .ctx = ctx,
                            .files = {-1, -1},
                            .started_ms = sb->started_ms,
                            .end_ms = sb->end_ms,
                            .trace = sb->trace,
                            .step_us = clock_mono_us()};
    sb->start = start;
    sb->trace = (struct trace_place){0};
    start->started = memory;
    take_commands(start, sb->options);
    start->error = plan_jail(sb, from, memory, &start->request, &start->err);
    if (start->error) {
        start->request.plan.from[0] = '\0';
        start_set_phase(start, START_REFUSED);
        set_patience(sb, 0);
        return;
    }
    if (from) {
        saved_hold(sb->all, from);
    }
    if (may_start(sb)) {
        start_jail(sb);
    } else {
        start_set_phase(start, START_WAITING);
        DL_APPEND(sb->all->waiting, start);
        set_patience(sb, SANDBOX_KEEPER_WAIT_MS);
    }
}

/* ---- from outside ---- */

/* state: STARTING or PARKING. */
static struct sandbox *new_starting(struct sandboxes *all, const struct sandbox_params *params,
                                    enum sandbox_state state)
{
    struct sandbox *sb = sandbox_new(all);

    id_sandbox(sb->id);
    sb->internal = params->internal;
    (void)!sandbox_set_state(sb, state);
    sandbox_describe(sb, params);
    if (params->trace) {
        sb->trace = *params->trace;
    }
    table_add(&all->table, sb);
    usage_sums_update(sb);
    return sb;
}

/* A snapshot without memory is a disk to begin on. */
static void begin_from_saved(struct sandbox *sb, const char *saved, sandbox_created *done,
                             void *ctx)
{
    bool memory = saved && !saved_is_disk(saved);

    start_begin(sb, saved, memory, memory ? CHANNEL_PAST_COPIED : CHANNEL_PAST_NONE, done, ctx);
}

/* A copy of a sandbox whose agent was the only process: the template's command had run in it. */
static void take_copy(struct start *start, const struct alone *alone)
{
    start->started = true;
    for (size_t i = 0; i < ALONE_FDS; i++) {
        start->files[i] = alone->fds[i] < 0 ? -1 : fcntl(alone->fds[i], F_DUPFD_CLOEXEC, 0);
        start->lacks_files |= alone->fds[i] >= 0 && start->files[i] < 0;
    }
    if (start->lacks_files) {
        start->error =
            err_set(&start->err, ENOSPC, "the server has no descriptors left for another sandbox");
    }
}

/* A parked jail becomes the caller's: nothing is asked of the keeper. */
static void start_claimed(struct sandbox *sb, const struct sandbox_params *params,
                          sandbox_created *done, void *ctx)
{
    const struct sandbox_log_sink *logs = &sb->all->use.logs;
    struct start *start = xnew(struct start);

    sandbox_describe(sb, params);
    (void)!sandbox_set_state(sb, SANDBOX_STARTING);
    *start = (struct start){.sb = sb,
                            .done = done,
                            .ctx = ctx,
                            .files = {-1, -1},
                            .claimed = true,
                            .started = true,
                            .step_us = clock_mono_us()};
    sb->start = start;
    if (params->alone) {
        take_copy(start, params->alone);
    }
    if (params->trace) {
        start->trace = *params->trace;
    }
    start_set_phase(start, START_CONFIGURING);
    set_patience(sb, SANDBOX_START_TIMEOUT_MS);
    if (sb->net) {
        egress_set_team(sb->net, sb->team_id);
        egress_set_policy(sb->net, sb->options);
    }
    if (logs->attached) {
        logs->attached(logs->ctx, sb);
    }
    start_record(sb, CHANGE_CREATED);
    configure(sb);
}

static bool is_prestarted(const struct template *template)
{
    return template->saved && !template->snapshot_of &&
           (template->start_cmd || template->ready_cmd);
}

void sandbox_park(struct sandboxes *all, const struct template *template, sandbox_created *done,
                  void *ctx)
{
    json_t *nowhere = json_pack("{sb}", "allowInternetAccess", 0);
    const struct sandbox_params params = {.team_id = "", .template = template, .options = nowhere};
    struct sandbox *sb = new_starting(all, &params, SANDBOX_PARKING);

    json_decref(nowhere);
    sb->prestarted = is_prestarted(template);
    begin_from_saved(sb, template->saved, done, ctx);
}

static void create_new(struct sandboxes *all, const struct sandbox_params *params,
                       sandbox_created *done, void *ctx)
{
    const struct template *template = params->template;
    struct sandbox *sb = new_starting(all, params, SANDBOX_STARTING);

    if (params->alone) {
        start_begin(sb, template->saved, false, CHANNEL_PAST_NONE, done, ctx);
        take_copy(sb->start, params->alone);
        return;
    }
    if (params->internal) {
        start_begin(sb, params->from, false, CHANNEL_PAST_NONE, done, ctx);
    } else {
        sb->prestarted = is_prestarted(template);
        begin_from_saved(sb, template->saved, done, ctx);
    }
}

void sandbox_create(struct sandboxes *all, const struct sandbox_params *params,
                    sandbox_created *done, void *ctx)
{
    struct sandbox *sb = parked_claim(all, params);

    if (sb) {
        start_claimed(sb, params, done, ctx);
    } else {
        create_new(all, params, done, ctx);
    }
}
