#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "inside/stow/stow.h"
#include "lib/base/fd.h"

struct reader {
    const uint8_t *at;
    size_t left;
    int top_fd;
    bool replaces; /* a file that exists already is removed */
};

/* A record with the data that follows it. */
struct item {
    struct stow_record record;
    const char *name; /* "" for none */
    const char *value;
};

/* ---- bytes ---- */

static const void *take(struct reader *r, uint64_t n)
{
    const void *at = r->at;

    if (n > r->left) {
        return NULL;
    }
    r->at += n;
    r->left -= n;
    return at;
}

static bool is_text(const char *at, uint64_t n)
{
    return at && n > 0 && memchr(at, '\0', n) == at + n - 1;
}

static int cut_off(struct err *err)
{
    (void)err_set(err, EINVAL, "the image of a file system in memory is cut off");
    return -EINVAL;
}

static int item_take(struct reader *r, struct item *out, struct err *err)
{
    const void *record = take(r, sizeof(out->record));

    if (!record) {
        return cut_off(err);
    }
    memcpy(&out->record, record, sizeof(out->record));
    const char *name = out->record.name_n ? take(r, out->record.name_n) : NULL;
    if (out->record.name_n && !is_text(name, out->record.name_n)) {
        return cut_off(err);
    }
    out->name = name ? name : "";
    out->value = take(r, out->record.value_n);
    return out->value ? 0 : cut_off(err);
}

/* Accepts one name in a directory, that does not lead elsewhere. */
static bool is_name(const char *name)
{
    return name[0] && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* ---- making ---- */

/* Makes room for a file. A directory stays: it gets what is missing, or refuses another type. */
static void node_replace(int at_fd, const struct item *item)
{
    struct stat st;

    if (fstatat(at_fd, item->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode)) {
        (void)unlinkat(at_fd, item->name, 0); /* the call that makes the file tells of a failure */
    }
}

static int node_make(int at_fd, const struct item *item, struct err *err)
{
    mode_t mode = item->record.mode;
    int r = -1;

    if (S_ISDIR(mode)) {
        r = mkdirat(at_fd, item->name, 0700);
        r = r < 0 && errno == EEXIST ? 0 : r; /* a mount point that exists already */
    } else if (S_ISLNK(mode)) {
        if (!is_text(item->value, item->record.value_n)) {
            return cut_off(err);
        }
        r = symlinkat(item->value, at_fd, item->name);
    } else {
        r = mknodat(at_fd, item->name, (mode & S_IFMT) | 0600, item->record.device);
    }
    return r < 0 ? err_sys(err, "make %s", item->name) : 0;
}

static int link_make(const struct reader *r, int at_fd, const struct item *item, struct err *err)
{
    if (!is_name(item->name) || !is_text(item->value, item->record.value_n)) {
        return cut_off(err);
    }
    if (r->replaces) {
        node_replace(at_fd, item);
    }
    return linkat(r->top_fd, item->value, at_fd, item->name, 0) < 0
               ? err_sys(err, "make %s a name of %s", item->name, item->value)
               : 0;
}

static int piece_write(int fd, const struct item *item, struct err *err)
{
    uint64_t done = 0;

    while (done < item->record.value_n) {
        ssize_t n = pwrite(fd, item->value + done, item->record.value_n - done,
                           (off_t)(item->record.at + done));
        if (n <= 0) {
            return err_sys(err, "write a file");
        }
        done += (uint64_t)n;
    }
    return 0;
}

static int dir_empty(int fd, struct err *err);

static int entry_remove(int dir_fd, const char *name, struct err *err)
{
    if (unlinkat(dir_fd, name, 0) == 0) {
        return 0;
    }
    scoped_fd fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return err_sys(err, "remove %s", name);
    }
    int r = dir_empty(fd, err);
    return r == 0 && unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 ? err_sys(err, "remove %s", name) : r;
}

static int dir_empty(int fd, struct err *err)
{
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    DIR *dir = own < 0 ? NULL : fdopendir(own);
    int r = dir ? 0 : err_sys(err, "list a directory");

    for (struct dirent *entry; r == 0 && (entry = readdir(dir));) {
        r = is_name(entry->d_name) ? entry_remove(fd, entry->d_name, err) : 0;
    }
    if (dir) {
        (void)closedir(dir);
    } else {
        fd_closep(&own);
    }
    return r;
}

/* Labels of the machine's security module are not copied. An overlay's directory with the mark
 * hides the one below it, whose files are here now: none of its own has been read yet. */
static int attribute_set(const struct reader *r, int fd, const struct item *item, struct err *err)
{
    if (r->replaces && strcmp(item->name, STOW_OPAQUE) == 0) {
        return dir_empty(fd, err);
    }
    if (fsetxattr(fd, item->name, item->value, item->record.value_n, 0) < 0 && errno != EPERM &&
        errno != EOPNOTSUPP) {
        return err_sys(err, "set the attribute %s", item->name);
    }
    return 0;
}

/* Set last: writing to a file changes its times and may clear mode bits. */
static int marks_set(int at_fd, const struct item *item, struct err *err)
{
    const struct stow_record *record = &item->record;
    const struct timespec times[2] = {{record->atime_s, record->atime_ns},
                                      {record->mtime_s, record->mtime_ns}};

    if ((!S_ISLNK(record->mode) && fchmodat(at_fd, item->name, record->mode & 07777, 0) < 0) ||
        utimensat(at_fd, item->name, times, AT_SYMLINK_NOFOLLOW) < 0) {
        return err_sys(err, "set the mode and times of %s", item->name);
    }
    return 0;
}

static int file_take(struct reader *r, int at_fd, const struct item *item, struct err *err);

/* Reads the records of the file that is open as fd, or of a file that cannot be opened. */
static int part_take(struct reader *r, int fd, const struct item *part, struct err *err)
{
    if (fd < 0) {
        return cut_off(err);
    }
    switch (part->record.kind) {
    case STOW_FILE:
        return is_name(part->name) ? file_take(r, fd, part, err) : cut_off(err);
    case STOW_LINK:
        return link_make(r, fd, part, err);
    case STOW_ATTRIBUTE:
        return attribute_set(r, fd, part, err);
    case STOW_PIECE:
        return piece_write(fd, part, err);
    default:
        return cut_off(err);
    }
}

static int content_open(int at_fd, const struct item *item)
{
    int flags = S_ISDIR(item->record.mode) ? O_RDONLY | O_DIRECTORY : O_RDWR;

    return openat(at_fd, item->name, flags | O_NOFOLLOW | O_CLOEXEC);
}

static int content_take(struct reader *r, int at_fd, const struct item *item, struct err *err)
{
    bool opens = S_ISDIR(item->record.mode) || S_ISREG(item->record.mode);
    scoped_fd fd = opens ? content_open(at_fd, item) : -1;
    struct item part;

    if (opens && fd < 0) {
        return err_sys(err, "open %s", item->name);
    }
    if (S_ISREG(item->record.mode) && ftruncate(fd, (off_t)item->record.size) < 0) {
        return err_sys(err, "size %s", item->name);
    }
    for (;;) {
        int got = item_take(r, &part, err);
        if (got < 0 || part.record.kind == STOW_END) {
            return got;
        }
        got = part_take(r, fd, &part, err);
        if (got < 0) {
            return got;
        }
    }
}

/* Owners are set first: a change of owner clears mode bits and capabilities. */
static int file_fill(struct reader *r, int at_fd, const struct item *item, struct err *err)
{
    if (fchownat(at_fd, item->name, item->record.uid, item->record.gid, AT_SYMLINK_NOFOLLOW) < 0) {
        return err_sys(err, "set the owner of %s", item->name);
    }
    int got = content_take(r, at_fd, item, err);
    return got < 0 ? got : marks_set(at_fd, item, err);
}

static int file_take(struct reader *r, int at_fd, const struct item *item, struct err *err)
{
    if (r->replaces) {
        node_replace(at_fd, item);
    }
    int made = node_make(at_fd, item, err);

    return made < 0 ? made : file_fill(r, at_fd, item, err);
}

static int all_take(struct reader *r, struct err *err)
{
    const char *magic = take(r, sizeof(STOW_MAGIC));
    struct item top;

    if (!magic || memcmp(magic, STOW_MAGIC, sizeof(STOW_MAGIC)) != 0) {
        return err_set(err, EINVAL, "this is no image of a file system in memory");
    }
    int got = item_take(r, &top, err);
    if (got < 0) {
        return got;
    }
    if (top.record.kind != STOW_FILE || !S_ISDIR(top.record.mode) || strcmp(top.name, ".") != 0) {
        return cut_off(err);
    }
    return file_fill(r, r->top_fd, &top, err);
}

static int image_read(int in_fd, int dir_fd, bool replaces, struct err *err)
{
    struct stat st;

    if (fstat(in_fd, &st) < 0) {
        return err_sys(err, "look at the image of a file system in memory");
    }
    if (st.st_size < (off_t)sizeof(STOW_MAGIC)) {
        return cut_off(err);
    }
    size_t size = (size_t)st.st_size;
    void *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, in_fd, 0);
    if (bytes == MAP_FAILED) {
        return err_sys(err, "read the image of a file system in memory");
    }
    struct reader reader = {.at = bytes, .left = size, .top_fd = dir_fd, .replaces = replaces};
    int r = all_take(&reader, err);
    (void)munmap(bytes, size);
    return r;
}

int stow_read(int in_fd, int dir_fd, struct err *err)
{
    return image_read(in_fd, dir_fd, false, err);
}

int stow_read_over(int in_fd, int dir_fd, struct err *err)
{
    return image_read(in_fd, dir_fd, true, err);
}
