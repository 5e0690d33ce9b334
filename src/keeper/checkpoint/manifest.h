/* manifest.h - what is kept beside the images so that they can be used later: where they were made,
 * and the agent they belong to.
 *
 * Owns:    <pool>/agent and <pool>/agents. Blocks for the disk.
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

struct manifest {
    char id[KEEPER_ID_BYTES]; /* whose processes these were */
    char machine[66];         /* as uname() has it */
    char release[66];
    int criu_version;
    char cpu[1024]; /* features of the processor that programs may have found and use */
    char agent[SHA256_HEX_LEN + 1]; /* of its bytes; "" when that was not known */
    int channel;                    /* the version that it speaks */
};

/* `agent` may be "". */
must_check int manifest_write(int memory_fd, const char *id, const struct criu_program *criu,
                              const char *agent, int channel, struct err *err);
/* Reads it, and says whether this machine can go on with it: -ENOTSUP with a sentence if not. */
must_check int manifest_read(int memory_fd, const struct criu_program *criu, struct manifest *out,
                             struct err *err);

/* Keeps the agent of this keeper in the pool, and says what its hash is. */
must_check int manifest_agent_keep(struct pool *pool, const char *agent_path,
                                   char hash[SHA256_HEX_LEN + 1], struct err *err);
/* Whether the program `in` is that one; then `out` has its bytes, without a copy. */
bool manifest_agent_same(struct pool *pool, int keeper_root_fd, int in, int out);

enum { MANIFEST_PATH_BYTES = 160 };
/* Where on the keeper's root the agent lies that belongs to these images: never beside them, since
 * a jail that was restored outlives them. Its bytes are read only if its hash is not `own_hash`. */
must_check int manifest_agent_place(struct pool *pool, const struct manifest *manifest,
                                    const char *own_hash, int memory_fd,
                                    char path[MANIFEST_PATH_BYTES], struct err *err);

/* Removes from the pool's agents whatever is not named by its own hash: halves, and what is longer
 * than an agent may be. For the start, when nobody else is at work. */
void manifest_agents_sweep(struct pool *pool);

/* ---- parts that need no kernel, for tests ---- */

/* The first word of `had` that `has` lacks, as a pointer into `had`, or NULL. */
const char *manifest_lacking(const char *had, const char *has);

#endif
