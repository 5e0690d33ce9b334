/* den.h - where CRIU works: a mount namespace of its own with the host's programs, and below /run
 * what a saved jail is made from.
 *
 *   /run/root      a restored jail's root filesystem
 *   /run/parts/    what every jail has mounted from the keeper: devices, /sys, the agent
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

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/err.h"
#include "keeper/pool.h"

#define DEN_ROOT "/run/root"

enum { DEN_EXTERNALS_MAX = 32 };

/* What a jail is restored from: detached mounts, which become the den's. -1 for none. */
struct den_parts {
    int root;
    int agent;
    int saved;
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

/* CRIU's words for the parts: when a jail is dumped, and when it is restored. For free() each. */
size_t den_externals(bool restore, char *out[DEN_EXTERNALS_MAX]);

#endif
