/* Names that are served, and requests that browsers make for pages of other sites. */
#include "check.h"
#include "lib/http/browser.h"
#include "lib/http/hosts.h"

static const struct hosts nearby = {
    .domain = "", .allowed = "", .issuer = "", .machine = "box.corp.example"};

static void loopback_serves_addresses_and_localhost(void)
{
    static const char *const good[] = {
        "127.0.0.1:3000", "127.0.0.1", "127.1",          "10.0.0.7:80", "[::1]:3000",
        "[2001:db8::1]",  "localhost", "LOCALHOST:3000", "localhost.",  "49999-i.localhost",
        "a.b.localhost",  "",          "2130706433:3000"};
    static const char *const bad[] = {"evil.test",
                                      "evil.test:3000",
                                      "localhost.evil.test",
                                      "evillocalhost",
                                      "evil",
                                      "box",
                                      "box.corp.example",
                                      "sandbox.evil.test",
                                      "49999-i.evil.test",
                                      "[::1.evil]",
                                      "127.0.0.1.evil.test",
                                      "127.0.0.1.nip.io",
                                      ".",
                                      ":3000",
                                      "[",
                                      "[]",
                                      ".localhost.x",
                                      "1.evil1",
                                      "api.example.com"};

    for (size_t i = 0; i < countof(good); i++) {
        CHECK_THAT(hosts_serve(&nearby, str_of(good[i])), "%s", good[i]);
    }
    for (size_t i = 0; i < countof(bad); i++) {
        CHECK_THAT(!hosts_serve(&nearby, str_of(bad[i])), "%s", bad[i]);
    }
}

static void the_operators_names_are_served(void)
{
    const struct hosts hosts = {.domain = "sandbox.example.org:8443",
                                .allowed = "box.lan, *.apps.lan",
                                .issuer = "https://issuer.example.net:444/path",
                                .machine = "box"};
    static const char *const good[] = {"sandbox.example.org",
                                       "8000-i.sandbox.example.org:1",
                                       "api.sandbox.example.org",
                                       "BOX.lan:3000",
                                       "x.apps.lan",
                                       "8000-i.x.apps.lan",
                                       "issuer.example.net:444"};
    static const char *const bad[] = {"example.org",
                                      "xsandbox.example.org",
                                      "apps.lan",
                                      "x.box.lan",
                                      "a.issuer.example.net",
                                      "box",
                                      "sandbox.example.org.evil.test"};

    for (size_t i = 0; i < countof(good); i++) {
        CHECK_THAT(hosts_serve(&hosts, str_of(good[i])), "%s", good[i]);
    }
    for (size_t i = 0; i < countof(bad); i++) {
        CHECK_THAT(!hosts_serve(&hosts, str_of(bad[i])), "%s", bad[i]);
    }
}

static void beyond_loopback_the_machine_has_a_name(void)
{
    struct hosts hosts = nearby;

    hosts.beyond_loopback = true;
    CHECK(hosts_serve(&hosts, STR("box.corp.example:3000")));
    CHECK(hosts_serve(&hosts, STR("box")));
    CHECK(hosts_serve(&hosts, STR("Box.local")));
    CHECK(hosts_serve(&hosts, STR("atoll:3000"))); /* another container's word for it */
    CHECK(!hosts_serve(&hosts, STR("other.local")));
    CHECK(!hosts_serve(&hosts, STR("corp.example")));
    CHECK(!hosts_serve(&hosts, STR("x.box.corp.example")));
    CHECK(!hosts_serve(&hosts, STR("evil.test")));
    CHECK(!hosts_serve(&hosts, STR(".")));
}

static void a_star_serves_every_name(void)
{
    struct hosts hosts = nearby;

    hosts.allowed = "x,*";
    CHECK(hosts_serve(&hosts, STR("evil.test")));
}

static void lists_are_names(void)
{
    static const char *const good[] = {"", "*", "a", "a.b", "*.a.b, c_d", "a,,b", "10.0.0.1"};
    static const char *const bad[] = {"http://a", "a:80", "*a", "a b", ".a", "*.", "a/b", "**"};

    for (size_t i = 0; i < countof(good); i++) {
        CHECK_THAT(hosts_list_ok(str_of(good[i])), "%s", good[i]);
    }
    for (size_t i = 0; i < countof(bad); i++) {
        CHECK_THAT(!hosts_list_ok(str_of(bad[i])), "%s", bad[i]);
    }
}

/* ---- pages ---- */

#define HOST "49999-i.localhost:3000"

static struct http_request request(const char *method, const struct http_header *headers, size_t n)
{
    return (struct http_request){.method = str_of(method),
                                 .scheme = STR("http"),
                                 .authority = STR(HOST),
                                 .headers = headers,
                                 .headers_n = n};
}

static bool is_foreign(const char *name, const char *value)
{
    const struct http_header header = {str_of(name), str_of(value)};
    struct http_request req = request("POST", &header, 1);

    return browser_is_foreign(&req);
}

static void pages_are_told_by_what_browsers_say(void)
{
    CHECK(!is_foreign("user-agent", "curl"));
    CHECK(!is_foreign("origin", "http://" HOST));
    CHECK(!is_foreign("sec-fetch-site", "none"));
    CHECK(!is_foreign("sec-fetch-site", "same-origin"));
    CHECK(is_foreign("origin", "https://" HOST));
    CHECK(is_foreign("origin", "http://8000-j.localhost:3000"));
    CHECK(is_foreign("origin", "http://" HOST ".evil.test"));
    CHECK(is_foreign("origin", "http://localhost:3000"));
    CHECK(is_foreign("origin", "null"));
    CHECK(is_foreign("origin", ""));
    CHECK(is_foreign("sec-fetch-site", "cross-site"));
    CHECK(is_foreign("sec-fetch-site", "same-site"));
}

static bool asked(const char *method, const char *name, const char *value)
{
    const struct http_header header = {str_of(name), str_of(value)};
    struct http_request req = request(method, &header, 1);

    return browser_asked_first(&req);
}

static void what_needs_a_preflight_was_asked_about(void)
{
    CHECK(!asked("POST", "content-type", "text/plain"));
    CHECK(!asked("POST", "content-type", "Text/Plain; charset=utf-8"));
    CHECK(!asked("POST", "content-type", "multipart/form-data; boundary=application/json"));
    CHECK(!asked("POST", "content-type", "application/x-www-form-urlencoded"));
    CHECK(!asked("POST", "content-type", ""));
    CHECK(!asked("GET", "accept", "application/json"));
    CHECK(!asked("HEAD", "cookie", "x-access-token=1"));
    CHECK(asked("POST", "content-type", "application/json"));
    CHECK(asked("DELETE", "accept", "*/*"));
    CHECK(asked("GET", "x-access-token", "t"));
    CHECK(asked("GET", "e2b-sandbox-id", "i"));
    const struct http_header header = {STR("content-type"), STR("application/json")};
    struct http_request socket = request("GET", &header, 1);
    socket.upgrade = true;
    CHECK(!browser_asked_first(&socket));
}

int main(void)
{
    static const struct check_test tests[] = {
        {"loopback serves addresses and localhost", loopback_serves_addresses_and_localhost},
        {"the operator's names are served", the_operators_names_are_served},
        {"beyond loopback the machine has a name", beyond_loopback_the_machine_has_a_name},
        {"a star serves every name", a_star_serves_every_name},
        {"lists are names", lists_are_names},
        {"pages are told by what browsers say", pages_are_told_by_what_browsers_say},
        {"what needs a preflight was asked about", what_needs_a_preflight_was_asked_about},
    };

    return check_run(tests, countof(tests));
}
