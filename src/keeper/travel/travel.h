/* travel.h - carries out KEEPER_EXPORT and KEEPER_IMPORT, in processes of their own (task.h).
 *
 * docs/internals/travel.md has the design, wire/travel.h the messages on the socket.
 *
 * Owns:    DATA/export.key, which the first export makes.
 * Blocks:  until all is sent or received; at most TRAVEL_STALL_MS for the other side.
 * Threads: one.
 */
#ifndef TRAVEL_TRAVEL_H
#define TRAVEL_TRAVEL_H

#include "keeper/jail/jail.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "wire/keeper.h"

/* Both tell the outcome on the socket as well. */
must_check int travel_export(struct jail_shared *shared, const struct keeper_travel *what,
                             int socket, struct err *err);
/* After a failure nothing is saved under the name. */
must_check int travel_import(struct jail_shared *shared, const struct keeper_travel *what,
                             int socket, struct err *err);

#endif
