/* str.h - borrowed bytes with a length: a piece of a header, a path, a body. Never NUL-terminated
 * by promise, so a name with a NUL inside stays what it is until something refuses it. */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

struct str {
    const char *at;
    size_t len;
};

#define STR(literal) ((struct str){(literal), sizeof(literal) - 1})

static inline struct str str_of(const char *s)
{
    return (struct str){s, s ? strlen(s) : 0};
}

static inline bool str_eq(struct str a, struct str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

/* ASCII case only: for header names, schemes, hex. */
static inline bool str_ieq(struct str a, struct str b)
{
    return a.len == b.len && (a.len == 0 || strncasecmp(a.at, b.at, a.len) == 0);
}

static inline bool str_starts(struct str s, struct str prefix)
{
    return s.len >= prefix.len && (prefix.len == 0 || memcmp(s.at, prefix.at, prefix.len) == 0);
}

static inline bool str_ends(struct str s, struct str suffix)
{
    return s.len >= suffix.len &&
           (suffix.len == 0 || memcmp(s.at + s.len - suffix.len, suffix.at, suffix.len) == 0);
}

static inline struct str str_skip(struct str s, size_t n)
{
    return n >= s.len ? (struct str){s.at + s.len, 0} : (struct str){s.at + n, s.len - n};
}

/* Position of c, or s.len when it does not occur. */
static inline size_t str_find(struct str s, char c)
{
    const char *p = s.len ? memchr(s.at, c, s.len) : NULL;

    return p ? (size_t)(p - s.at) : s.len;
}

/* Cuts the part before sep off the front of *rest and returns it; false when *rest is used up. */
static inline bool str_split(struct str *rest, char sep, struct str *part)
{
    if (!rest->at) {
        return false;
    }
    size_t n = str_find(*rest, sep);
    *part = (struct str){rest->at, n};
    *rest = n == rest->len ? (struct str){NULL, 0} : str_skip(*rest, n + 1);
    return true;
}

static inline struct str str_trim(struct str s)
{
    while (s.len && (s.at[0] == ' ' || s.at[0] == '\t')) {
        s = str_skip(s, 1);
    }
    while (s.len && (s.at[s.len - 1] == ' ' || s.at[s.len - 1] == '\t')) {
        s.len--;
    }
    return s;
}

/* ASCII only, in every locale. */
static inline char char_lower(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return (char)(c + ('a' - 'A'));
    }
    return c;
}

static inline char char_upper(char c)
{
    if (c >= 'a' && c <= 'z') {
        return (char)(c - ('a' - 'A'));
    }
    return c;
}

/* Copies into dst with a NUL; false (and dst untouched) when it does not fit or holds a NUL. */
static inline bool str_copy(char *dst, size_t size, struct str s)
{
    if (s.len >= size || (s.len && memchr(s.at, '\0', s.len))) {
        return false;
    }
    if (s.len) {
        memcpy(dst, s.at, s.len);
    }
    dst[s.len] = '\0';
    return true;
}

#endif
