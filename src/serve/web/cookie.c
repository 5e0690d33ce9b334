#include "serve/web/cookie.h"

#include <inttypes.h>
#include <stdio.h>

#define COOKIE_NAME "atoll_session"
#define COOKIE_NAME_SECURE "__Host-atoll_session"

bool web_is_secure(const struct http_request *req)
{
    return req->secure ||
           str_ieq(str_trim(http_header_get(req, "x-forwarded-proto")), STR("https"));
}

bool web_cookie_is_ours(struct str name)
{
    return str_ieq(name, STR(COOKIE_NAME)) || str_ieq(name, STR(COOKIE_NAME_SECURE));
}

static bool is_token(struct str value)
{
    for (size_t i = 0; i < value.len; i++) {
        char c = value.at[i];

        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) {
            return false;
        }
    }
    return value.len == WEB_TOKEN_LEN;
}

static void header_read(struct str header, struct str name, struct web_cookies *out)
{
    struct str pair;

    while (str_split(&header, ';', &pair)) {
        size_t equals = str_find(pair, '=');
        struct str value = str_trim(str_skip(pair, equals + 1));

        if (equals < pair.len && str_eq(str_trim((struct str){pair.at, equals}), name) &&
            is_token(value) && out->n < WEB_COOKIES_MAX) {
            out->values[out->n++] = value;
        }
    }
}

/* HTTP/2 may send a header for each cookie. */
void web_cookies_read(const struct http_request *req, struct web_cookies *out)
{
    struct str name = web_is_secure(req) ? STR(COOKIE_NAME_SECURE) : STR(COOKIE_NAME);

    out->n = 0;
    for (size_t i = 0; i < req->headers_n; i++) {
        if (str_ieq(req->headers[i].name, STR("cookie"))) {
            header_read(req->headers[i].value, name, out);
        }
    }
}

void web_cookie_write(const struct http_request *req, const char *token, int64_t seconds,
                      char out[WEB_COOKIE_BYTES])
{
    bool secure = web_is_secure(req);

    (void)snprintf(out, WEB_COOKIE_BYTES,
                   "%s=%s; Path=/; Max-Age=%" PRId64 "; HttpOnly; SameSite=Strict%s",
                   secure ? COOKIE_NAME_SECURE : COOKIE_NAME, token ? token : "",
                   token ? seconds : 0, secure ? "; Secure" : "");
}
