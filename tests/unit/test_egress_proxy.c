/* What is said to proxies and understood of them; addresses that stand for names. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "lib/base/alloc.h"
#include "lib/base/compiler.h"
#include "serve/egress/names.h"
#include "serve/egress/proxy.h"

static void addresses_and_urls_are_read(void)
{
    static const struct {
        const char *url;
        enum proxy_kind kind;
        const char *host, *user, *password;
        uint16_t port;
    } good[] = {
        {"", PROXY_NONE, "", "", "", 0},
        {"http://proxy.test:8080", PROXY_HTTP, "proxy.test", "", "", 8080},
        {"http://proxy.test", PROXY_HTTP, "proxy.test", "", "", 3128},
        {"proxy.test:80/", PROXY_HTTP, "proxy.test", "", "", 80},
        {"socks5://u:p%40%3a@[2001:db8::1]:1080", PROXY_SOCKS5, "2001:db8::1", "u", "p@:", 1080},
        {"socks5h://user@1.2.3.4", PROXY_SOCKS5, "1.2.3.4", "user", "", 1080},
    };
    static const char *const bad[] = {"http://",        "http://:80",    "http://a:0",
                                      "http://a:x",     "http://a b:1",  "http://a:b:1",
                                      "ftp://proxy:21", "http://%zz@a:1"};
    struct proxy proxy;

    for (size_t i = 0; i < countof(good); i++) {
        CHECK_INT(proxy_parse_url(str_of(good[i].url), &proxy), 0);
        CHECK_INT(proxy.kind, good[i].kind);
        CHECK_STR(proxy.host, good[i].host);
        CHECK_STR(proxy.user, good[i].user);
        CHECK_STR(proxy.password, good[i].password);
        CHECK_INT(proxy.port, good[i].port);
    }
    for (size_t i = 0; i < countof(bad); i++) {
        CHECK_THAT(proxy_parse_url(str_of(bad[i]), &proxy) == -EINVAL, "%s is taken", bad[i]);
    }
}

static void no_proxy_is_names_domains_and_blocks(void)
{
    static const char list[] = "localhost, .corp.test,exact.test,10.0.0.0/8,2001:db8::/32";
    static const struct {
        const char *name, *address;
        bool exempt;
    } rows[] = {
        {"localhost", "1.1.1.1", true},
        {"a.corp.test", "1.1.1.1", true},
        {"corp.test", "1.1.1.1", true},
        {"notcorp.test", "1.1.1.1", false},
        {"Sub.EXACT.test", "1.1.1.1", true},
        {"xexact.test", "1.1.1.1", false},
        {"", "10.9.8.7", true},
        {"", "11.0.0.1", false},
        {"", "2001:db8::5", true},
        {"other.test", "2001:db9::5", false},
    };
    struct address address;

    for (size_t i = 0; i < countof(rows); i++) {
        CHECK_INT(address_parse(str_of(rows[i].address), &address), 0);
        CHECK_THAT(proxy_is_exempt(list, str_of(rows[i].name), &address) == rows[i].exempt, "%s %s",
                   rows[i].name, rows[i].address);
        CHECK(proxy_is_exempt("*", str_of(rows[i].name), &address));
        CHECK(!proxy_is_exempt("", str_of(rows[i].name), &address));
    }
}

/* Feeds the proxy's words one byte at a time; returns what the talk came to, or 99 when it took a
 * byte more than its own. */
static int talk_with(const struct proxy *proxy, const struct target *target, const char *words,
                     size_t len, struct buf *said, struct err *err)
{
    struct talk talk = {.proxy = proxy, .target = target};
    size_t from = 0;
    int r = talk_begin(&talk, said);

    for (size_t to = 1; r == 0 && to <= len; to++) {
        size_t used = 0;
        r = talk_step(&talk, (struct str){words + from, to - from}, &used, said, err);
        from += used;
        if (r == 1 && from != to) {
            return 99;
        }
    }
    return r;
}

static const struct target by_name = {.name = "x.test", .to = {.port = 443}};

static void socks_says_what_the_protocol_wants(void)
{
    static const char words[] = "\5\2\1\0\5\0\0\3\3abc\0\1";
    static const char want[] = "\5\2\0\2\1\1u\1p\5\1\0\3\6x.test\1\xbb";
    const struct proxy proxy = {.kind = PROXY_SOCKS5, .user = "u", .password = "p"};
    struct err err;
    scoped_buf(said, 4096);

    CHECK_INT(talk_with(&proxy, &by_name, words, sizeof(words) - 1, &said, &err), 1);
    CHECK(str_eq(buf_str(&said), (struct str){want, sizeof(want) - 1}));
}

static void socks_says_addresses_of_both_families(void)
{
    static const char words[] = "\5\0\5\0\0\1\0\0\0\0\0\0";
    const struct proxy proxy = {.kind = PROXY_SOCKS5};
    struct target target = {.to = {.port = 80}};
    struct err err;
    scoped_buf(said, 4096);

    CHECK_INT(address_parse(STR("1.2.3.4"), &target.to.address), 0);
    CHECK_INT(talk_with(&proxy, &target, words, sizeof(words) - 1, &said, &err), 1);
    CHECK(str_eq(buf_str(&said), (struct str){"\5\1\0\5\1\0\1\1\2\3\4\0P", 13}));
    buf_clear(&said);
    CHECK_INT(address_parse(STR("2001:db8::1"), &target.to.address), 0);
    CHECK_INT(talk_with(&proxy, &target, words, sizeof(words) - 1, &said, &err), 1);
    CHECK_INT(buf_len(&said), 3 + 4 + 16 + 2);
}

static void socks_takes_no_nonsense(void)
{
    static const struct {
        const char *words;
        size_t len;
        int error;
    } rows[] = {
        {"SSH-2.0", 7, -EPROTO},        {"\5\xff", 2, -EACCES},
        {"\5\2", 2, -EACCES},           {"\5\0\4\0", 4, -EPROTO},
        {"\5\0\5\1", 4, -ECONNREFUSED}, {"\5\0\5\xee", 4, -ECONNREFUSED},
        {"\5\0\5\0\0\7xx", 8, -EPROTO}, {"\5\0\5\0\0\1", 6, 0},
    };
    const struct proxy proxy = {.kind = PROXY_SOCKS5};

    for (size_t i = 0; i < countof(rows); i++) {
        struct err err = {0};
        scoped_buf(said, 4096);
        CHECK_INT(talk_with(&proxy, &by_name, rows[i].words, rows[i].len, &said, &err),
                  rows[i].error);
        CHECK(rows[i].error == 0 || err.msg[0]);
    }
}

static void http_connects_and_leaves_what_follows(void)
{
    static const char words[] = "HTTP/1.1 200 OK\r\nA: b\r\n\r\n";
    const struct proxy proxy = {.kind = PROXY_HTTP, .user = "u", .password = "p"};
    struct err err;
    scoped_buf(said, 4096);

    CHECK_INT(talk_with(&proxy, &by_name, words, sizeof(words) - 1, &said, &err), 1);
    CHECK(buf_append(&said, "", 1) == 0);
    CHECK_STR(buf_at(&said), "CONNECT x.test:443 HTTP/1.1\r\nHost: x.test:443\r\n"
                             "Proxy-Authorization: Basic dTpw\r\n\r\n");
}

static void http_takes_no_nonsense(void)
{
    static const struct {
        const char *words;
        int error;
    } rows[] = {
        {"SSH-2.0-x\r\n", -EPROTO},
        {"HTTP/1.1 407 No\r\n\r\n", -EACCES},
        {"HTTP/1.0 503 No\r\nA: b\r\n\r\n", -ECONNREFUSED},
        {"HTTP/1.1 xyz\r\n\r\n", -ECONNREFUSED},
        {"HTTP/2 200\r\n\r\n", -ECONNREFUSED},
        {"HTTP/1.1 200 OK\r\n", 0},
    };
    const struct proxy proxy = {.kind = PROXY_HTTP};

    for (size_t i = 0; i < countof(rows); i++) {
        struct err err = {0};
        scoped_buf(said, 4096);
        CHECK_INT(talk_with(&proxy, &by_name, rows[i].words, strlen(rows[i].words), &said, &err),
                  rows[i].error);
    }
}

static void an_answer_without_an_end_is_cut(void)
{
    const struct proxy proxy = {.kind = PROXY_HTTP};
    struct talk talk = {.proxy = &proxy, .target = &by_name};
    scoped_text words = xcalloc(1, PROXY_ANSWER_MAX);
    size_t used = 0;
    struct err err;
    scoped_buf(said, 4096);

    memset(words, 'x', PROXY_ANSWER_MAX);
    memcpy(words, "HTTP/1.1 200", 12);
    CHECK_INT(talk_begin(&talk, &said), 0);
    CHECK_INT(talk_step(&talk, (struct str){words, PROXY_ANSWER_MAX - 1}, &used, &said, &err), 0);
    CHECK_INT(talk_step(&talk, (struct str){words, PROXY_ANSWER_MAX}, &used, &said, &err), -EPROTO);
}

static void a_name_keeps_its_address(void)
{
    struct names *names = names_new();
    struct address first = names_address(names, STR("one.test"));
    struct address other = names_address(names, STR("two.test"));
    struct address again = names_address(names, STR("ONE.test"));
    struct address nobody;

    CHECK(address_eq(&first, &again) && !address_eq(&first, &other));
    CHECK(names_has_block(&first) && names_has_block(&other));
    CHECK_STR(names_find(names, &first), "one.test");
    CHECK_STR(names_find(names, &other), "two.test");
    CHECK_INT(address_parse(STR("198.19.255.255"), &nobody), 0);
    CHECK(names_has_block(&nobody) && !names_find(names, &nobody));
    CHECK_INT(address_parse(STR("198.20.0.1"), &nobody), 0);
    CHECK(!names_has_block(&nobody) && !names_find(names, &nobody));
    names_free(names);
}

static void old_names_give_way(void)
{
    struct names *names = names_new();
    struct address first = names_address(names, STR("first.test"));
    char name[32];

    for (int i = 0; i < 3 * NAMES_MAX; i++) {
        (void)snprintf(name, sizeof(name), "n%d.test", i);
        struct address address = names_address(names, str_of(name));
        CHECK_STR(names_find(names, &address), name);
    }
    CHECK(!names_find(names, &first));
    names_free(names);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"addresses and URLs are read", addresses_and_urls_are_read},
        {"no_proxy is names, domains and blocks", no_proxy_is_names_domains_and_blocks},
        {"SOCKS says what the protocol wants", socks_says_what_the_protocol_wants},
        {"SOCKS says addresses of both families", socks_says_addresses_of_both_families},
        {"SOCKS takes no nonsense", socks_takes_no_nonsense},
        {"HTTP connects and leaves what follows", http_connects_and_leaves_what_follows},
        {"HTTP takes no nonsense", http_takes_no_nonsense},
        {"an answer without an end is cut", an_answer_without_an_end_is_cut},
        {"a name keeps its address", a_name_keeps_its_address},
        {"old names give way", old_names_give_way},
    };
    return check_run(tests, countof(tests));
}
