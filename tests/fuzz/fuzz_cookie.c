/* Cookie headers from arbitrary bytes, one on a line: each value that is taken is a token, and lies
 * in the input. The first line is a client's Accept-Encoding as well. */
#include <stdint.h>
#include <stdlib.h>

#include "serve/web/cookie.h"
#include "serve/web/web.h"

enum { LINES_MAX = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void check_value(struct str value, struct str input)
{
    check(value.len == WEB_TOKEN_LEN);
    check(value.at >= input.at && value.at + value.len <= input.at + input.len);
    for (size_t i = 0; i < value.len; i++) {
        check((value.at[i] >= '0' && value.at[i] <= '9') ||
              (value.at[i] >= 'a' && value.at[i] <= 'f'));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str input = {(const char *)data, size}, rest = input, line;
    struct http_header headers[LINES_MAX];
    struct http_request req = {.headers = headers};

    while (req.headers_n < LINES_MAX && str_split(&rest, '\n', &line)) {
        headers[req.headers_n++] = (struct http_header){STR("cookie"), line};
    }
    for (int secure = 0; secure <= 1; secure++) {
        struct web_cookies cookies;

        req.secure = secure;
        web_cookies_read(&req, &cookies);
        check(cookies.n <= WEB_COOKIES_MAX);
        for (size_t i = 0; i < cookies.n; i++) {
            check_value(cookies.values[i], input);
        }
    }
    if (req.headers_n > 0) {
        (void)web_takes(headers[0].value, "gzip");
        (void)web_cookie_is_ours(headers[0].value);
    }
    return 0;
}
