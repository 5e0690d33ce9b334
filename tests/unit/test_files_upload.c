/* Uploads to /files, whole, in forms, packed and cut short. */
#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <zlib.h>

#include "check.h"
#include "files_fixture.h"
#include "lib/base/alloc.h"
#include "lib/base/fd.h"

static void raw_bodies_are_written(void)
{
    scoped_tmpdir dir = tmpdir_make();
    char want[256];
    struct stat st;

    {
        scoped_reply r = {0};
        ask(&r, "POST", at(&dir, "new/dir/a.txt", OCTETS), "hello", 5);
        CHECK_INT(r.status, 200);
        (void)snprintf(want, sizeof(want),
                       "[{\"name\":\"a.txt\",\"path\":\"%s/new/dir/a.txt\",\"type\":\"file\"}]",
                       dir.path);
        CHECK_STR(body_of(&r), want);
    }
    CHECK(file_is(&dir, "new/dir/a.txt", "hello", 5));
    CHECK_INT(fstatat(dir.fd, "new/dir/a.txt", &st, 0), 0);
    CHECK_INT(st.st_mode & 07777, 0644);
    scoped_reply empty = {0};
    ask(&empty, "POST", at(&dir, "empty", OCTETS), "", 0);
    CHECK_INT(empty.status, 200);
    CHECK(file_is(&dir, "empty", "", 0));
}

static void the_user_owns_what_is_written(void)
{
    scoped_tmpdir dir = tmpdir_make();
    const struct passwd *pw = getpwnam("nobody");
    char head[512];
    struct stat st;
    scoped_reply r = {0};

    if (geteuid() != 0 || !pw) {
        SKIP("needs root and the user nobody");
    }
    (void)snprintf(head, sizeof(head), "/files?username=nobody&path=%s/d/f HTTP/1.1\r\n" OCTETS,
                   dir.path);
    ask(&r, "POST", head, "x", 1);
    CHECK_INT(r.status, 200);
    CHECK_INT(fstatat(dir.fd, "d/f", &st, 0), 0);
    CHECK_INT(st.st_uid, pw->pw_uid);
    CHECK_INT(fstatat(dir.fd, "d", &st, 0), 0);
    CHECK_INT(st.st_uid, pw->pw_uid);
    CHECK_INT(st.st_mode & 07777, 0755);
}

static void overwriting_keeps_mode_and_links(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct stat st;

    put(&dir, "script", "#!old", 0750);
    CHECK_INT(symlinkat("script", dir.fd, "link"), 0);
    CHECK_INT(symlinkat("not-yet", dir.fd, "dangling"), 0);
    {
        scoped_reply r = {0};
        ask(&r, "POST", at(&dir, "link", OCTETS), "#!new", 5);
        CHECK_INT(r.status, 200);
    }
    CHECK(file_is(&dir, "script", "#!new", 5));
    CHECK_INT(fstatat(dir.fd, "script", &st, 0), 0);
    CHECK_INT(st.st_mode & 0777, 0750);
    CHECK_INT(fstatat(dir.fd, "link", &st, AT_SYMLINK_NOFOLLOW), 0);
    CHECK(S_ISLNK(st.st_mode));
    scoped_reply r = {0};
    ask(&r, "POST", at(&dir, "dangling", OCTETS), "x", 1);
    CHECK_INT(r.status, 200);
    CHECK(file_is(&dir, "not-yet", "x", 1));
}

static void big_bodies_go_both_ways_unchanged(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_text data = noise(BIG_BYTES);
    {
        scoped_reply r = {0};
        ask(&r, "POST", at(&dir, "big", OCTETS), data, BIG_BYTES);
        CHECK_INT(r.status, 200);
    }
    CHECK(file_is(&dir, "big", data, BIG_BYTES));
    scoped_reply r = {0};
    ask(&r, "GET", at(&dir, "big", "Accept-Encoding: gzip, deflate\r\n"), NULL, 0);
    CHECK_INT(r.status, 200);
    CHECK(!strcasestr(r.head, "content-encoding"));
    CHECK_INT((long long)buf_len(&r.body), BIG_BYTES);
    CHECK(memcmp(buf_at(&r.body), data, BIG_BYTES) == 0);
}

#define FORM "Content-Type: multipart/form-data; boundary=XX\r\n"
#define PART(name, path)                                                                           \
    "--XX\r\nContent-Disposition: form-data; name=\"" name "\"; filename=\"" path "\"\r\n\r\n"

static void forms_carry_many_files(void)
{
    scoped_tmpdir dir = tmpdir_make();
    char body[2048], want[512];
    scoped_reply r = {0};
    int n = snprintf(body, sizeof(body),
                     PART("file", "%s/one") "1\r\n" PART("ignored", "x") "zzz\r\n" PART(
                         "file", "%s/d/two") "22\r\n--XX--\r\n",
                     dir.path, dir.path);

    ask(&r, "POST", "/files HTTP/1.1\r\n" FORM, body, (size_t)n);
    CHECK_INT(r.status, 200);
    (void)snprintf(want, sizeof(want),
                   "[{\"name\":\"one\",\"path\":\"%s/one\",\"type\":\"file\"},"
                   "{\"name\":\"two\",\"path\":\"%s/d/two\",\"type\":\"file\"}]",
                   dir.path, dir.path);
    CHECK_STR(body_of(&r), want);
    CHECK(file_is(&dir, "one", "1", 1));
    CHECK(file_is(&dir, "d/two", "22", 2));
    CHECK_INT(names_count(&dir), 2);
}

static void the_query_names_a_forms_only_file(void)
{
    scoped_tmpdir dir = tmpdir_make();
    static const char one[] = PART("file", "blob") "1\r\n--XX--\r\n";
    static const char two[] = PART("file", "a") "1\r\n" PART("file", "b") "2\r\n--XX--\r\n";
    {
        scoped_reply r = {0};
        ask(&r, "POST", at(&dir, "named", FORM), one, sizeof(one) - 1);
        CHECK_INT(r.status, 200);
        CHECK(file_is(&dir, "named", "1", 1));
    }
    scoped_reply r = {0};
    ask(&r, "POST", at(&dir, "twice", FORM), two, sizeof(two) - 1);
    CHECK_INT(r.status, 400);
    CHECK(strstr(body_of(&r), "you cannot upload multiple files to the same path"));
    CHECK_INT(names_count(&dir), 1);
}

static void refused_uploads_leave_nothing(void)
{
    static const struct {
        const char *head, *body, *message;
    } cases[] = {
        {FORM, PART("file", "x") "cut", "closing delimiter"},
        {FORM, "garbage", "closing delimiter"},
        {"Content-Type: multipart/form-data\r\n", "x", "boundary"},
        {"Content-Type: text/plain\r\n", "x",
         "unsupported content type: text/plain, expected multipart/form-data or "
         "application/octet-stream"},
        {"", "x", "unsupported content type"},
        {OCTETS "Content-Encoding: br\r\n", "x", "unsupported Content-Encoding: br"},
        {OCTETS "Content-Encoding: gzip\r\n", "not gzip", "not valid gzip"},
        {OCTETS "Content-Encoding: gzip\r\n", "\x1f\x8b", "cut short"},
        {OCTETS "X-Metadata-Bad: \xc3\xa9\r\n", "x", "invalid metadata"},
    };
    scoped_tmpdir dir = tmpdir_make();

    for (size_t i = 0; i < countof(cases); i++) {
        scoped_reply r = {0};
        ask(&r, "POST", at(&dir, "f", cases[i].head), cases[i].body, strlen(cases[i].body));
        CHECK_THAT(r.status == 400, "case %zu: status %d: %s", i, r.status, body_of(&r));
        CHECK_THAT(strstr(body_of(&r), cases[i].message), "case %zu: %s", i, body_of(&r));
        CHECK_INT(names_count(&dir), 0);
    }
}

static void impossible_targets_are_refused(void)
{
    scoped_tmpdir dir = tmpdir_make();

    put(&dir, "file", "kept", 0644);
    CHECK_INT(mkdirat(dir.fd, "dir", 0755), 0);
    CHECK_INT(mkfifoat(dir.fd, "fifo", 0600), 0);
    static const struct {
        const char *name, *message;
    } cases[] = {{"dir", "path is a directory"},
                 {"fifo", "path is not a regular file"},
                 {"file/below", "path is a file"},
                 {"nul%00byte", "NUL byte"}};

    for (size_t i = 0; i < countof(cases); i++) {
        scoped_reply r = {0};
        ask(&r, "POST", at(&dir, cases[i].name, OCTETS), "x", 1);
        CHECK_THAT(r.status == 400, "case %zu: status %d: %s", i, r.status, body_of(&r));
        CHECK_THAT(strstr(body_of(&r), cases[i].message), "case %zu: %s", i, body_of(&r));
    }
    CHECK(file_is(&dir, "file", "kept", 4));
    CHECK_INT(names_count(&dir), 3);
}

/* The pool makes and removes temporaries in its own time: waits, but not for ever, until so many
 * requests have come and the directory has kept to n names for a while. */
static void names_settle(const struct tmpdir *dir, int n, int requests)
{
    for (int i = 0, quiet = 0; i < 1000 && quiet < 20; i++) {
        bool still = atomic_load(&files_requests) >= requests && names_count(dir) == n;
        quiet = still ? quiet + 1 : 0;
        (void)usleep(10000);
    }
}

static void a_cut_upload_leaves_the_old_file(void)
{
    enum { UPLOADS = 20 };
    static const char head[] = "POST %sHost: x\r\nContent-Length: 1000000\r\n\r\n";
    scoped_tmpdir dir = tmpdir_make();
    char text[1024];
    int before = atomic_load(&files_requests);

    put(&dir, "f", "old", 0644);
    for (int i = 0; i < UPLOADS; i++) {
        scoped_fd fd = client_connect();
        int n = snprintf(text, sizeof(text), head, at(&dir, i % 2 ? "f" : "g", OCTETS));
        CHECK(send_all(fd, text, (size_t)n));
        for (int k = 0; k < i; k++) {
            CHECK(send_all(fd, text, sizeof(text)));
        }
    }
    names_settle(&dir, 1, before + UPLOADS);
    CHECK_INT(names_count(&dir), 1);
    CHECK(file_is(&dir, "f", "old", 3));
}

static void gzipped_bodies_are_unpacked(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_text data = noise(BIG_BYTES);
    scoped_text packed = xcalloc(1, BIG_BYTES + 65536);
    z_stream z = {0};
    scoped_reply r = {0};

    memset(data, 'a', BIG_BYTES / 2); /* half of it shrinks a lot, half not at all */
    CHECK_INT(deflateInit2(&z, 1, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)data;
    z.avail_in = BIG_BYTES;
    z.next_out = (Bytef *)packed;
    z.avail_out = BIG_BYTES + 65536;
    CHECK_INT(deflate(&z, Z_FINISH), Z_STREAM_END);
    CHECK_INT(deflateEnd(&z), Z_OK);
    ask(&r, "POST", at(&dir, "f", OCTETS "Content-Encoding: gzip\r\n"), packed, z.total_out);
    CHECK_INT(r.status, 200);
    CHECK(file_is(&dir, "f", data, BIG_BYTES));
}

static void metadata_is_kept_and_replaced(void)
{
    scoped_tmpdir dir = tmpdir_make();
    char path[64], value[16];

    put(&dir, "probe", "", 0644);
    scoped_fd probe = openat(dir.fd, "probe", O_RDONLY | O_CLOEXEC);
    if (fsetxattr(probe, "user.x", "", 0, 0) < 0) {
        SKIP("no user attributes on this file system");
    }
    {
        scoped_reply r = {0};
        ask(&r, "POST", at(&dir, "f", OCTETS "X-Metadata-Author: mish\r\nX-Metadata-b: c d\r\n"),
            "x", 1);
        CHECK_INT(r.status, 200);
        CHECK(strstr(body_of(&r), "\"metadata\":{"));
        CHECK(strstr(body_of(&r), "\"author\":\"mish\""));
        CHECK(strstr(body_of(&r), "\"b\":\"c d\""));
    }
    scoped_reply r = {0};
    ask(&r, "POST", at(&dir, "f", OCTETS), "x", 1);
    CHECK(!strstr(body_of(&r), "metadata"));
    (void)snprintf(path, sizeof(path), "%s/f", dir.path);
    CHECK_INT(getxattr(path, "user.e2b.author", value, sizeof(value)), -1);
}

static void a_full_disk_is_507(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_text data = noise(BIG_BYTES);
    char command[256];

    (void)snprintf(command, sizeof(command), "mount -t tmpfs -o size=1m tmpfs %s 2>/dev/null",
                   dir.path);
    if (geteuid() != 0 || system(command) != 0) {
        SKIP("needs to mount a tmpfs");
    }
    {
        scoped_reply r = {0};
        ask(&r, "POST", at(&dir, "big", OCTETS), data, BIG_BYTES);
        struct tmpdir mounted = {.fd = open(dir.path, O_DIRECTORY | O_CLOEXEC)};
        memcpy(mounted.path, dir.path, sizeof(dir.path));
        int left = names_count(&mounted);
        (void)close(mounted.fd);
        (void)snprintf(command, sizeof(command), "umount %s", dir.path);
        CHECK_INT(system(command), 0);
        CHECK_INT(left, 0);
        CHECK_INT(r.status, 507);
        (void)snprintf(command, sizeof(command),
                       "{\"code\":507,\"message\":\"attempted to write %d bytes: "
                       "not enough disk space available\"}",
                       BIG_BYTES);
        CHECK_STR(body_of(&r), command);
    }
}

int main(void)
{
    static const struct check_test tests[] = {
        {"raw bodies are written", raw_bodies_are_written},
        {"the user owns what is written", the_user_owns_what_is_written},
        {"overwriting keeps mode and links", overwriting_keeps_mode_and_links},
        {"big bodies go both ways unchanged", big_bodies_go_both_ways_unchanged},
        {"forms carry many files", forms_carry_many_files},
        {"the query names a form's only file", the_query_names_a_forms_only_file},
        {"refused uploads leave nothing", refused_uploads_leave_nothing},
        {"impossible targets are refused", impossible_targets_are_refused},
        {"a cut upload leaves the old file", a_cut_upload_leaves_the_old_file},
        {"gzipped bodies are unpacked", gzipped_bodies_are_unpacked},
        {"metadata is kept and replaced", metadata_is_kept_and_replaced},
        {"a full disk is 507", a_full_disk_is_507},
    };
    server_start();
    int r = check_run(tests, countof(tests));
    server_stop();
    return r;
}
