#include "tools/terminal.h"

#include <errno.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/encode.h"
#include "lib/base/fiber.h"
#include "lib/base/json.h"
#include "tools/ansi.h"
#include "tools/remote_internal.h"

#define TERMINAL_TAG "terminal-" /* and some letters: a tag names one process */

/* The mark that ends a prompt (OSC 133). A variable makes the shell print it: whatever the shell's
 * own files make of PS1, its output ends with the mark when it waits for a command. A shell whose
 * files remove the variable is waited for like any other program. */
#define PROMPT_END "\033]133;B\a"
#define PROMPT_COMMAND "[[ $PS1 == *'133;B'* ]] || PS1+='\\[\\e]133;B\\a\\]'"

enum {
    MARK_LEN = sizeof(PROMPT_END) - 1,
    TAG_RANDOM_LEN = 12,
    TAG_BYTES = sizeof(TERMINAL_TAG) + TAG_RANDOM_LEN,
    FIRST_WORDS_MS = 2000, /* at most, for a shell's own files to be read */
    QUIET_MS = 150,        /* it waits for input */
    PROMPT_QUIET_MS = 50,  /* and behind a prompt, where what was typed ahead may follow */
    READ_MS_MIN = 20,      /* kept output comes at once */
    READ_MS_FIRST = 100,   /* of the reads of one wait, each twice as long as the one before */
    READ_MS_MAX = 400,
    PROMPT_TAIL_BYTES = 256, /* of what was shown, in which the prompt's mark is looked for */
};

/* ---- a stream of events ---- */

struct stream {
    struct tool_call *call;
    struct remote_stream events;
    struct terminal_output *out;
    uint32_t pid;
    int64_t heard_ms; /* when it last showed something; 0: never */
    bool over;        /* the stream */
};

static void keep_end(struct buf *kept, struct str data)
{
    size_t all = buf_len(kept) + data.len;

    if (all > TERMINAL_OUTPUT_BYTES_MAX) {
        buf_consume(kept, all - TERMINAL_OUTPUT_BYTES_MAX);
    }
    (void)!buf_append(kept, data.at, data.len);
}

static int on_event(struct stream *stream, struct err *err)
{
    const struct process_event *event = &stream->events.event;

    switch (event->news) {
    case PROCESS_STARTED:
        stream->pid = event->pid;
        break;
    case PROCESS_OUTPUT:
        stream->heard_ms = clock_mono_ms();
        keep_end(&stream->out->bytes, buf_str(&event->data));
        break;
    case PROCESS_ENDED:
        stream->out->ended = true;
        stream->out->exit_code = event->exit_code;
        break;
    case PROCESS_LAST:
        stream->over = true;
        if (event->why.code && !event->late && !stream->out->ended) {
            return err_set(err, event->why.code == EINVAL ? EINVAL : EIO, "%s", event->why.msg);
        }
        break;
    case PROCESS_NOTHING:
        break;
    }
    return 0;
}

static int next(struct stream *stream, struct err *err)
{
    int r = remote_stream_next(&stream->events, err);

    return r == 0 ? on_event(stream, err) : r;
}

static size_t mark_find(struct str text)
{
    const char *at = text.len ? memmem(text.at, text.len, PROMPT_END, MARK_LEN) : NULL;

    return at ? (size_t)(at - text.at) : text.len;
}

int terminal_unmark(struct str shown, struct buf *out)
{
    int r = 0;

    while (r == 0 && shown.len) {
        size_t n = mark_find(shown);

        r = buf_append(out, shown.at, n);
        shown = str_skip(shown, n < shown.len ? n + MARK_LEN : n);
    }
    return r;
}

/* Only sequences that move the cursor or erase may follow the mark: a line editor that drew a long
 * line erases the text to the right of the prompt. */
static bool at_prompt(const struct stream *stream)
{
    struct str shown = buf_str(&stream->out->bytes);
    size_t tail = shown.len < PROMPT_TAIL_BYTES ? shown.len : PROMPT_TAIL_BYTES;
    struct str end = str_skip(shown, shown.len - tail);
    bool marked = false;

    for (size_t next; (next = mark_find(end)) < end.len; marked = true) {
        end = str_skip(end, next + MARK_LEN);
    }
    return marked && ansi_shows_nothing(end);
}

/* ---- starting ---- */

/* Until its pid is known the call cannot be cancelled: what is not known cannot be ended. */
static int open_shielded(const struct remote_sandbox *sandbox,
                         const struct remote_stream_plan *plan, struct stream *stream,
                         struct err *err)
{
    fiber_shield();
    int r = remote_stream_open(stream->call, sandbox, plan, &stream->events, err);
    while (r == 0 && !stream->over && stream->pid == 0) {
        r = next(stream, err);
    }
    fiber_unshield();
    return r == 0 && stream->pid == 0 ? err_set(err, EIO, "the shell did not start") : r;
}

/* Waits until the shell has printed something and waits for input, or takes too long. */
static int first_words(struct stream *stream, struct err *err)
{
    int64_t end_ms = clock_mono_ms() + FIRST_WORDS_MS;
    int r = 0;

    while (r == 0 && !stream->over && !at_prompt(stream)) {
        int64_t left_ms = end_ms - clock_mono_ms();
        int64_t limit_ms = stream->heard_ms && left_ms > QUIET_MS ? QUIET_MS : left_ms;

        ask_limit(stream->events.ask, limit_ms > 0 ? limit_ms : 1);
        r = next(stream, err);
    }
    return r == -ETIMEDOUT ? 0 : r;
}

static json_t *variables(const json_t *env)
{
    json_t *all = json_pack("{ssss}", "TERM", "xterm-256color", "PROMPT_COMMAND", PROMPT_COMMAND);

    if (env) {
        (void)json_object_update(all, json_unconst(env));
    }
    return all;
}

int terminal_start(struct tool_call *call, const struct remote_sandbox *sandbox,
                   const struct terminal_plan *plan, uint32_t *pid, struct terminal_output *out,
                   struct err *err)
{
    static const char *const argv[] = {"/bin/bash", "-l", "-i", NULL};
    scoped_json *env = variables(plan->env);
    char tag[TAG_BYTES] = TERMINAL_TAG;
    struct process_plan asked = {.argv = argv,
                                 .cwd = plan->cwd,
                                 .env = env,
                                 .takes_input = true,
                                 .tag = tag,
                                 .cols = plan->cols,
                                 .rows = plan->rows};
    struct stream stream = {.call = call, .out = out};
    scoped_buf(body, PROCESS_REQUEST_BYTES_MAX);

    id_alnum(tag + sizeof(TERMINAL_TAG) - 1, TAG_RANDOM_LEN);
    remote_stream_init(&stream.events);
    int r = process_request(&asked, &body, err);
    const struct remote_stream_plan opened = {.what = "the session cannot be started",
                                              .target = PROCESS_START,
                                              .body = buf_str(&body),
                                              .limit_ms = REMOTE_START_LIMIT_MS};
    r = r < 0 ? r : open_shielded(sandbox, &opened, &stream, err);
    r = r < 0 ? r : first_words(&stream, err);
    if (r < 0 && stream.pid) {
        remote_kill_group(call, sandbox, NULL, stream.pid); /* nobody would ever know its pid */
    }
    *pid = stream.pid;
    remote_stream_fini(&stream.events);
    return r;
}

/* ---- a running terminal ---- */

static bool is_terminal(const json_t *process, uint32_t pid)
{
    const char *tag = json_string_of(process, "tag");

    return json_integer_value(json_object_get(process, "pid")) == (json_int_t)pid && tag &&
           str_starts(str_of(tag), STR(TERMINAL_TAG));
}

int terminal_check(struct tool_call *call, const struct remote_sandbox *sandbox, uint32_t pid,
                   struct err *err)
{
    scoped_json *nothing = json_object();
    scoped_json *answer = NULL;
    int r = remote_rpc(call, sandbox, "/process.Process/List", nothing, &answer, err);
    const json_t *processes = json_object_get(answer, "processes");

    for (size_t i = 0; r == 0 && i < json_array_size(processes); i++) {
        if (is_terminal(json_array_get(processes, i), pid)) {
            return 0;
        }
    }
    return r < 0 ? r
                 : err_set(err, ENOENT,
                           "pid: sandbox %s has no shell session %u; start_shell_session"
                           " starts one",
                           sandbox->id, pid);
}

int terminal_type(struct tool_call *call, const struct remote_sandbox *sandbox, uint32_t pid,
                  struct str keys, struct err *err)
{
    scoped_buf(text, 2 * keys.len + 8);

    if (base64_encode(&text, keys.at, keys.len, BASE64_STD) < 0) {
        return err_set(err, EMSGSIZE, "the input does not fit");
    }
    scoped_json *request = json_pack("{s{sI}s{ss%}}", "process", "pid", (json_int_t)pid, "input",
                                     "pty", buf_at(&text), buf_len(&text));
    return remote_rpc(call, sandbox, "/process.Process/SendInput", request, NULL, err);
}

/* A single read: the agent ends it after the last byte that it sent. */
static int read_once(struct tool_call *call, const struct remote_sandbox *sandbox, uint32_t pid,
                     int64_t wait_ms, struct stream *stream, struct err *err)
{
    scoped_buf(body, PROCESS_REQUEST_BYTES_MAX);

    remote_stream_init(&stream->events);
    stream->over = false;
    int r = process_request_connect(pid, &body, err);
    const struct remote_stream_plan opened = {
        .what = "the session cannot be read",
        .target = PROCESS_CONNECT,
        .body = buf_str(&body),
        .deadline_ms = wait_ms > READ_MS_MIN ? wait_ms : READ_MS_MIN,
    };
    r = r < 0 ? r : remote_stream_open(call, sandbox, &opened, &stream->events, err);
    while (r == 0 && !stream->over) {
        r = next(stream, err);
    }
    remote_stream_fini(&stream->events);
    return r;
}

int terminal_read(struct tool_call *call, const struct remote_sandbox *sandbox, uint32_t pid,
                  int64_t wait_ms, struct terminal_output *out, struct err *err)
{
    struct stream stream = {.call = call, .out = out};
    int64_t now_ms = clock_mono_ms(), end_ms = now_ms + wait_ms, step_ms = READ_MS_FIRST;
    bool waits = true;
    int r = 0;

    while (r == 0 && waits) {
        r = read_once(call, sandbox, pid, step_ms < end_ms - now_ms ? step_ms : end_ms - now_ms,
                      &stream, err);
        now_ms = clock_mono_ms();
        step_ms = 2 * step_ms < READ_MS_MAX ? 2 * step_ms : READ_MS_MAX;
        waits =
            now_ms < end_ms && !out->ended &&
            !(stream.heard_ms && at_prompt(&stream) && now_ms - stream.heard_ms >= PROMPT_QUIET_MS);
    }
    return r;
}
