#include "lib/http/h2_fields.h"

#include <errno.h>
#include <stdio.h>

#include "lib/base/alloc.h"
#include "lib/http/head.h"

enum {
    NAMES_BYTES_MAX = 4 * HTTP_HEADER_BYTES_MAX,
    OWN_FIELDS = 5, /* :status, date, content-length; or the four that begin a request and that */
    OWN_NAMES_BYTES = sizeof(":method:scheme:authority:path") + sizeof("content-length"),
};

/* The names have been given room for all, so `at` stays where it is. */
static int fields_add(struct h2_fields *f, struct str name, struct str value)
{
    char *at;

    if (buf_reserve(&f->names, name.len, &at) < 0) {
        return -EMSGSIZE;
    }
    for (size_t i = 0; i < name.len; i++) {
        at[i] = char_lower(name.at[i]);
    }
    buf_commit(&f->names, name.len);
    f->list[f->n++] = (nghttp2_nv){(uint8_t *)at, (uint8_t *)(uintptr_t)value.at, name.len,
                                   value.len, NGHTTP2_NV_FLAG_NONE};
    return 0;
}

static bool fits(const struct http_header *field)
{
    return head_may_send(field) && !str_ieq(field->name, STR("upgrade"));
}

static int reserve_names(struct h2_fields *f, const struct http_header *headers, size_t n)
{
    size_t bytes = OWN_NAMES_BYTES;
    char *at;

    for (size_t i = 0; i < n; i++) {
        bytes += headers[i].name.len;
    }
    return buf_reserve(&f->names, bytes, &at) < 0 ? -EMSGSIZE : 0;
}

static int fields_begin(struct h2_fields *f, const struct http_header *headers, size_t n)
{
    *f = (struct h2_fields){.list = xcalloc(n + OWN_FIELDS, sizeof(nghttp2_nv))};
    buf_init(&f->names, NAMES_BYTES_MAX);
    return reserve_names(f, headers, n);
}

static int add_length(struct h2_fields *f, int64_t content_length)
{
    (void)snprintf(f->length, sizeof(f->length), "%lld", (long long)content_length);
    return fields_add(f, STR("content-length"), str_of(f->length));
}

int h2_fields_make(struct h2_fields *f, int status, const struct http_header *headers, size_t n,
                   int64_t content_length)
{
    int r = fields_begin(f, headers, n);

    (void)snprintf(f->status, sizeof(f->status), "%03d", status);
    r = r < 0 ? r : fields_add(f, STR(":status"), str_of(f->status));
    r = r < 0 ? r : fields_add(f, STR("date"), str_of(head_date()));
    if (r == 0 && content_length >= 0 && status != 204) {
        r = add_length(f, content_length);
    }
    for (size_t i = 0; i < n && r == 0; i++) {
        if (fits(&headers[i]) && !str_ieq(headers[i].name, STR("date"))) {
            r = fields_add(f, headers[i].name, str_trim(headers[i].value));
        }
    }
    return r;
}

/* In whatever letters the caller wrote its name. */
static struct str host_of(const struct http_header *headers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (str_ieq(headers[i].name, STR("host"))) {
            return headers[i].value;
        }
    }
    return (struct str){NULL, 0};
}

int h2_fields_request(struct h2_fields *f, struct str method, struct str target,
                      const struct http_header *headers, size_t n, int64_t content_length)
{
    struct str host = host_of(headers, n);
    int r = fields_begin(f, headers, n);

    r = r < 0 ? r : fields_add(f, STR(":method"), method);
    r = r < 0 ? r : fields_add(f, STR(":scheme"), STR("https"));
    r = r < 0 ? r : fields_add(f, STR(":authority"), host);
    r = r < 0 ? r : fields_add(f, STR(":path"), target);
    if (r == 0 && content_length > 0) {
        r = add_length(f, content_length);
    }
    for (size_t i = 0; i < n && r == 0; i++) {
        if (fits(&headers[i]) && !str_ieq(headers[i].name, STR("host"))) {
            r = fields_add(f, headers[i].name, str_trim(headers[i].value));
        }
    }
    return r;
}

int h2_fields_trailers(struct h2_fields *f, const struct http_header *headers, size_t n)
{
    int r = fields_begin(f, headers, n);

    for (size_t i = 0; i < n && r == 0; i++) {
        if (fits(&headers[i])) {
            r = fields_add(f, headers[i].name, str_trim(headers[i].value));
        }
    }
    return r;
}

void h2_fields_fini(struct h2_fields *f)
{
    free(f->list);
    buf_fini(&f->names);
}
