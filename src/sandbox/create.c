/* create.c - from a template to a RUNNING sandbox.
 *
 *      wait ─► KEEPER_CREATE ─┬─► connect, POST /init ─► start command ─┬─► RUNNING, done
 *                             └─► save the row ─────────────────────────┘
 *
 * It waits for adoption, and for a keeper that is away: one that was started again is back in a
 * moment. The two branches run at once. Whichever step the daemon dies in, nothing is lost and
 * nothing is left: a jail without a row is destroyed by adoption, and one with a row is adopted and
 * told its configuration again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/encode.h"
#include "base/fd.h"
#include "base/log.h"
#include "sandbox/internal.h"
#include "sandbox/start_command.h"

struct start {
    struct start *prev, *next; /* in all->waiting */
    struct sandbox *sb;
    struct keeper_request request;
    sandbox_created *done;
    void *ctx;
    uint32_t waited_ms;
    bool waiting;                  /* for adoption, or for the keeper */
    bool jail_asked;               /* a jail may exist */
    bool row_given;                /* to the store */
    bool row_saved;                /* on record */
    bool agent_ready;              /* has its configuration, and what the template starts is up */
    char *start_cmd, *ready_cmd;   /* of the template; NULL: none */
    struct start_command *command; /* under way */
    int error;                     /* found before anything was started: told from the timer */
    struct err err;
};

/* ---- the end of a start ---- */

static void start_free(struct sandbox *sb)
{
    struct start *start = move_ptr(&sb->start);

    if (start->waiting) {
        DL_DELETE(sb->all->waiting, start);
    }
    start_command_free(start->command);
    free(start->start_cmd);
    free(start->ready_cmd);
    free(start);
}

void start_drop(struct sandbox *sb)
{
    struct err err;

    if (!sb->start) {
        return;
    }
    struct start start = *sb->start;
    start_free(sb);
    (void)err_set(&err, EAGAIN, "the daemon is stopping; try again");
    start.done(start.ctx, NULL, -EAGAIN, &err);
}

void start_fail(struct sandbox *sb, int error, const struct err *err)
{
    struct start start = *sb->start;
    struct err why = *err;

    sb->all->create_failed++;
    log_warn("sandbox %s: create: %s", sb->id, why.msg);
    start_free(sb);
    sandbox_hold(sb);
    sandbox_leave(sb);
    if (start.jail_asked) {
        doom(sb->all, sb->id, &sb->jail, sb->uid_slot);
    } else {
        slots_give(&sb->all->slots, sb->uid_slot);
    }
    if (start.row_given) {
        sandbox_record_end(sb, "it did not start", NULL, NULL);
    }
    start.done(start.ctx, NULL, error, &why);
    sandbox_release(sb);
}

static void set_patience(struct sandbox *sb, uint32_t ms)
{
    (void)uv_timer_start(&sb->timer, sandbox_on_timer, ms, 0);
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

    if (start->error) {
        start_fail(sb, start->error, &start->err);
    } else if (start->waiting && waits_on(sb)) {
        set_patience(sb, SANDBOX_KEEPER_WAIT_MS);
    } else if (start->waiting) {
        (void)err_set(&err, EAGAIN, "the keeper is not running; try again");
        start_fail(sb, -EAGAIN, &err);
    } else {
        (void)err_set(&err, ETIMEDOUT, "the sandbox did not start within %d s",
                      SANDBOX_START_TIMEOUT_MS / 1000);
        start_fail(sb, -ETIMEDOUT, &err);
    }
}

static void start_check(struct sandbox *sb)
{
    static const struct err none;
    struct start start = *sb->start;

    if (!start.row_saved || !start.agent_ready) {
        return;
    }
    start_free(sb);
    sb->state = SANDBOX_RUNNING;
    if (sb->hidden) {
        (void)uv_timer_stop(&sb->timer);
    } else {
        sb->all->created++;
        table_show(&sb->all->table, sb);
        sandbox_arm(sb);
    }
    log_info("sandbox %s: running, template %s", sb->id, sb->template_id);
    start.done(start.ctx, sb, 0, &none);
}

/* ---- its steps, last first ---- */

static void on_saved(void *ctx, int error, const struct err *err)
{
    struct sandbox *sb = ctx;

    if (sb->state == SANDBOX_STARTING && sb->start && error < 0) {
        sb->start->row_given = false; /* nothing is on record, so nothing ends there */
        start_fail(sb, error == -EDQUOT ? error : -EIO, err);
    } else if (sb->state == SANDBOX_STARTING && sb->start) {
        sb->start->row_saved = true;
        start_check(sb);
    }
    sandbox_release(sb);
}

static void on_command(void *ctx, int error, const struct err *err)
{
    struct sandbox *sb = ctx;

    sb->start->command = NULL;
    if (error < 0) {
        start_fail(sb, error == -ETIMEDOUT ? error : -EIO, err);
    } else {
        sb->start->agent_ready = true;
        start_check(sb);
    }
}

static void start_run_command(struct sandbox *sb)
{
    static const struct start_command_handler handler = {.done = on_command};
    const struct start_command_plan plan = {.start_cmd = sb->start->start_cmd,
                                            .ready_cmd = sb->start->ready_cmd,
                                            .limit_ms = START_READY_LIMIT_MS,
                                            .settle_ms = START_SETTLE_MS};

    (void)uv_timer_stop(&sb->timer); /* the command has a limit of its own */
    sb->start->command = start_command_new(sb, &plan, &handler, sb);
}

static void on_init(struct sandbox *sb, int error, const struct err *err)
{
    if (sb->state != SANDBOX_STARTING || !sb->start) {
        return;
    }
    if (error < 0) {
        start_fail(sb, -EIO, err);
    } else if (sb->start->start_cmd || sb->start->ready_cmd) {
        start_run_command(sb);
    } else {
        sb->start->agent_ready = true;
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
    default:
        return -EIO;
    }
}

static void start_record(struct sandbox *sb)
{
    if (sb->hidden) {
        sb->start->row_saved = true; /* none is wanted */
        return;
    }
    sb->start->row_given = true;
    sandbox_hold(sb);
    sandbox_save(sb, CHANGE_CREATED, NULL, on_saved, sb);
}

static void on_jail(void *ctx, const struct keeper_answer *answer, int fds[KEEPER_FDS_MAX])
{
    struct sandbox *sb = ctx;
    struct err err;

    if (sb->state != SANDBOX_STARTING || !sb->start) {
        sandbox_release(sb); /* gave up meanwhile: the jail is doomed already */
        return;
    }
    if (answer->status == -ENOTCONN || answer->status == -ECONNRESET) {
        (void)err_set(&err, EAGAIN, "the keeper is not running; try again");
        start_fail(sb, -EAGAIN, &err);
    } else if (answer->status < 0) {
        start_fail(sb, create_error(answer->status), &answer->err);
    } else if (fds[KEEPER_FD_PIDFD] < 0 || fds[KEEPER_FD_CHANNEL] < 0) {
        (void)err_set(&err, EIO, "the keeper's answer lacks the jail's descriptors");
        start_fail(sb, -EIO, &err);
    } else {
        sb->jail = answer->jail;
        sandbox_take_jail(sb, fds);
        start_record(sb);
        sandbox_init_agent(sb, on_init);
    }
    sandbox_release(sb);
}

static void start_jail(struct sandbox *sb)
{
    sb->start->jail_asked = true;
    set_patience(sb, SANDBOX_START_TIMEOUT_MS);
    sandbox_hold(sb);
    keeper_client_ask(sb->all->use.keeper, &sb->start->request, on_jail, sb);
}

void start_waiting(struct sandboxes *all)
{
    struct start *start = NULL;

    while ((start = all->waiting)) {
        DL_DELETE(all->waiting, start);
        start->waiting = false;
        start_jail(start->sb);
    }
}

/* ---- the plan ---- */

static int plan_layers(struct keeper_plan *plan, const char *layers, struct err *err)
{
    struct str rest = str_of(layers), layer;

    while (str_split(&rest, ',', &layer)) {
        if (plan->layers_n == KEEPER_LAYERS_MAX) {
            return err_set(err, EINVAL, "the template has more than %d layers", KEEPER_LAYERS_MAX);
        }
        if (!str_copy(plan->layers[plan->layers_n++], KEEPER_LAYER_BYTES, layer)) {
            return err_set(err, EINVAL, "the template has a layer with too long a name");
        }
    }
    return 0;
}

static int plan_jail(struct sandbox *sb, const char *layers, struct err *err)
{
    struct keeper_request *req = &sb->start->request;

    req->op = KEEPER_CREATE;
    memcpy(req->id, sb->id, sizeof(sb->id));
    memcpy(req->plan.hostname, sb->id, sizeof(sb->id));
    req->plan.cpu_millis = sb->cpu_count * 1000;
    req->plan.memory_mb = sb->memory_mb;
    req->plan.disk_mb = sb->disk_mb;
    req->plan.pids = SANDBOX_PIDS;
    req->plan.network = sb->all->use.egress && egress_wanted(sb->options);
    int r = plan_layers(&req->plan, layers, err);
    if (r < 0) {
        return r;
    }
    sb->uid_slot = slots_take(&sb->all->slots);
    if (sb->uid_slot == SLOT_NONE) {
        return err_set(err, ENOSPC, "this machine runs as many sandboxes as it can (%d)",
                       KEEPER_UID_SLOTS);
    }
    req->plan.uid_slot = sb->uid_slot;
    return 0;
}

static json_t *copy_object(const json_t *object)
{
    json_t *own = object ? json_deep_copy(object) : json_object();

    if (!own) {
        abort();
    }
    return own;
}

/* The template's environment first, so that the create's wins. */
static json_t *plan_init(const struct template *template, const json_t *env_vars)
{
    json_t *env = json_loads(template->env_json ? template->env_json : "{}", 0, NULL);

    if (!json_is_object(env)) {
        json_decref(env);
        env = json_object();
    }
    if (env_vars) {
        json_t *own = copy_object(env_vars);
        (void)json_object_update(env, own);
        json_decref(own);
    }
    json_t *init = json_pack("{soss?ss?}", "envVars", env, "defaultUser", template->user,
                             "defaultWorkdir", template->workdir);
    if (!init) {
        abort(); /* the template's words were checked when it was stored */
    }
    return init;
}

static char *make_token(void)
{
    uint8_t bytes[SANDBOX_TOKEN_BYTES];
    scoped_buf text;

    buf_init(&text, 2 * sizeof(bytes));
    id_random(bytes, sizeof(bytes));
    if (base64_encode(&text, bytes, sizeof(bytes), BASE64_URL_NOPAD) < 0 ||
        buf_append(&text, "", 1) < 0) {
        abort();
    }
    return xstrdup(buf_at(&text));
}

static void describe(struct sandbox *sb, const struct sandbox_params *params)
{
    const struct template *template = params->template;

    id_sandbox(sb->id);
    sb->team_id = xstrdup(params->team_id);
    sb->template_id = xstrdup(template->id);
    sb->template_alias = xstrdup(template->alias);
    sb->build_id = xstrdup(template->build_id);
    sb->access_token = params->secure ? make_token() : NULL;
    sb->metadata = copy_object(params->metadata);
    sb->env_vars = copy_object(params->env_vars);
    sb->options = copy_object(params->options);
    sb->init = plan_init(template, params->env_vars);
    sb->created_ms = sb->started_ms = clock_wall_ms();
    sb->end_ms = sb->started_ms + params->timeout_ms;
    sb->cpu_count = template->cpu_count;
    sb->memory_mb = template->memory_mb;
    sb->disk_mb = template->disk_mb;
}

void sandbox_create(struct sandboxes *all, const struct sandbox_params *params,
                    sandbox_created *done, void *ctx)
{
    struct sandbox *sb = sandbox_new(all);
    struct start *start = xnew(struct start);

    *start = (struct start){.sb = sb, .done = done, .ctx = ctx};
    sb->state = SANDBOX_STARTING;
    sb->start = start;
    sb->hidden = params->hidden;
    all->hidden_n += sb->hidden;
    describe(sb, params);
    table_add(&all->table, sb);
    start->error = plan_jail(sb, params->template->layers, &start->err);
    if (params->from) {
        (void)str_copy(start->request.plan.from, KEEPER_SAVED_BYTES, str_of(params->from));
    }
    if (!params->template->saved) {
        start->start_cmd = xstrdup(params->template->start_cmd);
        start->ready_cmd = xstrdup(params->template->ready_cmd);
    }
    if (start->error) {
        set_patience(sb, 0);
    } else if (all->adoption == ADOPT_READY && keeper_client_connected(all->use.keeper)) {
        start_jail(sb);
    } else {
        start->waiting = true;
        DL_APPEND(all->waiting, start);
        set_patience(sb, SANDBOX_KEEPER_WAIT_MS);
    }
}
