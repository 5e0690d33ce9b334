/* Tags: names for builds of one template, in the style of "name:tag". */
#include <errno.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "serve/api/internal.h"
#include "serve/template/name.h"

/* Answers when the last of several changes is on record. */
struct tagging {
    struct call *call;
    json_t *reply; /* NULL: 204 */
    size_t left;
    int error;
    struct err err;
};

static void on_tagged(void *ctx, int error, const struct err *err)
{
    struct tagging *tagging = ctx;

    if (error < 0) {
        tagging->error = error;
        tagging->err = *err;
    }
    if (--tagging->left > 0) {
        return;
    }
    if (tagging->error) {
        json_decref(tagging->reply);
        call_fail_err(tagging->call, tagging->error, &tagging->err);
    } else if (tagging->reply) {
        call_json(tagging->call, 201, tagging->reply);
    } else {
        call_empty(tagging->call, 204);
    }
    free(tagging);
}

/* The tags of the body, each checked. */
static int tags_read(const json_t *body, const json_t **out, struct err *err)
{
    char tag[TEMPLATE_NAME_MAX + 1];
    int r = field_array(body, "tags", out, err);

    if (r == 0 && json_array_size(*out) == 0) {
        r = err_set(err, EINVAL, "At least one tag is required");
    }
    if (r == 0 && json_array_size(*out) > BUILD_TAGS_MAX) {
        r = err_set(err, EINVAL, "Invalid tag: at most %d at a time", BUILD_TAGS_MAX);
    }
    for (size_t i = 0; r == 0 && i < json_array_size(*out); i++) {
        const json_t *text = json_array_get(*out, i);
        struct str given = {json_string_value(text), json_string_length(text)};
        if (!json_is_string(text) || !template_tag_parse(given, tag)) {
            r = err_set(err, EINVAL, "Invalid tag: '%.*s' is not of a-z 0-9 - _ . or is a UUID",
                        (int)(given.len < 64 ? given.len : 64), given.at ? given.at : "");
        }
    }
    return r;
}

static void tag_at(const json_t *tags, size_t i, char out[TEMPLATE_NAME_MAX + 1])
{
    (void)template_tag_parse(str_of(json_string_value(json_array_get(tags, i))), out);
}

static struct tagging *tagging_new(struct call *call, json_t *reply)
{
    struct tagging *tagging = xnew(struct tagging);

    *tagging = (struct tagging){.call = call, .reply = reply, .left = 1};
    return tagging;
}

static const struct err none;

static void assign(struct call *call, const struct template *t, const json_t *tags)
{
    json_t *names = json_array();
    json_t *reply = json_pack("{ssso}", "buildID", t->build_id, "tags", names);
    struct tagging *tagging = tagging_new(call, reply);
    char template_id[ID_TEMPLATE_LEN + 1] = "", build_id[ID_UUID_LEN + 1] = "";
    char tag[TEMPLATE_NAME_MAX + 1];

    (void)str_copy(template_id, sizeof(template_id), str_of(t->id));
    (void)str_copy(build_id, sizeof(build_id), str_of(t->build_id));
    for (size_t i = 0; i < json_array_size(tags); i++) {
        tag_at(tags, i, tag);
        (void)json_array_append_new(names, json_string(tag));
        tagging->left++;
        if (build_tag(call->api->options.builds, template_id, build_id, tag, on_tagged, tagging) <
            0) {
            struct err err;
            (void)err_set(&err, ENOENT, "Build '%s' cannot be tagged", build_id);
            on_tagged(tagging, -ENOENT, &err);
        }
    }
    on_tagged(tagging, 0, &none);
}

void handle_tags_assign(struct call *call, const json_t *body)
{
    const char *target = NULL;
    const json_t *tags = NULL;
    struct template_name name;
    struct err err;
    int why = 0;
    int r = field_string(body, "target", &target, &err);

    if (r == 0 && (!target || template_name_parse(str_of(target), &name) < 0)) {
        r = err_set(&err, EINVAL, "Invalid target template format: '%.128s'", target ? target : "");
    }
    if (r == 0) {
        r = tags_read(body, &tags, &err);
    }
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    if (!call_own_template(call, target)) {
        return;
    }
    const struct template *t =
        templates_find(call->api->options.templates, call->team->id, str_of(target), &why);
    if (!t) {
        call_fail(call, 404, "Template '%s' with tag '%s' not found", target, name.tag);
    } else {
        assign(call, t, tags);
    }
}

static int default_refuse(const json_t *tags, struct err *err)
{
    char tag[TEMPLATE_NAME_MAX + 1];

    for (size_t i = 0; i < json_array_size(tags); i++) {
        tag_at(tags, i, tag);
        if (strcmp(tag, TEMPLATE_TAG_DEFAULT) == 0) {
            return err_set(err, EINVAL, "Cannot delete the '" TEMPLATE_TAG_DEFAULT "' tag");
        }
    }
    return 0;
}

/* Tags that are not there are gone already. */
void handle_tags_remove(struct call *call, const json_t *body)
{
    const char *name = NULL;
    const json_t *tags = NULL;
    char tag[TEMPLATE_NAME_MAX + 1];
    struct err err;
    int r = field_string(body, "name", &name, &err);

    if (r == 0 && !name) {
        r = err_set(&err, EINVAL, "Invalid template name format: it is missing");
    }
    if (r == 0 && name && strchr(name, ':')) {
        r = err_set(&err, EINVAL,
                    "Template name should not contain a tag, use the 'tags' field instead");
    }
    if (r == 0) {
        r = tags_read(body, &tags, &err);
    }
    if (r == 0) {
        r = default_refuse(tags, &err);
    }
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    const struct template *t = call_own_template(call, name);
    if (!t) {
        return;
    }
    struct tagging *tagging = tagging_new(call, NULL);
    for (size_t i = 0; i < json_array_size(tags); i++) {
        tag_at(tags, i, tag);
        tagging->left++;
        if (templates_untag(call->api->options.templates, t->id, tag, on_tagged, tagging) < 0) {
            tagging->left--;
        }
    }
    on_tagged(tagging, 0, &none);
}

static void append(void *ctx, const char *tag, const struct template *t, int64_t created_ms)
{
    json_t *row = json_object();

    (void)json_object_set_new(row, "tag", json_string(tag));
    (void)json_object_set_new(row, "buildID", json_string(t->build_id));
    (void)json_object_set_new(row, "createdAt", stamp_json(created_ms));
    (void)json_array_append_new(ctx, row);
}

void handle_tags(struct call *call, const json_t *body)
{
    const struct template *t = call_own_template(call, call->param);

    (void)body;
    if (t) {
        json_t *rows = json_array();
        templates_each_tag(call->api->options.templates, t->id, append, rows);
        call_json(call, 200, rows);
    }
}
