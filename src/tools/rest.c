/* rest.c - the catalogue as plain HTTP: GET /tools, GET and POST /tools/{name}, the OpenAPI
 * document at /tools/openapi.json; POST /api/code/execute; and what Dify's code nodes ask for. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/base/json_body.h"
#include "lib/base/utf8.h"
#include "lib/http/cors.h"
#include "lib/mcp/jsonrpc.h"
#include "tools/catalogue/execute.h"
#include "tools/dify.h"
#include "tools/helpers/helpers.h"
#include "tools/internal.h"
#include "tools/mcp.h"
#include "tools/nearest.h"

enum {
    REAL_DIGITS = 15,
    URL_BYTES = 512,
    NAME_BYTES = 128,
    STATUS_CLIENT_GONE = 499, /* answered to nobody, or to one that stays while we stop */
};

/* ---- answers ---- */

void rest_reply_json(struct http_exchange *ex, int status, const json_t *body)
{
    scoped_text text = json_dumps(body, JSON_COMPACT | JSON_REAL_PRECISION(REAL_DIGITS));

    if (!text) {
        abort(); /* made of values that were checked */
    }
    http_reply(ex, status, "application/json; charset=utf-8", text, strlen(text));
}

void rest_reply_error(struct http_exchange *ex, int status, const char *message)
{
    scoped_json *body = json_object();

    (void)json_object_set_new(body, "code", json_integer(status));
    (void)json_object_set_new(body, "message", json_sentence(message));
    rest_reply_json(ex, status, body);
}

/* ---- requests that need no tool to run ---- */

struct question {
    struct tools *tools;
    struct http_exchange *ex; /* NULL: the client has left */
    const struct tool *tool;  /* NULL: `run` is to be run */
    tool_run *run;
    bool dify; /* the shape of its answers */
    struct tool_call *call;
    struct tools_who who;
    int refused; /* the status of a refusal, which waits for the body to be out of the way */
    struct err why;
    json_t *answer;   /* of a question that needs no call */
    const char *text; /* or the source of a program, sent in place of JSON */
};

static void reply_failure(const struct question *question, int status, const char *message)
{
    if (question->dify) {
        scoped_json *body = dify_failure(status, message);
        rest_reply_json(question->ex, status == 400 || status == 401 ? status : 200, body);
    } else {
        rest_reply_error(question->ex, status, message);
    }
}

static void question_free(struct question *question)
{
    json_decref(question->answer);
    free(question);
}

static void refuse(struct question *question, int status, const char *fmt, ...) printf_like(3, 4);
static void refuse(struct question *question, int status, const char *fmt, ...)
{
    char text[sizeof(question->why.msg)];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    question->refused = status;
    (void)err_set(&question->why, EINVAL, "%s", text);
}

static struct question *question_new(struct tools *tools, struct http_exchange *ex,
                                     const char *method, bool open)
{
    struct question *question = xnew(struct question);
    const struct http_request *req = http_request(ex);
    struct err err;

    question->tools = tools;
    question->ex = ex;
    if (mcp_origin_allowed(http_header_get(req, "origin"), tools_options(tools)->domain)) {
        cors_also(ex, CORS_API);
    }
    if (!open && tools_authenticate(tools, req, &question->who, &err) < 0) {
        refuse(question, 401, "%s", err.msg);
    } else if (!str_eq(req->method, STR("GET")) && !str_eq(req->method, str_of(method))) {
        refuse(question, 405, "this path does not take that method");
    }
    return question;
}

static void on_question(void *ctx, struct http_exchange *ex, int error, struct str body)
{
    struct question *question = ctx;

    (void)body;
    if (error == 0 || error == -EMSGSIZE) {
        if (question->refused) {
            reply_failure(question, question->refused, question->why.msg);
        } else if (question->text) {
            http_reply(ex, 200, "text/x-python; charset=utf-8", question->text,
                       strlen(question->text));
        } else {
            rest_reply_json(ex, 200, question->answer);
        }
    }
    question_free(question);
}

static void question_answer(struct question *question)
{
    http_gather(question->ex, 0, on_question, NULL, question);
}

static json_t *tool_json(const struct tools *tools, const struct tool *tool)
{
    json_t *out = json_pack("{ss ss ss ss sb sb}", "name", tool->name, "title", tool->title,
                            "group", tool->group, "description", tool->description, "reads_only",
                            tool->reads_only, "destroys", tool->destroys);

    (void)json_object_set_new(out, "input_schema", json_deep_copy(tools_input(tools, tool)));
    (void)json_object_set_new(out, "output_schema", json_deep_copy(tools_output(tools, tool)));
    return out;
}

void rest_list(struct tools *tools, struct http_exchange *ex)
{
    struct question *question = question_new(tools, ex, "GET", false);
    json_t *list = json_array();

    for (size_t i = 0; i < tools_catalogue_n; i++) {
        (void)json_array_append_new(list, tool_json(tools, &tools_catalogue[i]));
    }
    question->answer = json_pack("{so}", "tools", list);
    question_answer(question);
}

/* Our address as the client uses it; behind a proxy, as the proxy reports it. */
static void own_url(const struct http_request *req, char out[URL_BYTES])
{
    struct str forwarded = http_header_get(req, "x-forwarded-proto");
    struct str scheme = str_ieq(forwarded, STR("https")) ? STR("https") : req->scheme;
    struct str host = http_header_get(req, "x-forwarded-host");

    host = host.len ? host : req->authority;
    (void)snprintf(out, URL_BYTES, "%.*s://%.*s", (int)scheme.len, scheme.at, (int)host.len,
                   host.at);
}

/* Open to all: builders fetch it before they have a key, and it holds nothing about any team. */
void rest_openapi(struct tools *tools, struct http_exchange *ex)
{
    struct question *question = question_new(tools, ex, "GET", true);
    char url[URL_BYTES];

    own_url(http_request(ex), url);
    question->answer = openapi_document(tools, utf8_valid(str_of(url)) ? url : "/");
    question_answer(question);
}

/* Open as well: it is the same for everybody. */
void rest_helper(struct tools *tools, struct http_exchange *ex)
{
    struct question *question = question_new(tools, ex, "GET", true);

    question->text = helper_python;
    question_answer(question);
}

/* ---- a call ---- */

static void on_done(void *ctx, int error, const json_t *out, const struct err *err)
{
    struct question *question = ctx;

    if (error == 0) {
        rest_reply_json(question->ex, 200, out);
    } else {
        int status = error == -ECANCELED ? STATUS_CLIENT_GONE : call_status_of(error);
        reply_failure(question, status, err->msg);
    }
    question_free(question);
}

static void on_gone(void *ctx)
{
    struct question *question = ctx;
    struct tool_call *call = question->call;

    question_free(question);
    call_abandon(call);
}

/* The language that a GET of Dify's names. */
static int query_take(const struct question *question, json_t **input, struct err *err)
{
    scoped_buf(language, NAME_BYTES);
    int r = http_query_get(http_request(question->ex)->query, "language", &language);

    if (r < 0 || (buf_len(&language) > 0 && memchr(buf_at(&language), '\0', buf_len(&language)))) {
        return err_set(err, EINVAL, "validation error: language is not a valid query parameter");
    }
    *input = json_object();
    if (buf_len(&language) > 0) {
        (void)json_object_set_new(*input, "language",
                                  json_stringn(buf_at(&language), buf_len(&language)));
    }
    return 0;
}

static void begin(struct question *question, struct str body)
{
    static const struct call_listener listener = {.done = on_done};
    json_t *input = NULL;
    struct err err;

    bool by_query = question->dify && str_eq(http_request(question->ex)->method, STR("GET"));
    int r = by_query ? query_take(question, &input, &err) : body_parse(body, true, &input, &err);
    if (r == 0 && question->tool) {
        r = call_start(question->tools, question->tool, &question->who, input, &listener, question,
                       &question->call, &err);
    } else if (r == 0) {
        r = call_start_run(question->tools, question->run, &question->who, input, &listener,
                           question, &question->call, &err);
    }
    if (r < 0) {
        reply_failure(question, call_status_of(r), err.msg);
        question_free(question);
    }
}

static void on_body(void *ctx, struct http_exchange *ex, int error, struct str body)
{
    struct question *question = ctx;

    (void)ex; /* the question has it */
    if (error < 0 && error != -EMSGSIZE) {
        question_free(question);
    } else if (question->refused) {
        reply_failure(question, question->refused, question->why.msg);
        question_free(question);
    } else if (error == -EMSGSIZE) {
        char text[NAME_BYTES];

        (void)snprintf(text, sizeof(text), "the body is larger than %d bytes",
                       TOOLS_BODY_BYTES_MAX);
        reply_failure(question, 413, text);
        question_free(question);
    } else {
        begin(question, body);
    }
}

static void refuse_unknown(struct question *question, struct str name)
{
    struct nearest nearest = {.word = name};
    int shown = name.len < NAME_BYTES ? (int)name.len : NAME_BYTES;

    for (size_t i = 0; i < tools_catalogue_n; i++) {
        nearest_offer(&nearest, tools_catalogue[i].name);
    }
    if (nearest.best) {
        refuse(question, 404, "there is no tool '%.*s'; did you mean %s?", shown, name.at,
               nearest.best);
    } else {
        refuse(question, 404, "there is no tool '%.*s'; GET /tools lists them", shown, name.at);
    }
}

void rest_call(struct tools *tools, struct http_exchange *ex, struct str name)
{
    struct question *question = question_new(tools, ex, "POST", false);

    question->tool = tool_find(name);
    if (!question->refused && !question->tool) {
        refuse_unknown(question, name);
    }
    if (question->refused) {
        question_answer(question);
    } else if (str_eq(http_request(ex)->method, STR("GET"))) {
        question->answer = tool_json(tools, question->tool);
        question_answer(question);
    } else {
        http_gather_watched(ex, TOOLS_BODY_BYTES_MAX, on_body, on_gone, question);
    }
}

/* Runs work that is no tool of the catalogue. */
static void question_run(struct question *question, const char *method, tool_run *run)
{
    question->run = run;
    if (!question->refused && !str_eq(http_request(question->ex)->method, str_of(method))) {
        refuse(question, 405, "this path takes %s", method);
    }
    if (question->refused) {
        question_answer(question);
    } else {
        http_gather_watched(question->ex, TOOLS_BODY_BYTES_MAX, on_body, on_gone, question);
    }
}

void rest_dify(struct tools *tools, struct http_exchange *ex, const struct dify_route *route)
{
    struct question *question = question_new(tools, ex, route->method, false);

    question->dify = true;
    question_run(question, route->method, route->run);
}

void rest_execute(struct tools *tools, struct http_exchange *ex)
{
    question_run(question_new(tools, ex, "POST", false), "POST", tools_execute.run);
}
