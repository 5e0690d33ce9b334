/* files.c - /files: checks the access, finds the user and the file. files_get.c, files_post.c and
 * files_compose.c do the rest. */
#include "inside/agent/files.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "inside/agent/journal.h"
#include "inside/agent/signature.h"
#include "inside/agent/volume.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/utf8.h"
#include "lib/http/status.h"

enum {
    PARAM_BYTES_MAX = HTTP_TARGET_BYTES_MAX,
    FILES_MODE_MAX = 0777,
    ERROR_TEXT_MAX = 4096,
    ERROR_BODY_MAX = 32 * 1024, /* the text, escaped at its worst */
};

const char agent_tag_edge[] = "edge";
const char agent_tag_control[] = "control";

/* Parameters of the query; at == NULL: absent. */
struct params {
    struct buf path, username, signature, expiry, mode;
    bool has_path, has_username, has_signature, has_expiry, has_mode;
    int64_t expiry_s;
    mode_t mode_bits;
};

static void params_fini(struct params *p)
{
    buf_fini(&p->path);
    buf_fini(&p->username);
    buf_fini(&p->signature);
    buf_fini(&p->expiry);
    buf_fini(&p->mode);
}

void files_request_free(struct files_request *req)
{
    if (req) {
        free(req->workdir);
        free(req->path);
        free(req->terms);
        free(req);
    }
}

void files_tell(enum log_level level, const char *event, struct str path, int64_t bytes)
{
    json_t *fields = json_pack("{s:I}", "bytes", (json_int_t)bytes);

    journal_text(fields, "path", path);
    journal_write(level, "files", event, fields, "%s %.*s", event, (int)path.len, path.at);
}

void files_tell_failed(const char *event, struct str path, const char *why)
{
    json_t *fields = json_object();

    journal_text(fields, "path", path);
    journal_text(fields, "error", str_of(why));
    journal_write(LOG_WARN, "files", event, fields, "%s %.*s failed: %s", event, (int)path.len,
                  path.at, why);
}

int files_status(int error)
{
    return status_of_errno(STATUS_FILES, error);
}

int files_error_body(struct buf *out, int status, bool code_is_text, const char *text)
{
    char number[8];
    char clean[ERROR_TEXT_MAX * UTF8_REPLACEMENT_BYTES + 1];

    (void)utf8_repair((struct str){text, strnlen(text, ERROR_TEXT_MAX)}, clean);
    (void)snprintf(number, sizeof(number), "%d", status);
    json_t *body =
        json_pack("{s:o, s:s}", "code", code_is_text ? json_string(number) : json_integer(status),
                  "message", clean);
    char *json = body ? json_dumps(body, JSON_COMPACT) : NULL;
    int r = json ? buf_append(out, json, strlen(json)) : -ENOMEM;
    free(json);
    json_decref(body);
    return r;
}

static void error_send(struct http_exchange *ex, int status, const char *text,
                       void (*send)(struct http_exchange *ex, int status, const char *type,
                                    const void *body, size_t len))
{
    scoped_buf(body, ERROR_BODY_MAX);

    if (files_error_body(&body, status, volume_is(http_request(ex)), text) < 0) {
        buf_clear(&body);
    }
    send(ex, status, "application/json; charset=utf-8", buf_at(&body), buf_len(&body));
}

void files_fail(struct http_exchange *ex, int status, const char *text)
{
    error_send(ex, status, text, http_reply);
}

void files_refuse(struct http_exchange *ex, int status, const char *text)
{
    error_send(ex, status, text, http_answer);
}

static int param_read(struct str query, const char *name, struct buf *out, bool *has,
                      struct err *err)
{
    int r = http_query_get(query, name, out);

    if (r < 0) {
        return err_set(err, EINVAL, "the query parameter '%s' is not percent-encoded", name);
    }
    *has = r > 0;
    return 0;
}

static int expiry_parse(struct params *p, struct err *err)
{
    char text[24], *end;

    if (!p->has_expiry) {
        return 0;
    }
    if (!str_copy(text, sizeof(text), buf_str(&p->expiry)) || !*text) {
        return err_set(err, EINVAL, "signature_expiration is not a number of seconds");
    }
    errno = 0;
    p->expiry_s = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0' || text[strspn(text, "-0123456789")] != '\0') {
        return err_set(err, EINVAL, "signature_expiration is not a number of seconds");
    }
    return 0;
}

/* Octal, as chmod takes it. */
static int mode_parse(struct params *p, struct err *err)
{
    char text[8];

    if (!p->has_mode) {
        return 0;
    }
    if (!str_copy(text, sizeof(text), buf_str(&p->mode)) || !*text ||
        text[strspn(text, "01234567")] || strtoul(text, NULL, 8) > FILES_MODE_MAX) {
        return err_set(err, EINVAL, "mode must be an octal number of at most 777");
    }
    p->mode_bits = (mode_t)strtoul(text, NULL, 8);
    return 0;
}

static int params_read(struct str query, struct params *p, struct err *err)
{
    buf_init(&p->path, PARAM_BYTES_MAX);
    buf_init(&p->username, PARAM_BYTES_MAX);
    buf_init(&p->signature, PARAM_BYTES_MAX);
    buf_init(&p->expiry, PARAM_BYTES_MAX);
    buf_init(&p->mode, PARAM_BYTES_MAX);
    if (param_read(query, "path", &p->path, &p->has_path, err) < 0 ||
        param_read(query, "username", &p->username, &p->has_username, err) < 0 ||
        param_read(query, "signature", &p->signature, &p->has_signature, err) < 0 ||
        param_read(query, "signature_expiration", &p->expiry, &p->has_expiry, err) < 0 ||
        param_read(query, "mode", &p->mode, &p->has_mode, err) < 0) {
        return -EINVAL;
    }
    int r = expiry_parse(p, err);
    return r < 0 ? r : mode_parse(p, err);
}

static int authorize(const struct agent *agent, const struct http_request *http,
                     const struct params *p, bool write, struct err *err)
{
    struct signature_claim claim = {
        .path = buf_str(&p->path),
        .operation = write ? STR("write") : STR("read"),
        .username = buf_str(&p->username),
        .has_expiry = p->has_expiry,
        .expiry_s = p->expiry_s,
    };
    struct str signature = p->has_signature ? buf_str(&p->signature) : (struct str){NULL, 0};

    if (!agent->access_token) {
        return 0;
    }
    if (p->has_signature && !signature.at) {
        signature = STR("");
    }
    return signature_check(&claim, str_of(agent->access_token),
                           http_header_get(http, "x-access-token"), signature,
                           clock_wall_ms() / 1000, err);
}

int files_user(const struct agent *agent, struct str wanted, struct user *out, struct err *err)
{
    char name[sizeof(out->name)];

    if (!wanted.at && (!agent->default_user || !*agent->default_user)) {
        (void)err_set(err, EINVAL, "username not provided");
        return 400;
    }
    if (!wanted.at) {
        wanted = str_of(agent->default_user);
    }
    if (!str_copy(name, sizeof(name), wanted) || user_find(name, out) < 0) {
        (void)err_set(err, ENOENT, "error looking up user '%.*s': user: unknown user %.*s",
                      (int)wanted.len, wanted.at, (int)wanted.len, wanted.at);
        return 401;
    }
    return 0;
}

static struct str username_of(const struct params *p)
{
    struct str name = buf_str(&p->username);

    return !p->has_username ? (struct str){NULL, 0} : name.at ? name : STR("");
}

static char *copy_of(struct str text)
{
    char *copy = xcalloc(text.len + 1, 1); /* at most PARAM_BYTES_MAX */

    if (text.len) {
        memcpy(copy, text.at, text.len);
    }
    return copy;
}

/* Lets the request in, or answers why not. */
static struct files_request *request_admit(struct agent *agent, struct http_exchange *ex,
                                           bool write)
{
    const struct http_request *http = http_request(ex);
    struct files_request *req = xnew(struct files_request);
    scoped(params_fini) struct params p = {0};
    struct err err;
    int status = 0;

    if (params_read(http->query, &p, &err) < 0) {
        status = 400;
    } else if (authorize(agent, http, &p, write, &err) < 0) {
        status = 401;
    } else {
        status = files_user(agent, username_of(&p), &req->user, &err);
    }
    if (status == 0 && buf_len(&p.path) && memchr(buf_at(&p.path), '\0', buf_len(&p.path))) {
        (void)err_set(&err, EINVAL, "the path has a NUL byte");
        status = 400;
    }
    if (status != 0) {
        files_refuse(ex, status, err.msg);
        files_request_free(req);
        return NULL;
    }
    req->loop = agent->loop;
    req->ex = ex;
    req->workdir = agent->default_workdir ? copy_of(str_of(agent->default_workdir)) : NULL;
    req->path = p.has_path ? copy_of(buf_str(&p.path)) : NULL;
    req->has_mode = p.has_mode && !p.has_signature; /* a signature does not cover it */
    req->mode = p.mode_bits;
    return req;
}

bool files_handle(struct agent *agent, struct http_exchange *ex)
{
    const struct http_request *http = http_request(ex);

    if (str_eq(http->path, STR("/files/compose"))) {
        if (str_eq(http->method, STR("POST"))) {
            files_compose(agent, ex);
        } else {
            files_refuse(ex, 405, "/files/compose takes POST");
        }
        return true;
    }
    if (!str_eq(http->path, STR("/files"))) {
        return false;
    }
    bool write = str_eq(http->method, STR("POST"));
    if (!write && !str_eq(http->method, STR("GET"))) {
        files_refuse(ex, 405, "/files takes GET and POST");
        return true;
    }
    struct files_request *req = request_admit(agent, ex, write);
    if (req && write) {
        files_post(req);
    } else if (req) {
        files_get(req);
    }
    return true;
}
