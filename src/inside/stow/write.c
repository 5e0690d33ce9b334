#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "inside/stow/stow.h"
#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "lib/base/table.h"

enum {
    ROOM_BYTES = 64 * 1024,
    PIECE_BYTES = 1024 * 1024,
    NAMES_BYTES = 64 * 1024, /* for attributes: the kernel's own limits */
    VALUE_BYTES = 64 * 1024,
    DEPTH_MAX = 4096, /* for directories: each is a stack frame here and in the reader */
};

/* A file with several names. */
struct linked {
    ino_t inode;
    char *path; /* its first name */
    UT_hash_handle hh;
};

struct writer {
    int out_fd;
    dev_t device;
    uint8_t room[ROOM_BYTES]; /* data that is not written yet */
    size_t room_n;
    char path[PATH_MAX]; /* from the top to the current file */
    size_t path_n;
    bool path_cut; /* it did not fit: the path ends above the file */
    unsigned depth;
    char target[PATH_MAX]; /* target of a symbolic link */
    struct linked *linked;
    const struct stow_filter *filter; /* NULL: all files are written */
    char names[NAMES_BYTES];
    char value[VALUE_BYTES];
};

/* ---- bytes ---- */

static int flush(struct writer *w, struct err *err)
{
    for (size_t done = 0; done < w->room_n;) {
        ssize_t n = write(w->out_fd, w->room + done, w->room_n - done);
        if (n < 0 && errno != EINTR) {
            return err_sys(err, "write the image of a file system in memory");
        }
        done += n > 0 ? (size_t)n : 0;
    }
    w->room_n = 0;
    return 0;
}

static int put(struct writer *w, const void *bytes, size_t n, struct err *err)
{
    const uint8_t *at = bytes;
    int r = 0;

    while (r == 0 && n > 0) {
        size_t part = ROOM_BYTES - w->room_n < n ? ROOM_BYTES - w->room_n : n;
        memcpy(w->room + w->room_n, at, part);
        w->room_n += part;
        at += part;
        n -= part;
        r = w->room_n == ROOM_BYTES ? flush(w, err) : 0;
    }
    return r;
}

/* The name may be NULL. The value follows by put(), unless it is passed here. */
static int record_put(struct writer *w, struct stow_record *record, const char *name,
                      const void *value, struct err *err)
{
    record->name_n = name ? (uint32_t)strlen(name) + 1 : 0;
    int r = put(w, record, sizeof(*record), err);
    if (r == 0 && name) {
        r = put(w, name, record->name_n, err);
    }
    return r == 0 && value ? put(w, value, record->value_n, err) : r;
}

static int end_put(struct writer *w, struct err *err)
{
    struct stow_record end = {.kind = STOW_END};

    return record_put(w, &end, NULL, NULL, err);
}

/* ---- content and attributes of a file ---- */

static int attribute_choose(const struct writer *w, const char *name, size_t n, struct err *err)
{
    const struct str value = {w->value, n};

    return w->filter && w->filter->attribute
               ? w->filter->attribute(w->filter->ctx, w->path, name, value, err)
               : 1;
}

static int attributes_put(struct writer *w, int fd, struct err *err)
{
    ssize_t names_n = flistxattr(fd, w->names, sizeof(w->names));

    if (names_n < 0) {
        return errno == EOPNOTSUPP ? 0 : err_sys(err, "list the attributes of %s", w->path);
    }
    for (const char *name = w->names; name < w->names + names_n; name += strlen(name) + 1) {
        ssize_t n = fgetxattr(fd, name, w->value, sizeof(w->value));
        if (n < 0) {
            return err_sys(err, "read the attribute %s of %s", name, w->path);
        }
        int r = attribute_choose(w, name, (size_t)n, err);
        if (r < 0) {
            return r;
        }
        if (r == 0) {
            continue;
        }
        struct stow_record record = {.kind = STOW_ATTRIBUTE, .value_n = (uint64_t)n};
        r = record_put(w, &record, name, w->value, err);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int piece_put(struct writer *w, int fd, off_t at, off_t end, struct err *err)
{
    struct stow_record record = {
        .kind = STOW_PIECE, .at = (uint64_t)at, .value_n = (uint64_t)(end - at)};
    int r = record_put(w, &record, NULL, NULL, err);

    while (r == 0 && at < end) {
        size_t want = ROOM_BYTES - w->room_n;
        want = (off_t)want < end - at ? want : (size_t)(end - at);
        ssize_t n = pread(fd, w->room + w->room_n, want, at);
        if (n <= 0) {
            return n < 0 ? err_sys(err, "read %s", w->path)
                         : err_set(err, EIO, "%s became shorter", w->path);
        }
        w->room_n += (size_t)n;
        at += n;
        r = w->room_n == ROOM_BYTES ? flush(w, err) : 0;
    }
    return r;
}

static int bytes_put(struct writer *w, int fd, off_t size, struct err *err)
{
    int r = 0;

    for (off_t at = 0; r == 0 && at < size;) {
        off_t from = lseek(fd, at, SEEK_DATA);
        if (from < 0) {
            return errno == ENXIO ? 0 : err_sys(err, "read %s", w->path); /* a hole up to the end */
        }
        off_t hole = lseek(fd, from, SEEK_HOLE);
        at = hole < 0 || hole > size ? size : hole;
        at = at - from > PIECE_BYTES ? from + PIECE_BYTES : at;
        r = piece_put(w, fd, from, at, err);
    }
    return r;
}

/* ---- files ---- */

static int dir_put(struct writer *w, int fd, struct err *err);

static struct stow_record record_of(const struct stat *st)
{
    return (struct stow_record){
        .kind = STOW_FILE,
        .mode = st->st_mode,
        .uid = st->st_uid,
        .gid = st->st_gid,
        .device = st->st_rdev,
        .size = S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0,
        .atime_s = st->st_atim.tv_sec,
        .mtime_s = st->st_mtim.tv_sec,
        .atime_ns = (uint32_t)st->st_atim.tv_nsec,
        .mtime_ns = (uint32_t)st->st_mtim.tv_nsec,
    };
}

/* Writes the content of a file that can be opened. A directory on another file system is only a
 * mount point. */
static int content_put(struct writer *w, int at_fd, const char *name, const struct stat *st,
                       struct err *err)
{
    if (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode)) {
        return end_put(w, err);
    }
    scoped_fd fd = openat(at_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return err_sys(err, "open %s", w->path);
    }
    int r = S_ISREG(st->st_mode) ? bytes_put(w, fd, st->st_size, err) : 0;
    if (r == 0) {
        r = attributes_put(w, fd, err);
    }
    if (r == 0 && S_ISDIR(st->st_mode) && st->st_dev == w->device) {
        r = dir_put(w, move_fd(&fd), err);
    }
    return r < 0 ? r : end_put(w, err);
}

/* 1 when the file was written under another name, and a link to that name was written now. */
static int link_put(struct writer *w, const char *name, const struct stat *st, struct err *err)
{
    struct linked *linked = NULL;

    if (S_ISDIR(st->st_mode) || st->st_nlink < 2) {
        return 0;
    }
    HASH_FIND(hh, w->linked, &st->st_ino, sizeof(st->st_ino), linked);
    if (!linked && w->path_cut) {
        return err_set(err, ENAMETOOLONG, "a file with several names lies too deep, below %.100s",
                       w->path);
    }
    if (!linked) {
        linked = xnew(struct linked);
        *linked = (struct linked){.inode = st->st_ino, .path = xstrdup(w->path)};
        HASH_ADD(hh, w->linked, inode, sizeof(linked->inode), linked);
        return 0;
    }
    struct stow_record record = {.kind = STOW_LINK, .value_n = strlen(linked->path) + 1};
    int r = record_put(w, &record, name, linked->path, err);
    return r < 0 ? r : 1;
}

static int file_put(struct writer *w, int at_fd, const char *name, const struct stat *st,
                    struct err *err)
{
    struct stow_record record = record_of(st);
    int r = link_put(w, name, st, err);

    if (r != 0) {
        return r < 0 ? r : 0;
    }
    if (S_ISLNK(st->st_mode)) {
        ssize_t n = readlinkat(at_fd, name, w->target, sizeof(w->target) - 1);
        if (n < 0) {
            return err_sys(err, "read the link %s", w->path);
        }
        w->target[n] = '\0';
        record.value_n = (uint64_t)n + 1;
    }
    r = record_put(w, &record, name, S_ISLNK(st->st_mode) ? w->target : NULL, err);
    return r < 0 ? r : content_put(w, at_fd, name, st, err);
}

static void path_add(struct writer *w, const char *name)
{
    size_t room = sizeof(w->path) - w->path_n;
    int n = w->path_cut ? 0 : snprintf(w->path + w->path_n, room, w->path_n ? "/%s" : "%s", name);

    w->path_cut |= (size_t)n >= room;
    w->path_n += w->path_cut ? 0 : (size_t)n;
    w->path[w->path_n] = '\0';
}

static int choose(const struct writer *w, const struct stat *st, struct err *err)
{
    if (!w->filter) {
        return 1;
    }
    return w->path_cut ? err_set(err, ENAMETOOLONG, "a file lies too deep, below %.100s", w->path)
                       : w->filter->file(w->filter->ctx, w->path, st, err);
}

static int child_put(struct writer *w, int dir_fd, const char *name, struct err *err)
{
    struct stat st;
    const size_t path_n = w->path_n;
    const bool path_cut = w->path_cut;

    path_add(w, name);
    int r = fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0
                ? err_sys(err, "look at %s", w->path)
                : 0;
    if (r == 0) {
        r = choose(w, &st, err);
    }
    if (r > 0) {
        r = S_ISSOCK(st.st_mode) ? 0 : file_put(w, dir_fd, name, &st, err);
    }
    w->path_n = path_n;
    w->path_cut = path_cut;
    w->path[path_n] = '\0';
    return r;
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Takes over the descriptor. */
static int dir_put(struct writer *w, int fd, struct err *err)
{
    DIR *dir = fdopendir(fd);
    int r = 0;

    if (!dir) {
        r = err_sys(err, "read the directory %s", w->path);
        fd_closep(&fd);
        return r;
    }
    if (w->depth++ == DEPTH_MAX) {
        r = err_set(err, ENAMETOOLONG, "directories lie more than %d deep, below %.100s", DEPTH_MAX,
                    w->path);
    }
    errno = 0;
    for (struct dirent *entry; r == 0 && (entry = readdir(dir)); errno = 0) {
        r = is_dots(entry->d_name) ? 0 : child_put(w, fd, entry->d_name, err);
    }
    if (r == 0 && errno) {
        r = err_sys(err, "read the directory %s", w->path);
    }
    (void)closedir(dir);
    w->depth--;
    return r;
}

static void linked_free(struct writer *w)
{
    struct linked *linked, *next;

    HASH_ITER (hh, w->linked, linked, next) {
        HASH_DEL(w->linked, linked);
        free(linked->path);
        free(linked);
    }
}

int stow_write_chosen(int dir_fd, int out_fd, const struct stow_filter *filter, struct err *err)
{
    struct writer *w = xnew(struct writer);
    struct stat st;
    int r = fstat(dir_fd, &st) < 0 ? err_sys(err, "look at the file system") : 0;

    w->out_fd = out_fd;
    w->filter = filter;
    w->device = st.st_dev;
    if (r == 0) {
        r = put(w, STOW_MAGIC, sizeof(STOW_MAGIC), err);
    }
    if (r == 0) {
        r = file_put(w, dir_fd, ".", &st, err);
    }
    if (r == 0) {
        r = flush(w, err);
    }
    linked_free(w);
    free(w);
    return r;
}

int stow_write(int dir_fd, int out_fd, struct err *err)
{
    return stow_write_chosen(dir_fd, out_fd, NULL, err);
}
