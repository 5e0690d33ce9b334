#include "inside/agent/encoding.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    NUMBER_DIGITS_MAX = 18, /* below INT64_MAX */
};

struct preference {
    bool gzip_named, gzip_refused;
    bool identity_named, identity_refused;
    bool any_named, any_refused;
    bool others; /* some other coding is named */
};

/* "q=0", "q=0.0": refused. Anything else, the malformed too, is a preference. */
static bool weight_is_zero(struct str params)
{
    for (struct str param; str_split(&params, ';', &param);) {
        param = str_trim(param);
        if (param.len < 3 || (param.at[0] | 0x20) != 'q' || param.at[1] != '=') {
            continue;
        }
        param = str_skip(param, 2);
        size_t zeros = 0;
        while (zeros < param.len &&
               (param.at[zeros] == '0' || (zeros == 1 && param.at[1] == '.'))) {
            zeros++;
        }
        return zeros == param.len;
    }
    return false;
}

static struct preference preference_parse(struct str accept)
{
    struct preference p = {0};

    for (struct str item; str_split(&accept, ',', &item);) {
        size_t semicolon = str_find(item, ';');
        struct str coding = str_trim((struct str){item.at, semicolon});
        bool refused = weight_is_zero(str_skip(item, semicolon + 1));
        if (str_ieq(coding, STR("gzip")) || str_ieq(coding, STR("x-gzip"))) {
            p.gzip_named = true;
            p.gzip_refused = refused;
        } else if (str_ieq(coding, STR("identity"))) {
            p.identity_named = true;
            p.identity_refused = refused;
        } else if (str_eq(coding, STR("*"))) {
            p.any_named = true;
            p.any_refused = refused;
        } else if (coding.len > 0) {
            p.others = true;
        }
    }
    return p;
}

static bool identity_ok(const struct preference *p)
{
    return p->identity_named ? !p->identity_refused : !p->any_refused;
}

bool encoding_identity_acceptable(struct str accept)
{
    struct preference p = preference_parse(accept);

    return identity_ok(&p);
}

enum encoding encoding_choose(struct str accept)
{
    struct preference p = preference_parse(accept);
    bool gzip_ok = p.gzip_named ? !p.gzip_refused : p.any_named && !p.any_refused;
    bool gzip_alone = p.gzip_named && !p.identity_named && !p.others;

    if (gzip_ok && (gzip_alone || !identity_ok(&p))) {
        return ENCODING_GZIP;
    }
    return identity_ok(&p) ? ENCODING_IDENTITY : ENCODING_NONE;
}

enum encoding encoding_of_body(struct str content_encoding)
{
    struct str coding = str_trim(content_encoding);

    if (coding.len == 0 || str_ieq(coding, STR("identity"))) {
        return ENCODING_IDENTITY;
    }
    return str_ieq(coding, STR("gzip")) || str_ieq(coding, STR("x-gzip")) ? ENCODING_GZIP
                                                                          : ENCODING_NONE;
}

static bool number_parse(struct str text, int64_t *out)
{
    int64_t value = 0;

    if (text.len == 0 || text.len > NUMBER_DIGITS_MAX) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9') {
            return false;
        }
        value = value * 10 + (text.at[i] - '0');
    }
    *out = value;
    return true;
}

int range_parse(struct str range, int64_t size, int64_t *first, int64_t *length)
{
    struct str unit = STR("bytes=");
    int64_t from = 0, to = 0;

    if (!range.at || range.len < unit.len || !str_ieq((struct str){range.at, unit.len}, unit)) {
        return 0;
    }
    struct str spec = str_trim(str_skip(range, unit.len));
    size_t dash = str_find(spec, '-');
    struct str left = {spec.at, dash}, right = str_skip(spec, dash + 1);
    if (dash == spec.len || (left.len && !number_parse(left, &from)) ||
        (right.len && !number_parse(right, &to)) || (!left.len && !right.len)) {
        return 0;
    }
    if (!left.len) { /* the last `to` bytes */
        from = to < size ? size - to : 0;
        to = to == 0 ? -1 : size - 1;
    } else if (!right.len || to >= size) {
        if (right.len && to < from) {
            return 0;
        }
        to = size - 1;
    } else if (to < from) {
        return 0;
    }
    if (from >= size || to < from) {
        return -ERANGE;
    }
    *first = from;
    *length = to - from + 1;
    return 1;
}

/* Whether a list of entity tags has this one. Ours are never weak, so neither comparison differs
 * for them; a weak one in the list matches only where that is allowed. */
static bool tags_have(struct str list, const char *etag, bool weak_ok)
{
    for (struct str tag; str_split(&list, ',', &tag);) {
        tag = str_trim(tag);
        if (str_eq(tag, STR("*"))) {
            return true;
        }
        if (weak_ok && str_starts(tag, STR("W/"))) {
            tag = str_skip(tag, 2);
        }
        if (str_eq(tag, str_of(etag))) {
            return true;
        }
    }
    return false;
}

int conditions_check(const struct conditions *c, const char *etag, int64_t modified_s)
{
    int64_t since;

    if (c->if_match.at) {
        if (!tags_have(c->if_match, etag, false)) {
            return 412;
        }
    } else if (c->if_unmodified_since.at && http_date_parse(c->if_unmodified_since, &since) == 0 &&
               modified_s > since) {
        return 412;
    }
    if (c->if_none_match.at) {
        return tags_have(c->if_none_match, etag, true) ? 304 : 200;
    }
    if (c->if_modified_since.at && http_date_parse(c->if_modified_since, &since) == 0 &&
        modified_s <= since) {
        return 304;
    }
    return 200;
}

bool conditions_range_valid(const struct conditions *c, const char *etag, int64_t modified_s)
{
    int64_t since;

    if (!c->if_range.at) {
        return true;
    }
    if (http_date_parse(c->if_range, &since) == 0) {
        return since == modified_s;
    }
    return str_eq(str_trim(c->if_range), str_of(etag));
}

static const char *const days[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

void http_date(int64_t seconds, char out[HTTP_DATE_BYTES])
{
    time_t at = seconds;
    struct tm tm;

    if (!gmtime_r(&at, &tm) || tm.tm_year + 1900 > 9999 || tm.tm_year + 1900 < 1) {
        (void)snprintf(out, HTTP_DATE_BYTES, "Thu, 01 Jan 1970 00:00:00 GMT");
        return;
    }
    (void)snprintf(out, HTTP_DATE_BYTES, "%s, %02u %s %04u %02u:%02u:%02u GMT",
                   days[tm.tm_wday % 7], (unsigned)tm.tm_mday % 100, months[tm.tm_mon % 12],
                   (unsigned)(tm.tm_year + 1900) % 10000, (unsigned)tm.tm_hour % 100,
                   (unsigned)tm.tm_min % 100, (unsigned)tm.tm_sec % 100);
}

int http_date_parse(struct str text, int64_t *seconds)
{
    char copy[HTTP_DATE_BYTES];
    struct tm tm = {0};

    if (!str_copy(copy, sizeof(copy), str_trim(text))) {
        return -EINVAL;
    }
    const char *end = strptime(copy, "%a, %d %b %Y %H:%M:%S GMT", &tm);
    if (!end || *end != '\0') {
        return -EINVAL;
    }
    *seconds = timegm(&tm);
    return 0;
}
