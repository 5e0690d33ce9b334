/* finalize.c - the last touches, and the layer that sandboxes start from.
 *
 *      /.e2b, /code ─► SAVE ─► a fresh jail on that layer: start command, ready command ─► READY
 *
 * The disk is kept as it is before the start command runs: every sandbox runs it again, and finds
 * no traces of an earlier run. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "build/internal.h"

static const char finalize_script[] =
    "set -e\n"
    "printf 'ENV_ID=%s\\nTEMPLATE_ID=%s\\nBUILD_ID=%s\\n' \"$1\" \"$1\" \"$2\" >/.e2b\n"
    "mkdir -p /code && chmod 777 /code\n"
    "if [ -d /usr/local ]; then chmod 777 /usr/local; fi\n";

/* ---- on record ---- */

static void on_recorded(void *ctx, int error, const struct err *err)
{
    struct work *work = ctx;

    if (!work->build) {
        work_release(work);
        return;
    }
    if (error < 0) {
        work_fail(work, "the build could not be put on record: %s", err->msg);
    } else {
        work_done(work);
    }
    work_release(work);
}

static void record(struct work *work)
{
    struct build *build = work->build;

    work_say(work, LOG_INFO, "Build finished, took %lld s",
             (long long)(clock_wall_ms() - build->started_ms + 500) / 1000);
    build->state = BUILD_READY;
    build->finished_ms = clock_wall_ms();
    struct build_row row = build_row(build);
    build->state = BUILD_BUILDING; /* until that is on record */
    work_hold(work);
    store_build_save(work->all->use.store, &row, on_recorded, work);
}

/* ---- the commands ---- */

static void on_output(void *ctx, bool is_stderr, struct str data)
{
    output_add(ctx, is_stderr, data);
}

static void on_ready(void *ctx, int error, const struct err *err)
{
    struct work *work = ctx;

    work->command = NULL;
    output_end(work);
    if (error < 0) {
        work_fail(work, "%s", err->msg);
        return;
    }
    work_say(work, LOG_INFO, "Template is ready");
    jail_close(move_ptr(&work->jail));
    record(work);
}

static void run_commands(struct work *work)
{
    static const struct start_command_handler handler = {.output = on_output, .done = on_ready};
    const struct build *build = work->build;
    const struct start_command_plan plan = {.start_cmd = build->start_cmd,
                                            .ready_cmd = build->ready_cmd,
                                            .user = work->context.user,
                                            .cwd = work->context.workdir[0] ? work->context.workdir
                                                                            : NULL,
                                            .env = work->context.env,
                                            .limit_ms = BUILD_READY_LIMIT_MS,
                                            .settle_ms = BUILD_SETTLE_MS};
    struct sandbox *sb = jail_sandbox(work->jail);

    if (!sb) {
        work_fail(work, "the build's jail has ended");
        return;
    }
    if (build->start_cmd) {
        work_say(work, LOG_INFO, "Running start command: %.1000s", build->start_cmd);
    }
    work_say(work, LOG_INFO, "Waiting for template to be ready: %.1000s",
             build->ready_cmd ? build->ready_cmd : "it has run for a while");
    output_begin(work, "start");
    work->command = start_command_new(sb, &plan, &handler, work);
}

/* ---- the layer ---- */

static void context_keep(struct work *work)
{
    struct build *build = work->build;
    const struct spec *spec = work->spec;
    bool own = spec->start_cmd || spec->ready_cmd;

    free(build->user);
    free(build->workdir);
    free(build->env_json);
    free(build->start_cmd);
    free(build->ready_cmd);
    build->user = xstrdup(work->context.user);
    build->workdir = xstrdup(work->context.workdir);
    build->env_json = json_dumps(work->context.env, JSON_COMPACT | JSON_SORT_KEYS);
    build->start_cmd = xstrdup(own ? spec->start_cmd : work->start_cmd);
    build->ready_cmd = xstrdup(own ? spec->ready_cmd : work->ready_cmd);
    if (!build->env_json) {
        abort();
    }
}

static void final_name(const struct build *build, char out[KEEPER_SAVED_BYTES])
{
    size_t n = strlen(BUILD_SAVED_FINAL);

    memcpy(out, BUILD_SAVED_FINAL, n);
    for (const char *c = build->id; *c; c++) {
        if (*c != '-') {
            out[n++] = *c;
        }
    }
    out[n] = '\0';
}

static int layers_join(struct work *work, struct err *err)
{
    struct build *build = work->build;
    char name[KEEPER_SAVED_BYTES];
    char *layers = NULL;
    size_t n = 2;

    for (const char *c = work->layers; *c; c++) {
        n += *c == ',';
    }
    if (n > KEEPER_LAYERS_MAX) {
        return err_set(err, E2BIG,
                       "templates can be built on each other %d times, and this is one more",
                       KEEPER_LAYERS_MAX - 1);
    }
    final_name(build, name);
    if (asprintf(&layers, "%s,%s", name, work->layers) < 0) {
        abort();
    }
    free(build->layers);
    build->layers = layers;
    return 0;
}

static void on_usage(void *arg, uint64_t disk_bytes)
{
    struct work *work = arg;

    if (work->build) {
        struct build *build = work->build;
        build->bytes = disk_bytes;
        jail_close(move_ptr(&work->jail));
        if (build->start_cmd || build->ready_cmd) {
            free(work->layers);
            work->layers = xstrdup(build->layers);
            work->from[0] = '\0';
            work_with_jail(work, run_commands);
        } else {
            record(work);
        }
    }
    work_release(work);
}

static void on_saved(void *arg, int error, const struct err *err)
{
    struct work *work = arg;
    struct err why;

    if (work->build && error < 0) {
        work_fail(work, "the template could not be kept: %s", err->msg);
    } else if (work->build && layers_join(work, &why) < 0) {
        work_fail(work, "%s", why.msg);
    } else if (work->build) {
        work_hold(work);
        jail_usage(work->jail, on_usage, work);
    }
    work_release(work);
}

static void on_finalized(struct work *work, const char *out)
{
    char name[KEEPER_SAVED_BYTES];

    (void)out;
    final_name(work->build, name);
    work_hold(work);
    jail_save(work->jail, name, KEEPER_SAVE_SYNC, on_saved, work);
}

static void in_jail(struct work *work)
{
    const char *const args[] = {work->build->template_id, work->build->id, NULL};

    work_script(work, "finalize", finalize_script, args, on_finalized);
}

void finalize_begin(struct work *work)
{
    work->phase = "finalize";
    work_say(work, LOG_INFO, "[finalize] Finalizing template build");
    context_keep(work);
    work_with_jail(work, in_jail);
}
