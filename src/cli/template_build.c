/* template_build.c - a Dockerfile and a directory become a template, by the calls the SDKs make. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/context.h"
#include "cli/dockerfile.h"
#include "cli/dockerfile_stages.h"
#include "cli/template.h"
#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/small_file.h"

enum { PATH_BYTES = 4096 };

/* Official clients wait this long too: a Dockerfile's CMD has no ready command. */
#define READY_DEFAULT "sleep 20"

struct plan {
    const char *name;
    char dir[PATH_BYTES], file[PATH_BYTES];
    const char *start, *ready;
    long cpus, memory_mb; /* 0: the daemon's default */
    bool no_cache;
    json_t *args;
};

/* ---- what is asked for ---- */

static int number_option(const char *name, const char *value, long *out, struct err *err)
{
    char *end = NULL;

    *out = strtol(value, &end, 10);
    return *end || *out <= 0 || *out > INT32_MAX
               ? err_set(err, EINVAL, "%s %s is not a number", name, value)
               : 0;
}

static int arg_option(struct plan *plan, const char *value, struct err *err)
{
    const char *equals = strchr(value, '=');
    char name[PATH_BYTES];

    if (!equals || !str_copy(name, sizeof(name), (struct str){value, (size_t)(equals - value)}) ||
        json_object_set_new(plan->args, name, json_string(equals + 1)) < 0) {
        return err_set(err, EINVAL, "--build-arg %s is not of the form NAME=VALUE", value);
    }
    return 0;
}

static int option_take(struct plan *plan, const char *name, const char *value, struct err *err)
{
    if (strcmp(name, "--file") == 0) {
        (void)snprintf(plan->file, sizeof(plan->file), "%s", value);
    } else if (strcmp(name, "--start") == 0) {
        plan->start = value;
    } else if (strcmp(name, "--ready") == 0) {
        plan->ready = value;
    } else if (strcmp(name, "--cpus") == 0) {
        return number_option(name, value, &plan->cpus, err);
    } else if (strcmp(name, "--memory") == 0) {
        return number_option(name, value, &plan->memory_mb, err);
    } else {
        return arg_option(plan, value, err);
    }
    return 0;
}

/* A recipe that comes with atoll, unless the user named a directory or a file. */
static bool recipe_find(const struct cli *cli, struct plan *plan)
{
    const char *templates = cli->paths.templates;

    if (cli->words_n > 2 || plan->file[0] || !templates[0] || strchr(plan->name, '/')) {
        return false;
    }
    (void)snprintf(plan->dir, sizeof(plan->dir), "%s/%s", templates, plan->name);
    int n = snprintf(plan->file, sizeof(plan->file), "%s/Dockerfile", plan->dir);
    if (n < (int)sizeof(plan->file) && access(plan->file, R_OK) == 0) {
        return true;
    }
    plan->file[0] = '\0';
    return false;
}

static int plan_make(struct cli *cli, struct plan *plan, struct err *err)
{
    int r = 0;

    plan->name = cli->words[1];
    plan->no_cache = cli_has(cli, "--no-cache");
    plan->args = json_object();
    for (int i = 0; r == 0 && i < cli->options_n; i++) {
        if (!cli->options[i].value) {
            continue; /* --no-cache */
        }
        r = option_take(plan, cli->options[i].name, cli->options[i].value, err);
    }
    if (r < 0 || recipe_find(cli, plan)) {
        return r;
    }
    (void)snprintf(plan->dir, sizeof(plan->dir), "%s", cli->words_n > 2 ? cli->words[2] : ".");
    if (!plan->file[0] && (size_t)snprintf(plan->file, sizeof(plan->file), "%s/Dockerfile",
                                           plan->dir) >= sizeof(plan->file)) {
        return err_set(err, ENAMETOOLONG, "the directory's name is too long");
    }
    return 0;
}

/* ---- the Dockerfile ---- */

static int file_parse(const struct plan *plan, struct dockerfile *out, struct err *err)
{
    scoped_fd fd = open(plan->file, O_RDONLY | O_CLOEXEC);
    scoped_buf(text, DOCKERFILE_BYTES_MAX + 1);
    const json_t *note;
    size_t i;

    int r = fd < 0 ? -errno : small_file_append(fd, &text);
    if (r < 0 && r != -ENOBUFS) { /* the parser refuses one that is too long */
        return err_code(err, -r, "read %s", plan->file);
    }
    r = dockerfile_parse(buf_str(&text), plan->args, out, err);
    if (r < 0) {
        return err_wrap(err, "%s", plan->file);
    }
    json_array_foreach (out->notes, i, note) {
        (void)fprintf(stderr, "%s: %s\n", plan->file, json_string_value(note));
    }
    return 0;
}

/* ---- the files ---- */

int archive_send(const struct build_job *job, const char *template_id, const char *source,
                 const struct context_archive *archive, struct err *err)
{
    char path[TEMPLATE_PATH_BYTES];
    scoped_json *answer = NULL;

    (void)snprintf(path, sizeof(path), "/templates/%s/files/%s", template_id, archive->hash);
    int r = endpoint_call(job->endpoint, "GET", path, NULL, &answer, err);
    if (r < 0 || json_is_true(json_object_get(answer, "present"))) {
        return r;
    }
    const char *url = json_string_of(answer, "url");
    if (!url) {
        return err_set(err, EPROTO, "the daemon's answer has no upload URL");
    }
    if (job->show == BUILD_SHOW_TEXT) {
        printf("Sending %s (%.1f MB)\n", source, (double)archive->bytes / 1e6);
    }
    return endpoint_upload(job->endpoint, url, archive->fd, archive->bytes, err);
}

static int step_send(const struct build_job *job, struct context *context, const char *template_id,
                     json_t *step, struct err *err)
{
    const char *source = json_string_value(json_array_get(json_object_get(step, "args"), 0));
    struct context_archive archive;
    int r = context_pack(context, source, &archive, err);

    if (r < 0) {
        return r;
    }
    r = archive_send(job, template_id, source, &archive, err);
    (void)close(archive.fd);
    (void)json_object_set_new(step, "filesHash", json_string(archive.hash));
    return r;
}

static bool takes_files(const json_t *step)
{
    return strcmp(json_string_of(step, "type"), "COPY") == 0 && !json_object_get(step, "stage");
}

/* Before the daemon hears of the template, which would wait for its files for ever. */
static int files_check(const struct build_job *job, struct err *err)
{
    struct context *context = NULL;
    const json_t *step;
    size_t i;
    int r = context_open(job->dir, &context, err);

    json_array_foreach (job->steps, i, step) {
        if (r == 0 && takes_files(step)) {
            const json_t *args = json_object_get(step, "args");
            r = context_check(context, json_string_value(json_array_get(args, 0)), err);
        }
    }
    context_free(context);
    return r;
}

static int files_send(const struct build_job *job, const char *template_id, struct err *err)
{
    struct context *context = NULL;
    json_t *step;
    size_t i;
    int r = context_open(job->dir, &context, err);

    json_array_foreach (job->steps, i, step) {
        if (r == 0 && takes_files(step)) {
            r = step_send(job, context, template_id, step, err);
        }
    }
    context_free(context);
    return r;
}

/* ---- the build ---- */

static int template_ask(const struct build_job *job, struct build_place *out, struct err *err)
{
    scoped_json *body = json_pack("{ss}", "name", job->name), *answer = NULL;

    if (!body) {
        return err_set(err, EINVAL, "the name is not UTF-8");
    }
    if (job->cpus) {
        (void)json_object_set_new(body, "cpuCount", json_integer(job->cpus));
    }
    if (job->memory_mb) {
        (void)json_object_set_new(body, "memoryMB", json_integer(job->memory_mb));
    }
    int r = endpoint_call(job->endpoint, "POST", "/v3/templates", body, &answer, err);
    const char *template_id = json_string_of(answer, "templateID");
    const char *build_id = json_string_of(answer, "buildID");
    if (r < 0) {
        return r;
    }
    if (!template_id || !build_id ||
        !str_copy(out->template_id, sizeof(out->template_id), str_of(template_id)) ||
        !str_copy(out->build_id, sizeof(out->build_id), str_of(build_id))) {
        return err_set(err, EPROTO, "the daemon's answer has no build id");
    }
    return 0;
}

/* "stage" and "copy" are for us alone. */
static json_t *steps_plain(const json_t *steps)
{
    json_t *plain = json_deep_copy(steps), *step;
    size_t i;

    json_array_foreach (plain, i, step) {
        (void)json_object_del(step, "stage");
        (void)json_object_del(step, "copy");
    }
    return plain;
}

static int build_begin(const struct build_job *job, const struct build_place *place,
                       struct err *err)
{
    char path[TEMPLATE_PATH_BYTES];
    bool is_ours = strncmp(job->from, "template:", 9) == 0;
    scoped_json *answer = NULL;
    scoped_json *body = json_pack("{ss sb so}", is_ours ? "fromTemplate" : "fromImage",
                                  is_ours ? job->from + 9 : job->from, "force", job->no_cache,
                                  "steps", steps_plain(job->steps));

    if (job->start) {
        (void)json_object_set_new(body, "startCmd", json_string(job->start));
    }
    if (job->ready || job->start) {
        (void)json_object_set_new(body, "readyCmd",
                                  json_string(job->ready ? job->ready : READY_DEFAULT));
    }
    (void)snprintf(path, sizeof(path), "/v2/templates/%s/builds/%s", place->template_id,
                   place->build_id);
    return endpoint_call(job->endpoint, "POST", path, body, &answer, err);
}

static void build_cancel(const struct endpoint *endpoint, const struct build_place *place)
{
    char path[TEMPLATE_PATH_BYTES];
    json_t *answer = NULL;
    struct err ignored; /* it has ended by itself, then */

    (void)snprintf(path, sizeof(path), "/templates/%s/builds/%s", place->template_id,
                   place->build_id);
    (void)!endpoint_call(endpoint, "DELETE", path, NULL, &answer, &ignored);
    json_decref(answer);
}

int build_run(const struct build_job *job, struct build_place *out, struct err *err)
{
    int r = files_check(job, err);

    r = r == 0 ? template_ask(job, out, err) : r;
    r = r == 0 ? stages_take(job, out->template_id, err) : r;
    r = r == 0 ? files_send(job, out->template_id, err) : r;
    if (r == 0) {
        follow_begin();
        r = build_begin(job, out, err);
    }
    r = r == 0 ? build_follow(job->endpoint, out, job->show, true, err) : r;
    if (r == -EINTR) {
        build_cancel(job->endpoint, out);
    }
    return r;
}

static int build(struct cli *cli, const struct plan *plan, struct err *err)
{
    struct dockerfile file = {0};
    struct endpoint endpoint;
    struct build_place place;
    int64_t begun_ms = clock_mono_ms();
    int r = file_parse(plan, &file, err);

    if (r == 0) {
        r = endpoint_choose(cli, &endpoint, err);
    }
    if (r == 0) {
        struct build_job job = {
            .endpoint = &endpoint,
            .dir = plan->dir,
            .name = plan->name,
            .from = file.from,
            .steps = file.steps,
            .start = plan->start ? plan->start : file.start,
            .ready = plan->ready ? plan->ready : file.ready,
            .cpus = plan->cpus,
            .memory_mb = plan->memory_mb,
            .no_cache = plan->no_cache,
            .show = template_show(cli),
            .stages = file.stages,
        };
        r = stages_build(&job, err);
        r = r == 0 ? build_run(&job, &place, err) : r;
        stages_remove(&job);
    }
    if (r == 0 && cli->json) {
        scoped_json *made = json_pack("{s:s, s:s, s:s}", "templateID", place.template_id, "buildID",
                                      place.build_id, "name", plan->name);
        cli_print_json(made);
    } else if (r == 0 && cli->quiet) {
        printf("%s\n", place.template_id);
    } else if (r == 0) {
        printf("Built %s (%s) in %.1f s\n", plan->name, place.template_id,
               (double)(clock_mono_ms() - begun_ms) / 1e3);
    }
    dockerfile_fini(&file);
    return r;
}

int cli_template_build(struct cli *cli)
{
    struct plan plan = {.name = NULL};
    struct err err;
    int r = plan_make(cli, &plan, &err);

    if (r < 0) {
        json_decref(plan.args);
        return cli_fail(CLI_USAGE, "%s", err.msg);
    }
    r = build(cli, &plan, &err);
    json_decref(plan.args);
    if (r == -EINTR) {
        return cli_fail(CLI_INTERRUPTED, "the build was cancelled");
    }
    return cli_result(r, &err);
}
