/* sandbox_env.h - the sandbox's own environment variables, asked of the agent, and whether this is
 * still the same sandbox.
 *
 * Owns:     the variables.
 * Needs:    a libuv loop.
 * Threads:  the loop's.
 * Blocks:   on reading the boot id, which is in memory.
 *
 * A sandbox may be a clone of another's memory: then its boot id is another than the one we
 * remember, its variables are asked for again, and every kernel draws new randomness before its
 * next cell. `generation` counts how often that happened.
 */
#ifndef INTERPRETER_SANDBOX_ENV_H
#define INTERPRETER_SANDBOX_ENV_H

#include <jansson.h>
#include <uv.h>

#include "lib/base/str.h"

struct sandbox_env;

/* on_known is called after every sandbox_env_ask() that returned false. */
struct sandbox_env *sandbox_env_new(uv_loop_t *loop, int agent_port, const char *boot_id_file,
                                    void (*on_known)(void *ctx), void *ctx);

/* True: they are known for this sandbox. False: they are being asked for; on_known comes later. */
bool sandbox_env_ask(struct sandbox_env *sandbox_env, struct str token);

/* Both start at 1: how many boots were seen, how often the variables were learned. */
uint64_t sandbox_env_boots(const struct sandbox_env *sandbox_env);
uint64_t sandbox_env_generation(const struct sandbox_env *sandbox_env);
json_t *sandbox_env_envs(const struct sandbox_env *sandbox_env); /* borrowed */
void sandbox_env_free(struct sandbox_env *sandbox_env);

#endif
