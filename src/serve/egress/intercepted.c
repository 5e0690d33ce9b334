/* intercepted.c - one request of an intercepted connection: to a name that has a rule, to a shell,
 * or which sandbox this is. */
#include "serve/egress/intercepted.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/json.h"
#include "lib/http/field_rules.h"
#include "lib/http/forward.h"
#include "lib/http/status.h"
#include "serve/egress/outgoing_head.h"
#include "serve/egress/shell_call.h"

enum {
    REFUSAL_BYTES = 400,
    GUARDED_BYTES_MAX = 16 * 1024 * 1024, /* of a piece of a body: marks are longer than keys */
};

struct intercepted {
    struct intercepted *prev, *next;
    struct intercept *of;
    struct forward forward;
    struct shell_call *shell; /* NULL: a rule's */
    bool waiting;             /* for a connection */
    bool reused;              /* its connection has served other requests before */
};

/* ---- log lines ---- */

static const struct transform *intercepted_rule(const struct intercepted *p)
{
    return transforms_find(p->of->net->transforms, str_of(p->of->name));
}

static void intercepted_log(const struct intercepted *p, int status, const char *why)
{
    const struct http_request *req = p->forward.ex ? http_request(p->forward.ex) : NULL;
    const struct transform *rule = intercepted_rule(p);
    const bool shells = p->of->shells || p->of->above;
    struct str name = STR(""), path;

    if (shells && req) {
        shell_cut(req->path, &name, &path);
    }
    const struct net_request request = {
        .method = req ? req->method : STR(""),
        .host = shells ? STR(SHELL_HOST) : str_of(p->of->name),
        .path = req ? req->path : STR(""),
        .status = status,
        .rule = rule ? rule->domain : "",
        .why = why,
        .shell = shells ? name : (struct str){0},
        .took_ms = p->shell ? shell_call_ms(p->shell) : 0,
    };

    net_request_log(p->of->net, &request);
}

/* ---- answers of our own ---- */

static void intercepted_refuse(struct intercepted *p, int status, const char *fmt, ...)
    printf_like(3, 4);

static void intercepted_refuse(struct intercepted *p, int status, const char *fmt, ...)
{
    static const struct http_header own = {STR("x-atoll-egress"), STR("refused")};
    char message[REFUSAL_BYTES];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    p->waiting = false;
    intercepted_log(p, status, message);
    if (!forward_may_answer(&p->forward)) {
        return;
    }
    json_t *body = json_pack("{s:i,s:o}", "code", status, "message", json_sentence(message));
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    struct str said = str_of(text ? text : "{}");
    http_reply_with(p->forward.ex, status, &own, 1, "application/json", said.at, said.len);
    free(text);
    json_decref(body);
}

/* ---- the head that goes out ---- */

static bool rule_sets(const void *ctx, struct str name)
{
    return transform_sets(ctx, name);
}

static int add_upgrade(struct outgoing_head *out, const struct http_request *req, struct err *err)
{
    int r = outgoing_head_add(out, STR("connection"), STR("Upgrade"), err);

    return r < 0 ? r : outgoing_head_add(out, STR("upgrade"), http_header_get(req, "upgrade"), err);
}

static int fill(void *ctx, struct str what, struct buf *out, struct err *err)
{
    struct intercepted *p = ctx;
    const struct egress *egress = p->of->net->egress;

    return egress->fill ? egress->fill(egress->ctx, p->of->net->id, what, out, err)
                        : err_set(err, ENOENT, "there are no secrets here");
}

static int add_set(struct outgoing_head *out, struct intercepted *p, const struct transform *rule,
                   struct err *err)
{
    int r = 0;

    for (size_t i = 0; i < rule->headers_n && r == 0; i++) {
        size_t start = buf_len(&out->values);
        r = transform_value(&rule->headers[i], fill, p, &out->values, err);
        if (r == 0) {
            r = outgoing_head_add(out, str_of(rule->headers[i].name),
                                  str_skip(buf_str(&out->values), start), err);
        }
    }
    return r;
}

static int head_make(struct outgoing_head *out, struct intercepted *p, const struct transform *rule,
                     struct err *err)
{
    const struct http_request *req = http_request(p->forward.ex);
    int r = outgoing_head_add_given(out, req, req->authority, rule_sets, rule, err);

    if (r == 0 && req->upgrade) {
        r = add_upgrade(out, req, err);
    }
    /* Between two HTTP/2 ends trailers pass, and gRPC requires this header for them. */
    if (r == 0 && p->of->server == SERVER_HTTP2 &&
        str_ieq(http_header_get(req, "te"), STR("trailers"))) {
        r = outgoing_head_add(out, STR("te"), STR("trailers"), err);
    }
    return r < 0 ? r : add_set(out, p, rule, err);
}

static int send_by_rule(struct intercepted *p, struct upstream *up, struct outgoing_head *out,
                        struct err *err)
{
    const struct transform *rule = intercepted_rule(p);
    int r = rule ? head_make(out, p, rule, err)
                 : err_set(err, ENOENT, "the rule for this name was removed");

    if (r == 0 && forward_send(&p->forward, up, out->list, out->n) < 0) {
        r = err_set(err, EMSGSIZE, "the request cannot be passed on");
    }
    return r;
}

static int send_to_shell(struct intercepted *p, struct upstream *up, struct outgoing_head *out,
                         struct err *err)
{
    const struct intercept *of = p->of;
    const struct shell_origin origin = {of->name, of->to.port, of->secure};
    scoped_buf(target, HTTP_TARGET_BYTES_MAX);

    int r = shell_call_head(p->shell, http_request(p->forward.ex), origin, out, &target, err);
    if (r == 0) {
        forward_send_to(&p->forward, up, buf_str(&target), out->list, out->n);
    }
    if (target.data) {
        explicit_bzero(target.data, target.cap); /* the query may forward the key */
    }
    return r;
}

/* A refusal of a shell is the program's error (4xx); an incomplete rule is not (502). */
static int refusal_status(const struct intercepted *p, int error)
{
    bool by_shell = p->of->shells || p->of->above;

    return by_shell ? status_of_errno(STATUS_SHELL, error) : 502;
}

static void intercepted_send(struct intercepted *p, struct upstream *up)
{
    scoped_outgoing_head(out);
    struct err err;
    int r = outgoing_head_init(&out, &err);

    p->waiting = false;
    if (r == 0) {
        r = p->shell ? send_to_shell(p, up, &out, &err) : send_by_rule(p, up, &out, &err);
    }
    if (r < 0) {
        upstream_close(up);
        intercepted_refuse(p, refusal_status(p, r), "%s", err.msg);
    }
}

/* ---- waiting for a connection ---- */

static void intercepted_connect(struct intercepted *p)
{
    struct intercept *of = p->of;
    struct upstream *up = intercept_take(of, http_request(p->forward.ex)->upgrade);
    unsigned waiting = 0;
    const struct intercepted *other;

    if (up) {
        p->reused = true;
        intercepted_send(p, up);
        return;
    }
    p->waiting = true;
    DL_FOREACH (of->requests, other) {
        waiting += other->waiting;
    }
    intercept_dial(of, waiting);
}

void intercepted_send_waiting(struct intercept *of)
{
    struct intercepted *p, *next;

    DL_FOREACH_SAFE (of->requests, p, next) {
        if (p->waiting && p->forward.ex) {
            struct upstream *up = intercept_take(of, http_request(p->forward.ex)->upgrade);
            if (!up) {
                intercepted_connect(p);
                return;
            }
            p->reused = false;
            intercepted_send(p, up);
        }
    }
}

void intercepted_fail_waiting(struct intercept *of, const char *why)
{
    struct intercepted *p, *next;

    DL_FOREACH_SAFE (of->requests, p, next) {
        if (p->waiting) {
            intercepted_refuse(p, 502, "%s cannot be reached: %s", ours(of->name), ours(why));
        }
    }
}

/* ---- the answer ---- */

static void respond_by_rule(struct intercepted *p, int status, const struct http_header *headers,
                            size_t n, int64_t content_length)
{
    struct http_header list[HTTP_HEADERS_MAX];
    size_t kept = 0;

    for (size_t i = 0; i < n && kept < HTTP_HEADERS_MAX; i++) {
        bool upgrade = status == 101 && str_ieq(headers[i].name, STR("upgrade"));
        if (upgrade || !field_is_hop_by_hop(headers[i].name, headers, n)) {
            list[kept++] = headers[i];
        }
    }
    intercepted_log(p, status, NULL);
    forward_respond(&p->forward, status, list, kept, content_length);
}

/* How long a guarded body will be is not known before its end. */
static void respond_of_shell(struct intercepted *p, int status, const struct http_header *headers,
                             size_t n, int64_t content_length)
{
    bool bodiless = content_length == 0 || str_eq(http_request(p->forward.ex)->method, STR("HEAD"));
    scoped_outgoing_head(out);
    struct err err;
    int r = outgoing_head_init(&out, &err);

    r = r < 0 ? r : shell_call_answer(p->shell, status, headers, n, &out, &err);
    if (r < 0) {
        intercepted_refuse(p, 502, "%s", err.msg);
        upstream_close(move_ptr(&p->forward.up));
        return;
    }
    intercepted_log(p, status, NULL);
    forward_respond(&p->forward, status, out.list, out.n, bodiless ? content_length : -1);
}

static void on_response(void *ctx, int status, const struct http_header *headers, size_t n,
                        int64_t content_length)
{
    struct intercepted *p = ctx;

    if (p->shell) {
        respond_of_shell(p, status, headers, n, content_length);
    } else {
        respond_by_rule(p, status, headers, n, content_length);
    }
}

/* A body that cannot be searched for the key is not passed on. */
static void write_guarded(struct intercepted *p, int r, const struct buf *out)
{
    if (r == 0) {
        http_write(p->forward.ex, buf_at(out), buf_len(out));
    } else {
        (void)forward_may_answer(&p->forward);
    }
}

static void on_body(void *ctx, const void *data, size_t len)
{
    struct intercepted *p = ctx;
    scoped_buf(out, GUARDED_BYTES_MAX);

    write_guarded(p, shell_call_body(p->shell, (struct str){data, len}, &out), &out);
}

static void on_body_end(void *ctx)
{
    struct intercepted *p = ctx;
    scoped_buf(out, GUARDED_BYTES_MAX);

    write_guarded(p, shell_call_body_end(p->shell, &out), &out);
}

static void on_upstream_end(void *ctx, struct upstream *up, int error)
{
    struct intercepted *p = ctx;

    if (error == 0 && p->forward.request_finished && upstream_reusable(up)) {
        intercept_keep(p->of, up);
    } else {
        upstream_close(up);
    }
    if (p->forward.ex && error < 0 && p->reused && !p->forward.answered && !p->forward.body_taken) {
        p->reused = false;
        intercepted_connect(p);
    } else if (p->forward.ex && !p->forward.answered) {
        intercepted_refuse(p, 502, "%s broke off the request", ours(p->of->name));
    }
}

static void intercepted_free(struct intercepted *p)
{
    DL_DELETE(p->of->requests, p);
    forward_fini(&p->forward);
    shell_call_free(p->shell);
    free(p);
}

static void on_over(void *ctx)
{
    intercepted_free(ctx);
}

static const struct forward_events rule_events = {
    .on_response = on_response, .on_upstream_end = on_upstream_end, .on_over = on_over};

static const struct forward_events shell_events = {.on_response = on_response,
                                                   .on_body = on_body,
                                                   .on_body_end = on_body_end,
                                                   .on_upstream_end = on_upstream_end,
                                                   .on_over = on_over};

void intercepted_drop_all(struct intercept *of)
{
    while (of->requests) {
        intercepted_free(of->requests);
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

static void start_by_rule(struct intercepted *p)
{
    struct intercept *of = p->of;
    const struct http_request *req = http_request(p->forward.ex);
    const struct transform *rule = intercepted_rule(p);

    if (!str_ieq(host_of(req->authority), host_of(str_of(of->name)))) {
        net_refused(of->net, &of->asked, host_of(req->authority), "TLS and Host name two servers");
        intercepted_refuse(p, 421, "this connection is to %s, and the request is for another host",
                           ours(of->name));
    } else if (!rule) {
        intercepted_refuse(p, 502, "the rule for this name was removed");
    } else if (!of->secure && transform_fills(rule)) {
        intercepted_refuse(p, 403, "a secret is not sent over plain HTTP: use https");
    } else {
        intercepted_connect(p);
    }
}

/* Moves the request to the intercept of the server that the shell leads to. */
static void start_to_shell(struct intercepted *p)
{
    struct intercept *of = p->of;
    const struct http_request *req = http_request(p->forward.ex);
    const struct shell *shell = NULL;
    struct err err;

    if (!str_ieq(host_of(req->authority), STR(SHELL_HOST))) {
        intercepted_refuse(p, 421, "only requests for " SHELL_HOST " are served here");
        return;
    }
    int r = shell_call_new(of->net, req, &p->shell, &shell, &err);
    if (r < 0) {
        intercepted_refuse(p, refusal_status(p, r), "%s", err.msg);
        return;
    }
    DL_DELETE(of->requests, p);
    p->of = intercept_origin(of, shell->host, shell->port, shell->secure);
    DL_APPEND(p->of->requests, p);
    p->of->http2_asked = p->of->http2_asked || req->multiplexed;
    intercepted_connect(p);
}

/* E2B's answer, for programs that have no other way to learn their sandbox's id. */
static void start_to_self(struct intercepted *p)
{
    const struct http_request *req = http_request(p->forward.ex);

    if (!str_eq(req->path, STR("/me"))) {
        intercepted_refuse(p, 404, "http://" SELF_HOST " has /me alone");
    } else if (!str_eq(req->method, STR("GET"))) {
        intercepted_refuse(p, 405, "http://" SELF_HOST "/me is read with GET");
    } else {
        char text[sizeof(p->of->net->id) + sizeof("{\"sandboxID\":\"\"}")];
        int n = snprintf(text, sizeof(text), "{\"sandboxID\":\"%s\"}", p->of->net->id);

        http_reply(p->forward.ex, 200, "application/json", text, (size_t)n);
    }
}

void intercepted_start(struct intercept *of, struct http_exchange *ex)
{
    struct intercepted *p = xnew(struct intercepted);

    p->of = of;
    DL_APPEND(of->requests, p);
    forward_accept(&p->forward, ex, of->shells ? &shell_events : &rule_events, p);
    if (of->self) {
        start_to_self(p);
    } else if (of->shells) {
        start_to_shell(p);
    } else {
        of->http2_asked = of->http2_asked || http_request(ex)->multiplexed;
        start_by_rule(p);
    }
}
