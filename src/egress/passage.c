/* passage.c - one request of an intercepted connection.
 *
 * The filled-in values exist in this process alone, and only while a head is put together: they go
 * to the server over a connection that was verified, and their memory is wiped.
 */
#include "egress/passage.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/alloc.h"
#include "http/carry.h"
#include "http/forward.h"

enum {
    VALUES_BYTES_MAX = 64 * 1024, /* of all headers that a rule sets, filled in */
    REFUSAL_BYTES = 400,
    PATH_LOGGED_BYTES = 512,
};

struct passage {
    struct passage *prev, *next;
    struct intercept *of;
    struct carry carry;
    bool waiting; /* for a connection */
    bool reused;  /* the one it has has served others before */
};

/* ---- what the log says ---- */

static void passage_log(const struct passage *p, int status, const char *why)
{
    const struct http_request *req = p->carry.ex ? http_request(p->carry.ex) : NULL;
    const struct transform *rule = transforms_find(p->of->net->transforms, str_of(p->of->name));
    const struct net_request request = {
        .method = req ? req->method : STR(""),
        .host = str_of(p->of->name),
        .path = req ? req->path : STR(""),
        .status = status,
        .rule = rule ? rule->domain : "",
        .why = why,
    };

    net_request_log(p->of->net, &request);
}

/* ---- answers of our own ---- */

static void passage_refuse(struct passage *p, int status, const char *fmt, ...) printf_like(3, 4);

static void passage_refuse(struct passage *p, int status, const char *fmt, ...)
{
    static const struct http_header own = {STR("x-atoll-egress"), STR("refused")};
    char message[REFUSAL_BYTES];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    p->waiting = false;
    passage_log(p, status, message);
    if (!carry_may_answer(&p->carry)) {
        return;
    }
    json_t *body = json_pack("{s:i,s:s}", "code", status, "message", message);
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    struct str said = str_of(text ? text : "{}");
    http_reply_with(p->carry.ex, status, &own, 1, "application/json", said.at, said.len);
    free(text);
    json_decref(body);
}

/* ---- the head that goes out ---- */

struct outgoing {
    struct http_header list[INTERCEPT_HEADERS_MAX];
    size_t n;
    struct buf values;
};

static void outgoing_fini(struct outgoing *out)
{
    if (out->values.data) {
        explicit_bzero(out->values.data, out->values.cap);
    }
    buf_fini(&out->values);
}

static int add(struct outgoing *out, struct str name, struct str value, struct err *err)
{
    if (out->n == INTERCEPT_HEADERS_MAX) {
        return err_set(err, EMSGSIZE, "the request has too many headers");
    }
    out->list[out->n++] = (struct http_header){name, value};
    return 0;
}

/* Those of the request, without what is about its connection, or what the rule sets. */
static int add_given(struct outgoing *out, const struct http_request *req,
                     const struct transform *rule, struct err *err)
{
    int r = add(out, STR("host"), req->authority, err);

    for (size_t i = 0; i < req->headers_n && r == 0; i++) {
        struct str name = req->headers[i].name;
        bool ours = str_ieq(name, STR("host")) || str_ieq(name, STR("expect"));
        if (!ours && !transform_sets(rule, name) &&
            !forward_drops(name, req->headers, req->headers_n)) {
            r = add(out, name, req->headers[i].value, err);
        }
    }
    if (r == 0 && req->upgrade) {
        r = add(out, STR("connection"), STR("Upgrade"), err);
        r = r < 0 ? r : add(out, STR("upgrade"), http_header_get(req, "upgrade"), err);
    }
    return r;
}

static int fill(void *ctx, struct str what, struct buf *out, struct err *err)
{
    struct passage *p = ctx;
    const struct egress *egress = p->of->net->egress;

    return egress->fill ? egress->fill(egress->ctx, p->of->net->id, what, out, err)
                        : err_set(err, ENOENT, "there are no secrets here");
}

/* The buffer has its whole room from the start: a value that has been put there does not move. */
static int add_set(struct outgoing *out, struct passage *p, const struct transform *rule,
                   struct err *err)
{
    char *at;
    int r = buf_reserve(&out->values, VALUES_BYTES_MAX, &at);

    for (size_t i = 0; i < rule->headers_n && r == 0; i++) {
        size_t start = buf_len(&out->values);
        r = transform_value(&rule->headers[i], fill, p, &out->values, err);
        if (r == 0) {
            r = add(out, str_of(rule->headers[i].name), str_skip(buf_str(&out->values), start),
                    err);
        }
    }
    return r;
}

static int outgoing_make(struct outgoing *out, struct passage *p, const struct transform *rule,
                         struct err *err)
{
    out->n = 0;
    buf_init(&out->values, VALUES_BYTES_MAX);
    const struct http_request *req = http_request(p->carry.ex);
    int r = add_given(out, req, rule, err);

    /* Between two ends of HTTP/2 trailers pass, and gRPC wants the word for it. */
    if (r == 0 && p->of->server == SERVER_HTTP2 &&
        str_ieq(http_header_get(req, "te"), STR("trailers"))) {
        r = add(out, STR("te"), STR("trailers"), err);
    }
    return r < 0 ? r : add_set(out, p, rule, err);
}

static void passage_send(struct passage *p, struct upstream *up)
{
    const struct transform *rule = transforms_find(p->of->net->transforms, str_of(p->of->name));
    scoped(outgoing_fini) struct outgoing out = {0};
    struct err err;

    p->waiting = false;
    int r = rule ? outgoing_make(&out, p, rule, &err)
                 : err_set(&err, ENOENT, "the rule for this name has been taken away");
    if (r == 0 && carry_send(&p->carry, up, out.list, out.n) == 0) {
        return;
    }
    upstream_close(up);
    passage_refuse(p, 502, "%s", r < 0 ? err.msg : "the request cannot be passed on");
}

/* ---- waiting for a connection ---- */

static void passage_connect(struct passage *p)
{
    struct intercept *of = p->of;
    struct upstream *up = intercept_take(of, http_request(p->carry.ex)->upgrade);
    unsigned waiting = 0;
    const struct passage *other;

    if (up) {
        p->reused = true;
        passage_send(p, up);
        return;
    }
    p->waiting = true;
    DL_FOREACH (of->passages, other) {
        waiting += other->waiting;
    }
    intercept_reach(of, waiting);
}

void passages_serve(struct intercept *of)
{
    struct passage *p, *next;

    DL_FOREACH_SAFE (of->passages, p, next) {
        if (p->waiting && p->carry.ex) {
            struct upstream *up = intercept_take(of, http_request(p->carry.ex)->upgrade);
            if (!up) {
                passage_connect(p);
                return;
            }
            p->reused = false;
            passage_send(p, up);
        }
    }
}

void passages_fail(struct intercept *of, const char *why)
{
    struct passage *p, *next;

    DL_FOREACH_SAFE (of->passages, p, next) {
        if (p->waiting) {
            passage_refuse(p, 502, "%s cannot be reached: %s", of->name, why);
        }
    }
}

/* ---- the answer ---- */

static void on_response(void *ctx, int status, const struct http_header *headers, size_t n,
                        int64_t content_length)
{
    struct passage *p = ctx;
    struct http_header list[HTTP_HEADERS_MAX];
    size_t kept = 0;

    for (size_t i = 0; i < n && kept < HTTP_HEADERS_MAX; i++) {
        bool upgrade = status == 101 && str_ieq(headers[i].name, STR("upgrade"));
        if (upgrade || !forward_drops(headers[i].name, headers, n)) {
            list[kept++] = headers[i];
        }
    }
    passage_log(p, status, NULL);
    carry_respond(&p->carry, status, list, kept, content_length);
}

static void on_upstream_end(void *ctx, struct upstream *up, int error)
{
    struct passage *p = ctx;

    if (error == 0 && p->carry.request_finished && upstream_reusable(up)) {
        intercept_keep(p->of, up);
    } else {
        upstream_close(up);
    }
    if (p->carry.ex && error < 0 && p->reused && !p->carry.answered && !p->carry.body_taken) {
        p->reused = false;
        passage_connect(p);
    } else if (p->carry.ex && !p->carry.answered) {
        passage_refuse(p, 502, "%s broke off the request", p->of->name);
    }
    intercept_tidy(p->of);
}

static void passage_free(struct passage *p)
{
    DL_DELETE(p->of->passages, p);
    carry_fini(&p->carry);
    free(p);
}

static void on_over(void *ctx)
{
    struct passage *p = ctx;
    struct intercept *of = p->of;

    passage_free(p);
    intercept_tidy(of);
}

static const struct carry_events carry_events = {
    .on_response = on_response, .on_upstream_end = on_upstream_end, .on_over = on_over};

void passages_drop(struct intercept *of)
{
    while (of->passages) {
        passage_free(of->passages);
    }
}

/* ---- the beginning ---- */

/* The name of an authority, without its port. */
static struct str host_of(struct str authority)
{
    struct str host = {authority.at, str_find(authority, ':')};

    if (host.len > 1 && host.at[host.len - 1] == '.') {
        host.len--;
    }
    return host;
}

void passage_start(struct intercept *of, struct http_exchange *ex)
{
    const struct http_request *req = http_request(ex);
    const struct transform *rule = transforms_find(of->net->transforms, str_of(of->name));
    struct passage *p = xnew(struct passage);

    p->of = of;
    DL_APPEND(of->passages, p);
    carry_accept(&p->carry, ex, &carry_events, p);
    of->http2_asked = of->http2_asked || req->multiplexed;
    if (!str_ieq(host_of(req->authority), host_of(str_of(of->name)))) {
        net_refused(of->net, &of->asked, host_of(req->authority), "TLS and Host name two servers");
        passage_refuse(p, 421, "this connection is to %s, and the request is for another host",
                       of->name);
    } else if (!rule) {
        passage_refuse(p, 502, "the rule for this name has been taken away");
    } else if (!of->secure && transform_fills(rule)) {
        passage_refuse(p, 403, "a secret is not sent over plain HTTP: use https");
    } else {
        passage_connect(p);
    }
}
