#include "serve/egress/shell_call.h"

#include <errno.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/guard/said.h"
#include "lib/http/field_rules.h"

struct shell_call {
    struct egress_net *net;
    char name[SHELL_NAME_BYTES_MAX + 1];
    uint64_t began_ms;
    struct guard *guard; /* of the key as it was sent; NULL until it was */
    struct guard *names; /* of the same in lower case, which is what names of headers are in */
    struct guard_stream *stream; /* the answer's body */
};

/* ---- whether it may be ---- */

static bool is_granted(const struct egress_net *net, struct str name)
{
    for (size_t i = 0; i < json_array_size(net->shells); i++) {
        if (str_eq(str_of(json_string_value(json_array_get(net->shells, i))), name)) {
            return true;
        }
    }
    return false;
}

/* The shell of that name, as it is now. */
static int shell_find(struct egress_net *net, struct str name, const struct shell **out,
                      struct err *err)
{
    const struct egress *egress = net->egress;
    int shown = (int)(name.len < SHELL_NAME_BYTES_MAX ? name.len : SHELL_NAME_BYTES_MAX);

    if (name.len == 0) {
        return err_set(err, EINVAL, "say which shell: http://" SHELL_HOST "/NAME/PATH");
    }
    if (!is_granted(net, name)) {
        return err_set(err, EPERM, "shell \"%.*s\" is not granted to this sandbox", shown,
                       ours(name.at));
    }
    *out = egress->shell ? egress->shell(egress->ctx, net->id, name) : NULL;
    return *out ? 0
                : err_set(err, ENOENT, "there is no shell \"%.*s\" any more", shown, ours(name.at));
}

int shell_call_new(struct egress_net *net, const struct http_request *req, struct shell_call **out,
                   const struct shell **shell, struct err *err)
{
    struct shell_call *call = xnew(struct shell_call);
    struct str name, path;

    shell_cut(req->path, &name, &path);
    int r = shell_find(net, name, shell, err);
    r = r < 0 ? r : shell_allows(*shell, req->method, path, err);
    r = r < 0 ? r : shell_overrides(req->headers, req->headers_n, req->query, err);
    if (r == 0 && req->upgrade) {
        r = err_set(err, EINVAL, "a shell has no WebSockets: their content cannot be guarded");
    }
    if (r < 0) {
        free(call);
        return r;
    }
    call->net = net;
    call->began_ms = uv_now(net->egress->loop);
    (void)str_copy(call->name, sizeof(call->name), name);
    *out = call;
    return 0;
}

static void guard_drop(struct shell_call *call)
{
    guard_stream_free(move_ptr(&call->stream));
    guard_free(move_ptr(&call->guard));
    guard_free(move_ptr(&call->names));
}

void shell_call_free(struct shell_call *call)
{
    if (call) {
        guard_drop(call);
        free(call);
    }
}

uint64_t shell_call_ms(const struct shell_call *call)
{
    return uv_now(call->net->egress->loop) - call->began_ms;
}

/* ---- the key ---- */

static int ask(const struct shell_call *call, struct str what, struct buf *out, struct err *err)
{
    const struct egress *egress = call->net->egress;

    return egress->fill ? egress->fill(egress->ctx, call->net->id, what, out, err)
                        : err_set(err, ENOENT, "there are no secrets here");
}

static int guard_name(struct guard *names, struct str secret, struct err *err)
{
    scoped_buf(lower, (size_t)SHELL_VALUE_BYTES_MAX + TRANSFORM_VALUE_BYTES_MAX);

    int r = buf_append(&lower, secret.at, secret.len);
    for (size_t i = 0; r == 0 && i < buf_len(&lower); i++) {
        buf_at(&lower)[i] = char_lower(buf_at(&lower)[i]);
    }
    r = r < 0 ? err_set(err, EMSGSIZE, "the key is too long")
              : guard_add_value(names, buf_str(&lower), err);
    buf_wipe(&lower);
    return r;
}

/* Each secret is guarded for itself, whatever stands around it in the value. */
static int fill(void *ctx, struct str what, struct buf *out, struct err *err)
{
    struct shell_call *call = ctx;
    size_t start = buf_len(out);
    int r = ask(call, what, out, err);

    r = r < 0 ? r : guard_add(call->guard, str_skip(buf_str(out), start), err);
    return r < 0 ? r : guard_name(call->names, str_skip(buf_str(out), start), err);
}

static int key_value(struct shell_call *call, const struct shell *shell, struct buf *out,
                     struct err *err)
{
    char what[sizeof(SHELL_SEALED) + SHELL_NAME_BYTES_MAX];
    size_t start = buf_len(out);

    guard_drop(call);
    call->guard = guard_new();
    call->names = guard_new();
    (void)snprintf(what, sizeof(what), SHELL_SEALED "%s", shell->name);
    int r = shell->sealed ? ask(call, str_of(what), out, err)
                          : transform_value(&shell->key, fill, call, out, err);
    r = r < 0 ? r : guard_add_value(call->guard, str_skip(buf_str(out), start), err);
    r = r < 0 ? r : guard_name(call->names, str_skip(buf_str(out), start), err);
    guard_ready(call->guard);
    guard_ready(call->names);
    return r;
}

/* ---- the head that goes out ---- */

/* A part of an answer could hold a part of the key; what is compressed cannot be searched. */
static bool drops(const void *ctx, struct str name)
{
    const struct shell *shell = ctx;

    return str_ieq(name, STR("accept-encoding")) || str_ieq(name, STR("range")) ||
           str_ieq(name, STR("if-range")) ||
           (shell->place == SHELL_HEADER && shell_same_header(name, shell->key.name));
}

static bool same_origin(const struct shell *shell, struct shell_origin origin)
{
    return shell->secure == origin.secure && shell->port == origin.port &&
           strcmp(shell->host, origin.host) == 0;
}

/* Headers, path and query for the API, with its key. */
static int head_make(struct shell_call *call, const struct shell *shell,
                     const struct http_request *req, struct outgoing_head *out, struct buf *target,
                     struct err *err)
{
    struct str name, path;
    int r = outgoing_head_add_given(out, req, str_of(shell->authority), drops, shell, err);

    shell_cut(req->path, &name, &path);
    r = r < 0 ? r : outgoing_head_add(out, STR("accept-encoding"), STR("identity"), err);
    size_t start = buf_len(&out->values);
    r = r < 0 ? r : key_value(call, shell, &out->values, err);
    struct str value = str_skip(buf_str(&out->values), start);
    if (r == 0 && shell->place == SHELL_HEADER) {
        r = outgoing_head_add(out, str_of(shell->key.name), value, err);
    }
    if (r == 0 && shell_target(shell, path, req->query, value, target) < 0) {
        r = err_set(err, EMSGSIZE, "the path and the query are too long");
    }
    return r;
}

int shell_call_head(struct shell_call *call, const struct http_request *req,
                    struct shell_origin origin, struct outgoing_head *out, struct buf *target,
                    struct err *err)
{
    const struct shell *shell = NULL;
    struct str name, path;

    shell_cut(req->path, &name, &path);
    int r = shell_find(call->net, name, &shell, err);
    if (r < 0 || !shell) {
        return r;
    }
    r = shell_allows(shell, req->method, path, err);
    if (r == 0 && !same_origin(shell, origin)) {
        r = err_set(err, EAGAIN, "shell \"%s\" has just been changed: try again", ours(call->name));
    }
    return r < 0 ? r : head_make(call, shell, req, out, target, err);
}

/* ---- the answer ---- */

/* A mark cannot stand in a name, so a header whose name holds the key is left out. */
static bool name_has_key(const struct shell_call *call, struct str name)
{
    scoped_buf(seen, HTTP_HEADER_BYTES_MAX);
    size_t count = 0;

    return guard_redact(call->names, name, &seen, &count) < 0 || count > 0;
}

static int add_guarded(struct shell_call *call, struct str name, struct str value,
                       struct outgoing_head *out, struct err *err)
{
    size_t start = buf_len(&out->values), count = 0;

    return guard_redact(call->guard, value, &out->values, &count) < 0
               ? err_set(err, EMSGSIZE, "the API's answer has too long a head")
               : outgoing_head_add(out, name, str_skip(buf_str(&out->values), start), err);
}

static int add_location(struct shell_call *call, int status, struct http_header header,
                        struct outgoing_head *out, struct err *err)
{
    const struct shell *shell = NULL;
    scoped_buf(seen, HTTP_HEADER_BYTES_MAX);

    int r = shell_find(call->net, str_of(call->name), &shell, err);
    r = r < 0 ? r : shell_location(shell, call->guard, header.value, &seen, err);
    if (r == 0) {
        return add_guarded(call, header.name, buf_str(&seen), out, err);
    }
    return status >= 300 && status < 400 ? r
                                         : add_guarded(call, header.name, header.value, out, err);
}

static int check_encoding(const struct shell_call *call, struct str value, struct err *err)
{
    struct said said;

    return value.len == 0 || str_ieq(value, STR("identity"))
               ? 0
               : err_set(err, EPROTO,
                         "the API's answer is compressed (%s), and cannot be searched for the key",
                         guard_said(call->guard, value, &said));
}

static int add_field(struct shell_call *call, int status, struct http_header field,
                     struct outgoing_head *out, struct err *err)
{
    if (name_has_key(call, field.name)) {
        return 0;
    }
    return str_ieq(field.name, STR("location"))
               ? add_location(call, status, field, out, err)
               : add_guarded(call, field.name, field.value, out, err);
}

int shell_call_answer(struct shell_call *call, int status, const struct http_header *headers,
                      size_t n, struct outgoing_head *out, struct err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < n; i++) {
        /* Also for a header that Connection names: the body is compressed all the same. */
        if (str_ieq(headers[i].name, STR("content-encoding"))) {
            r = check_encoding(call, headers[i].value, err);
        }
        if (r == 0 && !field_is_hop_by_hop(headers[i].name, headers, n)) {
            r = add_field(call, status, headers[i], out, err);
        }
    }
    if (r == 0) {
        call->stream = guard_stream_new(call->guard);
    }
    return r;
}

int shell_call_body(struct shell_call *call, struct str data, struct buf *out)
{
    return guard_stream_put(call->stream, data, out);
}

int shell_call_body_end(struct shell_call *call, struct buf *out)
{
    return guard_stream_end(call->stream, out);
}
