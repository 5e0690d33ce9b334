/* copy_local.c - this machine's end of a copy: files, directories and pipes. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/copy.h"
#include "cli/extract.h"
#include "cli/remote.h"
#include "lib/base/fd.h"
#include "lib/base/pid_wait.h"

enum { CHUNK_BYTES = 128 * 1024, WALK_FDS = 32 };

extern char **environ;

/* ---- bytes ---- */

/* Until `in` ends. With `counts` it is this side that knows how far the copy is. */
static int pump(struct copy *copy, int in, int out, bool counts, struct err *err)
{
    char chunk[CHUNK_BYTES];
    ssize_t n;

    while ((n = read(in, chunk, sizeof(chunk))) != 0) {
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return err_sys(err, "read");
        }
        int r = remote_write(out, (struct str){chunk, (size_t)n});
        if (r < 0) {
            return err_code(err, -r, "write");
        }
        if (counts) {
            atomic_fetch_add(&copy->moved, (long long)n);
        }
        if (atomic_load(&copy->cancelled)) {
            return err_set(err, EINTR, "interrupted");
        }
    }
    return 0;
}

int pipe_send(struct copy *copy, int out, struct err *err)
{
    return pump(copy, STDIN_FILENO, out, false, err);
}

int pipe_receive(struct copy *copy, int in, struct err *err)
{
    return pump(copy, in, STDOUT_FILENO, false, err);
}

/* ---- from here ---- */

static int tar_await(pid_t pid, struct err *err)
{
    int status = 0;

    if (pid_wait(pid, &status) < 0) {
        return err_sys(err, "wait for tar");
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0
               ? 0
               : err_set(err, EIO, "tar could not read all of the directory");
}

/* Names of users here mean nothing there. */
static int tree_send(const struct copy *copy, int out, struct err *err)
{
    const char *argv[] = {"tar",
                          "-C",
                          copy->from->path,
                          "--format=gnu",
                          "--owner=0",
                          "--group=0",
                          "--numeric-owner",
                          "-cf",
                          "-",
                          ".",
                          NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    pid_t pid;

    (void)sigemptyset(&none);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    (void)posix_spawnattr_init(&attributes);
    (void)posix_spawnattr_setsigmask(&attributes, &none);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    int error =
        posix_spawnp(&pid, "tar", &actions, &attributes, (char *const *)(uintptr_t)argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attributes);
    return error ? err_code(err, error, "start tar") : tar_await(pid, err);
}

int local_send(struct copy *copy, int out, struct err *err)
{
    if (copy->tree) {
        return tree_send(copy, out, err);
    }
    scoped_fd in = open(copy->from->path, O_RDONLY | O_CLOEXEC);
    return in < 0 ? err_sys(err, "open %s", copy->from->path) : pump(copy, in, out, false, err);
}

/* ---- to here ---- */

static int temporary_beside(const char *path, char out[COPY_PATH_BYTES], struct err *err)
{
    const char *slash = strrchr(path, '/');
    int dir_len = slash ? (int)(slash - path + 1) : 0;
    int n = snprintf(out, COPY_PATH_BYTES, "%.*s.atoll-cp-XXXXXX", dir_len, path);

    return n < COPY_PATH_BYTES ? 0 : err_set(err, ENAMETOOLONG, "%.60s... is too long", path);
}

static int whole(const struct copy *copy, struct err *err)
{
    return atomic_load(&copy->spoilt) ? err_set(err, EIO, "the source broke off") : 0;
}

static mode_t umask_now(void)
{
    mode_t mask = umask(022);

    (void)umask(mask);
    return mask;
}

/* A device or a pipe that is there is written to; a file is replaced when all has come. */
static int special_receive(struct copy *copy, int in, struct err *err)
{
    scoped_fd out = open(copy->to->path, O_WRONLY | O_CLOEXEC);

    return out < 0 ? err_sys(err, "open %s", copy->to->path) : pump(copy, in, out, false, err);
}

static int file_receive(struct copy *copy, int in, struct err *err)
{
    char temporary[COPY_PATH_BYTES];
    const char *path = copy->to->path;
    int r = temporary_beside(path, temporary, err);

    if (r < 0) {
        return r;
    }
    scoped_fd out = mkostemp(temporary, O_CLOEXEC);
    if (out < 0) {
        return err_sys(err, "make a file beside %s", path);
    }
    mode_t mode = copy->mode ? copy->mode & 0777 : 0666 & ~umask_now();
    r = pump(copy, in, out, false, err);
    r = r < 0 ? r : whole(copy, err);
    if (r == 0 && (fchmod(out, mode) < 0 || rename(temporary, path) < 0)) {
        r = err_sys(err, "write %s", path);
    }
    if (r < 0) {
        (void)unlink(temporary);
    }
    return r;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st, (void)kind, (void)where;
    (void)remove(path);
    return 0;
}

static int tree_fill(struct copy *copy, int in, const char *dir, bool is_new, struct err *err)
{
    scoped_fd root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = root < 0 ? err_sys(err, "open %s", dir)
                     : extract_tree(in, root, is_new, &copy->entries_skipped, err);

    return r < 0 ? r : copy_drain(copy, in, err);
}

/* A directory that was not there appears when it is complete. */
static int tree_receive(struct copy *copy, int in, struct err *err)
{
    char temporary[COPY_PATH_BYTES];
    const char *path = copy->to->path;

    if (copy->to->type == PLACE_DIRECTORY) {
        return tree_fill(copy, in, path, false, err);
    }
    int r = temporary_beside(path, temporary, err);
    if (r < 0) {
        return r;
    }
    if (!mkdtemp(temporary)) {
        return err_sys(err, "make a directory beside %s", path);
    }
    (void)chmod(temporary, 0777 & ~umask_now()); /* a stream may not say it */
    r = tree_fill(copy, in, temporary, true, err);
    if (r == 0 && rename(temporary, path) < 0) {
        r = err_sys(err, "write %s", path);
    }
    if (r < 0) {
        (void)nftw(temporary, remove_one, WALK_FDS, FTW_DEPTH | FTW_PHYS);
    }
    return r;
}

int local_receive(struct copy *copy, int in, struct err *err)
{
    return copy->tree                        ? tree_receive(copy, in, err)
           : copy->to->type == PLACE_SPECIAL ? special_receive(copy, in, err)
                                             : file_receive(copy, in, err);
}
