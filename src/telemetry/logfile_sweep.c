#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/str.h"
#include "telemetry/logfile.h"

enum { NAME_BYTES = ID_SANDBOX_LEN + 8, SWEPT_MAX = 256 * 1024 };

struct swept {
    char name[NAME_BYTES];
    int64_t written_ms;
    uint64_t bytes;
};

struct sweep {
    struct swept *files;
    size_t n, cap;
    uint64_t bytes;
};

static int by_age(const void *a, const void *b)
{
    const struct swept *one = a, *other = b;

    return one->written_ms < other->written_ms ? -1 : one->written_ms > other->written_ms;
}

static void sweep_add(struct sweep *sweep, int dir_fd, const char *name)
{
    struct swept file = {0};
    struct stat st;

    if (!str_copy(file.name, sizeof(file.name), str_of(name)) || sweep->n == SWEPT_MAX ||
        fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode)) {
        return;
    }
    if (sweep->n == sweep->cap) {
        sweep->cap = sweep->cap ? sweep->cap * 2 : 64;
        sweep->files = reallocarray(sweep->files, sweep->cap, sizeof(*sweep->files));
        if (!sweep->files) {
            abort();
        }
    }
    file.written_ms = (int64_t)st.st_mtim.tv_sec * 1000;
    file.bytes = (uint64_t)st.st_size;
    sweep->bytes += file.bytes;
    sweep->files[sweep->n++] = file;
}

static void sweep_read(struct sweep *sweep, int dir_fd)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir) {
        fd_closep(&fd);
        return;
    }
    for (struct dirent *entry; (entry = readdir(dir));) {
        sweep_add(sweep, dir_fd, entry->d_name);
    }
    (void)closedir(dir);
}

void logfile_sweep(int dir_fd, int64_t before_ms, uint64_t bytes)
{
    struct sweep sweep = {0};

    sweep_read(&sweep, dir_fd);
    if (sweep.n > 0) {
        qsort(sweep.files, sweep.n, sizeof(*sweep.files), by_age);
    }
    for (size_t i = 0; i < sweep.n; i++) {
        const struct swept *file = &sweep.files[i];
        if (file->written_ms >= before_ms && sweep.bytes <= bytes) {
            break; /* those that follow are younger */
        }
        (void)unlinkat(dir_fd, file->name, 0);
        sweep.bytes -= file->bytes;
    }
    free(sweep.files);
}
