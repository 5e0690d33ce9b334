/* den.h - where CRIU works: a mount namespace of its own with the host's programs, and below /run
 * what a saved jail is made from.
 *
 *   /run/root      a restored jail's root filesystem
 *   /run/parts/    what every jail has mounted from the keeper: devices, /sys, the agent
 *   /run/volumes/  its volumes, by their place in the plan
 *   /run/saved     the images, read-only
 *   /run/changed/  those images that are to be different for this jail
 *   /run/images    both, the changed ones on top
 *   /run/work/     CRIU's log
 *   /tmp/          empty, for CRIU
 *
 * CRIU is told of the parts by name ("external" mounts): it leaves them out of the images and finds
 * them here again.
 *
 * Owns:    the namespace, which ends with the process. Entered once, and not left.
 * Needs:   stage.h entered, CAP_SYS_ADMIN, one thread.
 */
#ifndef KEEPER_DEN_H
#define KEEPER_DEN_H

#include <stddef.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "base/err.h"
#include "keeper/keeper.h"
#include "keeper/pool.h"

#define DEN_ROOT "/run/root"

enum { DEN_EXTERNALS_MAX = 24 + KEEPER_VOLUMES_MAX };

/* What a jail is restored from: detached mounts, which become the den's. -1 for none. */
struct den_parts {
    int root;
    int agent;
    int saved;
    int volumes[KEEPER_VOLUMES_MAX];
};

struct den {
    int stage_fd;   /* the keeper's root, which outlives this */
    int changed_fd; /* /run/changed */
    int work_fd;    /* /run/work */
};

must_check int den_enter(const struct pool *pool, struct den_parts *parts, struct den *out,
                         struct err *err);

/* Keeps what CRIU found out about this kernel, when it did so here, for the next den: some 80 ms.
 */
void den_remember(const struct den *den);

/* Puts the images together, once those that are changed lie there. Returns their directory. It is
 * one mount, since CRIU goes on reading when it has left this namespace: a link would lead astray.
 */
must_check int den_images(struct err *err);

/* CRIU's words for the parts: of the jail whose first process that is, when it is dumped, and when
 * one is restored with that plan. For free() each. */
size_t den_externals_dumped(pid_t first, char *out[DEN_EXTERNALS_MAX]);
size_t den_externals_restored(const struct keeper_plan *plan, char *out[DEN_EXTERNALS_MAX]);

/* ---- parts that need no kernel, for tests ---- */

/* Calls each with the place of every mount of a volume in the text of a jail's mountinfo. */
void den_volumes_each(const char *mountinfo, void (*each)(void *ctx, const char *path), void *ctx);

#endif
