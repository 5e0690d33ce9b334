/* work.c - one build under way. Each phase goes on by calling the next; a failure at any point ends
 * here, in work_fail(), which leaves nothing behind but what is cached. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "serve/template/build/internal.h"

struct work *work_new(struct build *build, struct spec *spec)
{
    struct work *work = xnew(struct work);

    work->all = build->all;
    work->build = build;
    work->refs = 1;
    work->spec = spec;
    work->phase = "base";
    work->begun_us = work->step_us = clock_mono_us();
    work->trace = build->trace;
    memcpy(work->trace_parent, build->trace.span, sizeof(work->trace_parent));
    trace_enter(&work->trace);
    (void)str_copy(work->team_id, sizeof(work->team_id), str_of(build_team(build)));
    buf_init(&work->script_out, BUILD_SCRIPT_OUT_BYTES_MAX);
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
    free(work->start_context);
    free(work->context.user);
    free(work->context.workdir);
    json_decref(work->context.env);
    buf_fini(&work->script_out);
    buf_fini(&work->out.part);
    buf_fini(&work->errout.part);
    builds_release(work->all);
    free(work);
}

/* ---- its trace ---- */

void work_mark(struct work *work, const char *name)
{
    int64_t now_us = clock_mono_us();
    const struct trace_attribute attributes[] = {
        {.name = "atoll.build.id", .text = work->build ? work->build->id : ""},
        {.name = "atoll.build.step", .number = (int64_t)work->step + 1},
    };

    trace_step(&work->all->use.tracer, &work->trace, name, work->step_us, now_us, attributes,
               countof(attributes));
    work->step_us = now_us;
}

/* The build has ended; error: why, or NULL. */
void work_traced(const struct work *work, const char *error)
{
    const struct tracer *tracer = &work->all->use.tracer;
    const struct trace_attribute attributes[] = {
        {.name = "atoll.build.id", .text = work->build->id},
        {.name = "atoll.template.id", .text = work->build->template_id},
        {.name = "atoll.team.id", .text = work->team_id},
    };
    struct trace_span span = {.place = work->trace,
                              .name = "build",
                              .begun_us = work->begun_us,
                              .ended_us = clock_mono_us(),
                              .attributes = attributes,
                              .attributes_n = countof(attributes),
                              .error = error};

    if (trace_wanted(tracer, &work->trace)) {
        memcpy(span.parent, work->trace_parent, sizeof(span.parent));
        tracer->span(tracer->ctx, &span);
    }
}

/* ---- the end ---- */

void work_stop(struct work *work)
{
    if (!work->build) {
        return;
    }
    work->build->work = NULL;
    work->build = NULL;
    queue_remove(work);
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
    work_mark(work, work->phase ? "build.phase" : "build.step");
    work_traced(work, "the build failed");
    work_step_name(work, step);
    work_say(work, LOG_ERROR, "Build failed: %s", message);
    log_info("build %s: failed in step %s: %s", build->id, step, message);
    char *reason = reason_json(message, step);
    work_stop(work);
    build_end(build, reason);
    free(reason);
    builds_next(build->all);
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
