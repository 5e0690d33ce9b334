/* mcp_texts.h - the texts of the MCP server: about itself, its tools and their results. Pure. */
#ifndef TOOLS_MCP_TEXTS_H
#define TOOLS_MCP_TEXTS_H

#include <jansson.h>
#include <stdbool.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/mcp/version.h"
#include "tools/tool.h"

/* The sandbox that is used when sandbox_id is left out. */
enum texts_sandbox { SANDBOX_NONE, SANDBOX_NAMED, SANDBOX_OWN };

/* Results are the caller's, and go through texts_result() before they are sent. */
json_t *texts_initialize(enum mcp_version version, enum texts_sandbox sandbox);
json_t *texts_discover(enum texts_sandbox sandbox);

/* A tool as it is listed. Schemas are borrowed. */
json_t *texts_tool(const struct tool *tool, const json_t *input, const json_t *output,
                   enum texts_sandbox sandbox);

/* The index among n names at which the page of that cursor begins (NULL: the first page), and in
 * *end one past its last. -EINVAL: no page began or ended there. */
must_check int texts_page(const char *cursor, const char *(*name)(size_t i), size_t n, size_t page,
                          size_t *end, struct err *err);

/* The result of tools/call. Pictures become content of their own and are replaced by a word: a
 * model would read them as text. */
json_t *texts_content(const json_t *out);
json_t *texts_failure(const char *sentence);

/* Adds the fields that every result of that revision has; takes the result over and returns it. */
json_t *texts_result(enum mcp_version version, json_t *result);

#endif
