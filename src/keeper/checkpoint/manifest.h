/* manifest.h - the manifest of a checkpoint: where it was made, and with which agent.
 *
 * Owns:    <pool>/agent and <pool>/agents; the file `about` beside the images.
 * Blocks:  for the disk.
 * Threads: one.
 */
#ifndef CHECKPOINT_MANIFEST_H
#define CHECKPOINT_MANIFEST_H

#include <stdbool.h>
#include <sys/types.h>

#include "keeper/checkpoint/criu.h"
#include "keeper/disk/pool.h"
#include "lib/base/compiler.h"
#include "lib/base/encode.h"
#include "lib/base/err.h"
#include "wire/keeper.h"

#define MANIFEST_AGENT "agent"
#define MANIFEST_FILE "about"

struct manifest {
    char id[KEEPER_ID_BYTES]; /* of the jail that was saved */
    char machine[66];         /* from uname() */
    char release[66];
    int criu_version;
    char cpu[1024];                 /* processor features that programs may have found and use */
    char agent[SHA256_HEX_LEN + 1]; /* hash of its bytes; "" when unknown */
    int channel;                    /* version of the channel that it speaks */
};

/* `agent` may be "". */
must_check int manifest_write(int memory_fd, const char *id, const struct criu_program *criu,
                              const char *agent, int channel, struct err *err);
/* Reads it, and checks that this machine can restore it: -ENOTSUP with a sentence if not. */
must_check int manifest_read(int memory_fd, const struct criu_program *criu, struct manifest *out,
                             struct err *err);

/* The same for the text of one that is not on this machine yet. */
must_check int manifest_fits(const char *text, const struct criu_program *criu, struct err *err);
/* Whether a text describes images, and not a disk alone. */
bool manifest_has_memory(const char *text);
/* Whether it was written on that kind of machine: -ENOTSUP with a sentence if not. */
must_check int manifest_machine_fits(const char *text, const char *machine, struct err *err);

/* Stores the agent of this keeper in the pool, and returns its hash. */
must_check int manifest_agent_keep(struct pool *pool, const char *agent_path,
                                   char hash[SHA256_HEX_LEN + 1], struct err *err);
/* Whether the program `in` is that agent. If so, `out` gets its bytes without a copy. */
bool manifest_agent_same(struct pool *pool, int keeper_root_fd, int in, int out);

enum { MANIFEST_PATH_BYTES = 160 };
/* The path below the keeper's root of the agent that belongs to the images. It is never beside the
 * images, because a restored jail outlives them. Its bytes are read only if its hash is not
 * `own_hash`. */
must_check int manifest_agent_place(struct pool *pool, const struct manifest *manifest,
                                    const char *own_hash, int memory_fd,
                                    char path[MANIFEST_PATH_BYTES], struct err *err);

/* Removes files of <pool>/agents that are not named by their hash: incomplete ones, and files
 * longer than an agent may be. Called at the start, when no one else uses them. */
void manifest_agents_sweep(struct pool *pool);

/* ---- parts that need no kernel, for tests ---- */

/* The first word of `had` that is not in `has`, as a pointer into `had`, or NULL. */
const char *manifest_lacking(const char *had, const char *has);

#endif
