/* layer.c - applies a layer of an image, by the rules of the OCI image specification. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "inside/unpack/internal.h"
#include "lib/base/fd.h"

#define WHITEOUT ".wh."
#define WHITEOUT_META ".wh..wh."
#define WHITEOUT_OPAQUE ".wh..wh..opq"

enum {
    SHOWN_BYTES = 120,
    MODE_BITS = 07777,
    ID_MAX = 65535,
};

/* Directories that every jail mounts itself. */
static bool is_left_out(const char *path)
{
    static const char *const dirs[] = {"dev", "proc", "sys", "run"};

    for (size_t i = 0; i < countof(dirs); i++) {
        if (name_is_below(path, dirs[i])) {
            return true;
        }
    }
    return path[0] == '\0';
}

static int refuse(const char *path, const char *why, struct err *err)
{
    char shown[SHOWN_BYTES];

    return err_set(err, EINVAL, "the archive holds %s: /%s", why,
                   name_show(path, shown, sizeof(shown)));
}

/* ---- removals ---- */

static int whiteout(struct unpacker *u, const char *path, struct err *err)
{
    char hidden[PATH_BYTES];
    size_t n;
    const char *last = name_last(path, &n);

    memcpy(hidden, path, n);
    hidden[n] = '\0';
    if (strcmp(last, WHITEOUT_OPAQUE) == 0) {
        return rootdir_empty(&u->root, hidden, &u->made, err);
    }
    if (str_starts(str_of(last), STR(WHITEOUT_META))) {
        return 0; /* private notes of the tool that made the layer */
    }
    last += strlen(WHITEOUT);
    if (last[0] == '\0' || strcmp(last, ".") == 0 || strcmp(last, "..") == 0) {
        return refuse(path, "a removal that names nothing", err);
    }
    size_t at = n > 0 ? n + 1 : 0; /* after the '/' of the whole path */
    memcpy(hidden, path, at);
    memcpy(hidden + at, last, strlen(last) + 1);
    return is_left_out(hidden) ? 0 : rootdir_remove(&u->root, hidden, &u->made, err);
}

/* ---- additions ---- */

/* Replaces an existing file, unless both are directories: then only the attributes change. */
static int make_room(struct unpacker *u, const char *path, bool for_dir, bool *is_there,
                     struct err *err)
{
    struct stat st;
    int r = rootdir_stat(&u->root, path, &st, err);

    *is_there = r == 0 && for_dir && S_ISDIR(st.st_mode);
    if (r == -ENOENT || *is_there) {
        return 0;
    }
    return r < 0 ? r : rootdir_remove(&u->root, path, NULL, err);
}

static int attributes_read(struct archive_entry *entry, const char *path, struct attributes *out,
                           struct err *err)
{
    la_int64_t uid = archive_entry_uid(entry), gid = archive_entry_gid(entry);

    if (uid < 0 || uid > ID_MAX || gid < 0 || gid > ID_MAX) {
        return refuse(path, "an owner above 65535", err);
    }
    *out = (struct attributes){
        .uid = (uid_t)uid,
        .gid = (gid_t)gid,
        .mode = archive_entry_perm(entry) & MODE_BITS,
        .mtime = {.tv_sec = archive_entry_mtime(entry), .tv_nsec = archive_entry_mtime_nsec(entry)},
    };
    return 0;
}

/* Capabilities of programs, and user attributes. Security labels and ACLs of other machines mean
 * nothing here. */
static int xattrs_set(struct archive_entry *entry, int fd, const char *path, struct err *err)
{
    const char *name;
    const void *value;
    size_t len;
    char shown[SHOWN_BYTES];

    (void)archive_entry_xattr_reset(entry);
    while (archive_entry_xattr_next(entry, &name, &value, &len) == ARCHIVE_OK) {
        bool wanted = name && (strcmp(name, "security.capability") == 0 ||
                               str_starts(str_of(name), STR("user.")));
        if (wanted && fsetxattr(fd, name, value, len, 0) < 0 && errno != EOPNOTSUPP) {
            return err_sys(err, "set the attribute %.60s of /%s", name,
                           name_show(path, shown, sizeof(shown)));
        }
    }
    return 0;
}

static int file_add(struct unpacker *u, struct archive_entry *entry, const char *path,
                    const struct attributes *attr, struct err *err)
{
    scoped_fd fd = rootdir_file(&u->root, path, err);
    int r = fd < 0 ? fd : stream_data(u, fd, path, err);

    if (r == 0) {
        r = rootdir_file_attributes(fd, path, attr, err);
    }
    return r < 0 ? r : xattrs_set(entry, fd, path, err);
}

static int hardlink_add(struct unpacker *u, const char *path, const char *target, struct err *err)
{
    char to[PATH_BYTES];
    int r = name_check(target, to, err);

    if (r < 0) {
        return r;
    }
    if (to[0] == '\0' || is_left_out(to)) {
        return refuse(path, "a hard link to what is not the image's", err);
    }
    return rootdir_hardlink(&u->root, path, to, err);
}

static int entry_make(struct unpacker *u, struct archive_entry *entry, const char *path,
                      struct err *err)
{
    struct attributes attr;
    int r = attributes_read(entry, path, &attr, err);

    if (r < 0) {
        return r;
    }
    switch (archive_entry_filetype(entry)) {
    case AE_IFREG:
        return file_add(u, entry, path, &attr, err);
    case AE_IFLNK:
        if (!archive_entry_symlink(entry)) {
            return refuse(path, "a link without a target", err);
        }
        r = rootdir_symlink(&u->root, path, archive_entry_symlink(entry), err);
        return r < 0 ? r : rootdir_attributes(&u->root, path, &attr, true, err);
    case AE_IFIFO:
        r = rootdir_fifo(&u->root, path, err);
        return r < 0 ? r : rootdir_attributes(&u->root, path, &attr, false, err);
    default:
        return refuse(path, "a device or something else that is no file", err);
    }
}

static int dir_add(struct unpacker *u, struct archive_entry *entry, const char *path, bool is_there,
                   struct err *err)
{
    struct attributes attr;
    int r = attributes_read(entry, path, &attr, err);

    if (r == 0 && !is_there) {
        r = rootdir_dir(&u->root, path, err);
    }
    return r < 0 ? r : rootdir_attributes(&u->root, path, &attr, false, err);
}

static int entry_add(struct unpacker *u, struct archive_entry *entry, const char *path,
                     struct err *err)
{
    const char *hardlink = archive_entry_hardlink(entry);
    bool is_dir = !hardlink && archive_entry_filetype(entry) == AE_IFDIR;
    bool is_there = false;
    int r = make_room(u, path, is_dir, &is_there, err);

    if (r < 0) {
        return r;
    }
    if (hardlink) {
        r = hardlink_add(u, path, hardlink, err);
    } else if (is_dir) {
        r = dir_add(u, entry, path, is_there, err);
    } else {
        r = entry_make(u, entry, path, err);
    }
    if (r == 0) {
        made_add(&u->made, str_of(path));
    }
    return r;
}

int layer_entry(struct unpacker *u, struct archive_entry *entry, struct err *err)
{
    char path[PATH_BYTES];
    size_t n;
    int r = name_check(archive_entry_pathname(entry), path, err);

    if (r < 0 || is_left_out(path)) {
        return r;
    }
    r = str_starts(str_of(name_last(path, &n)), STR(WHITEOUT)) ? whiteout(u, path, err)
                                                               : entry_add(u, entry, path, err);
    /* -EXDEV: a link leads to a directory that jails mount themselves, such as /var/run. */
    return r == -EXDEV ? 0 : r;
}
