/* for_tools.h - between the routes for atoll-tools (for_tools.c) and the search for secrets
 * (guard_team_secrets.c). */
#ifndef API_FOR_TOOLS_H
#define API_FOR_TOOLS_H

#include <jansson.h>

enum {
    FOR_TOOLS_KEYS_BYTES_MAX = 48 * 1024, /* of all variables of one sandbox, as JSON */
};

struct call;

/* The records of variables that tools gave to sandboxes, opened: an array of
 * {"vars", "secret", "byCommand"}, the caller's. rows_text is what store_sandbox_keys_list() gave.
 */
json_t *for_tools_records(const struct call *call, const char *rows_text);

#endif
