/* The dashboard's cookie, read from friendly and hostile headers, and what a client takes packed.
 */
#include "check.h"
#include "lib/base/compiler.h"
#include "serve/web/cookie.h"
#include "serve/web/web.h"

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static size_t read_one(const char *header, bool secure, struct web_cookies *out)
{
    struct http_header headers[] = {{STR("cookie"), str_of(header)}};
    struct http_request req = {.headers = headers, .headers_n = 1, .secure = secure};

    web_cookies_read(&req, out);
    return out->n;
}

static void headers_give_their_tokens(void)
{
    static const struct {
        const char *header;
        bool secure;
        size_t n;
        const char *first;
    } rows[] = {
        {"atoll_session=" A, false, 1, A},
        {"a=1; atoll_session=" A "; b=2", false, 1, A},
        {"a=1;atoll_session=" A, false, 1, A},
        {"  atoll_session = " A "\t;", false, 1, A},
        {"atoll_session=" B "; atoll_session=" A, false, 2, B},
        {"__Host-atoll_session=" A, true, 1, A},
        {"__Host-atoll_session=" A "; atoll_session=" B, true, 1, A},
        {"__Host-atoll_session=" A "; atoll_session=" B, false, 1, B},
        /* over TLS only the name that no other host can set */
        {"atoll_session=" A, true, 0, NULL},
        {"__host-atoll_session=" A, true, 0, NULL},
        {"", false, 0, NULL},
        {";", false, 0, NULL},
        {"=", false, 0, NULL},
        {"=;=;=", false, 0, NULL},
        {"atoll_session", false, 0, NULL},
        {"atoll_session=", false, 0, NULL},
        {"atoll_session=;", false, 0, NULL},
        {"atoll_session==" A, false, 0, NULL},
        {"atoll_session=\"" A "\"", false, 0, NULL},
        {"atoll_session=" A "a", false, 0, NULL},
        {"Atoll_Session=" A, false, 0, NULL},
        {"xatoll_session=" A, false, 0, NULL},
        {"atoll_session=" A ", atoll_session=" B, false, 0, NULL},
        {"atoll_session=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", false, 0,
         NULL},
    };

    for (size_t i = 0; i < countof(rows); i++) {
        struct web_cookies cookies;

        CHECK_THAT(read_one(rows[i].header, rows[i].secure, &cookies) == rows[i].n, "row %zu: %s",
                   i, rows[i].header);
        CHECK_THAT(!rows[i].first || str_eq(cookies.values[0], str_of(rows[i].first)), "row %zu",
                   i);
    }
}

static void many_cookies_of_one_name_are_bounded(void)
{
    static char header[64 * 100];
    struct web_cookies cookies;

    for (int i = 0; i < 50; i++) {
        size_t n = strlen(header);

        (void)snprintf(header + n, sizeof(header) - n, "atoll_session=" B ";");
    }
    CHECK_INT((int)read_one(header, false, &cookies), WEB_COOKIES_MAX);
}

static void each_header_is_read(void)
{
    struct http_header headers[] = {{STR("cookie"), STR("a=1")},
                                    {STR("x-cookie"), STR("atoll_session=" A)},
                                    {STR("cookie"), STR("atoll_session=" B)}};
    struct http_request req = {.headers = headers, .headers_n = countof(headers)};
    struct web_cookies cookies;

    web_cookies_read(&req, &cookies);
    CHECK_INT((int)cookies.n, 1);
    CHECK(str_eq(cookies.values[0], STR(B)));
}

static void the_header_that_sets_it_says_who_may_read_it(void)
{
    struct http_header proxied[] = {{STR("x-forwarded-proto"), STR("https")}};
    struct http_request plain = {0}, tls = {.secure = true};
    struct http_request behind = {.headers = proxied, .headers_n = 1};
    char out[WEB_COOKIE_BYTES];

    web_cookie_write(&plain, A, 60, out);
    CHECK_STR(out, "atoll_session=" A "; Path=/; Max-Age=60; HttpOnly; SameSite=Strict");
    web_cookie_write(&tls, A, 2592000, out);
    CHECK_STR(out, "__Host-atoll_session=" A
                   "; Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict; Secure");
    web_cookie_write(&behind, A, 60, out);
    CHECK(strstr(out, "__Host-") == out && strstr(out, "; Secure"));
    web_cookie_write(&plain, NULL, 60, out);
    CHECK_STR(out, "atoll_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict");
}

static void its_name_is_known_in_every_case(void)
{
    CHECK(web_cookie_is_ours(STR("atoll_session")));
    CHECK(web_cookie_is_ours(STR("ATOLL_SESSION")));
    CHECK(web_cookie_is_ours(STR("__host-atoll_session")));
    CHECK(!web_cookie_is_ours(STR("atoll_session2")) && !web_cookie_is_ours(STR("")));
}

static void packed_files_are_for_those_who_take_them(void)
{
    static const char *const yes[] = {"gzip",       "br, gzip",    "GZIP",
                                      "gzip;q=0.1", " gzip ; q=1", "deflate, gzip;q=1.0, *;q=0.5"};
    static const char *const no[] = {"",  "identity",     "gzip;q=0",     "gzip; q=0.000",
                                     "*", "br, gzip;q=0", "gzipped, zip", "x-gzip"};

    for (size_t i = 0; i < countof(yes); i++) {
        CHECK_THAT(web_takes(str_of(yes[i]), "gzip"), "%s", yes[i]);
    }
    for (size_t i = 0; i < countof(no); i++) {
        CHECK_THAT(!web_takes(str_of(no[i]), "gzip"), "%s", no[i]);
    }
}

static void a_damaged_table_is_refused(void)
{
    static const struct web_file damaged[] = {
        {"/", "text/html", "\"x\"", "no gzip", 7, NULL, 0, 7, false}};
    static const struct web_file none[] = {{"/x", "text/html", "\"x\"", "", 0, NULL, 0, 0, false}};
    struct web *web = NULL;
    struct err err;

    CHECK(web_new(damaged, 1, &web, &err) < 0);
    CHECK(web_new(none, 1, &web, &err) < 0);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"headers give their tokens", headers_give_their_tokens},
        {"many cookies of one name are bounded", many_cookies_of_one_name_are_bounded},
        {"each header is read", each_header_is_read},
        {"the header that sets it says who may read it",
         the_header_that_sets_it_says_who_may_read_it},
        {"its name is known in every case", its_name_is_known_in_every_case},
        {"packed files are for those who take them", packed_files_are_for_those_who_take_them},
        {"a damaged table is refused", a_damaged_table_is_refused},
    };

    return check_run(tests, countof(tests));
}
