/* /files and filesystem.Filesystem over a real connection: the server runs on a thread of its own,
 * the test is a plain client. What needs no connection is tested directly. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <zlib.h>

#include "agent/encoding.h"
#include "agent/internal.h"
#include "agent/media.h"
#include "agent/signature.h"
#include "agent/staged.h"
#include "base/alloc.h"
#include "base/encode.h"
#include "base/fd.h"
#include "check.h"
#include "tmpdir.h"

enum {
    BODY_MAX = 64 * 1024 * 1024,
    BIG_BYTES = 9 * 1000 * 1000 + 7, /* many chunks, and not a whole number of them */
};

/* ---- the server ---- */

static struct agent agent;
static uv_async_t stop_async;
static uv_sem_t ready;
static uv_thread_t thread;
static int port;
static atomic_int requests_n;

static void on_request(void *ctx, struct http_exchange *ex)
{
    atomic_fetch_add(&requests_n, 1);
    if (!files_handle(ctx, ex) && !filesystem_handle(ctx, ex)) {
        http_answer(ex, 404, NULL, NULL, 0);
    }
}

static void on_stopped(void *ctx)
{
    http_server_free(ctx);
}

static void on_stop(uv_async_t *async)
{
    http_server_stop(async->data, 1000, on_stopped, async->data);
    uv_close((uv_handle_t *)async, NULL);
}

static void serve(void *ctx)
{
    uv_loop_t loop;
    struct http_server_options options = {.loop = &loop, .on_request = on_request, .ctx = &agent};
    struct http_server *server;
    struct err err;

    (void)ctx;
    if (uv_loop_init(&loop) < 0 || http_server_new(&options, &server, &err) < 0 ||
        http_server_listen(server, "127.0.0.1:0", NULL, &err) < 0 ||
        uv_async_init(&loop, &stop_async, on_stop) < 0) {
        abort();
    }
    agent.loop = &loop;
    stop_async.data = server;
    port = http_server_port(server);
    uv_sem_post(&ready);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&loop) != 0) {
        abort(); /* something was left open */
    }
}

static void server_start(void)
{
    static char user[] = "root";

    agent = (struct agent){.default_user = user};
    if (uv_sem_init(&ready, 0) < 0 || uv_thread_create(&thread, serve, NULL) < 0) {
        abort();
    }
    uv_sem_wait(&ready);
}

static void server_stop(void)
{
    (void)uv_async_send(&stop_async);
    (void)uv_thread_join(&thread);
    uv_sem_destroy(&ready);
}

/* ---- the client ---- */

struct reply {
    int status;
    char head[4096];
    struct buf body;
};

static void reply_fini(struct reply *reply)
{
    buf_fini(&reply->body);
}
#define scoped_reply scoped(reply_fini) struct reply

static int client_connect(void)
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
        abort();
    }
    return fd;
}

/* False when the server has closed: it may answer, and leave the rest of a body alone. */
static bool send_all(int fd, const void *data, size_t len)
{
    for (const char *at = data; len > 0;) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        if (n <= 0) {
            return false;
        }
        at += n;
        len -= (size_t)n;
    }
    return true;
}

static void receive_all(int fd, struct buf *in)
{
    char *at;
    ssize_t n;

    do {
        if (buf_reserve(in, 65536, &at) < 0) {
            abort();
        }
        n = recv(fd, at, 65536, 0);
        buf_commit(in, n > 0 ? (size_t)n : 0);
    } while (n > 0);
}

static void dechunk(struct buf *in, struct buf *out)
{
    while (buf_len(in) > 0) {
        char *end;
        size_t size = strtoul(buf_at(in), &end, 16);
        buf_consume(in, (size_t)(end + 2 - buf_at(in)));
        if (size == 0 || size > buf_len(in)) {
            return;
        }
        if (buf_append(out, buf_at(in), size) < 0) {
            abort();
        }
        buf_consume(in, size + 2);
    }
}

static void reply_parse(struct buf *in, struct reply *out)
{
    char *end = buf_len(in) ? memmem(buf_at(in), buf_len(in), "\r\n\r\n", 4) : NULL;

    *out = (struct reply){0};
    buf_init(&out->body, BODY_MAX);
    if (!end) {
        return; /* status 0: there was no answer */
    }
    size_t head = (size_t)(end - buf_at(in)) + 2;
    if (!str_copy(out->head, sizeof(out->head), (struct str){buf_at(in), head})) {
        abort();
    }
    out->status = atoi(out->head + 9);
    buf_consume(in, head + 2);
    if (strcasestr(out->head, "transfer-encoding: chunked")) {
        dechunk(in, &out->body);
    } else if (buf_append(&out->body, buf_at(in), buf_len(in)) < 0) {
        abort();
    }
}

/* One request on a connection of its own. `head` is everything between the method and the framing,
 * as "/files?path=x HTTP/1.1\r\nName: value\r\n". */
static void ask(struct reply *out, const char *method, const char *head, const void *body,
                size_t len)
{
    scoped_fd fd = client_connect();
    scoped_buf text, in;

    buf_init(&text, 65536);
    buf_init(&in, BODY_MAX);
    if (buf_printf(&text, "%s %sHost: x\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n",
                   method, head, len) < 0) {
        abort();
    }
    (void)(send_all(fd, buf_at(&text), buf_len(&text)) && send_all(fd, body, len));
    receive_all(fd, &in);
    reply_parse(&in, out);
}

static const char *body_of(const struct reply *reply)
{
    static char text[8192];

    (void)snprintf(text, sizeof(text), "%.*s", (int)buf_len(&reply->body),
                   buf_len(&reply->body) ? buf_at(&reply->body) : "");
    return text;
}

/* "/files?path=<dir>/<name> HTTP/1.1\r\n<more>" */
static const char *at(const struct tmpdir *dir, const char *name, const char *more)
{
    static char head[4096];

    (void)snprintf(head, sizeof(head), "/files?path=%s/%s HTTP/1.1\r\n%s", dir->path, name, more);
    return head;
}

#define OCTETS "Content-Type: application/octet-stream\r\n"

static bool file_is(const struct tmpdir *dir, const char *name, const void *data, size_t len)
{
    scoped_fd fd = openat(dir->fd, name, O_RDONLY | O_CLOEXEC);
    struct stat st;
    bool same = false;

    if (fd >= 0 && fstat(fd, &st) == 0 && (size_t)st.st_size == len) {
        char *got = xcalloc(1, len + 1);
        same = read(fd, got, len) == (ssize_t)len && memcmp(got, data, len) == 0;
        free(got);
    }
    return same;
}

static void put(const struct tmpdir *dir, const char *name, const char *text, mode_t mode)
{
    scoped_fd fd = openat(dir->fd, name, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) || fchmod(fd, mode) < 0) {
        abort();
    }
}

static int names_count(const struct tmpdir *dir)
{
    int n = 0;
    FILE *ls;
    char command[128], line[512];

    (void)snprintf(command, sizeof(command), "ls -A %s", dir->path);
    ls = popen(command, "r");
    while (ls && fgets(line, sizeof(line), ls)) {
        n++;
    }
    return ls && pclose(ls) == 0 ? n : -1;
}

/* Bytes that do not repeat soon: a lost or doubled chunk shows. */
static char *noise(size_t len)
{
    char *data = xcalloc(1, len);
    uint32_t x = 2463534242U;

    for (size_t i = 0; i < len; i++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        data[i] = (char)x;
    }
    return data;
}

static void freep(char **p)
{
    free(*p);
}

/* ---- uploads ---- */

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
    scoped(freep) char *data = noise(BIG_BYTES);
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
        bool still = atomic_load(&requests_n) >= requests && names_count(dir) == n;
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
    int before = atomic_load(&requests_n);

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
    scoped(freep) char *data = noise(BIG_BYTES);
    scoped(freep) char *packed = xcalloc(1, BIG_BYTES + 65536);
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
    scoped(freep) char *data = noise(BIG_BYTES);
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

/* ---- downloads ---- */

static void small_files_are_read(void)
{
    scoped_tmpdir dir = tmpdir_make();

    put(&dir, "a b.txt", "hello", 0644);
    put(&dir, "empty", "", 0644);
    {
        scoped_reply r = {0};
        ask(&r, "GET", at(&dir, "a%20b.txt", ""), NULL, 0);
        CHECK_INT(r.status, 200);
        CHECK_STR(body_of(&r), "hello");
        CHECK(strcasestr(r.head, "\r\nContent-Length: 5\r\n"));
        CHECK(strcasestr(r.head, "\r\nContent-Disposition: inline; filename=\"a b.txt\"\r\n"));
        CHECK(strcasestr(r.head, "\r\nVary: Accept-Encoding\r\n"));
    }
    scoped_reply r = {0};
    ask(&r, "GET", at(&dir, "empty", ""), NULL, 0);
    CHECK_INT(r.status, 200);
    CHECK(strcasestr(r.head, "\r\nContent-Length: 0\r\n"));
}

static void files_of_the_kernel_are_read_to_their_end(void)
{
    scoped_fd fd = open("/proc/version", O_RDONLY | O_CLOEXEC);
    char want[1024];
    ssize_t n = read(fd, want, sizeof(want));

    CHECK(n > 0);
    {
        scoped_reply r = {0};
        ask(&r, "GET", "/files?path=/proc/version HTTP/1.1\r\n", NULL, 0);
        CHECK_INT(r.status, 200);
        CHECK(str_eq(buf_str(&r.body), (struct str){want, (size_t)n}));
    }
    scoped_reply r = {0}; /* its size is told as 4096, its content is shorter */
    ask(&r, "GET", "/files?path=/sys/kernel/mm/transparent_hugepage/enabled HTTP/1.1\r\n", NULL, 0);
    CHECK(r.status == 404 || (r.status == 200 && buf_len(&r.body) > 0 && buf_len(&r.body) < 4096));
}

static void what_cannot_be_read_says_why(void)
{
    scoped_tmpdir dir = tmpdir_make();
    char want[256];

    CHECK_INT(mkfifoat(dir.fd, "fifo", 0600), 0);
    {
        scoped_reply r = {0};
        ask(&r, "GET", at(&dir, "none", ""), NULL, 0);
        CHECK_INT(r.status, 404);
        (void)snprintf(want, sizeof(want),
                       "{\"code\":404,\"message\":\"path '%s/none' does not exist\"}", dir.path);
        CHECK_STR(body_of(&r), want);
    }
    {
        scoped_reply r = {0};
        ask(&r, "GET", at(&dir, "", ""), NULL, 0);
        CHECK_INT(r.status, 400);
        CHECK(strstr(body_of(&r), "is a directory"));
    }
    {
        scoped_reply r = {0};
        ask(&r, "GET", at(&dir, "fifo", ""), NULL, 0);
        CHECK_INT(r.status, 400);
        CHECK(strstr(body_of(&r), "is not a regular file"));
    }
    {
        scoped_reply r = {0};
        ask(&r, "GET", "/files?path=/dev/zero HTTP/1.1\r\n", NULL, 0);
        CHECK_INT(r.status, 400);
    }
    scoped_reply r = {0};
    ask(&r, "PUT", at(&dir, "x", ""), NULL, 0);
    CHECK_INT(r.status, 405);
}

static void unknown_users_are_told_apart(void)
{
    scoped_reply r = {0};

    ask(&r, "GET", "/files?path=x&username=0x0 HTTP/1.1\r\n", NULL, 0);
    CHECK_INT(r.status, 401);
    CHECK_STR(body_of(&r),
              "{\"code\":401,\"message\":\"error looking up user '0x0': user: unknown user 0x0\"}");
}

static void parts_are_served(void)
{
    static const struct {
        const char *range;
        int status;
        const char *body, *content_range;
    } cases[] = {
        {"bytes=2-4", 206, "234", "bytes 2-4/10"},
        {"bytes=7-", 206, "789", "bytes 7-9/10"},
        {"bytes=-3", 206, "789", "bytes 7-9/10"},
        {"bytes=0-99", 206, "0123456789", "bytes 0-9/10"},
        {"bytes=10-", 416, "", "bytes */10"},
        {"bytes=5-2", 200, "0123456789", NULL},
        {"bytes=0-1,3-4", 200, "0123456789", NULL},
        {"lines=1-2", 200, "0123456789", NULL},
    };
    scoped_tmpdir dir = tmpdir_make();
    char more[128];

    put(&dir, "f", "0123456789", 0644);
    for (size_t i = 0; i < countof(cases); i++) {
        scoped_reply r = {0};
        (void)snprintf(more, sizeof(more), "Range: %s\r\nAccept-Encoding: gzip\r\n",
                       cases[i].range);
        ask(&r, "GET", at(&dir, "f", more), NULL, 0);
        CHECK_THAT(r.status == cases[i].status, "%s: %d", cases[i].range, r.status);
        CHECK_STR(body_of(&r), cases[i].body);
        CHECK(!cases[i].content_range || strstr(r.head, cases[i].content_range));
    }
}

static void unchanged_files_are_304(void)
{
    scoped_tmpdir dir = tmpdir_make();
    char etag[128], more[256];

    put(&dir, "f", "x", 0644);
    {
        scoped_reply r = {0};
        ask(&r, "GET", at(&dir, "f", ""), NULL, 0);
        const char *tag = strcasestr(r.head, "\r\netag: ");
        CHECK(tag);
        (void)snprintf(etag, sizeof(etag), "%.*s", (int)strcspn(tag + 8, "\r"), tag + 8);
    }
    (void)snprintf(more, sizeof(more), "If-None-Match: \"x\", W/%s\r\n", etag);
    {
        scoped_reply r = {0};
        ask(&r, "GET", at(&dir, "f", more), NULL, 0);
        CHECK_INT(r.status, 304);
        CHECK_INT((long long)buf_len(&r.body), 0);
    }
    put(&dir, "f", "xy", 0644);
    scoped_reply r = {0};
    ask(&r, "GET", at(&dir, "f", more), NULL, 0);
    CHECK_INT(r.status, 200);
}

static void gzip_is_sent_to_those_who_ask(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped(freep) char *data = noise(BIG_BYTES);
    scoped(freep) char *plain = xcalloc(1, BIG_BYTES);
    scoped_reply r = {0};
    z_stream z = {0};
    scoped_fd fd = openat(dir.fd, "f", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

    memset(data, 'a', BIG_BYTES / 2);
    CHECK_INT(write(fd, data, BIG_BYTES), BIG_BYTES);
    ask(&r, "GET", at(&dir, "f", "Accept-Encoding: gzip\r\n"), NULL, 0);
    CHECK_INT(r.status, 200);
    CHECK(strcasestr(r.head, "\r\nContent-Encoding: gzip\r\n"));
    CHECK_INT(inflateInit2(&z, 31), Z_OK);
    z.next_in = (Bytef *)buf_at(&r.body);
    z.avail_in = (uInt)buf_len(&r.body);
    z.next_out = (Bytef *)plain;
    z.avail_out = BIG_BYTES;
    CHECK_INT(inflate(&z, Z_FINISH), Z_STREAM_END);
    CHECK_INT((long long)z.total_out, BIG_BYTES);
    CHECK_INT(inflateEnd(&z), Z_OK);
    CHECK(memcmp(plain, data, BIG_BYTES) == 0);
}

/* ---- who may ---- */

static const char token[] = "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0";

static void signatures_are_as_documented(void)
{
    struct signature_claim claim = {STR("hello.txt"), STR("read"), STR("user"), false, 0};
    char out[SIGNATURE_BYTES];

    signature_make(&claim, str_of(token), out);
    CHECK_STR(out, "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E");
}

static void signatures_are_checked_in_order(void)
{
    struct signature_claim claim = {STR("f"), STR("write"), STR(""), true, 1000};
    struct str none = {NULL, 0}, own = str_of(token);
    char good[SIGNATURE_BYTES];
    struct err err = {0};

    signature_make(&claim, own, good);
    CHECK_INT(signature_check(&claim, own, own, none, 0, &err), 0);
    CHECK_INT(signature_check(&claim, own, none, str_of(good), 1000, &err), 0);
    CHECK_INT(signature_check(&claim, own, STR("wrong"), str_of(good), 0, &err), -EACCES);
    CHECK_STR(err.msg, "access token present in header but does not match");
    CHECK_INT(signature_check(&claim, own, none, none, 0, &err), -EACCES);
    CHECK_STR(err.msg, "missing signature query parameter");
    CHECK_INT(signature_check(&claim, own, none, STR("v1_x"), 9999, &err), -EACCES);
    CHECK_STR(err.msg, "invalid signature"); /* before expiry */
    CHECK_INT(signature_check(&claim, own, none, str_of(good), 1001, &err), -EACCES);
    CHECK_STR(err.msg, "signature is already expired");
    claim.operation = STR("read");
    CHECK_INT(signature_check(&claim, own, none, str_of(good), 0, &err), -EACCES);
}

/* The server's thread sees the token only between requests, which this thread makes. */
static void secured_files_need_a_token_or_signature(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct signature_claim claim = {.operation = STR("read")};
    char secret[sizeof(token)], path[64], head[512], sig[SIGNATURE_BYTES];

    put(&dir, "f", "x", 0644);
    memcpy(secret, token, sizeof(token));
    (void)snprintf(path, sizeof(path), "%s/f", dir.path);
    claim.path = str_of(path);
    signature_make(&claim, str_of(token), sig);
    agent.access_token = secret;
    scoped_reply without = {0}, with_token = {0}, with_signature = {0}, write_with_read = {0};
    ask(&without, "GET", at(&dir, "f", ""), NULL, 0);
    ask(&with_token, "GET", at(&dir, "f", "X-Access-Token: 0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0\r\n"),
        NULL, 0);
    (void)snprintf(head, sizeof(head), "/files?path=%s&signature=v1_", path);
    for (const char *c = sig + 3; *c; c++) { /* as clients do: + and / percent-encoded */
        (void)snprintf(head + strlen(head), sizeof(head) - strlen(head),
                       strchr("+/", *c) ? "%%%02X" : "%c", *c);
    }
    (void)snprintf(head + strlen(head), sizeof(head) - strlen(head), " HTTP/1.1\r\n" OCTETS);
    ask(&with_signature, "GET", head, NULL, 0);
    ask(&write_with_read, "POST", head, "y", 1);
    agent.access_token = NULL;

    CHECK_INT(without.status, 401);
    CHECK_STR(body_of(&without),
              "{\"code\":401,\"message\":\"missing signature query parameter\"}");
    CHECK_INT(with_token.status, 200);
    CHECK_INT(with_signature.status, 200);
    CHECK_INT(write_with_read.status, 401);
    CHECK(file_is(&dir, "f", "x", 1));
}

/* ---- negotiation, without a connection ---- */

static void encodings_are_chosen(void)
{
    static const struct {
        const char *accept;
        enum encoding want;
    } cases[] = {
        {NULL, ENCODING_IDENTITY},
        {"", ENCODING_IDENTITY},
        {"gzip", ENCODING_GZIP},
        {"GZIP;q=0.5", ENCODING_GZIP},
        {"gzip, deflate, br", ENCODING_IDENTITY},
        {"gzip, identity;q=0", ENCODING_GZIP},
        {"gzip, deflate, *;q=0", ENCODING_GZIP},
        {"*;q=0", ENCODING_NONE},
        {"identity;q=0, br", ENCODING_NONE},
        {"*;q=0, identity", ENCODING_IDENTITY},
        {"identity;q=0, *", ENCODING_GZIP},
        {"gzip;q=0", ENCODING_IDENTITY},
        {"gzip;q=0.000", ENCODING_IDENTITY},
        {"br", ENCODING_IDENTITY},
    };

    for (size_t i = 0; i < countof(cases); i++) {
        CHECK_THAT(encoding_choose(str_of(cases[i].accept)) == cases[i].want, "case %zu", i);
    }
}

static void dates_go_there_and_back(void)
{
    char text[HTTP_DATE_BYTES];
    int64_t at_s = 0;

    http_date(784111777, text);
    CHECK_STR(text, "Sun, 06 Nov 1994 08:49:37 GMT");
    CHECK_INT(http_date_parse(str_of(text), &at_s), 0);
    CHECK_INT(at_s, 784111777);
    CHECK_INT(http_date_parse(STR("yesterday"), &at_s), -EINVAL);
    CHECK_INT(http_date_parse(STR("Sun, 06 Nov 1994 08:49:37 GMT+1"), &at_s), -EINVAL);
}

static void names_are_told_to_browsers(void)
{
    char text[128];

    media_disposition("/a/plain.txt", text, sizeof(text));
    CHECK_STR(text, "inline; filename=plain.txt");
    media_disposition("/a/with space", text, sizeof(text));
    CHECK_STR(text, "inline; filename=\"with space\"");
    media_disposition("/a/q\"\r\nX: y", text, sizeof(text));
    CHECK_STR(text, "inline; filename*=utf-8''q%22%0D%0AX%3A%20y");
    CHECK_STR(media_type("/x/y.PNG"), "image/png");
    CHECK_STR(media_type("/x.png/y"), "application/octet-stream");
}

/* ---- the service, in JSON ---- */

static void the_service_answers(void)
{
    scoped_tmpdir dir = tmpdir_make();
    char body[256];
    int n;
#define RPC(method)                                                                                \
    "/filesystem.Filesystem/" method " HTTP/1.1\r\nContent-Type: application/json\r\n"

    put(&dir, "f", "12345", 0644);
    n = snprintf(body, sizeof(body), "{\"path\":\"%s/f\"}", dir.path);
    {
        scoped_reply r = {0};
        ask(&r, "POST", RPC("Stat"), body, (size_t)n);
        CHECK_INT(r.status, 200);
        CHECK(strstr(body_of(&r), "\"size\":\"5\""));
        CHECK(strstr(body_of(&r), "\"type\":\"FILE_TYPE_FILE\""));
        CHECK(strstr(body_of(&r), "\"permissions\":\"-rw-r--r--\""));
        CHECK(strstr(body_of(&r), "\"modifiedTime\":\"20"));
        CHECK(!strstr(body_of(&r), "symlinkTarget"));
    }
    n = snprintf(body, sizeof(body), "{\"path\":\"%s/none\"}", dir.path);
    {
        scoped_reply r = {0};
        ask(&r, "POST", RPC("Stat"), body, (size_t)n);
        CHECK_INT(r.status, 404);
        CHECK(strstr(body_of(&r), "\"code\":\"not_found\""));
    }
    {
        scoped_reply r = {0};
        ask(&r, "POST", RPC("Remove"), body, (size_t)n);
        CHECK_INT(r.status, 200);
        CHECK_STR(body_of(&r), "{}");
    }
    n = snprintf(body, sizeof(body), "{\"path\":\"%s\"}", dir.path);
    {
        scoped_reply r = {0};
        ask(&r, "POST", RPC("MakeDir"), body, (size_t)n);
        CHECK_INT(r.status, 409);
        CHECK(strstr(body_of(&r), "\"code\":\"already_exists\""));
    }
    scoped_reply r = {0};
    ask(&r, "POST", RPC("ListDir") "Authorization: Basic MHgwOg==\r\n", body, (size_t)n);
    CHECK_INT(r.status, 401);
    CHECK_STR(body_of(&r),
              "{\"code\":\"unauthenticated\",\"message\":\"invalid username: '0x0'\"}");
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
        {"small files are read", small_files_are_read},
        {"files of the kernel are read to their end", files_of_the_kernel_are_read_to_their_end},
        {"what cannot be read says why", what_cannot_be_read_says_why},
        {"unknown users are told apart", unknown_users_are_told_apart},
        {"parts are served", parts_are_served},
        {"unchanged files are 304", unchanged_files_are_304},
        {"gzip is sent to those who ask", gzip_is_sent_to_those_who_ask},
        {"signatures are as documented", signatures_are_as_documented},
        {"signatures are checked in order", signatures_are_checked_in_order},
        {"secured files need a token or signature", secured_files_need_a_token_or_signature},
        {"encodings are chosen", encodings_are_chosen},
        {"dates go there and back", dates_go_there_and_back},
        {"names are told to browsers", names_are_told_to_browsers},
        {"the service answers", the_service_answers},
    };
    server_start();
    int r = check_run(tests, countof(tests));
    server_stop();
    return r;
}
