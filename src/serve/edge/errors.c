/* errors.c - the edge's own answers: JSON for programs, a page for people. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "lib/http/cors.h"
#include "serve/edge/internal.h"

enum {
    ERROR_TEXT_MAX = 4096,
    ERROR_VALUE_MAX = 256, /* of the host or path a page repeats */
};

#define TOKEN_HEADER "e2b-traffic-access-token"

struct kind {
    int status;
    const char *title;
    /* The API's words: clients compare them. In each 502 the SDKs look for "was not found" (it does
     * not run) or "port is not open" (it runs). */
    const char *message;
    const char *page; /* said after "The sandbox <id>"; NULL: the message alone */
};

static const struct kind kinds[] = {
    [EDGE_ERROR_NOT_FOUND] = {502, "Sandbox Not Found", "The sandbox was not found",
                              "was not found"},
    [EDGE_ERROR_PORT_CLOSED] = {502, "Closed Port Error",
                                "The sandbox is running but port is not open",
                                "is running, but there is no service running on port"},
    [EDGE_ERROR_NO_ANSWER] = {502, "No answer",
                              "The sandbox is running but port is not open: the service gave no "
                              "HTTP answer",
                              "is running, but there was no HTTP answer from the service on port"},
    [EDGE_ERROR_UNREACHABLE] = {503, "Sandbox not reachable",
                                "The sandbox is running but cannot be reached now, try again later",
                                "is running, but cannot be reached now on port"},
    [EDGE_ERROR_PAUSED] = {502, "Sandbox is paused", "The sandbox was not found: it is paused",
                           "is paused"},
    [EDGE_ERROR_CHANGING] = {409, "Sandbox Still Transitioning",
                             "The sandbox is being paused, try again later", "is being paused"},
    [EDGE_ERROR_NOT_RESUMED] = {503, "Sandbox not resumed",
                                "The sandbox is paused and could not be resumed, try again later",
                                "is paused and could not be resumed"},
    [EDGE_ERROR_TOO_MANY] = {429, "Too Many Connections",
                             "The sandbox has too many concurrent incoming connections",
                             "has too many concurrent incoming connections"},
    [EDGE_ERROR_SHARE] = {429, "Too Many Connections",
                          "The sandbox or its team has its share of the server's connections in "
                          "use, try again later",
                          "or its team has its share of the server's connections in use"},
    [EDGE_ERROR_RESERVED] = {404, "Endpoint Not Available",
                             "This endpoint is reserved for the E2B control plane and is not "
                             "reachable through the sandbox URL",
                             NULL},
    [EDGE_ERROR_TOKEN_MISSING] = {403, "Missing Traffic Access Token",
                                  "Sandbox is secured with traffic access token. Token header "
                                  "'" TOKEN_HEADER "' is missing",
                                  "enforces traffic access token. Token header "
                                  "\"" TOKEN_HEADER "\" is missing"},
    [EDGE_ERROR_TOKEN_INVALID] = {403, "Invalid Traffic Access Token",
                                  "Sandbox is secured with traffic access token. Provided token in "
                                  "header '" TOKEN_HEADER "' is invalid",
                                  "enforces traffic access token. Token header "
                                  "\"" TOKEN_HEADER "\" is invalid"},
    [EDGE_ERROR_NOT_WOKEN] = {403, "Sandbox Resume Denied",
                              "The sandbox is paused, and its access token or a signature is "
                              "needed to resume it",
                              "is paused, and its access token or a signature is needed to resume "
                              "it"},
    [EDGE_ERROR_NOT_OWNER] = {401, "Access token missing or invalid",
                              "The sandbox is secure: send its access token in the header "
                              "'X-Access-Token', as the SDKs do since version 2",
                              NULL},
    [EDGE_ERROR_FOREIGN_PAGE] = {403, "Page of another site",
                                 "A web page of another site may not reach this port without a "
                                 "preflight: send the header 'X-Access-Token' or 'E2b-Sandbox-Id', "
                                 "or a JSON content type",
                                 NULL},
};

/* ---- the kind of client ---- */

static bool contains(struct str text, const char *word)
{
    size_t len = strlen(word);

    for (size_t i = 0; i + len <= text.len; i++) {
        if (strncasecmp(text.at + i, word, len) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_script(const struct http_request *req)
{
    static const char *const modes[] = {"cors", "no-cors", "same-origin", "websocket"};
    struct str mode = http_header_get(req, "sec-fetch-mode");

    for (size_t i = 0; i < countof(modes); i++) {
        if (str_ieq(mode, str_of(modes[i]))) {
            return true;
        }
    }
    return !str_ieq(mode, STR("navigate")) && http_header_get(req, "x-requested-with").len > 0;
}

static bool wants_page(const struct http_request *req)
{
    static const char *const browsers[] = {"mozilla", "chrome", "safari", "firefox",
                                           "edge",    "opera",  "msie"};
    struct str accept = http_header_get(req, "accept");
    struct str agent = http_header_get(req, "user-agent");

    if ((contains(accept, "application/json") && !contains(accept, "text/html")) ||
        is_script(req)) {
        return false;
    }
    for (size_t i = 0; i < countof(browsers); i++) {
        if (contains(agent, browsers[i])) {
            return true;
        }
    }
    return false;
}

/* ---- the answer ---- */

static int put_html(struct buf *out, struct str text)
{
    int r = 0;

    for (size_t i = 0; i < text.len && i < ERROR_VALUE_MAX && r == 0; i++) {
        const char *safe = text.at[i] == '<'   ? "&lt;"
                           : text.at[i] == '&' ? "&amp;"
                           : text.at[i] == '"' ? "&quot;"
                                               : NULL;
        r = safe ? buf_append(out, safe, strlen(safe)) : buf_append(out, text.at + i, 1);
    }
    return r;
}

/* For values that may hold anything; the id is [a-z0-9] by the time it gets here. */
static int put_json(struct buf *out, struct str text)
{
    int r = 0;

    for (size_t i = 0; i < text.len && i < ERROR_VALUE_MAX && r == 0; i++) {
        unsigned char c = (unsigned char)text.at[i];
        r = c == '"' || c == '\\' || c < 0x20 || c > 0x7e ? buf_printf(out, "\\u%04x", c)
                                                          : buf_append(out, text.at + i, 1);
    }
    return r;
}

static bool names_port(enum edge_error error)
{
    return error == EDGE_ERROR_PORT_CLOSED || error == EDGE_ERROR_NO_ANSWER ||
           error == EDGE_ERROR_UNREACHABLE;
}

/* The page begins with "<html" and ends with "</html>", as clients of E2B's pages expect. */
static int page(struct buf *out, const struct kind *kind, enum edge_error error, struct str id,
                uint16_t port, const struct http_request *req)
{
    if (buf_printf(out,
                   "<html lang=\"en\"><head><meta charset=\"utf-8\">"
                   "<title>%s</title></head><body><main><h1>%s</h1><p>",
                   kind->title, kind->title) < 0) {
        return -ENOBUFS;
    }
    int r = kind->page
                ? buf_printf(out, "The sandbox <b>%.*s</b> %s", (int)id.len, id.at, kind->page)
                : buf_printf(out, "%s", kind->message);
    if (r == 0 && names_port(error)) {
        r = buf_printf(out, " <b>%u</b>", port);
    }
    if (r < 0 || buf_printf(out, ".</p><p><small>") < 0 || put_html(out, req->authority) < 0) {
        return -ENOBUFS;
    }
    return buf_printf(out, "</small></p></main></body></html>");
}

static int json(struct buf *out, const struct edge *edge, enum edge_error error, struct str id,
                uint16_t port, const struct http_request *req)
{
    const struct kind *kind = &kinds[error];

    if (error == EDGE_ERROR_RESERVED) {
        return buf_printf(out, "{\"message\":\"%s\",\"path\":\"", kind->message) < 0 ||
                       put_json(out, req->path) < 0
                   ? -ENOBUFS
                   : buf_printf(out, "\",\"code\":%d}", kind->status);
    }
    if (buf_printf(out, "{\"sandboxId\":\"%.*s\",\"message\":\"%s", (int)id.len, id.at,
                   kind->message) < 0) {
        return -ENOBUFS;
    }
    if (names_port(error)) {
        return buf_printf(out, "\",\"port\":%u,\"code\":%d}", port, kind->status);
    }
    if (error == EDGE_ERROR_TOO_MANY) {
        return buf_printf(out, " (limit: %u)\",\"code\":%d,\"connectionLimit\":%u}",
                          edge->sandbox_max, kind->status, edge->sandbox_max);
    }
    return buf_printf(out, "\",\"code\":%d}", kind->status);
}

/* ---- the answers ---- */

enum { HEADERS_MAX = 3 };

/* readable: web pages may read the answer. The SDKs in browsers read why a port of ours did not
 * answer; errors of other ports are not readable. again: the same request may succeed later. */
static size_t headers_make(struct http_header out[HEADERS_MAX], bool readable, bool again)
{
    size_t n = 0;

    out[n++] = (struct http_header){STR("cache-control"), STR("no-store")};
    if (readable) {
        size_t cors_n = 0;
        const struct http_header *cors = cors_headers(CORS_EDGE, &cors_n);

        assert(cors_n == 1);
        out[n++] = cors[0];
    }
    if (again) {
        out[n++] = (struct http_header){STR("retry-after"), STR("1")};
    }
    return n;
}

void edge_fail(struct edge *edge, struct http_exchange *ex, enum edge_error error, struct str id,
               uint16_t port)
{
    const struct http_request *req = http_request(ex);
    const struct kind *kind = &kinds[error];
    bool html = wants_page(req);
    bool again = error == EDGE_ERROR_TOO_MANY || error == EDGE_ERROR_SHARE;
    struct http_header headers[HEADERS_MAX];
    size_t n = headers_make(headers, own_port_is(port), again);
    scoped_buf(text, ERROR_TEXT_MAX);

    edge->outcomes[error]++;
    int r =
        html ? page(&text, kind, error, id, port, req) : json(&text, edge, error, id, port, req);
    http_reply_with(ex, kind->status, headers, n,
                    html ? "text/html; charset=utf-8" : "application/json; charset=utf-8",
                    buf_at(&text), r < 0 ? 0 : buf_len(&text));
}

static void on_end(void *ctx, int error)
{
    (void)ctx, (void)error;
}

static const struct http_handler nothing_more = {.on_end = on_end};

void edge_refuse(struct edge *edge, struct http_exchange *ex, enum edge_error error, struct str id,
                 uint16_t port)
{
    http_accept(ex, &nothing_more, NULL);
    edge_fail(edge, ex, error, id, port);
}

void edge_refuse_text(struct http_exchange *ex, int status, const char *type, const char *text)
{
    struct http_header headers[HEADERS_MAX];
    size_t n = headers_make(headers, true, false);

    http_accept(ex, &nothing_more, NULL);
    http_reply_with(ex, status, headers, n, type, text, strlen(text));
}
