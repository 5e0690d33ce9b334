/* tool_input.h - a word of the command line becomes a part of a tool's input. */
#ifndef CLI_TOOL_INPUT_H
#define CLI_TOOL_INPUT_H

#include <jansson.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

enum { TOOL_INPUT_BYTES_MAX = 48 * 1024 * 1024 }; /* of a file; as much as the daemon takes */

/* FIELD=VALUE, FIELD=@FILE, FIELD:=JSON, FIELD.NAME=VALUE or @FILE. The schema tells which values
 * are texts; the daemon finds all other errors. */
must_check int tool_input_take(json_t *input, const json_t *schema, const char *word,
                               struct err *err);

#endif
