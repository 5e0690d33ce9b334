#include "keeper/jail/cgroup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/xattr.h>

#include "keeper/jail/cgroup_tree.h"
#include "lib/base/fd.h"
#include "lib/base/small_file.h"

#define SHARED "trusted.atoll.shared" /* on a jail's v2 leaf */

static uint64_t memory_cache(const char *stat, bool v2)
{
    return cgroup_stat_value(stat, v2 ? "inactive_file" : "total_inactive_file") +
           cgroup_stat_value(stat, v2 ? "active_file" : "total_active_file");
}

static void usage_memory(int leaf, bool v2, struct keeper_usage *out)
{
    char text[CGROUP_STAT_BYTES];

    out->memory_bytes = small_file_number(leaf, v2 ? "memory.current" : "memory.usage_in_bytes");
    (void)small_file_read(leaf, "memory.stat", text, sizeof(text));
    out->memory_cache_bytes = memory_cache(text, v2);
    (void)small_file_read(leaf, v2 ? "memory.events" : "memory.oom_control", text, sizeof(text));
    out->oom_kills = (uint32_t)cgroup_stat_value(text, "oom_kill");
}

int cgroups_usage(struct cgroups *groups, const char *id, struct keeper_usage *out, struct err *err)
{
    char text[CGROUP_STAT_BYTES];

    for (size_t i = 0; i < groups->n; i++) {
        const struct hierarchy *h = &groups->at[i];
        scoped_fd leaf = cgroup_leaf_open(h, id);
        if (leaf < 0) {
            return err_sys(err, "open the control group of jail %s", id);
        }
        if (h->v2) { /* counted in every v2 group, even without the cpu controller */
            (void)small_file_read(leaf, "cpu.stat", text, sizeof(text));
            out->cpu_usec = cgroup_stat_value(text, "usage_usec");
        }
        if (h->controllers & CGROUP_MEMORY) {
            usage_memory(leaf, h->v2, out);
        }
        if (h->controllers & CGROUP_PIDS) {
            out->pids = (uint32_t)small_file_number(leaf, "pids.current");
        }
    }
    return 0;
}

/* Reads a file of a jail's group with one open() and one read(): the kernel returns all that
 * fits. */
static ssize_t file_peek(const struct hierarchy *h, const char *id, const char *file, char *text,
                         size_t size)
{
    char path[CGROUP_PATH_BYTES];

    (void)snprintf(path, sizeof(path), "%s/%s", id, file);
    scoped_fd fd = openat(h->dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n = fd < 0 ? -errno : read(fd, text, size - 1);
    text[n > 0 ? n : 0] = '\0';
    return n;
}

static void sample_memory(const struct hierarchy *h, const char *id, struct keeper_usage *out)
{
    char text[CGROUP_STAT_BYTES];

    (void)file_peek(h, id, h->v2 ? "memory.current" : "memory.usage_in_bytes", text, sizeof(text));
    out->memory_bytes = strtoull(text, NULL, 10);
    (void)file_peek(h, id, "memory.stat", text, sizeof(text));
    out->memory_cache_bytes = memory_cache(text, h->v2);
}

int cgroups_sample(struct cgroups *groups, const char *id, struct keeper_usage *out)
{
    char text[CGROUP_STAT_BYTES];
    ssize_t n = file_peek(&groups->at[0], id, "cpu.stat", text, sizeof(text));

    if (n < 0) {
        return (int)n;
    }
    out->cpu_usec = cgroup_stat_value(text, "usage_usec");
    for (size_t i = 0; i < groups->n; i++) {
        if (groups->at[i].controllers & CGROUP_MEMORY) {
            sample_memory(&groups->at[i], id, out);
        }
    }
    return 0;
}

void cgroup_shared_note(int leaf_fd, uint64_t bytes)
{
    (void)fsetxattr(leaf_fd, SHARED, &bytes, sizeof(bytes), 0);
}

uint64_t cgroups_shared(struct cgroups *groups, const char *id)
{
    scoped_fd leaf = cgroup_leaf_open(&groups->at[0], id);
    uint64_t bytes = 0;

    if (leaf < 0 || fgetxattr(leaf, SHARED, &bytes, sizeof(bytes)) != (ssize_t)sizeof(bytes)) {
        return 0;
    }
    return bytes;
}
