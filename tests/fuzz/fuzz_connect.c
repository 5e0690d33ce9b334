/* fuzz_connect.c - a Connect call on an exchange made of memory: its head, and its envelopes.
 *
 * The first byte says how the client and the handler behave; lines are path, content type,
 * Connect-Timeout-Ms and the encoding both ways; the rest is the body. It is fed whole, and again
 * byte by byte to a handler that may hold its client back: both must say the same. What is answered
 * must be a well-formed answer, and every call must end once.
 */
#include <arpa/inet.h>
#include <stdlib.h>

#include "lib/base/buf.h"
#include "lib/http/internal.h"
#include "lib/rpc/rpc.h"
#include "process.pb-c.h"

enum {
    CLIENT_LEAVES = 0x01, /* instead of ending its body */
    HANDLER_LATE = 0x02,  /* answers when the body has ended, if the client is still there */
    HANDLER_HOLDS = 0x04, /* takes one message of a stream at a time */
    ANSWER_MAX = 1024 * 1024,
    ENVELOPE_BYTES = 5,
    ENVELOPE_END = 2,
};

struct run {
    struct http_exchange ex;
    struct rpc_call *open; /* handled and not answered */
    struct buf answer;
    bool late, holds, held, finished, gone;
    unsigned messages;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok) {
        abort();
    }
}

/* ---- the methods ---- */

static void on_gone(void *ctx)
{
    struct run *run = ctx;

    check(run->open && !run->gone);
    run->gone = true;
    run->open = NULL;
}

static void answer(struct run *run, enum rpc_kind kind)
{
    struct rpc_call *call = run->open;
    Process__UpdateResponse update = PROCESS__UPDATE_RESPONSE__INIT;
    Process__StreamInputResponse input = PROCESS__STREAM_INPUT_RESPONSE__INIT;
    Process__ConnectResponse event = PROCESS__CONNECT_RESPONSE__INIT;

    run->open = NULL;
    switch (kind) {
    case RPC_UNARY:
        rpc_reply(call, &update.base);
        break;
    case RPC_CLIENT_STREAM:
        rpc_reply(call, &input.base);
        break;
    case RPC_SERVER_STREAM:
        rpc_send(call, &event.base);
        rpc_finish(call);
        break;
    }
}

static void take(struct run *run, struct rpc_call *call)
{
    static const struct rpc_watch watch = {.gone = on_gone};

    check(!run->finished && !run->held && !run->gone);
    run->open = call;
    rpc_watch(call, &watch, run);
}

static void on_update(void *ctx, struct rpc_call *call, const ProtobufCMessage *request)
{
    struct run *run = ctx;

    take(run, call);
    check(request && ++run->messages == 1);
    if (!run->late) {
        answer(run, RPC_UNARY);
    }
}

static void on_connect(void *ctx, struct rpc_call *call, const ProtobufCMessage *request)
{
    struct run *run = ctx;

    take(run, call);
    check(request && ++run->messages == 1);
    if (!run->late) {
        answer(run, RPC_SERVER_STREAM);
    }
}

static void on_input(void *ctx, struct rpc_call *call, const ProtobufCMessage *request)
{
    struct run *run = ctx;

    take(run, call);
    if (!request) {
        answer(run, RPC_CLIENT_STREAM);
        return;
    }
    run->messages++;
    if (run->holds) {
        run->held = true;
        rpc_hold(call, true);
    }
}

static const struct rpc_method methods[] = {
    {"/process.Process/Update", RPC_UNARY, &process__update_request__descriptor,
     &process__update_response__descriptor, on_update},
    {"/process.Process/Connect", RPC_SERVER_STREAM, &process__connect_request__descriptor,
     &process__connect_response__descriptor, on_connect},
    {"/process.Process/StreamInput", RPC_CLIENT_STREAM, &process__stream_input_request__descriptor,
     &process__stream_input_response__descriptor, on_input},
};

static const struct rpc_method *method_of(struct str path)
{
    for (size_t i = 0; i < countof(methods); i++) {
        if (str_eq(path, str_of(methods[i].path))) {
            return &methods[i];
        }
    }
    return NULL;
}

/* ---- the exchange ---- */

static struct run *run_of(struct http_exchange *ex)
{
    return container_of(ex, struct run, ex);
}

static void on_credit(struct http_exchange *ex)
{
    check(ex->credit <= HTTP_WINDOW_BYTES);
}

static void on_respond(struct http_exchange *ex, const struct http_header *headers, size_t n,
                       int64_t content_length)
{
    (void)content_length;
    check((n == 1 || n == 2) && headers[0].value.len > 0 && buf_len(&run_of(ex)->answer) == 0);
}

static void on_write(struct http_exchange *ex, const struct str *parts, size_t n, size_t len)
{
    for (size_t i = 0; i < n; i++) {
        check(buf_append(&run_of(ex)->answer, parts[i].at, parts[i].len) == 0);
        len -= parts[i].len;
    }
    check(len == 0);
}

static size_t on_pending(const struct http_exchange *ex)
{
    (void)ex;
    return 0;
}

static void on_finish(struct http_exchange *ex)
{
    run_of(ex)->finished = true;
}

static void on_abort(struct http_exchange *ex, int error)
{
    (void)ex, (void)error;
    abort(); /* every fault of a client has an answer */
}

static const struct http_exchange_ops ops = {
    .credit = on_credit,
    .respond = on_respond,
    .write = on_write,
    .pending = on_pending,
    .finish = on_finish,
    .abort = on_abort,
};

/* ---- one call ---- */

static void release(struct run *run)
{
    while (run->held) {
        run->held = false;
        rpc_hold(run->open, false);
    }
}

static void feed(struct run *run, struct str body, size_t piece)
{
    while (body.len > 0 && !run->finished) {
        size_t n = body.len < piece ? body.len : piece;
        n = n < run->ex.credit ? n : run->ex.credit;
        check(n > 0); /* a call that is not over reads on */
        char *copy = malloc(n);
        check(copy != NULL);
        memcpy(copy, body.at, n); /* so that reading beyond it is seen */
        http_exchange_body(&run->ex, copy, n);
        free(copy);
        release(run);
        body = (struct str){body.at + n, body.len - n};
    }
}

/* Envelopes to the last byte, and the last of them alone is flagged as the end. */
static void check_stream(struct str text)
{
    bool ended = false;

    while (text.len > 0) {
        uint32_t len;
        check(!ended && text.len >= ENVELOPE_BYTES);
        memcpy(&len, text.at + 1, sizeof(len));
        len = ntohl(len);
        check(text.len - ENVELOPE_BYTES >= len);
        check(text.at[0] == 0 || text.at[0] == ENVELOPE_END);
        ended = text.at[0] == ENVELOPE_END;
        text = (struct str){text.at + ENVELOPE_BYTES + len, text.len - ENVELOPE_BYTES - len};
    }
    check(ended);
}

static void run_call(struct run *run, const struct http_request *req, uint8_t how, struct str body,
                     size_t piece)
{
    const struct rpc_method *method = method_of(req->path);

    run->ex = (struct http_exchange){.ops = &ops, .request = *req};
    run->late = how & HANDLER_LATE;
    buf_init(&run->answer, ANSWER_MAX);
    if (!rpc_handle(methods, countof(methods), run, &run->ex)) {
        check(!method && !run->ex.handler);
        return;
    }
    feed(run, body, piece);
    if (!run->finished && !(how & CLIENT_LEAVES)) {
        http_exchange_body_end(&run->ex);
        release(run);
        if (run->open) {
            answer(run, method->kind);
        }
        check(run->finished);
    }
    if (run->finished && method && method->kind != RPC_UNARY && run->ex.status == 200) {
        check_stream(buf_str(&run->answer));
    }
    http_exchange_fail(&run->ex, run->finished ? 0 : -1);
    http_exchange_end(&run->ex);
    check(!run->open); /* answered, or told that it is over */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"content-type",     "connect-timeout-ms",
                                        "content-encoding", "connect-content-encoding",
                                        "accept-encoding",  "connect-accept-encoding"};
    struct str rest, lines[4] = {0};
    struct http_header headers[countof(names)];
    struct http_request req = {.method = STR("POST"), .headers = headers, .content_length = -1};
    struct run whole = {0}, bytes = {0};

    if (size == 0 || size > 64 * 1024) {
        return 0;
    }
    rest = (struct str){(const char *)data + 1, size - 1};
    for (size_t i = 0; i < countof(lines) && str_split(&rest, '\n', &lines[i]); i++) {
    }
    req.path = lines[0];
    for (size_t i = 0; i < countof(names); i++) {
        struct str value = lines[i < 2 ? i + 1 : 3];
        if (value.len > 0) {
            headers[req.headers_n++] = (struct http_header){str_of(names[i]), value};
        }
    }
    bytes.holds = data[0] & HANDLER_HOLDS;
    run_call(&whole, &req, data[0], rest, SIZE_MAX);
    run_call(&bytes, &req, data[0], rest, 1);
    check(whole.ex.status == bytes.ex.status && whole.messages == bytes.messages);
    check(whole.gone == bytes.gone && whole.finished == bytes.finished);
    check(str_eq(buf_str(&whole.answer), buf_str(&bytes.answer)));
    buf_fini(&whole.answer);
    buf_fini(&bytes.answer);
    return 0;
}
