/* mcp.c - `atoll mcp`: the daemon's MCP server for clients that speak over stdin and stdout.
 *
 * Each line of stdin is POSTed to /mcp; the answers, JSON or events, become lines of stdout. The
 * session with the daemon lasts as long as stdin is open, and its sandbox with it; an open GET
 * keeps the session from expiring while the client is idle. A client of a revision without sessions
 * gets a session too, for the sandbox. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/bridge.h"
#include "lib/mcp/jsonrpc.h"
#include "lib/web/multi.h"

enum { GRACE_MS = 2000, AGAIN_MS = 1000, IDLE_CONNECTIONS = 4 };

#define OPEN_VERSION "2025-11-25"

/* ---- stdout ---- */

void bridge_write(struct str message)
{
    (void)fwrite(message.at, 1, message.len, stdout);
    (void)fputc('\n', stdout);
    (void)fflush(stdout);
}

void bridge_fail(json_t *id, int code, const char *sentence)
{
    json_t *answer = jsonrpc_error(id, code, sentence, NULL);
    char *text = json_dumps(answer, JSON_COMPACT);

    bridge_write(str_of(text));
    free(text);
    json_decref(answer);
}

/* ---- the session ---- */

static void lines_take(struct bridge *bridge);

static void session_open(struct bridge *bridge)
{
    json_t *message =
        json_pack("{s:s, s:s, s:s, s:{s:s, s:{}, s:{s:s, s:s}}}", "jsonrpc", "2.0", "id",
                  "atoll-mcp", "method", "initialize", "params", "protocolVersion",
                  bridge->version[0] ? bridge->version : OPEN_VERSION, "capabilities", "clientInfo",
                  "name", "atoll mcp", "version", ATOLL_VERSION);

    bridge->opening = true;
    bridge_request_start(bridge, BRIDGE_REQUEST_OPEN, message, json_dumps(message, JSON_COMPACT));
}

void bridge_opened(struct bridge *bridge, enum bridge_request_kind kind, const json_t *answer)
{
    const json_t *result = json_object_get(answer, "result");
    const char *version = json_string_of(result, "protocolVersion");

    if (version && kind == BRIDGE_REQUEST_INITIALIZE) {
        (void)str_copy(bridge->version, sizeof(bridge->version), str_of(version));
    }
}

void bridge_lost(struct bridge *bridge)
{
    if (!bridge->opening) {
        bridge->session[0] = '\0';
        session_open(bridge);
    }
}

static void on_again(uv_timer_t *timer)
{
    struct bridge *bridge = timer->data;

    if (bridge->session[0] && !bridge->ending) {
        bridge_request_start(bridge, BRIDGE_REQUEST_LISTEN, NULL, NULL);
    }
}

static void session_end(struct bridge *bridge)
{
    if (bridge->ending) {
        return;
    }
    bridge->ending = true;
    if (bridge->session[0]) {
        bridge_request_start(bridge, BRIDGE_REQUEST_END, NULL, NULL);
    } else {
        uv_stop(&bridge->loop);
    }
}

static bool is_busy(const struct bridge *bridge)
{
    return bridge->opening || bridge->lost || bridge_requests_busy(bridge);
}

void bridge_ended(struct bridge *bridge, enum bridge_request_kind kind)
{
    switch (kind) {
    case BRIDGE_REQUEST_OPEN:
    case BRIDGE_REQUEST_INITIALIZE:
        bridge->opening = false;
        bridge->refused = !bridge->session[0];
        on_again(&bridge->again);
        bridge_requests_resend(bridge);
        lines_take(bridge);
        break;
    case BRIDGE_REQUEST_LISTEN:
        (void)uv_timer_start(&bridge->again, on_again, AGAIN_MS, 0);
        break;
    case BRIDGE_REQUEST_END:
        uv_stop(&bridge->loop);
        break;
    case BRIDGE_REQUEST_MESSAGE:
        break;
    }
    if (bridge->eof && !is_busy(bridge)) {
        session_end(bridge);
    }
}

/* ---- stdin ---- */

/* A client of this revision needs no session: only the sandbox does. */
static bool is_stateless(const json_t *message)
{
    const json_t *params = json_object_get(message, "params");
    const json_t *meta = json_object_get(params, "_meta");

    return json_object_get(meta, "io.modelcontextprotocol/protocolVersion") != NULL;
}

/* False: the message must wait for a session. */
static bool line_take(struct bridge *bridge, struct str line)
{
    json_t *message = NULL;
    struct err err;

    if (jsonrpc_parse(line, &message, &err) < 0) {
        bridge_fail(NULL, JSONRPC_PARSE_ERROR, err.msg);
        return true;
    }
    const char *method = json_string_of(message, "method");
    bool begins = method && strcmp(method, "initialize") == 0 && !is_stateless(message);
    if (is_stateless(message) && !bridge->session[0] && !bridge->refused) {
        json_decref(message);
        session_open(bridge);
        return false;
    }
    bridge->opening = begins;
    bridge_request_start(bridge, begins ? BRIDGE_REQUEST_INITIALIZE : BRIDGE_REQUEST_MESSAGE,
                         message, json_dumps(message, JSON_COMPACT));
    return true;
}

static void lines_take(struct bridge *bridge)
{
    struct str rest = buf_str(&bridge->input);
    size_t n;

    while (!bridge->opening && !bridge->ending && (n = str_find(rest, '\n')) < rest.len) {
        struct str line = {rest.at, n > 0 && rest.at[n - 1] == '\r' ? n - 1 : n};
        if (line.len > 0 && !line_take(bridge, line)) {
            return;
        }
        buf_consume(&bridge->input, n + 1);
        rest = buf_str(&bridge->input);
    }
}

static void on_grace(uv_timer_t *timer)
{
    session_end(timer->data);
}

static void input_end(struct bridge *bridge)
{
    bridge->eof = true;
    if (!is_busy(bridge)) {
        session_end(bridge);
    } else {
        (void)uv_timer_start(&bridge->grace, on_grace, GRACE_MS, 0);
    }
}

static void on_read(uv_fs_t *req);

static void read_next(struct bridge *bridge)
{
    uv_buf_t into = uv_buf_init(bridge->chunk, sizeof(bridge->chunk));

    bridge->read.data = bridge;
    (void)uv_fs_read(&bridge->loop, &bridge->read, STDIN_FILENO, &into, 1, -1, on_read);
}

static void on_read(uv_fs_t *req)
{
    struct bridge *bridge = req->data;
    ssize_t n = req->result;

    uv_fs_req_cleanup(req);
    if (n <= 0) {
        input_end(bridge);
        return;
    }
    if (buf_append(&bridge->input, bridge->chunk, (size_t)n) < 0) {
        bridge_fail(NULL, JSONRPC_INVALID_REQUEST, "the message is too long");
        (void)cli_fail(0, "a message is longer than %d bytes", BRIDGE_LINE_BYTES_MAX);
        session_end(bridge);
        return;
    }
    lines_take(bridge);
    read_next(bridge);
}

/* ---- life ---- */

static void on_signal(uv_signal_t *signal, int number)
{
    (void)number;
    session_end(signal->data);
}

static void bridge_init(struct bridge *bridge)
{
    (void)uv_loop_init(&bridge->loop);
    bridge->multi = multi_new(&bridge->loop, IDLE_CONNECTIONS);
    (void)uv_timer_init(&bridge->loop, &bridge->grace);
    (void)uv_timer_init(&bridge->loop, &bridge->again);
    (void)uv_signal_init(&bridge->loop, &bridge->on_term);
    (void)uv_signal_init(&bridge->loop, &bridge->on_int);
    bridge->grace.data = bridge->again.data = bridge;
    bridge->on_term.data = bridge->on_int.data = bridge;
    (void)uv_signal_start(&bridge->on_term, on_signal, SIGTERM);
    (void)uv_signal_start(&bridge->on_int, on_signal, SIGINT);
    buf_init(&bridge->input, BRIDGE_LINE_BYTES_MAX);
}

/* --template NAME or --sandbox ID, as the address of the daemon's server has them. */
static int path_make(const struct cli *cli, struct bridge *bridge)
{
    char value[BRIDGE_PATH_BYTES / 2];
    const char *name;

    (void)snprintf(bridge->path, sizeof(bridge->path), "/mcp");
    if (cli->options_n > 1) {
        return cli_fail(CLI_USAGE, "mcp takes either --template or --sandbox, once");
    }
    if (cli->options_n == 1) {
        name = strcmp(cli->options[0].name, "--template") == 0 ? "template" : "sandbox_id";
        endpoint_escape(cli->options[0].value, value, sizeof(value));
        (void)snprintf(bridge->path, sizeof(bridge->path), "/mcp?%s=%s", name, value);
    }
    return CLI_OK;
}

static int mcp(struct cli *cli)
{
    static struct bridge bridge; /* a read of stdin may be under way when we leave */
    struct err err;

    int r = path_make(cli, &bridge);
    if (r != CLI_OK) {
        return r;
    }
    int found = endpoint_choose(cli, &bridge.endpoint, &err);
    if (found < 0) {
        return cli_failed(found, &err);
    }
    (void)signal(SIGPIPE, SIG_IGN);
    bridge_init(&bridge);
    read_next(&bridge);
    (void)uv_run(&bridge.loop, UV_RUN_DEFAULT);
    return CLI_OK;
}

static const struct option mcp_options[] = {
    {.name = "--template",
     .value = "NAME",
     .help = "template of the session's sandbox",
     .takes = TAKES_TEMPLATE},
    {.name = "--sandbox",
     .value = "ID",
     .help = "or a sandbox that there is already",
     .takes = TAKES_SANDBOX},
    {.name = NULL},
};

const struct command row_mcp = {
    .name = "mcp",
    .args = "[--template NAME | --sandbox ID]",
    .summary = "serves the tools to an MCP client over stdin and stdout",
    .run = mcp,
    .group = GROUP_TEMPLATES,
    .options = mcp_options,
    .about = "Each session has one sandbox.",
    .examples = "claude mcp add atoll -- atoll mcp",
};
