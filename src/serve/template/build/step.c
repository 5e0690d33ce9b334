/* step.c - the steps of a build, one after the other.
 *
 *      key ─► cached? ─► the next step
 *               └─ no ─► a jail with the disk so far ─► the step's work ─► SAVE ─► on record ─►
 * next
 *
 * The jail runs through all steps that are not cached; each leaves its disk under its own name.
 * Steps that change no disk (ENV, ARG) leave the name of the one before. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/foreign.h"
#include "serve/template/build/internal.h"
#include "serve/template/name.h"
#include "wire/channel.h"

enum { COPY_OPTIONS_BYTES_MAX = 4 * SPEC_PATH_BYTES_MAX };

static const struct step *step_now(const struct work *work)
{
    return &work->spec->steps[work->step];
}

static void step_say(struct work *work, const char *before)
{
    scoped_buf(text, BUILD_LINE_BYTES_MAX - 64);

    (void)!step_text(step_now(work), &text); /* a long one is shown as far as it fits */
    work_say(work, LOG_INFO, "%s[builder %zu/%zu] %.*s", before, work->step + 1,
             work->spec->steps_n, (int)buf_len(&text), buf_at(&text));
}

/* ---- the result of a step ---- */

static void step_take(struct work *work, const char *saved)
{
    (void)str_copy(work->from, sizeof(work->from), str_of(saved));
    memcpy(work->key, work->next_key, sizeof(work->key));
    work_mark(work, "build.step");
    work->step++;
    steps_next(work);
}

static void step_record(struct work *work, const char *saved, uint64_t bytes)
{
    cache_put(work, saved, bytes);
    step_take(work, saved);
}

static void on_usage(void *arg, uint64_t disk_bytes)
{
    struct work *work = arg;
    char name[KEEPER_SAVED_BYTES];

    if (work->build) {
        disk_name_step(work->next_key, name);
        step_record(work, name, disk_bytes);
    }
    work_release(work);
}

static void on_saved(void *arg, int error, const struct err *err)
{
    struct work *work = arg;

    if (work->build && error < 0 && error != -EEXIST) {
        work_fail(work, "what the step made could not be kept: %s", err->msg);
    } else if (work->build) {
        work_hold(work);
        jail_usage(work->jail, on_usage, work);
    }
    work_release(work);
}

static void step_save(struct work *work)
{
    char name[KEEPER_SAVED_BYTES];

    disk_name_step(work->next_key, name);
    if (disk_has(work->all, name)) {
        disk_forget(work->all, name); /* one that was forced is made anew */
    }
    work_hold(work);
    jail_save(work->jail, name, 0, on_saved, work);
}

/* ---- RUN ---- */

static void on_run_output(void *ctx, bool is_stderr, struct str data)
{
    output_add(ctx, is_stderr, data);
}

static void on_run_ended(void *ctx, const struct run_end *end)
{
    struct work *work = ctx;
    const char *command = step_arg(step_now(work), 0);

    work->run = NULL;
    output_end(work);
    if (end->timed_out) {
        work_fail(work, "failed to run command '%.400s': it ran for longer than %lld s", command,
                  (long long)work->all->use.step_limit_ms / 1000);
    } else if (end->error < 0) {
        work_fail(work, "failed to run command '%.400s': command failed: %s", command,
                  end->why->msg);
    } else if (end->exit_code != 0) {
        work_fail(work, "failed to run command '%.400s': %s", command, end->status);
    } else {
        step_save(work);
    }
}

static void do_run(struct work *work)
{
    static const struct run_handler handler = {.output = on_run_output, .ended = on_run_ended};
    const struct step *step = step_now(work);
    const char *user = step_arg(step, 1);
    const struct run_plan plan = {.argv = RUN_SHELL(step_arg(step, 0)),
                                  .user = user[0] ? user : work->context.user,
                                  .cwd = work->context.workdir[0] ? work->context.workdir : NULL,
                                  .env = work->context.env,
                                  .timeout_ms = work->all->use.step_limit_ms};

    work->run = sandbox_run(jail_sandbox(work->jail), &plan, &handler, work);
}

/* ---- COPY and ADD ---- */

static void on_copied(void *ctx, const struct feed_end *end)
{
    struct work *work = ctx;

    work->feed = NULL;
    if (end->err) {
        work_fail(work, "%s %.200s: %s", step_now(work)->type, step_arg(step_now(work), 0),
                  end->err->msg);
    } else {
        step_save(work);
    }
}

/* "user", "user:" and none at all: the group is the user's name. */
static void owner_of(const struct work *work, char *out, size_t size)
{
    const char *owner = step_arg(step_now(work), 2);
    struct str name = str_of(owner[0] ? owner : work->context.user);
    size_t colon = str_find(name, ':');

    if (colon + 1 < name.len) {
        (void)snprintf(out, size, "%.*s", (int)name.len, name.at);
    } else {
        (void)snprintf(out, size, "%.*s:%.*s", (int)colon, name.at, (int)colon, name.at);
    }
}

static int copy_options(const struct work *work, const char *dir, struct buf *out, struct err *err)
{
    const struct step *step = step_now(work);
    scoped_buf(source, SPEC_PATH_BYTES_MAX);
    scoped_buf(target, SPEC_PATH_BYTES_MAX);
    char owner[2 * TEMPLATE_NAME_MAX];

    owner_of(work, owner, sizeof(owner));
    int r = copy_source(str_of(step_arg(step, 0)), &source, err);
    if (r == 0) {
        r = path_join(str_of(dir), str_of(step_arg(step, 1)), &target, err);
    }
    if (r < 0) {
        return r;
    }
    r = buf_printf(out, "mode copy\nsource %.*s\ntarget %.*s\nowner %s\n", (int)buf_len(&source),
                   buf_at(&source), (int)buf_len(&target), buf_at(&target), owner);
    if (r == 0 && step_arg(step, 3)[0]) {
        r = buf_printf(out, "chmod %s\n", step_arg(step, 3));
    }
    if (r == 0) {
        r = buf_append(out, "", 1);
    }
    return r < 0 ? err_set(err, EINVAL, "its paths are too long") : 0;
}

struct copying {
    struct work *work; /* counted */
    struct buf options;
};

static void on_dialed(void *ctx, int fd_or_error)
{
    struct copying *copying = ctx;
    struct work *work = copying->work;
    scoped_foreign socket = fd_or_error;
    const char *type = work->build ? step_now(work)->type : "";

    if (work->build && socket < 0) {
        work_fail(work, "%s: the jail gave no unpacker: %s", type, strerror(-fd_or_error));
    } else if (work->build) {
        int file = files_get(work->all, work->team_id, step_now(work)->files_hash);
        if (file < 0) {
            work_fail(work, "%s: the files of hash %.64s were not uploaded", type,
                      step_now(work)->files_hash);
        } else {
            const struct feed_plan plan = {.socket_fd = move_fd(&socket),
                                           .file_fd = file,
                                           .length = -1,
                                           .limit_ms = work->all->use.step_limit_ms,
                                           .options = buf_at(&copying->options)};
            work->feed = feed_start(work->all->use.loop, &plan, NULL, on_copied, work);
        }
    }
    buf_fini(&copying->options);
    free(copying);
    work_release(work);
}

static void copy_into(struct work *work, const char *dir)
{
    struct copying *copying = xnew(struct copying);
    struct err err;

    buf_init(&copying->options, COPY_OPTIONS_BYTES_MAX);
    if (copy_options(work, dir, &copying->options, &err) < 0) {
        work_fail(work, "%s: %s", step_now(work)->type, err.msg);
        buf_fini(&copying->options);
        free(copying);
        return;
    }
    copying->work = work;
    work_hold(work);
    sandbox_dial(jail_sandbox(work->jail), CHANNEL_PORT_UNPACK, on_dialed, copying);
}

static void on_home(struct work *work, const char *out)
{
    struct str home = str_of(out);

    home.len = str_find(home, '\n');
    char *dir = strndup(home.at, home.len);
    if (!dir) {
        abort();
    }
    if (!jail_sandbox(work->jail)) {
        work_fail(work, "the build's jail has ended");
    } else {
        copy_into(work, dir);
    }
    free(dir);
}

static void do_copy(struct work *work)
{
    static const char script[] = "u=$1; line=$(grep \"^$u:\" /etc/passwd | head -n 1)\n"
                                 "[ -n \"$line\" ] || { echo \"no user '$u'\" >&2; exit 1; }\n"
                                 "rest=${line%:*}; echo \"${rest##*:}\"";
    const char *const args[] = {work->context.user, NULL};

    if (work->context.workdir[0] || step_arg(step_now(work), 1)[0] == '/') {
        copy_into(work, work->context.workdir);
    } else {
        work_script(work, "find the home of the user", script, args, on_home);
    }
}

/* ---- ENV and ARG ---- */

/* Variables that were not set have the values of a plain shell. */
static int env_expand(const struct work *work, json_t *env, const char *text, struct buf *out,
                      struct err *err)
{
    json_t *known =
        json_pack("{ssss}", "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                  "USER", work->context.user);

    (void)json_object_update(known, env);
    int r = expand(str_of(text), known, out, err);
    json_decref(known);
    return r;
}

static int env_set(struct work *work, json_t *env, struct err *err)
{
    const struct step *step = step_now(work);
    scoped_buf(value, SPEC_ENV_BYTES_MAX);
    int r = 0;

    for (size_t i = 0; r == 0 && i + 1 < json_array_size(step->args); i += 2) {
        buf_clear(&value);
        r = env_expand(work, env, step_arg(step, i + 1), &value, err);
        if (r == 0) {
            (void)json_object_set_new(env, step_arg(step, i),
                                      json_stringn(buf_at(&value), buf_len(&value)));
        }
    }
    char *all = json_dumps(env, JSON_COMPACT);
    if (r == 0 && (!all || strlen(all) > SPEC_ENV_BYTES_MAX)) {
        r = err_set(err, ENOBUFS, "the variables are longer than %d bytes", SPEC_ENV_BYTES_MAX);
    }
    free(all);
    return r;
}

static void do_env(struct work *work)
{
    json_t *env = json_deep_copy(work->context.env);
    char before[KEEPER_SAVED_BYTES];
    struct err err;

    if (env_set(work, env, &err) < 0) {
        json_decref(env);
        work_fail(work, "%s: %s", step_now(work)->type, err.msg);
        return;
    }
    json_decref(work->context.env);
    work->context.env = env;
    memcpy(before, work->from, sizeof(before));
    step_record(work, before, 0);
}

/* ---- WORKDIR ---- */

static const char workdir_script[] =
    "set -e; target=$1; owner=$2\n"
    "[ -d \"$target\" ] && exit 0\n"
    "first=$target; check=$target\n"
    "while [ ! -d \"$check\" ]; do first=$check; check=$(dirname \"$check\"); done\n"
    "mkdir -p \"$target\"; chown -R \"$owner:\" \"$first\" 2>/dev/null || chown -R \"$owner\" "
    "\"$first\"\n";

static void on_workdir(struct work *work, const char *out)
{
    (void)out;
    step_save(work);
}

static void do_workdir(struct work *work)
{
    const char *dir = work->context.workdir[0] ? work->context.workdir : "/";
    scoped_buf(path, SPEC_PATH_BYTES_MAX);
    scoped_buf(plain, SPEC_PATH_BYTES_MAX);
    struct err err;

    if (expand(str_of(step_arg(step_now(work), 0)), work->context.env, &plain, &err) < 0 ||
        path_join(str_of(dir), buf_str(&plain), &path, &err) < 0 || buf_append(&path, "", 1) < 0) {
        work_fail(work, "WORKDIR: %s", err.msg);
        return;
    }
    size_t len = buf_len(&path) - 1;
    if (len > 1 && buf_at(&path)[len - 1] == '/') {
        buf_at(&path)[len - 1] = '\0';
    }
    free(work->context.workdir);
    work->context.workdir = xstrdup(buf_at(&path));
    const char *const args[] = {work->context.workdir, work->context.user, NULL};
    work_script(work, "failed to create workdir", workdir_script, args, on_workdir);
}

/* ---- USER ---- */

static const char user_script[] =
    "set -e; name=$1; sudo=$2\n"
    "if ! id -u \"$name\" >/dev/null 2>&1; then\n"
    "  if command -v useradd >/dev/null; then useradd --create-home --shell /bin/bash \"$name\"\n"
    "  else adduser -D \"$name\"; fi\n"
    "fi\n"
    "if [ \"$sudo\" = true ]; then\n"
    "  mkdir -p /etc/sudoers.d\n"
    "  echo \"$name ALL=(ALL:ALL) NOPASSWD: ALL\" >\"/etc/sudoers.d/$name\"\n"
    "  chmod 0440 \"/etc/sudoers.d/$name\"\n"
    "fi\n";

static void on_user(struct work *work, const char *out)
{
    (void)out;
    step_save(work);
}

static void do_user(struct work *work)
{
    const struct step *step = step_now(work);
    const char *const args[] = {step_arg(step, 0), step_arg(step, 1), NULL};

    free(work->context.user);
    work->context.user = xstrdup(step_arg(step, 0));
    work_script(work, "failed to create user", user_script, args, on_user);
}

/* ---- the sequence of steps ---- */

static void step_in_jail(struct work *work)
{
    char prefix[48];

    if (!jail_sandbox(work->jail)) {
        work_fail(work, "the build's jail has ended");
        return;
    }
    (void)snprintf(prefix, sizeof(prefix), "builder %zu/%zu", work->step + 1, work->spec->steps_n);
    output_begin(work, prefix);
    switch (step_now(work)->kind) {
    case STEP_RUN:
        do_run(work);
        break;
    case STEP_COPY:
        do_copy(work);
        break;
    case STEP_WORKDIR:
        do_workdir(work);
        break;
    case STEP_USER:
        do_user(work);
        break;
    case STEP_ENV:
    case STEP_UNKNOWN:
        abort(); /* neither needs a jail */
    }
}

static void step_run(struct work *work)
{
    step_say(work, "");
    if (step_now(work)->kind == STEP_ENV) {
        do_env(work);
    } else {
        work_with_jail(work, step_in_jail);
    }
}

static void step_cached(struct work *work, const struct cached *cached)
{
    json_t *env = json_loads(cached->env_json, 0, NULL);

    step_say(work, "CACHED ");
    json_decref(work->context.env);
    free(work->context.user);
    free(work->context.workdir);
    work->context = (struct context){.user = xstrdup(cached->user),
                                     .workdir = xstrdup(cached->workdir),
                                     .env = env ? env : json_object()};
    step_take(work, cached->saved);
}

void steps_next(struct work *work)
{
    struct err err;

    if (work->step == work->spec->steps_n) {
        finalize_begin(work);
        return;
    }
    const struct step *step = step_now(work);
    if (step_check(step, &err) < 0) {
        step_say(work, "");
        work_fail(work, "%s", err.msg);
        return;
    }
    chain_step(work->key, step, work->next_key);
    work->forced |= step->force;
    /* A step after one that was run is run as well: the open disk already goes on from there. */
    const struct cached *cached =
        work->forced || work->jail ? NULL : cache_find(work->all, work->next_key);
    if (cached) {
        step_cached(work, cached);
    } else {
        step_run(work);
    }
}
