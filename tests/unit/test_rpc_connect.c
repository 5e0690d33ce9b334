/* The protocol on a real server of a thread's own, with the messages of the process service. */
#include <errno.h>
#include <pthread.h>
#include <uv.h>
#include <zlib.h>

#include "check.h"
#include "lib/http/server.h"
#include "lib/rpc/rpc.h"
#include "process.pb-c.h"
#include "rpc_client.h"

enum { LONG_BYTES = 4096, ZIP_BYTES_MAX = 64 * 1024 };

static struct {
    uv_loop_t loop;
    uv_async_t stop;
    struct http_server *server;
    pthread_t thread;
    uv_sem_t started;
    int port;
    int gone;   /* calls whose client left */
    int broken; /* streams whose client went wrong, or left */
    uint64_t streamed;
} fixture;

/* ---- the methods ---- */

static void on_update(void *ctx, struct rpc_call *call, const ProtobufCMessage *request)
{
    const Process__UpdateRequest *req = (const void *)request;
    Process__UpdateResponse response;

    (void)ctx;
    if (req->process && req->process->selector_case == PROCESS__PROCESS_SELECTOR__SELECTOR_PID) {
        rpc_fail(call, (enum rpc_code)req->process->pid, "code \"%u\"", req->process->pid);
        return;
    }
    process__update_response__init(&response);
    rpc_reply(call, &response.base);
}

static char *long_text(void)
{
    static char text[LONG_BYTES + 1];

    memset(text, 'x', LONG_BYTES);
    return text;
}

static void on_list(void *ctx, struct rpc_call *call, const ProtobufCMessage *request)
{
    Process__ProcessInfo info, *infos[] = {&info};
    Process__ListResponse response;

    (void)ctx, (void)request;
    process__process_info__init(&info);
    process__list_response__init(&response);
    info.tag = long_text();
    response.processes = infos;
    response.n_processes = 1;
    rpc_reply(call, &response.base);
}

static void send_long(struct rpc_call *call)
{
    Process__ProcessEvent__DataEvent data;
    Process__ProcessEvent event;
    Process__ConnectResponse response;

    process__process_event__data_event__init(&data);
    process__process_event__init(&event);
    process__connect_response__init(&response);
    data.output_case = PROCESS__PROCESS_EVENT__DATA_EVENT__OUTPUT_STDOUT;
    data.stdout.data = (uint8_t *)long_text();
    data.stdout.len = LONG_BYTES;
    event.event_case = PROCESS__PROCESS_EVENT__EVENT_DATA;
    event.data = &data;
    response.event = &event;
    rpc_send(call, &response.base);
}

static void send_pid(struct rpc_call *call, uint32_t pid)
{
    Process__ProcessEvent__StartEvent start;
    Process__ProcessEvent event;
    Process__ConnectResponse response;

    process__process_event__start_event__init(&start);
    process__process_event__init(&event);
    process__connect_response__init(&response);
    start.has_pid = 1;
    start.pid = pid;
    event.event_case = PROCESS__PROCESS_EVENT__EVENT_START;
    event.start = &start;
    response.event = &event;
    rpc_send(call, &response.base);
}

/* A tag gets one long message and one short. */
static void on_connect_tag(struct rpc_call *call)
{
    send_long(call);
    send_pid(call, 1);
    rpc_finish(call);
}

static void on_connect(void *ctx, struct rpc_call *call, const ProtobufCMessage *request)
{
    const Process__ConnectRequest *req = (const void *)request;
    uint32_t n = req->process ? req->process->pid : 0;

    (void)ctx;
    if (req->process && req->process->selector_case == PROCESS__PROCESS_SELECTOR__SELECTOR_TAG) {
        on_connect_tag(call);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        send_pid(call, i);
    }
    if (n == 7) {
        rpc_fail(call, RPC_ABORTED, "seven, timeout %lld", (long long)rpc_timeout_ms(call));
    } else {
        rpc_finish(call);
    }
}

static void on_watch_gone(void *ctx)
{
    ++*(int *)ctx;
}

static const struct rpc_watch watch = {.gone = on_watch_gone};

/* Never answers: the client has to leave. */
static void on_start(void *ctx, struct rpc_call *call, const ProtobufCMessage *request)
{
    (void)ctx, (void)request;
    rpc_watch(call, &watch, &fixture.gone);
    send_pid(call, 1);
}

static void on_stream(void *ctx, struct rpc_call *call, const ProtobufCMessage *request)
{
    const Process__StreamInputRequest *req = (const void *)request;
    Process__StreamInputResponse response;

    (void)ctx;
    rpc_watch(call, &watch, &fixture.broken);
    if (!req) {
        process__stream_input_response__init(&response);
        rpc_reply(call, &response.base);
    } else if (req->event_case == PROCESS__STREAM_INPUT_REQUEST__EVENT_DATA) {
        fixture.streamed += req->data->input->stdin.len;
    }
}

static const struct rpc_method methods[] = {
    {"/process.Process/Update", RPC_UNARY, &process__update_request__descriptor,
     &process__update_response__descriptor, on_update},
    {"/process.Process/List", RPC_UNARY, &process__list_request__descriptor,
     &process__list_response__descriptor, on_list},
    {"/process.Process/Connect", RPC_SERVER_STREAM, &process__connect_request__descriptor,
     &process__connect_response__descriptor, on_connect},
    {"/process.Process/Start", RPC_SERVER_STREAM, &process__start_request__descriptor,
     &process__connect_response__descriptor, on_start},
    {"/process.Process/StreamInput", RPC_CLIENT_STREAM, &process__stream_input_request__descriptor,
     &process__stream_input_response__descriptor, on_stream},
};

/* ---- the server ---- */

static void on_request(void *ctx, struct http_exchange *ex)
{
    (void)ctx;
    if (!rpc_handle(methods, countof(methods), NULL, ex)) {
        http_answer(ex, 418, "text/plain", "no", 2);
    }
}

static void on_stopped(void *ctx)
{
    (void)ctx;
    http_server_free(fixture.server);
    uv_close((uv_handle_t *)&fixture.stop, NULL);
}

static void on_stop(uv_async_t *async)
{
    (void)async;
    http_server_stop(fixture.server, 1000, on_stopped, NULL);
}

/* A server belongs to the thread of its loop from its first moment. */
static void *server_run(void *arg)
{
    struct http_server_options options = {.loop = &fixture.loop, .on_request = on_request};
    struct err err;

    (void)arg;
    if (uv_loop_init(&fixture.loop) == 0 &&
        uv_async_init(&fixture.loop, &fixture.stop, on_stop) == 0 &&
        http_server_new(&options, &fixture.server, &err) == 0 &&
        http_server_listen(fixture.server, "127.0.0.1:0", NULL, &err) == 0) {
        fixture.port = http_server_port(fixture.server);
    }
    uv_sem_post(&fixture.started);
    (void)uv_run(&fixture.loop, UV_RUN_DEFAULT);
    return NULL;
}

static bool server_start(void)
{
    if (uv_sem_init(&fixture.started, 0) < 0 ||
        pthread_create(&fixture.thread, NULL, server_run, NULL) != 0) {
        return false;
    }
    uv_sem_wait(&fixture.started);
    uv_sem_destroy(&fixture.started);
    return fixture.port > 0;
}

static void server_end(void)
{
    (void)uv_async_send(&fixture.stop);
    (void)pthread_join(fixture.thread, NULL);
    (void)uv_loop_close(&fixture.loop);
}

/* ---- the tests ---- */

static int unary(const char *path, const char *headers, const char *body, json_t **out)
{
    scoped_client(c);

    client_open(&c, fixture.port);
    return client_unary(&c, path, headers, str_of(body), out);
}

static void unary_answers(void)
{
    json_auto_t *out = NULL;

    CHECK_INT(unary("/process.Process/Update", "", "{}", &out), 200);
    CHECK(json_is_object(out) && json_object_size(out) == 0);
}

static void codes_have_their_status(void)
{
    static const struct {
        enum rpc_code code;
        const char *name;
        int status;
    } rows[] = {
        {RPC_CANCELED, "canceled", 499},
        {RPC_UNKNOWN, "unknown", 500},
        {RPC_INVALID_ARGUMENT, "invalid_argument", 400},
        {RPC_DEADLINE_EXCEEDED, "deadline_exceeded", 504},
        {RPC_NOT_FOUND, "not_found", 404},
        {RPC_ALREADY_EXISTS, "already_exists", 409},
        {RPC_PERMISSION_DENIED, "permission_denied", 403},
        {RPC_RESOURCE_EXHAUSTED, "resource_exhausted", 429},
        {RPC_UNIMPLEMENTED, "unimplemented", 501},
        {RPC_INTERNAL, "internal", 500},
        {RPC_UNAVAILABLE, "unavailable", 503},
        {RPC_UNAUTHENTICATED, "unauthenticated", 401},
    };

    for (size_t i = 0; i < countof(rows); i++) {
        json_auto_t *out = NULL;
        char body[64];
        char want[64];
        (void)snprintf(body, sizeof(body), "{\"process\":{\"pid\":%d}}", (int)rows[i].code);
        (void)snprintf(want, sizeof(want), "code \"%d\"", (int)rows[i].code);
        CHECK_INT(unary("/process.Process/Update", "", body, &out), rows[i].status);
        CHECK_STR(json_text(out, "code", NULL), rows[i].name);
        CHECK_STR(json_text(out, "message", NULL), want);
    }
}

static void check_refused(const char *path, const char *headers, const char *body, int status,
                          const char *code)
{
    json_auto_t *out = NULL;

    CHECK_INT(unary(path, headers, body, &out), status);
    CHECK_STR(json_text(out, "code", NULL), code);
}

static void bad_requests_are_refused(void)
{
    check_refused("/process.Process/Nix", "", "{}", 404, "unimplemented");
    check_refused("/process.Process/Update", "", "{", 400, "invalid_argument");
    check_refused("/process.Process/Update", "", "", 400, "invalid_argument");
    check_refused("/process.Process/Update", "Content-Encoding: br\r\n", "{}", 501,
                  "unimplemented");
    check_refused("/process.Process/Update", "Content-Encoding: gzip\r\n", "{}", 400,
                  "invalid_argument");
    check_refused("/process.Process/Update", "Content-Encoding: gzip\r\n", "", 400,
                  "invalid_argument");
    check_refused("/process.Process/Update", "Connect-Timeout-Ms: 1x\r\n", "{}", 400,
                  "invalid_argument");
    check_refused("/process.Process/Update", "Connect-Timeout-Ms: 12345678901\r\n", "{}", 400,
                  "invalid_argument");
    check_refused("/process.Process/Connect", "", "{}", 415, "invalid_argument");
}

static void wrong_method_and_other_paths(void)
{
    scoped_client(c);
    scoped_client(d);

    client_open(&c, fixture.port);
    CHECK(client_request(&c, "GET", "/process.Process/Update", "", STR("")));
    CHECK_INT(c.status, 405);
    client_open(&d, fixture.port);
    CHECK(client_request(&d, "POST", "/process.Processes/Update", "", STR("")));
    CHECK_INT(d.status, 418);
}

static void message_too_long(void)
{
    scoped_client(c);
    json_auto_t *out = NULL;
    scoped_buf(body, CLIENT_BYTES_MAX);
    char *at;

    CHECK_INT(buf_reserve(&body, RPC_MESSAGE_BYTES_MAX + 1, &at), 0);
    memset(at, ' ', RPC_MESSAGE_BYTES_MAX + 1);
    buf_commit(&body, RPC_MESSAGE_BYTES_MAX + 1);
    client_open(&c, fixture.port);
    CHECK_INT(client_unary(&c, "/process.Process/Update", "", buf_str(&body), &out), 429);
    CHECK_STR(json_text(out, "code", NULL), "resource_exhausted");
}

/* Reads the stream to its end; the number of messages, and the end's error code in *code. */
static int stream_count(struct client *c, char *code, size_t size)
{
    int n = 0;

    for (;;) {
        uint8_t flags = 0;
        json_auto_t *message = client_next(c, &flags);
        if (!message) {
            return -1;
        }
        if (flags == 2) {
            (void)snprintf(code, size, "%s", json_text(message, "error", "code"));
            return n;
        }
        n++;
    }
}

static void stream_delivers_and_ends(void)
{
    scoped_client(c);
    scoped_client(d);
    char code[64];

    client_open(&c, fixture.port);
    CHECK(client_stream(&c, "/process.Process/Connect", "", "{\"process\":{\"pid\":5000}}"));
    CHECK_INT(c.status, 200);
    CHECK_INT(stream_count(&c, code, sizeof(code)), 5000);
    CHECK_STR(code, "");
    client_open(&d, fixture.port);
    CHECK(client_stream(&d, "/process.Process/Connect", "Connect-Timeout-Ms: 9\r\n",
                        "{\"process\":{\"pid\":7}}"));
    CHECK_INT(stream_count(&d, code, sizeof(code)), 7);
    CHECK_STR(code, "aborted");
}

/* What a raw stream body is answered with. */
static void check_stream_refused(struct str body, const char *want)
{
    scoped_client(c);
    char code[64] = "";

    client_open(&c, fixture.port);
    CHECK(client_request(&c, "POST", "/process.Process/Connect",
                         "Content-Type: application/connect+json\r\n", body));
    CHECK_INT(c.status, 200);
    CHECK_INT(stream_count(&c, code, sizeof(code)), 0);
    CHECK_STR(code, want);
}

static void bad_envelopes_are_refused(void)
{
    check_stream_refused(STR(""), "invalid_argument");
    check_stream_refused(STR("\0\0\0"), "invalid_argument");
    check_stream_refused(STR("\0\0\0\0\7{}"), "invalid_argument");
    check_stream_refused(STR("\0\0\0\0\2{]"), "invalid_argument");
    check_stream_refused(STR("\1\0\0\0\2{}"), "invalid_argument");
    check_stream_refused(STR("\4\0\0\0\2{}"), "invalid_argument");
    check_stream_refused(STR("\0\377\377\377\377{}"), "resource_exhausted");
}

static void client_stream_is_counted(void)
{
    scoped_client(c);
    scoped_buf(body, CLIENT_BYTES_MAX);
    char code[64];

    for (int i = 0; i < 3000; i++) {
        envelope_put(&body, 0, STR("{\"data\":{\"input\":{\"stdin\":\"YWJjZGVm\"}}}"));
        envelope_put(&body, 0, STR("{\"keepalive\":{}}"));
    }
    fixture.streamed = 0;
    client_open(&c, fixture.port);
    CHECK(client_request(&c, "POST", "/process.Process/StreamInput",
                         "Content-Type: application/connect+json\r\n", buf_str(&body)));
    CHECK_INT(stream_count(&c, code, sizeof(code)), 1);
    CHECK_STR(code, "");
    CHECK_INT(fixture.streamed, 3000 * 6);
}

/* A handler that has the first message of a stream learns that a later one was none. */
static void streams_that_go_wrong(void)
{
    static const struct {
        uint8_t flags;
        const char *text, *code;
    } second[] = {{0, "{\"data\":7}", "invalid_argument"}, {1, "{}", "invalid_argument"}};

    for (size_t i = 0; i < countof(second); i++) {
        scoped_client(c);
        scoped_buf(body, CLIENT_BYTES_MAX);
        char code[64];
        envelope_put(&body, 0, STR("{\"keepalive\":{}}"));
        envelope_put(&body, second[i].flags, str_of(second[i].text));
        client_open(&c, fixture.port);
        CHECK(client_request(&c, "POST", "/process.Process/StreamInput",
                             "Content-Type: application/connect+json\r\n", buf_str(&body)));
        CHECK_INT(stream_count(&c, code, sizeof(code)), 0);
        CHECK_STR(code, second[i].code);
    }
}

/* ---- compression ---- */

static void zip(struct buf *out, struct str plain)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)plain.at, .avail_in = (uInt)plain.len};
    char *at;

    CHECK_INT(buf_reserve(out, ZIP_BYTES_MAX, &at), 0);
    CHECK_INT(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_out = (Bytef *)at;
    z.avail_out = ZIP_BYTES_MAX;
    CHECK_INT(deflate(&z, Z_FINISH), Z_STREAM_END);
    buf_commit(out, ZIP_BYTES_MAX - z.avail_out);
    (void)deflateEnd(&z);
}

/* The JSON in a packed message; NULL when it is not one whole gzip member. */
static json_t *unzip(struct str packed)
{
    static char plain[ZIP_BYTES_MAX];
    z_stream z = {.next_in = (Bytef *)(uintptr_t)packed.at, .avail_in = (uInt)packed.len};

    z.next_out = (Bytef *)plain;
    z.avail_out = sizeof(plain);
    bool whole = inflateInit2(&z, 15 + 16) == Z_OK && inflate(&z, Z_FINISH) == Z_STREAM_END &&
                 z.avail_in == 0;
    (void)inflateEnd(&z);
    return whole ? json_loadb(plain, sizeof(plain) - z.avail_out, 0, NULL) : NULL;
}

static void check_zipped(struct str body, int status, const char *message)
{
    scoped_client(c);
    json_auto_t *out = NULL;

    client_open(&c, fixture.port);
    CHECK_INT(client_unary(&c, "/process.Process/Update", "Content-Encoding: gzip\r\n", body, &out),
              status);
    CHECK_STR(json_text(out, "message", NULL), message);
}

static void packed_requests_are_unpacked(void)
{
    scoped_buf(body, CLIENT_BYTES_MAX);

    zip(&body, STR("{\"process\":{\"pid\":5}}"));
    check_zipped(buf_str(&body), 404, "code \"5\"");
    check_zipped((struct str){buf_at(&body), buf_len(&body) - 1}, 400,
                 "the message's gzip data is cut short");
    zip(&body, STR(" ")); /* a second member */
    check_zipped(buf_str(&body), 404, "code \"5\"");
    CHECK_INT(buf_append(&body, "junk", 4), 0);
    check_zipped(buf_str(&body), 400, "the message is not valid gzip");
}

static void bombs_are_refused(void)
{
    scoped_buf(plain, CLIENT_BYTES_MAX);
    scoped_buf(body, CLIENT_BYTES_MAX);
    char *at;

    CHECK_INT(buf_reserve(&plain, RPC_MESSAGE_BYTES_MAX + 1, &at), 0);
    memset(at, ' ', RPC_MESSAGE_BYTES_MAX + 1);
    memcpy(at, "{}", 2);
    zip(&body, (struct str){at, RPC_MESSAGE_BYTES_MAX});
    check_zipped(buf_str(&body), 200, "");
    buf_clear(&body);
    zip(&body, (struct str){at, RPC_MESSAGE_BYTES_MAX + 1});
    check_zipped(buf_str(&body), 429,
                 "the message unpacks to more than the limit of 16777216 bytes");
}

static void check_list(const char *headers, bool packed)
{
    scoped_client(c);
    char body[2 * LONG_BYTES];
    char all[256];
    size_t n = 0;

    (void)snprintf(all, sizeof(all), "Content-Type: application/json\r\nConnection: close\r\n%s",
                   headers);
    client_open(&c, fixture.port);
    CHECK(client_request(&c, "POST", "/process.Process/List", all, STR("{}")));
    while (n < sizeof(body) && client_body(&c, body + n, 1)) {
        n++;
    }
    CHECK_INT(strstr(c.head, "\r\ncontent-encoding: gzip\r\n") != NULL, packed);
    CHECK_INT(n < LONG_BYTES, packed);
    json_auto_t *out = packed ? unzip((struct str){body, n}) : json_loadb(body, n, 0, NULL);
    const json_t *first = json_array_get(json_object_get(out, "processes"), 0);
    CHECK_STR(json_text(first, "tag", NULL), long_text());
}

static void long_answers_are_packed_for_those_who_ask(void)
{
    json_auto_t *out = NULL;

    check_list("", false);
    check_list("Accept-Encoding: deflate, br\r\n", false);
    check_list("Accept-Encoding: br, gzip;q=0.0\r\n", false);
    check_list("Connect-Accept-Encoding: gzip\r\n", false); /* that is for streams */
    check_list("Accept-Encoding: gzip\r\n", true);
    check_list("Accept-Encoding: GZIP \r\n", true);
    check_list("Accept-Encoding: gzip, deflate\r\n", false); /* a library's list asks for nothing */
    CHECK_INT(unary("/process.Process/Update", "Accept-Encoding: gzip\r\n", "{}", &out), 200);
    CHECK(json_is_object(out)); /* short, so it came as it is */
}

/* The message of the next envelope; NULL when its flags are others. */
static json_t *stream_take(struct client *c, uint8_t flags)
{
    uint8_t head[5];
    char payload[2 * LONG_BYTES];
    uint32_t len;

    if (!client_body(c, head, sizeof(head)) || head[0] != flags) {
        return NULL;
    }
    memcpy(&len, head + 1, sizeof(len));
    len = ntohl(len);
    if (len > sizeof(payload) || !client_body(c, payload, len)) {
        return NULL;
    }
    return flags & 1 ? unzip((struct str){payload, len}) : json_loadb(payload, len, 0, NULL);
}

static void check_stream_packed(const char *headers, bool packed)
{
    scoped_client(c);

    client_open(&c, fixture.port);
    CHECK(client_stream(&c, "/process.Process/Connect", headers, "{\"process\":{\"tag\":\"t\"}}"));
    CHECK_INT(strstr(c.head, "\r\nconnect-content-encoding: gzip\r\n") != NULL, packed);
    json_auto_t *first = stream_take(&c, packed ? 1 : 0);
    const json_t *data = json_object_get(json_object_get(first, "event"), "data");
    CHECK_INT(strlen(json_text(data, "stdout", NULL)), (LONG_BYTES + 2) / 3 * 4);
    json_auto_t *second = stream_take(&c, 0);
    CHECK(json_object_get(json_object_get(second, "event"), "start"));
    json_auto_t *end = stream_take(&c, 2);
    CHECK(json_is_object(end) && json_object_size(end) == 0);
}

static void streams_are_packed_for_those_who_ask(void)
{
    check_stream_packed("", false);
    check_stream_packed("Accept-Encoding: gzip\r\n", false); /* that is for unary calls */
    check_stream_packed("Connect-Accept-Encoding: gzip\r\n", true);
}

/* Sends one plain message of six bytes and then this envelope; the code of the answer's end. */
static void check_input(const char *encoding, struct str packed, const char *want)
{
    scoped_client(c);
    scoped_buf(body, CLIENT_BYTES_MAX);
    char code[64] = "";
    char headers[256];

    envelope_put(&body, 0, STR("{\"data\":{\"input\":{\"stdin\":\"YWJjZGVm\"}}}"));
    envelope_put(&body, 1, packed);
    (void)snprintf(headers, sizeof(headers),
                   "Content-Type: application/connect+json\r\nConnect-Content-Encoding: %s\r\n",
                   encoding);
    fixture.streamed = 0;
    client_open(&c, fixture.port);
    CHECK(client_request(&c, "POST", "/process.Process/StreamInput", headers, buf_str(&body)));
    CHECK_INT(stream_count(&c, code, sizeof(code)), *want ? 0 : 1);
    CHECK_STR(code, want);
}

static void packed_envelopes_are_unpacked(void)
{
    scoped_buf(packed, CLIENT_BYTES_MAX);

    zip(&packed, STR("{\"data\":{\"input\":{\"stdin\":\"YWJj\"}}}"));
    check_input("gzip", buf_str(&packed), "");
    CHECK_INT(fixture.streamed, 6 + 3);
    check_input("gzip", STR("{}"), "invalid_argument");
    check_input("identity", buf_str(&packed), "invalid_argument");
    CHECK_INT(fixture.streamed, 6);
    check_input("zstd", buf_str(&packed), "unimplemented");
    CHECK_INT(fixture.streamed, 0);
}

static void leaving_is_told(void)
{
    for (int i = 0; i < 10; i++) {
        scoped_client(c);
        uint8_t flags;
        client_open(&c, fixture.port);
        CHECK(client_stream(&c, "/process.Process/Start", "", "{}"));
        json_auto_t *first = client_next(&c, &flags);
        CHECK(first && flags == 0);
    }
    server_end();
    CHECK_INT(fixture.gone, 10);
    CHECK_INT(fixture.broken, 4);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a unary call is answered", unary_answers},
        {"each code has its name and HTTP status", codes_have_their_status},
        {"bad requests are refused", bad_requests_are_refused},
        {"only POST, only our paths", wrong_method_and_other_paths},
        {"a message over the limit is refused", message_too_long},
        {"a stream delivers in order and ends well or with its error", stream_delivers_and_ends},
        {"bad envelopes are refused", bad_envelopes_are_refused},
        {"a client's stream arrives whole", client_stream_is_counted},
        {"a stream that goes wrong in the middle", streams_that_go_wrong},
        {"packed requests are unpacked", packed_requests_are_unpacked},
        {"a request that unpacks to too much is refused", bombs_are_refused},
        {"long answers are packed for those who ask", long_answers_are_packed_for_those_who_ask},
        {"so are a stream's long messages", streams_are_packed_for_those_who_ask},
        {"packed messages of a client's stream are unpacked", packed_envelopes_are_unpacked},
        {"a client that leaves is noticed, and nothing is left", leaving_is_told},
    };

    if (!server_start()) {
        printf("Bail out! the server does not start\n");
        return 1;
    }
    return check_run(tests, countof(tests));
}
