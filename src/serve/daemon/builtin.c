#include "serve/daemon/builtin.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/json.h"
#include "lib/base/log.h"
#include "lib/base/str.h"
#include "wire/keeper.h"

enum { NOTICE_PATH_BYTES = 2 * DATA_PATH_BYTES };

#define NOTICE_SUFFIX ".json"

static void jsonp_decref(json_t **json)
{
    json_decref(*json);
}

static void textp_free(char **text)
{
    free(*text);
}

static void dirp_close(DIR **dir)
{
    if (*dir) {
        (void)closedir(*dir);
    }
}

/* ---- settings ---- */

enum kind { TEXT, NUMBER, SWITCH, TEXTS };

static const struct field {
    const char *name;
    enum kind kind;
    json_int_t min, max; /* of a number */
} fields[] = {
    {"from", TEXT, 0, 0},
    {"layerOnly", SWITCH, 0, 0},
    {"cpuCount", NUMBER, 1, KEEPER_CPU_MILLIS_MAX / 1000},
    {"memoryMB", NUMBER, KEEPER_MEMORY_MB_MIN, KEEPER_MEMORY_MB_MAX},
    {"diskSizeMB", NUMBER, KEEPER_DISK_MB_MIN, KEEPER_DISK_MB_MAX},
    {"user", TEXT, 0, 0},
    {"workdir", TEXT, 0, 0},
    {"env", TEXTS, 0, 0},
    {"startCmd", TEXT, 0, 0},
    {"readyCmd", TEXT, 0, 0},
};

static bool texts_fit(json_t *value)
{
    const char *key;
    json_t *text;

    json_object_foreach (value, key, text) {
        if (!json_is_string(text)) {
            return false;
        }
    }
    return json_is_object(value);
}

static bool field_fits(const struct field *field, json_t *value)
{
    switch (field->kind) {
    case TEXT:
        return json_is_string(value);
    case SWITCH:
        return json_is_boolean(value);
    case TEXTS:
        return texts_fit(value);
    case NUMBER:
        return json_is_integer(value) && json_integer_value(value) >= field->min &&
               json_integer_value(value) <= field->max;
    }
    return false;
}

static const struct field *field_find(const char *name)
{
    for (size_t i = 0; i < countof(fields); i++) {
        if (strcmp(fields[i].name, name) == 0) {
            return &fields[i];
        }
    }
    return NULL;
}

static int settings_check(json_t *settings, const char *path, struct err *err)
{
    const char *name;
    json_t *value;

    if (!json_is_object(settings)) {
        return err_set(err, EINVAL, "%s: expected a JSON object", path);
    }
    json_object_foreach (settings, name, value) {
        const struct field *field = field_find(name);
        if (!field) {
            return err_set(err, EINVAL, "%s: there is no setting '%s'", path, name);
        }
        if (!field_fits(field, value)) {
            return err_set(err, EINVAL, "%s: the value of '%s' is of the wrong kind or size", path,
                           name);
        }
    }
    for (size_t i = 0; i < countof(fields) && !builtin_is_layer(settings); i++) {
        if (fields[i].kind == NUMBER && !json_object_get(settings, fields[i].name)) {
            return err_set(err, EINVAL, "%s: '%s' is missing", path, fields[i].name);
        }
    }
    return 0;
}

static bool name_is_plain(const char *name)
{
    return name[0] && strlen(name) < BUILTIN_NAME_BYTES &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(name);
}

int builtin_read(const struct paths *paths, const char *name, json_t **out, struct err *err)
{
    char path[NOTICE_PATH_BYTES];
    json_error_t why;

    if (!paths->templates[0]) {
        return err_set(err, ENOENT,
                       "the recipes of the templates are missing: name their directory with "
                       "--templates");
    }
    if (!name_is_plain(name)) {
        return err_set(err, EINVAL, "'%.*s' is not the name of a template", BUILTIN_NAME_BYTES,
                       name);
    }
    (void)snprintf(path, sizeof(path), "%s/%s/settings.json", paths->templates, name);
    if (access(path, R_OK) < 0) {
        return err_set(err, ENOENT, "there is no built-in template '%s' in %s", name,
                       paths->templates);
    }
    scoped(jsonp_decref) json_t *settings = json_load_file(path, JSON_REJECT_DUPLICATES, &why);
    if (!settings) {
        return err_set(err, EINVAL, "%s:%d: %s", path, why.line, why.text);
    }
    int r = settings_check(settings, path, err);
    if (r == 0) {
        *out = json_incref(settings);
    }
    return r;
}

const char *builtin_from(const json_t *settings)
{
    return json_string_value(json_object_get(settings, "from"));
}

bool builtin_is_layer(const json_t *settings)
{
    return json_is_true(json_object_get(settings, "layerOnly"));
}

/* ---- writing notices ---- */

static void notice_path(const struct paths *paths, const char *name, const char *suffix,
                        char out[NOTICE_PATH_BYTES])
{
    (void)snprintf(out, NOTICE_PATH_BYTES, "%s/%s%s", paths->notices, name, suffix);
}

/* By a rename, so that a server that reads it meanwhile finds the old notice or the new one. */
static int notice_write(const struct paths *paths, const char *name, const json_t *notice,
                        struct err *err)
{
    char path[NOTICE_PATH_BYTES], fresh[NOTICE_PATH_BYTES];

    notice_path(paths, name, NOTICE_SUFFIX, path);
    notice_path(paths, name, ".new", fresh);
    if (json_dump_file(notice, fresh, JSON_COMPACT) < 0 || rename(fresh, path) < 0) {
        return err_sys(err, "write %s", path);
    }
    return 0;
}

int notice_ready(const struct paths *paths, const char *name, const json_t *settings,
                 const char *layers, struct err *err)
{
    scoped(jsonp_decref) json_t *notice = json_deep_copy(settings);

    (void)json_object_set_new(notice, "layers", json_string(layers));
    return notice_write(paths, name, notice, err);
}

void notice_awaited(const struct paths *paths, const char *name, const char *sentence)
{
    scoped(jsonp_decref) json_t *notice = json_pack("{ss}", "awaited", sentence);
    struct err err;

    if (notice && notice_write(paths, name, notice, &err) < 0) {
        log_warn("%s", err.msg);
    }
}

/* ---- reading notices ---- */

static json_t *notice_read(const struct paths *paths, const char *name)
{
    char path[NOTICE_PATH_BYTES];
    json_error_t why;

    notice_path(paths, name, NOTICE_SUFFIX, path);
    json_t *notice = json_load_file(path, 0, &why);
    if (!notice && access(path, F_OK) == 0) {
        log_warn("%s cannot be read: %s", path, why.text);
    }
    return notice;
}

static uint32_t number_of(const json_t *notice, const char *name)
{
    return (uint32_t)json_integer_value(json_object_get(notice, name));
}

int notice_layers(const struct paths *paths, const char *name, char *out, size_t size,
                  struct err *err)
{
    scoped(jsonp_decref) json_t *notice = notice_read(paths, name);
    const char *layers = json_string_of(notice, "layers");

    if (!layers || !str_copy(out, size, str_of(layers))) {
        return err_set(err, ENOENT, "the template %s is not ready", name);
    }
    return 0;
}

static void put(struct templates *templates, const char *name, const json_t *notice)
{
    const json_t *env = json_object_get(notice, "env");
    scoped(textp_free) char *env_json = env ? json_dumps(env, JSON_COMPACT) : NULL;

    if (templates_awaited(templates, str_of(name))) {
        log_info("the template %s is ready", name);
        templates_await(templates, name, NULL);
    }
    templates_put_builtin(templates, &(struct template_builtin){
                                         .alias = name,
                                         .layers = json_string_of(notice, "layers"),
                                         .user = json_string_of(notice, "user"),
                                         .workdir = json_string_of(notice, "workdir"),
                                         .env_json = env_json,
                                         .start_cmd = json_string_of(notice, "startCmd"),
                                         .ready_cmd = json_string_of(notice, "readyCmd"),
                                         .cpu_count = number_of(notice, "cpuCount"),
                                         .memory_mb = number_of(notice, "memoryMB"),
                                         .disk_mb = number_of(notice, "diskSizeMB"),
                                     });
}

static void take(const struct paths *paths, const char *name, void *ctx)
{
    struct templates *templates = ctx;
    scoped(jsonp_decref) json_t *notice = notice_read(paths, name);

    if (json_string_of(notice, "awaited")) {
        templates_await(templates, name, json_string_of(notice, "awaited"));
    } else if (json_string_of(notice, "layers")) {
        put(templates, name, notice);
    }
}

/* Calls each with the name of every notice. */
static void notices_each(const struct paths *paths,
                         void (*each)(const struct paths *paths, const char *name, void *ctx),
                         void *ctx)
{
    char name[BUILTIN_NAME_BYTES];
    const struct dirent *entry;

    scoped(dirp_close) DIR *dir = opendir(paths->notices);
    while (dir && (entry = readdir(dir))) {
        struct str file = str_of(entry->d_name);
        if (str_ends(file, STR(NOTICE_SUFFIX))) {
            file.len -= strlen(NOTICE_SUFFIX);
            if (str_copy(name, sizeof(name), file)) {
                each(paths, name, ctx);
            }
        }
    }
}

void notices_take(const struct paths *paths, struct templates *templates)
{
    notices_each(paths, take, templates);
}

static void forget_awaited(const struct paths *paths, const char *name, void *ctx)
{
    scoped(jsonp_decref) json_t *notice = notice_read(paths, name);
    char path[NOTICE_PATH_BYTES];

    (void)ctx;
    if (!json_string_of(notice, "layers")) {
        notice_path(paths, name, NOTICE_SUFFIX, path);
        (void)unlink(path);
    }
}

void notices_forget_awaited(const struct paths *paths)
{
    notices_each(paths, forget_awaited, NULL);
}
