#include "serve/daemon/warm.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "serve/daemon/builtin.h"

enum {
    FILE_BYTES_MAX = 256 << 20,
    CHUNK_BYTES = 1 << 20, /* the kernel reads no more than a few megabytes ahead for one call */
    MEMORY_SHARE = 16,     /* a file takes at most this part of the host's memory */
    LAYERS_BYTES = 512,
};

/* Node.js is one large file, and each start of it touches pages that lie far apart. */
static const char *const programs[] = {"usr/bin/node"};

static off_t memory_bytes(void)
{
    return (off_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
}

static void file_warm(const char *path)
{
    scoped_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        return;
    }
    if (st.st_size > FILE_BYTES_MAX || st.st_size > memory_bytes() / MEMORY_SHARE) {
        log_debug("%s is not read ahead: it is too large for this host", path);
        return;
    }
    for (off_t at = 0; at < st.st_size; at += CHUNK_BYTES) {
        (void)posix_fadvise(fd, at, CHUNK_BYTES, POSIX_FADV_WILLNEED);
    }
}

void warm_base(const struct paths *paths)
{
    char layers[LAYERS_BYTES], path[DATA_PATH_BYTES + 2 * LAYERS_BYTES];
    struct err err;

    if (notice_layers(paths, BUILTIN_BASE, layers, sizeof(layers), &err) < 0) {
        return;
    }
    for (size_t i = 0; i < countof(programs); i++) { /* `base` has one layer */
        (void)snprintf(path, sizeof(path), "%s/layers/%s/%s", paths->pool, layers, programs[i]);
        file_warm(path);
    }
}
