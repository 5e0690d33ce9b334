#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <uv.h>

#include "base/buf.h"
#include "base/encode.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/call.h"
#include "cli/cli.h"
#include "cli/tame.h"
#include "daemon/lock.h"
#include "http/upstream.h"

enum {
    ANSWER_BYTES_MAX = 16 * 1024 * 1024,
    CREDIT_BYTES = HTTP_WINDOW_BYTES,
    TOKEN_BYTES = 256,
    PATH_BYTES_MAX = 1024,
};

/* ---- which daemon ---- */

static int nobody_serves(const struct cli *cli, struct err *err)
{
    const struct places *places = &cli->places;

    if (lock_is_held(places->prepare_lock) || lock_is_held(places->layers_lock)) {
        return err_set(err, ENOENT,
                       "the daemon of %s is being prepared, which takes minutes when it is started "
                       "for the first time: wait until its log says where it serves",
                       cli->config.data);
    }
    if (lock_is_held(places->serve_lock)) {
        return err_set(err, ENOENT, "the daemon of %s is starting, or stopping: try again",
                       cli->config.data);
    }
    return err_set(err, ENOENT,
                   "no daemon serves %s: start one with `%s serve` (the first `make run` installs "
                   "packages before that), or name its directory with --data",
                   cli->config.data, cli->program);
}

int endpoint_find(const struct cli *cli, struct endpoint *out, struct err *err)
{
    if (access(cli->places.default_key, R_OK) < 0 && errno == EACCES) {
        return err_set(err, EACCES,
                       "you may not read the API key in %s: run this as root, or as the user %s",
                       cli->places.state, cli->config.user);
    }
    int r = place_read_url(&cli->places, out->url, sizeof(out->url), err);
    if (r < 0 && r != -ENOENT) {
        return r;
    }
    if (r < 0 || !out->url[0] || !lock_is_held(cli->places.serve_lock)) {
        return nobody_serves(cli, err);
    }
    return place_read_key(&cli->places, out->key, sizeof(out->key), err);
}

static bool variable_take(const char *name, char *out, size_t size)
{
    const char *value = getenv(name);

    return value && value[0] && str_copy(out, size, str_of(value));
}

/* A base URL may end with a slash; every path begins with one. */
static void url_trim(char *url)
{
    size_t len = strlen(url);

    while (len > 0 && url[len - 1] == '/') {
        url[--len] = '\0';
    }
}

/* Whoever has only a key may not look into the data directory for more. */
static int url_find(const struct cli *cli, struct endpoint *out, struct err *err)
{
    if (place_read_url(&cli->places, out->url, sizeof(out->url), err) == 0 && out->url[0]) {
        return 0;
    }
    return err_set(err, ENOENT,
                   "E2B_API_KEY is set, but %s names no daemon that you may know of: set "
                   "E2B_API_URL to its address, or name its directory with --data",
                   cli->config.data);
}

int endpoint_choose(const struct cli *cli, struct endpoint *out, struct err *err)
{
    struct endpoint named = {0};
    bool has_url = variable_take("E2B_API_URL", named.url, sizeof(named.url));
    bool has_key = variable_take("E2B_API_KEY", named.key, sizeof(named.key));

    *out = (struct endpoint){0};
    if (cli->data_named || (!has_url && !has_key)) {
        return endpoint_find(cli, out, err);
    }
    int r = 0;
    if (!has_key) {
        r = endpoint_find(cli, out, err);
        (void)memcpy(named.key, out->key, sizeof(named.key));
    } else if (!has_url) {
        r = url_find(cli, &named, err);
    }
    url_trim(named.url);
    *out = named;
    return r;
}

int endpoint_admin(const struct cli *cli, struct endpoint *out, struct err *err)
{
    *out = (struct endpoint){0};
    if (variable_take("ATOLL_ADMIN_KEY", out->admin, sizeof(out->admin))) {
        bool named = !cli->data_named && variable_take("E2B_API_URL", out->url, sizeof(out->url));

        url_trim(out->url);
        return named ? 0 : place_read_url(&cli->places, out->url, sizeof(out->url), err);
    }
    if (access(cli->places.admin_token, R_OK) < 0 && errno == EACCES) {
        return err_set(err, EACCES,
                       "you may not read the admin token in %s: run this as root, or as the user "
                       "%s, or set ATOLL_ADMIN_KEY",
                       cli->places.state, cli->config.user);
    }
    int r = endpoint_find(cli, out, err);
    out->key[0] = '\0';
    return r < 0 ? r : place_read_admin(&cli->places, out->admin, sizeof(out->admin), err);
}

int endpoint_dial(const struct endpoint *endpoint, struct err *err)
{
    const char *url = endpoint->url;
    char host[256];
    struct addrinfo *found = NULL;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    const char *authority = url + strlen("http://");
    const char *colon = strrchr(url, ':');
    bool bracketed = authority[0] == '[';

    if (strncmp(url, "http://", strlen("http://")) != 0 || !colon || colon < authority) {
        return err_set(err, EINVAL,
                       "'%s' is not the address of a daemon: it is of the form http://HOST:PORT",
                       url);
    }
    (void)snprintf(host, sizeof(host), "%.*s", (int)(colon - authority) - (bracketed ? 2 : 0),
                   authority + (bracketed ? 1 : 0));
    int r = getaddrinfo(host, colon + 1, &hints, &found);
    if (r != 0) {
        return err_set(err, EINVAL, "find %s: %s", url, gai_strerror(r));
    }
    scoped_fd fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    r = fd < 0 ? -1 : connect(fd, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return r < 0 ? err_sys(err, "connect to %s", url) : move_fd(&fd);
}

/* ---- one request on a loop of its own ---- */

struct call {
    uv_loop_t loop;
    struct upstream *up;
    struct buf body;
    int status;
    int error;
    char next[TOKEN_BYTES]; /* where the next page of a list begins; "": there is none */
    void (*line)(void *ctx, struct str line); /* NULL: the body is wanted whole */
    void *line_ctx;
    bool verbatim; /* control characters stay as they are */
};

static void on_response(void *ctx, int status, const struct http_header *headers, size_t n,
                        int64_t content_length)
{
    struct call *call = ctx;

    (void)content_length;
    for (size_t i = 0; i < n; i++) {
        if (str_ieq(headers[i].name, STR("x-next-token"))) {
            (void)str_copy(call->next, sizeof(call->next), headers[i].value);
        }
    }
    call->status = status;
    upstream_credit(call->up, CREDIT_BYTES);
}

/* Hands on the lines that are whole. */
static void lines_take(struct call *call)
{
    struct str rest = buf_str(&call->body);
    size_t n;

    while ((n = str_find(rest, '\n')) < rest.len) {
        call->line(call->line_ctx, (struct str){rest.at, n});
        buf_consume(&call->body, n + 1);
        rest = buf_str(&call->body);
    }
}

static void on_body(void *ctx, const void *data, size_t len)
{
    struct call *call = ctx;

    if (buf_append(&call->body, data, len) < 0) {
        call->error = -EMSGSIZE;
        uv_stop(&call->loop);
        return;
    }
    if (call->line && call->status / 100 == 2) {
        lines_take(call);
    }
    upstream_credit(call->up, len);
}

static void on_end(void *ctx, int error)
{
    struct call *call = ctx;

    call->error = error;
    uv_stop(&call->loop);
}

static const struct upstream_handler handler = {
    .on_response = on_response,
    .on_body = on_body,
    .on_end = on_end,
};

static void call_send(struct call *call, const struct endpoint *endpoint, const char *method,
                      const char *path, const char *body)
{
    const struct http_header headers[] = {
        {STR("host"), str_skip(str_of(endpoint->url), strlen("http://"))},
        {endpoint->admin[0] ? STR("x-admin-token") : STR("x-api-key"),
         str_of(endpoint->admin[0] ? endpoint->admin : endpoint->key)},
        {STR("content-type"), STR("application/json")},
    };
    size_t len = body ? strlen(body) : 0;

    upstream_send(call->up, str_of(method), str_of(path), headers, countof(headers), (int64_t)len,
                  false, &handler, call);
    if (len) {
        upstream_write(call->up, body, len);
    }
    upstream_finish(call->up);
}

/* Lets libuv close what upstream_close() began. */
static void call_end(struct call *call)
{
    upstream_close(call->up);
    (void)uv_run(&call->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&call->loop);
    buf_fini(&call->body);
}

static int answer_read(const struct call *call, json_t **answer, struct err *err)
{
    if (call->error < 0) {
        return err_set(err, -call->error, "the daemon did not answer: %s",
                       strerrordesc_np(-call->error));
    }
    json_t *json = json_loadb(buf_at(&call->body), buf_len(&call->body), JSON_DECODE_ANY, NULL);
    json = call->verbatim ? json : tame_json(json);
    if (call->status < 200 || call->status > 299) {
        const char *message = json_string_of(json, "message");
        (void)err_set(err, EPROTO, "%s (status %d)", message ? message : "the daemon refused",
                      call->status);
        json_decref(json);
        return -EPROTO;
    }
    *answer = json;
    return 0;
}

static int call_run(struct call *call, const struct endpoint *endpoint, const char *method,
                    const char *path, const json_t *body, json_t **answer, struct err *err)
{
    int fd = endpoint_dial(endpoint, err);
    if (fd < 0) {
        return fd;
    }
    buf_init(&call->body, ANSWER_BYTES_MAX);
    (void)uv_loop_init(&call->loop);
    int r = upstream_new(&call->loop, fd, &call->up, err);
    if (r == 0) {
        char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
        call_send(call, endpoint, method, path, text);
        (void)uv_run(&call->loop, UV_RUN_DEFAULT);
        free(text);
        r = answer_read(call, answer, err);
    }
    call_end(call);
    return r;
}

int endpoint_call(const struct endpoint *endpoint, const char *method, const char *path,
                  const json_t *body, json_t **answer, struct err *err)
{
    struct call call = {.status = 0};

    return call_run(&call, endpoint, method, path, body, answer, err);
}

int endpoint_call_verbatim(const struct endpoint *endpoint, const char *method, const char *path,
                           const json_t *body, json_t **answer, struct err *err)
{
    struct call call = {.verbatim = true};

    return call_run(&call, endpoint, method, path, body, answer, err);
}

static int page_read(const struct endpoint *endpoint, const char *path, char next[TOKEN_BYTES],
                     json_t **answer, struct err *err)
{
    scoped_buf(full, PATH_BYTES_MAX);
    struct call call = {.status = 0};

    int r = buf_printf(&full, "%s", path);
    if (r == 0 && next[0]) {
        r = buf_printf(&full, "&nextToken=");
        r = r < 0 ? r : percent_encode(&full, str_of(next));
    }
    r = r < 0 ? r : buf_append(&full, "", 1);
    if (r < 0) {
        return err_set(err, -r, "the daemon's page is too long to be asked for");
    }
    r = call_run(&call, endpoint, "GET", buf_at(&full), NULL, answer, err);
    memcpy(next, call.next, sizeof(call.next));
    return r;
}

int endpoint_each(const struct endpoint *endpoint, const char *path,
                  void (*each)(void *ctx, const json_t *row), void *ctx, struct err *err)
{
    char next[TOKEN_BYTES] = "";
    int r = 0;

    do {
        scoped_json *page = NULL;
        const json_t *row;
        size_t i;
        r = page_read(endpoint, path, next, &page, err);
        json_array_foreach (page, i, row) {
            each(ctx, row);
        }
    } while (r == 0 && next[0]);
    return r;
}

int endpoint_lines(const struct endpoint *endpoint, const char *path,
                   void (*line)(void *ctx, struct str line), void *ctx, struct err *err)
{
    struct call call = {.line = line, .line_ctx = ctx};
    json_t *answer = NULL;
    int r = call_run(&call, endpoint, "GET", path, NULL, &answer, err);

    json_decref(answer);
    return r;
}

const char *answer_text(const json_t *object, const char *name)
{
    const char *text = json_string_of(object, name);

    return text ? text : "-";
}
