/* entry.h - one line of a sandbox's log, as people read it. */
#ifndef CLI_ENTRY_H
#define CLI_ENTRY_H

#include <jansson.h>
#include <stdbool.h>

/* "2026-01-02T03:04:05.678Z info  Process 7 started  command="ls" user="user"". Text of a sandbox
 * cannot move the cursor: control characters are shown as '?'. */
void entry_print(const json_t *entry);

/* Its message alone, on a line. */
void entry_print_message(const json_t *entry);

/* The same for any text. */
void entry_put(const char *text);

/* Whether this can be the id of a sandbox: safe in a path. */
bool entry_id_ok(const char *id);

#endif
