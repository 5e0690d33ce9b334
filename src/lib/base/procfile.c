#include "lib/base/procfile.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/compiler.h"
#include "lib/base/str.h"

enum { TICK_USEC = 10 * 1000 }; /* of /proc/stat: USER_HZ is 100 everywhere */

struct text {
    char *at;
    size_t len, size;
};

__attribute__((format(printf, 2, 3))) static void text_add(struct text *text, const char *format,
                                                           ...)
{
    va_list args;

    va_start(args, format);
    int n = vsnprintf(text->at + text->len, text->size - text->len, format, args);
    va_end(args);
    assert(n >= 0 && (size_t)n < text->size - text->len);
    text->len += (size_t)n;
}

static void kb_add(struct text *text, const char *name, uint64_t bytes)
{
    text_add(text, "%-16s%11" PRIu64 " kB\n", name, bytes / 1024);
}

/* Dirty pages and memory of the kernel are charged to the jail as well and show as used. There is
 * no swap for jails. */
size_t procfile_meminfo(const struct procfile_figures *f, char out[PROCFILE_MEMINFO_BYTES])
{
    struct text text = {.at = out, .size = PROCFILE_MEMINFO_BYTES};
    const uint64_t used = f->used_bytes < f->memory_bytes ? f->used_bytes : f->memory_bytes;
    const uint64_t cache = f->cache_bytes < used ? f->cache_bytes : used;
    const uint64_t free_bytes = f->memory_bytes - used;

    kb_add(&text, "MemTotal:", f->memory_bytes);
    kb_add(&text, "MemFree:", free_bytes);
    kb_add(&text, "MemAvailable:", free_bytes + cache);
    kb_add(&text, "Buffers:", 0);
    kb_add(&text, "Cached:", cache);
    kb_add(&text, "SwapCached:", 0);
    kb_add(&text, "Active:", used - cache);
    kb_add(&text, "Inactive:", cache);
    kb_add(&text, "Active(anon):", used - cache);
    kb_add(&text, "Inactive(anon):", 0);
    kb_add(&text, "Active(file):", 0);
    kb_add(&text, "Inactive(file):", cache);
    static const char *const none[] = {
        "Unevictable:", "Mlocked:", "SwapTotal:", "SwapFree:", "Dirty:", "Writeback:"};
    for (size_t i = 0; i < countof(none); i++) {
        kb_add(&text, none[i], 0);
    }
    kb_add(&text, "AnonPages:", used - cache);
    static const char *const unknown[] = {
        "Mapped:",       "Shmem:",      "KReclaimable:", "Slab:",
        "SReclaimable:", "SUnreclaim:", "KernelStack:",  "PageTables:"};
    for (size_t i = 0; i < countof(unknown); i++) {
        kb_add(&text, unknown[i], 0);
    }
    kb_add(&text, "CommitLimit:", f->memory_bytes);
    kb_add(&text, "Committed_AS:", used - cache);
    text_add(&text, "HugePages_Total:%11d\nHugePages_Free: %11d\n", 0, 0);
    kb_add(&text, "Hugepagesize:", 2048 * 1024);
    return text.len;
}

/* All time that the jail ran is shown as user time. The rest of its processors' time is idle. */
static void cpu_add(struct text *text, const char *name, uint64_t used_usec, uint64_t up_usec)
{
    uint64_t idle_usec = used_usec < up_usec ? up_usec - used_usec : 0;

    text_add(text, "%-8s %14" PRIu64 " 0 0 %14" PRIu64 " 0 0 0 0 0 0\n", name,
             used_usec / TICK_USEC, idle_usec / TICK_USEC);
}

size_t procfile_stat(const struct procfile_figures *f, char out[PROCFILE_STAT_BYTES])
{
    struct text text = {.at = out, .size = PROCFILE_STAT_BYTES};

    cpu_add(&text, "cpu", f->cpu_usec, f->up_usec * f->cpus);
    for (uint32_t i = 0; i < f->cpus; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "cpu%" PRIu32, i);
        cpu_add(&text, name, f->cpu_usec / f->cpus, f->up_usec);
    }
    text_add(&text,
             "intr 0\nctxt 0\nbtime %" PRIu64 "\nprocesses 0\nprocs_running 1\nprocs_blocked 0\n"
             "softirq 0 0 0 0 0 0 0 0 0 0 0\n",
             f->boot_s);
    return text.len;
}

/* Whether a line has that name, which blanks, tabs and a colon follow. */
static bool line_names(struct str line, const char *name)
{
    size_t len = strlen(name);

    return line.len > len && memcmp(line.at, name, len) == 0 &&
           (line.at[len] == '\t' || line.at[len] == ' ' || line.at[len] == ':');
}

size_t procfile_cpuinfo(const char *host, uint32_t cpus, char *out, size_t size)
{
    struct text text = {.at = out, .size = size};
    struct str rest = str_of(host), line;
    uint32_t seen = 0;

    while (str_split(&rest, '\n', &line)) {
        seen += line_names(line, "processor");
        if (seen > cpus) {
            break;
        }
        if (line_names(line, "siblings") || line_names(line, "cpu cores")) {
            text_add(&text, "%.*s %" PRIu32 "\n", (int)(str_find(line, ':') + 1), line.at, cpus);
        } else if (rest.len || line.len) {
            text_add(&text, "%.*s\n", (int)line.len, line.at);
        }
    }
    return text.len;
}

size_t procfile_online(uint32_t cpus, char out[32])
{
    struct text text = {.at = out, .size = 32};

    if (cpus > 1) {
        text_add(&text, "0-%" PRIu32 "\n", cpus - 1);
    } else {
        text_add(&text, "0\n");
    }
    return text.len;
}
