#include "serve/egress/transform.h"

#include <errno.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/base/text.h"

struct transforms {
    struct transform *at;
    size_t n;
};

static const char *const placeholders[] = {"${e2b.secrets.", "${e2b.identity.tokens."};

/* ---- reading ---- */

/* The next placeholder in text: before it, between its braces, behind it. */
static bool placeholder_find(struct str text, struct str *before, struct str *what,
                             struct str *behind)
{
    for (size_t at = 0; at < text.len; at++) {
        struct str rest = str_skip(text, at);
        for (size_t i = 0; i < countof(placeholders); i++) {
            if (!str_starts(rest, str_of(placeholders[i]))) {
                continue; /* before any search: a long value has a rest at every byte */
            }
            size_t end = str_find(rest, '}');
            if (end < rest.len) {
                *before = (struct str){text.at, at};
                *what = (struct str){rest.at + 2, end - 2};
                *behind = str_skip(rest, end + 1);
                return true;
            }
        }
    }
    return false;
}

bool transform_has_placeholder(const char *value)
{
    struct str before, what, behind;

    return placeholder_find(str_of(value), &before, &what, &behind);
}

static void headers_read(struct transform *transform, json_t *headers)
{
    const char *name;
    json_t *value;

    transform->headers = xcalloc(json_object_size(headers) + 1, sizeof(struct transform_header));
    json_object_foreach (headers, name, value) {
        if (json_is_string(value)) {
            struct transform_header *header = &transform->headers[transform->headers_n++];

            text_set(&header->name, name);
            text_set(&header->value, json_string_value(value));
            header->filled = transform_has_placeholder(header->value);
        }
    }
}

struct transforms *transforms_new(const json_t *options)
{
    json_t *rules = json_object_get(json_object_get(options, "network"), "rules");
    struct transforms *all = xnew(struct transforms);
    const char *domain;
    json_t *list;

    all->at = xcalloc(json_object_size(rules) + 1, sizeof(struct transform));
    json_object_foreach (rules, domain, list) {
        json_t *transform = json_object_get(json_array_get(list, 0), "transform");

        text_set(&all->at[all->n].domain, domain);
        headers_read(&all->at[all->n++], json_object_get(transform, "headers"));
    }
    return all;
}

void transforms_free(struct transforms *all)
{
    for (size_t i = 0; all && i < all->n; i++) {
        for (size_t j = 0; j < all->at[i].headers_n; j++) {
            free(all->at[i].headers[j].name);
            free(all->at[i].headers[j].value);
        }
        free(all->at[i].headers);
        free(all->at[i].domain);
    }
    if (all) {
        free(all->at);
        free(all);
    }
}

/* ---- finding ---- */

bool transforms_any(const struct transforms *all)
{
    for (size_t i = 0; i < all->n; i++) {
        if (all->at[i].headers_n > 0) {
            return true;
        }
    }
    return false;
}

/* How well a rule fits: 0 not at all, more for a longer suffix, most for the name itself. */
static size_t fit(const char *domain, struct str name)
{
    if (domain[0] != '*') {
        return str_ieq(str_of(domain), name) ? SIZE_MAX : 0;
    }
    struct str suffix = str_of(domain + 1); /* with its dot */
    bool ends = name.len > suffix.len &&
                str_ieq((struct str){name.at + name.len - suffix.len, suffix.len}, suffix);
    return ends ? suffix.len : 0;
}

const struct transform *transforms_find(const struct transforms *all, struct str name)
{
    const struct transform *best = NULL;
    size_t best_fit = 0;

    if (name.len > 1 && name.at[name.len - 1] == '.') {
        name.len--; /* "example.com." is the same name, said in full */
    }
    for (size_t i = 0; i < all->n; i++) {
        size_t how = fit(all->at[i].domain, name);
        if (how > best_fit) {
            best_fit = how;
            best = &all->at[i];
        }
    }
    return best && best->headers_n > 0 ? best : NULL;
}

bool transform_sets(const struct transform *transform, struct str header)
{
    for (size_t i = 0; i < transform->headers_n; i++) {
        if (str_ieq(str_of(transform->headers[i].name), header)) {
            return true;
        }
    }
    return false;
}

bool transform_fills(const struct transform *transform)
{
    for (size_t i = 0; i < transform->headers_n; i++) {
        if (transform->headers[i].filled) {
            return true;
        }
    }
    return false;
}

/* ---- filling in ---- */

/* Neither an end of line nor another control character: it would end the header early. */
static bool value_ok(struct str value)
{
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.at[i];
        if ((c < ' ' && c != '\t') || c == 0x7f) {
            return false;
        }
    }
    return true;
}

int transform_value(const struct transform_header *header, transform_fill *fill, void *ctx,
                    struct buf *out, struct err *err)
{
    struct str rest = str_of(header->value), before, what, behind;
    size_t start = buf_len(out);
    int r = 0;

    while (r == 0 && placeholder_find(rest, &before, &what, &behind)) {
        r = buf_append(out, before.at, before.len);
        r = r < 0 ? err_set(err, ENOBUFS, "header %s is too long", ours(header->name))
                  : fill(ctx, what, out, err);
        rest = behind;
    }
    if (r == 0 && buf_append(out, rest.at, rest.len) < 0) {
        r = err_set(err, ENOBUFS, "header %s is too long", ours(header->name));
    }
    if (r == 0 && buf_len(out) > start && !value_ok(str_skip(buf_str(out), start))) {
        r = err_set(err, EINVAL, "the value of header %s has characters that no header can have",
                    ours(header->name));
    }
    return r;
}
