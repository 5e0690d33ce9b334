/* globals.h - the sandbox's own environment variables, asked of the agent, and whether this is
 * still the same sandbox.
 *
 * Owns:     the variables. Needs: a libuv loop. Threads: the loop's.
 * Blocks:   on reading the boot id, which is in memory.
 *
 * A sandbox may be a clone of another's memory: then its boot id is another than the one we
 * remember, its variables are asked for again, and every kernel draws new randomness before its
 * next cell. `generation` counts how often that happened.
 */
#ifndef INTERPRETER_GLOBALS_H
#define INTERPRETER_GLOBALS_H

#include <jansson.h>
#include <uv.h>

#include "lib/base/str.h"

struct globals;

/* on_known is called after every globals_ask() that returned false. */
struct globals *globals_new(uv_loop_t *loop, int agent_port, const char *boot_id_file,
                            void (*on_known)(void *ctx), void *ctx);

/* True: they are known for this sandbox. False: they are being asked for; on_known comes later. */
bool globals_ask(struct globals *globals, struct str token);

/* Both start at 1: how many boots were seen, how often the variables were learned. */
uint64_t globals_boots(const struct globals *globals);
uint64_t globals_generation(const struct globals *globals);
json_t *globals_envs(const struct globals *globals); /* borrowed */
void globals_free(struct globals *globals);

#endif
