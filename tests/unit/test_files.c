/* Downloads from /files, who may ask for them, and filesystem.Filesystem in JSON. What needs no
 * connection is tested directly. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <zlib.h>

#include "check.h"
#include "files_fixture.h"
#include "inside/agent/encoding.h"
#include "inside/agent/media.h"
#include "inside/agent/signature.h"
#include "lib/base/alloc.h"
#include "lib/base/encode.h"
#include "lib/base/fd.h"

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

static void big_put(const struct tmpdir *dir, const char *name, const char *data, size_t len)
{
    scoped_fd fd = openat(dir->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    CHECK(fd >= 0);
    for (size_t done = 0; done < len;) {
        ssize_t n = write(fd, data + done, len - done);
        CHECK(n > 0);
        done += (size_t)n;
    }
}

/* Each offset begins in another part of a page, and each end too. */
static void large_files_are_served_whole_and_in_parts(void)
{
    static const size_t firsts[] = {0, 1, 4095, 4096, 300001, BIG_BYTES - 262145};
    scoped_tmpdir dir = tmpdir_make();
    scoped_text data = noise(BIG_BYTES);
    char more[128];

    big_put(&dir, "big", data, BIG_BYTES);
    for (size_t i = 0; i < countof(firsts); i++) {
        scoped_reply r = {0};
        size_t last = BIG_BYTES - 1 - 997 * i;
        (void)snprintf(more, sizeof(more), "Range: bytes=%zu-%zu\r\n", firsts[i], last);
        ask(&r, "GET", at(&dir, "big", i == 0 ? "" : more), NULL, 0);
        size_t len = i == 0 ? BIG_BYTES : last + 1 - firsts[i];
        CHECK_INT(r.status, i == 0 ? 200 : 206);
        CHECK_INT((long long)buf_len(&r.body), (long long)len);
        CHECK(memcmp(buf_at(&r.body), data + firsts[i], len) == 0);
    }
}

/* Reads a little at a time, with pauses at first, so that both chunks wait for the connection. */
static void slow_readers_get_every_byte(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_text data = noise(BIG_BYTES);
    scoped_buf(in, BODY_MAX);
    scoped_fd fd = client_connect();
    char head[512];
    int small = 256 * 1024;
    struct reply r;
    char *to;
    ssize_t n;

    big_put(&dir, "big", data, BIG_BYTES);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    int len = snprintf(head, sizeof(head), "GET %sHost: t\r\nConnection: close\r\n\r\n",
                       at(&dir, "big", ""));
    CHECK(send_all(fd, head, (size_t)len));
    for (int i = 0;; i++) {
        CHECK_INT(buf_reserve(&in, 5000, &to), 0);
        n = recv(fd, to, 5000, 0);
        if (n <= 0) {
            break;
        }
        buf_commit(&in, (size_t)n);
        if (i < 20) {
            (void)usleep(5000);
        }
    }
    reply_parse(&in, &r);
    CHECK_INT(r.status, 200);
    CHECK_INT((long long)buf_len(&r.body), BIG_BYTES);
    CHECK(memcmp(buf_at(&r.body), data, BIG_BYTES) == 0);
    reply_fini(&r);
}

/* What was announced cannot be sent any more: the client must not take a part for the whole. */
static void a_file_that_becomes_shorter_is_not_taken_for_whole(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_text data = noise(BIG_BYTES);
    scoped_buf(in, BODY_MAX);
    scoped_fd fd = client_connect();
    char head[512];
    int small = 256 * 1024;
    struct reply r;

    big_put(&dir, "big", data, BIG_BYTES);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    int len = snprintf(head, sizeof(head), "GET %sHost: t\r\n\r\n", at(&dir, "big", ""));
    CHECK(send_all(fd, head, (size_t)len));
    char first;
    CHECK_INT(recv(fd, &first, 1, MSG_PEEK), 1);
    big_put(&dir, "big", data, 400000);
    receive_all(fd, &in);
    reply_parse(&in, &r);
    CHECK_INT(r.status, 200);
    CHECK(buf_len(&r.body) < BIG_BYTES);
    reply_fini(&r);
}

static void clients_that_leave_are_forgotten(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_text data = noise(BIG_BYTES);

    big_put(&dir, "big", data, BIG_BYTES);
    for (int i = 0; i < 30; i++) {
        scoped_fd fd = client_connect();
        char head[512], some[3000];
        int len = snprintf(head, sizeof(head), "GET %sHost: t\r\n\r\n", at(&dir, "big", ""));
        CHECK(send_all(fd, head, (size_t)len));
        CHECK(recv(fd, some, i % 3 ? sizeof(some) : 1, 0) > 0);
    }
    scoped_reply r = {0};
    ask(&r, "GET", at(&dir, "big", ""), NULL, 0);
    CHECK_INT((long long)buf_len(&r.body), BIG_BYTES);
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
    scoped_text data = noise(BIG_BYTES);
    scoped_text plain = xcalloc(1, BIG_BYTES);
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
    files_agent.access_token = secret;
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
    files_agent.access_token = NULL;

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
        {"small files are read", small_files_are_read},
        {"files of the kernel are read to their end", files_of_the_kernel_are_read_to_their_end},
        {"what cannot be read says why", what_cannot_be_read_says_why},
        {"unknown users are told apart", unknown_users_are_told_apart},
        {"parts are served", parts_are_served},
        {"large files are served whole and in parts", large_files_are_served_whole_and_in_parts},
        {"slow readers get every byte", slow_readers_get_every_byte},
        {"a file that becomes shorter is not taken for whole",
         a_file_that_becomes_shorter_is_not_taken_for_whole},
        {"clients that leave are forgotten", clients_that_leave_are_forgotten},
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

    (void)signal(SIGPIPE, SIG_IGN); /* as in the agent: a client may leave in the middle */
    server_start();
    int r = check_run(tests, countof(tests));
    server_stop();
    return r;
}
