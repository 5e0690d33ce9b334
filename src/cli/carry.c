/* carry.c - one request of `atoll mcp` to the daemon, and what comes back. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/alloc.h"
#include "base/encode.h"
#include "cli/bridge.h"
#include "cli/call.h"
#include "http/upstream.h"
#include "mcp/jsonrpc.h"
#include "mcp/sse.h"

enum { HEADERS_MAX = 9, NAME_BYTES_MAX = 4096 };

#define META_VERSION "io.modelcontextprotocol/protocolVersion"

struct carry {
    struct carry *prev, *next;
    struct bridge *bridge;
    struct upstream *up;
    enum carry_kind kind;
    json_t *message; /* NULL: there is none */
    char *line;      /* the same as it is sent */
    char session[BRIDGE_SESSION_BYTES];
    bool again; /* it was sent before, in a session that is lost */
    bool told;  /* its request has its answer */
    int status;
    bool events;
    struct sse_reader reader;
    struct buf answer;
};

static void carry_free(struct carry *carry)
{
    upstream_close(carry->up);
    sse_reader_fini(&carry->reader);
    buf_fini(&carry->answer);
    json_decref(carry->message);
    free(carry->line);
    free(carry);
}

static json_t *request_id(const struct carry *carry)
{
    bool asks = json_object_get(carry->message, "method") != NULL;

    return asks ? json_object_get(carry->message, "id") : NULL;
}

/* ---- what comes back ---- */

static void message_take(struct carry *carry, struct str text)
{
    struct err err;
    json_t *json = NULL;

    if (carry->kind == CARRY_OPEN || carry->kind == CARRY_INITIALIZE) {
        if (jsonrpc_parse(text, &json, &err) == 0) {
            bridge_opened(carry->bridge, carry->kind, json);
        }
        json_decref(json);
    }
    carry->told = true;
    if (carry->kind != CARRY_OPEN) {
        bridge_write(text);
    }
}

static void on_event(void *ctx, struct str data)
{
    struct carry *carry = ctx;
    json_t *json = NULL;
    struct err err;
    bool told = carry->told;

    if (jsonrpc_parse(data, &json, &err) < 0) {
        return;
    }
    bool answers = json_object_get(json, "method") == NULL;
    json_decref(json);
    message_take(carry, data);
    carry->told = told || answers;
}

/* An error that the daemon could not give an id is of the request that was sent. */
static void refusal_take(struct carry *carry)
{
    json_t *json = NULL, *id = request_id(carry);
    struct err err;
    char sentence[96];

    if (jsonrpc_parse(buf_str(&carry->answer), &json, &err) == 0 &&
        json_object_get(json, "error")) {
        if (id) {
            (void)json_object_set(json, "id", id);
            char *text = json_dumps(json, JSON_COMPACT);
            message_take(carry, str_of(text));
            free(text);
        } else {
            (void)cli_fail(0, "%s", answer_text(json_object_get(json, "error"), "message"));
        }
    } else if (id) {
        (void)snprintf(sentence, sizeof(sentence), "the daemon answered with status %d",
                       carry->status);
        bridge_fail(id, JSONRPC_INTERNAL_ERROR, sentence);
    }
    carry->told = true;
    json_decref(json);
}

static void on_response(void *ctx, int status, const struct http_header *headers, size_t n,
                        int64_t content_length)
{
    struct carry *carry = ctx;

    (void)content_length;
    carry->status = status;
    for (size_t i = 0; i < n; i++) {
        if (str_ieq(headers[i].name, STR("content-type"))) {
            carry->events = str_starts(headers[i].value, STR("text/event-stream"));
        } else if (str_ieq(headers[i].name, STR("mcp-session-id")) && status == 200) {
            (void)str_copy(carry->bridge->session, sizeof(carry->bridge->session),
                           headers[i].value);
        }
    }
    upstream_credit(carry->up, HTTP_WINDOW_BYTES);
}

static void on_body(void *ctx, const void *data, size_t len)
{
    struct carry *carry = ctx;
    int r =
        carry->events ? sse_read(&carry->reader, data, len) : buf_append(&carry->answer, data, len);

    if (r < 0) {
        (void)cli_fail(0, "an answer is too long");
        return; /* without credit nothing more comes; the client may cancel */
    }
    upstream_credit(carry->up, len);
}

static void carry_conclude(struct carry *carry, int error)
{
    char sentence[128];
    json_t *id = request_id(carry);

    if (error == 0 && carry->status >= 400) {
        refusal_take(carry);
    } else if (error == 0 && !carry->events && buf_len(&carry->answer) > 0) {
        message_take(carry, buf_str(&carry->answer));
    } else if (error < 0 && id && !carry->told && carry->kind != CARRY_OPEN) {
        (void)snprintf(sentence, sizeof(sentence), "the daemon did not answer: %s",
                       strerrordesc_np(-error));
        bridge_fail(id, JSONRPC_INTERNAL_ERROR, sentence);
    }
}

static void on_end(void *ctx, int error)
{
    struct carry *carry = ctx;
    struct bridge *bridge = carry->bridge;
    enum carry_kind kind = carry->kind;
    bool lost = error == 0 && carry->status == 404 && carry->session[0] && !carry->again &&
                kind == CARRY_MESSAGE;

    DL_DELETE(bridge->carries, carry);
    if (lost) {
        DL_APPEND(bridge->lost, carry);
        bridge_lost(bridge);
        return;
    }
    carry_conclude(carry, error);
    carry_free(carry);
    bridge_ended(bridge, kind);
}

/* ---- what is sent ---- */

static const struct upstream_handler handler = {
    .on_response = on_response,
    .on_body = on_body,
    .on_end = on_end,
};

/* A header's value: what could not be one is sent in base64. */
static int name_encode(struct buf *out, const char *name)
{
    bool plain = name[0] != '\0' && strncmp(name, "=?", 2) != 0;

    for (const char *c = name; *c; c++) {
        plain = plain && *c > ' ' && *c < 0x7f;
    }
    if (plain) {
        return buf_append(out, name, strlen(name));
    }
    int r = buf_append(out, "=?base64?", 9);
    if (r == 0) {
        r = base64_encode(out, name, strlen(name), BASE64_STD);
    }
    return r == 0 ? buf_append(out, "?=", 2) : r;
}

/* A message of a revision without sessions says in headers what it is, too. */
static size_t message_headers(const struct carry *carry, struct buf *name, struct http_header *out)
{
    const json_t *params = json_object_get(carry->message, "params");
    const char *version =
        json_string_value(json_object_get(json_object_get(params, "_meta"), META_VERSION));
    const char *method = json_string_of(carry->message, "method");
    const char *tool = json_string_of(params, "name");
    struct str spoken = str_of(version ? version : carry->bridge->version);
    size_t n = 0;

    if (spoken.len > 0) {
        out[n++] = (struct http_header){STR("mcp-protocol-version"), spoken};
    }
    if (version && method) {
        out[n++] = (struct http_header){STR("mcp-method"), str_of(method)};
    }
    if (version && tool && name_encode(name, tool) == 0) {
        out[n++] = (struct http_header){STR("mcp-name"), buf_str(name)};
    }
    return n;
}

static void carry_send(struct carry *carry)
{
    const struct endpoint *endpoint = &carry->bridge->endpoint;
    bool posts = carry->line != NULL;
    const char *method = posts ? "POST" : carry->kind == CARRY_LISTEN ? "GET" : "DELETE";
    size_t len = posts ? strlen(carry->line) : 0, n = 4;
    scoped_buf(name, NAME_BYTES_MAX);
    struct http_header headers[HEADERS_MAX] = {
        {STR("host"), str_skip(str_of(endpoint->url), strlen("http://"))},
        {STR("x-api-key"), str_of(endpoint->key)},
        {STR("content-type"), STR("application/json")},
        {STR("accept"),
         posts ? STR("application/json, text/event-stream") : STR("text/event-stream")},
    };

    if (carry->session[0]) {
        headers[n++] = (struct http_header){STR("mcp-session-id"), str_of(carry->session)};
    }
    if (carry->kind != CARRY_INITIALIZE && carry->kind != CARRY_OPEN) {
        n += message_headers(carry, &name, headers + n);
    }
    upstream_send(carry->up, str_of(method), str_of(carry->bridge->path), headers, n, (int64_t)len,
                  false, &handler, carry);
    if (len) {
        upstream_write(carry->up, carry->line, len);
    }
    upstream_finish(carry->up);
}

static void carry_connect(struct carry *carry)
{
    struct bridge *bridge = carry->bridge;
    enum carry_kind kind = carry->kind;
    struct err err;

    buf_init(&carry->answer, BRIDGE_ANSWER_BYTES_MAX);
    sse_reader_init(&carry->reader, BRIDGE_ANSWER_BYTES_MAX, on_event, carry);
    carry->status = 0;
    if (kind != CARRY_INITIALIZE && kind != CARRY_OPEN) {
        (void)str_copy(carry->session, sizeof(carry->session), str_of(bridge->session));
    }
    int fd = endpoint_dial(&bridge->endpoint, &err);
    if (fd >= 0 && upstream_new(&bridge->loop, fd, &carry->up, &err) == 0) {
        DL_APPEND(bridge->carries, carry);
        carry_send(carry);
        return;
    }
    if (request_id(carry) && kind != CARRY_OPEN) {
        bridge_fail(request_id(carry), JSONRPC_INTERNAL_ERROR, err.msg);
    }
    carry_free(carry);
    bridge_ended(bridge, kind);
}

void carry_start(struct bridge *bridge, enum carry_kind kind, json_t *message, char *line)
{
    struct carry *carry = xnew(struct carry);

    carry->bridge = bridge;
    carry->kind = kind;
    carry->message = message;
    carry->line = line;
    carry_connect(carry);
}

void carries_again(struct bridge *bridge)
{
    struct carry *carry = bridge->lost, *next;

    bridge->lost = NULL;
    for (; carry; carry = next) {
        next = carry->next;
        upstream_close(move_ptr(&carry->up));
        sse_reader_fini(&carry->reader);
        buf_fini(&carry->answer);
        carry->again = true;
        carry_connect(carry);
    }
}

bool carries_busy(const struct bridge *bridge)
{
    const struct carry *carry;

    DL_FOREACH (bridge->carries, carry) {
        if (carry->kind != CARRY_LISTEN) {
            return true;
        }
    }
    return false;
}
