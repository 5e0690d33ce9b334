/* A tree of files through stow and back, and streams that are no such thing. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "inside/stow/stow.h"
#include "lib/base/compiler.h"
#include "lib/base/fd.h"
#include "tmpdir.h"

enum {
    HOLE_AT = 8 * 1024 * 1024,
    DEPTH = 600, /* of names of ten bytes: longer than any path may be */
    TOO_DEEP = 4200,
};

static struct err err;

static int dir_new(int top, const char *name)
{
    if (mkdirat(top, name, 0755) < 0) {
        abort();
    }
    return openat(top, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void file_new(int dir, const char *name, const char *text, mode_t mode)
{
    scoped_fd fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (write(fd, text, strlen(text)) != (ssize_t)strlen(text) || fchmod(fd, mode) < 0) {
        abort();
    }
}

static struct stat look(int dir, const char *name)
{
    struct stat st = {0};

    (void)fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW); /* nothing is like nothing */
    return st;
}

static int memory_file(void)
{
    return memfd_create("image", MFD_CLOEXEC);
}

static void text_check(int dir, const char *name, const char *text)
{
    char found[256] = "";
    scoped_fd fd = openat(dir, name, O_RDONLY | O_CLOEXEC);

    CHECK_THAT(read(fd, found, sizeof(found) - 1) >= 0, "%s cannot be read", name);
    CHECK_STR(found, text);
}

static void tree_make(int dir)
{
    const struct timespec times[2] = {{1000, 1}, {1234567890, 123456789}};
    scoped_fd sparse = openat(dir, "sparse", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    file_new(dir, "plain", "words\n", 04751);
    CHECK_INT(mkdirat(dir, "below", 0700), 0);
    file_new(dir, "below/empty", "", 0400);
    CHECK_INT(linkat(dir, "plain", dir, "below/again", 0), 0);
    CHECK_INT(symlinkat("/nowhere/at all", dir, "link"), 0);
    CHECK_INT(mkfifoat(dir, "pipe", 0622), 0);
    CHECK_INT(pwrite(sparse, "end", 3, HOLE_AT), 3);
    CHECK_INT(ftruncate(sparse, (off_t)HOLE_AT * 2), 0);
    CHECK_INT(fchmodat(dir, ".", 01777, 0), 0);
    CHECK_INT(utimensat(dir, "plain", times, 0), 0);
    CHECK_INT(utimensat(dir, "below", times, 0), 0);
    CHECK_INT(utimensat(dir, "link", times, AT_SYMLINK_NOFOLLOW), 0);
}

static void same_check(int a, int b, const char *name)
{
    struct stat was = look(a, name), is = look(b, name);

    CHECK_THAT(was.st_mode == is.st_mode, "%s: mode %o, not %o", name, is.st_mode, was.st_mode);
    CHECK_THAT(was.st_uid == is.st_uid && was.st_gid == is.st_gid, "%s: the owner", name);
    CHECK_THAT(S_ISDIR(was.st_mode) || was.st_size == is.st_size, "%s: the size", name);
    CHECK_THAT(was.st_mtim.tv_sec == is.st_mtim.tv_sec && was.st_mtim.tv_nsec == is.st_mtim.tv_nsec,
               "%s: the time", name);
}

static void a_tree_comes_back_as_it_was(void)
{
    static const char *const names[] = {"below", "below/again", "below/empty", "link",
                                        "pipe",  "plain",       "sparse",      "."};
    scoped_tmpdir top = tmpdir_make();
    scoped_fd from = dir_new(top.fd, "from"), to = dir_new(top.fd, "to"), image = memory_file();
    char target[64] = "";
    struct stat st;

    tree_make(from);
    CHECK_INT(stow_write(from, image, &err), 0);
    CHECK_INT(fstat(image, &st), 0);
    CHECK_THAT(st.st_size < HOLE_AT, "the hole was written");
    CHECK_INT(stow_read(image, to, &err), 0);
    for (size_t i = 0; i < countof(names); i++) {
        same_check(from, to, names[i]);
    }
    text_check(to, "plain", "words\n");
    CHECK_THAT(look(to, "plain").st_ino == look(to, "below/again").st_ino, "two files of one");
    CHECK(readlinkat(to, "link", target, sizeof(target) - 1) > 0);
    CHECK_STR(target, "/nowhere/at all");
    scoped_fd sparse = openat(to, "sparse", O_RDONLY | O_CLOEXEC);
    CHECK_INT(pread(sparse, target, 3, HOLE_AT), 3);
    CHECK_INT(memcmp(target, "end", 3), 0);
}

/* Down from there, to the last of them; with `made`, each is made on the way. */
static int descend(int top, bool made, int *fds, int n)
{
    for (int i = 0; i < n; i++) {
        int at = i ? fds[i - 1] : top;
        if (made && mkdirat(at, "directory", 0755) < 0) {
            return -errno;
        }
        fds[i] = openat(at, "directory", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fds[i] < 0) {
            return -errno;
        }
    }
    return 0;
}

/* No path of theirs can be given to anybody who removes them. */
static void ascend(int top, int *fds, int n)
{
    (void)unlinkat(fds[n - 1], "last", 0);
    for (int i = n; i-- > 0;) {
        (void)close(fds[i]);
        (void)unlinkat(i ? fds[i - 1] : top, "directory", AT_REMOVEDIR);
    }
}

static void a_deep_tree_comes_back(void)
{
    int was[DEPTH], is[DEPTH];
    scoped_tmpdir top = tmpdir_make();
    scoped_fd from = dir_new(top.fd, "from"), to = dir_new(top.fd, "to"), image = memory_file();

    (void)fd_allow_most();
    CHECK_INT(descend(from, true, was, DEPTH), 0);
    file_new(was[DEPTH - 1], "last", "here", 0644);
    int wrote = stow_write(from, image, &err);
    ascend(from, was, DEPTH);
    CHECK_INT(wrote, 0);
    CHECK_INT(stow_read(image, to, &err), 0);
    CHECK_INT(descend(to, false, is, DEPTH), 0);
    text_check(is[DEPTH - 1], "last", "here");
    ascend(to, is, DEPTH);
}

static void a_tree_that_is_too_deep_is_refused(void)
{
    static int was[TOO_DEEP];
    scoped_tmpdir top = tmpdir_make();
    scoped_fd from = dir_new(top.fd, "from"), image = memory_file();

    (void)fd_allow_most();
    CHECK_INT(descend(from, true, was, TOO_DEEP), 0);
    int wrote = stow_write(from, image, &err);
    ascend(from, was, TOO_DEEP);
    CHECK_INT(wrote, -ENAMETOOLONG);
    CHECK_THAT(strstr(err.msg, "deep"), "it says: %s", err.msg);
}

static void what_is_cut_off_is_refused(void)
{
    scoped_tmpdir top = tmpdir_make();
    scoped_fd from = dir_new(top.fd, "from"), image = memory_file();
    struct stat st;

    file_new(from, "plain", "words\n", 0644);
    CHECK_INT(symlinkat("there", from, "link"), 0);
    CHECK_INT(stow_write(from, image, &err), 0);
    CHECK_INT(fstat(image, &st), 0);
    for (off_t size = st.st_size; size-- > 0;) {
        char name[32];
        (void)snprintf(name, sizeof(name), "%lld", (long long)size);
        scoped_fd to = dir_new(top.fd, name);
        CHECK_INT(ftruncate(image, size), 0);
        CHECK_INT(stow_read(image, to, &err), -EINVAL);
    }
}

static void a_name_leads_nowhere_else(void)
{
    static const char *const names[] = {"a/b", "..", ".", "/a", ""};
    struct stow_record top = {.kind = STOW_FILE, .mode = S_IFDIR | 0755, .name_n = 2};

    for (size_t i = 0; i < countof(names); i++) {
        scoped_tmpdir to = tmpdir_make();
        scoped_fd image = memory_file();
        struct stow_record file = {.kind = STOW_FILE, .mode = S_IFREG | 0644};
        struct stow_record end = {.kind = STOW_END};
        file.name_n = (uint32_t)strlen(names[i]) + 1;
        CHECK_INT(write(image, STOW_MAGIC, sizeof(STOW_MAGIC)), sizeof(STOW_MAGIC));
        CHECK_INT(write(image, &top, sizeof(top)), sizeof(top));
        CHECK_INT(write(image, ".", 2), 2);
        CHECK_INT(write(image, &file, sizeof(file)), sizeof(file));
        CHECK_INT(write(image, names[i], file.name_n), file.name_n);
        CHECK_INT(write(image, &end, sizeof(end)), sizeof(end));
        CHECK_INT(write(image, &end, sizeof(end)), sizeof(end));
        CHECK_THAT(stow_read(image, to.fd, &err) == -EINVAL, "'%s' was taken", names[i]);
    }
}

static int extract(const char *image, int dir)
{
    char path[32];
    char *argv[] = {(char[]){"tar"},
                    (char[]){"--extract"},
                    (char[]){"--gzip"},
                    (char[]){"--directory"},
                    path,
                    NULL};
    int status = 0;

    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", dir);
    pid_t pid = fork();
    if (pid == 0) {
        (void)fcntl(dir, F_SETFD, 0); /* tar opens it by its number */
        _exit(freopen(image, "r", stdin) ? stow_main(countof(argv) - 1, argv) : 1);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

/* Images of earlier keepers. */
static void what_gnu_tar_wrote_is_left_to_it(void)
{
    scoped_tmpdir top = tmpdir_make();
    scoped_fd from = dir_new(top.fd, "from"), to = dir_new(top.fd, "to");
    char command[256], image[64];

    file_new(from, "plain", "words\n", 0640);
    (void)snprintf(image, sizeof(image), "%s/image", top.path);
    (void)snprintf(command, sizeof(command), "tar --create --gzip --directory %s/from . >%s",
                   top.path, image);
    CHECK_INT(system(command), 0);
    CHECK_INT(extract(image, to), 0);
    text_check(to, "plain", "words\n");
    CHECK_INT(look(to, "plain").st_mode & 0777, 0640);
}

static int plain_ones(void *ctx, const char *path, const struct stat *st, struct err *why)
{
    (void)ctx;
    if (strcmp(path, "stop") == 0) {
        return err_set(why, EBUSY, "it is to stop");
    }
    return S_ISREG(st->st_mode) || S_ISLNK(st->st_mode) || strcmp(path, "dir") == 0;
}

static void chosen_files_replace_those_that_are_there(void)
{
    static const struct stow_filter filter = {.file = plain_ones};
    scoped_tmpdir dir = tmpdir_make();
    scoped_fd top = open(dir.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    scoped_fd from = dir_new(top, "from"), to = dir_new(top, "to"), image = memory_file();
    struct stat st;

    file_new(from, "file", "new", 0640);
    CHECK_INT(linkat(from, "file", from, "linked", 0), 0);
    CHECK_INT(symlinkat("file", from, "was-file"), 0);
    CHECK_INT(mkdirat(from, "dir", 0711), 0);
    file_new(from, "dir/inner", "inner", 0600);
    CHECK_INT(mkdirat(from, "other", 0700), 0);
    CHECK_INT(mkfifoat(from, "pipe", 0600), 0);
    CHECK_THAT(stow_write_chosen(from, image, &filter, &err) == 0, "%s", err.msg);

    file_new(to, "file", "a longer old text", 0600);
    file_new(to, "linked", "old", 0600);
    file_new(to, "was-file", "old", 0600);
    file_new(to, "dir", "not a directory", 0600);
    file_new(to, "kept", "kept", 0600);
    CHECK(stow_read(image, to, &err) < 0); /* as in a new tmpfs, where there is none */
    CHECK_THAT(stow_read_over(image, to, &err) == 0, "%s", err.msg);
    text_check(to, "file", "new");
    text_check(to, "was-file", "new");
    text_check(to, "dir/inner", "inner");
    text_check(to, "kept", "kept");
    CHECK_INT(look(to, "file").st_ino, look(to, "linked").st_ino);
    CHECK_INT(look(to, "dir").st_mode, S_IFDIR | 0711);
    CHECK_INT(fstatat(to, "other", &st, 0), -1);
    CHECK_INT(fstatat(to, "pipe", &st, 0), -1);

    file_new(from, "stop", "", 0600);
    scoped_fd second = memory_file();
    CHECK_INT(stow_write_chosen(from, second, &filter, &err), -EBUSY);
    CHECK_STR(err.msg, "it is to stop");
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a tree comes back as it was", a_tree_comes_back_as_it_was},
        {"a deep tree comes back", a_deep_tree_comes_back},
        {"a tree that is too deep is refused", a_tree_that_is_too_deep_is_refused},
        {"what is cut off is refused", what_is_cut_off_is_refused},
        {"a name leads nowhere else", a_name_leads_nowhere_else},
        {"chosen files replace those that are there", chosen_files_replace_those_that_are_there},
        {"what GNU tar wrote is left to it", what_gnu_tar_wrote_is_left_to_it},
    };

    return check_run(tests, countof(tests));
}
