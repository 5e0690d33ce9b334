#include "serve/api/list_query.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/clock.h"
#include "lib/base/encode.h"
#include "lib/http/http.h"
#include "serve/api/fields.h"

/* ---- positions and tokens ---- */

bool position_before(const struct sandbox_position *a, const struct sandbox_position *b,
                     bool ascending)
{
    int order = a->created_ms != b->created_ms ? (a->created_ms < b->created_ms ? -1 : 1)
                                               : strcmp(a->id, b->id);

    return ascending ? order < 0 : order > 0;
}

/* The order is part of the token: a token used with the other order would skip or repeat rows. */
void list_token_write(const struct sandbox_position *at, bool ascending, char out[LIST_TOKEN_BYTES])
{
    scoped_buf(text, LIST_TOKEN_BYTES - 1);
    char plain[64];

    int len = snprintf(plain, sizeof(plain), "%s__%" PRId64 "__%s", ascending ? "asc" : "desc",
                       at->created_ms, at->id);
    if (base64_encode(&text, plain, (size_t)len, BASE64_URL_NOPAD) < 0 ||
        !str_copy(out, LIST_TOKEN_BYTES, buf_str(&text))) {
        abort(); /* our own numbers: they fit */
    }
}

static bool id_ok(struct str id)
{
    for (size_t i = 0; i < id.len; i++) {
        if (!((id.at[i] >= 'a' && id.at[i] <= 'z') || (id.at[i] >= '0' && id.at[i] <= '9'))) {
            return false;
        }
    }
    return id.len > 0;
}

static bool number_read(struct str text, int64_t *out)
{
    int64_t number = 0;

    if (text.len == 0 || text.len > 18) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9') {
            return false;
        }
        number = number * 10 + (text.at[i] - '0');
    }
    *out = number;
    return true;
}

int list_token_read(struct str token, bool ascending, struct sandbox_position *out)
{
    struct str order = ascending ? STR("asc__") : STR("desc__");
    struct sandbox_position at = {0};
    scoped_buf(plain, LIST_TOKEN_BYTES);

    if (base64_decode(&plain, token) < 0 || !str_starts(buf_str(&plain), order)) {
        return -EINVAL;
    }
    struct str rest = str_skip(buf_str(&plain), order.len);
    size_t end = str_find(rest, '_');
    struct str id = str_skip(rest, end + 2);
    if (!number_read((struct str){rest.at, end}, &at.created_ms) ||
        !str_starts(str_skip(rest, end), STR("__")) || !id_ok(id) ||
        !str_copy(at.id, sizeof(at.id), id)) {
        return -EINVAL;
    }
    *out = at;
    return 0;
}

/* ---- metadata ---- */

bool metadata_matches(const json_t *metadata, const json_t *filter)
{
    json_each (filter, it) {
        if (!json_equal(json_object_get(metadata, json_object_iter_key(it)),
                        json_object_iter_value(it))) {
            return false;
        }
    }
    return true;
}

/* Decoded as text of a JSON string, so invalid UTF-8 and NUL are refused with the rest. */
static json_t *decoded(struct str text)
{
    scoped_buf(plain, LIST_PARAM_BYTES_MAX);

    if (percent_decode(&plain, text, true) < 0 ||
        (buf_len(&plain) > 0 && memchr(buf_at(&plain), '\0', buf_len(&plain)))) {
        return NULL;
    }
    return json_stringn(buf_len(&plain) > 0 ? buf_at(&plain) : "", buf_len(&plain));
}

static bool pair_add(json_t *filter, struct str pair)
{
    size_t equals = str_find(pair, '=');

    if (equals == pair.len || str_find(str_skip(pair, equals + 1), '=') + equals + 1 != pair.len) {
        return false;
    }
    scoped_json *key = decoded((struct str){pair.at, equals});
    json_t *value = decoded(str_skip(pair, equals + 1));
    return key && json_object_set_new(filter, json_string_value(key), value) == 0;
}

/* The parameter's value is itself an encoded query string, whose keys and values were encoded
 * before they were joined: unescape the whole, split, unescape the parts. */
static int metadata_parse(struct str value, json_t **out, struct err *err)
{
    scoped_json *filter = json_object();
    scoped_buf(text, LIST_PARAM_BYTES_MAX);

    if (percent_decode(&text, value, true) < 0) {
        return err_set(err, EINVAL, "Error parsing metadata: it is not percent-encoded");
    }
    struct str rest = buf_str(&text), pair;
    while (str_split(&rest, '&', &pair)) {
        if (!pair_add(filter, pair)) {
            return err_set(err, EINVAL, "Error parsing metadata: want key=value pairs joined by &");
        }
    }
    *out = move_ptr(&filter);
    return 0;
}

/* ---- parameters ---- */

/* Calls parse with the parameter's value, if it is there. */
static int param(struct str query, const char *name,
                 int (*parse)(struct str value, struct list_query *out, struct err *err),
                 struct list_query *out, struct err *err)
{
    scoped_buf(value, LIST_PARAM_BYTES_MAX);

    int r = http_query_get(query, name, &value);
    if (r < 0) {
        return err_set(err, EINVAL, "validation error: %s is not a valid query parameter", name);
    }
    struct str text = buf_len(&value) > 0 ? buf_str(&value) : STR("");
    return r == 0 ? 0 : parse(text, out, err);
}

static int parse_state(struct str value, struct list_query *out, struct err *err)
{
    struct str one;

    out->running = out->paused = false;
    while (str_split(&value, ',', &one)) {
        if (str_eq(one, STR("running"))) {
            out->running = true;
        } else if (str_eq(one, STR("paused"))) {
            out->paused = true;
        } else {
            return field_refuse(err, "state", "running, paused, or both with a comma");
        }
    }
    return 0;
}

static int parse_order(struct str value, struct list_query *out, struct err *err)
{
    out->ascending = str_eq(value, STR("asc"));
    return out->ascending || str_eq(value, STR("desc")) ? 0
                                                        : field_refuse(err, "order", "asc or desc");
}

static int parse_limit(struct str value, struct list_query *out, struct err *err)
{
    int64_t limit = 0;

    if (!number_read(value, &limit) || limit < 1 || limit > (int64_t)out->limit_max) {
        return err_set(err, EINVAL, "validation error: limit must be between 1 and %zu",
                       out->limit_max);
    }
    out->limit = (size_t)limit;
    return 0;
}

static int parse_started_after(struct str value, struct list_query *out, struct err *err)
{
    return clock_parse(value, &out->started_after_ms) == 0
               ? 0
               : field_refuse(err, "startedAfter", "a date and time of RFC 3339");
}

static int parse_template(struct str value, struct list_query *out, struct err *err)
{
    if (str_find(value, ':') < value.len) {
        return err_set(err, EINVAL, "Invalid template: a filter cannot name a tag");
    }
    if (value.len == 0 || memchr(value.at, '\0', value.len)) {
        return err_set(err, EINVAL, "Invalid template: want an id or a name");
    }
    out->template_name = strndup(value.at, value.len);
    return out->template_name ? 0 : err_set(err, ENOMEM, "out of memory");
}

static int parse_metadata(struct str value, struct list_query *out, struct err *err)
{
    return metadata_parse(value, &out->metadata, err);
}

/* After the order: a token belongs to one. */
static int parse_token(struct str value, struct list_query *out, struct err *err)
{
    if (value.len == 0) {
        return 0; /* the client's way to say "from the start" */
    }
    out->continues = true;
    return list_token_read(value, out->ascending, &out->after) == 0
               ? 0
               : err_set(err, EINVAL, "Invalid next token");
}

struct list_param {
    const char *name;
    int (*parse)(struct str value, struct list_query *out, struct err *err);
};

static int params_parse(struct str query, const struct list_param *params, size_t n,
                        struct list_query *out, struct err *err)
{
    for (size_t i = 0; i < n; i++) {
        int r = param(query, params[i].name, params[i].parse, out, err);

        if (r < 0) {
            list_query_fini(out);
            return r;
        }
    }
    return 0;
}

int list_query_parse(struct str query, struct list_query *out, struct err *err)
{
    static const struct list_param params[] = {
        {"state", parse_state},       {"order", parse_order},
        {"limit", parse_limit},       {"startedAfter", parse_started_after},
        {"template", parse_template}, {"metadata", parse_metadata},
        {"nextToken", parse_token},
    };

    *out = (struct list_query){.running = true,
                               .paused = true,
                               .limit = LIST_LIMIT_MAX,
                               .limit_max = LIST_LIMIT_MAX,
                               .started_after_ms = INT64_MIN};
    return params_parse(query, params, countof(params), out, err);
}

int list_query_parse_pages(struct str query, size_t limit_max, struct list_query *out,
                           struct err *err)
{
    static const struct list_param params[] = {
        {"state", parse_state},       {"order", parse_order},       {"limit", parse_limit},
        {"template", parse_template}, {"metadata", parse_metadata}, {"cursor", parse_token},
    };

    *out = (struct list_query){.running = true,
                               .paused = true,
                               .limit = limit_max,
                               .limit_max = limit_max,
                               .started_after_ms = INT64_MIN};
    return params_parse(query, params, countof(params), out, err);
}

int list_query_parse_v1(struct str query, struct list_query *out, struct err *err)
{
    *out = (struct list_query){.running = true, .started_after_ms = INT64_MIN};
    return param(query, "metadata", parse_metadata, out, err);
}

void list_query_fini(struct list_query *query)
{
    free(query->template_name);
    json_decref(query->metadata);
    *query = (struct list_query){0};
}
