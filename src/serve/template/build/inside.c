/* inside.c - the jail of a build, when it is needed, and scripts of ours in there. */
#include <errno.h>

#include "serve/template/build/internal.h"

enum { SCRIPT_ARGS_MAX = 8 };

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
        (void)!buf_append(&work->script_out, data.at,
                          data.len); /* output that is too long is cut */
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
        work_fail(work, "%s: it wrote more than %d bytes", what, BUILD_SCRIPT_OUT_BYTES_MAX);
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
