/* Browsers: any origin may call. A key is in a header that a page must set itself, never in a
 * cookie, so another site's page has none to abuse. */
#include <errno.h>

#include "serve/api/internal.h"

#define LITERAL(text)                                                                              \
    {                                                                                              \
        (text), sizeof(text) - 1                                                                   \
    } /* STR() is no constant, and this must be one */
#define EXPOSED                                                                                    \
    "X-Next-Token, X-Total-Running, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, "       \
    "Retry-After, Should-Retry"

const struct http_header cors_headers[] = {
    {LITERAL("Access-Control-Allow-Origin"), LITERAL("*")},
    {LITERAL("Access-Control-Expose-Headers"), LITERAL(EXPOSED)},
};
const size_t cors_headers_n = countof(cors_headers);

static void on_preflight(void *ctx, struct http_exchange *ex, int error, struct str body)
{
    static const char allowed[] =
        "Origin, Content-Length, Content-Type, User-Agent, Authorization, X-API-Key, X-Team-ID, "
        "Idempotency-Key, browser, lang, lang_version, machine, os, package_version, processor, "
        "publisher, release, sdk_runtime, system";
    const struct http_header headers[] = {
        cors_headers[0],
        {STR("Access-Control-Allow-Methods"), STR("GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS")},
        {STR("Access-Control-Allow-Headers"), STR(allowed)},
        {STR("Access-Control-Max-Age"), STR("43200")},
    };

    (void)ctx, (void)body;
    if (error < 0 && error != -EMSGSIZE) {
        return;
    }
    http_reply_with(ex, 204, headers, countof(headers), NULL, NULL, 0);
}

void cors_preflight(struct http_exchange *ex)
{
    http_gather(ex, 0, on_preflight, NULL, NULL);
}

void api_also_cors(struct http_exchange *ex)
{
    http_also(ex, cors_headers, cors_headers_n);
}
