/* cookie.h - the dashboard's cookie: reads it from a request, and writes the header that sets it.
 *
 * Owns:     nothing. Blocks never. Any thread.
 *
 * Over TLS its name begins with __Host-: a browser takes such a cookie only over TLS, for this
 * very host. A page of a sandbox, which is another host of the same domain, can therefore not set
 * one. A request that came over TLS is searched for that name alone.
 */
#ifndef WEB_COOKIE_H
#define WEB_COOKIE_H

#include "lib/http/http.h"

enum {
    WEB_TOKEN_BYTES = 32,
    WEB_TOKEN_LEN = 2 * WEB_TOKEN_BYTES, /* hex digits */
    WEB_COOKIE_BYTES = 192,              /* of the header that sets it, and its NUL */
    WEB_COOKIES_MAX = 4,                 /* of the same name: the rest is not looked at */
};

/* The values of the session's cookie that a request carries. More than one: a page of another host
 * has set a cookie for the whole domain. */
struct web_cookies {
    struct str values[WEB_COOKIES_MAX]; /* each of WEB_TOKEN_LEN hex digits, borrowed */
    size_t n;
};

/* The request came over TLS, to us or to a proxy before us that says so. */
bool web_is_secure(const struct http_request *req);

/* Values of another form than a token's are left out. */
void web_cookies_read(const struct http_request *req, struct web_cookies *out);

/* Writes the value of Set-Cookie. token NULL: the browser is to forget the cookie. */
void web_cookie_write(const struct http_request *req, const char *token, int64_t seconds,
                      char out[WEB_COOKIE_BYTES]);

/* A cookie named as ours is: no sandbox may read or set one. `name` is up to its '='. */
bool web_cookie_is_ours(struct str name);

#endif
