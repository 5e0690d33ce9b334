#include "cli/dockerfile_stages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/context.h"
#include "cli/dockerfile.h"
#include "lib/base/alloc.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/json.h"

#define STAGE "stage:"
#define PACKED "/.atoll-stage" /* where a stage keeps what others take from it */

enum {
    NAME_BYTES = 256,
    COMMAND_BYTES_MAX = 64 * 1024,
    SANDBOX_LIFE_S = 600,
};

static json_t *stage_at(const struct build_job *job, json_int_t at)
{
    return json_array_get(job->stages, (size_t)at);
}

/* ---- building ---- */

/* Quotes a name for the shell, except its patterns. */
static int pattern_put(struct buf *out, const char *text)
{
    int r = 0;

    for (; *text && r == 0; text++) {
        bool plain =
            strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-*?[]", *text);
        r = plain ? buf_append(out, text, 1) : buf_printf(out, "\\%c", *text);
    }
    return r;
}

static json_t *pack_step(const char *source, size_t number)
{
    scoped_buf(command, COMMAND_BYTES_MAX);
    int r = buf_printf(&command, "mkdir -p " PACKED " && cd / && tar -cf " PACKED "/%zu.tar -- ",
                       number);

    r = r == 0 ? pattern_put(&command, source) : r;
    r = r == 0 ? buf_append(&command, "", 1) : r;
    return r < 0 ? NULL : json_pack("{ss s[s]}", "type", "RUN", "args", buf_at(&command));
}

/* The stage's own steps, and those that pack what is taken from it. */
static json_t *steps_with_packing(const json_t *stage)
{
    json_t *steps = json_deep_copy(json_object_get(stage, "steps"));
    const json_t *source;
    size_t i;
    int r = json_array_append_new(steps, json_pack("{ss s[s]}", "type", "USER", "args", "root"));

    json_array_foreach (json_object_get(stage, "copies"), i, source) {
        json_t *step = r == 0 ? pack_step(json_string_value(source), i) : NULL;
        r = step ? json_array_append_new(steps, step) : -1;
    }
    if (r < 0) {
        json_decref(steps);
        return NULL;
    }
    return steps;
}

/* "stage:N" becomes "template:..." of that stage, which has been built. Borrowed. */
static const char *base_of(const struct build_job *job, const char *from)
{
    if (strncmp(from, STAGE, strlen(STAGE)) != 0) {
        return from;
    }
    return json_string_of(stage_at(job, strtol(from + strlen(STAGE), NULL, 10)), "baseName");
}

static int stage_run(const struct build_job *job, json_t *stage, json_t *steps, const char *suffix,
                     const char *kept_as, struct err *err)
{
    char name[NAME_BYTES];
    const char *from = json_string_of(stage, "from");
    struct build_place place = {.template_id = ""};
    struct build_job own = *job;

    (void)snprintf(name, sizeof(name), "%.*s-%s-%lld", (int)strcspn(job->name, ":"), job->name,
                   suffix, (long long)json_integer_value(json_object_get(stage, "at")));
    own.name = name;
    own.from = base_of(job, from);
    own.steps = steps;
    own.start = own.ready = NULL;
    int r = build_run(&own, &place, err);
    if (place.template_id[0]) { /* a failed stage is removed as well */
        (void)json_object_set_new(stage, kept_as, json_string(place.template_id));
        (void)json_object_set_new(stage, "baseName",
                                  json_sprintf("template:%s", place.template_id));
    }
    return r < 0 ? err_wrap(err, "stage %s", json_string_of(stage, "name")) : 0;
}

static int stage_build(const struct build_job *job, json_t *stage, struct err *err)
{
    int r = 0;

    if (json_array_size(json_object_get(stage, "copies")) > 0) {
        scoped_json *steps = steps_with_packing(stage);
        r = steps ? stage_run(job, stage, steps, "files", "filesTemplate", err)
                  : err_set(err, E2BIG, "the sources of COPY --from are too long");
    }
    if (r == 0 && json_is_true(json_object_get(stage, "base"))) {
        r = stage_run(job, stage, json_object_get(stage, "steps"), "stage", "baseTemplate", err);
    }
    return r;
}

int stages_build(struct build_job *job, struct err *err)
{
    json_t *stage;
    size_t i;
    int r = 0;

    json_array_foreach (job->stages, i, stage) {
        (void)json_object_set_new(stage, "at", json_integer((json_int_t)i));
        r = r == 0 ? stage_build(job, stage, err) : r;
    }
    if (r == 0) {
        job->from = base_of(job, job->from);
    }
    return r;
}

/* ---- taking files ---- */

static int sandbox_start(const struct build_job *job, json_t *stage, struct err *err)
{
    scoped_json *answer = NULL;
    scoped_json *body =
        json_pack("{ss si sb}", "templateID", json_string_of(stage, "filesTemplate"), "timeout",
                  SANDBOX_LIFE_S, "secure", 0);
    int r = endpoint_call(job->endpoint, "POST", "/sandboxes", body, &answer, err);
    const char *id = json_string_of(answer, "sandboxID");

    if (r == 0 && !id) {
        return err_set(err, EPROTO, "the daemon's answer has no sandbox id");
    }
    return r < 0 ? r : json_object_set_new(stage, "sandbox", json_string(id));
}

static int packed_fetch(const struct build_job *job, json_t *stage, json_int_t copy,
                        struct context_archive *out, struct err *err)
{
    char path[TEMPLATE_PATH_BYTES];
    int r = json_object_get(stage, "sandbox") ? 0 : sandbox_start(job, stage, err);

    if (r < 0) {
        return r;
    }
    (void)snprintf(path, sizeof(path), "/files?username=root&path=" PACKED "/%lld.tar",
                   (long long)copy);
    int fd = endpoint_download(job->endpoint, json_string_of(stage, "sandbox"), path, err);
    return fd < 0 ? fd : context_archive_of(fd, out, err);
}

static int step_take(const struct build_job *job, const char *template_id, json_t *step,
                     struct err *err)
{
    json_t *stage = stage_at(job, json_integer_value(json_object_get(step, "stage")));
    const char *source = json_string_value(json_array_get(json_object_get(step, "args"), 0));
    struct context_archive archive;
    int r =
        packed_fetch(job, stage, json_integer_value(json_object_get(step, "copy")), &archive, err);

    if (r < 0) {
        return r;
    }
    r = archive_send(job, template_id, source, &archive, err);
    (void)close(archive.fd);
    (void)json_object_set_new(step, "filesHash", json_string(archive.hash));
    return r;
}

int stages_take(const struct build_job *job, const char *template_id, struct err *err)
{
    json_t *step;
    size_t i;
    int r = 0;

    json_array_foreach (job->steps, i, step) {
        if (r == 0 && json_object_get(step, "stage")) {
            r = step_take(job, template_id, step, err);
        }
    }
    return r;
}

/* ---- the end ---- */

static void thing_remove(const struct build_job *job, const char *what, const char *id)
{
    char path[TEMPLATE_PATH_BYTES];
    json_t *answer = NULL;
    struct err ignored; /* it is gone already, then */

    if (id) {
        (void)snprintf(path, sizeof(path), "/%s/%s", what, id);
        (void)!endpoint_call(job->endpoint, "DELETE", path, NULL, &answer, &ignored);
        json_decref(answer);
    }
}

void stages_remove(const struct build_job *job)
{
    const json_t *stage;
    size_t i;

    json_array_foreach (job->stages, i, stage) {
        thing_remove(job, "sandboxes", json_string_of(stage, "sandbox"));
        thing_remove(job, "templates", json_string_of(stage, "filesTemplate"));
        thing_remove(job, "templates", json_string_of(stage, "baseTemplate"));
    }
}
