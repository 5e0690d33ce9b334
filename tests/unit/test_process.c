/* The process service, on the real agent over loopback. */
#include <errno.h>

#include "agent_fixture.h"
#include "check.h"

enum { OUTPUT_MAX = 32 * 1024 * 1024 };

static struct agent_child agent;

/* ---- one process seen from a client ---- */

struct run {
    struct client client;
    long long pid;
    struct buf out;
    struct buf err;
    struct buf pty;
    bool ended;
    long long exit_code;
    char status[128];
    char error[128];
    char code[64]; /* of the stream's own error */
    char message[256];
};

static void run_close(struct run *run)
{
    client_close(&run->client);
    buf_fini(&run->out);
    buf_fini(&run->err);
    buf_fini(&run->pty);
}
#define scoped_run(name) scoped(run_close) struct run name = {.client = {.fd = -1}}

static void collect(struct run *run, const json_t *data)
{
    struct buf *bufs[] = {&run->out, &run->err, &run->pty};
    static const char *const names[] = {"stdout", "stderr", "pty"};

    for (size_t i = 0; i < countof(names); i++) {
        const char *text = json_text(data, names[i], NULL);
        if (*text && base64_decode(bufs[i], str_of(text)) < 0) {
            abort();
        }
    }
}

static void ended(struct run *run, const json_t *end)
{
    run->ended = true;
    run->exit_code = json_integer_value(json_object_get(end, "exitCode"));
    (void)snprintf(run->status, sizeof(run->status), "%s", json_text(end, "status", NULL));
    (void)snprintf(run->error, sizeof(run->error), "%s", json_text(end, "error", NULL));
}

/* Takes one message of the stream; false after the last. */
static bool run_step(struct run *run)
{
    uint8_t flags = 0;
    json_auto_t *message = client_next(&run->client, &flags);
    const json_t *event = json_object_get(message, "event");
    const json_t *start = json_object_get(event, "start");

    if (!message || flags == 2) {
        (void)snprintf(run->code, sizeof(run->code), "%s", json_text(message, "error", "code"));
        (void)snprintf(run->message, sizeof(run->message), "%s",
                       json_text(message, "error", "message"));
        return false;
    }
    if (start) {
        run->pid = json_integer_value(json_object_get(start, "pid"));
    }
    collect(run, json_object_get(event, "data"));
    if (json_object_get(event, "end")) {
        ended(run, json_object_get(event, "end"));
    }
    return true;
}

static void run_rest(struct run *run)
{
    while (run_step(run)) {
    }
}

/* Opens the stream and takes its first message. */
static bool run_open(struct run *run, const char *path, const char *headers, const char *message)
{
    *run = (struct run){0};
    buf_init(&run->out, OUTPUT_MAX);
    buf_init(&run->err, OUTPUT_MAX);
    buf_init(&run->pty, OUTPUT_MAX);
    client_open(&run->client, agent.port);
    return client_stream(&run->client, path, headers, message) && run_step(run) && run->pid > 0;
}

/* A shell with the given command; `more` are further fields of the request. */
static bool run_shell(struct run *run, const char *headers, const char *command, const char *more)
{
    char text[4096];
    json_auto_t *quoted = json_string(command);
    char *json = json_dumps(quoted, JSON_ENCODE_ANY);

    (void)snprintf(text, sizeof(text),
                   "{\"process\":{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",%s],"
                   "\"envs\":{\"FROM_REQUEST\":\"1\",\"USER\":\"other\"}}%s}",
                   json, more);
    free(json);
    return run_open(run, "/process.Process/Start", headers, text);
}

static bool attach(struct run *run, long long pid, const char *headers)
{
    char text[128];

    (void)snprintf(text, sizeof(text), "{\"process\":{\"pid\":%lld}}", pid);
    return run_open(run, "/process.Process/Connect", headers, text);
}

/* A unary call; its HTTP status, and the error's code and message where there is one. */
static int ask(const char *method, const char *body, char *code, char *message, size_t size)
{
    scoped_client(c);
    json_auto_t *out = NULL;
    char path[128];

    (void)snprintf(path, sizeof(path), "/process.Process/%s", method);
    client_open(&c, agent.port);
    int status = client_unary(&c, path, "", str_of(body), &out);
    (void)snprintf(code, size, "%s", json_text(out, "code", NULL));
    (void)snprintf(message, size, "%s", json_text(out, "message", NULL));
    return status;
}

static int ask_pid(const char *method, long long pid, const char *more, char *code, char *message,
                   size_t size)
{
    char body[512];

    (void)snprintf(body, sizeof(body), "{\"process\":{\"pid\":%lld}%s}", pid, more);
    return ask(method, body, code, message, size);
}

static const char *text_of(struct buf *buf)
{
    if (buf_append(buf, "", 1) < 0) {
        abort();
    }
    buf->end--;
    return buf_at(buf);
}

/* ---- tests ---- */

static void runs_and_ends(void)
{
    scoped_run(run);

    CHECK(run_shell(&run, "", "echo out; echo err >&2; exit 3", ""));
    run_rest(&run);
    CHECK_STR(text_of(&run.out), "out\n");
    CHECK_STR(text_of(&run.err), "err\n");
    CHECK(run.ended);
    CHECK_INT(run.exit_code, 3);
    CHECK_STR(run.status, "exit status 3");
    CHECK_STR(run.error, "exit status 3");
    CHECK_STR(run.code, "");
    CHECK(kill((pid_t)run.pid, 0) < 0 && errno == ESRCH);
}

static void environment_is_layered(void)
{
    scoped_run(run);

    CHECK(run_shell(&run, "", "echo \"$FROM_REQUEST $USER $HOME $PATH\"; pwd; id -un", ""));
    run_rest(&run);
    CHECK_STR(text_of(&run.out),
              "1 other /root /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
              "/root\nroot\n");
    CHECK_STR(run.error, "");
}

static void nothing_leaks_into_it(void)
{
    scoped_run(run);

    CHECK(run_shell(&run, "",
                    "ls /proc/self/fd | tr '\\n' ' '; ulimit -n; trap; "
                    "grep -E '^Sig(Blk|Ign)' /proc/self/status",
                    ""));
    run_rest(&run);
    const char *text = text_of(&run.out);
    CHECK_THAT(strncmp(text, "0 1 2 3 ", 8) == 0, "descriptors: %s", text); /* 3 is ls's own */
    CHECK(strstr(text, "SigBlk:\t0000000000000000"));
    CHECK(strstr(text, "SigIgn:\t0000000000000000"));
}

static void deaths_by_signal(void)
{
    scoped_run(killed);
    scoped_run(ended_by_us);
    char code[64], message[256];

    CHECK(run_shell(&killed, "", "kill -TERM $$", ""));
    run_rest(&killed);
    CHECK_INT(killed.exit_code, -1);
    CHECK_STR(killed.status, "signal: terminated");
    CHECK(run_shell(&ended_by_us, "", "exec sleep 1000", ""));
    CHECK_INT(ask_pid("SendSignal", ended_by_us.pid, ",\"signal\":\"SIGNAL_SIGKILL\"", code,
                      message, sizeof(message)),
              200);
    CHECK(kill((pid_t)ended_by_us.pid, 0) < 0 && errno == ESRCH); /* it is gone by then */
    run_rest(&ended_by_us);
    CHECK_INT(ended_by_us.exit_code, -1);
    CHECK_STR(ended_by_us.error, "signal: killed");
}

static void deadline_kills(void)
{
    scoped_run(run);
    scoped_run(late);

    CHECK(run_shell(&run, "Connect-Timeout-Ms: 200\r\n", "exec sleep 1000", ""));
    run_rest(&run);
    CHECK_STR(run.code, "deadline_exceeded");
    CHECK(!run.ended);
    CHECK(attach(&late, run.pid, ""));
    run_rest(&late);
    CHECK_STR(late.error, "signal: killed");
}

static void stdin_flows(void)
{
    scoped_run(run);
    char code[64], message[256];

    CHECK(run_shell(&run, "", "cat; echo end", ""));
    CHECK_INT(ask_pid("SendInput", run.pid, ",\"input\":{\"stdin\":\"aGVsbG8K\"}", code, message,
                      sizeof(message)),
              200);
    CHECK_INT(ask_pid("CloseStdin", run.pid, "", code, message, sizeof(message)), 200);
    run_rest(&run);
    CHECK_STR(text_of(&run.out), "hello\nend\n");
}

static void stdin_off_is_empty(void)
{
    scoped_run(off);
    scoped_run(waiting);
    char code[64], message[256];

    CHECK(run_shell(&off, "", "read x; echo $?", ",\"stdin\":false"));
    run_rest(&off);
    CHECK_STR(text_of(&off.out), "1\n");
    CHECK(run_shell(&waiting, "", "exec sleep 1000", ",\"stdin\":false"));
    CHECK_INT(ask_pid("SendInput", waiting.pid, ",\"input\":{\"stdin\":\"eA==\"}", code, message,
                      sizeof(message)),
              500);
    CHECK_STR(message, "error writing to stdin: stdin not enabled or closed");
    CHECK_INT(kill((pid_t)waiting.pid, SIGKILL), 0);
}

static void input_waits_for_its_reader(void)
{
    enum { BYTES = 4 * 1024 * 1024 };
    scoped_run(run);
    scoped_buf(body, CLIENT_BYTES_MAX);
    scoped_buf(bytes, BYTES);
    scoped_client(c);
    json_auto_t *out = NULL;
    char *at;

    CHECK_INT(buf_reserve(&bytes, BYTES, &at), 0);
    memset(at, 'x', BYTES);
    buf_commit(&bytes, BYTES);
    CHECK(run_shell(&run, "", "sleep 0.3; head -c 4194304 | wc -c", ",\"tag\":\"slow\""));
    CHECK_INT(buf_printf(&body, "{\"process\":{\"tag\":\"slow\"},\"input\":{\"stdin\":\""), 0);
    CHECK_INT(base64_encode(&body, at, BYTES, BASE64_STD), 0);
    CHECK_INT(buf_printf(&body, "\"}}"), 0);
    client_open(&c, agent.port);
    CHECK_INT(client_unary(&c, "/process.Process/SendInput", "", buf_str(&body), &out), 200);
    run_rest(&run);
    CHECK_STR(text_of(&run.out), "4194304\n");
}

static void output_waits_for_a_new_reader(void)
{
    struct run first;
    scoped_run(second);
    scoped_run(third);

    CHECK(run_shell(&first, "", "echo one; read x; echo two; echo three >&2", ""));
    long long pid = first.pid;
    CHECK(run_step(&first));
    CHECK_STR(text_of(&first.out), "one\n");
    run_close(&first); /* gone without a word */

    char code[64], message[256];
    CHECK_INT(ask_pid("SendInput", pid, ",\"input\":{\"stdin\":\"Cg==\"}", code, message,
                      sizeof(message)),
              200);
    for (int i = 0; i < 1000 && kill((pid_t)pid, 0) == 0; i++) {
        (void)usleep(10000); /* until it has written everything and gone */
    }
    CHECK(attach(&second, pid, ""));
    run_rest(&second);
    CHECK_INT(second.pid, pid);
    CHECK_STR(text_of(&second.out), "two\n");
    CHECK_STR(text_of(&second.err), "three\n");
    CHECK_STR(second.status, "exit status 0");
    CHECK(attach(&third, pid, "")); /* the end is kept, the output has been delivered */
    run_rest(&third);
    CHECK_STR(text_of(&third.out), "");
    CHECK_STR(third.status, "exit status 0");
}

static void replay_can_be_declined(void)
{
    struct run first;
    scoped_run(second);

    CHECK(run_shell(&first, "", "read x; echo two", ""));
    long long pid = first.pid;
    run_close(&first);
    char code[64], message[256];
    CHECK_INT(ask_pid("SendInput", pid, ",\"input\":{\"stdin\":\"Cg==\"}", code, message,
                      sizeof(message)),
              200);
    for (int i = 0; i < 1000 && kill((pid_t)pid, 0) == 0; i++) {
        (void)usleep(10000);
    }
    CHECK(attach(&second, pid, "Atoll-Replay: off\r\n"));
    run_rest(&second);
    CHECK_STR(text_of(&second.out), "");
    CHECK_STR(second.status, "exit status 0");
}

static void unread_output_is_bounded(void)
{
    struct run first;
    scoped_run(second);

    CHECK(run_shell(&first, "", "read x; seq 1000000; echo last", ""));
    long long pid = first.pid;
    run_close(&first);
    char code[64], message[256];
    CHECK_INT(ask_pid("SendInput", pid, ",\"input\":{\"stdin\":\"Cg==\"}", code, message,
                      sizeof(message)),
              200);
    for (int i = 0; i < 3000 && kill((pid_t)pid, 0) == 0; i++) {
        (void)usleep(10000); /* it never stalls, so it ends */
    }
    CHECK(attach(&second, pid, ""));
    run_rest(&second);
    const char *text = text_of(&second.out);
    size_t len = buf_len(&second.out);
    CHECK_THAT(len > 900 * 1024 && len <= 1024 * 1024, "%zu bytes were kept", len);
    CHECK_STR(text + len - strlen("999999\n1000000\nlast\n"), "999999\n1000000\nlast\n");
}

static void nothing_is_lost_in_bulk(void)
{
    scoped_run(run);
    scoped_buf(want, OUTPUT_MAX);

    for (int i = 1; i <= 2000000; i++) {
        CHECK_INT(buf_printf(&want, "%d\n", i), 0);
    }
    CHECK(run_shell(&run, "", "seq 2000000", ""));
    run_rest(&run);
    CHECK_INT(buf_len(&run.out), buf_len(&want));
    CHECK(memcmp(buf_at(&run.out), buf_at(&want), buf_len(&want)) == 0);
}

/* ---- binary messages ---- */

static void field_put(struct buf *out, unsigned id, struct str value)
{
    char head[4] = {(char)(id << 3 | 2), (char)value.len};

    CHECK(value.len < 128);
    CHECK_INT(buf_append(out, head, 2), 0);
    CHECK_INT(buf_append(out, value.at, value.len), 0);
}

/* Takes the value of a field with that number off the front. */
static bool field_take(struct str *in, unsigned id, struct str *value)
{
    size_t len = 0, n = 1;

    if (in->len < 2 || (uint8_t)in->at[0] != (id << 3 | 2)) {
        return false;
    }
    for (unsigned shift = 0; n < in->len; shift += 7) {
        len |= (size_t)(in->at[n] & 0x7f) << shift;
        if (!(in->at[n++] & 0x80)) {
            break;
        }
    }
    if (len > in->len - n) {
        return false;
    }
    *value = (struct str){in->at + n, len};
    *in = str_skip(*in, n + len);
    return true;
}

/* Reads a stream in binary form to its end: the output, and the length of the longest piece. */
static void binary_rest(struct client *c, struct buf *out, size_t *longest)
{
    scoped_buf(message, OUTPUT_MAX);
    uint8_t head[5];
    char *at;

    while (client_body(c, head, sizeof(head)) && head[0] == 0) {
        uint32_t len;
        memcpy(&len, head + 1, sizeof(len));
        len = ntohl(len);
        buf_clear(&message);
        CHECK(buf_reserve(&message, len, &at) == 0 && client_body(c, at, len));
        buf_commit(&message, len);
        struct str rest = buf_str(&message), event, data, bytes;
        CHECK(field_take(&rest, 1, &event) && rest.len == 0);
        if (field_take(&event, 2, &data)) {
            CHECK(field_take(&data, 1, &bytes) && data.len == 0 && event.len == 0);
            CHECK_INT(buf_append(out, bytes.at, bytes.len), 0);
            *longest = bytes.len > *longest ? bytes.len : *longest;
        }
    }
    CHECK_INT(head[0], 2);
}

static void binary_open(struct client *c, const char *command)
{
    static const char type[] = "Content-Type: application/connect+proto\r\n";
    scoped_buf(config, 256);
    scoped_buf(request, 256);
    scoped_buf(body, 256);

    field_put(&config, 1, STR("/bin/sh"));
    field_put(&config, 2, STR("-c"));
    field_put(&config, 2, str_of(command));
    field_put(&request, 1, buf_str(&config));
    envelope_put(&body, 0, buf_str(&request));
    client_open(c, agent.port);
    CHECK(client_request(c, "POST", "/process.Process/Start", type, buf_str(&body)));
    CHECK_INT(c->status, 200);
}

static void binary_output_is_whole(void)
{
    scoped_client(c);
    scoped_buf(out, OUTPUT_MAX);
    scoped_buf(want, OUTPUT_MAX);
    size_t longest = 0;

    for (int i = 1; i <= 2000000; i++) {
        CHECK_INT(buf_printf(&want, "%d\n", i), 0);
    }
    binary_open(&c, "seq 2000000");
    binary_rest(&c, &out, &longest);
    CHECK_INT(buf_len(&out), buf_len(&want));
    CHECK(memcmp(buf_at(&out), buf_at(&want), buf_len(&want)) == 0);
}

/* The client reads nothing until the process has filled its pipe, the window and the socket. */
static void full_pipes_are_read_in_large_pieces(void)
{
    scoped_client(c);
    scoped_buf(out, OUTPUT_MAX);
    size_t longest = 0;

    binary_open(&c, "head -c 24000000 /dev/zero | tr '\\0' x");
    (void)usleep(500000);
    binary_rest(&c, &out, &longest);
    CHECK_INT(buf_len(&out), 24000000);
    CHECK_THAT(longest > 64 * 1024, "the longest piece has %zu bytes", longest);
    for (size_t i = 0; i < buf_len(&out); i++) {
        if (buf_at(&out)[i] != 'x') {
            CHECK_THAT(false, "byte %zu", i);
        }
    }
}

static void clients_that_leave_in_bulk_harm_nobody(void)
{
    for (int i = 0; i < 20; i++) {
        scoped_client(c);
        char some[1000];
        binary_open(&c, "head -c 3000000 /dev/zero");
        CHECK(client_body(&c, some, i % 2 ? sizeof(some) : 1));
    }
    scoped_run(run);
    CHECK(run_shell(&run, "", "echo there", ""));
    run_rest(&run);
    CHECK_STR(text_of(&run.out), "there\n");
}

static void two_readers_get_the_same(void)
{
    scoped_run(first);
    scoped_run(second);
    char code[64], message[256];

    CHECK(run_shell(&first, "", "read x; seq 1000", ""));
    CHECK(attach(&second, first.pid, ""));
    CHECK_INT(ask_pid("SendInput", first.pid, ",\"input\":{\"stdin\":\"Cg==\"}", code, message,
                      sizeof(message)),
              200);
    run_rest(&first);
    run_rest(&second);
    CHECK(first.ended && second.ended);
    CHECK_STR(text_of(&first.out), text_of(&second.out));
    CHECK_INT(buf_len(&first.out), 3893);
}

static void descendants_do_not_delay_the_end(void)
{
    scoped_run(run);

    CHECK(run_shell(&run, "", "sleep 1000 & echo $!", ""));
    run_rest(&run);
    CHECK_STR(run.status, "exit status 0");
    pid_t left = atoi(text_of(&run.out));
    CHECK(left > 1);
    CHECK_INT(kill(left, SIGKILL), 0); /* it lives on, with its output */
}

/* Waits until somebody has written a whole line to the file. */
static bool line_of(const char *path, char *out, int size)
{
    for (int i = 0; i < 1000; i++) {
        FILE *file = fopen(path, "re");
        bool whole = file && fgets(out, size, file) && strchr(out, '\n');
        if (file) {
            (void)fclose(file);
        }
        if (whole) {
            return true;
        }
        (void)usleep(10 * 1000);
    }
    return false;
}

/* Far more than a pipe holds, so somebody must read it. */
static void descendants_write_on(void)
{
    scoped_run(run);
    scoped_tmpdir dir = tmpdir_make();
    char script[1024], path[512], line[64] = "";

    (void)snprintf(script, sizeof(script),
                   "cd %s; (trap '' PIPE; until [ -e go ]; do sleep 0.02; done; "
                   "head -c 1000000 /dev/zero && head -c 1000000 /dev/zero >&2 "
                   "&& echo wrote >result || echo broken >result) &",
                   dir.path);
    CHECK(run_shell(&run, "", script, ""));
    run_rest(&run);
    CHECK_STR(run.status, "exit status 0");
    (void)snprintf(path, sizeof(path), "%s/go", dir.path);
    FILE *go = fopen(path, "we");
    CHECK(go && fclose(go) == 0);
    (void)snprintf(path, sizeof(path), "%s/result", dir.path);
    CHECK(line_of(path, line, sizeof(line)));
    CHECK_STR(line, "wrote\n");
}

static void terminal_works(void)
{
    scoped_run(run);
    char code[64], message[256];

    CHECK(run_shell(&run, "", "stty size; tty; read x; stty size; kill -INT $$",
                    ",\"pty\":{\"size\":{\"cols\":91,\"rows\":17}}"));
    CHECK_INT(ask_pid("Update", run.pid, ",\"pty\":{\"size\":{\"cols\":132,\"rows\":50}}", code,
                      message, sizeof(message)),
              200);
    CHECK_INT(ask_pid("CloseStdin", run.pid, "", code, message, sizeof(message)), 500);
    CHECK_INT(ask_pid("SendInput", run.pid, ",\"input\":{\"stdin\":\"Cg==\"}", code, message,
                      sizeof(message)),
              500);
    CHECK_INT(ask_pid("SendInput", run.pid, ",\"input\":{\"pty\":\"Cg==\"}", code, message,
                      sizeof(message)),
              200);
    run_rest(&run);
    const char *text = text_of(&run.pty);
    CHECK(strstr(text, "/dev/pts/"));
    CHECK(strstr(text, "50 132\r\n"));
    CHECK_STR(run.status, "signal: interrupt");
}

static void check_start_fails(const char *headers, const char *message, const char *code,
                              const char *why)
{
    scoped_run(run);

    CHECK(!run_open(&run, "/process.Process/Start", headers, message));
    CHECK_STR(run.code, code);
    CHECK_THAT(strstr(run.message, why), "'%s' does not say '%s'", run.message, why);
}

static void bad_starts_say_why(void)
{
    check_start_fails("", "{}", "invalid_argument", "no command");
    check_start_fails("", "{\"process\":{\"cmd\":\"true\",\"cwd\":\"/nix/da\"}}",
                      "invalid_argument", "cwd '/nix/da' does not exist");
    check_start_fails("", "{\"process\":{\"cmd\":\"true\",\"cwd\":\"/etc/passwd\"}}",
                      "invalid_argument", "Not a directory");
    check_start_fails("", "{\"process\":{\"cmd\":\"no-such-program\"}}", "invalid_argument",
                      "error starting process 'no-such-program'");
    check_start_fails("", "{\"process\":{\"cmd\":\"true\",\"envs\":{\"A=B\":\"1\"}}}",
                      "invalid_argument", "'A=B' cannot be the name");
    check_start_fails("Authorization: Basic bm9ib2R5LXg6\r\n", "{\"process\":{\"cmd\":\"true\"}}",
                      "unauthenticated", "invalid username: 'nobody-x'");
}

static void arguments_too_long(void)
{
    scoped_buf(message, CLIENT_BYTES_MAX);
    scoped_run(run);
    char *at;

    CHECK_INT(buf_printf(&message, "{\"process\":{\"cmd\":\"true\",\"args\":[\""), 0);
    CHECK_INT(buf_reserve(&message, 200000, &at), 0);
    memset(at, 'x', 200000);
    buf_commit(&message, 200000);
    CHECK_INT(buf_append(&message, "\"]}}", 5), 0);
    CHECK(!run_open(&run, "/process.Process/Start", "", buf_at(&message)));
    CHECK_STR(run.code, "invalid_argument");
    CHECK(strstr(run.message, "longer than the kernel takes"));
}

static void unknown_processes_and_signals(void)
{
    scoped_run(run);
    scoped_run(none);
    char code[64], message[256];

    CHECK_INT(ask_pid("SendSignal", 4000000, ",\"signal\":9", code, message, sizeof(message)), 404);
    CHECK_STR(code, "not_found");
    CHECK_STR(message, "process with pid 4000000 not found");
    CHECK_INT(ask("SendInput", "{\"process\":{\"tag\":\"t\"}}", code, message, sizeof(message)),
              404);
    CHECK_STR(message, "process with tag t not found");
    CHECK_INT(ask("CloseStdin", "{}", code, message, sizeof(message)), 400);
    CHECK(!attach(&none, 4000000, ""));
    CHECK_STR(none.code, "not_found");
    CHECK(run_shell(&run, "", "exec sleep 1000", ""));
    CHECK_INT(ask_pid("SendSignal", run.pid, ",\"signal\":1", code, message, sizeof(message)), 501);
    CHECK_STR(code, "unimplemented");
    CHECK_INT(kill((pid_t)run.pid, SIGKILL), 0);
}

static void list_shows_what_runs(void)
{
    scoped_run(run);
    scoped_client(c);
    json_auto_t *out = NULL;

    CHECK(run_shell(&run, "", "exec sleep 1000", ",\"tag\":\"mine\""));
    client_open(&c, agent.port);
    CHECK_INT(client_unary(&c, "/process.Process/List", "", STR("{}"), &out), 200);
    const json_t *found = NULL;
    size_t i;
    json_t *info;
    json_array_foreach (json_object_get(out, "processes"), i, info) {
        if (strcmp(json_text(info, "tag", NULL), "mine") == 0) {
            found = info;
        }
    }
    CHECK(found);
    CHECK_INT(json_integer_value(json_object_get(found, "pid")), run.pid);
    CHECK_STR(json_text(found, "config", "cmd"), "/bin/sh");
    CHECK_INT(kill((pid_t)run.pid, SIGKILL), 0);
}

static void many_at_once(void)
{
    enum { N = 200 };
    struct run *runs = calloc(N, sizeof(*runs));
    int good = 0;

    CHECK(runs);
    for (int i = 0; i < N; i++) {
        if (!run_shell(&runs[i], "", "echo $$; read x", "")) {
            break;
        }
    }
    for (int i = 0; i < N; i++) {
        char code[64], message[256];
        (void)ask_pid("CloseStdin", runs[i].pid, "", code, message, sizeof(message));
        run_rest(&runs[i]);
        good += runs[i].ended && atoi(text_of(&runs[i].out)) == runs[i].pid;
        run_close(&runs[i]);
    }
    free(runs);
    CHECK_INT(good, N);
}

static void stream_input_feeds(void)
{
    scoped_run(run);
    scoped_client(c);
    scoped_buf(body, CLIENT_BYTES_MAX);
    char start[128];
    uint8_t flags;

    CHECK(run_shell(&run, "", "head -c 6000", ""));
    (void)snprintf(start, sizeof(start), "{\"start\":{\"process\":{\"pid\":%lld}}}", run.pid);
    envelope_put(&body, 0, str_of(start));
    for (int i = 0; i < 1000; i++) {
        envelope_put(&body, 0, STR("{\"data\":{\"input\":{\"stdin\":\"YWJjZGVm\"}}}"));
    }
    client_open(&c, agent.port);
    CHECK(client_request(&c, "POST", "/process.Process/StreamInput",
                         "Content-Type: application/connect+json\r\n", buf_str(&body)));
    json_auto_t *reply = client_next(&c, &flags);
    CHECK(reply && flags == 0);
    run_rest(&run);
    CHECK_INT(buf_len(&run.out), 6000);
}

static void agent_is_still_there(void)
{
    CHECK(agent_stop(&agent));
}

int main(int argc, char **argv)
{
    static const struct check_test tests[] = {
        {"a command runs, prints and ends", runs_and_ends},
        {"the request's environment wins", environment_is_layered},
        {"no descriptor and no signal state leaks in", nothing_leaks_into_it},
        {"death by signal is told", deaths_by_signal},
        {"the deadline kills", deadline_kills},
        {"standard input flows and ends", stdin_flows},
        {"without standard input there is nothing to read", stdin_off_is_empty},
        {"input waits until it is read", input_waits_for_its_reader},
        {"output waits for a new reader", output_waits_for_a_new_reader},
        {"a reader may decline what was before", replay_can_be_declined},
        {"what nobody reads is bounded, and the newest is kept", unread_output_is_bounded},
        {"many megabytes arrive whole and in order", nothing_is_lost_in_bulk},
        {"binary output arrives whole and in order", binary_output_is_whole},
        {"a full pipe is read in large pieces", full_pipes_are_read_in_large_pieces},
        {"clients that leave in bulk harm nobody", clients_that_leave_in_bulk_harm_nobody},
        {"two readers get the same", two_readers_get_the_same},
        {"descendants do not delay the end", descendants_do_not_delay_the_end},
        {"descendants may write on", descendants_write_on},
        {"a terminal has a size and takes input", terminal_works},
        {"what cannot be started says why", bad_starts_say_why},
        {"arguments that are too long say so", arguments_too_long},
        {"unknown processes and signals are refused", unknown_processes_and_signals},
        {"the list shows what runs", list_shows_what_runs},
        {"two hundred at once", many_at_once},
        {"a stream of input arrives whole", stream_input_feeds},
        {"the agent has survived", agent_is_still_there},
    };

    if (argc != 2 || !agent_start(&agent, argv[1], false)) {
        printf("Bail out! the agent does not start\n");
        return 1;
    }
    return check_run(tests, countof(tests));
}
