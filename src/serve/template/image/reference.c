#include "serve/template/image/reference.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DOCKER_HOST "docker.io"
#define DOCKER_LIBRARY "library/"

enum { SHOWN_MAX = 100 };

static int refuse(struct str text, const char *why, struct err *err)
{
    return err_set(err, EINVAL, "'%.*s' names no image: %s",
                   (int)(text.len < SHOWN_MAX ? text.len : SHOWN_MAX), text.at, why);
}

static bool is_lower_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool is_hex(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (!(text.at[i] >= '0' && text.at[i] <= '9') &&
            !(text.at[i] >= 'a' && text.at[i] <= 'f')) {
            return false;
        }
    }
    return true;
}

bool reference_is_digest(struct str text)
{
    return str_starts(text, STR("sha256:")) && text.len == REFERENCE_DIGEST_BYTES - 1 &&
           is_hex(str_skip(text, 7));
}

/* ---- parts ---- */

/* Host name, IPv4 or [IPv6], with a port or without. */
static bool is_host(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (!isalnum((unsigned char)text.at[i]) && !strchr("-.:[]", text.at[i])) {
            return false;
        }
    }
    return text.len > 0 && (isalnum((unsigned char)text.at[0]) || text.at[0] == '[') &&
           text.at[text.len - 1] != '.' && text.at[text.len - 1] != ':';
}

static bool is_repository(struct str text)
{
    struct str part;

    while (str_split(&text, '/', &part)) {
        if (part.len == 0 || !is_lower_alnum(part.at[0]) ||
            !is_lower_alnum(part.at[part.len - 1])) {
            return false;
        }
        for (size_t i = 0; i < part.len; i++) {
            if (!is_lower_alnum(part.at[i]) && !strchr("-._", part.at[i])) {
                return false;
            }
        }
    }
    return true;
}

static bool is_tag(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        if (!isalnum((unsigned char)c) && c != '_' && (i == 0 || (c != '.' && c != '-'))) {
            return false;
        }
    }
    return text.len > 0 && text.len < REFERENCE_TAG_BYTES;
}

/* The last of c in s, or s.len. */
static size_t find_last(struct str s, char c)
{
    for (size_t i = s.len; i > 0; i--) {
        if (s.at[i - 1] == c) {
            return i - 1;
        }
    }
    return s.len;
}

/* ---- whole names ---- */

static int digest_cut(struct str whole, struct str *text, struct reference *out, struct err *err)
{
    size_t at = str_find(*text, '@');

    if (at == text->len) {
        return 0;
    }
    if (!reference_is_digest(str_skip(*text, at + 1))) {
        return refuse(whole, "a digest is sha256: and 64 hexadecimal digits", err);
    }
    (void)str_copy(out->digest, sizeof(out->digest), str_skip(*text, at + 1));
    text->len = at;
    return 0;
}

static int tag_cut(struct str whole, struct str *text, struct reference *out, struct err *err)
{
    size_t at = find_last(*text, ':');
    bool has_tag = at < text->len && str_find(str_skip(*text, at), '/') == text->len - at;

    if (has_tag) {
        struct str tag = str_skip(*text, at + 1);
        if (!is_tag(tag)) {
            return refuse(whole, "its tag is not made of letters, digits, '_', '.' and '-'", err);
        }
        (void)str_copy(out->tag, sizeof(out->tag), tag);
        text->len = at;
    } else if (!out->digest[0]) {
        (void)snprintf(out->tag, sizeof(out->tag), "latest");
    }
    return 0;
}

/* As Docker does: the first part is a host when it could not be anything else. */
static bool first_is_host(struct str first)
{
    return str_find(first, '.') < first.len || str_find(first, ':') < first.len ||
           str_eq(first, STR("localhost"));
}

static int registry_parse(struct str whole, struct reference *out, struct err *err)
{
    struct str text = whole, host = STR(DOCKER_HOST);
    int r = digest_cut(whole, &text, out, err);

    if (r == 0) {
        size_t slash = str_find(text, '/');
        if (slash < text.len && first_is_host((struct str){text.at, slash})) {
            host = (struct str){text.at, slash};
            text = str_skip(text, slash + 1);
        }
        r = tag_cut(whole, &text, out, err);
    }
    if (r < 0) {
        return r;
    }
    if (str_eq(host, STR("index." DOCKER_HOST))) {
        host = STR(DOCKER_HOST);
    }
    if (!is_host(host) || !str_copy(out->host, sizeof(out->host), host)) {
        return refuse(whole, "its registry is not a host name", err);
    }
    bool library = str_eq(host, STR(DOCKER_HOST)) && str_find(text, '/') == text.len;
    int n = snprintf(out->repository, sizeof(out->repository), "%s%.*s",
                     library ? DOCKER_LIBRARY : "", (int)text.len, text.at);
    if (!is_repository(text) || n >= (int)sizeof(out->repository)) {
        return refuse(whole, "a repository is made of lower-case letters, digits, '.', '_' and '-'",
                      err);
    }
    return 0;
}

/* A path, and behind the first ':' which of the images there. */
static int local_parse(struct str whole, struct str text, struct reference *out, struct err *err)
{
    size_t at = str_find(text, ':');
    struct str name = str_skip(text, at + 1);

    text.len = at;
    if (text.len == 0 || !str_copy(out->repository, sizeof(out->repository), text) ||
        !str_copy(out->tag, sizeof(out->tag), name)) {
        return refuse(whole, "its path is empty or too long", err);
    }
    return 0;
}

int reference_parse(struct str text, struct reference *out, struct err *err)
{
    static const struct {
        struct str prefix;
        enum reference_kind kind;
    } locals[] = {{{"oci:", 4}, REFERENCE_OCI},
                  {{"docker-archive:", 15}, REFERENCE_DOCKER_ARCHIVE}};

    *out = (struct reference){.kind = REFERENCE_REGISTRY};
    if (text.len == 0 || text.len >= IMAGE_NAME_BYTES) {
        return refuse(text, "it is empty or too long", err);
    }
    for (size_t i = 0; i < countof(locals); i++) {
        if (str_starts(text, locals[i].prefix)) {
            out->kind = locals[i].kind;
            return local_parse(text, str_skip(text, locals[i].prefix.len), out, err);
        }
    }
    if (str_starts(text, STR("debootstrap:"))) {
        return refuse(text, "no template of this machine stands for that release (image_map)", err);
    }
    return registry_parse(text, out, err);
}

/* ---- the map ---- */

static bool matches(struct str pattern, struct str text)
{
    size_t p = 0, t = 0, star = SIZE_MAX, mark = 0;

    while (t < text.len) {
        if (p < pattern.len && pattern.at[p] == '*') {
            star = p++;
            mark = t;
        } else if (p < pattern.len && pattern.at[p] == text.at[t]) {
            p++;
            t++;
        } else if (star != SIZE_MAX) { /* let the last '*' stand for one more */
            p = star + 1;
            t = ++mark;
        } else {
            return false;
        }
    }
    while (p < pattern.len && pattern.at[p] == '*') {
        p++;
    }
    return p == pattern.len;
}

static struct str plain_name(struct str name)
{
    static const char *const prefixes[] = {"index." DOCKER_HOST "/", DOCKER_HOST "/",
                                           DOCKER_LIBRARY};

    for (size_t i = 0; i < countof(prefixes); i++) {
        if (str_starts(name, str_of(prefixes[i]))) {
            name = str_skip(name, strlen(prefixes[i]));
        }
    }
    return name;
}

bool reference_map(struct str map, struct str name, struct str *value)
{
    char tagged[IMAGE_NAME_BYTES + 8];
    struct str pair, plain = plain_name(name);
    size_t colon = find_last(plain, ':');
    bool has_tag = colon < plain.len && str_find(str_skip(plain, colon), '/') == plain.len - colon;
    int n = snprintf(tagged, sizeof(tagged), "%.*s%s", (int)plain.len, plain.at,
                     has_tag ? "" : ":latest");

    if (plain.len >= IMAGE_NAME_BYTES) {
        return false;
    }
    while (str_split(&map, ',', &pair)) {
        pair = str_trim(pair);
        size_t equals = str_find(pair, '=');
        struct str pattern = str_trim((struct str){pair.at, equals});
        if (matches(pattern, plain) || matches(pattern, (struct str){tagged, (size_t)n})) {
            *value = str_trim(str_skip(pair, equals + 1));
            return value->len > 0;
        }
    }
    return false;
}

int reference_map_check(struct str map, struct err *err)
{
    struct str pair;

    while (str_split(&map, ',', &pair)) {
        pair = str_trim(pair);
        size_t equals = str_find(pair, '=');
        if (pair.len > 0 && (equals == 0 || equals == pair.len)) {
            return err_set(err, EINVAL, "'%.*s' is not of the form image=template", (int)pair.len,
                           pair.at);
        }
    }
    return 0;
}
