/* answer.h - answers of the keeper, and the requests that are done when they are answered.
 *
 * Owns:    nothing. Blocks for the disk, briefly. One thread.
 */
#ifndef KEEPER_ANSWER_H
#define KEEPER_ANSWER_H

#include "keeper/jail/jail.h"
#include "wire/keeper.h"

/* `err` may be NULL with a status that is no failure. */
struct keeper_answer answer_to(const struct keeper_request *req, int status, const struct err *err);

void answer_status(struct jail_shared *shared, struct keeper_status *out);

/* FORGET, USAGE, USAGE_MANY and VOLUME_*, which has been checked. */
struct keeper_answer answer_at_once(struct jail_shared *shared, const struct keeper_request *req);

#endif
