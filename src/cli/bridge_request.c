/* bridge_request.c - one request of `atoll mcp` to the daemon, and its answer. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "cli/bridge.h"
#include "cli/call.h"
#include "lib/base/alloc.h"
#include "lib/base/encode.h"
#include "lib/mcp/jsonrpc.h"
#include "lib/mcp/sse.h"
#include "lib/web/multi.h"

enum { NAME_BYTES_MAX = 4096 };

#define META_VERSION "io.modelcontextprotocol/protocolVersion"

struct bridge_request {
    struct bridge_request *prev, *next;
    struct bridge *bridge;
    struct transfer transfer;
    struct curl_slist *headers;
    enum bridge_request_kind kind;
    json_t *message; /* NULL: there is none */
    char *line;      /* the same as it is sent */
    char session[BRIDGE_SESSION_BYTES];
    bool again; /* it was sent before, in a session that expired */
    bool told;  /* the request has been answered */
    long status;
    bool events;
    struct sse_reader reader;
    struct buf answer;
};

/* Ends the request. The message stays, and may be sent again. */
static void request_close(struct bridge_request *request)
{
    transfer_end(&request->transfer);
    curl_slist_free_all(move_ptr(&request->headers));
    sse_reader_fini(&request->reader);
    buf_fini(&request->answer);
}

static void request_free(struct bridge_request *request)
{
    request_close(request);
    json_decref(request->message);
    free(request->line);
    free(request);
}

static json_t *request_id(const struct bridge_request *request)
{
    bool asks = json_object_get(request->message, "method") != NULL;

    return asks ? json_object_get(request->message, "id") : NULL;
}

/* ---- what comes back ---- */

static void message_take(struct bridge_request *request, struct str text)
{
    struct err err;
    json_t *json = NULL;

    if (request->kind == BRIDGE_REQUEST_OPEN || request->kind == BRIDGE_REQUEST_INITIALIZE) {
        if (jsonrpc_parse(text, &json, &err) == 0) {
            bridge_opened(request->bridge, request->kind, json);
        }
        json_decref(json);
    }
    request->told = true;
    if (request->kind != BRIDGE_REQUEST_OPEN) {
        bridge_write(text);
    }
}

static void on_event(void *ctx, struct str data)
{
    struct bridge_request *request = ctx;
    json_t *json = NULL;
    struct err err;
    bool told = request->told;

    if (jsonrpc_parse(data, &json, &err) < 0) {
        return;
    }
    bool answers = json_object_get(json, "method") == NULL;
    json_decref(json);
    message_take(request, data);
    request->told = told || answers;
}

/* An error without an id belongs to the request that was sent. */
static void refusal_take(struct bridge_request *request)
{
    json_t *json = NULL, *id = request_id(request);
    struct err err;
    char sentence[96];

    if (jsonrpc_parse(buf_str(&request->answer), &json, &err) == 0 &&
        json_object_get(json, "error")) {
        if (id) {
            (void)json_object_set(json, "id", id);
            char *text = json_dumps(json, JSON_COMPACT);
            message_take(request, str_of(text));
            free(text);
        } else {
            (void)cli_fail(0, "%s", answer_text(json_object_get(json, "error"), "message"));
        }
    } else if (id) {
        (void)snprintf(sentence, sizeof(sentence), "the daemon answered with status %ld",
                       request->status);
        bridge_fail(id, JSONRPC_INTERNAL_ERROR, sentence);
    }
    request->told = true;
    json_decref(json);
}

static size_t on_header(char *data, size_t size, size_t n, void *ctx)
{
    struct bridge_request *request = ctx;
    struct str name, value;
    long status = 0;

    (void)curl_easy_getinfo(request->transfer.easy, CURLINFO_RESPONSE_CODE, &status);
    if (!header_split((struct str){data, size * n}, &name, &value)) {
        return size * n;
    }
    if (str_ieq(name, STR("content-type"))) {
        request->events = str_starts(value, STR("text/event-stream"));
    } else if (str_ieq(name, STR("mcp-session-id")) && status == 200) {
        (void)str_copy(request->bridge->session, sizeof(request->bridge->session), value);
    }
    return size * n;
}

static size_t on_body(char *data, size_t size, size_t n, void *ctx)
{
    struct bridge_request *request = ctx;
    int r = request->events ? sse_read(&request->reader, data, size * n)
                            : buf_append(&request->answer, data, size * n);

    if (r < 0) {
        (void)cli_fail(0, "an answer is too long");
        return 0;
    }
    return size * n;
}

static void request_conclude(struct bridge_request *request, CURLcode code)
{
    json_t *id = request_id(request);
    struct err err;

    if (code == CURLE_OK && request->status >= 400) {
        refusal_take(request);
    } else if (code == CURLE_OK && !request->events && buf_len(&request->answer) > 0) {
        message_take(request, buf_str(&request->answer));
    } else if (code != CURLE_OK && id && !request->told && request->kind != BRIDGE_REQUEST_OPEN) {
        (void)!endpoint_failure(&request->bridge->endpoint, request->transfer.easy, code,
                                request->transfer.reason, &err);
        bridge_fail(id, JSONRPC_INTERNAL_ERROR, err.msg);
    }
}

static void on_end(struct transfer *transfer, CURLcode code)
{
    struct bridge_request *request = container_of(transfer, struct bridge_request, transfer);
    struct bridge *bridge = request->bridge;
    enum bridge_request_kind kind = request->kind;

    (void)curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &request->status);
    bool lost = code == CURLE_OK && request->status == 404 && request->session[0] &&
                !request->again && kind == BRIDGE_REQUEST_MESSAGE;
    DL_DELETE(bridge->requests, request);
    if (lost) {
        DL_APPEND(bridge->lost, request);
        bridge_lost(bridge);
        return;
    }
    request_conclude(request, code);
    request_free(request);
    bridge_ended(bridge, kind);
}

/* ---- what is sent ---- */

/* A header's value, in base64 if it has bytes that headers may not have. */
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

/* Messages of a revision without sessions repeat their method in headers. */
static void message_headers(struct bridge_request *request)
{
    const json_t *params = json_object_get(request->message, "params");
    const char *version =
        json_string_value(json_object_get(json_object_get(params, "_meta"), META_VERSION));
    const char *method = json_string_of(request->message, "method");
    const char *tool = json_string_of(params, "name");
    struct str spoken = str_of(version ? version : request->bridge->version);
    scoped_buf(name, NAME_BYTES_MAX);

    if (spoken.len > 0) {
        request->headers = header_add(request->headers, "mcp-protocol-version", spoken);
    }
    if (version && method) {
        request->headers = header_add(request->headers, "mcp-method", str_of(method));
    }
    if (version && tool && name_encode(&name, tool) == 0) {
        request->headers = header_add(request->headers, "mcp-name", buf_str(&name));
    }
}

static void headers_make(struct bridge_request *request)
{
    bool posts = request->line != NULL;

    request->headers = endpoint_headers(&request->bridge->endpoint);
    request->headers =
        header_add(request->headers, "accept",
                   posts ? STR("application/json, text/event-stream") : STR("text/event-stream"));
    if (request->session[0]) {
        request->headers = header_add(request->headers, "mcp-session-id", str_of(request->session));
    }
    if (request->kind != BRIDGE_REQUEST_INITIALIZE && request->kind != BRIDGE_REQUEST_OPEN) {
        message_headers(request);
    }
}

static int request_send(struct bridge_request *request, struct err *err)
{
    struct bridge *bridge = request->bridge;
    const char *method = request->line                            ? "POST"
                         : request->kind == BRIDGE_REQUEST_LISTEN ? "GET"
                                                                  : "DELETE";

    transfer_init(&request->transfer, true);
    CURL *easy = request->transfer.easy;
    int r = endpoint_prepare(easy, &bridge->endpoint, method, bridge->path, err);
    if (r < 0) {
        return r;
    }
    headers_make(request);
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, request->headers);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, request);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, request);
    if (request->line) {
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->line);
    }
    transfer_start(bridge->multi, &request->transfer, on_end);
    return 0;
}

static void request_connect(struct bridge_request *request)
{
    struct bridge *bridge = request->bridge;
    enum bridge_request_kind kind = request->kind;
    struct err err;

    buf_init(&request->answer, BRIDGE_ANSWER_BYTES_MAX);
    sse_reader_init(&request->reader, BRIDGE_ANSWER_BYTES_MAX, on_event, request);
    request->status = 0;
    request->events = false;
    if (kind != BRIDGE_REQUEST_INITIALIZE && kind != BRIDGE_REQUEST_OPEN) {
        (void)str_copy(request->session, sizeof(request->session), str_of(bridge->session));
    }
    if (request_send(request, &err) == 0) {
        DL_APPEND(bridge->requests, request);
        return;
    }
    if (request_id(request) && kind != BRIDGE_REQUEST_OPEN) {
        bridge_fail(request_id(request), JSONRPC_INTERNAL_ERROR, err.msg);
    }
    request_free(request);
    bridge_ended(bridge, kind);
}

void bridge_request_start(struct bridge *bridge, enum bridge_request_kind kind, json_t *message,
                          char *line)
{
    struct bridge_request *request = xnew(struct bridge_request);

    request->bridge = bridge;
    request->kind = kind;
    request->message = message;
    request->line = line;
    request_connect(request);
}

void bridge_requests_resend(struct bridge *bridge)
{
    struct bridge_request *request = bridge->lost, *next;

    bridge->lost = NULL;
    for (; request; request = next) {
        next = request->next;
        request_close(request);
        request->again = true;
        request_connect(request);
    }
}

bool bridge_requests_busy(const struct bridge *bridge)
{
    const struct bridge_request *request;

    DL_FOREACH (bridge->requests, request) {
        if (request->kind != BRIDGE_REQUEST_LISTEN) {
            return true;
        }
    }
    return false;
}
