/* Files for COPY: GET tells whether they are here and where to put them; PUT takes them. The PUT
 * carries no key but a token in its address, because clients send it without one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "serve/api/internal.h"

enum { URL_BYTES_MAX = 2048 };

static bool hash_ok(const char *hash)
{
    size_t n = strspn(hash, "0123456789abcdef");

    return n == BUILD_HASH_LEN && hash[n] == '\0';
}

static json_t *url_json(const struct call *call, const struct template *t)
{
    const struct http_request *req = http_request(call->ex);
    struct str proto = http_header_get(req, "x-forwarded-proto");
    bool secure = proto.at ? str_ieq(proto, STR("https")) : req->secure;
    char token[BUILD_TOKEN_LEN + 1];

    build_files_token(call->api->options.builds, t->id, call->param, token);
    return json_sprintf("%s://%.*s/templates/%s/files/%s?token=%s", secure ? "https" : "http",
                        (int)req->authority.len, req->authority.at, t->id, call->param, token);
}

void handle_files(struct call *call, const json_t *body)
{
    const struct template *t = call_own_template(call, call->first);

    (void)body;
    if (!t) {
        return;
    }
    if (!hash_ok(call->param)) {
        call_fail(call, 400, "validation error: the hash must be %d hexadecimal digits",
                  BUILD_HASH_LEN);
        return;
    }
    json_t *reply = json_object();
    bool present = build_files_present(call->api->options.builds, call->team->id, call->param);
    (void)json_object_set_new(reply, "present", json_boolean(present));
    (void)json_object_set_new(reply, "url", url_json(call, t));
    call_json(call, 201, reply);
}

/* ---- taking them ---- */

struct put {
    struct call *call; /* NULL: answered */
    struct http_exchange *ex;
    struct upload *upload; /* NULL: over */
    struct buf waiting;    /* came while the last piece is being written */
    size_t writing;        /* bytes of that piece; 0: none */
    int64_t bytes, bytes_max;
    bool all_came;
};

static void put_refuse(struct put *put, int error, const struct err *err)
{
    if (put->upload) {
        build_upload_abort(move_ptr(&put->upload));
    }
    if (put->call) {
        call_fail_err(move_ptr(&put->call), error == -ENOSPC ? -EDQUOT : error, err);
    }
}

static void put_go_on(struct put *put)
{
    if (!put->upload || put->writing) {
        return;
    }
    if (buf_len(&put->waiting) > 0) {
        put->writing = buf_len(&put->waiting);
        build_upload_write(put->upload, buf_at(&put->waiting), put->writing);
        buf_clear(&put->waiting);
    } else if (put->all_came) {
        build_upload_end(put->upload);
    }
}

static void on_took(void *ctx, int error, const struct err *err)
{
    struct put *put = ctx;
    size_t took = put->writing;

    put->writing = 0;
    if (error < 0) {
        put_refuse(put, error, err);
    } else {
        http_credit(put->ex, took);
        put_go_on(put);
    }
}

static void on_stored(void *ctx, int error, const struct err *err)
{
    struct put *put = ctx;

    put->upload = NULL;
    if (error < 0) {
        put_refuse(put, error, err);
    } else if (put->call) {
        call_empty(move_ptr(&put->call), 200);
    }
}

static void on_body(void *ctx, const void *data, size_t len)
{
    struct put *put = ctx;
    struct err err;

    put->bytes += (int64_t)len;
    if (put->bytes > put->bytes_max || buf_append(&put->waiting, data, len) < 0) {
        (void)err_set(&err, EMSGSIZE, "the archive is larger than %lld bytes",
                      (long long)put->bytes_max);
        put_refuse(put, -EMSGSIZE, &err);
        return;
    }
    put_go_on(put);
}

static void on_body_end(void *ctx)
{
    struct put *put = ctx;

    put->all_came = true;
    put_go_on(put);
}

static void on_end(void *ctx, int error)
{
    struct put *put = ctx;

    (void)error;
    if (put->upload) {
        build_upload_abort(put->upload);
    }
    if (put->call) {
        call_free(put->call); /* nobody is there any more */
    }
    buf_fini(&put->waiting);
    free(put);
}

static bool token_ok(const struct call *call)
{
    scoped_buf(token, URL_BYTES_MAX);

    return http_query_get(http_request(call->ex)->query, "token", &token) == 1 &&
           build_files_token_ok(call->api->options.builds, call->first, call->param,
                                buf_str(&token));
}

const struct team *upload_team(const struct call *call)
{
    const struct template *t = templates_by_id(call->api->options.templates, call->first);

    return t && t->team_id && hash_ok(call->param) && token_ok(call)
               ? accounts_team(call->api, t->team_id)
               : NULL;
}

bool stream_upload(struct call *call)
{
    static const struct http_handler handler = {
        .on_body = on_body, .on_body_end = on_body_end, .on_end = on_end};
    static const struct upload_handler upload_handler = {.took = on_took, .done = on_stored};

    struct put *put = xnew(struct put);
    *put = (struct put){.call = call, .ex = call->ex, .bytes_max = call->route->body_bytes_max};
    buf_init(&put->waiting, HTTP_WINDOW_BYTES);
    http_accept(call->ex, &handler, put);
    put->upload = build_upload_new(call->api->options.builds, call->team->id, call->param,
                                   &upload_handler, put);
    http_credit(put->ex, HTTP_WINDOW_BYTES);
    return true;
}
