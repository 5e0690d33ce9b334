/* headers.c - the headers that the edge passes on, in both directions. */
#include <errno.h>
#include <string.h>

#include "lib/http/field_rules.h"
#include "serve/edge/internal.h"
#include "serve/web/cookie.h"
#include "wire/rejoin.h"

/* Written again here, or no longer needed: our side has answered an Expect. */
static const char *const rewritten[] = {
    "host",
    "expect",
    "cookie",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-atoll-csrf",
    REJOIN_HEADER,
    EXECUTION_HEADER,
};

/* An answer to a page of the dashboard is an answer of the dashboard's origin: a sandbox must not
 * change what the browser keeps for it. */
static const char *const of_origin[] = {
    "set-cookie",
    "clear-site-data",
    "strict-transport-security",
    "alt-svc",
    "nel",
    "report-to",
    "reporting-endpoints",
    "service-worker-allowed",
    "accept-ch",
    "critical-ch",
    "set-login",
    "use-as-dictionary",
    "secure-session-registration",
    "sec-session-registration",
    "x-content-type-options", /* written again */
};

static bool is_one_of(struct str name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (str_ieq(name, str_of(names[i]))) {
            return true;
        }
    }
    return false;
}

static bool is_rewritten(struct str name)
{
    return is_one_of(name, rewritten, countof(rewritten));
}

static bool pair_is_ours(struct str pair)
{
    return web_cookie_is_ours(str_trim((struct str){pair.at, str_find(pair, '=')}));
}

bool headers_of_dashboard(const struct http_request *req)
{
    if (http_header_get(req, "x-atoll-csrf").at) {
        return true;
    }
    for (size_t i = 0; i < req->headers_n; i++) {
        struct str rest = req->headers[i].value, pair;

        while (str_ieq(req->headers[i].name, STR("cookie")) && str_split(&rest, ';', &pair)) {
            if (pair_is_ours(pair)) {
                return true;
            }
        }
    }
    return false;
}

static int add(struct headers *out, struct str name, struct str value)
{
    if (out->n == EDGE_HEADERS_MAX) {
        return -ENOBUFS;
    }
    out->list[out->n++] = (struct http_header){name, value};
    return 0;
}

/* The values of all headers of that name, and then `last`, in one. */
static int join(struct buf *out, const struct http_request *req, const char *name,
                const char *between, struct str last)
{
    size_t start = buf_len(out);

    for (size_t i = 0; i <= req->headers_n; i++) {
        bool end = i == req->headers_n;
        struct str value = end ? last : req->headers[i].value;
        if (value.len == 0 || (!end && !str_ieq(req->headers[i].name, str_of(name)))) {
            continue;
        }
        if ((buf_len(out) > start && buf_append(out, between, strlen(between)) < 0) ||
            buf_append(out, value.at, value.len) < 0) {
            return -ENOBUFS;
        }
    }
    return 0;
}

/* Cuts the cookies of the dashboard out of those from `start` on: they are for no sandbox. */
static int cookies_cut(struct buf *out, size_t start)
{
    scoped_buf(kept, EDGE_HEADER_TEXT_MAX);
    struct str rest = str_skip(buf_str(out), start), pair;
    int r = 0;

    while (r == 0 && rest.len > 0 && str_split(&rest, ';', &pair)) {
        if (!pair_is_ours(pair) && str_trim(pair).len > 0) {
            r = buf_len(&kept) > 0 ? buf_append(&kept, "; ", 2) : 0;
            r = r < 0 ? r : buf_append(&kept, str_trim(pair).at, str_trim(pair).len);
        }
    }
    out->end = out->start + start;
    return r < 0 ? r : buf_append(out, buf_at(&kept), buf_len(&kept));
}

/* HTTP/2 sends a cookie in pieces; HTTP/1.1 knows one header only. */
static int add_joined(struct headers *out, const struct http_request *req)
{
    if (join(&out->text, req, "x-forwarded-for", ", ", req->peer) < 0) {
        return -ENOBUFS;
    }
    size_t middle = buf_len(&out->text);
    if (join(&out->text, req, "cookie", "; ", (struct str){NULL, 0}) < 0 ||
        (headers_of_dashboard(req) && cookies_cut(&out->text, middle) < 0)) {
        return -ENOBUFS;
    }
    struct str all = buf_str(&out->text);
    struct str peers = {all.at, middle}, cookie = str_skip(all, middle);
    if (peers.len && add(out, STR("x-forwarded-for"), peers) < 0) {
        return -ENOBUFS;
    }
    return cookie.len ? add(out, STR("cookie"), cookie) : 0;
}

void headers_fini(struct headers *headers)
{
    buf_fini(&headers->text);
}

/* "application/grpc" and "application/grpc+proto", but not "application/grpc-web". */
bool headers_is_grpc(const struct http_request *req)
{
    static const char type[] = "application/grpc";
    struct str given = http_header_get(req, "content-type");
    size_t len = sizeof(type) - 1;

    return req->multiplexed && given.len >= len &&
           str_ieq((struct str){given.at, len}, str_of(type)) &&
           (given.len == len || given.at[len] == '+' || given.at[len] == ';');
}

int headers_add(struct headers *out, struct str name, struct str value)
{
    return add(out, name, value);
}

void headers_drop(struct headers *out, const char *name)
{
    size_t kept = 0;

    for (size_t i = 0; i < out->n; i++) {
        if (!str_ieq(out->list[i].name, str_of(name))) {
            out->list[kept++] = out->list[i];
        }
    }
    out->n = kept;
}

int headers_request(struct headers *out, const struct http_request *req, struct str host)
{
    int r = 0;

    out->n = 0;
    buf_init(&out->text, EDGE_HEADER_TEXT_MAX);
    r = add(out, STR("Host"), host.len ? host : req->authority); /* as old servers want it */
    for (size_t i = 0; i < req->headers_n && r == 0; i++) {
        struct str name = req->headers[i].name;
        if (!is_rewritten(name) && !field_is_hop_by_hop(name, req->headers, req->headers_n)) {
            r = add(out, name, req->headers[i].value);
        }
    }
    if (r < 0 || add_joined(out, req) < 0 ||
        add(out, STR("x-forwarded-host"), req->authority) < 0 ||
        add(out, STR("x-forwarded-proto"), req->scheme) < 0) {
        return -ENOBUFS;
    }
    if (headers_is_grpc(req)) {
        return add(out, STR("te"), STR("trailers")); /* without it some servers do not answer */
    }
    if (!req->upgrade) {
        return 0;
    }
    r = add(out, STR("connection"), STR("Upgrade"));
    return r < 0 ? r : add(out, STR("upgrade"), http_header_get(req, "upgrade"));
}

static bool sets_ours(const struct http_header *header)
{
    return str_ieq(header->name, STR("set-cookie")) && pair_is_ours(header->value);
}

/* A PDF keeps its origin: the browser's viewer does not work without, and scripts in a PDF cannot
 * use it. If there are several Content-Type headers, all must say PDF, because a browser may take
 * any of them. */
static bool is_pdf(const struct http_header *headers, size_t n)
{
    bool found = false;

    for (size_t i = 0; i < n; i++) {
        if (str_ieq(headers[i].name, STR("content-type"))) {
            if (!str_ieq(str_trim(headers[i].value), STR("application/pdf"))) {
                return false;
            }
            found = true;
        }
    }
    return found;
}

/* Should a browser show the answer all the same, as it does with a signed link to a file, then as a
 * document of no origin: no script runs, and nothing of the dashboard can be read. */
static void add_no_origin(struct headers *out, const struct http_header *headers, size_t n)
{
    (void)!add(out, STR("x-content-type-options"), STR("nosniff"));
    if (!is_pdf(headers, n)) {
        (void)!add(out, STR("content-security-policy"), STR("sandbox"));
    }
}

void headers_response(struct headers *out, const struct http_header *headers, size_t n, bool tunnel,
                      bool of_dashboard)
{
    out->n = 0;
    out->text = (struct buf){0};
    if (of_dashboard && !tunnel) {
        add_no_origin(out, headers, n); /* first: there is room for these */
    }
    for (size_t i = 0; i < n; i++) {
        struct str name = headers[i].name;
        bool upgrade = tunnel && str_ieq(name, STR("upgrade"));
        if (sets_ours(&headers[i]) ||
            (of_dashboard && is_one_of(name, of_origin, countof(of_origin)))) {
            continue;
        }
        if (upgrade || !field_is_hop_by_hop(name, headers, n)) {
            (void)!add(out, name, headers[i].value); /* the upstream's limit is below ours */
        }
    }
}
