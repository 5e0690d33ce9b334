/* alone.h - forks of a jail that holds nothing but its agent.
 *
 * A fork of such a jail is a new jail with a new agent on a copy of the disk, without CRIU
 * (docs/internals/memory.md). The agent is asked whether it would be missed: alone_is(). The keeper
 * asks the kernel about everything else. The files that the source had in memory, and those on its
 * disk if they are few, come to the new agent over the channel.
 *
 * Owns:     nothing.
 * Blocks:   alone_files_take(), while it writes files.
 * Threads:  the loop's.
 */
#ifndef AGENT_ALONE_H
#define AGENT_ALONE_H

#include "inside/agent/internal.h"

/* Notes what processes inherit from the agent, before anybody in the jail can change it. */
void alone_begin(struct agent *agent);

/* True when a new agent, told by /init who it is, would be no different: no process whose end
 * nobody has been told yet, no watch, no request under way, and every limit as it was. */
bool alone_is(const struct agent *agent);

/* How many requests have come so far. When the number is the same before and after the disk was
 * copied, nothing has begun in between. */
uint32_t alone_requests(const struct agent *agent);

/* Writes the files of the source; place: enum channel_place. The descriptor stays the caller's. */
must_check int alone_files_take(struct agent *agent, uint32_t place, int fd, struct err *err);

#endif
