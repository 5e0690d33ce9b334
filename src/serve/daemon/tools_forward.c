#include "serve/daemon/tools_forward.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/base/json.h"
#include "lib/base/log.h"
#include "lib/base/unix_socket.h"
#include "lib/http/field_rules.h"
#include "lib/http/forward.h"
#include "serve/api/api.h"
#include "wire/tools.h"

enum { ADDED = 5 }; /* headers that a request gets here */

struct head {
    struct http_header list[HTTP_HEADERS_MAX + ADDED];
    size_t n;
};

/* ---- failures ---- */

static void fail(struct http_exchange *ex, int status, const char *sentence)
{
    json_t *body = json_pack("{si so}", "code", status, "message", json_sentence(sentence));
    char *text = json_dumps(body, JSON_COMPACT);
    const struct http_header headers[] = {{STR("Retry-After"), STR("1")}};

    http_reply_with(ex, status, headers, status >= 500, "application/json; charset=utf-8", text,
                    text ? strlen(text) : 0);
    free(text);
    json_decref(body);
}

static void on_refused(void *ctx, struct http_exchange *ex, int error, struct str body)
{
    (void)body;
    if (error == 0 || error == -EMSGSIZE) {
        fail(ex, 503, ctx);
    }
}

static void on_read_only(void *ctx, struct http_exchange *ex, int error, struct str body)
{
    (void)ctx, (void)body;
    if (error == 0 || error == -EMSGSIZE) {
        fail(ex, 403, "this API key is read-only: it may list the tools, and call none");
    }
}

void tools_refuse(struct http_exchange *ex, const char *sentence)
{
    http_gather(ex, 0, on_refused, NULL, (void *)(uintptr_t)sentence);
}

/* ---- the answer ---- */

static void on_response(void *ctx, int status, const struct http_header *headers, size_t n,
                        int64_t content_length)
{
    struct forward *forward = ctx;
    struct head out = {.n = 0};

    for (size_t i = 0; i < n && out.n < countof(out.list); i++) {
        if (!field_is_hop_by_hop(headers[i].name, headers, n)) {
            out.list[out.n++] = headers[i];
        }
    }
    forward_respond(forward, status, out.list, out.n, content_length);
}

static void on_upstream_end(void *ctx, struct upstream *up, int error)
{
    struct forward *forward = ctx;

    (void)error;
    upstream_close(up);
    if (!forward->answer_ended && forward_may_answer(forward)) {
        fail(forward->ex, 502,
             "the tools ended before they had answered, and are being started again: what was"
             " under way may be half done");
    }
}

static void on_over(void *ctx)
{
    struct forward *forward = ctx;

    forward_fini(forward);
    free(forward);
}

static const struct forward_events forward_events = {
    .on_response = on_response, .on_upstream_end = on_upstream_end, .on_over = on_over};

/* ---- the request ---- */

/* The daemon has authenticated the caller: the client's credentials are not passed to the tools. */
static bool is_kept_back(struct str name)
{
    static const char *const names[] = {"host",          "expect",    "cookie",
                                        "authorization", "x-api-key", "x-admin-token"};

    for (size_t i = 0; i < countof(names); i++) {
        if (str_ieq(name, str_of(names[i]))) {
            return true;
        }
    }
    return str_starts(name, STR(TOOLS_HEADERS)); /* names are in lower case */
}

static void head_add(struct head *head, const char *name, struct str value)
{
    head->list[head->n++] = (struct http_header){str_of(name), value};
}

/* A read-only key may see which tools there are. What a tool would do is not known before it runs,
 * so such a key calls none. */
static bool is_listing(const struct http_request *req)
{
    return str_eq(req->method, STR("GET")) && !str_eq(req->path, STR(TOOLS_PATH_MCP));
}

/* The caller. r < 0: there is none, and `why` holds the sentence as long as the head is used. */
struct caller {
    const char *team;
    struct str key;
    bool read_only;
    int r;
    struct err why;
};

static void head_fill(struct head *head, const struct http_request *req,
                      const struct caller *caller)
{
    head_add(head, "host", req->authority);
    for (size_t i = 0; i < req->headers_n && i < HTTP_HEADERS_MAX; i++) {
        struct str name = req->headers[i].name;

        if (!is_kept_back(name) && !field_is_hop_by_hop(name, req->headers, req->headers_n)) {
            head->list[head->n++] = req->headers[i];
        }
    }
    if (!http_header_get(req, "x-forwarded-proto").at) {
        head_add(head, "x-forwarded-proto", req->scheme);
    }
    if (caller->r < 0) {
        head_add(head, TOOLS_HEADER_REFUSED, str_of(caller->why.msg));
    } else {
        head_add(head, TOOLS_HEADER_TEAM, str_of(caller->team));
        head_add(head, TOOLS_HEADER_KEY, caller->key);
    }
}

void tools_forward(const struct tools_forward *way, struct http_exchange *ex)
{
    struct upstream *up = NULL;
    struct head head = {.n = 0};
    const struct http_request *req = http_request(ex);
    struct caller who = {0};
    struct err err;

    who.r = api_authenticate(way->api, req, &who.team, &who.key, &who.read_only, &who.why);
    if (who.r == 0 && who.read_only && !is_listing(req)) {
        http_gather(ex, 0, on_read_only, NULL, NULL);
        return;
    }
    int fd = unix_connect(way->socket, &err);
    if (fd < 0 || upstream_new(way->loop, fd, &up, &err) < 0) {
        log_warn("reach the tools: %s", err.msg);
        tools_refuse(ex, "the tools cannot be reached at this moment: try again");
        return;
    }
    struct forward *forward = xnew(struct forward);
    head_fill(&head, req, &who);
    forward_accept(forward, ex, &forward_events, forward);
    if (forward_send(forward, up, head.list, head.n) < 0) {
        upstream_close(up);
        if (forward_may_answer(forward)) {
            http_reply(ex, 414, NULL, NULL, 0);
        }
    }
}
