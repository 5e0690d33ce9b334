/* proc_files.h - writes a jail's own usage into its /proc files: the agent's part of
 * keeper/jail/size_files.h.
 *
 * The daemon sends the figures. The files belong to the jail, and a process inside can block a
 * writer: so the agent writes them, and neither the daemon nor the keeper.
 *
 * Owns:     nothing.
 * Blocks:   for as long as root in the jail likes; it harms only its own sandbox.
 * Threads:  the loop's.
 */
#ifndef AGENT_PROC_FILES_H
#define AGENT_PROC_FILES_H

#include <stdint.h>

/* Writes /proc/meminfo and /proc/stat again, where they are covered. ticks: of CHANNEL_TICK_MS. */
void proc_files_update(uint32_t used_kib, uint32_t cache_kib, uint32_t ticks);

#endif
