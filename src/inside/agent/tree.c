#include "inside/agent/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "inside/agent/atomic_file.h"
#include "inside/agent/internal.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"

enum {
    NAMES_BYTES_MAX = 64 * 1024 * 1024, /* the names of one directory */
    REMOVE_DEPTH_MAX = 128,             /* descriptors held at once; deeper is moved up first */
    REMOVE_ROUNDS_MAX = 100000,         /* in case another process keeps filling the directory */
};

/* ---- listing ---- */

struct lister {
    struct arena *arena;
    struct entry_names names;
    char real[AGENT_PATH_BYTES];
    char shown[AGENT_PATH_BYTES];
    Filesystem__EntryInfo **entries;
    size_t n, cap;
};

static void dir_closep(DIR **dir)
{
    if (*dir) {
        (void)closedir(*dir);
    }
}

static int name_compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* All names of a directory, each with a NUL, so that the descriptor is closed before descending. */
static int names_read(const char *path, struct buf *out, size_t *count)
{
    scoped(dir_closep) DIR *dir = opendir(path);
    struct dirent *ent;

    *count = 0;
    if (!dir) {
        return -errno;
    }
    while (errno = 0, (ent = readdir(dir))) {
        if (strcmp(ent->d_name, ".") == 0 || strcmp(ent->d_name, "..") == 0 ||
            atomic_file_is_temporary(ent->d_name)) {
            continue;
        }
        int r = buf_append(out, ent->d_name, strlen(ent->d_name) + 1);
        if (r < 0) {
            return r;
        }
        (*count)++;
    }
    return -errno;
}

static char **names_sort(const struct buf *names, size_t count)
{
    char **sorted = calloc(count ? count : 1, sizeof(*sorted));
    char *at = buf_at(names);

    for (size_t i = 0; sorted && i < count; i++) {
        sorted[i] = at;
        at += strlen(at) + 1;
    }
    if (sorted) {
        qsort(sorted, count, sizeof(*sorted), name_compare);
    }
    return sorted;
}

static bool path_push(char path[AGENT_PATH_BYTES], size_t len, const char *name)
{
    int n = snprintf(path + len, AGENT_PATH_BYTES - len, "%s%s", len > 1 ? "/" : "", name);

    return n >= 0 && (size_t)n < AGENT_PATH_BYTES - len;
}

static int entry_append(struct lister *l, Filesystem__EntryInfo *entry)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 64;
        Filesystem__EntryInfo **grown = arena_alloc(l->arena, cap * sizeof(void *));
        if (!grown) {
            return -ENOBUFS;
        }
        if (l->n) {
            memcpy(grown, l->entries, l->n * sizeof(void *));
        }
        l->entries = grown;
        l->cap = cap;
    }
    l->entries[l->n++] = entry;
    return 0;
}

/* Entries that disappear meanwhile, or that even root may not read, are left out. */
static bool passed_over(int r)
{
    return r == -ENOENT || r == -ENOTDIR || r == -ESRCH || r == -EACCES || r == -EPERM;
}

static int level_list(struct lister *l, uint32_t depth);

static int one_list(struct lister *l, const char *name, uint32_t depth)
{
    size_t real_len = strlen(l->real), shown_len = strlen(l->shown);
    Filesystem__EntryInfo *entry;
    int r = -ENAMETOOLONG;

    if (path_push(l->real, real_len, name) && path_push(l->shown, shown_len, name)) {
        r = entry_read(l->arena, &l->names, l->real, l->shown, &entry);
    }
    if (r == 0) {
        r = entry_append(l, entry);
    }
    if (r == 0 && depth > 1 && entry->permissions[0] == 'd') {
        r = level_list(l, depth - 1);
    }
    l->real[real_len] = '\0';
    l->shown[shown_len] = '\0';
    return passed_over(r) ? 0 : r;
}

static void freep(char ***p)
{
    free(*p);
}

static int level_list(struct lister *l, uint32_t depth)
{
    scoped_buf(names, NAMES_BYTES_MAX);
    size_t count;
    int r;

    r = names_read(l->real, &names, &count);
    if (r < 0) {
        return r;
    }
    scoped(freep) char **sorted = names_sort(&names, count);
    if (!sorted) {
        return -ENOBUFS;
    }
    for (size_t i = 0; r == 0 && i < count; i++) {
        r = one_list(l, sorted[i], depth);
    }
    return r;
}

int tree_list(struct arena *arena, const char *real, const char *shown, uint32_t depth,
              Filesystem__EntryInfo ***out, size_t *n)
{
    struct lister l = {.arena = arena};

    if (!str_copy(l.real, sizeof(l.real), str_of(real)) ||
        !str_copy(l.shown, sizeof(l.shown), str_of(shown))) {
        return -ENAMETOOLONG;
    }
    int r = level_list(&l, depth);
    if (r == 0) {
        *out = l.entries;
        *n = l.n;
    }
    return r;
}

/* ---- removing ---- */

struct remover {
    int top_fd;
    unsigned moved; /* directories moved up to the top, each under a name of its own */
};

static int directory_empty(struct remover *rm, int dir_fd, unsigned depth);

/* A tree deeper than we hold descriptors for is cut: its lower part becomes a child of the top,
 * which is emptied again. */
static int subdirectory_remove(struct remover *rm, int dir_fd, const char *name, unsigned depth)
{
    char up[32];

    if (depth >= REMOVE_DEPTH_MAX) {
        (void)snprintf(up, sizeof(up), ".atoll-removed-%u", rm->moved++);
        return renameat(dir_fd, name, rm->top_fd, up) < 0 ? -errno : 0;
    }
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT ? 0 : -errno;
    }
    int r = directory_empty(rm, fd, depth + 1); /* closes it */
    if (r == 0 && unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT) {
        r = -errno;
    }
    return r;
}

static int name_remove(struct remover *rm, int dir_fd, const char *name, unsigned depth)
{
    if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT) {
        return 0;
    }
    if (errno != EISDIR && errno != EPERM) {
        return -errno;
    }
    return subdirectory_remove(rm, dir_fd, name, depth);
}

/* Takes dir_fd over. */
static int directory_empty(struct remover *rm, int dir_fd, unsigned depth)
{
    scoped(dir_closep) DIR *dir = fdopendir(dir_fd);
    struct dirent *ent;
    int r = 0;

    if (!dir) {
        r = -errno;
        (void)close(dir_fd);
        return r;
    }
    while (r == 0 && (errno = 0, ent = readdir(dir))) {
        if (strcmp(ent->d_name, ".") != 0 && strcmp(ent->d_name, "..") != 0) {
            r = name_remove(rm, dirfd(dir), ent->d_name, depth);
        }
    }
    return r == 0 ? -errno : r;
}

static int top_empty(const char *path)
{
    scoped_fd top = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct remover rm = {.top_fd = top};

    if (top < 0) {
        return errno == ENOENT ? 0 : -errno;
    }
    for (int round = 0; round < REMOVE_ROUNDS_MAX; round++) {
        /* Opened anew each time: a duplicate would share the position in the directory. */
        int fd = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int r = fd < 0 ? -errno : directory_empty(&rm, fd, 0);
        if (r < 0 && r != -ENOTEMPTY) {
            return r;
        }
        if (rmdir(path) == 0 || errno == ENOENT) {
            return 0;
        }
        if (errno != ENOTEMPTY) {
            return -errno;
        }
    }
    return -ENOTEMPTY;
}

int tree_remove(const char *path)
{
    if (unlink(path) == 0 || errno == ENOENT || errno == ENOTDIR) {
        return 0;
    }
    if (errno != EISDIR && errno != EPERM) {
        return -errno;
    }
    return top_empty(path);
}
