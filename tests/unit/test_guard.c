/* Secrets in texts: in every spelling, in whatever pieces the text comes. */
#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/encode.h"
#include "check.h"
#include "guard/guard.h"

#define KEY "sk-live+4f/9Q~x 2Z=7"
#define MARK GUARD_MARK

static struct guard *guard_of(const char *const *secrets, size_t n)
{
    struct guard *guard = guard_new();
    struct err err;

    for (size_t i = 0; i < n; i++) {
        if (guard_add(guard, str_of(secrets[i]), &err) < 0) {
            abort();
        }
    }
    guard_ready(guard);
    return guard;
}

/* The redacted text, in pieces of `piece` bytes; 0: at once. The caller frees it. */
static char *redacted(const struct guard *guard, struct str text, size_t piece, size_t *count)
{
    struct buf out;
    int r = 0;

    buf_init(&out, 64 * 1024 * 1024);
    if (piece == 0) {
        r = guard_redact(guard, text, &out, count);
    } else {
        struct guard_stream *stream = guard_stream_new(guard);

        while (r == 0 && text.len > 0) {
            size_t n = text.len < piece ? text.len : piece;
            r = guard_stream_put(stream, (struct str){text.at, n}, &out);
            text = str_skip(text, n);
        }
        r = r < 0 ? r : guard_stream_end(stream, &out);
        *count = guard_stream_count(stream);
        guard_stream_free(stream);
    }
    if (r < 0 || buf_append(&out, "", 1) < 0) {
        abort();
    }
    return buf_at(&out);
}

struct row {
    const char *secrets[4];
    const char *text, *want;
    size_t count;
};

static void check_rows(const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t secrets_n = 0, count = 0;

        while (secrets_n < 4 && rows[i].secrets[secrets_n]) {
            secrets_n++;
        }
        struct guard *guard = guard_of(rows[i].secrets, secrets_n);
        char *got = redacted(guard, str_of(rows[i].text), 0, &count);
        CHECK_STR(got, rows[i].want);
        CHECK_INT(count, rows[i].count);
        free(got);
        guard_free(guard);
    }
}

static void secrets_are_found_as_themselves(void)
{
    static const struct row rows[] = {
        {{NULL}, "nothing is secret", "nothing is secret", 0},
        {{"pw"}, "the pw is pw.", "the " MARK " is " MARK ".", 2},
        {{"pw"}, "", "", 0},
        {{"pw"}, "p w pwpw", "p w " MARK MARK, 2},
        {{KEY}, "a " KEY " b", "a " MARK " b", 1},
        {{KEY}, KEY, MARK, 1},
        {{KEY}, KEY KEY, MARK MARK, 2},
        {{"line one\nline two"}, "x line one\nline two y", "x " MARK " y", 1},
    };

    check_rows(rows, countof(rows));
}

static void secrets_that_overlap_are_one_place(void)
{
    static const struct row rows[] = {
        {{"abcd", "cdef"}, "xabcdefx", "x" MARK "x", 1},
        {{"abcdef", "cd"}, "cd abcdef cd", MARK " " MARK " " MARK, 3},
        {{"cd", "abcdef"}, "abcdxx", "ab" MARK "xx", 1},
        {{"aaa"}, "aaaaaaaa", MARK, 1},
        {{"ab", "abc", "abcd", "bcde"}, "abcde", MARK, 1},
        {{"password", "password1"}, "password1 password", MARK " " MARK, 2},
    };

    check_rows(rows, countof(rows));
}

static void short_secrets_are_matched_exactly_only(void)
{
    static const struct row rows[] = {
        {{"hunter2 pw"},
         "aHVudGVyMiBwdw== hunter2%20pw hunter2+pw hunter2 pw",
         "aHVudGVyMiBwdw== hunter2%20pw hunter2+pw " MARK,
         1},
        {{"\xc3\xa4\xc3\xb6\xc3\xbc\xc3\xa4\xc3\xb6\xc3\xbc"}, /* six characters, twelve bytes */
         "%C3%A4%C3%B6%C3%BC%C3%A4%C3%B6%C3%BC",
         "%C3%A4%C3%B6%C3%BC%C3%A4%C3%B6%C3%BC",
         0},
    };

    check_rows(rows, countof(rows));
}

static void a_value_of_several_words_is_found_by_each(void)
{
    struct guard *guard = guard_new();
    struct str text = STR("Bearer or key: s3cr3t-key; Bearer s3cr3t-key");
    size_t count = 0;
    struct err err;

    CHECK_INT(guard_add_value(guard, STR("Bearer s3cr3t-key"), &err), 0);
    guard_ready(guard);
    char *got = redacted(guard, text, 0, &count);
    CHECK_STR(got, "Bearer or key: " MARK "; " MARK);
    free(got);
    guard_free(guard);
}

static void url_encoding_is_seen_through_whatever_is_encoded(void)
{
    static const struct row rows[] = {
        {{KEY}, "k=sk-live%2B4f%2F9Q~x%202Z%3D7&x=1", "k=" MARK "&x=1", 1},
        {{KEY}, "k=sk-live%2b4f%2f9Q%7Ex+2Z%3d7&x=1", "k=" MARK "&x=1", 1},
        {{KEY}, "%73%6b-live+4f/9Q~x%202Z=7", MARK, 1},
        {{"a%zz%20bcdefghij"}, "a%zz%20bcdefghij", MARK, 1},
        {{"a%zz bcdefghij"}, "%a%zz%20bcdefghij%", "%" MARK "%", 1},
    };

    check_rows(rows, countof(rows));
}

/* Base64 of before + KEY + behind, for every alignment. */
static char *around(size_t before, size_t behind, enum base64_kind kind)
{
    scoped_buf(plain, 1024);
    struct buf text;

    buf_init(&text, 4096);
    if (buf_append(&plain, "PREFIX-PREFIX", before) < 0 ||
        buf_append(&plain, KEY, strlen(KEY)) < 0 ||
        buf_append(&plain, "-suffix-suffix", behind) < 0 ||
        base64_encode(&text, buf_at(&plain), buf_len(&plain), kind) < 0 ||
        buf_append(&text, "", 1) < 0) {
        abort();
    }
    return buf_at(&text);
}

static void base64_is_found_in_each_alignment_and_alphabet(void)
{
    static const enum base64_kind kinds[] = {BASE64_STD, BASE64_STD_NOPAD, BASE64_URL_NOPAD};
    struct guard *guard = guard_of((const char *const[]){KEY}, 1);

    for (size_t i = 0; i < countof(kinds) * 36; i++) {
        char *text = around(i % 6, i / 6 % 6, kinds[i / 36]);
        size_t count = 0;
        char *got = redacted(guard, str_of(text), 0, &count);

        CHECK_THAT(count == 1, "%s became %s", text, got);
        /* What is left are the neighbours' own characters, and padding. */
        CHECK_THAT(strlen(got) <= strlen(MARK) + (i % 6 + i / 6 % 6) * 4 / 3 + 4, "%s", got);
        free(got);
        free(text);
    }
    guard_free(guard);
}

static void base64_that_is_broken_into_lines_is_found(void)
{
    struct guard *guard = guard_of((const char *const[]){KEY}, 1);
    char *text = around(6, 5, BASE64_STD);
    size_t count = 0;

    for (size_t at = 9; at < 30; at++) {
        char broken[256];
        (void)snprintf(broken, sizeof(broken), "%.*s\r\n%s", (int)at, text, text + at);
        char *got = redacted(guard, str_of(broken), 0, &count);
        CHECK_THAT(count == 1, "%s became %s", broken, got);
        free(got);
    }
    free(text);
    guard_free(guard);
}

static void a_stream_gives_the_same_in_whatever_pieces(void)
{
    static const char *const secrets[] = {KEY, "cdefgh", "efghijkl", "pw"};
    struct guard *guard = guard_of(secrets, countof(secrets));
    char *encoded = around(4, 3, BASE64_STD);
    char text[1024];
    size_t count = 0, whole_count = 0;

    (void)snprintf(text, sizeof(text),
                   "%s; abcdefghijklm pw %s sk-live%%2B4f/9Q~x+2Z=7 cdefg sk-live", encoded, KEY);
    char *whole = redacted(guard, str_of(text), 0, &whole_count);
    CHECK(strstr(whole, "4f/") == NULL && strstr(whole, "9Q") == NULL);
    for (size_t piece = 1; piece < strlen(text); piece++) {
        char *got = redacted(guard, str_of(text), piece, &count);

        CHECK_THAT(count == whole_count, "%zu places in pieces of %zu: %s", count, piece, got);
        CHECK_THAT(!strstr(got, "4f/") && !strstr(got, "9Q") && !strstr(got, "defgh"), "%s", got);
        free(got);
    }
    free(encoded);
    free(whole);
    guard_free(guard);
}

static void a_stream_keeps_back_only_what_may_be_a_secret(void)
{
    struct guard *guard = guard_of((const char *const[]){KEY}, 1);
    struct guard_stream *stream = guard_stream_new(guard);
    scoped_buf(out, 1024);

    CHECK_INT(guard_stream_put(stream, STR("data: hello s\n\n"), &out), 0);
    CHECK_INT(buf_len(&out), strlen("data: hello s\n\n"));
    CHECK_INT(guard_stream_put(stream, STR("data: sk-live"), &out), 0);
    CHECK_INT(buf_len(&out), strlen("data: hello s\n\ndata: "));
    CHECK_INT(guard_stream_put(stream, STR(" and more"), &out), 0);
    CHECK_INT(guard_stream_end(stream, &out), 0);
    CHECK_INT(buf_append(&out, "", 1), 0);
    CHECK_STR(buf_at(&out), "data: hello s\n\ndata: sk-live and more");
    guard_stream_free(stream);
    guard_free(guard);
}

/* What repeats a secret without end, or begins one and goes on with line ends, fills no memory. */
static void a_stream_stays_small(void)
{
    struct guard *guard = guard_of((const char *const[]){"aaaaaaaaaaaaaaaa", KEY}, 2);
    static char many[64 * 1024], ends[64 * 1024];
    struct guard_stream *stream = guard_stream_new(guard);
    scoped_buf(out, 64 * 1024 * 1024);

    memset(many, 'a', sizeof(many));
    memset(ends, '\n', sizeof(ends));
    for (size_t i = 0; i < 200; i++) {
        CHECK_INT(guard_stream_put(stream, (struct str){many, sizeof(many)}, &out), 0);
    }
    CHECK(buf_len(&out) <= sizeof(GUARD_MARK));
    CHECK_INT(guard_stream_put(stream, STR(" sk-live"), &out), 0);
    for (size_t i = 0; i < 200; i++) {
        CHECK_INT(guard_stream_put(stream, (struct str){ends, sizeof(ends)}, &out), 0);
    }
    CHECK(buf_len(&out) >= 199 * sizeof(ends));
    CHECK_INT(guard_stream_end(stream, &out), 0);
    CHECK_INT(guard_stream_count(stream), 1);
    guard_stream_free(stream);
    guard_free(guard);
}

static void limits_are_told(void)
{
    struct guard *guard = guard_of((const char *const[]){KEY}, 1);
    char *text = xcalloc(GUARD_TEXT_BYTES_MAX + 1, 1);
    struct guard *many = guard_new();
    size_t count = 0;
    struct err err;
    scoped_buf(out, 64 * 1024 * 1024);
    int r = 0;

    memset(text, 'x', GUARD_TEXT_BYTES_MAX + 1);
    CHECK_INT(guard_redact(guard, (struct str){text, GUARD_TEXT_BYTES_MAX + 1}, &out, &count),
              -EMSGSIZE);
    CHECK_INT(guard_redact(guard, (struct str){text, GUARD_TEXT_BYTES_MAX}, &out, &count), 0);
    for (size_t i = 0; r == 0 && i < 1000; i++) {
        (void)snprintf(text, 16, "%zu", i);
        text[strlen(text)] = 'y';
        r = guard_add(many, (struct str){text, 16 * 1024}, &err);
    }
    CHECK_INT(r, -ENOSPC);
    CHECK(strstr(err.msg, "too many or too long"));
    CHECK_INT(guard_add(many, (struct str){"0y", 2}, &err), -ENOSPC);
    text[0] = '0'; /* one that it has */
    text[1] = 'y';
    text[2] = text[3];
    CHECK_INT(guard_add(many, (struct str){text, 16 * 1024}, &err), 0);
    guard_ready(many);
    buf_clear(&out);
    CHECK_INT(guard_redact(many, (struct str){text, 16 * 1024}, &out, &count), 0);
    CHECK_INT(count, 1);
    guard_free(many);
    guard_free(guard);
    free(text);
}

/* Secrets that are the beginnings of each other make every place of the text the end of many. */
static void time_is_linear_in_the_text(void)
{
    struct guard *guard = guard_new();
    char *text = xcalloc(GUARD_TEXT_BYTES_MAX, 1);
    size_t count = 0;
    struct err err;
    scoped_buf(out, 64 * 1024 * 1024);

    memset(text, 'a', GUARD_TEXT_BYTES_MAX);
    for (size_t n = 1; n <= 500; n++) {
        CHECK_INT(guard_add(guard, (struct str){text, n}, &err), 0);
    }
    guard_ready(guard);
    text[GUARD_TEXT_BYTES_MAX / 2] = 'b';
    CHECK_INT(guard_redact(guard, (struct str){text, GUARD_TEXT_BYTES_MAX}, &out, &count), 0);
    CHECK_INT(count, 2);
    CHECK_INT(buf_len(&out), 2 * strlen(MARK) + 1);
    free(text);
    guard_free(guard);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"secrets are found as themselves", secrets_are_found_as_themselves},
        {"secrets that overlap are one place", secrets_that_overlap_are_one_place},
        {"short secrets are matched exactly only", short_secrets_are_matched_exactly_only},
        {"a value of several words is found by each", a_value_of_several_words_is_found_by_each},
        {"URL-encoding is seen through, whatever is encoded",
         url_encoding_is_seen_through_whatever_is_encoded},
        {"base64 is found in each alignment and alphabet",
         base64_is_found_in_each_alignment_and_alphabet},
        {"base64 that is broken into lines is found", base64_that_is_broken_into_lines_is_found},
        {"a stream finds the same in whatever pieces", a_stream_gives_the_same_in_whatever_pieces},
        {"a stream keeps back only what may be a secret",
         a_stream_keeps_back_only_what_may_be_a_secret},
        {"a stream stays small", a_stream_stays_small},
        {"limits are told", limits_are_told},
        {"time is linear in the text", time_is_linear_in_the_text},
    };

    return check_run(tests, countof(tests));
}
