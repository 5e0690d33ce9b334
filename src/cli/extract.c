#include "cli/extract.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/terminal_text.h"
#include "lib/base/alloc.h"
#include "lib/base/fd.h"
#include "lib/base/str.h"

enum {
    NAME_BYTES = 4096,
    NAME_SHOWN = 100,
    TEMPORARY_BYTES = 64,
    READ_BLOCK_BYTES = 64 * 1024,
    MODE_KEPT = 0777,
};

/* The mode of a directory is set at the end: one that is read-only must take its files first. */
struct directory {
    char *name;
    mode_t mode;
    struct timespec mtime;
    struct directory *next;
};

struct extract {
    struct archive *archive;
    int root;
    bool root_is_new;
    unsigned number;               /* of the next temporary name */
    struct directory *directories; /* the last comes first */
    atomic_int *skipped;
};

/* ---- names ---- */

static const char *shown(const char *name, char out[NAME_SHOWN + 1])
{
    (void)snprintf(out, NAME_SHOWN + 1, "%s", name);
    terminal_text_clean(out);
    for (char *c = out; *c; c++) {
        *c = *c == '\n' ? '?' : *c;
    }
    return out;
}

int extract_name(const char *name, char *out, size_t size, struct err *err)
{
    struct str rest = str_of(name), part;
    char text[NAME_SHOWN + 1];
    size_t n = 0;

    if (name[0] == '/') {
        return err_set(err, EINVAL, "the sandbox sent the absolute name '%s'", shown(name, text));
    }
    while (str_split(&rest, '/', &part)) {
        if (part.len == 0 || str_eq(part, STR("."))) {
            continue;
        }
        if (str_eq(part, STR(".."))) {
            return err_set(err, EINVAL, "the sandbox sent the name '%s', which leads out",
                           shown(name, text));
        }
        if (part.len > NAME_MAX || n + part.len + 2 > size) {
            return err_set(err, ENAMETOOLONG, "the sandbox sent a name that is too long: '%s'",
                           shown(name, text));
        }
        if (n > 0) {
            out[n++] = '/';
        }
        memcpy(out + n, part.at, part.len);
        n += part.len;
    }
    out[n] = '\0';
    return 0;
}

static int fail(struct err *err, const char *what, const char *name)
{
    char text[NAME_SHOWN + 1];
    int code = errno;

    if (code == ELOOP || code == ENOTDIR) {
        return err_set(err, code, "%s '%s': there is a link or a file on the way", what,
                       shown(name, text));
    }
    return err_code(err, code, "%s '%s'", what, shown(name, text));
}

/* The directory that holds `name`, made if it is missing; *last is the name in it. */
static int parent_open(const struct extract *x, char *name, const char **last, struct err *err)
{
    scoped_fd at = fcntl(x->root, F_DUPFD_CLOEXEC, 0);
    char *part = name, *slash;

    if (at < 0) {
        return err_sys(err, "open a directory");
    }
    while ((slash = strchr(part, '/'))) {
        *slash = '\0';
        if (mkdirat(at, part, 0777) < 0 && errno != EEXIST) {
            return fail(err, "make the directory", part);
        }
        int below = openat(at, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below < 0) {
            return fail(err, "open the directory", part);
        }
        fd_closep(&at);
        at = below;
        part = slash + 1;
    }
    *last = part;
    return move_fd(&at);
}

static void temporary_name(struct extract *x, char out[TEMPORARY_BYTES])
{
    (void)snprintf(out, TEMPORARY_BYTES, ".atoll-cp-%d-%u", (int)getpid(), x->number++);
}

/* Puts what was made under a temporary name in its place, or removes it. */
static int place(int dir, const char *temporary, const char *last, struct err *err)
{
    if (renameat(dir, temporary, dir, last) == 0) {
        return 0;
    }
    int r = fail(err, "write", last);
    (void)unlinkat(dir, temporary, 0);
    return r;
}

/* ---- entries ---- */

static struct timespec mtime_of(struct archive_entry *entry)
{
    return (struct timespec){archive_entry_mtime(entry), archive_entry_mtime_nsec(entry)};
}

static void times_set(int fd, struct timespec mtime)
{
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, mtime};

    (void)futimens(fd, times);
}

static int content_write(struct extract *x, int fd, int64_t size, const char *name, struct err *err)
{
    const void *data;
    size_t len;
    la_int64_t offset;
    int r;

    while ((r = archive_read_data_block(x->archive, &data, &len, &offset)) == ARCHIVE_OK) {
        while (len > 0) {
            ssize_t n = pwrite(fd, data, len, offset);
            if (n < 0) {
                return fail(err, "write", name);
            }
            data = (const char *)data + n;
            len -= (size_t)n;
            offset += n;
        }
    }
    if (r != ARCHIVE_EOF) {
        return err_set(err, EIO, "the stream from the sandbox broke off");
    }
    return ftruncate(fd, size) < 0 ? fail(err, "write", name) : 0; /* it may end with a hole */
}

static int file_make(struct extract *x, struct archive_entry *entry, int dir, const char *last,
                     struct err *err)
{
    char temporary[TEMPORARY_BYTES];

    temporary_name(x, temporary);
    scoped_fd fd =
        openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return fail(err, "write", last);
    }
    int r = content_write(x, fd, archive_entry_size(entry), last, err);
    if (r < 0) {
        (void)unlinkat(dir, temporary, 0);
        return r;
    }
    (void)fchmod(fd, archive_entry_perm(entry) & MODE_KEPT);
    times_set(fd, mtime_of(entry));
    return place(dir, temporary, last, err);
}

static int symlink_make(struct extract *x, struct archive_entry *entry, int dir, const char *last,
                        struct err *err)
{
    const char *target = archive_entry_symlink(entry);
    char temporary[TEMPORARY_BYTES];

    temporary_name(x, temporary);
    if (!target || symlinkat(target, dir, temporary) < 0) {
        return fail(err, "make the link", last);
    }
    return place(dir, temporary, last, err);
}

/* Another name of a file that came before. linkat() does not follow a link. */
static int hardlink_make(struct extract *x, const char *of, int dir, const char *last,
                         struct err *err)
{
    char name[NAME_BYTES], temporary[TEMPORARY_BYTES];
    const char *first = "";
    int r = extract_name(of, name, sizeof(name), err);
    scoped_fd first_dir = r < 0 ? r : parent_open(x, name, &first, err);

    if (first_dir < 0) {
        return first_dir;
    }
    temporary_name(x, temporary);
    if (linkat(first_dir, first, dir, temporary, 0) < 0) {
        return fail(err, "make the link", last);
    }
    return place(dir, temporary, last, err);
}

/* A directory that was there before keeps its mode: a sandbox does not open the user's directories.
 */
static int directory_make(struct extract *x, struct archive_entry *entry, int dir, const char *last,
                          const char *name, struct err *err)
{
    bool is_new = last[0] ? mkdirat(dir, last, 0700) == 0 : x->root_is_new;

    if (last[0] && !is_new && errno != EEXIST) {
        return fail(err, "make the directory", last);
    }
    if (is_new) {
        struct directory *directory = xnew(struct directory);

        *directory = (struct directory){.name = xstrdup(name),
                                        .mode = archive_entry_perm(entry) & MODE_KEPT,
                                        .mtime = mtime_of(entry),
                                        .next = x->directories};
        x->directories = directory;
    }
    return 0;
}

static int entry_make(struct extract *x, struct archive_entry *entry, struct err *err)
{
    const char *given = archive_entry_pathname(entry), *last = "";
    char name[NAME_BYTES] = "", whole[NAME_BYTES] = "";

    given = given ? given : archive_entry_pathname_utf8(entry);
    int r = given ? extract_name(given, name, sizeof(name), err)
                  : err_set(err, EILSEQ, "the sandbox sent a name that cannot be read");

    if (r < 0) {
        return r;
    }
    (void)str_copy(whole, sizeof(whole), str_of(name));
    scoped_fd dir = parent_open(x, name, &last, err);
    if (dir < 0) {
        return dir;
    }
    if (archive_entry_filetype(entry) == AE_IFDIR) {
        return directory_make(x, entry, dir, last, whole, err);
    }
    if (!last[0]) {
        return err_set(err, EINVAL, "the sandbox sent a file without a name");
    }
    if (archive_entry_hardlink(entry)) {
        return hardlink_make(x, archive_entry_hardlink(entry), dir, last, err);
    }
    switch (archive_entry_filetype(entry)) {
    case AE_IFREG:
        return file_make(x, entry, dir, last, err);
    case AE_IFLNK:
        return symlink_make(x, entry, dir, last, err);
    default:
        atomic_fetch_add(x->skipped, 1);
        return 0;
    }
}

/* ---- the whole ---- */

/* A directory of the stream may have been replaced by something else of the stream since. */
static void directories_finish(struct extract *x, bool apply)
{
    struct directory *directory;

    while ((directory = x->directories)) {
        struct err err;
        const char *last = "";
        char name[NAME_BYTES] = "";
        (void)str_copy(name, sizeof(name), str_of(directory->name));
        scoped_fd dir = apply ? parent_open(x, name, &last, &err) : -1;
        scoped_fd fd = dir < 0 ? -1
                               : openat(dir, last[0] ? last : ".",
                                        O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0) {
            (void)fchmod(fd, directory->mode);
            times_set(fd, directory->mtime);
        }
        x->directories = directory->next;
        free(directory->name);
        free(directory);
    }
}

static int entries_make(struct extract *x, struct err *err)
{
    struct archive_entry *entry;
    int r;

    while ((r = archive_read_next_header(x->archive, &entry)) == ARCHIVE_OK || r == ARCHIVE_WARN) {
        int made = entry_make(x, entry, err);
        if (made < 0) {
            return made;
        }
    }
    return r == ARCHIVE_EOF ? 0 : err_set(err, EIO, "the sandbox sent no valid tar stream");
}

int extract_tree(int in, int root, bool root_is_new, atomic_int *skipped, struct err *err)
{
    struct extract x = {.root = root,
                        .root_is_new = root_is_new,
                        .skipped = skipped,
                        .archive = archive_read_new()};

    if (!x.archive) {
        abort();
    }
    (void)archive_read_support_format_tar(x.archive);
    int r = archive_read_open_fd(x.archive, in, READ_BLOCK_BYTES) == ARCHIVE_OK
                ? entries_make(&x, err)
                : err_set(err, EIO, "the sandbox sent no valid tar stream");
    directories_finish(&x, r == 0);
    (void)archive_read_free(x.archive);
    return r;
}
