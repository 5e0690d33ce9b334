/* copy.c - copies files into a template, by the rules of COPY.
 *
 * A source that is a file or a link becomes the target, or goes into it when that is a directory.
 * The contents of a source directory are merged into the target: existing directories are kept,
 * files and links are replaced, links to directories are followed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "inside/unpack/internal.h"
#include "lib/base/fd.h"

enum {
    SHOWN_BYTES = 120,
    MODE_BITS = 07777,
};

static int refuse(const char *path, const char *why, struct err *err)
{
    char shown[SHOWN_BYTES];

    return err_set(err, EINVAL, "%s: /%s", why, name_show(path, shown, sizeof(shown)));
}

static int join(const char *dir, const char *name, char out[PATH_BYTES], struct err *err)
{
    int n = snprintf(out, PATH_BYTES, "%s%s%s", dir, dir[0] && name[0] ? "/" : "", name);

    return n < PATH_BYTES ? 0 : refuse(name, "the name is too long", err);
}

/* Finds the target of a path of the archive. -ENOENT: the path is not part of the source. */
static int target_of(struct unpacker *u, const char *path, bool is_dir, char out[PATH_BYTES],
                     struct err *err)
{
    const struct options *o = u->options;
    size_t n, len = strlen(o->source);

    if (!name_is_below(path, o->source)) {
        return -ENOENT;
    }
    if (path[len] != '\0') { /* a file below the source */
        return join(o->target, path + len + (len > 0), out, err);
    }
    if (!is_dir && (o->target_is_dir || rootdir_is_dir(&u->root, o->target))) {
        return join(o->target, name_last(path, &n), out, err);
    }
    return join(o->target, "", out, err);
}

static struct attributes attributes_of(const struct unpacker *u, struct archive_entry *entry)
{
    int chmod = u->options->chmod;

    return (struct attributes){
        .uid = u->uid,
        .gid = u->gid,
        .mode = chmod >= 0 ? (mode_t)chmod : archive_entry_perm(entry) & MODE_BITS,
        .mtime = {.tv_sec = archive_entry_mtime(entry), .tv_nsec = archive_entry_mtime_nsec(entry)},
    };
}

/* ---- a function for each kind ---- */

static int dir_copy(struct unpacker *u, struct archive_entry *entry, const char *path,
                    struct err *err)
{
    const struct attributes attr = attributes_of(u, entry);

    if (rootdir_is_dir(&u->root, path)) {
        return 0;
    }
    int r = rootdir_dir(&u->root, path, err);
    return r < 0 ? r : rootdir_attributes(&u->root, path, &attr, false, err);
}

static int make_room(struct unpacker *u, const char *path, struct err *err)
{
    struct stat st;
    int r = rootdir_stat(&u->root, path, &st, err);

    if (r == -ENOENT) {
        return 0;
    }
    if (r == 0 && S_ISDIR(st.st_mode)) {
        return refuse(path, "a file cannot be copied over a directory", err);
    }
    return r < 0 ? r : rootdir_remove(&u->root, path, NULL, err);
}

static int file_copy(struct unpacker *u, const char *path, const struct attributes *attr,
                     struct err *err)
{
    scoped_fd fd = rootdir_file(&u->root, path, err);
    int r = fd < 0 ? fd : stream_data(u, fd, path, err);

    return r < 0 ? r : rootdir_file_attributes(fd, path, attr, err);
}

static int hardlink_copy(struct unpacker *u, const char *path, const char *target, struct err *err)
{
    char inside[PATH_BYTES], to[PATH_BYTES];
    int r = name_check(target, inside, err);

    if (r == 0) {
        r = target_of(u, inside, false, to, err);
    }
    if (r == -ENOENT) {
        return refuse(path, "a hard link leads out of what is copied", err);
    }
    return r < 0 ? r : rootdir_hardlink(&u->root, path, to, err);
}

static int other_copy(struct unpacker *u, struct archive_entry *entry, const char *path,
                      struct err *err)
{
    const struct attributes attr = attributes_of(u, entry);
    int r = make_room(u, path, err);

    if (r < 0) {
        return r;
    }
    if (archive_entry_hardlink(entry)) {
        return hardlink_copy(u, path, archive_entry_hardlink(entry), err);
    }
    if (archive_entry_filetype(entry) == AE_IFREG) {
        return file_copy(u, path, &attr, err);
    }
    if (archive_entry_filetype(entry) == AE_IFLNK && archive_entry_symlink(entry)) {
        r = rootdir_symlink(&u->root, path, archive_entry_symlink(entry), err);
        return r < 0 ? r : rootdir_attributes(&u->root, path, &attr, true, err);
    }
    return refuse(path, "a device or something else that is no file cannot be copied", err);
}

int copy_entry(struct unpacker *u, struct archive_entry *entry, struct err *err)
{
    char name[PATH_BYTES], path[PATH_BYTES], shown[SHOWN_BYTES];
    bool is_dir = !archive_entry_hardlink(entry) && archive_entry_filetype(entry) == AE_IFDIR;
    int r = name_check(archive_entry_pathname(entry), name, err);

    if (r == 0) {
        r = target_of(u, name, is_dir, path, err);
    }
    if (r < 0) {
        return r == -ENOENT ? 0 : r;
    }
    u->matched = true;
    r = is_dir ? dir_copy(u, entry, path, err) : other_copy(u, entry, path, err);
    if (r == -EXDEV) {
        return err_set(err, EINVAL, "nothing can be copied below /dev, /proc, /sys and /run: /%s",
                       name_show(path, shown, sizeof(shown)));
    }
    return r;
}
