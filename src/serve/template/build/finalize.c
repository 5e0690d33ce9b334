/* finalize.c - the last touches, and the layer that sandboxes start from.
 *
 *      /.e2b, /code ─► SAVE ─► a fresh jail on that layer: start command, ready command ─► READY
 *
 * The disk is kept as it is before the start command runs: every sandbox runs it again, and finds
 * no traces of an earlier run. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/json.h"
#include "lib/base/log.h"
#include "lib/base/text.h"
#include "serve/template/build/internal.h"

/* Authorities that a step left in /usr/local/share/ca-certificates are put into the bundle, and
 * those that it removed are taken out, whose links lead nowhere. Otherwise the bundle is left
 * alone: making it takes hundreds of processes, minutes on a slow machine. The old bundle is
 * removed first: each layer numbers its files by itself, so a new file may have the inode number of
 * a file below it, and mv takes the two for the same file. Anyone may write below /usr/local. Paths
 * that are writable already are left alone: a changed mode would copy the file into this layer.
 * Debian's modules for Python are left out: open_local in templates/recipe.sh says why. An image
 * without `find`, or with a simpler one, is not Debian. */
static const char finalize_script[] =
    "set -e\n"
    "printf 'ENV_ID=%s\\nTEMPLATE_ID=%s\\nBUILD_ID=%s\\n' \"$1\" \"$1\" \"$2\" >/.e2b\n"
    "mkdir -p /code && chmod 777 /code\n"
    "bundle=/etc/ssl/certs/ca-certificates.crt added=/usr/local/share/ca-certificates\n"
    "authorities_changed() {\n"
    "  [ -n \"$(find -L /etc/ssl/certs -type l 2>/dev/null)\" ] ||\n"
    "    find $added -name '*.crt' -exec cat {} + 2>/dev/null | if [ -s $bundle ]; then\n"
    "      grep -qvxFf $bundle\n"
    "    else\n"
    "      grep -q .\n"
    "    fi\n"
    "}\n"
    "if command -v update-ca-certificates >/dev/null && authorities_changed; then\n"
    "  rm -f $bundle\n"
    "  update-ca-certificates >/dev/null\n"
    "fi\n"
    "if cd /usr/local 2>/dev/null; then\n"
    "  find . -path './lib/python3*/dist-packages' -prune -o ! -type l ! -perm -0777 \\\n"
    "    -exec chmod 777 {} + 2>/dev/null || chmod -R 777 .\n"
    "fi\n";

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

/* The running state is kept if it can be. Otherwise every sandbox runs the start command anew. */
static void on_warm(void *ctx, int error, const struct err *err, uint64_t memory_bytes)
{
    struct work *work = ctx;

    if (work->build) {
        if (error == 0) {
            char name[KEEPER_SAVED_BYTES];
            disk_name_build(work->build, BUILD_SAVED_WARM, name);
            disk_add(work->all, name);
            text_set(&work->build->saved, name);
            work->build->saved_bytes = memory_bytes;
        } else {
            work_say(work, LOG_WARN,
                     "The running state could not be kept, so sandboxes run the start command: %s",
                     err->msg);
        }
        jail_close(move_ptr(&work->jail));
        record(work);
    }
    work_release(work);
}

static void warm_save(struct work *work)
{
    char name[KEEPER_SAVED_BYTES];
    struct sandbox *sb = jail_sandbox(work->jail);

    if (!sb) {
        work_fail(work, "the build's jail has ended");
        return;
    }
    disk_name_build(work->build, BUILD_SAVED_WARM, name);
    work_hold(work);
    sandbox_save_as(sb, name, on_warm, work);
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
    warm_save(work);
}

static void run_commands(struct work *work)
{
    static const struct start_command_handler handler = {.output = on_output, .done = on_ready};
    const struct build *build = work->build;
    struct start_command_plan plan = {.start_cmd = build->start_cmd,
                                      .ready_cmd = build->ready_cmd,
                                      .user = work->context.user,
                                      .cwd =
                                          work->context.workdir[0] ? work->context.workdir : NULL,
                                      .env = work->context.env,
                                      .limit_ms = work->all->use.ready_limit_ms,
                                      .settle_ms = BUILD_SETTLE_MS};
    scoped_json *context = build->start_context ? json_loads(build->start_context, 0, NULL) : NULL;
    struct sandbox *sb = jail_sandbox(work->jail);

    start_command_context(&plan, context);
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
    char *env = json_dumps(work->context.env, JSON_COMPACT | JSON_SORT_KEYS);

    if (!env) {
        abort();
    }
    text_set(&build->user, work->context.user);
    text_set(&build->workdir, work->context.workdir);
    text_set(&build->env_json, env);
    text_set(&build->start_cmd, own ? spec->start_cmd : work->start_cmd);
    text_set(&build->ready_cmd, own ? spec->ready_cmd : work->ready_cmd);
    text_set(&build->start_context, own ? NULL : work->start_context);
    free(env);
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
    disk_name_build(build, BUILD_SAVED_FINAL, name);
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
    disk_name_build(work->build, BUILD_SAVED_FINAL, name);
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
