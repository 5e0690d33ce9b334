/* buf, str, clock, encode, id, err, small_file, pid_wait: the pieces everything else is made of. */
#include <ctype.h>
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "lib/base/alloc.h"
#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/encode.h"
#include "lib/base/err.h"
#include "lib/base/id.h"
#include "lib/base/json_text.h"
#include "lib/base/log.h"
#include "lib/base/pid_wait.h"
#include "lib/base/small_file.h"
#include "tmpdir.h"

static void a_buffer_never_passes_its_maximum(void)
{
    scoped_buf(b, 8);

    CHECK_INT(buf_append(&b, "12345678", 8), 0);
    CHECK_INT(buf_append(&b, "9", 1), -ENOBUFS);
    CHECK_INT((long long)buf_len(&b), 8);
    buf_consume(&b, 3);
    CHECK_INT(buf_append(&b, "abc", 3), 0);
    CHECK(str_eq(buf_str(&b), STR("45678abc")));
    CHECK_INT(buf_printf(&b, "%d", 1), -ENOBUFS);
    CHECK(str_eq(buf_str(&b), STR("45678abc")));
}

static void consumed_room_is_used_again(void)
{
    scoped_buf(b, 1024);

    for (int i = 0; i < 10000; i++) {
        CHECK_INT(buf_append(&b, "0123456789", 10), 0);
        buf_consume(&b, i % 2 ? 11 : 9);
    }
    CHECK_INT((long long)buf_len(&b), 0);
    CHECK(b.cap <= 1024);
}

static void printf_needs_room_for_the_text_only_once(void)
{
    scoped_buf(b, 64);

    CHECK_INT(buf_printf(&b, "%s-%d", "a", 7), 0);
    CHECK_INT(buf_printf(&b, "%s", "!"), 0);
    CHECK(str_eq(buf_str(&b), STR("a-7!")));
}

static void splitting_gives_every_part(void)
{
    struct str rest = STR("a,,b,");
    struct str part;
    static const char *const want[] = {"a", "", "b", ""};

    for (size_t i = 0; i < countof(want); i++) {
        CHECK(str_split(&rest, ',', &part));
        CHECK(str_eq(part, str_of(want[i])));
    }
    CHECK(!str_split(&rest, ',', &part));
}

static void a_copy_refuses_what_does_not_fit_or_holds_nul(void)
{
    char dst[4] = "old";

    CHECK(!str_copy(dst, sizeof(dst), STR("four")));
    CHECK(!str_copy(dst, sizeof(dst), STR("a\0b")));
    CHECK_STR(dst, "old");
    CHECK(str_copy(dst, sizeof(dst), STR("new")));
    CHECK_STR(dst, "new");
}

static void stamps_read_back_as_they_were_written(void)
{
    static const int64_t times_ms[] = {0, 1, 999, 1700000000123, 4102444800000, 253402300799999};

    for (size_t i = 0; i < countof(times_ms); i++) {
        char stamp[CLOCK_STAMP_BYTES];
        int64_t back = -1;

        clock_stamp(times_ms[i], stamp);
        CHECK_INT(clock_parse(str_of(stamp), &back), 0);
        CHECK_INT(back, times_ms[i]);
    }
}

static void stamps_of_other_makers_are_understood(void)
{
    int64_t ms = 0;

    CHECK_INT(clock_parse(STR("2026-01-02T03:04:05Z"), &ms), 0);
    CHECK_INT(ms, 1767323045000);
    CHECK_INT(clock_parse(STR("2026-01-02T04:04:05.123456789+01:00"), &ms), 0);
    CHECK_INT(ms, 1767323045123);
    CHECK_INT(clock_parse(STR("2026-01-01t22:04:05.1-05:00"), &ms), 0);
    CHECK_INT(ms, 1767323045100);
}

static void what_is_no_stamp_is_refused(void)
{
    static const char *const bad[] = {"",
                                      "2026",
                                      "2026-13-01T00:00:00Z",
                                      "2026-01-02T03:04:05",
                                      "2026-01-02T25:00:00Z",
                                      "2026-01-02T03:04:05Zx",
                                      "2026-01-02T03:04:05+1:00",
                                      "x026-01-02T03:04:05Z"};

    for (size_t i = 0; i < countof(bad); i++) {
        int64_t ms = 7;
        CHECK_INT(clock_parse(str_of(bad[i]), &ms), -EINVAL);
        CHECK_INT(ms, 7);
    }
}

static void base64_goes_there_and_back(void)
{
    static const char *const plain[] = {"", "f", "fo", "foo", "foob", "fooba", "foobar"};
    static const char *const text[] = {"",         "Zg==",     "Zm8=",    "Zm9v",
                                       "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};

    for (size_t i = 0; i < countof(plain); i++) {
        scoped_buf(out, 64);
        scoped_buf(back, 64);

        CHECK_INT(base64_encode(&out, plain[i], strlen(plain[i]), BASE64_STD), 0);
        CHECK(str_eq(buf_str(&out), str_of(text[i])));
        CHECK_INT(base64_decode(&back, buf_str(&out)), 0);
        CHECK(str_eq(buf_str(&back), str_of(plain[i])));
    }
}

/* Long texts are encoded in large steps: each length ends a step at another place, and each value
 * of six bits comes up in each column. */
static void base64_of_every_length_is_right(void)
{
    static const enum base64_kind kinds[] = {BASE64_STD, BASE64_STD_NOPAD, BASE64_URL_NOPAD};
    uint8_t plain[400];
    char want[3 * sizeof(plain)];

    for (size_t i = 0; i < sizeof(plain); i++) {
        plain[i] = (uint8_t)(i * 37 + (i >> 6) * 101);
    }
    for (size_t len = 0; len <= sizeof(plain); len++) {
        for (size_t k = 0; k < countof(kinds); k++) {
            scoped_buf(out, 1024);
            bool url = kinds[k] == BASE64_URL_NOPAD;
            size_t n = 0;
            for (size_t bit = 0; bit < 8 * len; bit += 6) {
                unsigned next = bit / 8 + 1 < len ? plain[bit / 8 + 1] : 0;
                unsigned two = (unsigned)plain[bit / 8] << 8 | next;
                unsigned v = two >> (10 - bit % 8) & 63;
                want[n++] = v < 26    ? (char)('A' + v)
                            : v < 52  ? (char)('a' + v - 26)
                            : v < 62  ? (char)('0' + v - 52)
                            : v == 62 ? (url ? '-' : '+')
                                      : (url ? '_' : '/');
            }
            while (kinds[k] == BASE64_STD && n % 4 != 0) {
                want[n++] = '=';
            }
            CHECK_INT(base64_encode(&out, plain, len, kinds[k]), 0);
            CHECK_THAT(str_eq(buf_str(&out), (struct str){want, n}), "%zu bytes", len);
        }
    }
}

static void base64_has_one_spelling_per_value(void)
{
    static const char *const bad[] = {"Z", "Zh==", "Zm9v!", "Zm 9v", "====", "Zg==Zg=="};

    for (size_t i = 0; i < countof(bad); i++) {
        scoped_buf(out, 64);

        CHECK_INT(base64_decode(&out, str_of(bad[i])), -EINVAL);
        CHECK(buf_len(&out) == 0);
    }
}

static void percent_decoding_is_strict(void)
{
    scoped_buf(out, 64);

    CHECK_INT(percent_decode(&out, STR("a%20b+c%2F"), true), 0);
    CHECK(str_eq(buf_str(&out), STR("a b c/")));
    CHECK_INT(percent_decode(&out, STR("%"), false), -EINVAL);
    CHECK_INT(percent_decode(&out, STR("%4"), false), -EINVAL);
    CHECK_INT(percent_decode(&out, STR("%zz"), false), -EINVAL);
    buf_clear(&out);
    CHECK_INT(percent_decode(&out, STR("%00+"), false), 0);
    CHECK(str_eq(buf_str(&out), STR("\0+")));
}

static void hashes_are_the_published_ones(void)
{
    char hex[SHA256_HEX_LEN + 1];

    sha256_hex("abc", 3, hex);
    CHECK_STR(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

static void ids_have_their_shape_and_differ(void)
{
    char a[ID_SANDBOX_LEN + 1];
    char b[ID_SANDBOX_LEN + 1];
    char uuid[ID_UUID_LEN + 1];

    id_sandbox(a);
    id_sandbox(b);
    CHECK_INT((long long)strlen(a), ID_SANDBOX_LEN);
    CHECK(a[0] == 'i');
    for (size_t i = 0; a[i]; i++) {
        CHECK(islower((unsigned char)a[i]) || isdigit((unsigned char)a[i]));
    }
    CHECK(strcmp(a, b) != 0);
    id_uuid(uuid);
    CHECK(uuid[14] == '4' && strchr("89ab", uuid[19]));
}

static void a_long_error_is_cut_with_dots(void)
{
    struct err err = {0};
    char name[400];

    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    CHECK_INT(err_set(&err, EINVAL, "open %s", name), -EINVAL);
    CHECK_INT((long long)strlen(err.msg), sizeof(err.msg) - 1);
    CHECK_STR(err.msg + strlen(err.msg) - 3, "...");
    errno = ENOENT;
    CHECK_INT(err_sys(&err, "open %s", "f"), -ENOENT);
    CHECK_INT(err_wrap(&err, "start %s", "s"), -ENOENT);
    CHECK_STR(err.msg, "start s: open f: No such file or directory");
    CHECK_INT(err_code(&err, EBUSY, "remove %s", "f"), -EBUSY);
    CHECK_STR(err.msg, "remove f: Device or resource busy");
}

static void a_small_file_is_read_whole_or_cut(void)
{
    scoped_tmpdir dir = tmpdir_make();
    scoped_buf(exact, 5);
    scoped_buf(less, 4);
    char text[8];
    int fd = openat(dir.fd, "file", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    CHECK_INT(write(fd, "12345", 5), 5);
    CHECK_INT(small_file_read(dir.fd, "file", text, sizeof(text)), 5);
    CHECK_STR(text, "12345");
    CHECK_INT(small_file_read(dir.fd, "file", text, 4), 3);
    CHECK_STR(text, "123");
    CHECK_INT((long long)small_file_number(dir.fd, "file"), 12345);
    CHECK_INT(small_file_read(dir.fd, "none", text, sizeof(text)), -ENOENT);
    CHECK_STR(text, "");
    CHECK_INT(symlinkat("file", dir.fd, "link"), 0);
    CHECK_INT(small_file_read(dir.fd, "link", text, sizeof(text)), -ELOOP);
    CHECK_INT(lseek(fd, 0, SEEK_SET), 0);
    CHECK_INT(small_file_append(fd, &exact), 0);
    CHECK(str_eq(buf_str(&exact), STR("12345")));
    CHECK_INT(lseek(fd, 0, SEEK_SET), 0);
    CHECK_INT(small_file_append(fd, &less), -ENOBUFS);
    CHECK_INT(lseek(fd, 0, SEEK_SET), 0);
    scoped_text whole = NULL;
    CHECK_INT(small_file_text(fd, 64, &whole), 5);
    CHECK_STR(whole, "12345");
    CHECK_INT(lseek(fd, 0, SEEK_SET), 0);
    scoped_text cut = NULL;
    CHECK_INT(small_file_text(fd, 3, &cut), 3);
    CHECK_STR(cut, "123");
    (void)close(fd);
}

static void the_end_of_a_child_is_waited_for(void)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        _exit(3);
    }
    CHECK_INT(pid_wait(pid, &status), 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    CHECK_INT(pid_wait(pid, &status), -ECHILD);
    CHECK(!pid_wait_success(pid));
    pid = fork();
    if (pid == 0) {
        _exit(0);
    }
    CHECK(pid_wait_success(pid));
}

static void json_is_weighed_before_it_is_parsed(void)
{
    static const struct {
        const char *text;
        size_t values;
    } rows[] = {
        {"5", 1},
        {"[1,2,3]", 4},
        {"{\"a\":[1,2],\"b\":{}}", 6}, /* an empty one counts as if it were not */
        {"[\"a,b,[c\",\"\\\",,\\\\\"]", 3},
        {"\"never ends,,,", 1},
        {"", 1},
    };

    for (size_t i = 0; i < countof(rows); i++) {
        CHECK_INT(json_text_values(str_of(rows[i].text)), rows[i].values);
    }
}

/* One line of the log as it goes out. */
static void logged(const char *text, char *out, size_t size)
{
    int pipe_fds[2], before = dup(STDERR_FILENO);

    CHECK_INT(pipe(pipe_fds), 0);
    CHECK(dup2(pipe_fds[1], STDERR_FILENO) >= 0);
    log_warn("%s", text);
    CHECK(dup2(before, STDERR_FILENO) >= 0);
    ssize_t n = read(pipe_fds[0], out, size - 1);
    out[n > 0 ? n : 0] = '\0';
    (void)close(before);
    (void)close(pipe_fds[0]);
    (void)close(pipe_fds[1]);
}

/* Names, paths and sentences of others are in it: none of them may be a command for a terminal. */
static void a_line_of_the_log_is_text(void)
{
    static const struct {
        const char *given, *shown;
    } rows[] = {
        {"a\nb\x1b[2Jc\x7f", ": a?b?[2Jc?\n"},
        {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
         ": caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\n"},
        {"x\xc2\x9b"
         "31m",
         ": x??31m\n"},
        {"x\x9b"
         "31m",
         ": x?31m\n"},
        {"cut \xe2\x82", ": cut ??\n"},
    };

    for (size_t i = 0; i < countof(rows); i++) {
        char line[256];

        logged(rows[i].given, line, sizeof(line));
        CHECK_THAT(str_ends(str_of(line), str_of(rows[i].shown)), "row %zu: '%s'", i, line);
    }
}

static void a_line_that_comes_at_will_waits_its_turn(void)
{
    int64_t last_ms = 0, other_ms = 0;

    CHECK(log_turn(&last_ms));
    CHECK(log_turn(&other_ms));
    CHECK(!log_turn(&last_ms));
    last_ms -= LOG_TURN_MS;
    CHECK(log_turn(&last_ms));
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a buffer never passes its maximum", a_buffer_never_passes_its_maximum},
        {"consumed room is used again", consumed_room_is_used_again},
        {"a line of the log is text", a_line_of_the_log_is_text},
        {"a line that comes at will waits its turn", a_line_that_comes_at_will_waits_its_turn},
        {"JSON is weighed before it is parsed", json_is_weighed_before_it_is_parsed},
        {"printf needs room for the text only once", printf_needs_room_for_the_text_only_once},
        {"splitting gives every part", splitting_gives_every_part},
        {"a copy refuses what does not fit or holds NUL",
         a_copy_refuses_what_does_not_fit_or_holds_nul},
        {"stamps read back as they were written", stamps_read_back_as_they_were_written},
        {"stamps of other makers are understood", stamps_of_other_makers_are_understood},
        {"what is no stamp is refused", what_is_no_stamp_is_refused},
        {"base64 goes there and back", base64_goes_there_and_back},
        {"base64 of every length is right", base64_of_every_length_is_right},
        {"base64 has one spelling per value", base64_has_one_spelling_per_value},
        {"percent-decoding is strict", percent_decoding_is_strict},
        {"hashes are the published ones", hashes_are_the_published_ones},
        {"ids have their shape and differ", ids_have_their_shape_and_differ},
        {"a long error is cut with dots", a_long_error_is_cut_with_dots},
        {"a small file is read whole or cut", a_small_file_is_read_whole_or_cut},
        {"the end of a child is waited for", the_end_of_a_child_is_waited_for},
    };
    return check_run(tests, countof(tests));
}
