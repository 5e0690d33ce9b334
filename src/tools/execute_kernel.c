#include "tools/execute_kernel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/json.h"
#include "lib/base/json_text.h"
#include "tools/side_fiber.h"

enum {
    PORT = 49999,
    LINE_BYTES_MAX = 24 * 1024 * 1024, /* one result, as a large picture */
    RESULTS_BYTES_MAX = 24 * 1024 * 1024,
    REFUSAL_BYTES_MAX = 160, /* that are told */
    EXIT_CODE_MASK = 0xff,
};

/* ---- asking, with a limit ---- */

/* Two more fibers: one asks, the other stops it when the time is over. The timer starts first:
 * nothing is asked without a limit. */
struct asking {
    struct tool_call *call;
    const struct remote_sandbox *sandbox;
    const char *target;
    const json_t *body;
    int64_t timeout_ms;
    struct side_fiber question, clock;
    int status, error;
    bool late;
    struct err err;

    struct execute_result *out; /* NULL: the answer is one line, and stays in `line` */
    struct buf line;            /* the line received so far */
    bool skips;                 /* the rest of it: it is too long */
    struct buf raw_out, raw_err;
    size_t results_bytes;
    bool tells_tracebacks; /* on stderr too, as the program does that runs a file */
};

static void on_piece(void *ctx, struct str piece);

static void ask(void *arg)
{
    struct asking *asking = arg;
    const struct remote_question question = {.port = PORT,
                                             .method = "POST",
                                             .target = asking->target,
                                             .body = asking->body,
                                             .trusted = true, /* it sets the sandbox's variables */
                                             .piece = on_piece,
                                             .ctx = asking};

    asking->error =
        remote_http(asking->call, asking->sandbox, &question, &asking->status, &asking->err);
}

static void wait_and_end(void *arg)
{
    struct asking *asking = arg;

    if (call_sleep(asking->call, asking->timeout_ms) == 0) {
        asking->late = true;
        side_fiber_cancel(&asking->question);
    }
}

static int ask_within(struct asking *asking, struct err *err)
{
    if (side_fiber_start(&asking->clock, wait_and_end, asking) < 0) {
        return err_set(err, EBUSY, "too much is under way: try again later");
    }
    int begun = side_fiber_start(&asking->question, ask, asking);
    side_fiber_join(&asking->question);
    side_fiber_cancel(&asking->clock);
    side_fiber_join(&asking->clock);
    if (begun < 0) {
        return err_set(err, EBUSY, "too much is under way: try again later");
    }
    if (asking->error < 0 && !asking->late) {
        *err = asking->err;
        return asking->error;
    }
    if (!asking->late && asking->status / 100 != 2) {
        size_t n = buf_len(&asking->line);
        return err_set(err, EIO, "the interpreter answered %d: %.*s", asking->status,
                       (int)(n < REFUSAL_BYTES_MAX ? n : REFUSAL_BYTES_MAX),
                       n ? buf_at(&asking->line) : "");
    }
    return 0;
}

/* ---- events of the kernel ---- */

static void output_add(struct asking *asking, bool is_stderr, struct str text)
{
    remote_output_keep(is_stderr ? &asking->raw_err : &asking->raw_out, &asking->out->truncated,
                       text);
}

static void result_add(struct asking *asking, const json_t *line, size_t bytes)
{
    if (asking->results_bytes + bytes > RESULTS_BYTES_MAX) {
        asking->out->truncated = true;
        return;
    }
    json_t *result = json_deep_copy(line);
    asking->results_bytes += bytes;
    (void)json_object_del(result, "type");
    (void)json_array_append_new(asking->out->results, result);
}

/* sys.exit(): its argument is a status, or the last message of a program that failed. */
static int exit_take(struct asking *asking, const char *value)
{
    char *end;
    long code = strtol(value, &end, 10);

    if (value[0] == '\0' || strcmp(value, "None") == 0) {
        return 0;
    }
    if (*end == '\0') {
        return (int)((unsigned long)code & EXIT_CODE_MASK);
    }
    output_add(asking, true, str_of(value));
    output_add(asking, true, STR("\n"));
    return 1;
}

/* os._exit(): the interpreter tells that it has started another kernel, which is nothing to code
 * that is run once. */
static int kernel_end_take(json_t *error)
{
    static const char status[] = "exited with status ";
    const char *value = json_text_of(error, "value");
    const char *said = strstr(value, status), *more = strstr(value, " and is started again");
    long code = said ? strtol(said + sizeof(status) - 1, NULL, 10) : 1;

    if (more) {
        (void)json_object_set_new(error, "value", json_stringn(value, (size_t)(more - value)));
    }
    return (int)((unsigned long)code & EXIT_CODE_MASK);
}

static void error_take(struct asking *asking, const json_t *line)
{
    struct execute_result *out = asking->out;
    const char *name = json_text_of(line, "name");
    const char *traceback = json_text_of(line, "traceback");

    json_decref(out->error);
    out->error = json_deep_copy(line);
    (void)json_object_del(out->error, "type");
    if (strcmp(name, "SystemExit") == 0) {
        out->exit_code = exit_take(asking, json_text_of(line, "value"));
    } else if (strcmp(name, "ContextRestarting") == 0) {
        out->exit_code = kernel_end_take(out->error);
    } else {
        out->exit_code = 1;
        if (asking->tells_tracebacks && traceback[0]) {
            output_add(asking, true, str_of(traceback));
            output_add(asking, true, STR("\n"));
        }
    }
    if (out->exit_code == 0) {
        json_decref(out->error);
        out->error = NULL;
    }
}

static void line_take(struct asking *asking, struct str text)
{
    bool fits = json_text_values(text) <= JSON_TEXT_VALUES_MAX;
    scoped_json *line = fits && text.len > 0 ? json_loadb(text.at, text.len, 0, NULL) : NULL;
    const char *type = json_text_of(line, "type");
    const json_t *said = json_object_get(line, "text");

    asking->out->truncated |= !fits;
    if (strcmp(type, "stdout") == 0 || strcmp(type, "stderr") == 0) {
        output_add(asking, type[3] == 'e',
                   (struct str){json_string_value(said), json_string_length(said)});
    } else if (strcmp(type, "result") == 0) {
        result_add(asking, line, text.len);
    } else if (strcmp(type, "error") == 0) {
        error_take(asking, line);
    }
}

static void line_end(struct asking *asking)
{
    if (!asking->skips) {
        line_take(asking, buf_str(&asking->line));
    }
    asking->skips = false;
    buf_clear(&asking->line);
}

/* After a line that was too long, the following lines are still read: the error, and the end. */
static void on_piece(void *ctx, struct str piece)
{
    struct asking *asking = ctx;
    bool by_lines = asking->out && asking->status == 200;

    while (piece.len > 0) {
        size_t n = by_lines ? str_find(piece, '\n') : piece.len;

        if (!asking->skips && buf_append(&asking->line, piece.at, n) < 0) {
            asking->skips = true;
            if (asking->out) {
                asking->out->truncated = true;
            }
        }
        if (n < piece.len) {
            line_end(asking);
            n++;
        }
        piece = str_skip(piece, n);
    }
}

/* ---- the whole ---- */

static int run_body(struct asking *asking, struct err *err)
{
    buf_init(&asking->line, LINE_BYTES_MAX);
    buf_init(&asking->raw_out, REMOTE_OUTPUT_BYTES_MAX);
    buf_init(&asking->raw_err, REMOTE_OUTPUT_BYTES_MAX);
    int r = ask_within(asking, err);
    if (r == 0) {
        remote_output_text(&asking->raw_out, asking->out->truncated, &asking->out->out);
        remote_output_text(&asking->raw_err, asking->out->truncated, &asking->out->err);
        asking->out->timed_out = asking->late;
    }
    buf_fini(&asking->line);
    buf_fini(&asking->raw_out);
    buf_fini(&asking->raw_err);
    return r;
}

/* The running kernel may have imported other versions than those just installed: a new kernel finds
 * the new ones. */
static int context_new(struct tool_call *call, const struct remote_sandbox *sandbox,
                       const struct execute_plan *plan, json_t *body, struct err *err)
{
    scoped_json *wanted = json_pack("{ss}", "language", language_name(plan->language));
    struct asking asking = {.call = call,
                            .sandbox = sandbox,
                            .target = "/contexts",
                            .body = wanted,
                            .timeout_ms = (int64_t)EXECUTE_INSTALL_S_MAX * 1000};

    buf_init(&asking.line, LINE_BYTES_MAX);
    int r = ask_within(&asking, err);
    scoped_json *made =
        r == 0 ? json_loadb(buf_at(&asking.line), buf_len(&asking.line), 0, NULL) : NULL;
    json_t *id = json_object_get(made, "id");
    buf_fini(&asking.line);
    if (r == 0 && !id) {
        return err_set(err, EIO, "the interpreter has started no kernel for the code");
    }
    (void)json_object_set(body, "context_id", id);
    return r;
}

int kernel_run(struct tool_call *call, const struct remote_sandbox *sandbox,
               const struct execute_plan *plan, struct execute_result *out, struct err *err)
{
    scoped_json *body = json_pack("{ss%}", "code", plan->code.at, plan->code.len);
    struct asking asking = {.call = call,
                            .sandbox = sandbox,
                            .target = "/execute",
                            .body = body,
                            .timeout_ms = plan->timeout_ms,
                            .out = out,
                            .tells_tracebacks = plan->as_program};

    if (!body) {
        return err_set(err, EINVAL, "code: is not UTF-8");
    }
    if (json_object_size(plan->envs) > 0) {
        (void)json_object_set(body, "env_vars", json_unconst(plan->envs));
    }
    if (json_array_size(plan->packages) > 0) {
        int r = context_new(call, sandbox, plan, body, err);
        return r < 0 ? r : run_body(&asking, err);
    }
    (void)json_object_set_new(body, "language", json_string(language_name(plan->language)));
    return run_body(&asking, err);
}
