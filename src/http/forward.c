#include "http/forward.h"

static const char *const hop_by_hop[] = {
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "proxy-connection",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "content-length",
};

/* Connection: close, x-private makes x-private hop-by-hop too. */
static bool is_named(struct str name, const struct http_header *headers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct str rest = headers[i].value, token;
        if (!str_ieq(headers[i].name, STR("connection"))) {
            continue;
        }
        while (str_split(&rest, ',', &token)) {
            if (str_ieq(str_trim(token), name)) {
                return true;
            }
        }
    }
    return false;
}

bool forward_drops(struct str name, const struct http_header *headers, size_t n)
{
    for (size_t i = 0; i < countof(hop_by_hop); i++) {
        if (str_ieq(name, str_of(hop_by_hop[i]))) {
            return true;
        }
    }
    return is_named(name, headers, n);
}
