/* connect.c - the Connect protocol on an HTTP exchange.
 *
 * Unary: one message is the body, one message is the answer, an error has an HTTP status.
 * Streams: messages travel in envelopes (a flag byte, the length in four bytes, the payload); the
 * answer is always 200, and its last envelope, flagged END, holds {} or the error.
 * Either side may pack its messages with gzip: a unary body as a whole, in a stream those whose
 * envelope is flagged COMPRESSED.
 *
 * A call belongs to its exchange and is freed in on_end alone. `answered` is set when the user's
 * half is over: from then on no callback of the user's is called. When it is us who end it, because
 * a later message of a stream is none, the user is told as if the client had left.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/buf.h"
#include "lib/rpc/frame.h"
#include "lib/rpc/gzip.h"
#include "lib/rpc/internal.h"
#include "lib/rpc/rpc.h"

enum {
    MESSAGE_BYTES_MAX = 2048,
    ERROR_BYTES_MAX = 6 * MESSAGE_BYTES_MAX + 128,
    ANSWER_BYTES_MAX = 64 * 1024 * 1024, /* a listing of 100,000 entries is some 30 MB of JSON */
    PACK_BYTES_MIN = 1024,               /* a shorter answer fits a packet as it is */
    SCRATCH_BYTES_MAX = 512 * 1024,      /* kept while there are streams */
    TIMEOUT_DIGITS_MAX = 10,
};

struct rpc_call {
    struct rpc_call *prev, *next; /* in streams, unless it is unary */
    struct http_exchange *ex;
    const struct rpc_method *method;
    void *ctx;
    enum rpc_codec codec;
    int64_t timeout_ms;
    bool request_gzip; /* its messages may be packed; a unary one is */
    bool answer_gzip;  /* the client unpacks */
    struct buf body;   /* what has come and was not handed on yet */
    struct rpc_watch watch;
    void *watch_ctx;
    bool head_sent;
    bool answered;
    bool handled; /* the one request of a unary or server-stream call has been handed on */
    bool held;
    bool body_ended;
    bool delivering;     /* inside deliver(): rpc_hold(false) need not start another */
    uint32_t uncredited; /* body bytes taken off the wire for which no new credit was given yet */
};

static struct rpc_call *streams; /* under way, or answered and not yet sent */

/* ---- answering ---- */

static const char *content_type(const struct rpc_call *call)
{
    if (call->method->kind == RPC_UNARY) {
        return call->codec == RPC_CODEC_JSON ? "application/json" : "application/proto";
    }
    return call->codec == RPC_CODEC_JSON ? "application/connect+json" : "application/connect+proto";
}

static void head_send(struct rpc_call *call)
{
    if (!call->head_sent) {
        struct http_header headers[] = {
            {STR("content-type"), str_of(content_type(call))},
            {STR("connect-content-encoding"), STR("gzip")},
        };
        call->head_sent = true;
        http_respond(call->ex, 200, headers, call->answer_gzip ? 2 : 1, -1);
    }
}

/* Puts the packed form of an envelope in its place, if that is shorter. */
static void envelope_pack(struct buf *envelope)
{
    struct buf plain = *envelope;
    scoped_buf(packed, ANSWER_BYTES_MAX);
    char *at;

    if (buf_reserve(&packed, buf_len(&plain), &at) < 0) {
        return;
    }
    buf_commit(&packed, FRAME_HEAD_BYTES);
    if (rpc_gzip_pack(str_skip(buf_str(&plain), FRAME_HEAD_BYTES), &packed)) {
        frame_head(buf_at(&packed), FRAME_COMPRESSED, buf_len(&packed) - FRAME_HEAD_BYTES);
        *envelope = packed;
        packed = plain;
    }
}

/* Encodes behind room for an envelope's head; true when it worked. */
static bool envelope_encode(struct rpc_call *call, const ProtobufCMessage *message, struct buf *out)
{
    size_t packed = protobuf_c_message_get_packed_size(message);
    char *at;

    /* Room at once for base64, instead of doubling up to it. */
    if (buf_reserve(out, FRAME_HEAD_BYTES + packed + packed / 2, &at) < 0) {
        return false;
    }
    buf_commit(out, FRAME_HEAD_BYTES);
    if (rpc_encode(call->codec, message, out) < 0) {
        return false;
    }
    frame_head(buf_at(out), 0, buf_len(out) - FRAME_HEAD_BYTES);
    if (call->answer_gzip && buf_len(out) - FRAME_HEAD_BYTES >= PACK_BYTES_MIN) {
        envelope_pack(out);
    }
    return true;
}

/* The messages of streams are encoded here one after the other: fresh memory for each would cost
 * more than the encoding. */
static struct buf scratch = {.max = ANSWER_BYTES_MAX};

static void scratch_send(struct rpc_call *call, const ProtobufCMessage *message)
{
    bool fits = envelope_encode(call, message, &scratch);

    assert(fits); /* a stream's messages are bounded by their sender */
    http_write(call->ex, buf_at(&scratch), buf_len(&scratch));
    buf_clear(&scratch);
    if (scratch.cap > SCRATCH_BYTES_MAX) {
        buf_fini(&scratch);
    }
}

/* Sends from where the message's long values lie. False when there is none, or too many. */
static bool parts_send(struct rpc_call *call, const ProtobufCMessage *message)
{
    struct proto_parts parts;

    if (!proto_parts(message, &parts)) {
        return false;
    }
    http_write_parts(call->ex, parts.list, parts.n);
    return true;
}

void rpc_send(struct rpc_call *call, const ProtobufCMessage *message)
{
    assert(!call->answered && call->method->kind == RPC_SERVER_STREAM);
    head_send(call);
    if (call->codec == RPC_CODEC_JSON || call->answer_gzip || !parts_send(call, message)) {
        scratch_send(call, message);
    }
}

size_t rpc_writable(const struct rpc_call *call)
{
    return http_writable(call->ex);
}

/* Appends {"code":...,"message":...}. `out` has room: a message is cut to MESSAGE_BYTES_MAX before,
 * and no byte of it takes more than six in JSON. */
static void error_json(struct buf *out, enum rpc_code code, const char *message)
{
    int r = buf_printf(out, "{\"code\":\"%s\",\"message\":", rpc_code_row(code)->name);

    if (r == 0) {
        r = json_quote(out, str_of(message));
    }
    if (r == 0) {
        r = buf_append(out, "}", 1);
    }
    assert(r == 0);
}

static void stream_end(struct rpc_call *call, struct str payload)
{
    char head[FRAME_HEAD_BYTES];

    head_send(call);
    frame_head(head, FRAME_END, payload.len);
    http_write(call->ex, head, sizeof(head));
    http_write(call->ex, payload.at, payload.len);
    http_finish(call->ex);
}

void rpc_finish(struct rpc_call *call)
{
    assert(!call->answered && call->method->kind == RPC_SERVER_STREAM);
    call->answered = true;
    stream_end(call, STR("{}"));
}

static void (*observer)(const char *path, const char *code, const char *message);

void rpc_observe(void (*failed)(const char *path, const char *code, const char *message))
{
    observer = failed;
}

static void fail_with(struct rpc_call *call, enum rpc_code code, const char *message)
{
    scoped_buf(out, ERROR_BYTES_MAX);

    assert(!call->answered);
    call->answered = true;
    if (observer) {
        observer(call->method->path, rpc_code_row(code)->name, message);
    }
    if (call->method->kind == RPC_UNARY) {
        error_json(&out, code, message);
        http_reply(call->ex, rpc_code_row(code)->status, "application/json", buf_at(&out),
                   buf_len(&out));
        return;
    }
    int r = buf_printf(&out, "{\"error\":");
    error_json(&out, code, message);
    if (r == 0) {
        r = buf_append(&out, "}", 1);
    }
    assert(r == 0);
    stream_end(call, buf_str(&out));
}

static printf_like(3, 0) void fail_va(struct rpc_call *call, enum rpc_code code, const char *fmt,
                                      va_list ap)
{
    char message[MESSAGE_BYTES_MAX];

    (void)vsnprintf(message, sizeof(message), fmt, ap);
    fail_with(call, code, message);
}

void rpc_fail(struct rpc_call *call, enum rpc_code code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fail_va(call, code, fmt, ap);
    va_end(ap);
}

static printf_like(3, 4) void refuse_call(struct rpc_call *call, enum rpc_code code,
                                          const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fail_va(call, code, fmt, ap);
    va_end(ap);
    if (call->watch.gone) {
        call->watch.gone(call->watch_ctx);
    }
}

void rpc_fail_streams(enum rpc_code code, const char *message)
{
    struct rpc_call *call, *next;

    DL_FOREACH_SAFE (streams, call, next) {
        if (!call->answered) {
            refuse_call(call, code, "%s", message);
        }
    }
}

/* The payload of an envelope as a body of its own. */
static void unary_reply(struct rpc_call *call, struct str envelope)
{
    struct http_header gzip = {STR("content-encoding"), STR("gzip")};
    struct str body = str_skip(envelope, FRAME_HEAD_BYTES);
    size_t headers_n = envelope.at[0] & FRAME_COMPRESSED ? 1 : 0;

    http_reply_with(call->ex, 200, &gzip, headers_n, content_type(call), body.at, body.len);
}

void rpc_reply(struct rpc_call *call, const ProtobufCMessage *response)
{
    scoped_buf(out, ANSWER_BYTES_MAX);

    assert(!call->answered && call->method->kind != RPC_SERVER_STREAM);
    if (!envelope_encode(call, response, &out)) {
        rpc_fail(call, RPC_RESOURCE_EXHAUSTED, "the answer is larger than %d MiB",
                 ANSWER_BYTES_MAX >> 20);
        return;
    }
    call->answered = true;
    if (call->method->kind == RPC_UNARY) {
        unary_reply(call, buf_str(&out));
        return;
    }
    head_send(call);
    http_write(call->ex, buf_at(&out), buf_len(&out));
    stream_end(call, STR("{}"));
}

/* ---- receiving ---- */

/* Decodes and hands on one message. */
static void message_deliver(struct rpc_call *call, struct str bytes)
{
    ProtobufCMessage *message;
    struct err err;

    if (rpc_decode(call->codec, call->method->request, bytes, &message, &err) < 0) {
        refuse_call(call, RPC_INVALID_ARGUMENT, "%s", err.msg);
        return;
    }
    call->handled = true;
    call->method->handle(call->ctx, call, message);
    protobuf_c_message_free_unpacked(message, NULL);
}

/* As message_deliver(), for one that came packed. */
static void packed_deliver(struct rpc_call *call, struct str bytes)
{
    scoped_buf(plain, RPC_MESSAGE_BYTES_MAX);
    struct err err;
    int r = rpc_gzip_unpack(bytes, RPC_MESSAGE_BYTES_MAX, &plain, &err);

    if (r < 0) {
        refuse_call(call, r == -EINVAL ? RPC_INVALID_ARGUMENT : RPC_RESOURCE_EXHAUSTED, "%s",
                    err.msg);
        return;
    }
    message_deliver(call, buf_str(&plain));
}

/* Clients may send an empty message unpacked, even if its flag says otherwise. */
static void payload_deliver(struct rpc_call *call, struct str bytes, bool packed)
{
    if (packed && bytes.len > 0) {
        packed_deliver(call, bytes);
    } else {
        message_deliver(call, bytes);
    }
}

/* Looks at the envelope at the front: 1 and its payload when it is whole, 0 when more must come,
 * -1 when the call has been failed. */
static int envelope_peek(struct rpc_call *call, struct str *payload, bool *packed)
{
    const char *at = buf_at(&call->body);
    uint32_t len;

    if (buf_len(&call->body) < FRAME_HEAD_BYTES) {
        return 0;
    }
    memcpy(&len, at + 1, sizeof(len));
    len = ntohl(len);
    *packed = at[0] == FRAME_COMPRESSED;
    if (*packed && !call->request_gzip) {
        refuse_call(call, RPC_INVALID_ARGUMENT,
                    "an envelope is flagged compressed without Connect-Content-Encoding: gzip");
        return -1;
    }
    if (at[0] != 0 && !*packed) {
        refuse_call(call, RPC_INVALID_ARGUMENT, "an envelope has unknown flags 0x%02x",
                    (unsigned)(uint8_t)at[0]);
        return -1;
    }
    if (len > RPC_MESSAGE_BYTES_MAX) {
        refuse_call(call, RPC_RESOURCE_EXHAUSTED, "a message of %u bytes is over the limit of %d",
                    len, RPC_MESSAGE_BYTES_MAX);
        return -1;
    }
    if (buf_len(&call->body) - FRAME_HEAD_BYTES < len) {
        return 0;
    }
    *payload = (struct str){at + FRAME_HEAD_BYTES, len};
    return 1;
}

/* The body has ended: checks that it fits the kind of call. */
static void ended_deliver(struct rpc_call *call)
{
    if (call->method->kind == RPC_UNARY) {
        if (!call->handled) {
            payload_deliver(call, buf_str(&call->body), call->request_gzip);
        }
    } else if (buf_len(&call->body) > 0) {
        refuse_call(call, RPC_INVALID_ARGUMENT, "the stream ends in the middle of a message");
    } else if (call->method->kind == RPC_CLIENT_STREAM) {
        call->method->handle(call->ctx, call, NULL);
    } else if (!call->handled) {
        refuse_call(call, RPC_INVALID_ARGUMENT, "the stream holds no message");
    }
}

static void credit_give(struct rpc_call *call)
{
    if (call->uncredited > 0 && !call->answered && !call->held) {
        uint32_t n = call->uncredited;
        call->uncredited = 0;
        http_credit(call->ex, n);
    }
}

/* Delivers every whole message. The end is delivered once, and only when nothing is held. */
static void deliver(struct rpc_call *call)
{
    struct str payload;
    bool packed;

    call->delivering = true;
    while (call->method->kind != RPC_UNARY && !call->answered && !call->held) {
        if (call->method->kind == RPC_SERVER_STREAM && call->handled) {
            buf_clear(&call->body); /* one message is all this kind of call takes */
            break;
        }
        if (envelope_peek(call, &payload, &packed) <= 0) {
            break;
        }
        payload_deliver(call, payload, packed);
        buf_consume(&call->body, FRAME_HEAD_BYTES + payload.len);
    }
    if (call->body_ended && !call->answered && !call->held) {
        call->body_ended = false;
        ended_deliver(call);
    }
    call->delivering = false;
    credit_give(call);
}

static void on_body(void *ctx, const void *data, size_t len)
{
    struct rpc_call *call = ctx;

    if (call->answered) {
        return;
    }
    if (buf_append(&call->body, data, len) < 0) {
        refuse_call(call, RPC_RESOURCE_EXHAUSTED, "the message is over the limit of %d bytes",
                    RPC_MESSAGE_BYTES_MAX);
        return;
    }
    call->uncredited += (uint32_t)len;
    deliver(call);
}

static void on_body_end(void *ctx)
{
    struct rpc_call *call = ctx;

    if (!call->answered) {
        call->body_ended = true;
        deliver(call);
    }
}

static void on_credit(void *ctx)
{
    struct rpc_call *call = ctx;

    if (!call->answered && call->watch.credit) {
        call->watch.credit(call->watch_ctx);
    }
}

static void on_end(void *ctx, int error)
{
    struct rpc_call *call = ctx;

    (void)error;
    if (!call->answered) {
        call->answered = true;
        if (call->watch.gone) {
            call->watch.gone(call->watch_ctx);
        }
    }
    if (call->method->kind != RPC_UNARY) {
        DL_DELETE(streams, call);
    }
    if (!streams) {
        buf_fini(&scratch);
    }
    buf_fini(&call->body);
    free(call);
}

static const struct http_handler call_handler = {
    .on_body = on_body,
    .on_body_end = on_body_end,
    .on_credit = on_credit,
    .on_end = on_end,
};

/* A stream is told at once when its client hangs up: whatever it sends is lost. */
static const struct http_handler stream_handler = {
    .needs_peer = true,
    .on_body = on_body,
    .on_body_end = on_body_end,
    .on_credit = on_credit,
    .on_end = on_end,
};

void rpc_hold(struct rpc_call *call, bool held)
{
    call->held = held;
    if (!held && !call->delivering) {
        deliver(call);
    }
}

void rpc_watch(struct rpc_call *call, const struct rpc_watch *watch, void *ctx)
{
    call->watch = *watch;
    call->watch_ctx = ctx;
}

void *rpc_watcher(const struct rpc_call *call)
{
    return call->watch_ctx;
}

const struct http_request *rpc_request(const struct rpc_call *call)
{
    return http_request(call->ex);
}

int64_t rpc_timeout_ms(const struct rpc_call *call)
{
    return call->timeout_ms;
}

/* ---- taking a call ---- */

static void refuse(struct http_exchange *ex, int status, enum rpc_code code, const char *message)
{
    scoped_buf(out, ERROR_BYTES_MAX);

    error_json(&out, code, message);
    http_answer(ex, status, "application/json", buf_at(&out), buf_len(&out));
}

/* "application/json; charset=utf-8" is "application/json". False for a type this kind of call does
 * not speak. */
static bool codec_of(const struct http_request *req, enum rpc_kind kind, enum rpc_codec *out)
{
    struct str type = http_header_get(req, "content-type");
    struct str rest = type;

    if (!type.at || !str_split(&rest, ';', &type)) {
        return false;
    }
    type = str_trim(type);
    bool json = str_ieq(type, kind == RPC_UNARY ? STR("application/json")
                                                : STR("application/connect+json"));
    bool proto = str_ieq(type, kind == RPC_UNARY ? STR("application/proto")
                                                 : STR("application/connect+proto"));
    *out = json ? RPC_CODEC_JSON : RPC_CODEC_PROTO;
    return json || proto;
}

static int timeout_of(const struct http_request *req, int64_t *out)
{
    struct str text = http_header_get(req, "connect-timeout-ms");

    *out = 0;
    if (text.len > TIMEOUT_DIGITS_MAX) {
        return -EINVAL;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9') {
            return -EINVAL;
        }
        *out = *out * 10 + (text.at[i] - '0');
    }
    return 0;
}

/* Reads the compression of the messages; false when it is one that we cannot unpack. */
static bool encodings_take(struct rpc_call *call, const struct http_request *req)
{
    bool unary = call->method->kind == RPC_UNARY;
    struct str sent =
        str_trim(http_header_get(req, unary ? "content-encoding" : "connect-content-encoding"));

    /* HTTP libraries list the codings they can unpack by default, which gains nothing on a local
     * connection; a client that names gzip only has asked for it. */
    call->answer_gzip =
        unary ? str_ieq(str_trim(http_header_get(req, "accept-encoding")), STR("gzip"))
              : rpc_gzip_accepted(http_header_get(req, "connect-accept-encoding"));
    call->request_gzip = str_ieq(sent, STR("gzip"));
    return call->request_gzip || sent.len == 0 || str_ieq(sent, STR("identity"));
}

static void call_begin(const struct rpc_method *method, enum rpc_codec codec, void *ctx,
                       struct http_exchange *ex)
{
    struct rpc_call *call = xnew(struct rpc_call);
    const struct http_request *req = http_request(ex);

    call->ex = ex;
    call->method = method;
    call->codec = codec;
    call->ctx = ctx;
    buf_init(&call->body, RPC_MESSAGE_BYTES_MAX + FRAME_HEAD_BYTES + HTTP_WINDOW_BYTES);
    if (method->kind != RPC_UNARY) {
        DL_APPEND(streams, call);
    }
    http_accept(ex, method->kind == RPC_SERVER_STREAM ? &stream_handler : &call_handler, call);
    if (timeout_of(req, &call->timeout_ms) < 0) {
        rpc_fail(call, RPC_INVALID_ARGUMENT, "Connect-Timeout-Ms must be at most %d digits",
                 TIMEOUT_DIGITS_MAX);
    } else if (!encodings_take(call, req)) {
        rpc_fail(call, RPC_UNIMPLEMENTED,
                 "the compression is unknown: the supported encodings are gzip and identity");
    } else if (method->kind == RPC_UNARY && req->content_length > RPC_MESSAGE_BYTES_MAX) {
        rpc_fail(call, RPC_RESOURCE_EXHAUSTED, "the message is over the limit of %d bytes",
                 RPC_MESSAGE_BYTES_MAX);
    } else {
        http_credit(ex, HTTP_WINDOW_BYTES);
    }
}

/* "/process.Process/" of "/process.Process/Start". */
static struct str service_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return (struct str){path, (size_t)(slash - path) + 1};
}

static const struct rpc_method *method_find(const struct rpc_method *methods, size_t n,
                                            struct str path, bool *ours)
{
    *ours = false;
    for (size_t i = 0; i < n; i++) {
        if (str_eq(path, str_of(methods[i].path))) {
            return &methods[i];
        }
        *ours = *ours || str_starts(path, service_of(methods[i].path));
    }
    return NULL;
}

bool rpc_handle(const struct rpc_method *methods, size_t n, void *ctx, struct http_exchange *ex)
{
    const struct http_request *req = http_request(ex);
    enum rpc_codec codec;
    bool ours;
    const struct rpc_method *method = method_find(methods, n, req->path, &ours);

    if (!method) {
        if (ours) {
            refuse(ex, 404, RPC_UNIMPLEMENTED, "the service has no such method");
        }
        return ours;
    }
    if (!str_eq(req->method, STR("POST"))) {
        refuse(ex, 405, RPC_UNIMPLEMENTED, "methods are called with POST");
    } else if (!codec_of(req, method->kind, &codec)) {
        refuse(ex, 415, RPC_INVALID_ARGUMENT,
               method->kind == RPC_UNARY
                   ? "the content type must be application/json or application/proto"
                   : "the content type must be application/connect+json or "
                     "application/connect+proto");
    } else {
        call_begin(method, codec, ctx, ex);
    }
    return true;
}
