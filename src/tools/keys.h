/* keys.h - the variables that tools gave to a sandbox when they made it.
 *
 * The daemon keeps them on record, sealed under its key, for two reasons: those that are not to lie
 * in the sandbox are given to each command that tools run there, and what leaves a sandbox is
 * searched for those that are keys. A record goes with its sandbox; copies of the sandbox have it
 * too.
 *
 * Needs:    the daemon's internal routes.
 * Blocks:   the fiber.
 * Threads:  the loop's.
 */
#ifndef TOOLS_KEYS_H
#define TOOLS_KEYS_H

#include <jansson.h>
#include <stdbool.h>

#include "lib/guard/guard.h"
#include "tools/call.h"

/* Where variables come from, the strongest first. */
struct keys_layers {
    const json_t *own;  /* from a tool's own parameters: object of strings */
    const json_t *envs; /* the parameter envs; NULL: none */
    bool stored;        /* also secrets of the team whose metadata names one: {"env": "NAME"} */
};

/* All layers in one object of strings, and an object with the names of those that are keys: secrets
 * of the team, and what is called a key, token, secret, password or credential. Both are the
 * caller's. */
must_check int keys_merge(struct tool_call *call, const struct keys_layers *layers, json_t **vars,
                          json_t **secret_names, struct err *err);

/* Puts them on record. by_command: they are not in the sandbox, and keys_env() has them. */
must_check int keys_record(struct tool_call *call, const char *sandbox_id, const json_t *vars,
                           const json_t *secret_names, bool by_command, struct err *err);

/* The variables for a command in the sandbox: those that are not in the sandbox itself, overridden
 * by `envs` (may be NULL). *out is the caller's; an empty object when there are none. */
must_check int keys_env(struct tool_call *call, const char *sandbox_id, const json_t *envs,
                        json_t **out, struct err *err);

/* A guard, ready for use, of the keys given to that sandbox and of those in `env` (may be NULL):
 * for the output of a program that had them. *out is the caller's. */
must_check int keys_guard(struct tool_call *call, const char *sandbox_id, const json_t *env,
                          struct guard **out, struct err *err);

#endif
