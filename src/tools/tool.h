/* tool.h - a tool of the catalogue.
 *
 * Each is declared once, in catalogue/NAME.json: name, title, description, and the JSON Schemas of
 * its input and its output. The build turns these files into the table below, in the order of
 * catalogue/meson.build, and binds each to its handler tool_NAME(), whose file includes
 * "tools/catalogue/handlers.h", which the build makes too. The REST route, the OpenAPI
 * document, the MCP listing, the command line and docs/TOOLS.md are made of the same table.
 *
 * An input takes no other fields than its properties, unless its schema says additionalProperties.
 * Inputs have been checked against the schema, and defaults filled in, before a handler sees them:
 * it reads fields without asking for their type. A field without a default may be missing.
 */
#ifndef TOOLS_TOOL_H
#define TOOLS_TOOL_H

#include <jansson.h>
#include <stddef.h>

#include "lib/base/err.h"
#include "lib/base/str.h"

struct tool_call; /* tools/call.h */

/* Runs in a fiber. 0 with *out, an object that fits the output's schema and is the caller's from
 * then on; or -errno and the sentence. A command that ran and failed is an answer, not an error. */
typedef int tool_run(struct tool_call *call, const json_t *input, json_t **out, struct err *err);

struct tool {
    const char *name;
    const char *group;       /* "Files": a heading of the documentation, a tag of OpenAPI */
    const char *title;       /* for people */
    const char *description; /* for a model that chooses */
    const char *input;       /* JSON Schema, of an object */
    const char *output;
    bool reads_only; /* changes nothing: what MCP calls readOnlyHint */
    bool destroys;   /* destructiveHint */
    tool_run *run;
};

extern const struct tool tools_catalogue[];
extern const size_t tools_catalogue_n;

/* NULL: there is none of that name. */
const struct tool *tool_find(struct str name);

/* Whether the schema of an object says that this property must be there. */
bool schema_requires(const json_t *schema, const char *name);

/* The property with this name, or with this other name ("x-names"); NULL: there is none. */
const json_t *schema_property(const json_t *schema, const char *name);

#endif
