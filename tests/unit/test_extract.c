/* Tar streams of a hostile sandbox become files below one directory, or nothing. */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "cli/extract.h"
#include "lib/base/fd.h"
#include "tmpdir.h"

struct row {
    const char *name;
    unsigned type;
    unsigned mode;
    const char *text; /* content, or a link's target */
    bool hard;        /* a link to the file `text` */
};

static struct err err;
static atomic_int skipped;

/* An unnamed file with a tar of the rows, at its beginning. */
static int tar_of(const struct row *rows, size_t n)
{
    int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    struct archive *archive = archive_write_new();

    (void)archive_write_set_format_gnutar(archive);
    (void)archive_write_open_fd(archive, fd);
    for (size_t i = 0; i < n; i++) {
        struct archive_entry *entry = archive_entry_new();
        bool file = rows[i].type == AE_IFREG && !rows[i].hard;
        archive_entry_set_pathname(entry, rows[i].name);
        archive_entry_set_filetype(entry, rows[i].type);
        archive_entry_set_perm(entry, (mode_t)rows[i].mode);
        archive_entry_set_size(entry, file ? (la_int64_t)strlen(rows[i].text) : 0);
        if (rows[i].type == AE_IFLNK) {
            archive_entry_set_symlink(entry, rows[i].text);
        } else if (rows[i].hard) {
            archive_entry_set_hardlink(entry, rows[i].text);
        }
        (void)archive_write_header(archive, entry);
        if (file) {
            (void)archive_write_data(archive, rows[i].text, strlen(rows[i].text));
        }
        archive_entry_free(entry);
    }
    (void)archive_write_free(archive);
    (void)lseek(fd, 0, SEEK_SET);
    return fd;
}

static int extract(int root, const struct row *rows, size_t n)
{
    scoped_fd tar = tar_of(rows, n);

    atomic_store(&skipped, 0);
    return extract_tree(tar, root, false, &skipped, &err);
}
#define EXTRACT(root, ...)                                                                         \
    extract(root, (const struct row[]){__VA_ARGS__},                                               \
            sizeof((const struct row[]){__VA_ARGS__}) / sizeof(struct row))

static const char *content(int root, const char *name)
{
    static char out[256];
    scoped_fd fd = openat(root, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, sizeof(out) - 1);

    out[n < 0 ? 0 : n] = '\0';
    return n < 0 ? "(none)" : out;
}

static mode_t mode_of(int root, const char *name)
{
    struct stat st = {0};

    (void)fstatat(root, name, &st, AT_SYMLINK_NOFOLLOW);
    return st.st_mode;
}

static void a_tree_becomes_files(void)
{
    scoped_tmpdir dir = tmpdir_make();
    static const char odd[] = "a\nb\033[31m\xff";

    CHECK_INT(EXTRACT(dir.fd, {".", AE_IFDIR, 0755, "", false}, {"./d", AE_IFDIR, 0500, "", false},
                      {"./d/f", AE_IFREG, 04751, "text", false},
                      {"./d/again", AE_IFREG, 0644, "./d/f", true},
                      {"./link", AE_IFLNK, 0777, "/etc/passwd", false},
                      {"deep/er/f", AE_IFREG, 0600, "x", false},
                      {odd, AE_IFREG, 0644, "odd", false}),
              0);
    CHECK_STR(content(dir.fd, "d/f"), "text");
    CHECK_STR(content(dir.fd, "d/again"), "text");
    CHECK_STR(content(dir.fd, "deep/er/f"), "x");
    CHECK_STR(content(dir.fd, odd), "odd");
    CHECK_INT(mode_of(dir.fd, "d/f"), S_IFREG | 0751); /* without set-user-id */
    CHECK_INT(mode_of(dir.fd, "d"), S_IFDIR | 0500);
    CHECK(S_ISLNK(mode_of(dir.fd, "link")));
    CHECK_INT(atomic_load(&skipped), 0);
}

static void no_name_leads_out(void)
{
    scoped_tmpdir dir = tmpdir_make();
    static const char *const names[] = {"../out", "a/../../out", "/tmp/out", "./..", "a/.."};

    for (size_t i = 0; i < countof(names); i++) {
        CHECK_INT(EXTRACT(dir.fd, {names[i], AE_IFREG, 0644, "bad", false}), -EINVAL);
        CHECK_INT(EXTRACT(dir.fd, {names[i], AE_IFDIR, 0755, "", false}), -EINVAL);
    }
    CHECK_INT(EXTRACT(dir.fd, {"again", AE_IFREG, 0644, "../../etc/passwd", true}), -EINVAL);
    CHECK_INT(access("/tmp/out", F_OK), -1);
}

static void no_link_is_followed(void)
{
    scoped_tmpdir outside = tmpdir_make(), dir = tmpdir_make();

    CHECK(EXTRACT(dir.fd, {"l", AE_IFLNK, 0777, outside.path, false},
                  {"l/f", AE_IFREG, 0644, "bad", false}) < 0);
    CHECK(EXTRACT(dir.fd, {"l", AE_IFLNK, 0777, outside.path, false},
                  {"l/d", AE_IFDIR, 0777, "", false}) < 0);
    CHECK_STR(content(outside.fd, "f"), "(none)");
    CHECK_INT(mode_of(outside.fd, "d"), 0);
    /* One that was there before, at the place of a file: it is replaced, not written through. */
    CHECK_INT(symlinkat("target", outside.fd, "there"), 0);
    CHECK_INT(EXTRACT(outside.fd, {"there", AE_IFREG, 0644, "new", false}), 0);
    CHECK_STR(content(outside.fd, "there"), "new");
    CHECK_STR(content(outside.fd, "target"), "(none)");
    /* A directory's mode is not set through a link that took its place. */
    CHECK_INT(fchmod(outside.fd, 0700), 0);
    (void)!EXTRACT(dir.fd, {"d", AE_IFDIR, 0777, "", false},
                   {"d", AE_IFLNK, 0777, outside.path, false});
    CHECK_INT(mode_of(outside.fd, ".") & 0777, 0700);
}

static void other_kinds_are_left_out(void)
{
    scoped_tmpdir dir = tmpdir_make();

    CHECK_INT(EXTRACT(dir.fd, {"pipe", AE_IFIFO, 0644, "", false},
                      {"null", AE_IFCHR, 0666, "", false}, {"f", AE_IFREG, 0644, "x", false}),
              0);
    CHECK_INT(atomic_load(&skipped), 2);
    CHECK_INT(mode_of(dir.fd, "pipe"), 0);
    CHECK_STR(content(dir.fd, "f"), "x");
}

static void a_stream_that_breaks_off_is_no_tree(void)
{
    scoped_tmpdir dir = tmpdir_make();
    const struct row row = {"f", AE_IFREG, 0644, "0123456789", false};
    scoped_fd tar = tar_of(&row, 1), noise = tar_of(&row, 1);

    CHECK_INT(ftruncate(tar, 515), 0);
    CHECK(extract_tree(tar, dir.fd, false, &skipped, &err) < 0);
    CHECK_STR(content(dir.fd, "f"), "(none)");
    CHECK_INT(pwrite(noise, "noise", 5, 100), 5);
    CHECK(extract_tree(noise, dir.fd, false, &skipped, &err) < 0);
}

static void names_are_made_plain(void)
{
    char out[64];

    CHECK_INT(extract_name("./a//b/./c/", out, sizeof(out), &err), 0);
    CHECK_STR(out, "a/b/c");
    CHECK_INT(extract_name("./", out, sizeof(out), &err), 0);
    CHECK_STR(out, "");
    CHECK_INT(extract_name("..a/b..", out, sizeof(out), &err), 0);
    CHECK_STR(out, "..a/b..");
    CHECK_INT(extract_name("x\033]0;evil\n/..", out, sizeof(out), &err), -EINVAL);
    CHECK(!strchr(err.msg, '\033') && !strchr(err.msg, '\n'));
    memset(out, 0, sizeof(out));
    CHECK_INT(extract_name("0123456789012345678901234567890123456789012345678901234567890123456789",
                           out, sizeof(out), &err),
              -ENAMETOOLONG);
}

static void directories_that_were_there_keep_their_mode(void)
{
    scoped_tmpdir dir = tmpdir_make();

    CHECK(mkdirat(dir.fd, "private", 0700) == 0 && fchmod(dir.fd, 0700) == 0);
    CHECK(EXTRACT(dir.fd, {".", AE_IFDIR, 0777, "", false}, {"private", AE_IFDIR, 0777, "", false},
                  {"fresh", AE_IFDIR, 0750, "", false}) == 0);
    CHECK_INT(mode_of(dir.fd, "private") & 07777, 0700);
    CHECK_INT(mode_of(dir.fd, ".") & 07777, 0700);
    CHECK_INT(mode_of(dir.fd, "fresh") & 07777, 0750);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a tree becomes files", a_tree_becomes_files},
        {"no name leads out", no_name_leads_out},
        {"no link is followed", no_link_is_followed},
        {"other kinds are left out", other_kinds_are_left_out},
        {"a stream that breaks off is no tree", a_stream_that_breaks_off_is_no_tree},
        {"names are made plain", names_are_made_plain},
        {"directories that were there keep their mode",
         directories_that_were_there_keep_their_mode},
    };

    return check_run(tests, countof(tests));
}
