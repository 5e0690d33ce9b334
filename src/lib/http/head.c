#include "lib/http/head.h"

#include <assert.h>
#include <errno.h>
#include <time.h>

/* Indexed by byte: the characters of RFC 9110's token. */
static const bool is_token[256] = {
    ['!'] = 1, ['#'] = 1, ['$'] = 1, ['%'] = 1,         ['&'] = 1,         ['\''] = 1,
    ['*'] = 1, ['+'] = 1, ['-'] = 1, ['.'] = 1,         ['^'] = 1,         ['_'] = 1,
    ['`'] = 1, ['|'] = 1, ['~'] = 1, ['0' ... '9'] = 1, ['A' ... 'Z'] = 1, ['a' ... 'z'] = 1,
};

/* The framing of a message belongs to the connection that sends it. */
static const char *const framing_names[] = {
    "connection", "content-length", "keep-alive", "proxy-connection", "transfer-encoding",
};

void head_init(struct head *head)
{
    *head = (struct head){.in_value = true};
    buf_init(&head->text, HTTP_TARGET_BYTES_MAX + HTTP_HEADER_BYTES_MAX);
    buf_init(&head->fields, HTTP_HEADERS_MAX * sizeof(struct http_header));
}

void head_fini(struct head *head)
{
    buf_fini(&head->text);
    buf_fini(&head->fields);
}

int head_target(struct head *head, const char *data, size_t len)
{
    if (len > HTTP_TARGET_BYTES_MAX - head->target_len) {
        return -ENAMETOOLONG;
    }
    if (buf_append(&head->text, data, len) < 0) {
        return -ENAMETOOLONG;
    }
    head->target_len += len;
    return 0;
}

static struct http_header *head_last(struct head *head)
{
    return (struct http_header *)(void *)(head->fields.data + head->fields.end) - 1;
}

static int head_add(struct head *head, const char *data, size_t len)
{
    size_t used = buf_len(&head->text) - head->target_len;

    if (len > HTTP_HEADER_BYTES_MAX - used || buf_append(&head->text, data, len) < 0) {
        return -EMSGSIZE;
    }
    return 0;
}

int head_name(struct head *head, const char *data, size_t len)
{
    if (head->in_value) {
        const struct http_header empty = {{NULL, 0}, {NULL, 0}};
        if (buf_append(&head->fields, &empty, sizeof(empty)) < 0) {
            return -EMSGSIZE;
        }
        head->in_value = false;
    }
    int r = head_add(head, data, len);
    if (r < 0) {
        return r;
    }
    for (char *p = head->text.data + head->text.end - len; p < head->text.data + head->text.end;
         p++) {
        *p = char_lower(*p);
    }
    head_last(head)->name.len += len;
    return 0;
}

int head_value(struct head *head, const char *data, size_t len)
{
    int r = head_add(head, data, len);

    if (r < 0) {
        return r;
    }
    assert(buf_len(&head->fields) > 0);
    head->in_value = true;
    head_last(head)->value.len += len;
    return 0;
}

struct head_fields head_fields(const struct head *head)
{
    return (struct head_fields){(const struct http_header *)(const void *)head->fields.data,
                                head->fields.end / sizeof(struct http_header)};
}

void head_seal(struct head *head)
{
    struct http_header *fields = (struct http_header *)(void *)head->fields.data;
    size_t n = head_fields(head).n;
    const char *at = n ? head->text.data + head->target_len : NULL;

    for (size_t i = 0; i < n; i++) {
        fields[i].name.at = at;
        at += fields[i].name.len;
        fields[i].value.at = at;
        at += fields[i].value.len;
        fields[i].value = str_trim(fields[i].value);
    }
}

struct str head_target_text(const struct head *head)
{
    return (struct str){head->text.data, head->target_len};
}

int head_join_cookies(struct head *head, struct buf *store)
{
    struct http_header *fields = (struct http_header *)(void *)head->fields.data;
    struct http_header *first = NULL;
    struct str name = STR("cookie");
    struct str ignored;
    size_t kept = 0;

    if (head_count(head_fields(head), name, &ignored) < 2) {
        return 0;
    }
    for (size_t i = 0, n = head_fields(head).n; i < n; i++) {
        bool cookie = str_eq(fields[i].name, name);
        if (cookie && (buf_append(store, "; ", first ? 2 : 0) < 0 ||
                       buf_append(store, fields[i].value.at, fields[i].value.len) < 0)) {
            return -EMSGSIZE;
        }
        if (!cookie || !first) {
            fields[kept] = fields[i];
            first = cookie ? &fields[kept] : first;
            kept++;
        }
    }
    assert(first);
    first->value = buf_str(store);
    head->fields.end = kept * sizeof(struct http_header);
    return 0;
}

size_t head_count(struct head_fields fields, struct str name, struct str *first)
{
    size_t n = 0;

    for (size_t i = 0; i < fields.n; i++) {
        if (str_eq(fields.at[i].name, name) && n++ == 0) {
            *first = fields.at[i].value;
        }
    }
    return n;
}

/* Cuts "http://authority" off the front of an absolute form. */
static struct str cut_authority(struct str target, struct str *authority)
{
    static const struct str schemes[] = {{"http://", 7}, {"https://", 8}};

    for (size_t i = 0; i < countof(schemes); i++) {
        if (target.len > schemes[i].len &&
            str_ieq((struct str){target.at, schemes[i].len}, schemes[i])) {
            struct str rest = str_skip(target, schemes[i].len);
            size_t n = 0;
            while (n < rest.len && rest.at[n] != '/' && rest.at[n] != '?') {
                n++;
            }
            *authority = (struct str){rest.at, n};
            return str_skip(rest, n);
        }
    }
    return target;
}

bool head_split_target(struct str target, struct http_request *req)
{
    struct str authority = {NULL, 0};
    struct str rest = cut_authority(target, &authority);
    size_t n = str_find(rest, '?');

    if (str_find(rest, '#') < rest.len || (authority.at && authority.len == 0)) {
        return false;
    }
    req->path = (struct str){rest.at, n};
    req->query = n < rest.len ? str_skip(rest, n + 1) : (struct str){rest.at + n, 0};
    if (authority.at) {
        req->authority = authority;
        req->path = n == 0 ? STR("/") : req->path;
    }
    if (str_eq(rest, STR("*"))) {
        return str_eq(req->method, STR("OPTIONS"));
    }
    return req->path.len > 0 && req->path.at[0] == '/';
}

bool head_authority_ok(struct str authority)
{
    for (size_t i = 0; i < authority.len; i++) {
        unsigned char c = (unsigned char)authority.at[i];
        if (c <= ' ' || c == 0x7f || strchr("/?#@\\,", c)) {
            return false;
        }
    }
    return true;
}

bool head_word_ok(struct str word)
{
    for (size_t i = 0; i < word.len; i++) {
        unsigned char c = (unsigned char)word.at[i];
        if (c <= ' ' || c == 0x7f) {
            return false;
        }
    }
    return word.len > 0;
}

static bool field_is_clean(const struct http_header *field)
{
    for (size_t i = 0; i < field->name.len; i++) {
        if (!is_token[(unsigned char)field->name.at[i]]) {
            return false;
        }
    }
    for (size_t i = 0; i < field->value.len; i++) {
        unsigned char c = (unsigned char)field->value.at[i];
        if ((c < ' ' && c != '\t') || c == 0x7f) {
            return false;
        }
    }
    return field->name.len > 0;
}

bool head_may_send(const struct http_header *field)
{
    for (size_t i = 0; i < countof(framing_names); i++) {
        if (str_ieq(field->name, str_of(framing_names[i]))) {
            return false;
        }
    }
    return field_is_clean(field);
}

static int put(struct buf *out, struct str text)
{
    return buf_append(out, text.at, text.len);
}

int head_put_fields(struct buf *out, const struct http_header *fields, size_t n)
{
    int r = 0;

    for (size_t i = 0; i < n && r == 0; i++) {
        if (!head_may_send(&fields[i])) {
            continue;
        }
        r = put(out, fields[i].name);
        r = r < 0 ? r : put(out, STR(": "));
        r = r < 0 ? r : put(out, fields[i].value);
        r = r < 0 ? r : put(out, STR("\r\n"));
    }
    return r;
}

const char *head_date(void)
{
    static _Thread_local time_t made;
    static _Thread_local char text[HEAD_DATE_BYTES];
    time_t now = time(NULL);
    struct tm tm;

    if (now != made && gmtime_r(&now, &tm)) {
        (void)strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &tm);
        made = now;
    }
    return text;
}
