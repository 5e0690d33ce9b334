#include "inside/agent/volume_ops.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inside/agent/internal.h"
#include "inside/agent/tree.h"
#include "lib/base/clock.h"

static int refuse(struct err *err, const char *what, const char *path)
{
    int error = errno;

    if (error == ENOENT) {
        return err_set(err, ENOENT, "failed to %s: \"%s\" not found", what, path);
    }
    if (error == ENOTDIR) {
        return err_set(err, ENOTDIR, "failed to %s: a part of \"%s\" is not a directory", what,
                       path);
    }
    return err_set(err, error, "failed to %s \"%s\": %s", what, path, strerrordesc_np(error));
}

/* ---- entries ---- */

static json_t *time_json(struct timespec at)
{
    char text[CLOCK_STAMP_BYTES];

    clock_stamp((int64_t)at.tv_sec * 1000 + at.tv_nsec / 1000000, text);
    return json_string(text);
}

static const char *type_of(mode_t mode)
{
    return S_ISREG(mode)   ? "file"
           : S_ISDIR(mode) ? "directory"
           : S_ISLNK(mode) ? "symlink"
                           : "unknown";
}

static json_t *text_json(struct arena *arena, const char *text)
{
    const char *clean = entry_text(arena, str_of(text));

    return json_string(clean ? clean : "");
}

static json_t *entry_json(struct arena *arena, const char *path, const struct stat *st)
{
    const char *name = strrchr(path, '/') + 1;
    json_t *out = json_object();
    char target[AGENT_PATH_BYTES];

    (void)json_object_set_new(out, "name", text_json(arena, *name ? name : "/"));
    (void)json_object_set_new(out, "type", json_string(type_of(st->st_mode)));
    (void)json_object_set_new(out, "path", text_json(arena, path));
    (void)json_object_set_new(out, "size", json_integer(st->st_size));
    (void)json_object_set_new(out, "mode", json_integer(st->st_mode & VOLUME_MODE_MAX));
    (void)json_object_set_new(out, "uid", json_integer(st->st_uid));
    (void)json_object_set_new(out, "gid", json_integer(st->st_gid));
    (void)json_object_set_new(out, "atime", time_json(st->st_atim));
    (void)json_object_set_new(out, "mtime", time_json(st->st_mtim));
    (void)json_object_set_new(out, "ctime", time_json(st->st_ctim));
    ssize_t len = S_ISLNK(st->st_mode) ? readlink(path, target, sizeof(target) - 1) : -1;
    if (len >= 0) {
        target[len] = '\0';
        (void)json_object_set_new(out, "target", text_json(arena, target));
    }
    return out;
}

int volume_stat(const char *path, json_t **out, struct err *err)
{
    scoped_arena arena = ARENA(FS_LISTING_BYTES_MAX);
    struct stat st;

    if (lstat(path, &st) < 0) {
        return refuse(err, "stat", path);
    }
    *out = entry_json(&arena, path, &st);
    return 0;
}

int volume_list(const char *path, uint32_t depth, json_t **out, struct err *err)
{
    scoped_arena arena = ARENA(FS_LISTING_BYTES_MAX);
    Filesystem__EntryInfo **entries = NULL;
    json_t *list = NULL;
    struct stat st;
    size_t n = 0;

    int r = tree_list(&arena, path, path, depth, &entries, &n);
    if (r < 0) {
        errno = -r;
        return refuse(err, "list", path);
    }
    list = json_array();
    for (size_t i = 0; i < n; i++) {
        if (lstat(entries[i]->path, &st) == 0) { /* else it is gone by now */
            (void)json_array_append_new(list, entry_json(&arena, entries[i]->path, &st));
        }
    }
    *out = list;
    return 0;
}

/* ---- changes ---- */

/* Sets the mode after the owner, because a change of owner clears the setuid bit. Neither call
 * follows a link out of the volume: nothing outside of it is visible. */
static int give(const char *path, struct fs_owner owner, mode_t mode, struct err *err)
{
    if (chown(path, owner.uid, owner.gid) < 0 || chmod(path, mode) < 0) {
        return refuse(err, "set the owner and mode of", path);
    }
    return 0;
}

/* Makes the directory and what is missing above it. */
static int dirs_make(const char *path, struct fs_owner owner, struct err *err)
{
    char part[AGENT_PATH_BYTES];

    for (const char *slash = path; slash;) {
        slash = strchr(slash + 1, '/');
        (void)snprintf(part, sizeof(part), "%.*s",
                       slash ? (int)(slash - path) : (int)sizeof(part) - 1, path);
        if (mkdir(part, VOLUME_DIR_MODE) == 0) {
            int r = give(part, owner, VOLUME_DIR_MODE, err);
            if (r < 0) {
                return r;
            }
        } else if (errno != EEXIST) {
            return refuse(err, "make the directory", part);
        }
    }
    return 0;
}

static int parent_make(const char *path, struct fs_owner owner, struct err *err)
{
    char parent[AGENT_PATH_BYTES];
    const char *slash = strrchr(path, '/');

    if (slash == path) {
        return 0;
    }
    (void)snprintf(parent, sizeof(parent), "%.*s", (int)(slash - path), path);
    return dirs_make(parent, owner, err);
}

int volume_make_dir(const char *path, const struct volume_terms *terms, json_t **out,
                    struct err *err)
{
    struct stat st;
    int r = terms->force ? parent_make(path, terms->owner, err) : 0;

    if (r < 0) {
        return r;
    }
    if (mkdir(path, terms->mode & 0777) == 0) {
        r = give(path, terms->owner, terms->mode, err);
    } else if (errno != EEXIST) {
        r = refuse(err, "make the directory", path);
    } else if (!terms->force || stat(path, &st) < 0 || !S_ISDIR(st.st_mode)) {
        r = err_set(err, EEXIST, "failed to make the directory: \"%s\" exists already", path);
    }
    return r < 0 ? r : volume_stat(path, out, err);
}

int volume_set(const char *path, const struct volume_change *change, json_t **out, struct err *err)
{
    if ((change->uid >= 0 || change->gid >= 0) &&
        chown(path, change->uid < 0 ? (uid_t)-1 : (uid_t)change->uid,
              change->gid < 0 ? (gid_t)-1 : (gid_t)change->gid) < 0) {
        return refuse(err, "chown", path);
    }
    if (change->mode >= 0 && chmod(path, (mode_t)change->mode) < 0) {
        return refuse(err, "chmod", path);
    }
    return volume_stat(path, out, err);
}

int volume_remove(const char *path, struct err *err)
{
    struct stat st;

    if (strcmp(path, "/") == 0) {
        return err_set(err, EINVAL, "cannot delete root");
    }
    if (lstat(path, &st) < 0) {
        return refuse(err, "delete", path);
    }
    int r = tree_remove(path);
    if (r < 0) {
        errno = -r;
        return refuse(err, "delete", path);
    }
    return 0;
}

int volume_prepare(const char *path, const struct volume_terms *terms, struct err *err)
{
    char parent[AGENT_PATH_BYTES];
    struct stat st;

    if (terms->force) {
        return parent_make(path, terms->owner, err);
    }
    if (lstat(path, &st) == 0) {
        return err_set(err, EEXIST, "failed to write: \"%s\" exists already", path);
    }
    (void)snprintf(parent, sizeof(parent), "%.*s", (int)(strrchr(path, '/') + 1 - path), path);
    return stat(parent, &st) < 0 ? refuse(err, "write to", parent) : 0;
}
