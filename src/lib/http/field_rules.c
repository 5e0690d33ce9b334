#include "lib/http/field_rules.h"

#include <ctype.h>

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

/* Real clients name fewer; each name is compared with every field of the head. */
enum { CONNECTION_TOKENS_MAX = 32 };

/* Connection: close, x-private makes x-private hop-by-hop too. */
static bool is_named(struct str name, const struct http_header *headers, size_t n)
{
    unsigned seen = 0;

    for (size_t i = 0; i < n; i++) {
        struct str rest = headers[i].value, token;
        if (!str_ieq(headers[i].name, STR("connection"))) {
            continue;
        }
        while (seen++ < CONNECTION_TOKENS_MAX && str_split(&rest, ',', &token)) {
            if (str_ieq(str_trim(token), name)) {
                return true;
            }
        }
    }
    return false;
}

bool field_is_hop_by_hop(struct str name, const struct http_header *headers, size_t n)
{
    for (size_t i = 0; i < countof(hop_by_hop); i++) {
        if (str_ieq(name, str_of(hop_by_hop[i]))) {
            return true;
        }
    }
    return is_named(name, headers, n);
}

bool field_is_name(const char *name)
{
    for (const char *c = name; *c; c++) {
        if (!isalnum((unsigned char)*c) && !strchr("!#$%&'*+-.^_`|~", *c)) {
            return false;
        }
    }
    return name[0] != '\0';
}

bool field_is_framing(const char *name)
{
    static const char *const framing[] = {
        "host", "content-length", "transfer-encoding", "connection",       "upgrade",
        "te",   "trailer",        "keep-alive",        "proxy-connection", "expect"};

    for (size_t i = 0; i < countof(framing); i++) {
        if (strcasecmp(name, framing[i]) == 0) {
            return true;
        }
    }
    return false;
}
