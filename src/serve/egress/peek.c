#include "serve/egress/peek.h"

#include <stdint.h>

#include "lib/base/compiler.h"

enum {
    RECORD_HANDSHAKE = 22,
    RECORD_HEADER = 5,
    CLIENT_HELLO = 1,
    EXTENSION_SERVER_NAME = 0,
    NAME_TYPE_HOST = 0,
};

static bool name_ok(struct str name)
{
    if (name.len == 0 || name.len > PEEK_NAME_BYTES_MAX) {
        return false;
    }
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '-' || c == '_' || c == '.')) {
            return false;
        }
    }
    return true;
}

/* ---- TLS ---- */

/* A big-endian number of `bytes` off the front; false when there are not that many. */
static bool take_number(struct str *rest, size_t bytes, size_t *out)
{
    *out = 0;
    if (rest->len < bytes) {
        return false;
    }
    for (size_t i = 0; i < bytes; i++) {
        *out = *out << 8 | (uint8_t)rest->at[i];
    }
    *rest = str_skip(*rest, bytes);
    return true;
}

/* A vector: its length in `bytes`, then itself. */
static bool take_vector(struct str *rest, size_t bytes, struct str *out)
{
    size_t len;

    if (!take_number(rest, bytes, &len) || rest->len < len) {
        return false;
    }
    *out = (struct str){rest->at, len};
    *rest = str_skip(*rest, len);
    return true;
}

static enum peek server_name(struct str extension, struct str *name)
{
    struct str list;
    size_t type;

    if (!take_vector(&extension, 2, &list) || !take_number(&list, 1, &type) ||
        type != NAME_TYPE_HOST || !take_vector(&list, 2, name) || !name_ok(*name)) {
        return PEEK_NONE;
    }
    return PEEK_NAME;
}

static enum peek client_hello(struct str hello, struct str *name)
{
    struct str skipped, extensions, extension;
    size_t version, type;

    if (!take_number(&hello, 2, &version) || hello.len < 32) {
        return PEEK_NONE;
    }
    hello = str_skip(hello, 32); /* its random bytes */
    if (!take_vector(&hello, 1, &skipped) || !take_vector(&hello, 2, &skipped) ||
        !take_vector(&hello, 1, &skipped) || !take_vector(&hello, 2, &extensions)) {
        return PEEK_NONE;
    }
    while (take_number(&extensions, 2, &type) && take_vector(&extensions, 2, &extension)) {
        if (type == EXTENSION_SERVER_NAME) {
            return server_name(extension, name);
        }
    }
    return PEEK_NONE;
}

/* No usual client spreads its first message over several records: such a message has no name
 * here. */
static enum peek tls_name(struct str bytes, struct str *name)
{
    struct str record = bytes, body;
    size_t type, version, len, hello_len;

    if (bytes.len < RECORD_HEADER) {
        return PEEK_MORE;
    }
    (void)take_number(&record, 1, &type);
    (void)take_number(&record, 2, &version);
    (void)take_number(&record, 2, &len);
    if (version >> 8 != 3 || len == 0 || len + RECORD_HEADER > PEEK_BYTES_MAX) {
        return PEEK_NONE;
    }
    if (record.len < len) {
        return PEEK_MORE;
    }
    body = (struct str){record.at, len};
    if (!take_number(&body, 1, &type) || type != CLIENT_HELLO ||
        !take_number(&body, 3, &hello_len) || hello_len > body.len) {
        return PEEK_NONE;
    }
    body.len = hello_len;
    return client_hello(body, name);
}

/* ---- HTTP ---- */

/* Whether it can become "METHOD ": letters, then a blank. */
static bool starts_request(struct str bytes)
{
    enum { METHOD_MAX = 24 };

    for (size_t i = 0; i < bytes.len; i++) {
        char c = bytes.at[i];
        if (c == ' ') {
            return i > 0;
        }
        if (i == METHOD_MAX || !((c >= 'A' && c <= 'Z') || c == '-' || c == '_')) {
            return false;
        }
    }
    return true;
}

/* Without its port; an address in brackets is no name. */
static bool host_cut(struct str value, struct str *name)
{
    value = str_trim(value);
    *name = (struct str){value.at, str_find(value, ':')};
    struct str port = str_skip(value, name->len);
    for (size_t i = 1; i < port.len; i++) {
        if (port.at[i] < '0' || port.at[i] > '9') {
            return false;
        }
    }
    return name_ok(*name);
}

/* Reads to the end of the head: a second Host might be the one the other side believes. */
static enum peek http_name(struct str bytes, struct str *name)
{
    struct str rest = bytes, line;
    bool first = true, found = false;

    if (!starts_request(bytes)) {
        return PEEK_NONE;
    }
    while (str_find(rest, '\n') < rest.len && str_split(&rest, '\n', &line)) {
        if (line.len && line.at[line.len - 1] == '\r') {
            line.len--;
        }
        if (line.len == 0 && !first) {
            return found ? PEEK_NAME : PEEK_NONE;
        }
        size_t colon = str_find(line, ':');
        if (!first && str_ieq((struct str){line.at, colon}, STR("host"))) {
            if (found || !host_cut(str_skip(line, colon + 1), name)) {
                return PEEK_NONE;
            }
            found = true;
        }
        first = false;
    }
    return bytes.len < PEEK_BYTES_MAX ? PEEK_MORE : PEEK_NONE;
}

enum peek peek_name(struct str bytes, struct str *name)
{
    if (bytes.len == 0) {
        return PEEK_MORE;
    }
    return peek_is_tls(bytes) ? tls_name(bytes, name) : http_name(bytes, name);
}

bool peek_is_tls(struct str bytes)
{
    return bytes.len > 0 && (uint8_t)bytes.at[0] == RECORD_HANDSHAKE;
}
