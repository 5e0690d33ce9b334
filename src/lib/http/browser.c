#include "lib/http/browser.h"

/* `null`, which a page without an origin sends, is nobody's. */
static bool is_own_origin(struct str origin, const struct http_request *req)
{
    struct str scheme = {origin.at, str_find(origin, ':')};
    struct str rest = str_skip(origin, scheme.len);

    return str_starts(rest, STR("://")) && str_ieq(scheme, req->scheme) &&
           str_ieq(str_skip(rest, 3), req->authority);
}

bool browser_is_foreign(const struct http_request *req)
{
    struct str origin = http_header_get(req, "origin");
    struct str site = http_header_get(req, "sec-fetch-site");

    if (origin.at) {
        return !is_own_origin(str_trim(origin), req);
    }
    return str_ieq(site, STR("cross-site")) || str_ieq(site, STR("same-site"));
}

/* The types that a form may have. A body without a type is sent without asking, too. */
static bool is_simple_type(struct str type)
{
    static const char *const simple[] = {"application/x-www-form-urlencoded", "multipart/form-data",
                                         "text/plain"};

    type = str_trim((struct str){type.at, str_find(type, ';')});
    for (size_t i = 0; i < countof(simple); i++) {
        if (str_ieq(type, str_of(simple[i]))) {
            return true;
        }
    }
    return type.len == 0;
}

bool browser_asked_first(const struct http_request *req)
{
    static const char *const asked[] = {"x-access-token", "authorization", "x-api-key",
                                        "e2b-traffic-access-token", "e2b-sandbox-id"};
    bool simple_method = str_eq(req->method, STR("GET")) || str_eq(req->method, STR("HEAD")) ||
                         str_eq(req->method, STR("POST"));

    /* A WebSocket's handshake is never asked about, and takes no headers of a page's own. */
    if (req->upgrade) {
        return false;
    }
    for (size_t i = 0; i < countof(asked); i++) {
        if (http_header_get(req, asked[i]).at) {
            return true;
        }
    }
    return !simple_method || !is_simple_type(http_header_get(req, "content-type"));
}
