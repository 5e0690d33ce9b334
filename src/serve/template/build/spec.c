#include "serve/template/build/spec.h"

#include <errno.h>
#include <stdlib.h>

#include "lib/base/alloc.h"

/* ---- fields ---- */

static int refuse(struct err *err, const char *name, const char *what)
{
    return err_set(err, EINVAL, "validation error: %s must be %s", name, what);
}

static int text_get(const json_t *body, const char *name, size_t max, const char **out,
                    struct err *err)
{
    const json_t *value = json_object_get(body, name);

    if (!value || json_is_null(value)) {
        return 0;
    }
    if (!json_is_string(value) || json_string_length(value) > max) {
        return err_set(err, EINVAL, "validation error: %s must be a string of at most %zu bytes",
                       name, max);
    }
    *out = json_string_length(value) ? json_string_value(value) : NULL;
    return 0;
}

static int flag_get(const json_t *body, const char *name, bool *out, struct err *err)
{
    const json_t *value = json_object_get(body, name);

    if (!value || json_is_null(value)) {
        return 0;
    }
    if (!json_is_boolean(value)) {
        return refuse(err, name, "true or false");
    }
    *out = json_boolean_value(value);
    return 0;
}

/* ---- steps ---- */

static enum step_kind kind_of(const char *type)
{
    static const struct {
        const char *name;
        enum step_kind kind;
    } kinds[] = {{"RUN", STEP_RUN},  {"COPY", STEP_COPY}, {"ADD", STEP_COPY},
                 {"ENV", STEP_ENV},  {"ARG", STEP_ENV},   {"WORKDIR", STEP_WORKDIR},
                 {"USER", STEP_USER}};

    for (size_t i = 0; i < countof(kinds); i++) {
        if (str_ieq(str_of(type), str_of(kinds[i].name))) {
            return kinds[i].kind;
        }
    }
    return STEP_UNKNOWN;
}

static int args_check(const json_t *args, struct err *err)
{
    if (!json_is_array(args) || json_array_size(args) > SPEC_ARGS_MAX) {
        return err_set(err, EINVAL,
                       "validation error: steps.args must be a list of at most %d strings",
                       SPEC_ARGS_MAX);
    }
    for (size_t i = 0; i < json_array_size(args); i++) {
        const json_t *arg = json_array_get(args, i);
        if (!json_is_string(arg) || json_string_length(arg) > SPEC_TEXT_BYTES_MAX) {
            return err_set(err, EINVAL,
                           "validation error: steps.args must be strings of at most %d bytes",
                           SPEC_TEXT_BYTES_MAX);
        }
    }
    return 0;
}

static int step_parse(const json_t *json, struct step *out, struct err *err)
{
    const json_t *args = json_object_get(json, "args");
    int r = text_get(json, "type", SPEC_NAME_BYTES_MAX, &out->type, err);

    if (r == 0 && !out->type) {
        r = refuse(err, "steps.type", "there");
    }
    if (r == 0 && args && !json_is_null(args)) {
        r = args_check(args, err);
        out->args = args;
    }
    if (r == 0) {
        r = text_get(json, "filesHash", SPEC_NAME_BYTES_MAX, &out->files_hash, err);
    }
    if (r == 0) {
        r = flag_get(json, "force", &out->force, err);
    }
    if (r == 0) {
        out->kind = kind_of(out->type);
    }
    return r;
}

static int steps_parse(struct spec *spec, struct err *err)
{
    const json_t *steps = json_object_get(spec->body, "steps");
    int r = 0;

    if (!steps || json_is_null(steps)) {
        return 0;
    }
    if (!json_is_array(steps) || json_array_size(steps) > SPEC_STEPS_MAX) {
        return err_set(err, EINVAL, "validation error: steps must be a list of at most %d",
                       SPEC_STEPS_MAX);
    }
    spec->steps_n = json_array_size(steps);
    spec->steps = xcalloc(spec->steps_n + 1, sizeof(struct step));
    for (size_t i = 0; r == 0 && i < spec->steps_n; i++) {
        const json_t *step = json_array_get(steps, i);
        r = json_is_object(step) ? step_parse(step, &spec->steps[i], err)
                                 : refuse(err, "steps", "a list of objects");
    }
    return r;
}

/* ---- the whole ---- */

static int base_check(const struct spec *spec, struct err *err)
{
    if (!spec->from_image == !spec->from_template) {
        return err_set(err, EINVAL,
                       "validation error: exactly one of fromImage and fromTemplate must be given");
    }
    if (spec->registry && !json_is_null(spec->registry) && !json_is_object(spec->registry)) {
        return refuse(err, "fromImageRegistry", "an object");
    }
    return 0;
}

int spec_parse(const json_t *body, struct spec **out, struct err *err)
{
    struct spec *spec = xnew(struct spec);

    spec->body = json_deep_copy(body);
    spec->registry = json_object_get(spec->body, "fromImageRegistry");
    int r = text_get(spec->body, "fromImage", SPEC_NAME_BYTES_MAX, &spec->from_image, err);
    if (r == 0) {
        r = text_get(spec->body, "fromTemplate", SPEC_NAME_BYTES_MAX, &spec->from_template, err);
    }
    if (r == 0) {
        r = text_get(spec->body, "startCmd", SPEC_TEXT_BYTES_MAX, &spec->start_cmd, err);
    }
    if (r == 0) {
        r = text_get(spec->body, "readyCmd", SPEC_TEXT_BYTES_MAX, &spec->ready_cmd, err);
    }
    if (r == 0) {
        r = flag_get(spec->body, "force", &spec->force, err);
    }
    if (r == 0) {
        r = base_check(spec, err);
    }
    if (r == 0) {
        r = steps_parse(spec, err);
    }
    if (r < 0) {
        spec_free(spec);
        return r;
    }
    *out = spec;
    return 0;
}

void spec_free(struct spec *spec)
{
    if (spec) {
        json_decref(spec->body);
        free(spec->steps);
        free(spec);
    }
}

const char *step_arg(const struct step *step, size_t i)
{
    const char *text = json_string_value(json_array_get(step->args, i));

    return text ? text : "";
}

int step_text(const struct step *step, struct buf *out)
{
    int r = 0;

    for (const char *c = step->type; *c && r == 0; c++) {
        char upper = char_upper(*c);
        r = buf_append(out, &upper, 1);
    }
    for (size_t i = 0; r == 0 && i < json_array_size(step->args); i++) {
        const char *arg = step_arg(step, i);
        if (arg[0]) {
            r = buf_printf(out, " %s", arg);
        }
    }
    return r;
}

/* ---- checks without a disk ---- */

static int env_check(const struct step *step, struct err *err)
{
    size_t n = json_array_size(step->args);

    if (n == 0 || n % 2 != 0) {
        return err_set(err, EINVAL, "%s requires both a key and value arguments", step->type);
    }
    for (size_t i = 0; i < n; i += 2) {
        const char *name = step_arg(step, i);
        if (!name[0] || strchr(name, '=')) {
            return err_set(err, EINVAL, "%s: '%.64s' cannot be the name of a variable", step->type,
                           name);
        }
    }
    return 0;
}

static int copy_check(const struct step *step, struct err *err)
{
    const char *owner = step_arg(step, 2), *mode = step_arg(step, 3);

    if (json_array_size(step->args) < 2) {
        return err_set(err, EINVAL, "%s requires a local path and a container path argument",
                       step->type);
    }
    if (!step->files_hash) {
        return err_set(err, EINVAL, "%s requires files hash to be set", step->type);
    }
    if (owner[0] && !owner_ok(str_of(owner))) {
        return err_set(err, EINVAL, "%s: '%.64s' names no owner", step->type, owner);
    }
    if (mode[0] && !mode_ok(str_of(mode))) {
        return err_set(err, EINVAL, "%s: '%.64s' is no octal mode", step->type, mode);
    }
    return 0;
}

int step_check(const struct step *step, struct err *err)
{
    const char *first = step_arg(step, 0);

    switch (step->kind) {
    case STEP_RUN:
        return first[0] ? 0 : err_set(err, EINVAL, "RUN requires command argument");
    case STEP_COPY:
        return copy_check(step, err);
    case STEP_ENV:
        return env_check(step, err);
    case STEP_WORKDIR:
        return first[0] ? 0 : err_set(err, EINVAL, "WORKDIR requires a path argument");
    case STEP_USER:
        if (!first[0]) {
            return err_set(err, EINVAL, "USER requires a username argument");
        }
        return user_name_ok(str_of(first))
                   ? 0
                   : err_set(err, EINVAL, "USER: '%.64s' cannot be a user's name", first);
    case STEP_UNKNOWN:
        break;
    }
    return err_set(err, EINVAL,
                   "unknown step '%.64s': known are RUN, COPY, ADD, ENV, ARG, WORKDIR and USER",
                   step->type);
}
