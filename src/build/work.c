/* work.c - one build under way. Each phase goes on by calling the next; a failure at any point ends
 * here, in work_fail(), which leaves nothing behind but what is cached. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "build/internal.h"

enum { SCRIPT_OUT_BYTES_MAX = 16 * 1024, SCRIPT_ARGS_MAX = 8 };

struct work *work_new(struct build *build, struct spec *spec)
{
    struct work *work = xnew(struct work);

    work->all = build->all;
    work->build = build;
    work->refs = 1;
    work->spec = spec;
    work->phase = "base";
    (void)str_copy(work->team_id, sizeof(work->team_id), str_of(build_team(build)));
    buf_init(&work->script_out, SCRIPT_OUT_BYTES_MAX);
    buf_init(&work->out.part, BUILD_LINE_BYTES_MAX);
    buf_init(&work->errout.part, BUILD_LINE_BYTES_MAX);
    builds_hold(build->all);
    return work;
}

void work_hold(struct work *work)
{
    work->refs++;
}

void work_release(struct work *work)
{
    if (--work->refs > 0) {
        return;
    }
    spec_free(work->spec);
    free(work->layers);
    free(work->start_cmd);
    free(work->ready_cmd);
    free(work->context.user);
    free(work->context.workdir);
    json_decref(work->context.env);
    buf_fini(&work->script_out);
    buf_fini(&work->out.part);
    buf_fini(&work->errout.part);
    builds_release(work->all);
    free(work);
}

/* ---- the end ---- */

void work_stop(struct work *work)
{
    struct builds *all = work->all;

    if (!work->build) {
        return;
    }
    work->build->work = NULL;
    work->build = NULL;
    if (work->queued) {
        DL_DELETE(all->queue, work);
    } else {
        all->running--;
    }
    if (work->resolve) {
        image_cancel(move_ptr(&work->resolve));
    }
    run_leave(move_ptr(&work->run));
    feed_cancel(move_ptr(&work->feed));
    start_command_free(move_ptr(&work->command));
    jail_close(move_ptr(&work->jail));
    work_release(work);
}

static char *reason_json(const char *message, const char *step)
{
    json_t *reason = json_object();
    json_t *text = json_string(message);

    (void)json_object_set_new(reason, "message", text ? text : json_string("the build failed"));
    (void)json_object_set_new(reason, "step", json_string(step));
    char *json = json_dumps(reason, JSON_COMPACT);
    json_decref(reason);
    if (!json) {
        abort();
    }
    return json;
}

void work_fail(struct work *work, const char *fmt, ...)
{
    struct build *build = work->build;
    char message[BUILD_REASON_BYTES], step[24];
    va_list ap;

    if (!build) {
        return;
    }
    va_start(ap, fmt);
    (void)vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    output_end(work);
    work_step_name(work, step);
    work_say(work, LOG_ERROR, "Build failed: %s", message);
    log_info("build %s: failed in step %s: %s", build->id, step, message);
    char *reason = reason_json(message, step);
    work_stop(work);
    build_end(build, reason);
    builds_next(build->all);
}

/* ---- a jail, when it is needed ---- */

static void on_opened(void *arg, struct jail *jail, const struct err *err)
{
    struct work *work = arg;

    if (!work->build) {
        jail_close(jail);
    } else if (!jail) {
        work_fail(work, "the build's jail could not be started: %s", err->msg);
    } else {
        work->jail = jail;
        work->opened(work);
    }
    work_release(work);
}

void work_with_jail(struct work *work, void (*next)(struct work *work))
{
    const struct jail_plan plan = {.team_id = work->team_id,
                                   .layers = work->layers,
                                   .from = work->from,
                                   .cpu_count = work->build->cpu_count,
                                   .memory_mb = work->build->memory_mb,
                                   .disk_mb = work->build->disk_mb,
                                   .network = true};

    if (work->jail) {
        next(work);
        return;
    }
    work->opened = next;
    work_hold(work);
    jail_open(work->all, &plan, on_opened, work);
}

/* ---- scripts of ours ---- */

static void on_script_output(void *ctx, bool is_stderr, struct str data)
{
    struct work *work = ctx;

    if (!is_stderr) {
        (void)!buf_append(&work->script_out, data.at, data.len); /* what is too long is cut */
    } else {
        output_add(work, true, data);
    }
}

static void on_script_ended(void *ctx, const struct run_end *end)
{
    struct work *work = ctx;
    const char *what = work->prefix;

    work->run = NULL;
    if (end->error < 0) {
        work_fail(work, "%s: %s", what, end->why->msg);
        return;
    }
    if (end->exit_code != 0) {
        work_fail(work, "%s: %s%s%.*s", what, end->status, buf_len(&work->errout.part) ? ": " : "",
                  (int)buf_len(&work->errout.part), buf_at(&work->errout.part));
        return;
    }
    if (buf_append(&work->script_out, "", 1) < 0) {
        work_fail(work, "%s: it wrote more than %d bytes", what, SCRIPT_OUT_BYTES_MAX);
        return;
    }
    work->scripted(work, buf_at(&work->script_out));
}

void work_script(struct work *work, const char *what, const char *script, const char *const *args,
                 void (*next)(struct work *work, const char *out))
{
    static const struct run_handler handler = {.output = on_script_output,
                                               .ended = on_script_ended};
    const char *argv[SCRIPT_ARGS_MAX + 5] = {"/bin/sh", "-c", script, "build"};
    size_t n = 4;

    for (size_t i = 0; args && args[i] && i < SCRIPT_ARGS_MAX; i++) {
        argv[n++] = args[i];
    }
    const struct run_plan plan = {
        .argv = argv, .user = "root", .cwd = "/", .timeout_ms = BUILD_SCRIPT_TIMEOUT_MS};
    struct sandbox *sb = jail_sandbox(work->jail);
    if (!sb) {
        work_fail(work, "%s: the build's jail has ended", what);
        return;
    }
    output_begin(work, what);
    buf_clear(&work->script_out);
    work->scripted = next;
    work->run = sandbox_run(sb, &plan, &handler, work);
}

/* ---- the beginning ---- */

void work_begin(struct work *work)
{
    struct build *build = work->build;

    build->started_ms = clock_wall_ms();
    build_record(build, NULL, NULL);
    work->forced = work->spec->force;
    base_begin(work);
}
