/* carry.c - one request of `atoll mcp` to the daemon, and its answer. */
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

struct carry {
    struct carry *prev, *next;
    struct bridge *bridge;
    struct transfer transfer;
    struct curl_slist *headers;
    enum carry_kind kind;
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
static void carry_close(struct carry *carry)
{
    transfer_end(&carry->transfer);
    curl_slist_free_all(move_ptr(&carry->headers));
    sse_reader_fini(&carry->reader);
    buf_fini(&carry->answer);
}

static void carry_free(struct carry *carry)
{
    carry_close(carry);
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

/* An error without an id belongs to the request that was sent. */
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
        (void)snprintf(sentence, sizeof(sentence), "the daemon answered with status %ld",
                       carry->status);
        bridge_fail(id, JSONRPC_INTERNAL_ERROR, sentence);
    }
    carry->told = true;
    json_decref(json);
}

static size_t on_header(char *data, size_t size, size_t n, void *ctx)
{
    struct carry *carry = ctx;
    struct str name, value;
    long status = 0;

    (void)curl_easy_getinfo(carry->transfer.easy, CURLINFO_RESPONSE_CODE, &status);
    if (!header_split((struct str){data, size * n}, &name, &value)) {
        return size * n;
    }
    if (str_ieq(name, STR("content-type"))) {
        carry->events = str_starts(value, STR("text/event-stream"));
    } else if (str_ieq(name, STR("mcp-session-id")) && status == 200) {
        (void)str_copy(carry->bridge->session, sizeof(carry->bridge->session), value);
    }
    return size * n;
}

static size_t on_body(char *data, size_t size, size_t n, void *ctx)
{
    struct carry *carry = ctx;
    int r = carry->events ? sse_read(&carry->reader, data, size * n)
                          : buf_append(&carry->answer, data, size * n);

    if (r < 0) {
        (void)cli_fail(0, "an answer is too long");
        return 0;
    }
    return size * n;
}

static void carry_conclude(struct carry *carry, CURLcode code)
{
    json_t *id = request_id(carry);
    struct err err;

    if (code == CURLE_OK && carry->status >= 400) {
        refusal_take(carry);
    } else if (code == CURLE_OK && !carry->events && buf_len(&carry->answer) > 0) {
        message_take(carry, buf_str(&carry->answer));
    } else if (code != CURLE_OK && id && !carry->told && carry->kind != CARRY_OPEN) {
        (void)!endpoint_failure(&carry->bridge->endpoint, carry->transfer.easy, code,
                                carry->transfer.reason, &err);
        bridge_fail(id, JSONRPC_INTERNAL_ERROR, err.msg);
    }
}

static void on_end(struct transfer *transfer, CURLcode code)
{
    struct carry *carry = container_of(transfer, struct carry, transfer);
    struct bridge *bridge = carry->bridge;
    enum carry_kind kind = carry->kind;

    (void)curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &carry->status);
    bool lost = code == CURLE_OK && carry->status == 404 && carry->session[0] && !carry->again &&
                kind == CARRY_MESSAGE;
    DL_DELETE(bridge->carries, carry);
    if (lost) {
        DL_APPEND(bridge->lost, carry);
        bridge_lost(bridge);
        return;
    }
    carry_conclude(carry, code);
    carry_free(carry);
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
static void message_headers(struct carry *carry)
{
    const json_t *params = json_object_get(carry->message, "params");
    const char *version =
        json_string_value(json_object_get(json_object_get(params, "_meta"), META_VERSION));
    const char *method = json_string_of(carry->message, "method");
    const char *tool = json_string_of(params, "name");
    struct str spoken = str_of(version ? version : carry->bridge->version);
    scoped_buf(name, NAME_BYTES_MAX);

    if (spoken.len > 0) {
        carry->headers = header_add(carry->headers, "mcp-protocol-version", spoken);
    }
    if (version && method) {
        carry->headers = header_add(carry->headers, "mcp-method", str_of(method));
    }
    if (version && tool && name_encode(&name, tool) == 0) {
        carry->headers = header_add(carry->headers, "mcp-name", buf_str(&name));
    }
}

static void headers_make(struct carry *carry)
{
    bool posts = carry->line != NULL;

    carry->headers = endpoint_headers(&carry->bridge->endpoint);
    carry->headers =
        header_add(carry->headers, "accept",
                   posts ? STR("application/json, text/event-stream") : STR("text/event-stream"));
    if (carry->session[0]) {
        carry->headers = header_add(carry->headers, "mcp-session-id", str_of(carry->session));
    }
    if (carry->kind != CARRY_INITIALIZE && carry->kind != CARRY_OPEN) {
        message_headers(carry);
    }
}

static int carry_send(struct carry *carry, struct err *err)
{
    struct bridge *bridge = carry->bridge;
    const char *method = carry->line ? "POST" : carry->kind == CARRY_LISTEN ? "GET" : "DELETE";

    transfer_init(&carry->transfer, true);
    CURL *easy = carry->transfer.easy;
    int r = endpoint_prepare(easy, &bridge->endpoint, method, bridge->path, err);
    if (r < 0) {
        return r;
    }
    headers_make(carry);
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, carry->headers);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, carry);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, carry);
    if (carry->line) {
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, carry->line);
    }
    transfer_start(bridge->multi, &carry->transfer, on_end);
    return 0;
}

static void carry_connect(struct carry *carry)
{
    struct bridge *bridge = carry->bridge;
    enum carry_kind kind = carry->kind;
    struct err err;

    buf_init(&carry->answer, BRIDGE_ANSWER_BYTES_MAX);
    sse_reader_init(&carry->reader, BRIDGE_ANSWER_BYTES_MAX, on_event, carry);
    carry->status = 0;
    carry->events = false;
    if (kind != CARRY_INITIALIZE && kind != CARRY_OPEN) {
        (void)str_copy(carry->session, sizeof(carry->session), str_of(bridge->session));
    }
    if (carry_send(carry, &err) == 0) {
        DL_APPEND(bridge->carries, carry);
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
        carry_close(carry);
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
