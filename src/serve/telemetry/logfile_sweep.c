#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "lib/base/str.h"
#include "lib/base/table.h"
#include "serve/telemetry/logfile.h"

enum { NAME_BYTES = ID_SANDBOX_LEN + 8, SWEPT_MAX = 256 * 1024 };

struct swept_team {
    UT_hash_handle hh;
    char id[ID_UUID_LEN + 1];
    uint64_t bytes;
    size_t oldest; /* of its files: none before this index */
};

struct swept {
    char name[NAME_BYTES];   /* "": it is gone */
    struct swept_team *team; /* NULL: nobody has looked */
    int64_t written_ms;
    uint64_t bytes;
};

struct sweep {
    struct swept *files;
    size_t n, cap;
    uint64_t bytes;
    struct swept_team *teams;
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

static void sweep_drop(struct sweep *sweep, int dir_fd, struct swept *file)
{
    (void)unlinkat(dir_fd, file->name, 0);
    sweep->bytes -= file->bytes;
    if (file->team) {
        file->team->bytes -= file->bytes;
    }
    file->name[0] = '\0';
}

/* ---- when all together are too large ---- */

/* The team that owns a file; "" when the file does not say. */
static void team_read(int dir_fd, const char *name, char out[ID_UUID_LEN + 1])
{
    scoped_fd fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    char head[sizeof(LOGFILE_HEAD_WORDS) + ID_UUID_LEN];
    ssize_t n = fd < 0 ? 0 : pread(fd, head, sizeof(head), 0);
    struct str line = {head, n > 0 ? (size_t)n : 0}, team = {0};

    out[0] = '\0';
    if (str_starts(line, STR(LOGFILE_HEAD_WORDS))) {
        line = str_skip(line, strlen(LOGFILE_HEAD_WORDS));
        if (!str_split(&line, ' ', &team) || !str_copy(out, ID_UUID_LEN + 1, team)) {
            out[0] = '\0';
        }
    }
}

static void teams_tally(struct sweep *sweep, int dir_fd)
{
    for (size_t i = 0; i < sweep->n; i++) {
        struct swept *file = &sweep->files[i];
        struct swept_team *team = NULL;
        char id[ID_UUID_LEN + 1];

        if (!file->name[0]) {
            continue;
        }
        team_read(dir_fd, file->name, id);
        HASH_FIND_STR(sweep->teams, id, team);
        if (!team) {
            team = xnew(struct swept_team);
            memcpy(team->id, id, sizeof(id));
            team->oldest = i;
            HASH_ADD_STR(sweep->teams, id, team);
        }
        team->bytes += file->bytes;
        file->team = team;
    }
}

static struct swept_team *team_with_most(const struct sweep *sweep)
{
    struct swept_team *team = NULL, *next = NULL, *most = NULL;

    HASH_ITER (hh, sweep->teams, team, next) {
        if (!most || team->bytes > most->bytes) {
            most = team;
        }
    }
    return most;
}

/* Removes the oldest file of the team that has most: a flood of lines costs no other team its
 * log. */
static bool drop_one(struct sweep *sweep, int dir_fd)
{
    struct swept_team *team = team_with_most(sweep);

    for (; team && team->oldest < sweep->n; team->oldest++) {
        struct swept *file = &sweep->files[team->oldest];
        if (file->team == team && file->name[0]) {
            sweep_drop(sweep, dir_fd, file);
            return true;
        }
    }
    return false;
}

static void sweep_fini(struct sweep *sweep)
{
    struct swept_team *team = NULL, *next = NULL;

    HASH_ITER (hh, sweep->teams, team, next) {
        HASH_DEL(sweep->teams, team);
        free(team);
    }
    free(sweep->files);
}

void logfile_sweep(int dir_fd, int64_t before_ms, uint64_t bytes)
{
    scoped(sweep_fini) struct sweep sweep = {0};

    sweep_read(&sweep, dir_fd);
    if (sweep.n > 0) {
        qsort(sweep.files, sweep.n, sizeof(*sweep.files), by_age);
    }
    for (size_t i = 0; i < sweep.n && sweep.files[i].written_ms < before_ms; i++) {
        sweep_drop(&sweep, dir_fd, &sweep.files[i]);
    }
    if (sweep.bytes > bytes) {
        teams_tally(&sweep, dir_fd);
    }
    while (sweep.bytes > bytes && drop_one(&sweep, dir_fd)) {
    }
}
