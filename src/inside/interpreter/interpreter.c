#include "inside/interpreter/interpreter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "inside/interpreter/context.h"
#include "inside/interpreter/json_read.h"
#include "lib/base/alloc.h"
#include "lib/base/log.h"
#include "lib/http/cors.h"
#include "lib/http/status.h"

enum {
    CONTEXTS_MAX = 64,
    CONTEXT_BODY_BYTES_MAX = 64 * 1024,
    PATH_BYTES_MAX = 4096,
    WHY_BYTES_MAX = 512,
    FROM_DIGITS_MAX = 18, /* no overflow */
};

struct interpreter {
    struct interpreter_options options;
    struct sandbox_env *sandbox_env;
    struct context *contexts[CONTEXTS_MAX]; /* in the order they were made */
    bool is_default[CONTEXTS_MAX];
    size_t n;
};

/* ---- contexts ---- */

static struct context *context_find(const struct interpreter *in, struct str id)
{
    for (size_t i = 0; i < in->n; i++) {
        if (str_eq(id, str_of(context_id(in->contexts[i])))) {
            return in->contexts[i];
        }
    }
    return NULL;
}

static struct context *default_find(const struct interpreter *in, const char *language)
{
    for (size_t i = 0; i < in->n; i++) {
        if (in->is_default[i] && strcmp(language, context_language(in->contexts[i])) == 0) {
            return in->contexts[i];
        }
    }
    return NULL;
}

static int cwd_check(const char *cwd, struct err *err)
{
    struct stat st;

    if (cwd[0] != '/') {
        return err_set(err, EINVAL, "cwd must be an absolute path, and %.100s is not", cwd);
    }
    if (stat(cwd, &st) < 0 || !S_ISDIR(st.st_mode)) {
        return err_set(err, ENOTDIR,
                       "Failed to set working directory: there is no directory %.100s", cwd);
    }
    return 0;
}

static int context_make(struct interpreter *in, struct str language_text, const char *cwd,
                        bool is_default, struct context **out, struct err *err)
{
    char language[SPEC_NAME_LEN_MAX + 1];
    struct context_options options = {
        .loop = in->options.loop,
        .sandbox_env = in->sandbox_env,
        .language = language,
        .cwd = cwd,
        .run_dir = in->options.run_dir,
        .start_s_max = in->options.start_s_max,
    };
    if (in->n == CONTEXTS_MAX) {
        return err_set(err, EAGAIN, "There are %d contexts already; remove one first",
                       CONTEXTS_MAX);
    }
    if (spec_language(language_text, language) < 0) {
        return err_set(err, EINVAL, "The language's name is no name of a kernel");
    }
    int r = cwd_check(cwd, err);
    if (r == 0) {
        r = spec_find(in->options.kernels_dir, language, &options.spec, err);
    }
    if (r < 0) {
        return r;
    }
    in->is_default[in->n] = is_default;
    *out = in->contexts[in->n++] = context_new(&options);
    return 0;
}

static void context_remove(struct interpreter *in, struct context *c)
{
    size_t i = 0;

    while (in->contexts[i] != c) {
        i++;
    }
    in->n--;
    memmove(&in->contexts[i], &in->contexts[i + 1], (in->n - i) * sizeof(in->contexts[0]));
    memmove(&in->is_default[i], &in->is_default[i + 1], (in->n - i) * sizeof(in->is_default[0]));
    context_free(c);
}

static void on_env_known(void *ctx)
{
    struct interpreter *in = ctx;

    for (size_t i = 0; i < in->n; i++) {
        context_env_known(in->contexts[i]);
    }
}

/* ---- POST /execute ---- */

static void answer(struct http_exchange *ex, int status, const char *why)
{
    http_answer(ex, status, "text/plain; charset=utf-8", why, strlen(why));
}

/* Whether the request is one; its parts are then in e. */
static int request_check(struct execution *e, struct err *err)
{
    const json_t *code = json_object_get(e->request, "code");
    json_t *env = json_object_get(e->request, "env_vars");

    if (!json_is_object(e->request)) {
        return err_set(err, EINVAL, "The body must be a JSON object");
    }
    if (!json_is_string(code)) {
        return err_set(err, EINVAL, "code must be a string");
    }
    if (env && !json_is_object(env) && !json_is_null(env)) {
        return err_set(err, EINVAL, "env_vars must be an object of strings");
    }
    for (void *at = json_object_iter(env); at; at = json_object_iter_next(env, at)) {
        const json_t *value = json_object_iter_value(at);
        const char *name = json_object_iter_key(at);
        if (!json_is_string(value) || !*name || strchr(name, '=') ||
            strlen(json_string_value(value)) != json_string_length(value)) {
            return err_set(err, EINVAL, "env_vars must be an object of strings");
        }
    }
    e->code = (struct str){json_string_value(code), json_string_length(code)};
    e->env = json_object_size(env) ? env : NULL;
    return 0;
}

static int text_or_null(const json_t *request, const char *name, struct str *out, struct err *err)
{
    const json_t *value = json_object_get(request, name);

    if (value && !json_is_string(value) && !json_is_null(value)) {
        return err_set(err, EINVAL, "%s must be a string", name);
    }
    *out = (struct str){json_string_value(value), json_string_length(value)};
    return 0;
}

static int default_get(struct interpreter *in, struct str language_text, struct context **out,
                       struct err *err)
{
    char language[SPEC_NAME_LEN_MAX + 1];

    *out = spec_language(language_text, language) < 0 ? NULL : default_find(in, language);
    return *out ? 0 : context_make(in, language_text, in->options.cwd, true, out, err);
}

static int context_choose(struct interpreter *in, const json_t *request, struct context **out,
                          struct err *err)
{
    struct str id = {NULL, 0}, language = {NULL, 0};
    int r = text_or_null(request, "context_id", &id, err);

    if (r == 0) {
        r = text_or_null(request, "language", &language, err);
    }
    if (r < 0) {
        return r;
    }
    if (id.len && language.len) {
        return err_set(err, EINVAL, "Only one of context_id or language can be provided");
    }
    if (!id.len) {
        return default_get(in, language, out, err);
    }
    *out = context_find(in, id);
    return *out ? 0
                : err_set(err, ESRCH, "Context %.*s not found", (int)(id.len < 100 ? id.len : 100),
                          id.at);
}

static int execute(struct interpreter *in, struct execution *e, struct err *err)
{
    struct context *c = NULL;

    e->request = json_read(buf_str(&e->body));
    int r = request_check(e, err);
    if (r == 0) {
        r = context_choose(in, e->request, &c, err);
    }
    if (r < 0) {
        return r;
    }
    if (e->env && !context_has_env(c)) {
        return err_set(err, EINVAL, "env_vars cannot be set in a context of the language %s",
                       context_language(c));
    }
    if (context_is_full(c)) {
        return err_set(err, EAGAIN, "%d executions wait in this context already",
                       CONTEXT_QUEUE_MAX);
    }
    execution_begin(e);
    context_submit(c, e);
    return 0;
}

static void on_execute(void *ctx, struct execution *e, int error)
{
    struct err err;
    int r = error < 0 ? err_set(&err, -error, "The request is longer than %d MiB",
                                EXECUTION_BODY_BYTES_MAX >> 20)
                      : execute(ctx, e, &err);

    if (r < 0) {
        execution_refuse(e, status_of_errno(STATUS_INTERPRETER, r), err.msg);
    }
}

static void execute_accept(struct interpreter *in, struct http_exchange *ex)
{
    execution_accept(in->options.loop, ex, on_execute, in);
}

/* GET /executions/{id}: the daemon continues the answer to an execution (wire/rejoin.h). */
static void execution_route(struct http_exchange *ex, struct str method, struct str id)
{
    scoped_buf(from, FROM_DIGITS_MAX);
    uint64_t bytes = 0;
    bool is_number = http_query_get(http_request(ex)->query, "from", &from) == 1;

    for (size_t i = 0; i < buf_len(&from); i++) {
        char digit = buf_at(&from)[i];
        is_number = is_number && digit >= '0' && digit <= '9';
        bytes = bytes * 10 + (uint64_t)(digit - '0');
    }
    if (!str_eq(method, STR("GET"))) {
        answer(ex, 405, "Method Not Allowed");
    } else if (!is_number || !execution_rejoin(ex, id, bytes)) {
        answer(ex, 404, "There is no such execution that could be continued");
    }
}

/* ---- /contexts ---- */

static void reply(struct http_exchange *ex, int status, const char *why)
{
    http_reply(ex, status, "text/plain; charset=utf-8", why, strlen(why));
}

static void reply_json(struct http_exchange *ex, json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

    http_reply(ex, 200, "application/json", text, text ? strlen(text) : 0);
    free(text);
    json_decref(value);
}

static json_t *context_json(const struct context *c)
{
    return json_pack("{s:s, s:s, s:s}", "id", context_id(c), "language", context_language(c), "cwd",
                     context_cwd(c));
}

static void contexts_list(struct interpreter *in, struct http_exchange *ex)
{
    json_auto_t *list = json_array();

    for (size_t i = 0; i < in->n; i++) {
        (void)json_array_append_new(list, context_json(in->contexts[i]));
    }
    char *text = json_dumps(list, JSON_COMPACT);
    http_answer(ex, 200, "application/json", text, text ? strlen(text) : 0);
    free(text);
}

/* A client that waits until a context's kernel is ready. */
struct pending {
    struct interpreter *in;
    struct http_exchange *ex; /* NULL: the client has left */
    char id[ID_UUID_LEN + 1];
    bool is_new; /* the context is removed again when its kernel does not start */
};

static void on_context_ready(void *ctx, const char *why)
{
    struct pending *p = ctx;
    struct context *c = context_find(p->in, str_of(p->id));

    if (p->ex && why) {
        reply(p->ex, 500, why);
    } else if (p->ex) {
        reply_json(p->ex, p->is_new && c ? context_json(c) : json_null());
    }
    if (why && p->is_new && c) {
        context_remove(p->in, c);
    }
    free(p);
}

static void on_client_gone(void *ctx)
{
    ((struct pending *)ctx)->ex = NULL;
}

static void ready_wait(struct pending *p, struct context *c)
{
    (void)str_copy(p->id, sizeof(p->id), str_of(context_id(c)));
    context_when_ready(c, on_context_ready, p);
}

static int create(struct interpreter *in, struct str body, struct context **out, struct err *err)
{
    json_auto_t *request = body.len ? json_read(body) : json_object();
    struct str language = {NULL, 0}, cwd = {NULL, 0};
    char path[PATH_BYTES_MAX];

    int r = json_is_object(request) ? 0 : err_set(err, EINVAL, "The body must be a JSON object");
    if (r == 0) {
        r = text_or_null(request, "language", &language, err);
    }
    if (r == 0) {
        r = text_or_null(request, "cwd", &cwd, err);
    }
    if (r < 0) {
        return r;
    }
    if (!str_copy(path, sizeof(path), cwd.len ? cwd : str_of(in->options.cwd))) {
        return err_set(err, EINVAL, "cwd is no path");
    }
    return context_make(in, language, path, false, out, err);
}

static void on_create(void *ctx, struct http_exchange *ex, int error, struct str body)
{
    struct pending *p = ctx;
    struct context *c = NULL;
    struct err err;

    if (error < 0 && error != -EMSGSIZE) {
        free(p);
        return;
    }
    int r = error < 0 ? err_set(&err, -error, "The request is longer than %d KiB",
                                CONTEXT_BODY_BYTES_MAX >> 10)
                      : create(p->in, body, &c, &err);
    if (r < 0) {
        reply(ex, status_of_errno(STATUS_INTERPRETER, r), err.msg);
        free(p);
        return;
    }
    p->ex = ex;
    ready_wait(p, c);
}

static void contexts_create(struct interpreter *in, struct http_exchange *ex)
{
    struct pending *p = xnew(struct pending);

    *p = (struct pending){.in = in, .is_new = true};
    http_gather(ex, CONTEXT_BODY_BYTES_MAX, on_create, on_client_gone, p);
}

static void on_restart(void *ctx, struct http_exchange *ex, int error, struct str body)
{
    struct pending *p = ctx;
    struct context *c = context_find(p->in, str_of(p->id));

    (void)body;
    if (error < 0 && error != -EMSGSIZE) {
        free(p);
        return;
    }
    if (!c) {
        reply(ex, 404, "The context is gone");
        free(p);
        return;
    }
    p->ex = ex;
    context_restart(c);
    ready_wait(p, c);
}

static void context_restart_wait(struct interpreter *in, struct context *c,
                                 struct http_exchange *ex)
{
    struct pending *p = xnew(struct pending);

    *p = (struct pending){.in = in};
    (void)str_copy(p->id, sizeof(p->id), str_of(context_id(c)));
    http_gather(ex, CONTEXT_BODY_BYTES_MAX, on_restart, on_client_gone, p);
}

/* ---- routes ---- */

static bool is_up(const struct interpreter *in)
{
    for (const char *const *language = in->options.warm_languages; *language; language++) {
        const struct context *c = default_find(in, *language);
        if (c && !context_was_ready(c)) {
            return false;
        }
    }
    return true;
}

static void health(struct interpreter *in, struct http_exchange *ex)
{
    if (is_up(in)) {
        http_answer(ex, 200, "application/json", "\"OK\"", strlen("\"OK\""));
    } else {
        answer(ex, 503, "Kernels are starting");
    }
}

/* Path below /contexts/: an id, or an id and "/restart". */
static void context_route(struct interpreter *in, struct http_exchange *ex, struct str method,
                          struct str path)
{
    struct str id = {path.at, str_find(path, '/')};
    struct str verb = str_skip(path, id.len);
    struct context *c = context_find(in, id);
    char why[WHY_BYTES_MAX];

    if (verb.len && !str_eq(verb, STR("/restart"))) {
        answer(ex, 404, "Not Found");
    } else if (!str_eq(method, verb.len ? STR("POST") : STR("DELETE"))) {
        answer(ex, 405, "Method Not Allowed");
    } else if (!c) {
        (void)snprintf(why, sizeof(why), "Context %.*s not found",
                       (int)(id.len < 100 ? id.len : 100), id.at);
        answer(ex, 404, why);
    } else if (verb.len) {
        context_restart_wait(in, c, ex);
    } else {
        context_remove(in, c);
        http_answer(ex, 200, "application/json", "null", strlen("null"));
    }
}

static const struct {
    struct str method;
    struct str path;
    void (*serve)(struct interpreter *in, struct http_exchange *ex);
} routes[] = {
    {STR("GET"), STR("/health"), health},
    {STR("POST"), STR("/execute"), execute_accept},
    {STR("GET"), STR("/contexts"), contexts_list},
    {STR("POST"), STR("/contexts"), contexts_create},
};

void interpreter_request(void *ctx, struct http_exchange *ex)
{
    struct interpreter *in = ctx;
    const struct http_request *request = http_request(ex);
    bool known = false;

    cors_also(ex, CORS_INTERPRETER);
    if (str_eq(request->method, STR("OPTIONS"))) {
        http_answer(ex, 200, NULL, NULL, 0);
        return;
    }
    if (str_starts(request->path, STR(EXECUTIONS_PATH))) {
        execution_route(ex, request->method, str_skip(request->path, strlen(EXECUTIONS_PATH)));
        return;
    }
    if (str_starts(request->path, STR("/contexts/"))) {
        context_route(in, ex, request->method, str_skip(request->path, strlen("/contexts/")));
        return;
    }
    for (size_t i = 0; i < countof(routes); i++) {
        bool same = str_eq(request->path, routes[i].path);
        if (same && str_eq(request->method, routes[i].method)) {
            routes[i].serve(in, ex);
            return;
        }
        known = known || same;
    }
    answer(ex, known ? 405 : 404, known ? "Method Not Allowed" : "Not Found");
}

/* ---- life ---- */

struct interpreter *interpreter_new(const struct interpreter_options *options)
{
    struct interpreter *in = xnew(struct interpreter);
    struct context *c;
    struct err err;

    in->options = *options;
    in->sandbox_env = sandbox_env_new(options->loop, options->agent_port, options->boot_id_file,
                                      on_env_known, in);
    for (const char *const *language = options->warm_languages; *language; language++) {
        if (context_make(in, str_of(*language), options->cwd, true, &c, &err) < 0) {
            log_error("%s", err.msg);
        }
    }
    return in;
}

void interpreter_free(struct interpreter *in)
{
    while (in->n) {
        context_remove(in, in->contexts[in->n - 1]);
    }
    executions_forget();
    sandbox_env_free(in->sandbox_env);
    free(in);
}
