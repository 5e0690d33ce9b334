#include "serve/egress/shell.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/encode.h"
#include "lib/base/text.h"
#include "lib/http/field_rules.h"

enum { HTTP_PORT = 80, HTTPS_PORT = 443 };

/* ---- paths ---- */

static int hex_value(char c)
{
    return isdigit((unsigned char)c) ? c - '0' : (c | 0x20) - 'a' + 10;
}

/* Decodes one segment. Servers disagree about an encoded slash, backslash or percent sign in a
 * path, so none is allowed. */
static int segment_decode(struct str segment, struct buf *out, struct err *err)
{
    for (size_t i = 0; i < segment.len; i++) {
        char c = segment.at[i];

        if (c == '%') {
            if (i + 2 >= segment.len || !isxdigit((unsigned char)segment.at[i + 1]) ||
                !isxdigit((unsigned char)segment.at[i + 2])) {
                return err_set(err, EINVAL, "the path has a %% that encodes nothing");
            }
            c = (char)(hex_value(segment.at[i + 1]) << 4 | hex_value(segment.at[i + 2]));
            i += 2;
            if (c == '/' || c == '%') {
                return err_set(err, EINVAL, "the path has an encoded %s",
                               c == '/' ? "slash" : "percent sign");
            }
        }
        if (c == '\\' || (unsigned char)c < ' ' || c == 0x7f) {
            return err_set(err, EINVAL, "the path has a backslash or a control character");
        }
        if (buf_append(out, &c, 1) < 0) {
            return err_set(err, EINVAL, "the path is longer than %d bytes", SHELL_PATH_BYTES_MAX);
        }
    }
    return 0;
}

/* "." and "..", also with what some servers take for parameters behind it. */
static bool is_dots(struct str segment)
{
    segment.len = str_find(segment, ';');
    return str_eq(segment, STR(".")) || str_eq(segment, STR(".."));
}

/* The path in plain text. */
static int path_decode(struct str path, struct buf *out, struct err *err)
{
    struct str rest = str_skip(path, 1), segment;
    int r = path.len > 0 && path.at[0] == '/'
                ? 0
                : err_set(err, EINVAL, "the path does not begin with a slash");

    while (r == 0 && str_split(&rest, '/', &segment)) {
        size_t start = buf_len(out) + 1;

        if (segment.len == 0 && rest.at) {
            return err_set(err, EINVAL, "the path has two slashes in a row");
        }
        if (buf_append(out, "/", 1) < 0) {
            return err_set(err, EINVAL, "the path is longer than %d bytes", SHELL_PATH_BYTES_MAX);
        }
        r = segment_decode(segment, out, err);
        if (r == 0 && is_dots(str_skip(buf_str(out), start))) {
            r = err_set(err, EINVAL, "the path has \".\" or \"..\" in it");
        }
    }
    return r;
}

void shell_cut(struct str path, struct str *name, struct str *rest)
{
    struct str tail = str_skip(path, 1);
    size_t end = str_find(tail, '/');

    *name = (struct str){tail.at, end};
    *rest = str_skip(tail, end);
}

/* ---- allowed requests ---- */

static bool has_method(const struct shell *shell, struct str method)
{
    const json_t *methods = json_object_get(shell->definition, "methods");

    for (size_t i = 0; i < json_array_size(methods); i++) {
        if (str_eq(str_of(json_string_value(json_array_get(methods, i))), method)) {
            return true;
        }
    }
    return false;
}

int shell_allows(const struct shell *shell, struct str method, struct str path, struct err *err)
{
    const json_t *paths = json_object_get(shell->definition, "paths");
    scoped_buf(plain, SHELL_PATH_BYTES_MAX);
    int r = 0;

    if (!has_method(shell, method)) {
        return err_set(err, EPERM, "shell \"%s\" does not allow the method %.*s", ours(shell->name),
                       (int)(method.len < 16 ? method.len : 16), ours(method.at));
    }
    r = path_decode(path.len > 0 ? path : STR("/"), &plain, err);
    for (size_t i = 0; r == 0 && i < json_array_size(paths); i++) {
        if (shell_pattern_has(str_of(json_string_value(json_array_get(paths, i))),
                              buf_str(&plain))) {
            return 0;
        }
    }
    return r < 0
               ? r
               : err_set(err, EPERM, "shell \"%s\" does not allow the path %.*s", ours(shell->name),
                         (int)(path.len < 128 ? path.len : 128), path.len ? ours(path.at) : "/");
}

/* ---- the request to the API ---- */

/* Whether a field of the query has that name, however it is spelled. */
static bool is_field(struct str field, const char *name)
{
    struct str given = {field.at, str_find(field, '=')};
    size_t at = 0;

    for (size_t i = 0; i < given.len; i++, at++) {
        char c = given.at[i];
        if (c == '%' && i + 2 < given.len && isxdigit((unsigned char)given.at[i + 1]) &&
            isxdigit((unsigned char)given.at[i + 2])) {
            c = (char)(hex_value(given.at[i + 1]) << 4 | hex_value(given.at[i + 2]));
            i += 2;
        }
        if (!name[at] || char_lower(c) != char_lower(name[at])) {
            return false;
        }
    }
    return name[at] == '\0';
}

static char header_char(char c)
{
    if (c == '_') {
        return '-';
    }
    return char_lower(c);
}

bool shell_same_header(struct str given, const char *name)
{
    bool same = given.len == strlen(name);

    for (size_t i = 0; same && i < given.len; i++) {
        same = header_char(given.at[i]) == header_char(name[i]);
    }
    return same;
}

static const char *header_override(struct str given)
{
    static const char *const known[] = {
        "x-http-method-override", "x-http-method",    "x-method-override", "x-original-method",
        "x-original-url",         "x-original-uri",   "x-rewrite-url",     "x-forwarded-uri",
        "x-forwarded-method",     "x-forwarded-path", "x-forwarded-prefix"};

    for (size_t i = 0; i < countof(known); i++) {
        if (shell_same_header(given, known[i])) {
            return known[i];
        }
    }
    return NULL;
}

static const char *query_override(struct str field)
{
    static const char *const known[] = {"_method",           "x-http-method-override",
                                        "x-method-override", "x-http-method",
                                        "$httpmethod",       "$httpheaders"};

    for (size_t i = 0; i < countof(known); i++) {
        if (is_field(field, known[i])) {
            return known[i];
        }
    }
    return NULL;
}

int shell_overrides(const struct http_header *headers, size_t n, struct str query, struct err *err)
{
    const char *found = NULL;
    struct str part, field;

    for (size_t i = 0; i < n && !found; i++) {
        found = header_override(headers[i].name);
    }
    if (found) {
        return err_set(err, EINVAL,
                       "the header %s may name another method or path than the request: no shell"
                       " takes it",
                       ours(found));
    }
    while (!found && query.len > 0 && str_split(&query, '&', &part)) {
        while (!found && str_split(&part, ';', &field)) { /* which some servers split at too */
            found = query_override(field);
        }
    }
    return found ? err_set(err, EINVAL,
                           "the field %s of the query names another method than the request: no"
                           " shell takes it",
                           ours(found))
                 : 0;
}

/* The program's fields, without any that has the key's name; then the key's. */
static int append_query(const struct shell *shell, struct str query, struct str value,
                        struct buf *out)
{
    struct str field;
    char separator = '?';
    int r = 0;

    while (r == 0 && query.len > 0 && str_split(&query, '&', &field)) {
        if (shell->place != SHELL_QUERY || !is_field(field, shell->key.name)) {
            r = buf_append(out, &separator, 1);
            r = r < 0 ? r : buf_append(out, field.at, field.len);
            separator = '&';
        }
    }
    if (r == 0 && shell->place == SHELL_QUERY) {
        r = buf_printf(out, "%c%s=", separator, shell->key.name);
        r = r < 0 ? r : percent_encode(out, value);
    }
    return r;
}

int shell_target(const struct shell *shell, struct str path, struct str query, struct str value,
                 struct buf *out)
{
    int r = buf_append(out, shell->base, strlen(shell->base));

    if (r == 0) {
        r = path.len > 0 ? buf_append(out, path.at, path.len)
                         : buf_append(out, "/", shell->base[0] ? 0 : 1);
    }
    return r < 0 ? r : append_query(shell, query, value, out);
}

/* ---- redirects ---- */

struct url {
    bool secure;
    struct str host, path;
    uint16_t port;
};

static int url_parse(struct str text, struct url *out)
{
    unsigned long port = 0;

    if (str_starts(text, STR("https://"))) {
        *out = (struct url){.secure = true, .port = HTTPS_PORT};
        text = str_skip(text, strlen("https://"));
    } else if (str_starts(text, STR("http://"))) {
        *out = (struct url){.port = HTTP_PORT};
        text = str_skip(text, strlen("http://"));
    } else {
        return -EINVAL;
    }
    size_t end = str_find(text, '/');
    out->host = (struct str){text.at, end};
    out->path = str_skip(text, end);
    size_t colon = str_find(out->host, ':');
    struct str digits = str_skip(out->host, colon + 1);
    for (size_t i = 0; i < digits.len && i < 6; i++) {
        if (!isdigit((unsigned char)digits.at[i])) {
            return -EINVAL;
        }
        port = port * 10 + (unsigned long)(digits.at[i] - '0');
    }
    if (colon < out->host.len) {
        if (port == 0 || port > UINT16_MAX) {
            return -EINVAL;
        }
        out->port = (uint16_t)port;
        out->host.len = colon;
    }
    return out->host.len > 0 ? 0 : -EINVAL;
}

/* The path of a location of the same server, or a str with at == NULL. */
static struct str location_path(const struct shell *shell, struct str location)
{
    struct url url = {.host = str_of(shell->host), .path = location};
    bool whole = str_find(location, ':') < str_find(location, '/');

    if (!whole && !str_starts(location, STR("//"))) {
        return location;
    }
    if (str_starts(location, STR("//"))) {
        return (struct str){0}; /* this form only makes sense for another server */
    }
    bool same = url_parse(location, &url) == 0 && url.secure == shell->secure &&
                url.port == shell->port && str_ieq(url.host, str_of(shell->host));
    return same ? (url.path.len > 0 ? url.path : STR("/")) : (struct str){0};
}

int shell_location(const struct shell *shell, const struct guard *guard, struct str location,
                   struct buf *out, struct err *err)
{
    struct said said;
    struct str base = str_of(shell->base), path = location_path(shell, location);
    int r = -EPERM;

    if (path.at && (path.len == 0 || path.at[0] != '/')) {
        r = buf_append(out, path.at, path.len); /* relative to where the program is */
    } else if (path.at && str_starts(path, base) &&
               (path.len == base.len || path.at[base.len] == '/')) {
        r = buf_printf(out, "http://" SHELL_HOST "/%s", shell->name);
        r = r < 0 ? r : buf_append(out, path.at + base.len, path.len - base.len);
    }
    return r == -EPERM
               ? err_set(err, EPERM, "the API redirects to %s, which shell \"%s\" does not cover",
                         guard_said(guard, location, &said), ours(shell->name))
           : r < 0 ? err_set(err, ENOBUFS, "the API redirects to an address that is too long")
                   : 0;
}

/* ---- reading a definition ---- */

int shell_name_check(const char *name, struct err *err)
{
    size_t len = strlen(name);

    return len > 0 && len <= SHELL_NAME_BYTES_MAX &&
                   strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == len
               ? 0
               : err_set(err, EINVAL,
                         "validation error: a shell's name must be 1 to %d lower-case letters,"
                         " digits, \"-\" and \"_\"",
                         SHELL_NAME_BYTES_MAX);
}

static int host_read(struct shell *shell, const struct url *url)
{
    for (size_t i = 0; i < url->host.len; i++) {
        char c = url->host.at[i];
        if (!isalnum((unsigned char)c) && c != '-' && c != '.' && c != '_') {
            return -EINVAL;
        }
    }
    if (!str_copy(shell->host, sizeof(shell->host), url->host)) {
        return -EINVAL;
    }
    shell->secure = url->secure;
    shell->port = url->port;
    (void)snprintf(shell->authority, sizeof(shell->authority),
                   url->port == (url->secure ? HTTPS_PORT : HTTP_PORT) ? "%s" : "%s:%u",
                   shell->host, url->port);
    return 0;
}

static int base_read(struct shell *shell, struct err *err)
{
    const char *text = json_string_value(json_object_get(shell->definition, "baseUrl"));
    struct url url;
    scoped_buf(plain, SHELL_URL_BYTES_MAX);

    if (!text || strlen(text) > SHELL_URL_BYTES_MAX || strpbrk(text, "?#@ ") ||
        url_parse(str_of(text), &url) < 0 || host_read(shell, &url) < 0) {
        return err_set(err, EINVAL,
                       "validation error: baseUrl must be http://host[:port][/path] or https://...,"
                       " without user, query or fragment, at most %d bytes",
                       SHELL_URL_BYTES_MAX);
    }
    if (url.path.len > 0 && path_decode(url.path, &plain, err) < 0) {
        return err_wrap(err, "validation error: baseUrl: ");
    }
    if (url.path.len > 0 && url.path.at[url.path.len - 1] == '/') {
        url.path.len--;
    }
    shell->base = xcalloc(url.path.len + 1, 1);
    memcpy(shell->base, url.path.at, url.path.len);
    return 0;
}

static int methods_check(const json_t *methods, struct err *err)
{
    static const char known[] = " GET HEAD POST PUT PATCH DELETE OPTIONS ";
    bool good = json_is_array(methods) && json_array_size(methods) > 0 &&
                json_array_size(methods) <= SHELL_METHODS_MAX;

    for (size_t i = 0; good && i < json_array_size(methods); i++) {
        const char *method = json_string_value(json_array_get(methods, i));
        char word[16];
        int n = snprintf(word, sizeof(word), " %s ", method ? method : "");

        good = method && method[0] && n < (int)sizeof(word) && strstr(known, word);
    }
    return good ? 0
                : err_set(err, EINVAL,
                          "validation error: methods must be an array of GET, HEAD, POST, PUT,"
                          " PATCH, DELETE and OPTIONS");
}

static bool is_pattern(const json_t *json)
{
    const char *text = json_string_value(json);

    return text && text[0] == '/' && strlen(text) <= SHELL_PATTERN_BYTES_MAX &&
           !strpbrk(text, "?#%\\ ") && !strstr(text, "//") && !strstr(text, "/../") &&
           !strstr(text, "***");
}

static int paths_check(const json_t *paths, struct err *err)
{
    bool good = json_is_array(paths) && json_array_size(paths) > 0 &&
                json_array_size(paths) <= SHELL_PATTERNS_MAX;

    for (size_t i = 0; good && i < json_array_size(paths); i++) {
        if (!is_pattern(json_array_get(paths, i))) {
            return err_set(err, EINVAL,
                           "validation error: paths[%zu] must be a pattern that begins with \"/\","
                           " not encoded, at most %d bytes",
                           i, SHELL_PATTERN_BYTES_MAX);
        }
    }
    return good ? 0
                : err_set(err, EINVAL, "validation error: paths must be an array of 1 to %d texts",
                          SHELL_PATTERNS_MAX);
}

/* Headers that the gateway writes itself cannot carry a key. */
static bool is_taken(const char *name)
{
    static const char *const own[] = {"accept-encoding", "range", "if-range"};

    for (size_t i = 0; i < countof(own); i++) {
        if (strcasecmp(name, own[i]) == 0) {
            return true;
        }
    }
    return field_is_framing(name);
}

static int key_read(struct shell *shell, struct err *err)
{
    const json_t *header = json_object_get(shell->definition, "header");
    const json_t *query = json_object_get(shell->definition, "query");
    const json_t *field = header ? header : query;
    const char *name = json_string_value(json_object_get(field, "name"));
    const char *value = json_string_value(json_object_get(field, "value"));

    if (!header == !query || !json_is_object(field)) {
        return err_set(err, EINVAL,
                       "validation error: one of header and query must say where the key goes:"
                       " {\"name\", \"value\"}");
    }
    shell->place = header ? SHELL_HEADER : SHELL_QUERY;
    if (!name || strlen(name) > SHELL_FIELD_BYTES_MAX || !field_is_name(name) ||
        (header && is_taken(name))) {
        return err_set(err, EINVAL, "validation error: %s.name cannot carry a key",
                       header ? "header" : "query");
    }
    shell->sealed = json_is_true(json_object_get(field, "sealed"));
    if (!shell->sealed && (!value || !value[0] || strlen(value) > SHELL_VALUE_BYTES_MAX)) {
        return err_set(err, EINVAL, "validation error: %s.value must be a text of 1 to %d bytes",
                       header ? "header" : "query", SHELL_VALUE_BYTES_MAX);
    }
    text_set(&shell->key.name, name);
    text_set(&shell->key.value, value ? value : "");
    shell->key.filled = true;
    return 0;
}

static int fields_check(const json_t *definition, struct err *err)
{
    static const char *const known[] = {"baseUrl", "methods", "paths",
                                        "header",  "query",   "description"};
    const json_t *description = json_object_get(definition, "description");
    void *it = json_object_iter((json_t *)(uintptr_t)definition);

    for (; it; it = json_object_iter_next((json_t *)(uintptr_t)definition, it)) {
        bool found = false;
        for (size_t i = 0; i < countof(known); i++) {
            found = found || strcmp(known[i], json_object_iter_key(it)) == 0;
        }
        if (!found) {
            return err_set(err, EINVAL, "validation error: %s is no field of a shell",
                           ours(json_object_iter_key(it)));
        }
    }
    return !description || (json_is_string(description) &&
                            json_string_length(description) <= SHELL_DESCRIPTION_BYTES_MAX)
               ? 0
               : err_set(err, EINVAL,
                         "validation error: description must be a text of at most %d bytes",
                         SHELL_DESCRIPTION_BYTES_MAX);
}

int shell_new(const char *name, const json_t *definition, struct shell **out, struct err *err)
{
    struct shell *shell = xnew(struct shell);
    int r = shell_name_check(name, err);

    shell->definition = json_deep_copy(definition);
    r = r < 0 ? r : fields_check(definition, err);
    if (r == 0) {
        (void)str_copy(shell->name, sizeof(shell->name), str_of(name));
        if (!json_object_get(definition, "methods")) {
            (void)json_object_set_new(shell->definition, "methods", json_pack("[s]", "GET"));
        }
        if (!json_object_get(definition, "paths")) {
            (void)json_object_set_new(shell->definition, "paths", json_pack("[s]", "/**"));
        }
        r = base_read(shell, err);
    }
    r = r < 0 ? r : methods_check(json_object_get(shell->definition, "methods"), err);
    r = r < 0 ? r : paths_check(json_object_get(shell->definition, "paths"), err);
    r = r < 0 ? r : key_read(shell, err);
    if (r < 0) {
        shell_free(shell);
        return r;
    }
    *out = shell;
    return 0;
}

void shell_free(struct shell *shell)
{
    if (shell) {
        json_decref(shell->definition);
        free(shell->base);
        free(shell->key.name);
        free(shell->key.value);
        free(shell);
    }
}
