#include "tools/tools.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "tools/dify.h"
#include "tools/execute.h"
#include "tools/internal.h"
#include "tools/schema.h"

/* ---- for the front ends ---- */

int tools_authenticate(struct tools *tools, const struct http_request *req, struct tools_who *out,
                       struct err *err)
{
    return tools->options.authenticate(tools->options.ctx, req, &out->team, &out->key, err);
}

const json_t *tools_input(const struct tools *tools, const struct tool *tool)
{
    return tools->schemas[tool - tools_catalogue].input;
}

const json_t *tools_output(const struct tools *tools, const struct tool *tool)
{
    return tools->schemas[tool - tools_catalogue].output;
}

uv_loop_t *tools_loop(const struct tools *tools)
{
    return tools->options.loop;
}

const struct tools_options *tools_options(const struct tools *tools)
{
    return &tools->options;
}

/* ---- whose an exchange is ---- */

bool tools_handle(struct tools *tools, struct http_exchange *ex)
{
    const struct http_request *req = http_request(ex);
    static const struct str prefix = {"/tools/", 7};
    const struct dify_route *dify;

    if (str_eq(req->path, STR("/mcp"))) {
        mcp_handle(tools->mcp, ex);
        return true;
    }
    if (str_eq(req->method, STR("OPTIONS"))) {
        return false; /* the API answers every preflight */
    }
    if (str_eq(req->path, STR(EXECUTE_PATH))) {
        rest_execute(tools, ex);
    } else if ((dify = dify_find(req->path))) {
        rest_dify(tools, ex, dify);
    } else if (str_eq(req->path, STR("/tools"))) {
        rest_list(tools, ex);
    } else if (str_eq(req->path, STR("/tools/openapi.json"))) {
        rest_openapi(tools, ex);
    } else if (str_eq(req->path, STR("/tools/make_api_shell.py"))) {
        rest_helper(tools, ex);
    } else if (str_starts(req->path, prefix)) {
        rest_call(tools, ex, str_skip(req->path, prefix.len));
    } else {
        return false;
    }
    return true;
}

/* ---- the whole ---- */

static int schema_load(const char *text, const char *name, json_t **out, struct err *err)
{
    json_error_t where;

    *out = json_loads(text, 0, &where);
    if (!*out) {
        return err_set(err, EINVAL, "the tool %s is declared wrongly: %s", name, where.text);
    }
    int r = schema_supported(*out, err);
    return r < 0 ? err_wrap(err, "the tool %s is declared wrongly", name) : 0;
}

int tools_new(const struct tools_options *options, struct tools **out, struct err *err)
{
    struct tools *tools = xnew(struct tools);
    int r = 0;

    tools->options = *options;
    tools->schemas = xcalloc(tools_catalogue_n, sizeof(tools->schemas[0]));
    for (size_t i = 0; r == 0 && i < tools_catalogue_n; i++) {
        const struct tool *tool = &tools_catalogue[i];

        r = schema_load(tool->input, tool->name, &tools->schemas[i].input, err);
        if (r == 0) {
            r = schema_load(tool->output, tool->name, &tools->schemas[i].output, err);
        }
    }
    if (r < 0) {
        tools_free(tools);
        return r;
    }
    tools->mcp = mcp_new(tools);
    *out = tools;
    return 0;
}

void tools_call_ended(struct tools *tools)
{
    if (tools->stopping && tools->calls_n == 0 && tools->stopped) {
        void (*stopped)(void *ctx) = tools->stopped;

        tools->stopped = NULL;
        client_stop(tools);
        stopped(tools->stopped_ctx);
    }
}

/* A call may end inside its cancellation: the list is looked at anew after each. */
static struct tool_call *next_to_cancel(struct tools *tools)
{
    struct tool_call *call = tools->calls;

    while (call && call->cancelled) {
        call = call->next;
    }
    return call;
}

void tools_stop(struct tools *tools, void (*done)(void *ctx), void *ctx)
{
    mcp_stop(tools->mcp);
    tools->stopping = true;
    for (struct tool_call *call = next_to_cancel(tools); call; call = next_to_cancel(tools)) {
        call_cancel(call);
    }
    tools->stopped = done;
    tools->stopped_ctx = ctx;
    tools_call_ended(tools);
}

void tools_free(struct tools *tools)
{
    if (!tools) {
        return;
    }
    client_stop(tools);
    if (tools->calls_n > 0) { /* its fibers would wake in what is freed: the process ends anyway */
        return;
    }
    mcp_free(tools->mcp);
    for (size_t i = 0; i < tools_catalogue_n; i++) {
        json_decref(tools->schemas[i].input);
        json_decref(tools->schemas[i].output);
    }
    free(tools->schemas);
    free(tools);
}
