#include "lib/http/cors.h"

enum { FIELDS_MAX = 4 }; /* and one that ends them */

/* STR() is no constant expression, so a table of constants is spelt out. */
#define FIELD(name, value)                                                                         \
    {                                                                                              \
        {(name), sizeof(name) - 1},                                                                \
        {                                                                                          \
            (value), sizeof(value) - 1                                                             \
        }                                                                                          \
    }
#define ANY_ORIGIN FIELD("access-control-allow-origin", "*")
#define EXPOSE(names) FIELD("access-control-expose-headers", names)
#define METHODS(names) FIELD("access-control-allow-methods", names)
#define HEADERS(names) FIELD("access-control-allow-headers", names)
#define MAX_AGE_S(seconds) FIELD("access-control-max-age", seconds)

static const struct row {
    struct http_header answer[FIELDS_MAX + 1];    /* on every answer */
    struct http_header preflight[FIELDS_MAX + 1]; /* on the answer to a preflight besides */
    bool echoes; /* a preflight is allowed the headers that it asks for */
} table[CORS_SURFACES] = {
    [CORS_API] = {.answer = {ANY_ORIGIN,
                             EXPOSE("X-Next-Token, X-Total-Running, RateLimit-Limit, "
                                    "RateLimit-Remaining, RateLimit-Reset, Retry-After, "
                                    "Should-Retry")},
                  .preflight = {METHODS("GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS"),
                                HEADERS("Origin, Content-Length, Content-Type, User-Agent, "
                                        "Authorization, X-API-Key, X-Team-ID, Idempotency-Key, "
                                        "browser, lang, lang_version, machine, os, "
                                        "package_version, processor, publisher, release, "
                                        "sdk_runtime, system"),
                                MAX_AGE_S("43200")}},
    [CORS_MCP] = {.answer = {ANY_ORIGIN, EXPOSE("Mcp-Session-Id")},
                  .preflight = {METHODS("GET, POST, DELETE, OPTIONS"),
                                HEADERS("Accept, Authorization, Content-Type, Last-Event-ID, "
                                        "Mcp-Method, Mcp-Name, MCP-Protocol-Version, "
                                        "Mcp-Session-Id, X-API-Key"),
                                MAX_AGE_S("43200")}},
    [CORS_EDGE] = {.answer = {ANY_ORIGIN},
                   .preflight = {METHODS("HEAD, GET, POST, PUT, PATCH, DELETE")},
                   .echoes = true},
    [CORS_AGENT] = {.answer = {ANY_ORIGIN,
                               EXPOSE("Content-Encoding, Connect-Content-Encoding, Grpc-Status, "
                                      "Grpc-Message, Grpc-Status-Details-Bin, Location, "
                                      "Cache-Control, X-Content-Type-Options"),
                               FIELD("vary", "Origin")},
                    .preflight = {METHODS("HEAD, GET, POST, PUT, PATCH, DELETE"),
                                  MAX_AGE_S("7200")},
                    .echoes = true},
    [CORS_GATEWAY] = {.answer = {ANY_ORIGIN, METHODS("DELETE, GET, OPTIONS, POST"),
                                 HEADERS("Accept, Authorization, Content-Type, Last-Event-ID, "
                                         "Mcp-Method, Mcp-Name, MCP-Protocol-Version, "
                                         "Mcp-Session-Id"),
                                 EXPOSE("Mcp-Session-Id")}},
    [CORS_INTERPRETER] = {.answer = {ANY_ORIGIN, METHODS("DELETE, GET, OPTIONS, POST"),
                                     HEADERS("*")}},
};

static size_t count(const struct http_header *fields)
{
    size_t n = 0;

    while (fields[n].name.len > 0) {
        n++;
    }
    return n;
}

const struct http_header *cors_headers(enum cors_surface surface, size_t *n)
{
    *n = count(table[surface].answer);
    return table[surface].answer;
}

void cors_also(struct http_exchange *ex, enum cors_surface surface)
{
    http_also(ex, table[surface].answer, count(table[surface].answer));
}

bool cors_is_preflight(const struct http_request *req)
{
    return str_eq(req->method, STR("OPTIONS")) && http_header_get(req, "origin").at &&
           http_header_get(req, "access-control-request-method").at;
}

static void on_end(void *ctx, int error)
{
    (void)ctx, (void)error;
}

void cors_preflight(struct http_exchange *ex, enum cors_surface surface)
{
    static const struct http_handler nothing_more = {.on_end = on_end};
    const struct row *row = &table[surface];
    struct str wanted = http_header_get(http_request(ex), "access-control-request-headers");
    struct http_header headers[FIELDS_MAX + 1];
    size_t n = 0;

    for (; row->preflight[n].name.len > 0; n++) {
        headers[n] = row->preflight[n];
    }
    if (row->echoes && wanted.len > 0) {
        headers[n++] = (struct http_header){STR("access-control-allow-headers"), wanted};
    }
    cors_also(ex, surface);
    http_accept(ex, &nothing_more, NULL);
    http_reply_with(ex, 204, headers, n, NULL, NULL, 0);
}
