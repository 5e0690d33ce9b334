#include "inside/gateway/mcp_server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "inside/gateway/message.h"
#include "lib/base/alloc.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/table.h"
#include "lib/child/child.h"

enum {
    UNSENT_BYTES_MAX = 64 * 1024 * 1024, /* for a server that does not read its input */
    PAGES_MAX = 1000,                    /* of one list */
    WHY_BYTES = 512,
    LINE_SHOWN_BYTES = 200, /* of one that is no message */
};

#define PROTOCOL_VERSION "2025-06-18"

struct question {
    int64_t id;
    const struct mcp_server_asker *asker;
    void *ctx;
    UT_hash_handle hh;
};

enum state { STATE_DOWN, STATE_STARTING, STATE_UP };

struct input { /* the writing end of its standard input */
    uv_pipe_t pipe;
    size_t unsent;
};

struct mcp_server {
    const struct place *place;
    const struct plan *plan;
    const struct mcp_server_events *events;
    void *ctx;
    enum state state;
    bool was_up;
    struct install *install;
    struct child *child;
    struct input *input;
    struct buf lines;           /* of its output, the last one not whole yet */
    struct buf waiting;         /* questions for when it is up */
    struct question *questions; /* by id */
    int64_t last_id;
    int lists_awaited; /* before it is up */
    json_t *described; /* its answer to initialize */
    json_t *lists[MCP_SERVER_LISTS];
};

static const struct {
    const char *capability;
    const char *method;
    const char *key; /* of the answer */
} lists[MCP_SERVER_LISTS] = {
    [MCP_SERVER_TOOLS] = {"tools", "tools/list", "tools"},
    [MCP_SERVER_PROMPTS] = {"prompts", "prompts/list", "prompts"},
    [MCP_SERVER_RESOURCES] = {"resources", "resources/list", "resources"},
    [MCP_SERVER_TEMPLATES] = {"resources", "resources/templates/list", "resourceTemplates"},
};

static void end(struct mcp_server *b, const char *why, struct str said);

/* ---- writing ---- */

struct line {
    uv_write_t write;
    struct input *input;
    struct buf bytes;
};

static void on_written(uv_write_t *write, int status)
{
    struct line *line = container_of(write, struct line, write);

    (void)status; /* a server that closed its input ends, or is told by nothing */
    line->input->unsent -= buf_len(&line->bytes);
    buf_fini(&line->bytes);
    free(line);
}

/* Takes the bytes. */
static void bytes_send(struct input *input, struct buf *bytes)
{
    struct line *line = xnew(struct line);

    *line = (struct line){.input = input, .bytes = *bytes};
    *bytes = (struct buf){.max = bytes->max};
    input->unsent += buf_len(&line->bytes);
    uv_buf_t data = uv_buf_init(buf_at(&line->bytes), (unsigned)buf_len(&line->bytes));
    if (uv_write(&line->write, (uv_stream_t *)&input->pipe, &data, 1, on_written) < 0) {
        on_written(&line->write, 0);
    }
}

static int line_write(struct buf *out, const json_t *message)
{
    size_t before = buf_len(out);
    int r = message_write(out, message);

    r = r == 0 ? buf_append(out, "\n", 1) : r;
    if (r < 0) {
        out->end = out->start + before;
    }
    return r;
}

/* Takes the message. */
static int message_send(struct mcp_server *b, json_t *message)
{
    scoped_buf(bytes, 2 * (size_t)MESSAGE_BYTES_MAX);
    int r = -EAGAIN;

    if (b->input && b->input->unsent < UNSENT_BYTES_MAX) {
        r = line_write(&bytes, message);
    }
    if (r == 0) {
        bytes_send(b->input, &bytes);
    }
    json_decref(message);
    return r;
}

static void on_input_closed(uv_handle_t *handle)
{
    free(container_of((uv_pipe_t *)handle, struct input, pipe));
}

static void input_close(struct mcp_server *b)
{
    if (b->input) {
        uv_close((uv_handle_t *)&b->input->pipe, on_input_closed);
        b->input = NULL;
    }
}

/* ---- questions ---- */

static struct question *question_new(struct mcp_server *b, const struct mcp_server_asker *asker,
                                     void *ctx)
{
    struct question *question = xnew(struct question);

    *question = (struct question){.id = ++b->last_id, .asker = asker, .ctx = ctx};
    HASH_ADD(hh, b->questions, id, sizeof(question->id), question);
    return question;
}

static struct question *question_find(struct mcp_server *b, int64_t id)
{
    struct question *question;

    HASH_FIND(hh, b->questions, &id, sizeof(id), question);
    return question;
}

static void question_answer(struct mcp_server *b, struct question *question, json_t *message)
{
    HASH_DELETE(hh, b->questions, question);
    question->asker->on_answer(question->ctx, message);
    free(question);
}

static void question_fail(struct mcp_server *b, struct question *question, const char *why)
{
    json_auto_t *message =
        message_error(NULL, JSONRPC_INTERNAL_ERROR, "the MCP server %s %s", b->plan->name, why);

    question_answer(b, question, message);
}

/* Questions asked meanwhile start the server again, and are not failed here. */
static void questions_fail(struct mcp_server *b, const char *why)
{
    int64_t last = b->last_id;

    for (struct question *at = b->questions, *next; at; at = next) {
        next = at->hh.next;
        if (at->id <= last) {
            question_fail(b, at, why);
        }
    }
}

/* Asks now, in any state: for its start. */
static void ask_now(struct mcp_server *b, const char *method, json_t *params,
                    const struct mcp_server_asker *asker, void *ctx)
{
    struct question *question = question_new(b, asker, ctx);

    if (message_send(b, message_request(question->id, method, params)) < 0) {
        question_fail(b, question, "takes no more messages");
    }
}

/* The token is our id for the question: those of clients may be alike. */
static void progress_token_set(json_t *params, int64_t id)
{
    json_t *meta = json_object_get(params, "_meta");

    if (json_object_get(meta, "progressToken")) {
        meta = json_copy(meta);
        (void)json_object_set_new(meta, "progressToken", json_integer(id));
        (void)json_object_set_new(params, "_meta", meta);
    }
}

void mcp_server_ask(struct mcp_server *b, const char *method, json_t *params,
                    const struct mcp_server_asker *asker, void *ctx, int64_t *id)
{
    struct question *question = question_new(b, asker, ctx);

    *id = question->id;
    progress_token_set(params, question->id);
    json_t *message = message_request(question->id, method, params);
    if (b->state == STATE_UP) {
        if (message_send(b, message) < 0) {
            question_fail(b, question, "takes no more messages");
        }
        return;
    }
    int r = line_write(&b->waiting, message);
    json_decref(message);
    if (r < 0) {
        question_fail(b, question, "is starting, and takes no more messages");
    } else if (b->state == STATE_DOWN) {
        mcp_server_start(b);
    }
}

void mcp_server_cancel(struct mcp_server *b, int64_t id, const char *reason)
{
    struct question *question = question_find(b, id);
    json_t *params = json_object();

    (void)json_object_set_new(params, "requestId", json_integer(id));
    (void)json_object_set_new(params, "reason", json_string(reason));
    (void)message_send(b, jsonrpc_notification("notifications/cancelled", params));
    if (question) {
        HASH_DELETE(hh, b->questions, question);
        free(question);
    }
}

/* ---- lists ---- */

struct fetch {
    struct mcp_server *server;
    enum mcp_server_list list;
    json_t *items;
    int pages;
};

static void fetch_page(struct fetch *fetch, const json_t *cursor);

static void up(struct mcp_server *b)
{
    bool first = !b->was_up;

    b->state = STATE_UP;
    b->was_up = true;
    if (buf_len(&b->waiting)) {
        bytes_send(b->input, &b->waiting);
    }
    log_info("%s: up, with %zu tools", b->plan->name, json_array_size(b->lists[MCP_SERVER_TOOLS]));
    if (first) {
        b->events->on_up(b->ctx, b);
    }
}

static void fetch_done(struct fetch *fetch)
{
    struct mcp_server *b = fetch->server;

    json_decref(b->lists[fetch->list]);
    b->lists[fetch->list] = fetch->items;
    if (b->state == STATE_UP) {
        b->events->on_changed(b->ctx, b, fetch->list);
    } else if (--b->lists_awaited == 0) {
        up(b);
    }
    free(fetch);
}

/* A server that says it has a list and does not know the method has an empty one. */
static void on_page(void *ctx, json_t *message)
{
    struct fetch *fetch = ctx;
    json_t *result = json_object_get(message, "result");
    const json_t *cursor = json_object_get(result, "nextCursor");
    json_t *item;
    size_t i;

    json_array_foreach (json_object_get(result, lists[fetch->list].key), i, item) {
        if (json_is_object(item)) {
            (void)json_array_append(fetch->items, item);
        }
    }
    if (json_is_string(cursor) && ++fetch->pages < PAGES_MAX) {
        fetch_page(fetch, cursor);
    } else if (fetch->server->child) {
        fetch_done(fetch);
    } else { /* it has ended meanwhile */
        json_decref(fetch->items);
        free(fetch);
    }
}

static void fetch_page(struct fetch *fetch, const json_t *cursor)
{
    static const struct mcp_server_asker asker = {.on_answer = on_page};
    json_t *params = json_object();

    if (cursor) {
        (void)json_object_set_new(params, "cursor", json_string(json_string_value(cursor)));
    }
    ask_now(fetch->server, lists[fetch->list].method, params, &asker, fetch);
}

static void fetch_start(struct mcp_server *b, enum mcp_server_list list)
{
    struct fetch *fetch = xnew(struct fetch);

    *fetch = (struct fetch){.server = b, .list = list, .items = json_array()};
    fetch_page(fetch, NULL);
}

/* ---- its start ---- */

static void on_initialized(void *ctx, json_t *message)
{
    struct mcp_server *b = ctx;
    json_t *result = json_object_get(message, "result");
    char why[WHY_BYTES];

    if (!b->child) {
        return; /* its end has been told */
    }
    if (!result) {
        (void)snprintf(why, sizeof(why), "refused to begin: %s",
                       json_text_of(json_object_get(message, "error"), "message"));
        end(b, why, (struct str){NULL, 0});
        return;
    }
    json_decref(b->described);
    b->described = json_incref(result);
    (void)message_send(b, jsonrpc_notification("notifications/initialized", NULL));
    b->lists_awaited = 1; /* until all are asked for */
    for (int i = 0; i < MCP_SERVER_LISTS && b->child; i++) {
        if (mcp_server_can(b, lists[i].capability)) {
            b->lists_awaited++;
            fetch_start(b, (enum mcp_server_list)i);
        }
    }
    if (b->child && --b->lists_awaited == 0) {
        up(b);
    }
}

static void initialize(struct mcp_server *b)
{
    static const struct mcp_server_asker asker = {.on_answer = on_initialized};

    ask_now(b, "initialize",
            json_pack("{s:s, s:{}, s:{s:s, s:s}}", "protocolVersion", PROTOCOL_VERSION,
                      "capabilities", "clientInfo", "name", "mcp-gateway", "version",
                      ATOLL_VERSION),
            &asker, b);
}

/* ---- messages of the server ---- */

static void request_take(struct mcp_server *b, const struct jsonrpc_message *read)
{
    (void)message_send(b, strcmp(read->method, "ping") == 0
                              ? jsonrpc_result(read->id, json_object())
                              : message_error(read->id, JSONRPC_METHOD_NOT_FOUND,
                                              "the gateway offers no %s", read->method));
}

static void progress_take(struct mcp_server *b, json_t *params)
{
    const json_t *token = json_object_get(params, "progressToken");
    struct question *question = question_find(b, json_integer_value(token));

    if (question && question->asker->on_progress) {
        question->asker->on_progress(question->ctx, params);
    }
}

static void notification_take(struct mcp_server *b, const char *method, json_t *params)
{
    if (strcmp(method, "notifications/progress") == 0) {
        progress_take(b, params);
        return;
    }
    if (b->state != STATE_UP) {
        return;
    }
    for (int i = 0; i < MCP_SERVER_LISTS; i++) {
        char changed[64];
        (void)snprintf(changed, sizeof(changed), "notifications/%s/list_changed",
                       lists[i].capability);
        if (strcmp(method, changed) == 0) {
            fetch_start(b, (enum mcp_server_list)i);
        }
    }
    b->events->on_notification(b->ctx, b, method, params);
}

static void answer_take(struct mcp_server *b, json_t *message, const json_t *id)
{
    struct question *question = question_find(b, json_integer_value(id));

    if (question) {
        question_answer(b, question, message);
    }
}

static void line_take(struct mcp_server *b, struct str line)
{
    json_auto_t *message = NULL;
    struct jsonrpc_message read;
    struct err err;

    if (jsonrpc_parse(line, &message, &err) < 0 || jsonrpc_read(message, &read, &err) < 0) {
        if (line.len > 0) { /* many a server greets on its standard output */
            log_warn("%s: no message, %s: %.*s", b->plan->name, err.msg,
                     (int)(line.len < LINE_SHOWN_BYTES ? line.len : LINE_SHOWN_BYTES), line.at);
        }
        return;
    }
    switch (read.kind) {
    case JSONRPC_REQUEST:
        request_take(b, &read);
        break;
    case JSONRPC_NOTIFICATION:
        notification_take(b, read.method, read.params);
        break;
    case JSONRPC_RESPONSE:
        answer_take(b, message, read.id);
        break;
    }
}

static void lines_log(const struct mcp_server *b, struct str bytes)
{
    struct str line;

    while (str_split(&bytes, '\n', &line)) {
        if (line.len) {
            log_info("%s: %.*s", b->plan->name, (int)line.len, line.at);
        }
    }
}

static void on_output(void *ctx, bool is_error, struct str bytes)
{
    struct mcp_server *b = ctx;

    if (is_error) {
        lines_log(b, bytes);
        return;
    }
    if (buf_append(&b->lines, bytes.at, bytes.len) < 0) {
        end(b, "sent a message that is too long", (struct str){NULL, 0});
        return;
    }
    for (const struct child *child = b->child;;) {
        struct str all = buf_str(&b->lines);
        size_t len = str_find(all, '\n');
        if (len == all.len) {
            break;
        }
        line_take(b, (struct str){all.at, len});
        if (b->child != child) {
            break; /* it was ended, perhaps started again */
        }
        buf_consume(&b->lines, len + 1);
    }
}

static void on_exited(void *ctx, int64_t status, int signal)
{
    char why[WHY_BYTES];

    if (signal) {
        (void)snprintf(why, sizeof(why), "was ended by signal %d", signal);
    } else {
        (void)snprintf(why, sizeof(why), "ended with status %d", (int)status);
    }
    end(ctx, why, (struct str){NULL, 0});
}

/* ---- its process ---- */

/* Also for a server that could not be started: `said` is then the reason. For a process it is its
 * last output. */
static void end(struct mcp_server *b, const char *why, struct str said)
{
    struct child *child = move_ptr(&b->child);

    log_warn("%s %s", b->plan->name, why);
    b->state = STATE_DOWN;
    input_close(b);
    buf_clear(&b->lines);
    buf_clear(&b->waiting);
    questions_fail(b, why);
    if (!b->was_up) {
        b->events->on_failed(b->ctx, b, why, child ? child_tail(child) : said);
    }
    child_free(child);
}

static const struct child_handler child_handler = {.on_output = on_output, .on_exit = on_exited};

static void input_open(struct mcp_server *b, int fd)
{
    b->input = xnew(struct input);
    if (uv_pipe_init(b->place->loop, &b->input->pipe, 0) < 0 ||
        uv_pipe_open(&b->input->pipe, fd) < 0) {
        abort(); /* a pipe can be written to */
    }
}

static int process_start(struct mcp_server *b, struct err *err)
{
    scoped_command command = {NULL, NULL, NULL};
    int pipe[2];
    int r = command_make(b->place, b->plan, &command, err);

    if (r < 0) {
        return r;
    }
    if (pipe2(pipe, O_CLOEXEC) < 0) {
        return err_sys(err, "make a pipe for %s", b->plan->name);
    }
    scoped_fd theirs = pipe[0];
    scoped_fd ours = pipe[1];
    struct child_options options = {
        .loop = b->place->loop,
        .argv = command.argv,
        .env = command.env,
        .cwd = command.cwd,
        .input = theirs,
        .inherited = {-1, -1},
        .user = b->place->account.is_other ? &b->place->account.user : NULL,
        .tail_of_errors = true,
        .handler = &child_handler,
        .ctx = b,
    };
    r = child_start(&options, &b->child, err);
    if (r == 0) {
        input_open(b, move_fd(&ours));
    }
    return r;
}

static void run(struct mcp_server *b)
{
    struct err err;

    if (process_start(b, &err) < 0) {
        char why[WHY_BYTES];
        (void)snprintf(why, sizeof(why), "could not be started: %s", err.msg);
        end(b, why, (struct str){NULL, 0});
        return;
    }
    initialize(b);
}

static void on_install_done(void *ctx, const struct err *err, struct str said)
{
    struct mcp_server *b = ctx;

    install_free(move_ptr(&b->install));
    if (err->code) {
        end(b, err->msg, said);
    } else {
        run(b);
    }
}

void mcp_server_start(struct mcp_server *b)
{
    static const struct install_handler handler = {.done = on_install_done};
    struct err err;

    b->state = STATE_STARTING;
    if (install_start(b->place, b->plan, &handler, b, &b->install, &err) < 0) {
        end(b, err.msg, (struct str){NULL, 0});
    } else if (!b->install) {
        run(b);
    }
}

/* ---- about it ---- */

const struct plan *mcp_server_plan(const struct mcp_server *b)
{
    return b->plan;
}

json_t *mcp_server_items(const struct mcp_server *b, enum mcp_server_list list)
{
    return b->lists[list];
}

bool mcp_server_is_installing(const struct mcp_server *b)
{
    return b->install != NULL;
}

bool mcp_server_can(const struct mcp_server *b, const char *capability)
{
    return json_is_object(
        json_object_get(json_object_get(b->described, "capabilities"), capability));
}

bool mcp_server_can_subscribe(const struct mcp_server *b)
{
    const json_t *capabilities = json_object_get(b->described, "capabilities");

    return json_is_true(json_object_get(json_object_get(capabilities, "resources"), "subscribe"));
}

const char *mcp_server_instructions(const struct mcp_server *b)
{
    return json_text_of(b->described, "instructions");
}

struct str mcp_server_said(const struct mcp_server *b)
{
    return b->child ? child_tail(b->child) : (struct str){"", 0};
}

struct mcp_server *mcp_server_new(const struct place *place, const struct plan *plan,
                                  const struct mcp_server_events *events, void *ctx)
{
    struct mcp_server *b = xnew(struct mcp_server);

    *b = (struct mcp_server){.place = place, .plan = plan, .events = events, .ctx = ctx};
    buf_init(&b->lines, MESSAGE_BYTES_MAX);
    buf_init(&b->waiting, MESSAGE_BYTES_MAX);
    return b;
}

void mcp_server_free(struct mcp_server *b)
{
    install_free(b->install);
    child_free(move_ptr(&b->child));
    input_close(b);
    questions_fail(b, "ends");
    for (int i = 0; i < MCP_SERVER_LISTS; i++) {
        json_decref(b->lists[i]);
    }
    json_decref(b->described);
    buf_fini(&b->lines);
    buf_fini(&b->waiting);
    free(b);
}
