#include "serve/api/query.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "lib/http/http.h"

enum { DIGITS_MAX = 18 };

/* The last second that metrics can have: the end of the year 2299. */
static const int64_t RANGE_S_MAX = INT64_C(10413791999);

int query_text(struct str query, const char *name, struct buf *out, struct err *err)
{
    int r = http_query_get(query, name, out);

    if (r < 0 || (buf_len(out) > 0 && memchr(buf_at(out), '\0', buf_len(out)))) {
        return err_set(err, EINVAL, "validation error: %s is not a valid query parameter", name);
    }
    return r;
}

int query_bool(struct str query, const char *name, bool *out, struct err *err)
{
    scoped_buf(value, QUERY_VALUE_BYTES_MAX);
    int r = query_text(query, name, &value, err);

    if (r <= 0) {
        return r;
    }
    bool is_true = str_eq(buf_str(&value), STR("true"));
    if (!is_true && !str_eq(buf_str(&value), STR("false"))) {
        return field_refuse(err, name, "true or false");
    }
    *out = is_true;
    return 1;
}

static bool digits_read(struct str text, int64_t *out)
{
    int64_t number = 0;

    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9') {
            return false;
        }
        number = number * 10 + (text.at[i] - '0');
    }
    *out = number;
    return text.len > 0;
}

int query_int(struct str query, const char *name, struct int_range range, int64_t *out,
              struct err *err)
{
    int64_t number = 0;
    scoped_buf(value, QUERY_VALUE_BYTES_MAX);

    int r = query_text(query, name, &value, err);
    if (r <= 0) {
        return r;
    }
    if (buf_len(&value) > DIGITS_MAX || !digits_read(buf_str(&value), &number) ||
        number < range.min || number > range.max) {
        return err_set(err, EINVAL,
                       "validation error: %s must be a whole number from %" PRId64 " to %" PRId64,
                       name, range.min, range.max);
    }
    *out = number;
    return 1;
}

int query_range(struct str query, struct query_range *out, struct err *err)
{
    static const struct int_range seconds = {0, INT64_C(999999999999999999)};
    struct query_range range = {INT64_MIN, INT64_MAX};
    int r = query_int(query, "start", seconds, &range.start_s, err);

    if (r >= 0) {
        r = query_int(query, "end", seconds, &range.end_s, err);
    }
    if (r < 0) {
        return r;
    }
    if (range.start_s > RANGE_S_MAX || (range.end_s > RANGE_S_MAX && range.end_s != INT64_MAX)) {
        return err_set(err, EINVAL, "validation error: %s time cannot be after 2299-12-31",
                       range.start_s > RANGE_S_MAX ? "start" : "end");
    }
    if (range.start_s > range.end_s) {
        return err_set(err, EINVAL, "validation error: start must not be later than end");
    }
    *out = range;
    return 0;
}
