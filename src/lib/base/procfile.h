/* procfile.h - the texts of files in /proc and /sys, for a machine of a given size: a jail is shown
 * its own instead of the host's (keeper/jail/size_files.h).
 *
 * Owns: nothing. Blocks: never. Threads: any. No memory is allocated.
 */
#ifndef BASE_PROCFILE_H
#define BASE_PROCFILE_H

#include <stddef.h>
#include <stdint.h>

enum { PROCFILE_CPUS_MAX = 1024 };

struct procfile_figures {
    uint64_t memory_bytes; /* its limit */
    uint64_t used_bytes;   /* all that is charged */
    uint64_t cache_bytes;  /* of that, page cache */
    uint32_t cpus;
    uint64_t cpu_usec; /* that it has used */
    uint64_t up_usec;  /* for how long the host has been up */
    uint64_t boot_s;   /* when that was */
};

enum { PROCFILE_MEMINFO_BYTES = 2048, PROCFILE_STAT_BYTES = 512 + PROCFILE_CPUS_MAX * 128 };

/* Both have the same length whatever the figures are: a reader never finds half of an old one at
 * the end. They return that length. */
size_t procfile_meminfo(const struct procfile_figures *f, char out[PROCFILE_MEMINFO_BYTES]);
size_t procfile_stat(const struct procfile_figures *f, char out[PROCFILE_STAT_BYTES]);
/* The first `cpus` of the host's /proc/cpuinfo, as if there were no others. At most `size` bytes.
 */
size_t procfile_cpuinfo(const char *host, uint32_t cpus, char *out, size_t size);
/* "0" or "0-3", with the end of its line. */
size_t procfile_online(uint32_t cpus, char out[32]);

#endif
