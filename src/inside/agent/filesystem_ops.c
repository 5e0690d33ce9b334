#include "inside/agent/filesystem_ops.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "inside/agent/internal.h"
#include "inside/agent/tree.h"
#include "lib/base/fd.h"

/* The code for an errno, with ENOBUFS, ENOSPC and EDQUOT told apart from our own failures. */
static enum rpc_code code_of(int r)
{
    return r == -ENOBUFS || r == -ENOSPC || r == -EDQUOT ? RPC_RESOURCE_EXHAUSTED : rpc_code_of(-r);
}

enum rpc_code fs_stat(struct arena *arena, const char *path, Filesystem__EntryInfo **out,
                      struct err *err)
{
    struct entry_names names = {0};
    int r = entry_read(arena, &names, path, path, out);

    if (r == 0) {
        return RPC_OK;
    }
    if (r == -ENOENT || r == -ENOTDIR) {
        (void)err_set(err, ENOENT, "file not found: %s: %s", path, strerror(-r));
        return RPC_NOT_FOUND;
    }
    (void)err_set(err, -r, "error getting file info: %s: %s", path, strerror(-r));
    return code_of(r);
}

enum rpc_code fs_resolve_directory(const char *path, char real[PATH_MAX], struct err *err)
{
    struct stat st;

    if (!realpath(path, real) || stat(real, &st) < 0) {
        int error = errno;
        if (error == ELOOP) {
            (void)err_set(err, error, "cyclic symlink or too many links at '%s'", path);
            return RPC_FAILED_PRECONDITION;
        }
        (void)err_set(err, error, "path not found: %s: %s", path, strerror(error));
        return error == ENOENT || error == ENOTDIR ? RPC_NOT_FOUND : code_of(-error);
    }
    if (!S_ISDIR(st.st_mode)) {
        (void)err_set(err, ENOTDIR, "path is not a directory: %s", path);
        return RPC_INVALID_ARGUMENT;
    }
    return RPC_OK;
}

enum rpc_code fs_list(struct arena *arena, const char *path, uint32_t depth,
                      Filesystem__EntryInfo ***out, size_t *n, struct err *err)
{
    char real[PATH_MAX];
    enum rpc_code code = fs_resolve_directory(path, real, err);

    if (code != RPC_OK) {
        return code;
    }
    int r = tree_list(arena, real, path, depth ? depth : 1, out, n);
    if (r == -ENOBUFS) {
        (void)err_set(err, ENOBUFS, "the listing of %s is too large: list it in parts", path);
    } else if (r < 0) {
        (void)err_set(err, -r, "error reading directory %s: %s", path, strerror(-r));
    }
    return r < 0 ? code_of(r) : RPC_OK;
}

/* A directory of ours is given to its owner through a descriptor: between mkdir and chown somebody
 * in the jail may put a link in its place. */
static int directory_make(const char *path, struct fs_owner owner)
{
    if (mkdir(path, 0755) < 0 && errno != EEXIST) {
        return -errno;
    }
    scoped_fd fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fchown(fd, owner.uid, owner.gid) < 0 || fchmod(fd, 0755) < 0) {
        return -errno;
    }
    return 0;
}

static int directory_ensure(const char *path, struct fs_owner owner, struct err *err)
{
    struct stat st;

    if (stat(path, &st) == 0) {
        return S_ISDIR(st.st_mode) ? 0 : err_set(err, ENOTDIR, "path is a file: %s", path);
    }
    if (errno != ENOENT) {
        return err_sys(err, "failed to stat directory %s", path);
    }
    int r = directory_make(path, owner);
    return r < 0 ? err_set(err, -r, "failed to create directory %s: %s", path, strerror(-r)) : 0;
}

int fs_make_dirs(const char *path, struct fs_owner owner, struct err *err)
{
    char prefix[AGENT_PATH_BYTES];
    size_t len = strnlen(path, sizeof(prefix) - 1);

    for (size_t i = 1; i <= len; i++) {
        if (path[i] != '/' && path[i] != '\0') {
            continue;
        }
        memcpy(prefix, path, i);
        prefix[i] = '\0';
        int r = directory_ensure(prefix, owner, err);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

int fs_make_parents(const char *path, struct fs_owner owner, struct err *err)
{
    char parent[AGENT_PATH_BYTES];
    size_t len = (size_t)(strrchr(path, '/') - path);

    (void)snprintf(parent, sizeof(parent), "%.*s", (int)len, path);
    return len == 0 ? 0 : fs_make_dirs(parent, owner, err);
}

enum rpc_code fs_make_dir(struct arena *arena, const char *path, struct fs_owner owner,
                          Filesystem__EntryInfo **out, struct err *err)
{
    struct stat st;

    if (stat(path, &st) == 0) {
        if (S_ISDIR(st.st_mode)) {
            (void)err_set(err, EEXIST, "directory already exists: %s", path);
            return RPC_ALREADY_EXISTS;
        }
        (void)err_set(err, EEXIST, "path already exists but it is not a directory: %s", path);
        return RPC_INVALID_ARGUMENT;
    }
    int r = fs_make_dirs(path, owner, err);
    if (r < 0) {
        return r == -ENOTDIR ? RPC_INVALID_ARGUMENT : code_of(r);
    }
    return fs_stat(arena, path, out, err);
}

enum rpc_code fs_move(struct arena *arena, const char *source, const char *destination,
                      struct fs_owner owner, Filesystem__EntryInfo **out, struct err *err)
{
    struct stat st;

    if (lstat(source, &st) < 0) { /* before any parent of the destination is made */
        int error = errno;
        (void)err_set(err, error, "source file not found: %s: %s", source, strerror(error));
        return error == ENOENT || error == ENOTDIR ? RPC_NOT_FOUND : code_of(-error);
    }
    int r = fs_make_parents(destination, owner, err);
    if (r < 0) {
        return r == -ENOTDIR ? RPC_INVALID_ARGUMENT : code_of(r);
    }
    if (rename(source, destination) < 0) {
        int error = errno;
        (void)err_set(err, error, "error renaming %s to %s: %s", source, destination,
                      strerror(error));
        return error == ENOENT ? RPC_NOT_FOUND : code_of(-error);
    }
    return fs_stat(arena, destination, out, err);
}

enum rpc_code fs_remove(const char *path, struct err *err)
{
    if (strcmp(path, "/") == 0) {
        (void)err_set(err, EINVAL, "the root directory cannot be removed");
        return RPC_INVALID_ARGUMENT;
    }
    int r = tree_remove(path);
    if (r < 0) {
        (void)err_set(err, -r, "error removing file or directory %s: %s", path, strerror(-r));
        return code_of(r);
    }
    return RPC_OK;
}
