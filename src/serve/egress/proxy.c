#include "serve/egress/proxy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/encode.h"

enum {
    SOCKS_VERSION = 5,
    SOCKS_LOGIN_VERSION = 1,
    SOCKS_CONNECT = 1,
    SOCKS_NO_LOGIN = 0,
    SOCKS_PASSWORD = 2,
    SOCKS_V4 = 1,
    SOCKS_NAME = 3,
    SOCKS_V6 = 4,
    SOCKS_ANSWER_HEAD = 4, /* version, word, reserved, kind of address */
    HTTP_DEFAULT_PORT = 3128,
    SOCKS_DEFAULT_PORT = 1080,
    V4_AT = 12, /* of the four bytes in a mapped address */
};

/* ---- settings ---- */

static int port_parse(struct str text, uint16_t *out)
{
    char digits[8], *end;

    if (!str_copy(digits, sizeof(digits), text) || !digits[0] ||
        digits[strspn(digits, "0123456789")]) {
        return -EINVAL;
    }
    unsigned long port = strtoul(digits, &end, 10);
    if (port == 0 || port > UINT16_MAX) {
        return -EINVAL;
    }
    *out = (uint16_t)port;
    return 0;
}

static bool host_copy(struct proxy *out, struct str host)
{
    for (size_t i = 0; i < host.len; i++) {
        if (host.at[i] <= ' ' || host.at[i] >= 0x7f || strchr("/?#@\\[]", host.at[i])) {
            return false;
        }
    }
    return host.len > 0 && str_copy(out->host, sizeof(out->host), host);
}

int proxy_parse_address(struct str text, struct proxy *out)
{
    const char *colon = text.len ? memrchr(text.at, ':', text.len) : NULL;
    struct str host = {text.at, colon ? (size_t)(colon - text.at) : 0};

    if (!colon || port_parse(str_skip(text, host.len + 1), &out->port) < 0) {
        return -EINVAL;
    }
    if (host.len > 2 && host.at[0] == '[' && host.at[host.len - 1] == ']') {
        host = (struct str){host.at + 1, host.len - 2};
    } else if (str_find(host, ':') < host.len) {
        return -EINVAL; /* an IPv6 address wants its brackets */
    }
    return host_copy(out, host) ? 0 : -EINVAL;
}

static int word_decode(struct str text, char out[PROXY_WORD_BYTES])
{
    scoped_buf(plain, PROXY_WORD_BYTES);

    if (text.len == 0) {
        return 0;
    }
    return percent_decode(&plain, text, false) < 0 ||
                   !str_copy(out, PROXY_WORD_BYTES, buf_str(&plain))
               ? -EINVAL
               : 0;
}

static int login_parse(struct str text, struct proxy *out)
{
    size_t colon = str_find(text, ':');
    struct str password = colon < text.len ? str_skip(text, colon + 1) : (struct str){0};

    return word_decode((struct str){text.at, colon}, out->user) < 0 ||
                   word_decode(password, out->password) < 0
               ? -EINVAL
               : 0;
}

/* Without its scheme. */
static int url_rest_parse(struct str rest, uint16_t port, struct proxy *out)
{
    struct str all = {rest.at, str_find(rest, '/')};
    const char *at = all.len ? memrchr(all.at, '@', all.len) : NULL;
    size_t login = at ? (size_t)(at - all.at) : 0;

    if (at && login_parse((struct str){all.at, login}, out) < 0) {
        return -EINVAL;
    }
    struct str place = at ? str_skip(all, login + 1) : all;
    if (proxy_parse_address(place, out) == 0) {
        return 0;
    }
    out->port = port;
    return host_copy(out, place) && !strchr(out->host, ':') ? 0 : -EINVAL;
}

int proxy_parse_url(struct str url, struct proxy *out)
{
    static const struct {
        const char *scheme;
        enum proxy_kind kind;
        uint16_t port;
    } schemes[] = {
        {"http://", PROXY_HTTP, HTTP_DEFAULT_PORT},
        {"socks5://", PROXY_SOCKS5, SOCKS_DEFAULT_PORT},
        {"socks5h://", PROXY_SOCKS5, SOCKS_DEFAULT_PORT},
        {"", PROXY_HTTP, HTTP_DEFAULT_PORT}, /* as curl takes "proxy:3128" */
    };

    *out = (struct proxy){0};
    if (url.len == 0) {
        return 0;
    }
    for (size_t i = 0; i < countof(schemes); i++) {
        struct str scheme = str_of(schemes[i].scheme);
        if (str_starts(url, scheme)) {
            out->kind = schemes[i].kind;
            return url_rest_parse(str_skip(url, scheme.len), schemes[i].port, out);
        }
    }
    return -EINVAL;
}

static const json_t *options_proxy(const json_t *options)
{
    return json_object_get(json_object_get(options, "network"), "egressProxy");
}

const char *proxy_authorities(const json_t *options)
{
    return json_string_value(
        json_object_get(json_object_get(options_proxy(options), "tls"), "caCert"));
}

static bool tls_read(const json_t *tls, struct proxy *out)
{
    const char *name = json_string_value(json_object_get(tls, "serverName"));

    out->tls = json_is_true(json_object_get(tls, "enabled"));
    return !out->tls ||
           str_copy(out->server_name, sizeof(out->server_name), str_of(name ? name : out->host));
}

void proxy_of_options(const json_t *options, struct proxy *out)
{
    const json_t *proxy = options_proxy(options);
    const char *address = json_string_value(json_object_get(proxy, "address"));
    const char *user = json_string_value(json_object_get(proxy, "username"));
    const char *password = json_string_value(json_object_get(proxy, "password"));

    *out = (struct proxy){0};
    if (!json_is_object(proxy)) {
        return;
    }
    out->kind = PROXY_SOCKS5;
    if (!address || proxy_parse_address(str_trim(str_of(address)), out) < 0 ||
        (user && !str_copy(out->user, sizeof(out->user), str_of(user))) ||
        (password && !str_copy(out->password, sizeof(out->password), str_of(password))) ||
        !tls_read(json_object_get(proxy, "tls"), out)) {
        out->port = 0;
    }
}

static bool name_has_suffix(struct str name, struct str suffix)
{
    return name.len > suffix.len &&
           str_ieq((struct str){name.at + name.len - suffix.len, suffix.len}, suffix);
}

/* ".domain" and "domain" both mean the domain and all below it, as curl has it. */
static bool entry_has_name(struct str entry, struct str name)
{
    while (entry.len > 1 && (entry.at[0] == '*' || entry.at[0] == '.')) {
        entry = str_skip(entry, 1);
    }
    if (entry.len == 0 || name.len == 0) {
        return false;
    }
    return str_ieq(entry, name) ||
           (name_has_suffix(name, entry) && name.at[name.len - entry.len - 1] == '.');
}

bool proxy_is_exempt(const char *no_proxy, struct str name, const struct address *address)
{
    struct str rest = str_of(no_proxy), entry;

    while (rest.at && str_split(&rest, ',', &entry)) {
        struct block block;
        entry = str_trim(entry);
        if (str_eq(entry, STR("*")) || entry_has_name(entry, name) ||
            (entry.len && block_parse(entry, &block) == 0 && block_has(&block, address))) {
            return true;
        }
    }
    return false;
}

/* ---- writing messages ---- */

static int refuse(struct err *err, int code, const char *why)
{
    return err_set(err, code, "%s", ours(why));
}

static int put_byte(struct buf *out, unsigned value)
{
    char byte = (char)value;

    return buf_append(out, &byte, 1);
}

/* ---- SOCKS5 ---- */

static int put_text(struct buf *out, const char *text)
{
    size_t len = strlen(text); /* at most 255: the fields are no longer */

    int r = put_byte(out, (unsigned)len);
    return r < 0 ? r : buf_append(out, text, len);
}

static int socks_greet(const struct proxy *proxy, struct buf *out)
{
    static const char plain[] = {SOCKS_VERSION, 1, SOCKS_NO_LOGIN};
    static const char login[] = {SOCKS_VERSION, 2, SOCKS_NO_LOGIN, SOCKS_PASSWORD};

    return proxy->user[0] ? buf_append(out, login, sizeof(login))
                          : buf_append(out, plain, sizeof(plain));
}

static int socks_put_target(const struct target *target, struct buf *out)
{
    const struct address *address = &target->to.address;

    if (target->name[0]) {
        int r = put_byte(out, SOCKS_NAME);
        return r < 0 ? r : put_text(out, target->name);
    }
    if (address_is_v4(address)) {
        int r = put_byte(out, SOCKS_V4);
        return r < 0 ? r : buf_append(out, address->bytes + V4_AT, sizeof(address->bytes) - V4_AT);
    }
    int r = put_byte(out, SOCKS_V6);
    return r < 0 ? r : buf_append(out, address->bytes, sizeof(address->bytes));
}

static int socks_ask(struct talk *talk, struct buf *out)
{
    static const char head[] = {SOCKS_VERSION, SOCKS_CONNECT, 0};
    const uint16_t port = talk->target->to.port;

    talk->stage = TALK_ANSWER;
    if (buf_append(out, head, sizeof(head)) < 0 || socks_put_target(talk->target, out) < 0 ||
        put_byte(out, port >> 8) < 0) {
        return -ENOBUFS;
    }
    return put_byte(out, port & 0xff);
}

static int socks_login(struct talk *talk, struct buf *out)
{
    talk->stage = TALK_LOGIN;
    if (put_byte(out, SOCKS_LOGIN_VERSION) < 0 || put_text(out, talk->proxy->user) < 0) {
        return -ENOBUFS;
    }
    return put_text(out, talk->proxy->password);
}

static int socks_greeted(struct talk *talk, const unsigned char *got, struct buf *out,
                         struct err *err)
{
    if (got[0] != SOCKS_VERSION) {
        return refuse(err, EPROTO, "it does not speak SOCKS5");
    }
    if (got[1] == SOCKS_NO_LOGIN) {
        return socks_ask(talk, out);
    }
    if (got[1] == SOCKS_PASSWORD && talk->proxy->user[0]) {
        return socks_login(talk, out);
    }
    return refuse(err, EACCES,
                  talk->proxy->user[0] ? "it takes neither a password nor none"
                                       : "it wants a user and a password");
}

static const char *socks_word(unsigned code)
{
    static const char *const words[] = {
        NULL,
        "it failed",
        "its rules do not allow the connection",
        "it cannot reach that network",
        "it cannot reach that host",
        "the connection was refused",
        "the host did not answer in time",
        "it does not know how to connect",
        "it does not know that kind of address",
    };

    return code < countof(words) ? words[code] : "it refused, and says nothing that is known";
}

/* The length of the whole answer; 0: not known yet; -EPROTO: of an unknown kind. */
static int socks_answer_len(struct str got)
{
    const unsigned char *bytes = (const unsigned char *)got.at;

    if (got.len <= SOCKS_ANSWER_HEAD) {
        return 0;
    }
    switch (bytes[SOCKS_ANSWER_HEAD - 1]) {
    case SOCKS_V4:
        return SOCKS_ANSWER_HEAD + 4 + 2;
    case SOCKS_V6:
        return SOCKS_ANSWER_HEAD + 16 + 2;
    case SOCKS_NAME:
        return SOCKS_ANSWER_HEAD + 1 + bytes[SOCKS_ANSWER_HEAD] + 2;
    default:
        return -EPROTO;
    }
}

static int socks_answered(struct str got, size_t *used, struct err *err)
{
    const unsigned char *bytes = (const unsigned char *)got.at;

    if (got.len >= 2 && bytes[0] != SOCKS_VERSION) {
        return refuse(err, EPROTO, "it does not speak SOCKS5");
    }
    if (got.len >= 2 && bytes[1] != 0) {
        return refuse(err, ECONNREFUSED, socks_word(bytes[1]));
    }
    int len = socks_answer_len(got);
    if (len < 0) {
        return refuse(err, EPROTO, "its answer is of no kind there is");
    }
    if (len == 0 || got.len < (size_t)len) {
        return 0;
    }
    *used = (size_t)len;
    return 1;
}

static int socks_step(struct talk *talk, struct str got, size_t *used, struct buf *out,
                      struct err *err)
{
    const unsigned char *bytes = (const unsigned char *)got.at;

    if (talk->stage == TALK_ANSWER) {
        return socks_answered(got, used, err);
    }
    if (got.len < 2) {
        return 0;
    }
    *used = 2;
    if (talk->stage == TALK_GREETING) {
        return socks_greeted(talk, bytes, out, err);
    }
    return bytes[1] == 0 ? socks_ask(talk, out)
                         : refuse(err, EACCES, "it refuses the user or the password");
}

/* ---- HTTP ---- */

static int http_put_login(const struct proxy *proxy, struct buf *out)
{
    scoped_buf(both, 2 * PROXY_WORD_BYTES);

    if (buf_printf(&both, "%s:%s", proxy->user, proxy->password) < 0 ||
        buf_printf(out, "Proxy-Authorization: Basic ") < 0 ||
        base64_encode(out, buf_at(&both), buf_len(&both), BASE64_STD) < 0) {
        return -ENOBUFS;
    }
    return buf_append(out, "\r\n", 2);
}

static int http_ask(struct talk *talk, struct buf *out)
{
    const struct target *target = talk->target;
    char place[POLICY_NAME_BYTES + 8];

    talk->stage = TALK_ANSWER;
    if (target->name[0]) {
        (void)snprintf(place, sizeof(place), "%s:%u", target->name, target->to.port);
    } else {
        endpoint_text(&target->to, place);
    }
    int r = buf_printf(out, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n", place, place);
    if (r == 0 && talk->proxy->user[0]) {
        r = http_put_login(talk->proxy, out);
    }
    return r < 0 ? r : buf_append(out, "\r\n", 2);
}

static int http_status(struct str head)
{
    char line[16];
    int status = 0;

    (void)str_copy(line, sizeof(line), (struct str){head.at, head.len < 12 ? head.len : 12});
    return sscanf(line, "HTTP/1.%*1[01] %3d", &status) == 1 ? status : 0;
}

static int http_step(struct str got, size_t *used, struct err *err)
{
    if (!got.at) {
        return 0;
    }
    const char *end = memmem(got.at, got.len, "\r\n\r\n", 4);
    if (got.len >= 5 && !str_starts(got, STR("HTTP/"))) {
        return refuse(err, EPROTO, "it does not speak HTTP");
    }
    if (!end) {
        return 0;
    }
    int status = http_status(got);
    if (status / 100 == 2) {
        *used = (size_t)(end - got.at) + 4;
        return 1;
    }
    if (status == 407) {
        return refuse(err, EACCES, "it refuses the user or password (407)");
    }
    return err_set(err, ECONNREFUSED, "it answered %d", status);
}

/* ---- the talk ---- */

int talk_begin(struct talk *talk, struct buf *out)
{
    talk->stage = TALK_GREETING;
    return talk->proxy->kind == PROXY_SOCKS5 ? socks_greet(talk->proxy, out) : http_ask(talk, out);
}

int talk_step(struct talk *talk, struct str got, size_t *used, struct buf *out, struct err *err)
{
    *used = 0;
    int r = talk->proxy->kind == PROXY_SOCKS5 ? socks_step(talk, got, used, out, err)
                                              : http_step(got, used, err);
    if (r == 0 && *used == 0 && got.len >= PROXY_ANSWER_MAX) {
        return refuse(err, EPROTO, "its answer does not end");
    }
    return r;
}
