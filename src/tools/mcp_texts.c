#include "tools/mcp_texts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/json.h"
#include "lib/mcp/jsonrpc.h"
#include "lib/mcp/stateless.h"

enum {
    LIST_TTL_MS = 3600 * 1000, /* the catalogue changes with the program alone */
    IMAGES_MAX = 16,
    IMAGE_NOTE_BYTES = 64,
    DEPTH_MAX = 16, /* of what is looked through for pictures */
};

/* ---- the server ---- */

static const char instructions[] =
    "Sandboxes are isolated Linux machines in which you can run commands and code, edit files, "
    "start servers and reach them by URL. ";
static const char instructions_of[][320] = {
    [SANDBOX_NONE] = "Begin with create_sandbox and give the sandbox_id that it returns to the "
                     "other tools; list_sandboxes finds those that exist. Kill a sandbox with "
                     "kill_sandbox when you are done with it.",
    [SANDBOX_NAMED] = "You have one already: leave sandbox_id out to use it. create_sandbox makes "
                      "others, whose sandbox_id you then give.",
    [SANDBOX_OWN] = "You need not create one: leave sandbox_id out, and tools use a sandbox of "
                    "this session, which is made at first use, keeps its files between calls, and "
                    "ends with the session. create_sandbox makes others, whose sandbox_id you then "
                    "give.",
};

static json_t *server_info(void)
{
    return json_pack("{s:s, s:s, s:s}", "name", "atoll", "title", "atoll sandboxes", "version",
                     ATOLL_VERSION);
}

static void server_describe(json_t *result, enum texts_sandbox sandbox)
{
    (void)json_object_set_new(result, "capabilities", json_pack("{s:{}}", "tools"));
    (void)json_object_set_new(result, "instructions",
                              json_sprintf("%s%s", instructions, instructions_of[(size_t)sandbox]));
}

json_t *texts_initialize(enum mcp_version version, enum texts_sandbox sandbox)
{
    json_t *result = json_object();

    (void)json_object_set_new(result, "protocolVersion", json_string(version_name(version)));
    (void)json_object_set_new(result, "serverInfo", server_info());
    server_describe(result, sandbox);
    return result;
}

json_t *texts_discover(enum texts_sandbox sandbox)
{
    json_t *result = json_object();

    (void)json_object_set_new(result, "supportedVersions", version_names());
    server_describe(result, sandbox);
    return result;
}

json_t *texts_result(enum mcp_version version, json_t *result)
{
    if (!version_is_stateless(version)) {
        return result;
    }
    bool may_be_kept =
        json_object_get(result, "tools") || json_object_get(result, "supportedVersions");
    stateless_result(result, server_info(), may_be_kept ? LIST_TTL_MS : -1);
    return result;
}

/* ---- its tools ---- */

static void sandbox_unrequire(json_t *schema)
{
    json_t *required = json_object_get(schema, "required");

    for (size_t i = json_array_size(required); i-- > 0;) {
        if (strcmp(json_string_value(json_array_get(required, i)), "sandbox_id") == 0) {
            (void)json_array_remove(required, i);
        }
    }
    if (json_array_size(required) == 0) {
        (void)json_object_del(schema, "required");
    }
}

/* Removes our own keywords, which some model providers refuse: they work without clients knowing
 * them. */
static void own_words_drop(json_t *schema)
{
    const char *name = NULL;
    json_t *value = NULL;
    void *next = NULL;

    json_object_foreach_safe(schema, next, name, value)
    {
        if (strncmp(name, "x-", 2) == 0) {
            (void)json_object_del(schema, name);
        } else if (json_is_object(value)) {
            own_words_drop(value);
        }
    }
}

/* The schema for clients that have a sandbox: they may leave its id out. */
static json_t *schema_tied(const json_t *input, enum texts_sandbox sandbox)
{
    json_t *schema = json_deep_copy(input);
    json_t *field = json_object_get(json_object_get(schema, "properties"), "sandbox_id");
    const char *before = json_string_of(field, "description");

    sandbox_unrequire(schema);
    (void)json_object_set_new(
        field, "description",
        json_sprintf("%s%sLeft out: %s", before ? before : "", before ? " " : "",
                     sandbox == SANDBOX_OWN
                         ? "the sandbox of this session, which is made when it is first needed."
                         : "the sandbox that this connection is bound to."));
    return schema;
}

json_t *texts_tool(const struct tool *tool, const json_t *input, const json_t *output,
                   enum texts_sandbox sandbox)
{
    bool tied = sandbox != SANDBOX_NONE && schema_requires(input, "sandbox_id");
    json_t *schema = tied ? schema_tied(input, sandbox) : json_deep_copy(input);
    json_t *annotations =
        json_pack("{s:s, s:b}", "title", tool->title, "readOnlyHint", (int)tool->reads_only);

    own_words_drop(schema);
    if (!tool->reads_only) {
        (void)json_object_set_new(annotations, "destructiveHint", json_boolean(tool->destroys));
    }
    return json_pack("{s:s, s:s, s:s, s:o, s:O, s:o}", "name", tool->name, "title", tool->title,
                     "description", tool->description, "inputSchema", schema, "outputSchema",
                     json_unconst(output), "annotations", annotations);
}

int texts_page(const char *cursor, const char *(*name)(size_t i), size_t n, size_t page,
               size_t *end, struct err *err)
{
    size_t begin = 0;

    while (cursor && begin < n && strcmp(name(begin), cursor) != 0) {
        begin++;
    }
    if (cursor && begin == n) {
        return err_set(err, EINVAL, "params.cursor: '%.64s' is none that tools/list gave", cursor);
    }
    *end = n - begin < page ? n : begin + page;
    return (int)begin;
}

/* ---- results ---- */

struct images {
    json_t *content; /* the list that they are added to */
    size_t n;
};

static const char *image_type(const char *base64)
{
    if (strncmp(base64, "iVBORw0KGgo", 11) == 0) {
        return "image/png";
    }
    return strncmp(base64, "/9j/", 4) == 0 ? "image/jpeg" : NULL;
}

static bool is_image_name(const char *name)
{
    return strcmp(name, "png") == 0 || strcmp(name, "jpeg") == 0;
}

static void image_take(struct images *images, json_t *text)
{
    const char *type = image_type(json_string_value(text));
    char note[IMAGE_NOTE_BYTES];

    if (!type || images->n == IMAGES_MAX) {
        return;
    }
    images->n++;
    (void)json_array_append_new(images->content,
                                json_pack("{s:s, s:s, s:s}", "type", "image", "data",
                                          json_string_value(text), "mimeType", type));
    (void)snprintf(note, sizeof(note), "[picture %zu of this result]", images->n);
    (void)json_string_set(text, note);
}

static void images_take(struct images *images, json_t *value, int depth)
{
    json_t *member;
    const char *name;
    size_t i;

    if (depth == DEPTH_MAX) {
        return;
    }
    json_array_foreach (value, i, member) {
        images_take(images, member, depth + 1);
    }
    json_object_foreach (value, name, member) {
        if (json_is_string(member) && is_image_name(name)) {
            image_take(images, member);
        } else {
            images_take(images, member, depth + 1);
        }
    }
}

/* Takes the text over. */
static json_t *text_content(json_t *text)
{
    return json_pack("{s:s, s:o}", "type", "text", "text", text);
}

json_t *texts_content(const json_t *out)
{
    json_t *structured = json_deep_copy(out);
    struct images images = {.content = json_array()};

    images_take(&images, structured, 0);
    char *text = json_dumps(structured, JSON_COMPACT);
    (void)json_array_insert_new(images.content, 0, text_content(json_string(text ? text : "{}")));
    free(text);
    return json_pack("{s:o, s:o, s:b}", "content", images.content, "structuredContent", structured,
                     "isError", 0);
}

json_t *texts_failure(const char *sentence)
{
    return json_pack("{s:[o], s:b}", "content", text_content(json_sentence(sentence)), "isError",
                     1);
}
