/* The name in a connection's first bytes: TLS and HTTP, whole, in pieces, and twisted. */
#include <stdint.h>

#include "check.h"
#include "lib/base/compiler.h"
#include "serve/egress/peek.h"

static const char *const outcomes[] = {
    [PEEK_MORE] = "more", [PEEK_NAME] = "name", [PEEK_NONE] = "none"};

/* ---- HTTP ---- */

static void http_hosts(void)
{
    static const struct {
        const char *bytes;
        enum peek want;
        const char *name;
    } rows[] = {
        {"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", PEEK_NAME, "a.test"},
        {"GET / HTTP/1.1\r\nhOST:a.test:8080\r\n\r\n", PEEK_NAME, "a.test"},
        {"GET / HTTP/1.1\nHost:  a.test \n\n", PEEK_NAME, "a.test"},
        {"POST /x HTTP/1.1\r\nAccept: */*\r\nHost: a.test\r\nX: y\r\n\r\nbody", PEEK_NAME,
         "a.test"},
        {"GET / HTTP/1.1\r\nHost: a.test\r\n", PEEK_MORE, NULL}, /* another may follow */
        {"GET", PEEK_MORE, NULL},
        {"GET / HTTP/1.1\r\n", PEEK_MORE, NULL},
        {"GET / HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n", PEEK_NONE, NULL},
        {"GET / HTTP/1.1\r\n\r\n", PEEK_NONE, NULL},
        {"GET / HTTP/1.1\r\nHost: \r\n\r\n", PEEK_NONE, NULL},
        {"GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", PEEK_NONE, NULL},
        {"GET / HTTP/1.1\r\nHost: a.test:8x\r\n\r\n", PEEK_NONE, NULL},
        {"GET / HTTP/1.1\r\nHost: a.test/evil\r\n\r\n", PEEK_NONE, NULL},
        {"GET / HTTP/1.1\r\nHost: a.test@evil\r\n\r\n", PEEK_NONE, NULL},
        {"SSH-2.0-OpenSSH\r\n", PEEK_NONE, NULL},
        {" GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", PEEK_NONE, NULL},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", PEEK_NONE, NULL},
        {"", PEEK_MORE, NULL},
    };

    for (size_t i = 0; i < countof(rows); i++) {
        struct str name = {0};
        enum peek got = peek_name(str_of(rows[i].bytes), &name);

        CHECK_THAT(got == rows[i].want, "row %zu: %s, want %s", i, outcomes[got],
                   outcomes[rows[i].want]);
        CHECK_THAT(got != PEEK_NAME || str_eq(name, str_of(rows[i].name)), "row %zu: '%.*s'", i,
                   (int)name.len, name.at);
    }
}

static void a_head_without_end_is_no_name(void)
{
    static char bytes[PEEK_BYTES_MAX];
    struct str name;

    memset(bytes, 'a', sizeof(bytes));
    memcpy(bytes, "GET / HTTP/1.1\r\n", 16);
    CHECK_INT(peek_name((struct str){bytes, sizeof(bytes)}, &name), PEEK_NONE);
}

/* ---- TLS ---- */

struct hello {
    uint8_t bytes[512];
    size_t len;
};

static void put(struct hello *h, const void *bytes, size_t len)
{
    memcpy(h->bytes + h->len, bytes, len);
    h->len += len;
}

static void put_number(struct hello *h, size_t value, size_t bytes)
{
    while (bytes--) {
        h->bytes[h->len++] = (uint8_t)(value >> 8 * bytes);
    }
}

/* A first message as clients send it: another extension, then the name. */
static struct hello hello(const char *name, uint8_t name_type)
{
    static const uint8_t random[32], suites[] = {0x13, 0x01};
    struct hello h = {.len = 0};
    size_t n = strlen(name);
    size_t extensions = 4 + 2 + 4 + 5 + n;
    size_t body = 2 + 32 + 1 + 2 + sizeof(suites) + 2 + 2 + extensions;

    put(&h, "\x16\x03\x01", 3);
    put_number(&h, body + 4, 2);
    put_number(&h, 1, 1);
    put_number(&h, body, 3);
    put_number(&h, 0x0303, 2);
    put(&h, random, sizeof(random));
    put_number(&h, 0, 1);
    put_number(&h, sizeof(suites), 2);
    put(&h, suites, sizeof(suites));
    put(&h, "\1\0", 2);
    put_number(&h, extensions, 2);
    put(&h, "\0\x17\0\2ab", 6);
    put_number(&h, 0, 2);
    put_number(&h, 5 + n, 2);
    put_number(&h, 3 + n, 2);
    put_number(&h, name_type, 1);
    put_number(&h, n, 2);
    put(&h, name, n);
    return h;
}

static struct str str(const struct hello *h, size_t len)
{
    return (struct str){(const char *)h->bytes, len};
}

static void tls_names(void)
{
    struct hello h = hello("a.test", 0);
    struct str name = {0};

    CHECK_INT(peek_name(str(&h, h.len), &name), PEEK_NAME);
    CHECK(str_eq(name, STR("a.test")));
    for (size_t len = 1; len < h.len; len++) {
        CHECK_THAT(peek_name(str(&h, len), &name) == PEEK_MORE, "%zu bytes decide", len);
    }
}

static void tls_without_a_name(void)
{
    struct str name;
    struct hello h = hello("a b", 0);

    CHECK_INT(peek_name(str(&h, h.len), &name), PEEK_NONE);
    h = hello("", 0);
    CHECK_INT(peek_name(str(&h, h.len), &name), PEEK_NONE);
    h = hello("a.test", 1);
    CHECK_INT(peek_name(str(&h, h.len), &name), PEEK_NONE);
}

/* Whatever single byte is wrong: never a name that was not there, never a byte read past the end
 * (the sanitizers tell). */
static void tls_damaged(void)
{
    for (size_t at = 0; at < hello("a.test", 0).len; at++) {
        for (unsigned value = 0; value < 256; value += 5) {
            struct hello h = hello("a.test", 0);
            struct str name = {0};

            h.bytes[at] = (uint8_t)value;
            if (peek_name(str(&h, h.len), &name) == PEEK_NAME) {
                CHECK(name.at >= (char *)h.bytes && name.len > 0);
                CHECK(name.at + name.len <= (char *)h.bytes + h.len);
            }
        }
    }
}

int main(void)
{
    static const struct check_test tests[] = {
        {"HTTP hosts", http_hosts},
        {"a head without end is no name", a_head_without_end_is_no_name},
        {"TLS names", tls_names},
        {"TLS without a name", tls_without_a_name},
        {"TLS, damaged", tls_damaged},
    };
    return check_run(tests, countof(tests));
}
