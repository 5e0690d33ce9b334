#include <errno.h>

#include "check.h"
#include "filesystem.pb-c.h"
#include "lib/rpc/internal.h"
#include "lib/rpc/process.h"
#include "process.pb-c.h"

#define DECODE(type, text, out, err)                                                               \
    json_decode(&type##__descriptor, str_of(text), (ProtobufCMessage **)(void *)(out), err)

static void free_message(void *at)
{
    ProtobufCMessage **message = at;

    protobuf_c_message_free_unpacked(*message, NULL);
}

static void check_encodes(const void *message, const char *want)
{
    scoped_buf(out, 65536);

    CHECK_INT(json_encode(message, &out), 0);
    CHECK_INT(buf_append(&out, "", 1), 0);
    CHECK_STR(buf_at(&out), want);
}

static void check_refused(const ProtobufCMessageDescriptor *type, struct str text, const char *why)
{
    struct err err = {0};
    ProtobufCMessage *out = NULL;

    CHECK_INT(json_decode(type, text, &out, &err), -EINVAL);
    CHECK(out == NULL);
    CHECK_THAT(strstr(err.msg, why), "'%s' does not say '%s'", err.msg, why);
}

static void data_event_is_base64(void)
{
    Process__ProcessEvent__DataEvent data;
    Process__ProcessEvent event;
    Process__StartResponse response;
    uint8_t bytes[] = {0xff, 0x00, 'a', '\n'};

    process__process_event__data_event__init(&data);
    process__process_event__init(&event);
    process__start_response__init(&response);
    data.output_case = PROCESS__PROCESS_EVENT__DATA_EVENT__OUTPUT_STDOUT;
    data.stdout = (ProtobufCBinaryData){sizeof(bytes), bytes};
    event.event_case = PROCESS__PROCESS_EVENT__EVENT_DATA;
    event.data = &data;
    response.event = &event;
    check_encodes(&response, "{\"event\":{\"data\":{\"stdout\":\"/wBhCg==\"}}}");
}

static void presence_decides(void)
{
    Process__ProcessEvent__EndEvent end;
    Process__ListResponse empty;

    process__process_event__end_event__init(&end);
    process__list_response__init(&empty);
    check_encodes(&empty, "{}");
    end.has_exit_code = 1;
    end.has_exited = 1;
    end.exited = 1;
    end.status = (char *)(uintptr_t) "exit status 0";
    check_encodes(&end, "{\"exitCode\":0,\"exited\":true,\"status\":\"exit status 0\"}");
    end.exit_code = -1;
    end.error = (char *)(uintptr_t) "a \"b\"\\\x01\xff\xc3\xa9";
    check_encodes(&end, "{\"exitCode\":-1,\"exited\":true,\"status\":\"exit status 0\","
                        "\"error\":\"a \\\"b\\\"\\\\\\u0001\xef\xbf\xbd\xc3\xa9\"}");
}

static void shapes_of_their_own(void)
{
    Google__Protobuf__Timestamp when;
    Filesystem__EntryInfo__MetadataEntry pair;
    Filesystem__EntryInfo__MetadataEntry *pairs[] = {&pair};
    Filesystem__EntryInfo entry;

    google__protobuf__timestamp__init(&when);
    filesystem__entry_info__metadata_entry__init(&pair);
    filesystem__entry_info__init(&entry);
    when.seconds = 1767323045;
    when.nanos = 5000;
    pair.key = (char *)(uintptr_t) "k";
    pair.value = (char *)(uintptr_t) "v";
    entry.type = FILESYSTEM__FILE_TYPE__FILE_TYPE_DIRECTORY;
    entry.size = 9007199254740993;
    entry.modified_time = &when;
    entry.metadata = pairs;
    entry.n_metadata = 1;
    check_encodes(&entry, "{\"type\":\"FILE_TYPE_DIRECTORY\",\"size\":\"9007199254740993\","
                          "\"modifiedTime\":\"2026-01-02T03:04:05.000005000Z\","
                          "\"metadata\":{\"k\":\"v\"}}");
    when.seconds = INT64_MAX; /* a file may carry it */
    when.nanos = 0;
    check_encodes(&when, "\"9999-12-31T23:59:59Z\"");
}

static void start_request_decodes(void)
{
    scoped(free_message) Process__StartRequest *req = NULL;
    struct err err;

    CHECK_INT(DECODE(process__start_request,
                     "{\"process\":{\"cmd\":\"/bin/bash\",\"args\":[\"-l\",\"-c\",\"true\"],"
                     "\"envs\":{\"A\":\"1\",\"B\":\"\"},\"cwd\":null},\"pty\":{\"size\":{\"cols\":"
                     "\"80\",\"rows\":24}},\"stdin\":false,\"later\":[{\"x\":1}]}",
                     &req, &err),
              0);
    CHECK_STR(req->process->cmd, "/bin/bash");
    CHECK_INT((long long)req->process->n_args, 3);
    CHECK_STR(req->process->args[2], "true");
    CHECK_INT((long long)req->process->n_envs, 2);
    CHECK_STR(req->process->envs[0]->key, "A");
    CHECK_STR(req->process->envs[1]->value, "");
    CHECK(!req->process->cwd && !req->tag);
    CHECK_INT(req->pty->size->cols, 80);
    CHECK_INT(req->pty->size->rows, 24);
    CHECK(req->has_stdin && !req->stdin);
}

static void names_numbers_and_enums(void)
{
    scoped(free_message) Process__ProcessEvent *event = NULL;
    scoped(free_message) Process__SendSignalRequest *signal = NULL;
    scoped(free_message) Process__SendSignalRequest *number = NULL;
    struct err err;

    CHECK_INT(DECODE(process__process_event, "{\"end\":{\"exit_code\":-7.0}}", &event, &err), 0);
    CHECK_INT(event->event_case, PROCESS__PROCESS_EVENT__EVENT_END);
    CHECK_INT(event->end->exit_code, -7);
    CHECK_INT(DECODE(process__send_signal_request,
                     "{\"process\":{\"pid\":4294967295},\"signal\":\"SIGNAL_SIGKILL\"}", &signal,
                     &err),
              0);
    CHECK_INT(signal->process->pid, 4294967295);
    CHECK_INT(signal->signal, PROCESS__SIGNAL__SIGNAL_SIGKILL);
    CHECK_INT(DECODE(process__send_signal_request, "{\"signal\":15}", &number, &err), 0);
    CHECK_INT(number->signal, PROCESS__SIGNAL__SIGNAL_SIGTERM);
}

static void wrong_is_refused(void)
{
    const ProtobufCMessageDescriptor *start = &process__start_request__descriptor;
    const ProtobufCMessageDescriptor *selector = &process__process_selector__descriptor;
    const ProtobufCMessageDescriptor *input = &process__process_input__descriptor;

    check_refused(start, STR(""), "not JSON");
    check_refused(start, STR("{"), "not JSON");
    check_refused(start, STR("[]"), "must be an object");
    check_refused(start, STR("{\"process\":7}"), "process: must be an object");
    check_refused(start, STR("{\"process\":{\"cmd\":7}}"), "process: cmd: must be text");
    check_refused(start, STR("{\"process\":{\"args\":\"x\"}}"), "args: must be a list");
    check_refused(start, STR("{\"process\":{\"args\":[\"x\",1]}}"), "args: must be text");
    check_refused(start, STR("{\"process\":{\"envs\":{\"A\":1}}}"), "envs: A: must be text");
    check_refused(start, STR("{\"process\":{\"cmd\":\"a\\u0000b\"}}"), "holds a NUL character");
    check_refused(start, STR("{\"stdin\":\"yes\"}"), "stdin: must be true or false");
    check_refused(start, STR("{\"tag\":\"a\",\"tag\":\"b\"}"), "not JSON");
    check_refused(selector, STR("{\"pid\":4294967296}"), "in range");
    check_refused(selector, STR("{\"pid\":-1}"), "in range");
    check_refused(selector, STR("{\"pid\":1.5}"), "in range");
    check_refused(selector, STR("{\"pid\":\"12x\"}"), "in range");
    check_refused(selector, STR("{\"pid\":1,\"tag\":\"a\"}"), "only one may be");
    check_refused(input, STR("{\"stdin\":\"a\"}"), "base64");
    check_refused(input, STR("{\"stdin\":24}"), "base64");
    check_refused(input, STR("{\"stdin\":\"!!!!\"}"), "base64");
    check_refused(&process__send_signal_request__descriptor, STR("{\"signal\":\"SIGHUP\"}"),
                  "'SIGHUP' is no value of Signal");
}

static void depth_and_count_are_bounded(void)
{
    scoped_buf(text, 1 << 20);

    for (int i = 0; i < 100; i++) {
        CHECK_INT(buf_append(&text, "{\"x\":[", 6), 0);
    }
    check_refused(&process__start_request__descriptor, buf_str(&text), "levels");
    buf_clear(&text);
    CHECK_INT(buf_append(&text, "[", 1), 0);
    for (int i = 0; i <= RPC_VALUES_MAX; i++) {
        CHECK_INT(buf_append(&text, "0,", 2), 0);
    }
    check_refused(&process__start_request__descriptor, buf_str(&text), "too many values");
}

static void binary_round_trip(void)
{
    scoped(free_message) ProtobufCMessage *back = NULL;
    scoped(free_message) Process__StartRequest *req = NULL;
    scoped_buf(wire, 4096);
    struct err err;

    CHECK_INT(DECODE(process__start_request,
                     "{\"process\":{\"cmd\":\"x\",\"envs\":{\"A\":\"1\"}},\"stdin\":true}", &req,
                     &err),
              0);
    CHECK_INT(rpc_encode(RPC_CODEC_PROTO, &req->base, &wire), 0);
    CHECK_INT(rpc_decode(RPC_CODEC_PROTO, req->base.descriptor, buf_str(&wire), &back, &err), 0);
    check_encodes(back, "{\"process\":{\"cmd\":\"x\",\"envs\":{\"A\":\"1\"}},\"stdin\":true}");
}

static void check_binary_refused(struct str bytes, const char *why)
{
    struct err err = {0};
    ProtobufCMessage *out = NULL;

    CHECK_INT(proto_decode(&process__start_request__descriptor, bytes, &out, &err), -EINVAL);
    CHECK(out == NULL);
    CHECK_THAT(strstr(err.msg, why), "'%s' does not say '%s'", err.msg, why);
}

static void broken_binary_is_refused(void)
{
    check_binary_refused(STR("\x0a"), "not protobuf");
    check_binary_refused(STR("\x0a\x05xx"), "not protobuf");
    check_binary_refused(STR("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), "not protobuf");
    check_binary_refused(STR("\x0b"), "not protobuf");
    check_binary_refused(STR("\x1a\x03"
                             "a\0b"),
                         "tag: text may not hold a NUL");
}

static void event_of(struct buf *text, struct process_event *out)
{
    const struct frame frame = {.message = buf_str(text)};

    process_event(&frame, out);
}

/* What takes a hundred times its length in memory is not even looked at. */
static void an_event_of_many_values_is_none(void)
{
    static const char start[] = "{\"event\":{\"start\":{\"pid\":7}},\"more\":[";
    struct process_event event;
    scoped_buf(text, PROCESS_MESSAGE_BYTES_MAX);

    process_event_init(&event);
    CHECK_INT(buf_printf(&text, "%s0]}", start), 0);
    event_of(&text, &event);
    CHECK_INT(event.news, PROCESS_STARTED);
    CHECK_INT(event.pid, 7);

    buf_clear(&text);
    CHECK_INT(buf_printf(&text, "%s{}", start), 0);
    for (int i = 0; i < PROCESS_VALUES_MAX; i++) {
        CHECK_INT(buf_printf(&text, ",{}"), 0);
    }
    CHECK_INT(buf_printf(&text, "]}"), 0);
    event_of(&text, &event);
    CHECK_INT(event.news, PROCESS_NOTHING);
    process_event_fini(&event);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a data event is base64 in its place", data_event_is_base64},
        {"a field is written when it is present", presence_decides},
        {"enums, 64-bit numbers, times and maps have their JSON forms", shapes_of_their_own},
        {"a start request decodes; unknown and null fields are ignored", start_request_decodes},
        {"both spellings of names, numbers and enums are taken", names_numbers_and_enums},
        {"wrong types and texts are refused with a sentence", wrong_is_refused},
        {"depth and number of values are bounded", depth_and_count_are_bounded},
        {"binary and JSON are the same message", binary_round_trip},
        {"broken protobuf is refused", broken_binary_is_refused},
        {"an event of many values is none", an_event_of_many_values_is_none},
    };
    return check_run(tests, countof(tests));
}
