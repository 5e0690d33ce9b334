#include "lib/guard/formats.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

#include "lib/base/compiler.h"
#include "lib/base/encode.h"

enum {
    DISTINCT_MIN = 8,              /* different characters of a key behind its prefix */
    RUN_MAX = 5,                   /* of one character in a row */
    ENCODED_BYTES_MIN = 24,        /* of base64 that may hold a key */
    ENCODED_BYTES_MAX = 64 * 1024, /* of one run: a longer one is a file, and is read in pieces */
    PERCENT_BYTES_MIN = 16,        /* that are percent-encoded in a row */
    SIGNATURE_MIN = 16,            /* of a JSON web token */
    PEM_BASE64_MIN = 40,           /* of a private key, behind its first line */
    PEM_BYTES_MAX = 16 * 1024,
    GROUP = 4, /* characters of base64 that are three bytes */
};

/* ---- what keys look like ---- */

enum alphabet { HEX, CAPITALS, ALNUM, ALNUM_UNDERSCORE, WORD, DOTTED };

/* In front of a shorter prefix that it begins with. */
static const struct format {
    const char *prefix;
    enum alphabet alphabet;
    size_t min, max; /* characters behind the prefix */
    const char *kind;
} formats[] = {
    {"e2b_", HEX, 40, 40, GUARD_KIND_API_KEY},
    {"sk_e2b_", HEX, 40, 40, "an E2B access token"},
    {"atoll_admin_", HEX, 40, 40, "an atoll admin key"},
    {"sk-ant-", WORD, 32, 256, "an Anthropic key"},
    {"sk-", WORD, 32, 256, "an API key of the kind sk-..."},
    {"sk_live_", ALNUM, 16, 256, "a Stripe key"},
    {"rk_live_", ALNUM, 16, 256, "a Stripe key"},
    {"ghp_", ALNUM, 36, 256, "a GitHub token"},
    {"gho_", ALNUM, 36, 256, "a GitHub token"},
    {"ghu_", ALNUM, 36, 256, "a GitHub token"},
    {"ghs_", ALNUM, 36, 256, "a GitHub token"},
    {"ghr_", ALNUM, 36, 256, "a GitHub token"},
    {"github_pat_", ALNUM_UNDERSCORE, 40, 256, "a GitHub token"},
    {"glpat-", DOTTED, 20, 256, "a GitLab token"},
    {"AKIA", CAPITALS, 16, 16, "an AWS access key"},
    {"ASIA", CAPITALS, 16, 16, "an AWS access key"},
    {"AIza", WORD, 35, 35, "a Google API key"},
    {"ya29.", WORD, 30, 2048, "a Google access token"},
    {"GOCSPX-", WORD, 28, 28, "a Google client secret"},
    {"xoxb-", WORD, 20, 256, "a Slack token"},
    {"xoxp-", WORD, 20, 256, "a Slack token"},
    {"xoxa-", WORD, 20, 256, "a Slack token"},
    {"xoxe-", WORD, 20, 256, "a Slack token"},
    {"xoxr-", WORD, 20, 256, "a Slack token"},
    {"xoxs-", WORD, 20, 256, "a Slack token"},
    {"xapp-", WORD, 20, 256, "a Slack token"},
    {"SG.", DOTTED, 60, 80, "a SendGrid key"},
    {"npm_", ALNUM, 36, 36, "an npm token"},
    {"pypi-AgE", WORD, 50, 1024, "a PyPI token"},
    {"hf_", ALNUM, 30, 40, "a Hugging Face token"},
    {"dop_v1_", HEX, 64, 64, "a DigitalOcean token"},
    {"dckr_pat_", WORD, 20, 64, "a Docker token"},
    {"shpat_", HEX, 32, 32, "a Shopify token"},
    {"gsk_", ALNUM, 40, 64, "a Groq key"},
    {"eyJ", DOTTED, 40, 8192, "a JSON web token"},
};

static bool is_of(char c, enum alphabet alphabet)
{
    const unsigned char byte = (unsigned char)c;

    switch (alphabet) {
    case HEX:
        return isdigit(byte) || (c >= 'a' && c <= 'f');
    case CAPITALS:
        return isdigit(byte) || (c >= 'A' && c <= 'Z');
    case ALNUM:
        return isalnum(byte);
    case ALNUM_UNDERSCORE:
        return isalnum(byte) || c == '_';
    case WORD:
        return isalnum(byte) || c == '_' || c == '-';
    case DOTTED:
        return isalnum(byte) || c == '_' || c == '-' || c == '.';
    }
    return false;
}

/* ---- words that only look like a key ---- */

static bool has_word(struct str text, const char *word)
{
    size_t len = strlen(word);

    for (size_t i = 0; i + len <= text.len; i++) {
        if (strncasecmp(text.at + i, word, len) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_example(struct str body)
{
    static const char *const words[] = {"example", "xxxx", "your", "12345678", "abcdefgh", "...."};

    for (size_t i = 0; i < countof(words); i++) {
        if (has_word(body, words[i])) {
            return true;
        }
    }
    return false;
}

/* Random enough: different characters, some digit, and none in a long row. */
static bool is_random(struct str body)
{
    bool seen[UINT8_MAX + 1] = {0};
    size_t distinct = 0, digits = 0, run = 0, longest = 0;

    for (size_t i = 0; i < body.len; i++) {
        unsigned char c = (unsigned char)body.at[i];

        distinct += !seen[c];
        seen[c] = true;
        digits += isdigit(c) != 0;
        run = i > 0 && body.at[i - 1] == body.at[i] ? run + 1 : 1;
        longest = run > longest ? run : longest;
    }
    return distinct >= DISTINCT_MIN && digits > 0 && longest <= RUN_MAX;
}

/* Three parts; the second is JSON as the first is. */
static bool is_jwt(struct str text)
{
    struct str rest = text, head, claims;

    return str_split(&rest, '.', &head) && str_split(&rest, '.', &claims) && rest.at &&
           str_find(rest, '.') == rest.len && str_starts(claims, STR("eyJ")) &&
           claims.len > GROUP && rest.len >= SIGNATURE_MIN;
}

/* ---- one place ---- */

/* A key begins a word. An escape ("\n", "%3D") before it belongs to what is outside. */
static bool begins_word(struct str text, size_t at)
{
    if (at == 0) {
        return true;
    }
    char before = text.at[at - 1];
    if (!is_of(before, WORD)) {
        return true;
    }
    bool escape = at >= 2 && text.at[at - 2] == '\\';
    bool percent = at >= 3 && text.at[at - 3] == '%' && isxdigit((unsigned char)before) &&
                   isxdigit((unsigned char)text.at[at - 2]);
    return escape || percent;
}

/* The dot that ends a sentence is no part of the key. */
static size_t body_len(struct str text, const struct format *format)
{
    size_t n = 0;

    while (n < text.len && n <= format->max && is_of(text.at[n], format->alphabet)) {
        n++;
    }
    while (n > 0 && format->alphabet == DOTTED && text.at[n - 1] == '.') {
        n--;
    }
    return n;
}

/* How long the key is that begins here; 0: none does. */
static size_t format_at(struct str text, size_t at, const struct format *format)
{
    struct str rest = str_skip(text, at);
    size_t lead = strlen(format->prefix);

    if (!str_starts(rest, str_of(format->prefix)) || !begins_word(text, at)) {
        return 0;
    }
    struct str body = {rest.at + lead, body_len(str_skip(rest, lead), format)};
    if (body.len < format->min || body.len > format->max || is_example(body) || !is_random(body)) {
        return 0;
    }
    bool jwt = strcmp(format->prefix, "eyJ") == 0;
    return jwt && !is_jwt((struct str){rest.at, lead + body.len}) ? 0 : lead + body.len;
}

/* Where the word begins; text.len when it does not occur. */
static size_t find_word(struct str text, struct str word)
{
    const char *at = text.at ? memmem(text.at, text.len, word.at, word.len) : NULL;

    return at ? (size_t)(at - text.at) : text.len;
}

/* The characters that may stand between the lines of a private key, in a file or in a program's
 * text. */
static size_t between_lines(struct str text)
{
    size_t n = 0;

    while (n < text.len &&
           memchr(" \t\r\n\"'`+(),\\", text.at[n], sizeof(" \t\r\n\"'`+(),\\") - 1)) {
        n += text.at[n] == '\\' && n + 1 < text.len ? 2 : 1; /* an escape: "\n" */
    }
    return n;
}

static size_t base64_run(struct str text)
{
    size_t n = 0;

    while (n < text.len &&
           (isalnum((unsigned char)text.at[n]) || memchr("+/=", text.at[n], sizeof("+/=") - 1))) {
        n++;
    }
    return n;
}

/* The lines behind the first one; 0: they are none of a key. */
static size_t pem_lines(struct str text)
{
    const struct str rest = text;

    text = str_skip(text, between_lines(text));
    if (str_starts(text, STR("Proc-Type:"))) { /* of one with a password: headers, a blank line */
        size_t blank = find_word(text, STR("\n\n")), escaped = find_word(text, STR("\\n\\n"));
        text = str_skip(text, blank < escaped ? blank : escaped);
        text = str_skip(text, between_lines(text));
    }
    if (base64_run(text) < PEM_BASE64_MIN) {
        return 0;
    }
    for (size_t n = base64_run(text); n > 0; n = base64_run(text)) {
        text = str_skip(text, n);
        text = str_skip(text, between_lines(text));
    }
    return (size_t)(text.at - rest.at);
}

/* "-----BEGIN ... PRIVATE KEY-----" with base64 behind it: the line alone is just a word. */
static size_t pem_at(struct str text, size_t at)
{
    struct str rest = str_skip(text, at), dashes = STR("-----");

    if (!str_starts(rest, STR("-----BEGIN "))) {
        return 0;
    }
    rest.len = rest.len < PEM_BYTES_MAX ? rest.len : PEM_BYTES_MAX;
    size_t close = dashes.len + find_word(str_skip(rest, dashes.len), dashes);
    struct str line = {rest.at, close};
    if (close == rest.len || find_word(line, STR("PRIVATE KEY")) == line.len ||
        str_find(line, '\n') < line.len) {
        return 0;
    }
    size_t first = close + dashes.len;
    size_t lines = pem_lines(str_skip(rest, first));
    return lines > 0 ? first + lines : 0;
}

/* ---- texts ---- */

struct scan {
    guard_format_found *each;
    void *ctx;
    struct str
        place; /* of all that is found, where the text is a decoded one; at NULL: it is not */
};

static void tell(const struct scan *scan, struct str key, const char *kind)
{
    scan->each(scan->ctx, scan->place.at ? scan->place : key, key, kind);
}

static void plain_each(struct str text, const struct scan *scan)
{
    bool first[UINT8_MAX + 1] = {['-'] = true};

    for (size_t i = 0; i < countof(formats); i++) {
        first[(unsigned char)formats[i].prefix[0]] = true;
    }
    for (size_t at = 0; at < text.len; at++) {
        size_t len = 0;

        if (!first[(unsigned char)text.at[at]]) {
            continue;
        }
        const char *kind = "a private key";
        len = pem_at(text, at);
        for (size_t i = 0; len == 0 && i < countof(formats); i++) {
            len = format_at(text, at, &formats[i]);
            kind = formats[i].kind;
        }
        if (len > 0) {
            tell(scan, (struct str){text.at + at, len}, kind);
            at += len - 1;
        }
    }
}

static bool is_base64(char c)
{
    return isalnum((unsigned char)c) || c == '+' || c == '/' || c == '-' || c == '_';
}

/* Text that does not end with a whole byte was not encoded from here on: its groups are still
 * read. */
static int run_decode(struct str run, struct buf *out)
{
    if (base64_decode(out, run) == 0) {
        return 0;
    }
    run.len -= run.len % GROUP;
    return base64_decode(out, run);
}

/* A run of base64 may begin in the middle of what was encoded. */
static void run_each(struct str run, const struct scan *scan)
{
    const struct scan inner = {scan->each, scan->ctx, run};

    for (size_t skipped = 0; skipped < GROUP && run.len > skipped + GROUP; skipped++) {
        struct str rest = str_skip(run, skipped);
        scoped_buf(plain, ENCODED_BYTES_MAX);

        if (run_decode(rest, &plain) == 0) {
            plain_each(buf_str(&plain), &inner);
        }
        buf_wipe(&plain);
    }
}

/* Pieces of a long run overlap, so that a key of up to half their length lies in one of them. */
static void base64_each(struct str text, const struct scan *scan)
{
    for (size_t at = 0; at < text.len;) {
        size_t n = 0;

        while (at + n < text.len && is_base64(text.at[at + n])) {
            n++;
        }
        for (size_t from = 0; n >= ENCODED_BYTES_MIN && from < n; from += ENCODED_BYTES_MAX / 2) {
            size_t len = n - from < ENCODED_BYTES_MAX ? n - from : (size_t)ENCODED_BYTES_MAX;

            run_each((struct str){text.at + at + from, len}, scan);
        }
        at += n + 1;
    }
}

static bool is_percent(struct str text, size_t at)
{
    return at + 2 < text.len && text.at[at] == '%' && isxdigit((unsigned char)text.at[at + 1]) &&
           isxdigit((unsigned char)text.at[at + 2]);
}

static void percent_each(struct str text, const struct scan *scan)
{
    for (size_t at = 0; at < text.len; at++) {
        size_t n = 0;

        while (is_percent(text, at + n) && n < ENCODED_BYTES_MAX) {
            n += 3;
        }
        if (n >= (size_t)3 * PERCENT_BYTES_MIN) {
            struct str run = {text.at + at, n};
            const struct scan inner = {scan->each, scan->ctx, run};
            scoped_buf(plain, ENCODED_BYTES_MAX);

            if (percent_decode(&plain, run, false) == 0) {
                plain_each(buf_str(&plain), &inner);
            }
            buf_wipe(&plain);
        }
        at += n;
    }
}

void guard_formats_each(struct str text, guard_format_found *each, void *ctx)
{
    const struct scan scan = {.each = each, .ctx = ctx};

    plain_each(text, &scan);
    base64_each(text, &scan);
    percent_each(text, &scan);
}
