/* Secrets in texts: in every spelling, in whatever pieces the text comes. */
#include <errno.h>
#include <stdlib.h>

#include "check.h"
#include "lib/base/alloc.h"
#include "lib/base/encode.h"
#include "lib/guard/formats.h"
#include "lib/guard/guard.h"
#include "lib/guard/said.h"

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

/* ---- keys by their looks ---- */

struct looks {
    size_t n;
    char kind[64];
    char place[512];
};

static void on_looks(void *ctx, struct str place, struct str key, const char *kind)
{
    struct looks *looks = ctx;

    (void)key;
    looks->n++;
    (void)str_copy(looks->kind, sizeof(looks->kind), str_of(kind));
    (void)str_copy(looks->place, sizeof(looks->place), place);
}

/* Made up, and put together here so that nobody takes this file for a leak. */
#define BODY "9fQ2zL7bX4vK1mR8wT5yH3nJ6pD0sGcAeBuC"
#define HEX40 "0f1e2d3c4b5a69788796a5b4c3d2e1f00918273a"

static void keys_are_known_by_their_looks(void)
{
    static const struct {
        const char *text, *kind, *place;
    } rows[] = {
        {"key = \"e2b_" HEX40 "\"", "an E2B API key", "e2b_" HEX40},
        {"sk_e2b_" HEX40, "an E2B access token", "sk_e2b_" HEX40},
        {"atoll_admin_" HEX40, "an atoll admin key", "atoll_admin_" HEX40},
        {"KEY=sk-" BODY ";", "an API key of the kind sk-...", "sk-" BODY},
        {"sk-ant-api03-" BODY, "an Anthropic key", "sk-ant-api03-" BODY},
        {"a ghp_" BODY ".", "a GitHub token", "ghp_" BODY},
        {"github_pat_" BODY "_" BODY, "a GitHub token", "github_pat_" BODY "_" BODY},
        {"'glpat-9fQ2zL7bX4vK1mR8wT5y'", "a GitLab token", "glpat-9fQ2zL7bX4vK1mR8wT5y"},
        {"AKIA"
         "QZ7T2M4XK9WB3LPC",
         "an AWS access key",
         "AKIA"
         "QZ7T2M4XK9WB3LPC"},
        {"AIza"
         "9fQ2zL7bX4vK1mR8wT5yH3nJ6pD0sGcAeBu",
         "a Google API key",
         "AIza"
         "9fQ2zL7bX4vK1mR8wT5yH3nJ6pD0sGcAeBu"},
        {"xoxb-"
         "2917403586-9fQ2zL7bX4vK",
         "a Slack token",
         "xoxb-"
         "2917403586-9fQ2zL7bX4vK"},
        {"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI3NTA5In0." BODY, "a JSON web token",
         "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI3NTA5In0." BODY},
        {"x = \"a\\nghp_" BODY "\"", "a GitHub token", "ghp_" BODY},
        {"?token%3Dghp_" BODY "&a=1", "a GitHub token", "ghp_" BODY},
        {"-----BEGIN RSA PRIVATE KEY-----\n" BODY BODY "\n-----END RSA PRIVATE KEY-----",
         "a private key", "-----BEGIN RSA PRIVATE KEY-----\n" BODY BODY "\n"},
        {"k = '-----BEGIN PRIVATE KEY-----\\n" BODY BODY "\\n" BODY "\\n-----END PRIVATE KEY-----'",
         "a private key", "-----BEGIN PRIVATE KEY-----\\n" BODY BODY "\\n" BODY "\\n"},
        {"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES\n\n" BODY BODY
         "\n-----",
         "a private key",
         "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES\n\n" BODY BODY
         "\n"},
        {"\"-----BEGIN EC PRIVATE KEY-----\\n\" +\n  \"" BODY BODY "\\n\"", "a private key",
         "-----BEGIN EC PRIVATE KEY-----\\n\" +\n  \"" BODY BODY "\\n\""},
    };

    for (size_t i = 0; i < countof(rows); i++) {
        struct looks looks = {0};

        guard_formats_each(str_of(rows[i].text), on_looks, &looks);
        CHECK_THAT(looks.n == 1, "%zu in %s", looks.n, rows[i].text);
        CHECK_STR(looks.kind, rows[i].kind);
        CHECK_STR(looks.place, rows[i].place);
    }
}

static void encoded_keys_are_known_too(void)
{
    for (size_t skipped = 0; skipped < 4; skipped++) {
        scoped_buf(plain, 1024);
        scoped_buf(text, 1024);
        struct looks looks = {0};

        CHECK(buf_append(&plain, "::::", skipped) == 0 &&
              buf_printf(&plain, "ghp_" BODY "%s", skipped % 2 ? "\n" : "") == 0 &&
              buf_append(&text, "v: ", 3) == 0 &&
              base64_encode(&text, buf_at(&plain), buf_len(&plain), BASE64_STD) == 0);
        guard_formats_each(buf_str(&text), on_looks, &looks);
        CHECK_THAT(looks.n >= 1, "behind %zu bytes", skipped);
        CHECK_STR(looks.kind, "a GitHub token");
    }
    struct looks looks = {0};
    scoped_buf(text, 1024);
    for (const char *c = "ghp_" BODY; *c; c++) {
        CHECK_INT(buf_printf(&text, "%%%02x", (unsigned char)*c), 0);
    }
    guard_formats_each(buf_str(&text), on_looks, &looks);
    CHECK_INT(looks.n, 1);
}

static void what_only_looks_like_a_key_is_left_alone(void)
{
    static const char *const rows[] = {
        "",
        "sk-",
        "ghp_",
        "e2b_ and sk-... and AKIA",
        "import os; key = os.environ[\"E2B_API_KEY\"]",
        "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "sk-your-api-key-goes-here-and-nowhere-else-1",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "AKIAIOSFODNN7EXAMPLE",
        "e2b_0000000000000000000000000000000000000000",
        "e2b_" HEX40 "0",
        "task-9fQ2zL7bX4vK1mR8wT5yH3nJ6pD0sGcAeBuC",
        "<div class=\"sk-container sk-estimator-id-1 sk-toggleable\">",
        "sk-learn-contrib-is-a-family-of-packages-for-python",
        "if text.startswith(\"-----BEGIN PRIVATE KEY-----\"):",
        "HEAD = '-----BEGIN PRIVATE KEY-----'\nSHA = "
        "'9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b'",
        "-----BEGIN CERTIFICATE-----\n" BODY BODY "\n-----END CERTIFICATE-----",
        "eyJhbGciOiJIUzI1NiJ9.short.x",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
        "integrity=\"sha512-v2kDEe57lecTulaDIuNTPy3Ry4gLGJ6Z1O3vE1krgXZNrsQ+LFTGHVxVjcXPs17LhbZV\"",
        "%00%01%02%03%04%05%06%07%08%09%0a%0b%0c%0d%0e%0f%10%11",
    };

    for (size_t i = 0; i < countof(rows); i++) {
        struct looks looks = {0};

        guard_formats_each(str_of(rows[i]), on_looks, &looks);
        CHECK_THAT(looks.n == 0, "%s: %s", rows[i], looks.kind);
    }
}

/* ---- which one, and where ---- */

static void on_tag(void *ctx, uint16_t tag)
{
    *(unsigned *)ctx |= 1U << tag;
}

static void a_guard_says_which_secret_and_where(void)
{
    struct guard *guard = guard_new();
    struct str place = {0}, text = STR("one\ntwo c2VjcmV0LW51bWJlci10d28= secret-number-one");
    uint16_t tag = 0;
    unsigned tags = 0;
    size_t count = 0;
    struct err err;
    scoped_buf(out, 1024);

    CHECK(guard_add_tagged(guard, STR("secret-number-one"), 1, &err) == 0);
    CHECK(guard_add_tagged(guard, STR("secret-number-two"), 2, &err) == 0);
    CHECK(guard_add_value_tagged(guard, STR("Bearer secret-number-three"), 3, &err) == 0);
    guard_ready(guard);
    CHECK_INT(guard_find(guard, text, &place, &tag), 1);
    CHECK_INT(tag, 2);
    CHECK_THAT(str_starts(place, STR("c2VjcmV0")) && place.at == text.at + 8, "%.*s",
               (int)place.len, place.at);
    CHECK_INT(guard_redact_tagged(guard, text, &out, &count, on_tag, &tags), 0);
    CHECK_INT(count, 2);
    CHECK_INT(tags, 1 << 1 | 1 << 2);
    CHECK_INT(guard_find(guard, STR("nothing"), &place, &tag), 0);
    CHECK_INT(guard_find(guard, STR("secret-number-three"), &place, &tag), 1);
    CHECK_INT(tag, 3);
    guard_free(guard);
}

/* ---- sentences ---- */

static void the_words_of_others_are_redacted_before_they_are_cut(void)
{
    struct guard *guard = guard_new();
    char text[GUARD_SAID_BYTES + 64];
    struct said said;
    struct err err;

    CHECK(guard_add(guard, STR("secret-number-one"), &err) == 0);
    guard_ready(guard);
    CHECK_STR(guard_said(guard, STR("a secret-number-one b"), &said), "a " MARK " b");
    CHECK_STR(guard_said(guard, STR("line\r\nforged\x7f\xc3\xa4"), &said), "line??forged???");
    CHECK_STR(guard_said(guard, STR(""), &said), "");
    for (size_t before = 0; before < GUARD_SAID_BYTES; before++) {
        memset(text, 'x', sizeof(text));
        memcpy(text + before, "secret-number-one", strlen("secret-number-one"));
        const char *shown = guard_said(guard, (struct str){text, sizeof(text)}, &said);
        CHECK_THAT(!strstr(shown, "secr"), "%s", shown);
        CHECK_THAT(str_ends(str_of(shown), STR("...")), "%s", shown);
    }
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
        {"keys are known by their looks", keys_are_known_by_their_looks},
        {"encoded keys are known too", encoded_keys_are_known_too},
        {"what only looks like a key is left alone", what_only_looks_like_a_key_is_left_alone},
        {"a guard says which secret and where", a_guard_says_which_secret_and_where},
        {"the words of others are redacted before they are cut",
         the_words_of_others_are_redacted_before_they_are_cut},
    };

    return check_run(tests, countof(tests));
}
