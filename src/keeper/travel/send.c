#include "keeper/travel/send.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "lib/base/alloc.h"
#include "lib/base/fd.h"

enum { NAMES_BYTES = 64 * 1024, VALUE_BYTES = 64 * 1024 };

struct send_file {
    UT_hash_handle hh;
    uint64_t inode;
    char *path; /* the first of its names */
};

void send_init(struct send *send, struct seal_out *out)
{
    *send = (struct send){.out = out, .data = xcalloc(1, RECORD_DATA_BYTES)};
    buf_init(&send->record, RECORD_BYTES_MAX);
}

void send_fini(struct send *send)
{
    struct send_file *file = NULL, *next = NULL;

    HASH_ITER (hh, send->files, file, next) {
        HASH_DEL(send->files, file);
        free(file->path);
        free(file);
    }
    buf_fini(&send->record);
    free(send->data);
}

int send_flush(struct send *send, int put, struct err *err)
{
    int r = put < 0 ? err_set(err, EOVERFLOW, "%.200s has more attributes than an export can hold",
                              send->path)
                    : seal_out_write(send->out, buf_str(&send->record), err);

    buf_clear(&send->record);
    return r;
}

/* ---- paths ---- */

int send_enter(struct send *send, const char *name, struct err *err)
{
    const size_t len = strlen(name), slash = send->path_len > 0;

    if (send->path_len + slash + len > RECORD_PATH_BYTES_MAX) {
        return err_set(err, ENAMETOOLONG, "a path of the sandbox is longer than %d bytes",
                       RECORD_PATH_BYTES_MAX);
    }
    if (slash) {
        send->path[send->path_len++] = '/';
    }
    memcpy(send->path + send->path_len, name, len + 1);
    send->path_len += len;
    return 0;
}

void send_leave(struct send *send, size_t path_len)
{
    send->path_len = path_len;
    send->path[path_len] = '\0';
}

static struct str path_now(const struct send *send)
{
    return send->path_len ? (struct str){send->path, send->path_len} : STR(".");
}

/* ---- attributes ---- */

/* Reads by the name in the working directory where there is no descriptor: those of a symbolic
 * link, for example. */
static ssize_t value_read(int fd, const char *file, const char *name, char *value)
{
    return fd >= 0 ? fgetxattr(fd, name, value, VALUE_BYTES)
                   : lgetxattr(file, name, value, VALUE_BYTES);
}

static int attributes_read(const struct send *send, int fd, const char *file, struct buf *out,
                           uint32_t *n, struct err *err)
{
    char names[NAMES_BYTES], value[VALUE_BYTES];
    ssize_t len =
        fd >= 0 ? flistxattr(fd, names, sizeof(names)) : llistxattr(file, names, sizeof(names));

    if (len < 0 && errno != ENOTSUP) {
        return err_sys(err, "list the attributes of %.200s", send->path);
    }
    *n = 0;
    for (ssize_t at = 0; at < len; at += (ssize_t)strlen(names + at) + 1) {
        if (!record_attribute_travels(names + at)) {
            continue;
        }
        ssize_t got = value_read(fd, file, names + at, value);
        if (got < 0) {
            return err_sys(err, "read the attribute %.64s of %.160s", names + at, send->path);
        }
        int r = record_put_attribute(out, names + at, (struct str){value, (size_t)got});
        if (r < 0 || ++*n > RECORD_ATTRIBUTES_MAX) {
            return err_set(err, EOVERFLOW, "%.200s has more attributes than an export can hold",
                           send->path);
        }
    }
    return 0;
}

static int entry_send(struct send *send, int fd, const char *file, const struct stat *st,
                      struct str target, struct err *err)
{
    scoped_buf(attributes, RECORD_BODY_BYTES_MAX);
    struct record entry = {
        .path = path_now(send),
        .target = target,
        .mode = st->st_mode,
        .uid = st->st_uid,
        .gid = st->st_gid,
        .mtime_s = st->st_mtim.tv_sec,
        .mtime_ns = (uint32_t)st->st_mtim.tv_nsec,
        .size = S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0,
    };
    int r = attributes_read(send, fd, file, &attributes, &entry.attributes_n, err);

    if (r < 0) {
        return r;
    }
    entry.attributes = buf_str(&attributes);
    send->entries++;
    return send_flush(send, record_put_entry(&send->record, &entry), err);
}

/* ---- content ---- */

static int piece_send(struct send *send, int fd, off_t at, off_t end, struct err *err)
{
    while (at < end) {
        const size_t want =
            end - at < RECORD_DATA_BYTES ? (size_t)(end - at) : (size_t)RECORD_DATA_BYTES;
        ssize_t n = pread(fd, send->data, want, at);
        if (n <= 0) {
            return n < 0 ? err_sys(err, "read %.200s", send->path)
                         : err_set(err, EIO, "%.200s became shorter", send->path);
        }
        int r = send_flush(
            send, record_put_data(&send->record, (uint64_t)at, (struct str){send->data, (size_t)n}),
            err);
        if (r < 0) {
            return r;
        }
        send->bytes += (uint64_t)n;
        at += n;
    }
    return 0;
}

/* Holes are left out. */
static int content_send(struct send *send, int fd, off_t size, struct err *err)
{
    int r = 0;

    for (off_t at = 0; r == 0 && at < size;) {
        const off_t data = lseek(fd, at, SEEK_DATA);
        if (data < 0 && errno == ENXIO) {
            break;
        }
        const off_t hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
        if (hole < 0) {
            return err_sys(err, "read %.200s", send->path);
        }
        at = hole < size ? hole : size;
        r = piece_send(send, fd, data, at, err);
    }
    return r;
}

/* ---- files ---- */

static int file_note(struct send *send, uint64_t inode, struct err *err)
{
    struct send_file *file = xnew(struct send_file);

    send->names_bytes += send->path_len + sizeof(*file);
    file->inode = inode;
    file->path = xstrdup(send->path);
    HASH_ADD(hh, send->files, inode, sizeof(file->inode), file);
    return send->names_bytes <= SEND_NAMES_BYTES_MAX
               ? 0
               : err_set(err, EOVERFLOW, "the sandbox has too many files with several names");
}

/* Opens a plain file of a tree that stands still: no link, and never a FIFO. */
static int plain_open(int dir_fd, const char *name)
{
    return openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static int plain_send(struct send *send, int dir_fd, const char *name, const struct stat *st,
                      struct err *err)
{
    struct stat now;
    scoped_fd fd = plain_open(dir_fd, name);

    if (fd < 0 || fstat(fd, &now) < 0) {
        return err_sys(err, "open %.200s", send->path);
    }
    if (!S_ISREG(now.st_mode) || now.st_ino != st->st_ino) {
        return err_set(err, EIO, "%.200s has become another file", send->path);
    }
    int r = entry_send(send, fd, NULL, &now, (struct str){NULL, 0}, err);
    return r < 0 ? r : content_send(send, fd, now.st_size, err);
}

/* All others are named, not opened. */
static int special_send(struct send *send, int dir_fd, const char *name, const struct stat *st,
                        struct err *err)
{
    char target[RECORD_PATH_BYTES_MAX + 1];
    ssize_t len = 0;

    if (S_ISCHR(st->st_mode) ? st->st_rdev != 0 : S_ISBLK(st->st_mode)) {
        return err_set(err, ENOTSUP, "%.200s is a device", send->path);
    }
    if (S_ISLNK(st->st_mode)) {
        len = readlinkat(dir_fd, name, target, sizeof(target));
        if (len <= 0 || len == (ssize_t)sizeof(target)) {
            return err_sys(err, "read the link %.200s", send->path);
        }
    }
    if (fchdir(dir_fd) < 0) {
        return err_sys(err, "enter the directory of %.200s", send->path);
    }
    return entry_send(send, -1, name, st, (struct str){target, (size_t)len}, err);
}

int send_file(struct send *send, int dir_fd, const char *name, const struct stat *st,
              struct err *err)
{
    struct send_file *file = NULL;
    const uint64_t inode = st->st_ino;

    /* overlayfs's marks of removed names share one inode, and are marks all the same. */
    if (st->st_nlink > 1 && !S_ISCHR(st->st_mode)) {
        HASH_FIND(hh, send->files, &inode, sizeof(inode), file);
        if (file) {
            send->entries++;
            return send_flush(
                send, record_put_link(&send->record, path_now(send), str_of(file->path)), err);
        }
        int r = file_note(send, inode, err);
        if (r < 0) {
            return r;
        }
    }
    return S_ISREG(st->st_mode) ? plain_send(send, dir_fd, name, st, err)
                                : special_send(send, dir_fd, name, st, err);
}

int send_dir(struct send *send, int fd, const struct stat *st, struct err *err)
{
    return entry_send(send, fd, NULL, st, (struct str){NULL, 0}, err);
}

int send_stamp(struct send *send, const struct stat *st, struct err *err)
{
    return send_flush(send,
                      record_put_stamp(&send->record, path_now(send), st->st_mtim.tv_sec,
                                       (uint32_t)st->st_mtim.tv_nsec),
                      err);
}

/* ---- trees ---- */

static void dir_closep(DIR **dir)
{
    if (*dir) {
        (void)closedir(*dir);
    }
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* The open directory, which is taken over. A path has at most RECORD_PATH_BYTES_MAX bytes, which
 * bounds the depth. */
static int tree_send(struct send *send, int fd, struct err *err)
{
    const size_t path_len = send->path_len;
    scoped(dir_closep) DIR *dir = fdopendir(fd);
    struct stat st;

    if (!dir) {
        int r = err_sys(err, "list %.200s", send->path);
        (void)close(fd);
        return r;
    }
    if (fstat(fd, &st) < 0) {
        return err_sys(err, "look at %.200s", send->path);
    }
    int r = send_dir(send, fd, &st, err);
    for (struct dirent *entry; r == 0 && (entry = readdir(dir));) {
        struct stat child;
        if (is_dots(entry->d_name)) {
            continue;
        }
        r = send_enter(send, entry->d_name, err);
        if (r == 0 && fstatat(fd, entry->d_name, &child, AT_SYMLINK_NOFOLLOW) < 0) {
            r = err_sys(err, "look at %.200s", send->path);
        }
        if (r == 0 && S_ISDIR(child.st_mode)) {
            int below = openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            r = below < 0 ? err_sys(err, "open %.200s", send->path) : tree_send(send, below, err);
        } else if (r == 0) {
            r = send_file(send, fd, entry->d_name, &child, err);
        }
        send_leave(send, path_len);
    }
    return r < 0 ? r : send_stamp(send, &st, err);
}

int send_tree(struct send *send, int dir_fd, struct err *err)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    send_leave(send, 0);
    return fd < 0 ? err_sys(err, "open the disk") : tree_send(send, fd, err);
}

int send_memory(struct send *send, int dir_fd, struct err *err)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    scoped(dir_closep) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    int r = 0;

    if (!dir) {
        r = err_sys(err, "list the images");
        fd_closep(&fd);
        return r;
    }
    for (struct dirent *entry; r == 0 && (entry = readdir(dir));) {
        struct stat st;
        if (entry->d_name[0] == '.') {
            continue;
        }
        send_leave(send, 0);
        r = send_enter(send, entry->d_name, err);
        if (r == 0 && fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            r = err_sys(err, "look at the image %.200s", send->path);
        }
        if (r == 0 && S_ISREG(st.st_mode)) {
            st.st_uid = st.st_gid = 0;
            r = plain_send(send, fd, entry->d_name, &st, err);
        }
    }
    send_leave(send, 0);
    return r;
}
