/* remote_run.c - a command inside a sandbox, from its start to its end.
 *
 *      Start ─► pid ─┬─► output ... ─► exit
 *                    └─► input, from a fiber beside: a command may write before it has read all
 */
#include <errno.h>
#include <stdio.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/encode.h"
#include "lib/base/fiber.h"
#include "lib/base/utf8.h"
#include "tools/internal.h"
#include "tools/remote_internal.h"
#include "tools/side_fiber.h"

enum {
    INPUT_PIECE_BYTES = 256 * 1024,
    SCRIPT_BYTES = 64,
    KILL_LIMIT_MS = 5000, /* by the agent's, and twice that by ours */
};

struct remote_running {
    struct tool_call *call;
    const struct remote_sandbox *sandbox;
    const struct remote_command *command;
    struct remote_result *result;
    struct buf raw_out, raw_err; /* the end of what came, as bytes */
    struct remote_stream stream;
    struct side_fiber feeding;
    bool feeds;
    bool started;
    uint32_t pid;     /* 0: it has not started */
    bool shielded;    /* until its pid is known: what is not known cannot be ended */
    bool ended;       /* the process has */
    int64_t limit_ms; /* once it has started, by our clock; 0: none */
};

void remote_result_fini(struct remote_result *result)
{
    buf_fini(&result->out);
    buf_fini(&result->err);
}

/* ---- input ---- */

static int input_send(struct remote_running *run, struct str piece, struct err *err)
{
    scoped_buf(encoded, (size_t)2 * INPUT_PIECE_BYTES);

    if (base64_encode(&encoded, piece.at, piece.len, BASE64_STD) < 0) {
        return err_set(err, EMSGSIZE, "the input does not fit");
    }
    scoped_json *request = json_pack("{s{sI}s{ss%}}", "process", "pid", (json_int_t)run->pid,
                                     "input", "stdin", buf_at(&encoded), buf_len(&encoded));
    return remote_rpc(run->call, run->sandbox, "/process.Process/SendInput", request, NULL, err);
}

/* A command that ends without reading all of its input is no failure. */
static void feed(void *arg)
{
    struct remote_running *run = arg;
    scoped_json *closing = json_pack("{s{sI}}", "process", "pid", (json_int_t)run->pid);
    struct str left = run->command->input;
    struct err err;
    int r = 0;

    while (r == 0 && left.len > 0) {
        size_t n = left.len < INPUT_PIECE_BYTES ? left.len : INPUT_PIECE_BYTES;
        r = input_send(run, (struct str){left.at, n}, &err);
        left = str_skip(left, n);
    }
    if (r == 0) {
        (void)!remote_rpc(run->call, run->sandbox, "/process.Process/CloseStdin", closing, NULL,
                          &err);
    }
}

/* ---- output ---- */

void remote_output_keep(struct buf *kept, bool *cut, struct str data)
{
    if (data.len > REMOTE_OUTPUT_BYTES_MAX) {
        data = str_skip(data, data.len - REMOTE_OUTPUT_BYTES_MAX);
        *cut = true;
    }
    size_t all = buf_len(kept) + data.len;
    if (all > REMOTE_OUTPUT_BYTES_MAX) {
        buf_consume(kept, all - REMOTE_OUTPUT_BYTES_MAX);
        *cut = true;
    }
    (void)!buf_append(kept, data.at, data.len);
}

/* A text that was cut begins with a whole character. */
static struct str whole_characters(struct str text, bool cut)
{
    for (int i = 0; cut && i < 3 && text.len && ((unsigned char)text.at[0] & 0xc0) == 0x80; i++) {
        text = str_skip(text, 1);
    }
    return text;
}

void remote_output_text(const struct buf *kept, bool cut, struct buf *out)
{
    struct str text = whole_characters(buf_str(kept), cut);
    char *at;

    buf_init(out, UTF8_REPLACEMENT_BYTES * (size_t)REMOTE_OUTPUT_BYTES_MAX + 1);
    if (buf_reserve(out, UTF8_REPLACEMENT_BYTES * text.len + 1, &at) < 0) {
        return; /* no memory: as if it had said nothing */
    }
    buf_commit(out, utf8_repair(text, at));
}

static void on_output(struct remote_running *run)
{
    struct remote_result *result = run->result;
    bool is_err = run->stream.event.is_stderr;
    struct str data = buf_str(&run->stream.event.data);

    remote_output_keep(is_err ? &run->raw_err : &run->raw_out,
                       is_err ? &result->err_cut : &result->out_cut, data);
    if (run->command->output) {
        run->command->output(run->command->ctx, is_err, data);
    }
}

/* ---- the stream ---- */

static void run_unshield(struct remote_running *run)
{
    if (run->shielded) {
        run->shielded = false;
        fiber_unshield();
    }
}

/* Called once: a second feeder would replace the first, which would outlive its input. */
static int on_started(struct remote_running *run, struct err *err)
{
    if (run->started) {
        return err_set(err, EIO, "the sandbox's agent started the command twice");
    }
    run->started = true;
    ask_limit(run->stream.ask, run->limit_ms);
    run->pid = run->stream.event.pid;
    run_unshield(run);
    if (run->command->input.len == 0) {
        return 0;
    }
    run->feeds = side_fiber_start(&run->feeding, feed, run) == 0;
    return run->feeds ? 0 : err_set(err, EBUSY, "too much is under way: try again later");
}

/* 1 when the stream has ended. */
static int on_last(struct remote_running *run, struct err *err)
{
    const struct process_event *event = &run->stream.event;
    struct remote_result *result = run->result;
    int64_t limit_ms = run->command->timeout_ms;

    result->timed_out = event->late || (limit_ms && result->duration_ms >= limit_ms &&
                                        (!run->ended || result->exit_code != 0));
    if (!run->ended && !result->timed_out) {
        return err_set(err, event->why.code == EINVAL ? EINVAL : EIO, "%s",
                       event->why.code ? event->why.msg : "the sandbox went away");
    }
    if (!run->ended) {
        result->exit_code = -1;
    }
    return 1;
}

static int on_event(struct remote_running *run, int64_t begun_ms, struct err *err)
{
    switch (run->stream.event.news) {
    case PROCESS_STARTED:
        return on_started(run, err);
    case PROCESS_OUTPUT:
        on_output(run);
        return 0;
    case PROCESS_ENDED:
        run->ended = true;
        run->result->exit_code = run->stream.event.exit_code;
        return 0;
    case PROCESS_LAST:
        run->result->duration_ms = clock_mono_ms() - begun_ms;
        return on_last(run, err);
    case PROCESS_NOTHING:
        return 0;
    }
    return 0;
}

static int follow(struct remote_running *run, struct err *err)
{
    int64_t begun_ms = clock_mono_ms();
    int r = 0;

    while (r == 0) {
        r = remote_stream_next(&run->stream, err);
        r = r < 0 ? r : on_event(run, begun_ms, err);
    }
    return r < 0 ? r : 0;
}

/* ---- the whole ---- */

static int start(struct remote_running *run, struct err *err)
{
    const struct remote_command *command = run->command;
    const char *const argv[] = {"/bin/bash", command->bare ? "-c" : "-lc", command->script, NULL};
    const struct process_plan plan = {.argv = argv,
                                      .cwd = command->cwd,
                                      .env = command->env,
                                      .takes_input = command->input.len > 0};
    char user[PROCESS_USER_BYTES] = "";
    scoped_buf(body, PROCESS_REQUEST_BYTES_MAX);

    int r = process_request(&plan, &body, err);
    if (r == 0 && command->user) {
        r = process_user(command->user, user, err);
    }
    if (r < 0) {
        return r;
    }
    const struct remote_stream_plan asked = {.what = "the command cannot be run",
                                             .target = PROCESS_START,
                                             .body = buf_str(&body),
                                             .authorization = user[0] ? user : NULL,
                                             .deadline_ms = command->timeout_ms,
                                             .limit_ms = REMOTE_START_LIMIT_MS};
    return remote_stream_open(run->call, run->sandbox, &asked, &run->stream, err);
}

static int run_whole(struct remote_running *run, struct err *err)
{
    int r = start(run, err);

    r = r == 0 ? follow(run, err) : r;
    if (run->feeds) {
        side_fiber_cancel(&run->feeding);
        side_fiber_join(&run->feeding);
    }
    return r;
}

static int run_command(struct remote_running *run, struct err *err)
{
    buf_init(&run->raw_out, REMOTE_OUTPUT_BYTES_MAX);
    buf_init(&run->raw_err, REMOTE_OUTPUT_BYTES_MAX);
    remote_stream_init(&run->stream);
    fiber_shield();
    run->shielded = true;
    int r = run_whole(run, err);
    run_unshield(run);
    if (r == 0) {
        remote_output_text(&run->raw_out, run->result->out_cut, &run->result->out);
        remote_output_text(&run->raw_err, run->result->err_cut, &run->result->err);
    }
    buf_fini(&run->raw_out);
    buf_fini(&run->raw_err);
    remote_stream_fini(&run->stream);
    return r;
}

void remote_kill_group(struct tool_call *call, const struct remote_sandbox *sandbox,
                       const char *user, uint32_t pid)
{
    char script[SCRIPT_BYTES];
    const struct remote_command command = {
        .script = script, .bare = true, .user = user, .timeout_ms = KILL_LIMIT_MS};
    struct remote_result result = {0};
    struct remote_running killing = {.call = call,
                                     .sandbox = sandbox,
                                     .command = &command,
                                     .result = &result,
                                     .limit_ms = (int64_t)2 * KILL_LIMIT_MS};
    struct err err;

    (void)snprintf(script, sizeof(script), "kill -KILL -- -%u", pid);
    fiber_shield();
    (void)!run_command(&killing, &err);
    fiber_unshield();
    remote_result_fini(&result);
}

int remote_run(struct tool_call *call, const struct remote_sandbox *sandbox,
               const struct remote_command *command, struct remote_result *out, struct err *err)
{
    struct remote_result result = {0};
    struct remote_running run = {
        .call = call, .sandbox = sandbox, .command = command, .result = &result};

    int r = run_command(&run, err);
    if (run.pid && (r < 0 || result.timed_out)) {
        remote_kill_group(call, sandbox, command->user, run.pid);
    }
    if (r == 0) {
        *out = result;
    }
    return r;
}
