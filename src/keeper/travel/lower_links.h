/* lower_links.h - hard links of a layer, of which a sandbox has written to one name.
 *
 * overlayfs copies such a file into upper/ under the name that was used. Its index in work/ says
 * that the other names mean the copy too. The index does not travel, so these names are sent as
 * links to the copy: without them they would show what the layer has.
 *
 * Owns:    nothing.
 * Needs:   the keeper's root; it makes a mount namespace of its own for a read-only mount.
 * Blocks:  for the disk. Looks at all names of the sandbox, but only if it has such a file.
 * Threads: one.
 */
#ifndef TRAVEL_LOWER_LINKS_H
#define TRAVEL_LOWER_LINKS_H

#include "keeper/disk/pool.h"
#include "keeper/travel/send.h"

/* After send_tree() of upper/. disk_fd is the disk of the save of that name. */
must_check int lower_links_send(struct send *send, struct pool *pool, int disk_fd,
                                const struct keeper_travel *what, struct err *err);

/* ---- parts that need no kernel, for tests ---- */

enum { LOWER_HANDLE_BYTES_MAX = 128 };
struct lower_handle { /* as open_by_handle_at() takes it */
    unsigned bytes;
    int type;
    unsigned char data[LOWER_HANDLE_BYTES_MAX];
};
/* The file of a layer that an entry of the index is named after. False: its name is no handle. */
bool lower_handle_of(const char *name, struct lower_handle *out);

#endif
