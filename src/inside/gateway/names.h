/* names.h - the gateway's names for the tools, prompts and resources of servers.
 *
 * A tool, a prompt or a resource of the server `prefix` is called "<prefix>-<name>". Addresses of
 * resources are not changed, because clients read by them.
 */
#ifndef GATEWAY_NAMES_H
#define GATEWAY_NAMES_H

#include <jansson.h>
#include <stdbool.h>

/* Appends the items to `out`, each as a copy under its new name. */
void names_add(json_t *out, const json_t *items, const char *prefix);

/* The server's own name for what clients call `name`; NULL when the prefix is not its. */
const char *names_own(const char *name, const char *prefix);

/* Whether one of the items has this value under the key. */
bool names_has(const json_t *items, const char *key, const char *value);

/* Whether an address is one of a template's: "demo://{id}/text". An expression takes any text. */
bool names_match(const char *pattern, const char *address);

#endif
