/* openapi.c - the catalogue as an OpenAPI 3.1 document, in the form that builders import: one
 * operation for each tool, named as the tool is, and one for code in a single call. */
#include <string.h>

#include "tools/catalogue/execute.h"
#include "tools/execute.h"
#include "tools/internal.h"

enum {
    DESCRIPTION_BYTES_MAX = 300, /* of an operation: ChatGPT actions refuse more */
};

static json_t *described(const char *description)
{
    return json_pack("{ss}", "description", description);
}

/* As many whole sentences as fit; the first sentence of each description says the essential. */
static json_t *sentences(const char *text)
{
    size_t len = strlen(text), end = 0;

    for (size_t i = 0; i < len && i < DESCRIPTION_BYTES_MAX; i++) {
        if (text[i] == '.' && (text[i + 1] == ' ' || text[i + 1] == '\0')) {
            end = i + 1;
        }
    }
    return json_stringn(text, end ? end : len);
}

static json_t *json_content(json_t *schema)
{
    return json_pack("{s{so}}", "application/json", "schema", schema);
}

static json_t *error_response(const char *description)
{
    json_t *response = described(description);
    json_t *schema = json_pack("{ss}", "$ref", "#/components/schemas/Error");

    (void)json_object_set_new(response, "content", json_content(schema));
    return response;
}

static json_t *responses(const struct tool *tool, json_t *output)
{
    static const struct {
        const char *status, *description;
    } failures[] = {
        {"400", "The input is wrong: the message begins with the path of what is."},
        {"401", "There is no API key, or it is not one."},
        {"404", "What the input names does not exist, or is another team's."},
        {"500", "It failed: the message says why."},
        {"502", "The sandbox went away or gave no answer that can be read."},
    };
    json_t *out = json_object();
    json_t *good = described(tool->title);

    (void)json_object_set_new(good, "content", json_content(output));
    (void)json_object_set_new(out, "200", good);
    for (size_t i = 0; i < countof(failures); i++) {
        (void)json_object_set_new(out, failures[i].status, error_response(failures[i].description));
    }
    return out;
}

/* The schemas are taken over. */
static json_t *operation(const struct tool *tool, json_t *input, json_t *output)
{
    json_t *body = json_pack("{sb so}", "required", 1, "content", json_content(input));
    json_t *out = json_pack("{ss ss so s[s] so so}", "operationId", tool->name, "summary",
                            tool->title, "description", sentences(tool->description), "tags",
                            tool->group, "requestBody", body, "responses", responses(tool, output));

    /* A tool that only reads needs no confirmation by the user. */
    (void)json_object_set_new(out, "x-openai-isConsequential", json_boolean(!tool->reads_only));
    return json_pack("{so}", "post", out);
}

static json_t *components(void)
{
    return json_pack("{s{s{ss s[ss] s{s{ss ss} s{ss ss}}}} s{s{ss ss ss ss} s{ss ss ss}}}",
                     "schemas", "Error", "type", "object", "required", "code", "message",
                     "properties", "code", "type", "integer", "description", "The HTTP status.",
                     "message", "type", "string", "description", "One sentence: what is wrong.",
                     "securitySchemes", "apiKey", "type", "apiKey", "in", "header", "name",
                     "X-API-Key", "description", "The team's API key, e2b_...", "bearer", "type",
                     "http", "scheme", "bearer", "description", "The same key as a bearer token.");
}

static json_t *tags(void)
{
    json_t *out = json_array();
    const char *last = "";

    for (size_t i = 0; i < tools_catalogue_n; i++) {
        if (strcmp(tools_catalogue[i].group, last) != 0) {
            last = tools_catalogue[i].group;
            (void)json_array_append_new(out, json_pack("{ss}", "name", last));
        }
    }
    return out;
}

static json_t *information(void)
{
    return json_pack("{ss ss ss s{ss ss}}", "title", "atoll tools", "version", ATOLL_VERSION,
                     "description",
                     "Tools for sandboxes: create one, run commands and code in it, read and write "
                     "its files, pause it and end it.",
                     "license", "name", "Apache-2.0", "identifier", "Apache-2.0");
}

json_t *openapi_document(const struct tools *tools, const char *url)
{
    json_t *paths = json_object();

    for (size_t i = 0; i < tools_catalogue_n; i++) {
        const struct tool *tool = &tools_catalogue[i];
        char path[128];

        (void)snprintf(path, sizeof(path), "/tools/%s", tool->name);
        (void)json_object_set_new(paths, path,
                                  operation(tool, json_deep_copy(tools_input(tools, tool)),
                                            json_deep_copy(tools_output(tools, tool))));
    }
    (void)json_object_set_new(paths, EXECUTE_PATH,
                              operation(&tools_execute, json_loads(tools_execute.input, 0, NULL),
                                        json_loads(tools_execute.output, 0, NULL)));
    return json_pack("{ss so s[{ss}] s[{s[]}{s[]}] so so so}", "openapi", "3.1.0", "info",
                     information(), "servers", "url", url, "security", "apiKey", "bearer", "tags",
                     tags(), "paths", paths, "components", components());
}
