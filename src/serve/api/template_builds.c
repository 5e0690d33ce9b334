/* Builds: POST /v3/templates asks for one, POST /v2/templates/{id}/builds/{id} starts it, and its
 * status tells what became of it, with the log in pieces. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "serve/api/internal.h"
#include "serve/api/query.h"
#include "serve/template/name.h"

enum { STATUS_LINES_MAX = 100, TAGS_BYTES = BUILD_TAGS_MAX * (TEMPLATE_NAME_MAX + 1) };

/* ---- asking for a build ---- */

struct wanted {
    struct template_name name;
    char tags[TAGS_BYTES + 1]; /* separated by ',' */
    int64_t cpu_count, memory_mb;
    int64_t disk_mb; /* of the sandboxes: what they may write, so what is free at first */
};

static bool tags_have(const char *tags, const char *tag)
{
    struct str rest = str_of(tags), part;

    while (tags[0] && str_split(&rest, ',', &part)) {
        if (str_eq(part, str_of(tag))) {
            return true;
        }
    }
    return false;
}

static int tags_add(struct wanted *wanted, const char *tag, struct err *err)
{
    size_t len = strlen(wanted->tags);

    if (tags_have(wanted->tags, tag)) {
        return 0;
    }
    if (len + strlen(tag) + 1 > TAGS_BYTES) {
        return err_set(err, EINVAL, "Invalid tag: a build can have at most %d", BUILD_TAGS_MAX);
    }
    (void)snprintf(wanted->tags + len, sizeof(wanted->tags) - len, "%s%s", len ? "," : "", tag);
    return 0;
}

static int tags_parse(const json_t *body, struct wanted *wanted, struct err *err)
{
    const json_t *tags = NULL;
    char tag[TEMPLATE_NAME_MAX + 1];
    int r = field_array(body, "tags", &tags, err);

    for (size_t i = 0; r == 0 && i < json_array_size(tags); i++) {
        const json_t *text = json_array_get(tags, i);
        struct str given = {json_string_value(text), json_string_length(text)};

        if (!json_is_string(text) || !template_tag_parse(given, tag)) {
            return err_set(err, EINVAL, "Invalid tag: '%.*s' is not of a-z 0-9 - _ . or is a UUID",
                           (int)(given.len < 64 ? given.len : 64), given.at ? given.at : "");
        }
        r = tags_add(wanted, tag, err);
    }
    return r;
}

static int size_parse(const json_t *body, struct wanted *wanted, struct err *err)
{
    const struct int_range any = {INT32_MIN, INT32_MAX};
    int r = field_int(body, "cpuCount", any, &wanted->cpu_count, err);

    if (r == 0) {
        r = field_int(body, "memoryMB", any, &wanted->memory_mb, err);
    }
    if (r < 0) {
        return r;
    }
    if (wanted->cpu_count < 1) {
        return err_set(err, EINVAL, "CPU count must be at least 1");
    }
    if (wanted->cpu_count > BUILD_CPU_MAX) {
        return err_set(err, EINVAL, "CPU count must be at most %d", BUILD_CPU_MAX);
    }
    if (wanted->cpu_count > 1 && wanted->cpu_count % 2 != 0) {
        return err_set(err, EINVAL, "CPU count must be 1 or an even number");
    }
    if (wanted->memory_mb < BUILD_MEMORY_MB_MIN) {
        return err_set(err, EINVAL, "Memory must be at least %d MiB", BUILD_MEMORY_MB_MIN);
    }
    if (wanted->memory_mb > BUILD_MEMORY_MB_MAX) {
        return err_set(err, EINVAL, "Memory can't be higher than %d MiB", BUILD_MEMORY_MB_MAX);
    }
    if (wanted->memory_mb % 2 != 0) {
        return err_set(err, EINVAL, "Memory must be divisible by 2");
    }
    return 0;
}

/* The files of a template do not count: all of a sandbox's disk is free when it begins. */
static int disk_parse(const json_t *body, struct wanted *wanted, struct err *err)
{
    int64_t least = 0;
    int r =
        field_int(body, "minFreeDiskMb", (struct int_range){0, KEEPER_DISK_MB_MAX}, &least, err);

    if (r == 0 && least > wanted->disk_mb) {
        wanted->disk_mb = least;
    }
    return r;
}

static int name_parse(const struct call *call, const char *name, struct wanted *wanted,
                      struct err *err)
{
    const char *space = templates_space(call->api->options.templates, call->team->id);

    if (!name || !name[0]) {
        return err_set(err, EINVAL, "Name is required");
    }
    if (template_name_parse(str_of(name), &wanted->name) < 0) {
        return err_set(err, EINVAL, "Invalid name: '%.128s' is not [namespace/]name[:tag]", name);
    }
    if (wanted->name.space[0] && (!space || strcmp(wanted->name.space, space) != 0)) {
        return err_set(err, EACCES, "Invalid name: '%.128s' is in another team's namespace", name);
    }
    return strchr(name, ':') ? tags_add(wanted, wanted->name.tag, err) : 0;
}

struct asked {
    struct call *call;
    json_t *reply;
};

static void on_asked(void *ctx, int error, const struct err *err)
{
    struct asked *asked = ctx;

    if (error < 0) {
        json_decref(asked->reply);
        call_fail_err(asked->call, error, err);
    } else {
        call_json(asked->call, 202, asked->reply);
    }
    free(asked);
}

static json_t *tags_json(const char *tags)
{
    json_t *array = json_array();
    struct str rest = str_of(tags), tag;

    while (str_split(&rest, ',', &tag)) {
        (void)json_array_append_new(array, json_stringn(tag.at, tag.len));
    }
    return array;
}

/* The team's own template of that name or id; a new one when there is none. A name that would hide
 * a built-in template is refused: sandboxes that the team starts without a name would use it. */
static int template_for(const struct call *call, const struct wanted *wanted,
                        const struct template **out, struct err *err)
{
    struct templates *templates = call->api->options.templates;
    const char *alias = wanted->name.alias;
    int why = 0;

    *out = templates_lookup(templates, call->team->id, str_of(alias), &why);
    if (*out && (*out)->team_id && strcmp((*out)->team_id, call->team->id) == 0) {
        return 0;
    }
    if ((*out && !(*out)->team_id) || templates_awaited(templates, str_of(alias))) {
        return err_set(err, EINVAL, "Invalid name: '%s' is a built-in template: choose another",
                       alias);
    }
    *out = templates_add(templates, call->team->id, alias, (uint32_t)wanted->cpu_count,
                         (uint32_t)wanted->memory_mb, (uint32_t)wanted->disk_mb, NULL, NULL);
    return 0;
}

/* Clients of POST /v2/templates (SDKs 2.1 to 2.5) want a whole template as the answer. */
static void request(struct call *call, const struct wanted *wanted, const struct template *t,
                    bool whole)
{
    const char *tags = wanted->tags[0] ? wanted->tags : TEMPLATE_TAG_DEFAULT;
    struct asked *asked = xnew(struct asked);
    char build_id[ID_UUID_LEN + 1];

    *asked = (struct asked){call, whole ? template_json(call->api, t) : json_object()};
    (void)json_object_set_new(asked->reply, "templateID", json_string(t->id));
    (void)json_object_set_new(asked->reply, "public", json_boolean(t->is_public));
    (void)json_object_set_new(asked->reply, "names", template_names(call->api, t));
    (void)json_object_set_new(asked->reply, "aliases", template_aliases(t));
    (void)json_object_set_new(asked->reply, "tags", tags_json(tags));
    const struct build_size size = {.cpu_count = (uint32_t)wanted->cpu_count,
                                    .memory_mb = (uint32_t)wanted->memory_mb,
                                    .disk_mb = (uint32_t)wanted->disk_mb};
    if (!maker_of(call->api, t->id)) {
        maker_note(call, t->id);
    }
    build_request(call->api->options.builds, t, tags, &size, build_id, on_asked, asked);
    maker_note(call, build_id);
    (void)json_object_set_new(asked->reply, "buildID", json_string(build_id));
}

static void handle_request(struct call *call, const json_t *body, const char *name, bool whole)
{
    struct wanted wanted = {.cpu_count = BUILD_CPU_DEFAULT,
                            .memory_mb = BUILD_MEMORY_MB_DEFAULT,
                            .disk_mb = BUILD_DISK_MB};
    const struct template *t = NULL;
    struct err err;
    int r = name_parse(call, name, &wanted, &err);

    if (r == 0) {
        r = tags_parse(body, &wanted, &err);
    }
    if (r == 0) {
        r = size_parse(body, &wanted, &err);
    }
    if (r == 0) {
        r = disk_parse(body, &wanted, &err);
    }
    if (r == 0) {
        r = template_for(call, &wanted, &t, &err);
    }
    if (r < 0) {
        call_fail_err(call, r, &err);
    } else {
        request(call, &wanted, t, whole);
    }
}

void handle_build_v3(struct call *call, const json_t *body)
{
    const char *name = NULL;
    struct err err;
    int r = field_string(body, "name", &name, &err);

    if (r == 0 && !name) {
        r = field_string(body, "alias", &name, &err);
    }
    if (r < 0) {
        call_fail_err(call, r, &err);
    } else {
        handle_request(call, body, name, false);
    }
}

void handle_build_v2(struct call *call, const json_t *body)
{
    const char *name = NULL;
    struct err err;
    int r = field_string(body, "alias", &name, &err);

    if (r < 0) {
        call_fail_err(call, r, &err);
    } else {
        handle_request(call, body, name, true);
    }
}

/* ---- starting and stopping ---- */

/* {id} and {build id} of the path. False: it was answered. */
static bool call_build(struct call *call, struct build_info *out)
{
    if (!id_uuid_ok(str_of(call->param))) {
        call_fail(call, 400, "Invalid build id");
        return false;
    }
    const struct template *t = call_own_template(call, call->first);

    if (!t) {
        return false;
    }
    if (!build_find(call->api->options.builds, t->id, call->param, out)) {
        call_fail(call, 404, "Build '%s' not found", call->param);
        return false;
    }
    return true;
}

void handle_build_start(struct call *call, const json_t *body)
{
    struct build_info info;
    struct err err;

    if (!call_build(call, &info)) {
        return;
    }
    const struct amounts more = {.of = {
                                     [LIMIT_BUILDS] = 1,
                                     [LIMIT_CPUS] = info.cpu_count,
                                     [LIMIT_MEMORY_MB] = info.memory_mb,
                                     [LIMIT_DISK_MB] = info.disk_mb,
                                 }};
    if (info.state == BUILD_WAITING && !call_quota(call, &more)) {
        return;
    }
    build_trace(call->api->options.builds, info.template_id, info.id, &call->trace);
    int r = build_start(call->api->options.builds, info.template_id, info.id, body, &err);
    if (r < 0) {
        call_fail_err(call, r, &err);
    } else {
        usage_build(call);
        call_empty(call, 202);
    }
}

void handle_build_cancel(struct call *call, const json_t *body)
{
    struct build_info info;

    (void)body;
    if (!call_build(call, &info)) {
        return;
    }
    if (build_cancel(call->api->options.builds, info.template_id, info.id, "by request") < 0) {
        call_fail(call, 409, "Build '%s' has ended already", info.id);
    } else {
        call_empty(call, 204);
    }
}

/* ---- state and log of a build ---- */

static json_t *reason_json(const char *text)
{
    json_t *reason = json_loads(text, 0, NULL);

    if (reason) {
        (void)json_object_set_new(reason, "logEntries", json_array());
    }
    return reason;
}

struct telling {
    struct call *call;
    json_t *reply;
    const char *field; /* that the lines go into */
};

static void on_lines(void *ctx, int error, const struct err *err, const char *text)
{
    struct telling *telling = ctx;
    json_t *lines = error == 0 ? json_loads(text, 0, NULL) : NULL;

    if (error < 0) {
        json_decref(telling->reply);
        call_fail_err(telling->call, error, err);
    } else {
        (void)json_object_set_new(telling->reply, telling->field, lines ? lines : json_array());
        call_json(telling->call, 200, telling->reply);
    }
    free(telling);
}

static int level_parse(struct str query, int *level, struct err *err)
{
    scoped_buf(text, QUERY_VALUE_BYTES_MAX);
    enum log_level least = LOG_DEBUG;

    int r = query_text(query, "level", &text, err);
    if (r > 0) {
        r = buf_append(&text, "", 1) == 0 ? log_level_parse(buf_at(&text), &least) : -EINVAL;
        if (r < 0) {
            return err_set(err, EINVAL,
                           "validation error: level must be debug, info, warn or error");
        }
    }
    *level = (int)least;
    return r;
}

static int lines_parse(struct str query, struct build_log_query *out, struct err *err)
{
    int r = query_int(query, "limit", (struct int_range){0, STATUS_LINES_MAX}, &out->limit, err);

    if (r >= 0) {
        r = query_int(query, "logsOffset", (struct int_range){0, INT32_MAX}, &out->offset, err);
    }
    if (r >= 0) {
        r = level_parse(query, &out->level, err);
    }
    return r;
}

static void tell(struct call *call, json_t *reply, const char *field,
                 const struct build_log_query *lines)
{
    struct telling *telling = xnew(struct telling);

    *telling = (struct telling){call, reply, field};
    store_build_logs_list(call->api->options.store, lines, on_lines, telling);
}

/* The state is read before the lines: a client that is told of the end gets every line. */
void handle_build_status(struct call *call, const json_t *body)
{
    struct build_log_query lines = {.limit = STATUS_LINES_MAX};
    struct build_info info;
    struct err err;
    int r = lines_parse(http_request(call->ex)->query, &lines, &err);

    (void)body;
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    if (!call_build(call, &info)) {
        return;
    }
    json_t *reply = json_object();
    (void)json_object_set_new(reply, "templateID", json_string(info.template_id));
    (void)json_object_set_new(reply, "buildID", json_string(info.id));
    (void)json_object_set_new(reply, "status", json_string(build_state_name(info.state)));
    (void)json_object_set_new(reply, "logs", json_array());
    if (info.position) {
        (void)json_object_set_new(reply, "queuePosition", json_integer(info.position));
    }
    if (info.state == BUILD_ERROR && info.reason) {
        (void)json_object_set_new(reply, "reason", reason_json(info.reason));
    }
    lines.build_id = info.id;
    tell(call, reply, "logEntries", &lines);
}

void handle_build_logs(struct call *call, const json_t *body)
{
    struct build_log_query lines = {.limit = STATUS_LINES_MAX};
    struct str query = http_request(call->ex)->query;
    struct build_info info;
    scoped_buf(direction, QUERY_VALUE_BYTES_MAX);
    struct err err;

    (void)body;
    int r = lines_parse(query, &lines, &err);
    if (r >= 0) {
        r = query_text(query, "direction", &direction, &err);
        lines.backward = str_eq(buf_str(&direction), STR("backward"));
    }
    if (r < 0) {
        call_fail_err(call, r, &err);
    } else if (call_build(call, &info)) {
        lines.build_id = info.id;
        tell(call, json_object(), "logs", &lines);
    }
}
