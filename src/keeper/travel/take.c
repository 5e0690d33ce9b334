#include "keeper/travel/take.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "lib/base/fd.h"

enum { PERMISSIONS = 07777 };

/* ---- names ---- */

static int beneath(int root_fd, const char *path, uint64_t flags)
{
    const struct open_how how = {
        .flags = flags | O_CLOEXEC | O_NOFOLLOW,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
    };

    return (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
}

/* A path as a text, split into its directory and its last name. */
struct place {
    char path[RECORD_PATH_BYTES_MAX + 1];
    char parent[RECORD_PATH_BYTES_MAX + 1]; /* ".": the root */
    const char *name;
};

static void place_of(struct str path, struct place *out)
{
    memcpy(out->path, path.at, path.len);
    out->path[path.len] = '\0';
    const char *slash = strrchr(out->path, '/');
    out->name = slash ? slash + 1 : out->path;
    memcpy(out->parent, ".", 2);
    if (slash) {
        memcpy(out->parent, out->path, (size_t)(slash - out->path));
        out->parent[slash - out->path] = '\0';
    }
}

/* The directory of the last path stays open: most files follow another one of theirs. */
static int parent_open(struct take *take, const struct place *place, struct err *err)
{
    if (take->parent_fd >= 0 && strcmp(take->parent, place->parent) == 0) {
        return 0;
    }
    fd_closep(&take->parent_fd);
    take->parent_fd = beneath(take->root_fd, place->parent, O_RDONLY | O_DIRECTORY);
    if (take->parent_fd < 0) {
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP
                   ? err_set(err, EBADMSG, "the file is damaged: %.200s lies in no directory",
                             place->path)
                   : err_sys(err, "open the directory of %.200s", place->path);
    }
    memcpy(take->parent, place->parent, sizeof(take->parent));
    return 0;
}

static int made_not(const struct place *place, struct err *err)
{
    return errno == EEXIST
               ? err_set(err, EBADMSG, "the file is damaged: it has %.200s twice", place->path)
               : err_sys(err, "make %.200s", place->path);
}

/* ---- one file ---- */

static void times_of(int64_t s, uint32_t ns, struct timespec out[2])
{
    out[0] = (struct timespec){.tv_nsec = UTIME_NOW};
    out[1] = (struct timespec){.tv_sec = s, .tv_nsec = ns};
}

/* By the name in the working directory where there is no descriptor. */
static int attributes_set(int fd, const char *name, struct str rest, struct err *err)
{
    struct record_attribute one;

    while (record_attribute(&rest, &one)) {
        int r = fd >= 0 ? fsetxattr(fd, one.name, one.value.at, one.value.len, 0)
                        : lsetxattr(name, one.name, one.value.at, one.value.len, 0);
        if (r < 0) {
            return err_sys(err, "set the attribute %.64s of a file", one.name);
        }
    }
    return 0;
}

/* The owner comes first: a change of it takes set-user-id bits and capabilities away. */
static int open_settle(int fd, const struct record *entry, struct err *err)
{
    if (fchown(fd, entry->uid, entry->gid) < 0 || fchmod(fd, entry->mode & PERMISSIONS) < 0) {
        return err_sys(err, "set the owner and mode of a file");
    }
    return attributes_set(fd, NULL, entry->attributes, err);
}

static int plain_make(struct take *take, const struct place *place, const struct record *entry,
                      struct err *err)
{
    take->fd = openat(take->parent_fd, place->name,
                      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (take->fd < 0) {
        return made_not(place, err);
    }
    take->mode = entry->mode & PERMISSIONS;
    take->mtime_s = entry->mtime_s;
    take->mtime_ns = entry->mtime_ns;
    buf_clear(&take->attributes);
    if (fchown(take->fd, entry->uid, entry->gid) < 0 ||
        ftruncate(take->fd, (off_t)entry->size) < 0) {
        return err_sys(err, "make %.200s", place->path);
    }
    return buf_append(&take->attributes, entry->attributes.at, entry->attributes.len);
}

static int dir_make(struct take *take, const struct place *place, const struct record *entry,
                    struct err *err)
{
    const bool is_root = strcmp(place->path, ".") == 0;

    if (!is_root && mkdirat(take->parent_fd, place->name, 0700) < 0) {
        return made_not(place, err);
    }
    scoped_fd fd = beneath(take->root_fd, place->path, O_RDONLY | O_DIRECTORY);
    return fd < 0 ? err_sys(err, "open %.200s", place->path) : open_settle(fd, entry, err);
}

static int special_make(struct take *take, const struct place *place, const struct record *entry,
                        struct err *err)
{
    char target[RECORD_PATH_BYTES_MAX + 1];
    struct timespec times[2];
    const bool is_link = S_ISLNK(entry->mode);

    (void)str_copy(target, sizeof(target), entry->target);
    int r = is_link ? symlinkat(target, take->parent_fd, place->name)
                    : mknodat(take->parent_fd, place->name, entry->mode & (S_IFMT | 0700), 0);
    if (r < 0) {
        return made_not(place, err);
    }
    times_of(entry->mtime_s, entry->mtime_ns, times);
    if (fchownat(take->parent_fd, place->name, entry->uid, entry->gid, AT_SYMLINK_NOFOLLOW) < 0 ||
        (!is_link && fchmodat(take->parent_fd, place->name, entry->mode & PERMISSIONS, 0) < 0) ||
        fchdir(take->parent_fd) < 0) {
        return err_sys(err, "set the owner and mode of %.200s", place->path);
    }
    r = attributes_set(-1, place->name, entry->attributes, err);
    if (r == 0 && utimensat(take->parent_fd, place->name, times, AT_SYMLINK_NOFOLLOW) < 0) {
        r = err_sys(err, "set the time of %.200s", place->path);
    }
    return r;
}

static int entry_take(struct take *take, const struct record *entry, struct err *err)
{
    struct place place;

    place_of(entry->path, &place);
    int r = take_end(take, err);
    r = r < 0 ? r : parent_open(take, &place, err);
    if (r < 0) {
        return r;
    }
    if (S_ISREG(entry->mode)) {
        return plain_make(take, &place, entry, err);
    }
    return S_ISDIR(entry->mode) ? dir_make(take, &place, entry, err)
                                : special_make(take, &place, entry, err);
}

/* ---- the others ---- */

static int data_take(const struct take *take, const struct record *record, struct err *err)
{
    struct str left = record->bytes;
    off_t at = (off_t)record->offset;

    while (left.len > 0) {
        ssize_t n = pwrite(take->fd, left.at, left.len, at);
        if (n <= 0) {
            return err_sys(err, "write a file of the import");
        }
        left = str_skip(left, (size_t)n);
        at += n;
    }
    return 0;
}

/* The directory keeps its time: its STAMP may have come already. */
static int link_take(struct take *take, const struct record *record, struct err *err)
{
    struct place target, place;
    struct stat st;

    place_of(record->target, &target);
    place_of(record->path, &place);
    int r = take_end(take, err);
    r = r < 0 ? r : parent_open(take, &target, err);
    if (r < 0) {
        return r;
    }
    scoped_fd from = fcntl(take->parent_fd, F_DUPFD_CLOEXEC, 0);
    r = parent_open(take, &place, err);
    if (r < 0) {
        return r;
    }
    if (from < 0 || fstat(take->parent_fd, &st) < 0) {
        return err_sys(err, "open the directory of %.200s", place.path);
    }
    if (linkat(from, target.name, take->parent_fd, place.name, 0) < 0) {
        return errno == ENOENT || errno == EPERM
                   ? err_set(err, EBADMSG, "the file is damaged: %.200s is a link to nothing",
                             place.path)
                   : made_not(&place, err);
    }
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, st.st_mtim};
    return futimens(take->parent_fd, times) < 0 ? err_sys(err, "set the time of a directory") : 0;
}

static int stamp_take(struct take *take, const struct record *record, struct err *err)
{
    struct timespec times[2];
    struct place place;
    int r = take_end(take, err);

    if (r < 0) {
        return r;
    }
    place_of(record->path, &place);
    times_of(record->mtime_s, record->mtime_ns, times);
    scoped_fd fd = beneath(take->root_fd, place.path, O_RDONLY | O_DIRECTORY);
    if (fd < 0) {
        return err_set(err, EBADMSG, "the file is damaged: %.200s is no directory", place.path);
    }
    return futimens(fd, times) < 0 ? err_sys(err, "set the time of %.200s", place.path) : 0;
}

/* ---- the interface ---- */

int take_begin(struct take *take, int root_fd, struct err *err)
{
    int r = take_end(take, err);

    fd_closep(&take->parent_fd);
    take->root_fd = root_fd;
    return r;
}

int take_record(struct take *take, const struct record *record, struct err *err)
{
    switch ((int)record->kind) {
    case RECORD_ENTRY:
        return entry_take(take, record, err);
    case RECORD_DATA:
        return data_take(take, record, err);
    case RECORD_LINK:
        return link_take(take, record, err);
    default:
        return stamp_take(take, record, err);
    }
}

/* A write takes set-user-id bits and capabilities away, so these are set behind the last one. */
int take_end(struct take *take, struct err *err)
{
    struct timespec times[2];

    if (take->fd < 0) {
        return 0;
    }
    times_of(take->mtime_s, take->mtime_ns, times);
    int r = fchmod(take->fd, take->mode) < 0
                ? err_sys(err, "set the mode of a file")
                : attributes_set(take->fd, NULL, buf_str(&take->attributes), err);
    if (r == 0 && futimens(take->fd, times) < 0) {
        r = err_sys(err, "set the time of a file");
    }
    fd_closep(&take->fd);
    return r;
}

void take_fini(struct take *take)
{
    fd_closep(&take->fd);
    fd_closep(&take->parent_fd);
    buf_fini(&take->attributes);
}
