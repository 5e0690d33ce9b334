/* reply.h - common parts of the answers of many tools.
 *
 * Pure.
 */
#ifndef TOOLS_REPLY_H
#define TOOLS_REPLY_H

#include <jansson.h>

#include "tools/remote.h"

/* {"sandbox_id", "expires_at"}. */
json_t *reply_new(const struct remote_sandbox *sandbox);

/* How each port is reached from outside: an array as the catalogue's `urls`. */
json_t *reply_urls(const struct remote_sandbox *sandbox, const json_t *ports);

/* Copies a field under another name, if it is there. */
void field_copy(json_t *to, const char *name, const json_t *from, const char *field);

/* Adds a sentence to the field `note`. */
void reply_note(json_t *reply, const char *fmt, ...) printf_like(2, 3);

/* stdout, stderr, exit_code, duration_ms, timed_out, truncated, success. */
void reply_result(json_t *reply, const struct remote_result *result);

#endif
