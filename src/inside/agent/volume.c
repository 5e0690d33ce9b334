#include "inside/agent/volume.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inside/agent/files.h"
#include "inside/agent/users.h"
#include "inside/agent/volume_ops.h"
#include "lib/base/alloc.h"
#include "wire/channel.h"

enum {
    BODY_BYTES_MAX = 4096, /* of a PATCH */
    NUMBER_BYTES = 16,
};

enum op { OP_STAT, OP_SET, OP_REMOVE, OP_LIST, OP_MAKE_DIR };

struct work {
    uv_work_t work; /* the pool's while it runs, with all to `err` */
    enum op op;
    char path[AGENT_PATH_BYTES];
    struct volume_terms terms;
    struct volume_change change;
    uint32_t depth;
    json_t *reply;
    int result;
    struct err err;

    struct agent *agent;
    struct http_exchange *ex; /* NULL: gone */
};

bool volume_is(const struct http_request *req)
{
    return req->connection_tag == agent_tag_control &&
           str_starts(req->path, STR("/volumecontent/"));
}

/* ---- parameters ---- */

/* 1 when it is there, 0 when not. */
static int param_number(struct str query, const char *name, int64_t max, int64_t *out,
                        struct err *err)
{
    scoped_buf(text, HTTP_TARGET_BYTES_MAX);
    char digits[NUMBER_BYTES], *end;

    int r = http_query_get(query, name, &text);
    if (r == 0) {
        return 0;
    }
    if (r < 0 || !str_copy(digits, sizeof(digits), buf_str(&text)) || !digits[0] ||
        digits[strspn(digits, "0123456789")] || (*out = strtoll(digits, &end, 10)) > max) {
        return err_set(err, EINVAL, "%s must be a number of at most %lld", name, (long long)max);
    }
    return 1;
}

static int param_force(struct str query, bool *out, struct err *err)
{
    scoped_buf(text, HTTP_TARGET_BYTES_MAX);

    int r = http_query_get(query, "force", &text);
    *out = r > 0 && str_ieq(buf_str(&text), STR("true"));
    return r < 0 || (r > 0 && !*out && !str_ieq(buf_str(&text), STR("false")))
               ? err_set(err, EINVAL, "force must be true or false")
               : 0;
}

static int param_path(struct str query, char out[AGENT_PATH_BYTES], struct err *err)
{
    static const struct user nobody = {.home = "/"};
    scoped_buf(text, HTTP_TARGET_BYTES_MAX);
    scoped_buf(rooted, HTTP_TARGET_BYTES_MAX + 1);

    int r = http_query_get(query, "path", &text);
    if (r <= 0 || buf_len(&text) == 0) {
        return err_set(err, EINVAL, "the query parameter 'path' is required");
    }
    /* Relative means from the volume's root, and "~" is a name like any other. */
    if (buf_append(&rooted, "/", 1) < 0 || buf_append(&rooted, buf_at(&text), buf_len(&text)) < 0) {
        return err_set(err, EINVAL, "the path is too long");
    }
    return path_resolve(NULL, &nobody, buf_str(&rooted), out, err);
}

static int terms_read(struct str query, mode_t mode, struct volume_terms *out, struct err *err)
{
    int64_t uid = 0, gid = 0, bits = mode;
    int r = param_number(query, "uid", VOLUME_ID_MAX, &uid, err);

    if (r >= 0) {
        r = param_number(query, "gid", VOLUME_ID_MAX, &gid, err);
    }
    if (r >= 0) {
        r = param_number(query, "mode", VOLUME_MODE_MAX, &bits, err);
    }
    if (r >= 0) {
        r = param_force(query, &out->force, err);
    }
    out->owner = (struct fs_owner){(uid_t)uid, (gid_t)gid};
    out->mode = (mode_t)bits;
    return r < 0 ? r : 0;
}

static int field_number(const json_t *body, const char *name, int64_t max, int64_t *out,
                        struct err *err)
{
    const json_t *value = json_object_get(body, name);

    *out = -1;
    if (!value || json_is_null(value)) {
        return 0;
    }
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        json_integer_value(value) > max) {
        return err_set(err, EINVAL, "%s must be a number of at most %lld", name, (long long)max);
    }
    *out = json_integer_value(value);
    return 0;
}

static int change_read(struct str text, struct volume_change *out, struct err *err)
{
    json_t *body = json_loadb(text.at ? text.at : "", text.len, JSON_REJECT_DUPLICATES, NULL);
    int r = json_is_object(body) ? 0 : err_set(err, EINVAL, "the body must be a JSON object");

    if (r == 0) {
        r = field_number(body, "uid", VOLUME_ID_MAX, &out->uid, err);
    }
    if (r == 0) {
        r = field_number(body, "gid", VOLUME_ID_MAX, &out->gid, err);
    }
    if (r == 0) {
        r = field_number(body, "mode", VOLUME_MODE_MAX, &out->mode, err);
    }
    json_decref(body);
    return r;
}

/* ---- the pool's thread ---- */

static void work_run(uv_work_t *uv)
{
    struct work *work = container_of(uv, struct work, work);

    switch (work->op) {
    case OP_STAT:
        work->result = volume_stat(work->path, &work->reply, &work->err);
        break;
    case OP_SET:
        work->result = volume_set(work->path, &work->change, &work->reply, &work->err);
        break;
    case OP_REMOVE:
        work->result = volume_remove(work->path, &work->err);
        break;
    case OP_LIST:
        work->result = volume_list(work->path, work->depth, &work->reply, &work->err);
        break;
    case OP_MAKE_DIR:
        work->result = volume_make_dir(work->path, &work->terms, &work->reply, &work->err);
        break;
    }
}

/* ---- the loop's thread ---- */

static void work_free(struct work *work)
{
    json_decref(work->reply);
    free(work);
}

static void work_answer(struct work *work)
{
    char *text = work->reply ? json_dumps(work->reply, JSON_COMPACT) : NULL;

    if (work->result < 0) {
        files_fail(work->ex, files_status(-work->result), work->err.msg);
    } else if (work->op == OP_REMOVE) {
        http_reply(work->ex, 204, NULL, NULL, 0);
    } else {
        http_reply(work->ex, work->op == OP_MAKE_DIR ? 201 : 200, "application/json", text,
                   text ? strlen(text) : 0);
    }
    free(text);
}

static void work_done(uv_work_t *uv, int status)
{
    struct work *work = container_of(uv, struct work, work);

    assert(status == 0); /* nobody cancels */
    if (work->ex) {
        work_answer(work);
    }
    work_free(work);
}

static void work_start(struct work *work)
{
    if (uv_queue_work(work->agent->loop, &work->work, work_run, work_done) < 0) {
        abort(); /* only without a callback */
    }
}

static void on_gone(void *ctx)
{
    struct work *work = ctx;

    work->ex = NULL;
}

static void on_body(void *ctx, struct http_exchange *ex, int error, struct str body)
{
    struct work *work = ctx;

    if (error < 0 && error != -EMSGSIZE) {
        work_free(work);
        return;
    }
    if (error < 0) {
        files_fail(ex, 413, "the body is too large");
        work_free(work);
        return;
    }
    if (work->op == OP_SET && change_read(body, &work->change, &work->err) < 0) {
        files_fail(ex, 400, work->err.msg);
        work_free(work);
        return;
    }
    work_start(work);
}

static void simple(struct agent *agent, struct http_exchange *ex, enum op op)
{
    struct str query = http_request(ex)->query;
    struct work *work = xnew(struct work);
    int64_t depth = 1;

    work->agent = agent;
    work->ex = ex;
    work->op = op;
    int r = param_path(query, work->path, &work->err);
    if (r == 0 && op == OP_MAKE_DIR) {
        r = terms_read(query, VOLUME_DIR_MODE, &work->terms, &work->err);
    }
    if (r == 0 && op == OP_LIST) {
        r = param_number(query, "depth", VOLUME_DEPTH_MAX, &depth, &work->err);
        work->depth = depth > 0 ? (uint32_t)depth : 1;
    }
    if (r < 0) {
        files_refuse(ex, 400, work->err.msg);
        work_free(work);
        return;
    }
    http_gather(ex, BODY_BYTES_MAX, on_body, on_gone, work);
}

/* ---- files ---- */

static void file(struct agent *agent, struct http_exchange *ex, bool write)
{
    const struct http_request *http = http_request(ex);
    struct files_request *req = xnew(struct files_request);
    char path[AGENT_PATH_BYTES];
    struct err err;

    int r = param_path(http->query, path, &err);
    if (r == 0 && write) {
        req->terms = xnew(struct volume_terms);
        r = terms_read(http->query, VOLUME_FILE_MODE, req->terms, &err);
    }
    if (r < 0) {
        files_refuse(ex, 400, err.msg);
        files_request_free(req);
        return;
    }
    req->loop = agent->loop;
    req->ex = ex;
    req->path = xstrdup(path);
    if (write) {
        files_post(req);
    } else {
        files_get(req);
    }
}

/* ---- the door ---- */

static int root_enter(struct err *err)
{
    static bool entered;

    if (!entered && (chroot(CHANNEL_VOLUME) < 0 || chdir("/") < 0)) {
        return err_sys(err, "enter the volume");
    }
    entered = true;
    return 0;
}

bool volume_handle(struct agent *agent, struct http_exchange *ex)
{
    static const struct {
        const char *method, *what;
        enum op op;
    } routes[] = {
        {"GET", "path", OP_STAT}, {"PATCH", "path", OP_SET},    {"DELETE", "path", OP_REMOVE},
        {"GET", "dir", OP_LIST},  {"POST", "dir", OP_MAKE_DIR},
    };
    const struct http_request *req = http_request(ex);
    struct err err;

    if (!volume_is(req)) {
        return false;
    }
    if (root_enter(&err) < 0) {
        files_refuse(ex, 500, err.msg);
        return true;
    }
    const char *slash = memrchr(req->path.at, '/', req->path.len);
    struct str what = str_skip(req->path, (size_t)(slash + 1 - req->path.at));
    for (size_t i = 0; i < countof(routes); i++) {
        if (str_eq(what, str_of(routes[i].what)) && str_eq(req->method, str_of(routes[i].method))) {
            simple(agent, ex, routes[i].op);
            return true;
        }
    }
    bool write = str_eq(req->method, STR("PUT"));
    if (str_eq(what, STR("file")) && (write || str_eq(req->method, STR("GET")))) {
        file(agent, ex, write);
    } else {
        files_refuse(ex, 404, "there is nothing at this path");
    }
    return true;
}
