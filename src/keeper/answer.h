/* answer.h - makes answers, and carries out requests that are done before they are answered.
 *
 * Owns:    nothing.
 * Blocks:  for the disk, briefly.
 * Threads: one.
 */
#ifndef KEEPER_ANSWER_H
#define KEEPER_ANSWER_H

#include "keeper/jail/jail.h"
#include "wire/keeper.h"

/* `err` may be NULL when status is not a failure. */
struct keeper_answer answer_to(const struct keeper_request *req, int status, const struct err *err);

void answer_status(struct jail_shared *shared, struct keeper_status *out);

/* For FORGET, USAGE, USAGE_MANY and VOLUME_*. The request has been checked. */
struct keeper_answer answer_at_once(struct jail_shared *shared, const struct keeper_request *req);

#endif
