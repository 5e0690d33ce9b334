/* build_template: a list of packages, repositories and commands becomes the steps of a build, as an
 * SDK would ask for it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/id.h"
#include "lib/base/json.h"
#include "tools/catalogue/handlers.h"
#include "tools/reply.h"

enum {
    STEP_BYTES_MAX = 256 * 1024,
    LOG_LINES_MAX = 2000, /* shown, the last ones */
    TARGET_BYTES = ID_TEMPLATE_LEN + ID_UUID_LEN + 96,
    LOOK_MS = 500,
};

/* ---- steps ---- */

/* Quotes a single word for a shell. */
static int quote(struct buf *out, const char *word)
{
    int r = buf_append(out, "'", 1);

    for (; r == 0 && *word; word++) {
        r = *word == '\'' ? buf_append(out, "'\\''", 4) : buf_append(out, word, 1);
    }
    return r == 0 ? buf_append(out, "'", 1) : r;
}

/* A word that a program could take for an option is refused. */
static int word_check(const char *field, size_t i, const char *word, struct err *err)
{
    return word[0] == '-' ? err_set(err, EINVAL, "%s[%zu]: must not begin with -", field, i) : 0;
}

static void step_add(json_t *steps, const char *command, const char *user)
{
    json_t *args = json_array();

    (void)json_array_append_new(args, json_string(command));
    if (user) {
        (void)json_array_append_new(args, json_string(user));
    }
    (void)json_array_append_new(steps, json_pack("{ssso}", "type", "RUN", "args", args));
}

/* Adds a single step that installs all packages of the field. */
static int step_packages(const json_t *input, const char *field, const char *command, json_t *steps,
                         struct err *err)
{
    const json_t *packages = json_object_get(input, field);
    scoped_buf(text, STEP_BYTES_MAX);

    if (json_array_size(packages) == 0) {
        return 0;
    }
    int r = buf_printf(&text, "%s", command);
    for (size_t i = 0; r == 0 && i < json_array_size(packages); i++) {
        const char *package = json_string_value(json_array_get(packages, i));

        if (word_check(field, i, package, err) < 0) {
            return -EINVAL;
        }
        r = buf_append(&text, " ", 1) < 0 ? -ENOBUFS : quote(&text, package);
    }
    if (r < 0 || buf_append(&text, "", 1) < 0) {
        return err_set(err, EMSGSIZE, "%s: is too long", field);
    }
    step_add(steps, buf_at(&text), "root");
    return 0;
}

/* A step for each, so that one that changed does not fetch the others again. */
static int step_clone(const json_t *urls, size_t i, json_t *steps, struct err *err)
{
    const char *url = json_string_value(json_array_get(urls, i));
    scoped_buf(text, STEP_BYTES_MAX);

    if (word_check("git_urls", i, url, err) < 0) {
        return -EINVAL;
    }
    if (buf_printf(&text, "cd && git clone -- ") < 0 || quote(&text, url) < 0 ||
        buf_append(&text, "", 1) < 0) {
        return err_set(err, EMSGSIZE, "git_urls[%zu]: is too long", i);
    }
    step_add(steps, buf_at(&text), NULL);
    return 0;
}

static int steps_make(const json_t *input, json_t *steps, struct err *err)
{
    const json_t *urls = json_object_get(input, "git_urls");
    const json_t *commands = json_object_get(input, "commands");
    int r = step_packages(input, "apt",
                          "apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y"
                          " --no-install-recommends",
                          steps, err);

    r = r < 0 ? r : step_packages(input, "pip", "pip install --no-cache-dir", steps, err);
    r = r < 0
            ? r
            : step_packages(input, "npm", "npm install --global --no-fund --no-audit", steps, err);
    for (size_t i = 0; r == 0 && i < json_array_size(urls); i++) {
        r = step_clone(urls, i, steps, err);
    }
    for (size_t i = 0; r == 0 && i < json_array_size(commands); i++) {
        step_add(steps, json_string_value(json_array_get(commands, i)), NULL);
    }
    return r;
}

/* ---- the request for the build ---- */

static int base_set(const json_t *input, json_t *body, struct err *err)
{
    const char *base = json_string_of(input, "base");
    json_t *from = json_object_get(input, "from");
    bool plain = strcmp(base, "base") == 0;

    if (plain && from) {
        return err_set(err, EINVAL, "from: needs base template or base image");
    }
    if (!plain && !from) {
        return err_set(err, EINVAL, "from: is required with base %s", base);
    }
    if (plain) {
        (void)json_object_set_new(body, "fromTemplate", json_string("base"));
    } else {
        (void)json_object_set(body, strcmp(base, "image") == 0 ? "fromImage" : "fromTemplate",
                              from);
    }
    return 0;
}

static int start_body(const json_t *input, json_t **out, struct err *err)
{
    scoped_json *body = json_object();
    json_t *steps = json_array();

    (void)json_object_set_new(body, "steps", steps);
    field_copy(body, "startCmd", input, "start_cmd");
    field_copy(body, "readyCmd", input, "ready_cmd");
    int r = base_set(input, body, err);
    r = r < 0 ? r : steps_make(input, steps, err);
    if (r == 0) {
        *out = move_ptr(&body);
    }
    return r;
}

static json_t *request_body(const json_t *input)
{
    json_t *body = json_object();

    field_copy(body, "name", input, "alias");
    field_copy(body, "cpuCount", input, "cpu_count");
    field_copy(body, "memoryMB", input, "memory_mb");
    return body;
}

/* ---- how it goes ---- */

struct building {
    struct tool_call *call;
    const char *template_id, *build_id; /* of the answer to the request */
    json_t *log;                        /* array of strings */
    size_t lines;                       /* read so far */
    json_t *status;                     /* the newest */
};

static void log_add(struct building *building, const json_t *entries)
{
    for (size_t i = 0; i < json_array_size(entries); i++) {
        const json_t *entry = json_array_get(entries, i);

        (void)json_array_append(building->log, json_object_get(entry, "message"));
        if (json_array_size(building->log) > LOG_LINES_MAX) {
            (void)json_array_remove(building->log, 0);
        }
        if (i + 1 == json_array_size(entries)) {
            call_progress(building->call, 0, 0, "%.200s", json_text_of(entry, "message"));
        }
    }
    building->lines += json_array_size(entries);
}

/* 1 when there may be more lines to read at once. */
static int look(struct building *building, struct err *err)
{
    char target[TARGET_BYTES];
    json_t *status = NULL;

    (void)snprintf(target, sizeof(target), "/templates/%s/builds/%s/status?logsOffset=%zu",
                   building->template_id, building->build_id, building->lines);
    int r = call_api(building->call, "GET", target, NULL, &status, err);
    if (r < 0) {
        return r;
    }
    json_decref(building->status);
    building->status = status;
    log_add(building, json_object_get(status, "logEntries"));
    return json_array_size(json_object_get(status, "logEntries")) > 0;
}

static bool has_ended(const struct building *building)
{
    const char *state = json_string_of(building->status, "status");

    return state && (strcmp(state, "ready") == 0 || strcmp(state, "error") == 0);
}

/* The state is read before the lines: after the end, one more look gets all remaining lines. */
static int follow(struct building *building, bool wait, struct err *err)
{
    int r = look(building, err);

    while (r > 0 || (r == 0 && wait && !has_ended(building))) {
        if (r == 0) {
            r = call_sleep(building->call, LOOK_MS);
        }
        r = r < 0 ? err_set(err, -r, "the call was cancelled; the build goes on")
                  : look(building, err);
    }
    return r;
}

static json_t *describe(const struct building *building, const json_t *input)
{
    const json_t *reason = json_object_get(building->status, "reason");
    const char *state = json_string_of(building->status, "status");
    json_t *reply = json_object();

    field_copy(reply, "alias", input, "alias");
    (void)json_object_set_new(reply, "template_id", json_string(building->template_id));
    (void)json_object_set_new(reply, "build_id", json_string(building->build_id));
    (void)json_object_set_new(reply, "status", json_string(state));
    (void)json_object_set_new(reply, "success", json_boolean(strcmp(state, "error") != 0));
    (void)json_object_set(reply, "log", building->log);
    field_copy(reply, "error", reason, "message");
    field_copy(reply, "failed_step", reason, "step");
    if (building->lines > LOG_LINES_MAX) {
        reply_note(reply, "The first %zu lines of the log were left out.",
                   building->lines - LOG_LINES_MAX);
    }
    return reply;
}

/* ---- the tool ---- */

/* Sets who may use the template. Without the field it stays as it was, and a new template is the
 * team's own. */
static int visibility_set(struct building *building, const json_t *input, struct err *err)
{
    const char *visibility = json_string_of(input, "visibility");
    scoped_json *body = NULL;
    char target[TARGET_BYTES];

    if (!visibility) {
        return 0;
    }
    body = json_pack("{sb}", "public", strcmp(visibility, "public") == 0);
    (void)snprintf(target, sizeof(target), "/v2/templates/%s", building->template_id);
    return call_api(building->call, "PATCH", target, body, NULL, err);
}

static int build(struct building *building, const json_t *input, const json_t *start,
                 struct err *err)
{
    bool wait = json_is_true(json_object_get(input, "wait"));
    char target[TARGET_BYTES];

    (void)snprintf(target, sizeof(target), "/v2/templates/%s/builds/%s", building->template_id,
                   building->build_id);
    int r = call_api(building->call, "POST", target, start, NULL, err);
    return r < 0 ? r : follow(building, wait, err);
}

int tool_build_template(struct tool_call *call, const json_t *input, json_t **out, struct err *err)
{
    scoped_json *start = NULL, *made = NULL, *log = json_array();
    scoped_json *request = request_body(input);
    int r = start_body(input, &start, err);

    r = r < 0 ? r : call_api(call, "POST", "/v3/templates", request, &made, err);
    if (r < 0) {
        return r;
    }
    struct building building = {
        .call = call,
        .template_id = json_string_of(made, "templateID"),
        .build_id = json_string_of(made, "buildID"),
        .log = log,
    };
    r = visibility_set(&building, input, err);
    r = r < 0 ? r : build(&building, input, start, err);
    if (r == 0) {
        *out = describe(&building, input);
    }
    json_decref(building.status);
    return r;
}
