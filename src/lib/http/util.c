/* util.c - conveniences over an exchange: look-ups, whole answers, whole bodies. */
#include <assert.h>
#include <errno.h>

#include "lib/base/alloc.h"
#include "lib/base/encode.h"
#include "lib/http/internal.h"

enum {
    REPLY_HEADERS_MAX = 32,
    QUERY_NAME_BYTES_MAX = 1024,
};

struct str http_header_get(const struct http_request *req, const char *name)
{
    struct str wanted = str_of(name);

    for (size_t i = 0; i < req->headers_n; i++) {
        if (str_ieq(req->headers[i].name, wanted)) {
            return req->headers[i].value;
        }
    }
    return (struct str){NULL, 0};
}

int http_query_get(struct str query, const char *name, struct buf *out)
{
    struct str wanted = str_of(name);
    struct str pair;

    while (str_split(&query, '&', &pair)) {
        scoped_buf(key, QUERY_NAME_BYTES_MAX);
        size_t n = str_find(pair, '=');
        int r = percent_decode(&key, (struct str){pair.at, n}, true);
        if (r < 0 || !str_eq(buf_str(&key), wanted)) {
            continue;
        }
        r = n < pair.len ? percent_decode(out, str_skip(pair, n + 1), true) : 0;
        return r < 0 ? r : 1;
    }
    return 0;
}

void http_reply_with(struct http_exchange *ex, int status, const struct http_header *headers,
                     size_t n, const char *type, const void *body, size_t len)
{
    struct http_header all[REPLY_HEADERS_MAX];
    size_t all_n = 0;

    assert(n < REPLY_HEADERS_MAX && (type || len == 0));
    if (type) {
        all[all_n++] = (struct http_header){STR("content-type"), str_of(type)};
    }
    for (size_t i = 0; i < n; i++) {
        all[all_n++] = headers[i];
    }
    http_respond(ex, status, all, all_n, (int64_t)len);
    http_write(ex, body, len);
    http_finish(ex);
}

void http_reply(struct http_exchange *ex, int status, const char *type, const void *body,
                size_t len)
{
    http_reply_with(ex, status, NULL, 0, type, body, len);
}

static void answer_end(void *ctx, int error)
{
    (void)ctx;
    (void)error; /* a client that left before its answer needs nothing */
}

void http_answer(struct http_exchange *ex, int status, const char *type, const void *body,
                 size_t len)
{
    static const struct http_handler handler = {.on_end = answer_end};

    http_accept(ex, &handler, NULL);
    http_reply(ex, status, type, body, len);
}

/* ---- gathering a body ---- */

struct gather {
    struct http_exchange *ex;
    struct buf body;
    bool told; /* done was called */
    void (*done)(void *ctx, struct http_exchange *ex, int error, struct str body);
    void (*gone)(void *ctx);
    void *ctx;
};

static void gather_tell(struct gather *g, int error)
{
    struct str body = error ? (struct str){"", 0} : buf_str(&g->body);

    g->told = true;
    g->done(g->ctx, g->ex, error, body);
    buf_fini(&g->body);
}

static void gather_body(void *ctx, const void *data, size_t len)
{
    struct gather *g = ctx;

    if (g->told) {
        return;
    }
    if (buf_append(&g->body, data, len) < 0) {
        gather_tell(g, -EMSGSIZE);
        return;
    }
    http_credit(g->ex, len);
}

static void gather_body_end(void *ctx)
{
    struct gather *g = ctx;

    if (!g->told) {
        gather_tell(g, 0);
    }
}

static void gather_end(void *ctx, int error)
{
    struct gather *g = ctx;
    /* The exchange was over before the answer: `done` has been called, and its ctx may be freed. */
    bool answered = g->ex->answered;

    if (!g->told) {
        gather_tell(g, error ? error : -ECONNRESET);
    } else if (!answered && g->gone) {
        g->gone(g->ctx);
    }
    buf_fini(&g->body);
    free(g);
}

static const struct http_handler gather_handler = {
    .on_body = gather_body,
    .on_body_end = gather_body_end,
    .on_end = gather_end,
};

static const struct http_handler watched_handler = {
    .needs_peer = true,
    .on_body = gather_body,
    .on_body_end = gather_body_end,
    .on_end = gather_end,
};

static void gather_begin(const struct gather *plan, size_t max, const struct http_handler *handler)
{
    struct gather *g = xnew(struct gather);
    struct http_exchange *ex = plan->ex;

    *g = *plan;
    buf_init(&g->body, max ? max : 1);
    http_accept(ex, handler, g);
    int64_t length = ex->request.content_length;
    if (max == 0 ? length != 0 : length > 0 && (uint64_t)length > max) {
        gather_tell(g, -EMSGSIZE);
    } else if (length != 0) {
        http_credit(ex, HTTP_WINDOW_BYTES);
    }
}

void http_gather(struct http_exchange *ex, size_t max,
                 void (*done)(void *ctx, struct http_exchange *ex, int error, struct str body),
                 void (*gone)(void *ctx), void *ctx)
{
    struct gather plan = {.ex = ex, .done = done, .gone = gone, .ctx = ctx};

    gather_begin(&plan, max, &gather_handler);
}

void http_gather_watched(struct http_exchange *ex, size_t max,
                         void (*done)(void *ctx, struct http_exchange *ex, int error,
                                      struct str body),
                         void (*gone)(void *ctx), void *ctx)
{
    struct gather plan = {.ex = ex, .done = done, .gone = gone, .ctx = ctx};

    gather_begin(&plan, max, &watched_handler);
}

bool http_accepts(struct str accept, const char *type)
{
    struct str one, wanted = str_of(type);
    size_t slash = str_find(wanted, '/');

    while (str_split(&accept, ',', &one)) {
        struct str range = str_trim((struct str){one.at, str_find(one, ';')});
        struct str any = {wanted.at, slash + 1};
        if (str_ieq(range, wanted) || str_eq(range, STR("*/*")) ||
            (range.len == any.len + 1 && str_ends(range, STR("*")) &&
             str_ieq((struct str){range.at, any.len}, any))) {
            return true;
        }
    }
    return false;
}

const char *http_reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {
        {100, "Continue"},
        {101, "Switching Protocols"},
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {203, "Non-Authoritative Information"},
        {204, "No Content"},
        {205, "Reset Content"},
        {206, "Partial Content"},
        {207, "Multi-Status"},
        {300, "Multiple Choices"},
        {301, "Moved Permanently"},
        {302, "Found"},
        {303, "See Other"},
        {304, "Not Modified"},
        {307, "Temporary Redirect"},
        {308, "Permanent Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {402, "Payment Required"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {407, "Proxy Authentication Required"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {411, "Length Required"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {416, "Range Not Satisfiable"},
        {417, "Expectation Failed"},
        {418, "I'm a teapot"},
        {421, "Misdirected Request"},
        {422, "Unprocessable Content"},
        {423, "Locked"},
        {424, "Failed Dependency"},
        {425, "Too Early"},
        {426, "Upgrade Required"},
        {428, "Precondition Required"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {451, "Unavailable For Legal Reasons"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
        {507, "Insufficient Storage"},
        {508, "Loop Detected"},
        {511, "Network Authentication Required"},
    };

    for (size_t i = 0; i < countof(reasons); i++) {
        if (reasons[i].status == status) {
            return reasons[i].reason;
        }
    }
    return "Unknown"; /* any three digits are a status; the words are for people */
}
