/* The operations on a real directory. Run as root, ownership is checked as well. */
#include "inside/agent/filesystem_ops.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/xattr.h>

#include "check.h"
#include "inside/agent/internal.h"
#include "lib/base/fd.h"
#include "lib/base/utf8.h"
#include "tmpdir.h"

enum {
    ARENA_BYTES = 64 * 1024 * 1024,
    MANY = 100000,
    DEEP = 1500, /* more than PATH_MAX in one path */
};

/* dir/name in a static buffer of which there are several, so that two fit in one call. */
static const char *in(const struct tmpdir *dir, const char *name)
{
    static char paths[4][AGENT_PATH_BYTES];
    static unsigned next;
    char *path = paths[next++ % countof(paths)];

    (void)snprintf(path, AGENT_PATH_BYTES, "%s/%s", dir->path, name);
    return path;
}

static void put(const struct tmpdir *dir, const char *name, const char *text, mode_t mode)
{
    scoped_fd fd = openat(dir->fd, name, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) || fchmod(fd, mode) < 0) {
        abort();
    }
}

static struct fs_owner me(void)
{
    return (struct fs_owner){geteuid(), getegid()};
}

/* An owner that is not the one who runs the test, where that can be. */
static struct fs_owner other(void)
{
    return geteuid() == 0 ? (struct fs_owner){12345, 23456} : me();
}

static void permissions_read_as_in_go(void)
{
    static const struct {
        mode_t mode;
        const char *text;
    } cases[] = {
        {S_IFREG | 0644, "-rw-r--r--"},
        {S_IFDIR | 0755, "drwxr-xr-x"},
        {S_IFLNK | 0777, "Lrwxrwxrwx"},
        {S_IFREG | 04755, "urwxr-xr-x"},
        {S_IFREG | 02711, "grwx--x--x"},
        {S_IFDIR | 01777, "dtrwxrwxrwx"},
        {S_IFCHR | 0666, "Dcrw-rw-rw-"},
        {S_IFBLK | 0660, "Drw-rw----"},
        {S_IFIFO | 0600, "prw-------"},
        {S_IFSOCK | 0755, "Srwxr-xr-x"},
        {S_IFREG, "----------"},
        {S_IFREG | 06755, "ugrwxr-xr-x"},
        {S_IFDIR | 07777, "dugtrwxrwxrwx"},
    };
    char text[ENTRY_PERMISSIONS_BYTES];

    for (size_t i = 0; i < countof(cases); i++) {
        entry_permissions(cases[i].mode, text);
        CHECK_STR(text, cases[i].text);
    }
}

static void a_file_is_described(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_arena arena = ARENA(ARENA_BYTES);
    Filesystem__EntryInfo *entry = NULL;
    struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1700000000, .tv_nsec = 123456789}};
    struct err err = {0};

    put(&dir, "a.txt", "hello", 0640);
    CHECK_INT(utimensat(dir.fd, "a.txt", times, 0), 0);
    CHECK_INT(fs_stat(&arena, in(&dir, "a.txt"), &entry, &err), RPC_OK);
    CHECK_STR(entry->name, "a.txt");
    CHECK_STR(entry->path, in(&dir, "a.txt"));
    CHECK_INT(entry->type, FILESYSTEM__FILE_TYPE__FILE_TYPE_FILE);
    CHECK_INT(entry->size, 5);
    CHECK_INT(entry->mode, 0640);
    CHECK_STR(entry->permissions, "-rw-r-----");
    CHECK_INT(entry->modified_time->seconds, 1700000000);
    CHECK_INT(entry->modified_time->nanos, 123456789);
    CHECK_INT(entry->link_case, FILESYSTEM__ENTRY_INFO__LINK__NOT_SET);
    CHECK_INT((long long)entry->n_metadata, 0);
    if (geteuid() == 0) {
        CHECK_STR(entry->owner, "root");
        CHECK_STR(entry->group, "root");
    }
}

static void a_missing_file_is_not_found(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_arena arena = ARENA(ARENA_BYTES);
    Filesystem__EntryInfo *entry = NULL;
    struct err err = {0};

    put(&dir, "file", "", 0644);
    CHECK_INT(fs_stat(&arena, in(&dir, "none"), &entry, &err), RPC_NOT_FOUND);
    CHECK(strstr(err.msg, "file not found: ") == err.msg);
    CHECK_INT(fs_stat(&arena, in(&dir, "file/below"), &entry, &err), RPC_NOT_FOUND);
    CHECK(!entry);
}

static void links_tell_of_their_target(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_arena arena = ARENA(ARENA_BYTES);
    Filesystem__EntryInfo *entry = NULL;
    struct err err = {0};

    put(&dir, "target", "12345678", 0600);
    CHECK_INT(symlinkat("target", dir.fd, "link"), 0);
    CHECK_INT(symlinkat("link", dir.fd, "chain"), 0);
    CHECK_INT(symlinkat(".", dir.fd, "self"), 0);
    CHECK_INT(symlinkat("nowhere", dir.fd, "dangling"), 0);
    CHECK_INT(symlinkat("loop", dir.fd, "loop"), 0);

    CHECK_INT(fs_stat(&arena, in(&dir, "chain"), &entry, &err), RPC_OK);
    CHECK_STR(entry->name, "chain");
    CHECK_STR(entry->symlink_target, in(&dir, "target"));
    CHECK_INT(entry->type, FILESYSTEM__FILE_TYPE__FILE_TYPE_FILE);
    CHECK_INT(entry->mode, 0600);
    CHECK_INT(entry->size, 4); /* its own: the length of "link" */
    CHECK_STR(entry->permissions, "Lrwxrwxrwx");

    CHECK_INT(fs_stat(&arena, in(&dir, "self"), &entry, &err), RPC_OK);
    CHECK_INT(entry->type, FILESYSTEM__FILE_TYPE__FILE_TYPE_DIRECTORY);
    CHECK_STR(entry->symlink_target, dir.path);

    CHECK_INT(fs_stat(&arena, in(&dir, "dangling"), &entry, &err), RPC_OK);
    CHECK_INT(entry->type, FILESYSTEM__FILE_TYPE__FILE_TYPE_UNSPECIFIED);
    CHECK_STR(entry->symlink_target, in(&dir, "dangling"));
    CHECK_INT(fs_stat(&arena, in(&dir, "loop"), &entry, &err), RPC_OK);
}

static void metadata_is_told(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_arena arena = ARENA(ARENA_BYTES);
    Filesystem__EntryInfo *entry = NULL;
    struct err err = {0};

    put(&dir, "f", "", 0644);
    if (setxattr(in(&dir, "f"), "user.e2b.author", "mish", 4, 0) < 0) {
        SKIP("no user attributes on this file system");
    }
    CHECK_INT(setxattr(in(&dir, "f"), "user.other", "x", 1, 0), 0);
    CHECK_INT(setxattr(in(&dir, "f"), "user.e2b.bytes", "\xff\xfe", 2, 0), 0);
    CHECK_INT(fs_stat(&arena, in(&dir, "f"), &entry, &err), RPC_OK);
    CHECK_INT((long long)entry->n_metadata, 1);
    CHECK_STR(entry->metadata[0]->key, "author");
    CHECK_STR(entry->metadata[0]->value, "mish");
}

static void odd_files_are_listed(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_arena arena = ARENA(ARENA_BYTES);
    Filesystem__EntryInfo **entries = NULL;
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    scoped_fd sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct err err = {0};
    size_t n = 0;

    CHECK_INT(mkfifoat(dir.fd, "fifo", 0600), 0);
    (void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", in(&dir, "socket"));
    CHECK_INT(bind(sock, (struct sockaddr *)&addr, sizeof(addr)), 0);
    put(&dir, "\xff\xfe", "", 0644);
    put(&dir, ".atoll-new-0123456789abcdef", "", 0600); /* an upload under way */
    put(&dir, ".atoll-new-mine", "", 0600);

    CHECK_INT(fs_list(&arena, dir.path, 0, &entries, &n, &err), RPC_OK);
    CHECK_INT((long long)n, 4);
    CHECK_STR(entries[0]->name, ".atoll-new-mine");
    CHECK_STR(entries[1]->permissions, "prw-------");
    CHECK_INT(entries[1]->type, FILESYSTEM__FILE_TYPE__FILE_TYPE_UNSPECIFIED);
    CHECK_INT(entries[2]->permissions[0], 'S');
    CHECK_STR(entries[3]->name, "\xef\xbf\xbd\xef\xbf\xbd");
    CHECK(utf8_valid(str_of(entries[3]->path)));
}

static void tree_make(const struct tmpdir *dir)
{
    static const char *const dirs[] = {"t", "t/sub2", "t/sub1", "t/sub1/deep",
                                       "t/sub1/deep/deeper"};

    for (size_t i = 0; i < countof(dirs); i++) {
        if (mkdirat(dir->fd, dirs[i], 0755) < 0) {
            abort();
        }
    }
    put(dir, "t/file1", "x", 0644);
    put(dir, "t/Z", "x", 0644);
    put(dir, "t/sub1/a", "x", 0644);
    put(dir, "t/sub1.txt", "x", 0644);
}

static void listings_have_depth_and_order(void)
{
    static const char *const want[] = {"Z",         "file1",    "sub1", "sub1/a",
                                       "sub1/deep", "sub1.txt", "sub2"};
    scoped_tmpdir dir = tmpdir_make();
    scoped_arena arena = ARENA(ARENA_BYTES);
    Filesystem__EntryInfo **entries = NULL;
    struct err err = {0};
    char path[64];
    size_t n = 0;

    tree_make(&dir);
    CHECK_INT(symlinkat("t", dir.fd, "link"), 0);
    CHECK_INT(symlinkat("..", dir.fd, "t/sub2/up"),
              0); /* links are not followed: no endless walk */

    CHECK_INT(fs_list(&arena, in(&dir, "t"), 1, &entries, &n, &err), RPC_OK);
    CHECK_INT((long long)n, 5);
    CHECK_INT(fs_list(&arena, in(&dir, "t"), 99, &entries, &n, &err), RPC_OK);
    CHECK_INT((long long)n, 9);

    /* The path that was asked for is the one that is told, also when it is a link. */
    CHECK_INT(fs_list(&arena, in(&dir, "link"), 2, &entries, &n, &err), RPC_OK);
    CHECK_INT((long long)n, 8);
    for (size_t i = 0; i < countof(want); i++) {
        (void)snprintf(path, sizeof(path), "link/%s", want[i]);
        CHECK_STR(entries[i]->path, in(&dir, path));
    }
}

static void what_cannot_be_listed_says_why(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_arena arena = ARENA(ARENA_BYTES);
    scoped_arena tiny = ARENA(512);
    Filesystem__EntryInfo **entries = NULL;
    struct err err = {0};
    size_t n = 0;

    tree_make(&dir);
    CHECK_INT(symlinkat("loop", dir.fd, "loop"), 0);
    CHECK_INT(fs_list(&arena, in(&dir, "none"), 1, &entries, &n, &err), RPC_NOT_FOUND);
    CHECK_INT(fs_list(&arena, in(&dir, "t/file1"), 1, &entries, &n, &err), RPC_INVALID_ARGUMENT);
    CHECK(strstr(err.msg, "path is not a directory: "));
    CHECK_INT(fs_list(&arena, in(&dir, "loop"), 1, &entries, &n, &err), RPC_FAILED_PRECONDITION);
    CHECK_INT(fs_list(&tiny, in(&dir, "t"), 9, &entries, &n, &err), RPC_RESOURCE_EXHAUSTED);
    CHECK(strstr(err.msg, "too large"));
}

static void a_hundred_thousand_entries_are_listed(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_arena arena = ARENA(FS_LISTING_BYTES_MAX);
    Filesystem__EntryInfo **entries = NULL;
    struct err err = {0};
    char name[16];
    size_t n = 0;

    for (int i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof(name), "f%06d", i);
        CHECK_INT(mknodat(dir.fd, name, S_IFREG | 0644, 0), 0);
    }
    CHECK_INT(fs_list(&arena, dir.path, 1, &entries, &n, &err), RPC_OK);
    CHECK_INT((long long)n, MANY);
    CHECK_STR(entries[0]->name, "f000000");
    CHECK_STR(entries[MANY - 1]->name, "f099999");
    CHECK(arena.used_bytes < FS_LISTING_BYTES_MAX / 2);
    CHECK_INT(fs_remove(dir.path, &err), RPC_OK);
    CHECK_INT(access(dir.path, F_OK), -1);
}

static void directories_are_made_with_their_parents(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_arena arena = ARENA(ARENA_BYTES);
    Filesystem__EntryInfo *entry = NULL;
    struct err err = {0};
    struct stat st;
    mode_t before = umask(077); /* what the process may have inherited must not show */

    CHECK_INT(fs_make_dir(&arena, in(&dir, "a/b/c"), other(), &entry, &err), RPC_OK);
    (void)umask(before);
    CHECK_STR(entry->name, "c");
    CHECK_STR(entry->permissions, "drwxr-xr-x");
    CHECK_INT(fstatat(dir.fd, "a", &st, 0), 0);
    CHECK_INT(st.st_mode & 07777, 0755);
    CHECK_INT(st.st_uid, other().uid);
    CHECK_INT(st.st_gid, other().gid);

    CHECK_INT(fs_make_dir(&arena, in(&dir, "a/b"), other(), &entry, &err), RPC_ALREADY_EXISTS);
    put(&dir, "file", "", 0644);
    CHECK_INT(fs_make_dir(&arena, in(&dir, "file"), other(), &entry, &err), RPC_INVALID_ARGUMENT);
    CHECK_INT(fs_make_dir(&arena, in(&dir, "file/x"), other(), &entry, &err), RPC_INVALID_ARGUMENT);
    CHECK(strstr(err.msg, "path is a file: "));
    CHECK_INT(fs_make_dir(&arena, "/", other(), &entry, &err), RPC_ALREADY_EXISTS);
}

static void files_are_moved(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_arena arena = ARENA(ARENA_BYTES);
    Filesystem__EntryInfo *entry = NULL;
    struct err err = {0};

    put(&dir, "a", "x", 0644);
    CHECK_INT(fs_move(&arena, in(&dir, "a"), in(&dir, "new/dir/b"), me(), &entry, &err), RPC_OK);
    CHECK_STR(entry->path, in(&dir, "new/dir/b"));
    CHECK_INT(faccessat(dir.fd, "a", F_OK, 0), -1);

    /* A source that is not there leaves no directories behind. */
    CHECK_INT(fs_move(&arena, in(&dir, "none"), in(&dir, "x/y/z"), me(), &entry, &err),
              RPC_NOT_FOUND);
    CHECK(strstr(err.msg, "source file not found: ") == err.msg);
    CHECK_INT(faccessat(dir.fd, "x", F_OK, 0), -1);
    CHECK(fs_move(&arena, in(&dir, "new"), in(&dir, "new/dir/inside"), me(), &entry, &err) !=
          RPC_OK);
    CHECK_INT(faccessat(dir.fd, "new/dir/b", F_OK, 0), 0);
}

static void removing_takes_all_and_follows_nothing(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_tmpdir outside = tmpdir_make();
    struct err err = {0};

    put(&outside, "kept", "x", 0644);
    tree_make(&dir);
    CHECK_INT(symlinkat(outside.path, dir.fd, "t/sub1/out"), 0);
    CHECK_INT(fs_remove(in(&dir, "t"), &err), RPC_OK);
    CHECK_INT(faccessat(dir.fd, "t", F_OK, 0), -1);
    CHECK_INT(faccessat(outside.fd, "kept", F_OK, 0), 0);

    CHECK_INT(fs_remove(in(&dir, "t"), &err), RPC_OK); /* what is not there is removed */
    CHECK_INT(symlinkat(outside.path, dir.fd, "link"), 0);
    CHECK_INT(fs_remove(in(&dir, "link"), &err), RPC_OK);
    CHECK_INT(faccessat(outside.fd, "kept", F_OK, 0), 0);
    CHECK_INT(fs_remove("/", &err), RPC_INVALID_ARGUMENT);
}

static void trees_deeper_than_a_path_are_removed(void)
{
    scoped_tmpdir dir = tmpdir_make();
    int at = openat(dir.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct err err = {0};

    for (int i = 0; i < DEEP; i++) {
        CHECK_INT(mkdirat(at, "abcdef", 0755), 0);
        int next = openat(at, "abcdef", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        (void)close(at);
        at = next;
    }
    (void)close(at);
    CHECK_INT(fs_remove(in(&dir, "abcdef"), &err), RPC_OK);
    CHECK_INT(faccessat(dir.fd, "abcdef", F_OK, 0), -1);
}

static void text_is_repaired_to_utf8(void)
{
    static const struct {
        const char *bytes, *text;
    } cases[] = {
        {"plain", "plain"},
        {"caf\xc3\xa9 \xf0\x9f\x90\x9a", "caf\xc3\xa9 \xf0\x9f\x90\x9a"},
        {"caf\xe9", "caf\xef\xbf\xbd"},
        {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},                 /* overlong */
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* a surrogate */
        {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"a\xe2\x82", "a\xef\xbf\xbd\xef\xbf\xbd"}, /* cut */
    };
    char out[64];

    for (size_t i = 0; i < countof(cases); i++) {
        (void)utf8_repair(str_of(cases[i].bytes), out);
        CHECK_STR(out, cases[i].text);
        CHECK(utf8_valid(str_of(out)));
        CHECK(utf8_valid(str_of(cases[i].bytes)) == (strcmp(cases[i].bytes, cases[i].text) == 0));
    }
}

int main(void)
{
    static const struct check_test tests[] = {
        {"permissions read as in Go", permissions_read_as_in_go},
        {"a file is described", a_file_is_described},
        {"a missing file is not found", a_missing_file_is_not_found},
        {"links tell of their target", links_tell_of_their_target},
        {"metadata is told", metadata_is_told},
        {"odd files are listed", odd_files_are_listed},
        {"listings have depth and order", listings_have_depth_and_order},
        {"what cannot be listed says why", what_cannot_be_listed_says_why},
        {"a hundred thousand entries are listed", a_hundred_thousand_entries_are_listed},
        {"directories are made with their parents", directories_are_made_with_their_parents},
        {"files are moved", files_are_moved},
        {"removing takes all and follows nothing", removing_takes_all_and_follows_nothing},
        {"trees deeper than a path are removed", trees_deeper_than_a_path_are_removed},
        {"text is repaired to UTF-8", text_is_repaired_to_utf8},
    };
    return check_run(tests, countof(tests));
}
