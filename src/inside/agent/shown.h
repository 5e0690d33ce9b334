/* shown.h - what a jail is shown of what it uses: the agent's part of keeper/jail/size_files.h.
 *
 * The daemon says what the jail uses. The files are the jail's own, and a process inside may keep
 * whoever writes them waiting: so the agent does, and neither the daemon nor the keeper.
 *
 * Owns:     nothing.
 * Blocks:   for as long as root in the jail likes, who harms its own sandbox.
 * Threads:  the loop's.
 */
#ifndef AGENT_SHOWN_H
#define AGENT_SHOWN_H

#include <stdint.h>

/* Writes /proc/meminfo and /proc/stat anew, where they are covered. ticks: of CHANNEL_TICK_MS. */
void shown_update(uint32_t used_kib, uint32_t cache_kib, uint32_t ticks);

#endif
