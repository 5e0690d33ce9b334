/* Code artifacts: code that is written once and run many times. They are rows of the daemon's store
 * and belong to a team; a path is only a name, and there are no links. artifact_run.c runs them. */
#include "tools/artifacts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/encode.h"
#include "lib/base/json.h"
#include "tools/artifact_path.h"
#include "tools/catalogue/handlers.h"
#include "tools/execute.h"
#include "tools/internal.h"

enum {
    ARTIFACT_BYTES_MAX = 1024 * 1024,
    ARTIFACTS_PER_TEAM_MAX = 1000,
    ARTIFACT_FIELD_BYTES_MAX = 1024, /* of a description */
    ARTIFACT_SECRET_CHARS_MIN = 8,   /* a shorter one may well be a word of the code */
};

#define ARTIFACTS_TARGET "/internal/artifacts"

/* ---- the store ---- */

static int target_make(struct buf *target, const char *path, struct err *err)
{
    int r = buf_append(target, ARTIFACTS_TARGET, sizeof(ARTIFACTS_TARGET) - 1);

    if (r == 0 && path) {
        r = buf_append(target, "?path=", 6);
        r = r < 0 ? r : percent_encode(target, str_of(path));
    }
    return r < 0 || buf_append(target, "", 1) < 0 ? err_set(err, EINVAL, "the path is too long")
                                                  : 0;
}

static int rows_read(struct tool_call *call, const char *path, json_t **out, struct err *err)
{
    scoped_buf(target, HTTP_TARGET_BYTES_MAX);
    int r = target_make(&target, path, err);

    return r < 0 ? r : call_internal(call, "GET", buf_at(&target), NULL, out, err);
}

int artifacts_list(struct tool_call *call, json_t **out, struct err *err)
{
    return rows_read(call, NULL, out, err);
}

int artifact_find(struct tool_call *call, const char *path, json_t **out, struct err *err)
{
    scoped_json *rows = NULL;
    const char *shorter = artifact_path_short(path);
    int r = artifact_path_check(path, err);

    r = r < 0 ? r : rows_read(call, path, &rows, err);
    if (r == 0 && json_array_size(rows) == 0 && shorter != path) {
        json_decref(move_ptr(&rows));
        r = artifact_path_check(shorter, err);
        r = r < 0 ? r : rows_read(call, shorter, &rows, err);
    }
    if (r == 0 && json_array_size(rows) == 0) {
        r = err_set(err, ENOENT, "codePath: there is no artifact \"%.80s\"", ours(path));
    }
    if (r == 0) {
        *out = json_incref(json_array_get(rows, 0));
    }
    return r;
}

/* ---- answers ---- */

static void stamp_set(json_t *out, const char *name, const json_t *row, const char *column)
{
    char text[CLOCK_STAMP_BYTES];

    clock_stamp(json_integer_value(json_object_get(row, column)), text);
    (void)json_object_set_new(out, name, json_string(text));
}

json_t *artifact_json(const json_t *row)
{
    static const char *const same[] = {"language", "entrypoint", "description",
                                       "sha256",   "version",    "size"};
    json_t *out = json_object();

    (void)json_object_set(out, "codePath", json_object_get(row, "path"));
    for (size_t i = 0; i < countof(same); i++) {
        (void)json_object_set(out, same[i], json_object_get(row, same[i]));
    }
    stamp_set(out, "createdAt", row, "createdMs");
    stamp_set(out, "updatedAt", row, "updatedMs");
    return out;
}

/* ---- writing ---- */

int artifact_language(const char *given, const char *path, enum language *out, struct err *err)
{
    static const struct {
        const char *suffix;
        enum language language;
    } known[] = {{".py", LANGUAGE_PYTHON},      {".js", LANGUAGE_JAVASCRIPT},
                 {".mjs", LANGUAGE_JAVASCRIPT}, {".cjs", LANGUAGE_JAVASCRIPT},
                 {".ts", LANGUAGE_TYPESCRIPT},  {".sh", LANGUAGE_BASH}};

    if (given[0]) {
        return language_find(given, out) < 0
                   ? err_set(err, EINVAL, "language: \"%.40s\" is none that is known", ours(given))
                   : 0;
    }
    for (size_t i = 0; i < countof(known); i++) {
        if (str_ends(str_of(path), str_of(known[i].suffix))) {
            *out = known[i].language;
            return 0;
        }
    }
    return err_set(err, EINVAL,
                   "language: say which it is; \"%.80s\" does not end in .py, .js, .ts or .sh",
                   ours(path));
}

int artifact_entrypoint_check(const char *name, struct err *err)
{
    static const char known[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

    return strspn(name, known) == strlen(name) && strlen(name) <= 128 &&
                   !(name[0] >= '0' && name[0] <= '9')
               ? 0
               : err_set(err, EINVAL, "entrypoint: must be the name of a function");
}

/* Why the store has not taken it. */
static int place_refused(struct tool_call *call, const char *path, struct err *err)
{
    scoped_json *before = NULL;
    int r = artifact_find(call, path, &before, err);

    if (r == 0) {
        r = err_set(err, ESTALE,
                    "codePath: \"%.80s\" exists already, as version %lld: say confirm: true to"
                    " overwrite it",
                    ours(path), (long long)json_integer_value(json_object_get(before, "version")));
    } else if (r == -ENOENT) {
        r = err_set(err, EDQUOT, "the team has as many artifacts as it can have (%d)",
                    ARTIFACTS_PER_TEAM_MAX);
    }
    return r;
}

static int row_save(struct tool_call *call, const json_t *input, const char *path,
                    enum language language, struct err *err)
{
    json_t *content = json_object_get(input, "content");
    char hash[SHA256_HEX_LEN + 1];

    sha256_hex(json_string_value(content), json_string_length(content), hash);
    scoped_json *row = json_pack(
        "{ss sO ss ss ss ss sI sI si sb}", "path", path, "content", content, "language",
        language_name(language), "entrypoint", json_text_of(input, "entrypoint"), "description",
        json_text_of(input, "description"), "sha256", hash, "size",
        (json_int_t)json_string_length(content), "nowMs", (json_int_t)clock_wall_ms(), "teamMax",
        ARTIFACTS_PER_TEAM_MAX, "replace", json_is_true(json_object_get(input, "confirm")));
    int r = call_internal(call, "PUT", ARTIFACTS_TARGET, row, NULL, err);
    return r == -ESTALE ? place_refused(call, path, err) : r;
}

static int content_check(const json_t *input, struct err *err)
{
    const json_t *content = json_object_get(input, "content");

    if (json_string_length(content) > ARTIFACT_BYTES_MAX) {
        return err_set(err, EMSGSIZE, "content: is larger than %d bytes", ARTIFACT_BYTES_MAX);
    }
    if (strlen(json_string_value(content)) != json_string_length(content)) {
        return err_set(err, EINVAL, "content: must not hold a NUL");
    }
    return strlen(json_text_of(input, "description")) > ARTIFACT_FIELD_BYTES_MAX
               ? err_set(err, EMSGSIZE, "description: is larger than %d bytes",
                         ARTIFACT_FIELD_BYTES_MAX)
               : 0;
}

/* An artifact is kept, listed and run by everybody who has a key of the team: it holds no keys. */
static int field_check(struct tool_call *call, const json_t *input, const char *field,
                       struct err *err)
{
    json_t *text = json_object_get(input, field);
    scoped_json *found = NULL;

    if (json_string_length(text) == 0) {
        return 0;
    }
    scoped_json *body =
        json_pack("{sO si sb}", "text", text, "least", ARTIFACT_SECRET_CHARS_MIN, "find", true);
    int r = call_internal(call, "POST", "/internal/guard", body, &found, err);
    const json_t *line = json_object_get(found, "line");
    if (line) {
        r = err_set(err, EINVAL,
                    "%s: line %lld holds %s; artifacts hold no keys: call the API through an API"
                    " shell, or store the key as a secret with an env name and read that variable",
                    ours(field), (long long)json_integer_value(line),
                    ours(json_text_of(found, "what")));
    }
    return r;
}

static int keys_check(struct tool_call *call, const json_t *input, struct err *err)
{
    int r = field_check(call, input, "content", err);

    return r < 0 ? r : field_check(call, input, "description", err);
}

/* An existing artifact keeps its name; a new one is stored without the folder's name. */
static int path_choose(struct tool_call *call, const char *given, const char **path,
                       struct err *err)
{
    scoped_json *row = NULL;
    const char *shorter = artifact_path_short(given);
    int r = shorter == given ? 0 : artifact_find(call, given, &row, err);

    if (r < 0 && r != -ENOENT) {
        return r;
    }
    *path = row && strcmp(json_string_of(row, "path"), given) == 0 ? given : shorter;
    return artifact_path_check(*path, err);
}

int tool_write_code_artifact(struct tool_call *call, const json_t *input, json_t **out,
                             struct err *err)
{
    const char *path = NULL;
    enum language language;
    scoped_json *row = NULL;
    int r = path_choose(call, json_text_of(input, "codePath"), &path, err);

    r = r < 0 ? r : artifact_language(json_text_of(input, "language"), path, &language, err);
    r = r < 0 ? r : artifact_entrypoint_check(json_text_of(input, "entrypoint"), err);
    r = r < 0 ? r : content_check(input, err);
    r = r < 0 ? r : keys_check(call, input, err);
    r = r < 0 ? r : row_save(call, input, path, language, err);
    r = r < 0 ? r : artifact_find(call, path, &row, err);
    if (r == 0) {
        *out = artifact_json(row);
    }
    return r;
}

/* ---- looking and deleting ---- */

int tool_read_code_artifact(struct tool_call *call, const json_t *input, json_t **out,
                            struct err *err)
{
    scoped_json *row = NULL;
    int r = artifact_find(call, json_text_of(input, "codePath"), &row, err);

    if (r == 0) {
        *out = artifact_json(row);
        (void)json_object_set(*out, "content", json_object_get(row, "content"));
    }
    return r;
}

int tool_list_code_artifacts(struct tool_call *call, const json_t *input, json_t **out,
                             struct err *err)
{
    const char *prefix = artifact_path_short(json_text_of(input, "prefix"));
    scoped_json *rows = NULL;
    int r = rows_read(call, NULL, &rows, err);
    json_t *list = json_array();

    prefix = strcmp(prefix, "Code") == 0 ? "" : prefix;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);

        if (str_starts(str_of(json_text_of(row, "path")), str_of(prefix))) {
            (void)json_array_append_new(list, artifact_json(row));
        }
    }
    if (r < 0) {
        json_decref(list);
        return r;
    }
    *out = json_pack("{so}", "artifacts", list);
    return 0;
}

int tool_delete_code_artifact(struct tool_call *call, const json_t *input, json_t **out,
                              struct err *err)
{
    const char *path = json_text_of(input, "codePath");
    scoped_json *row = NULL;
    int r = artifact_find(call, path, &row, err);

    if (r < 0) {
        return r;
    }
    path = json_string_of(row, "path");
    scoped_buf(target, HTTP_TARGET_BYTES_MAX);
    r = target_make(&target, path, err);
    r = r < 0 ? r : call_internal(call, "DELETE", buf_at(&target), NULL, NULL, err);
    if (r == 0) {
        *out = json_pack("{ss sO}", "codePath", path, "version", json_object_get(row, "version"));
    }
    return r;
}
