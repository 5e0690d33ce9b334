/* internal.h - shared by the files of the catalogue, behind tools.h, front_end.h and call.h. */
#ifndef TOOLS_INTERNAL_H
#define TOOLS_INTERNAL_H

#include "lib/base/id.h"
#include "lib/base/json.h"
#include "tools/call.h"
#include "tools/client.h"
#include "tools/front_end.h"
#include "tools/mcp.h"

enum {
    TOOLS_KEY_BYTES = 64,
    TOOLS_TEXT_BYTES = 256, /* of a progress message */
};

struct idle; /* client.c */

struct tools {
    struct tools_options options;
    struct tool_schemas {
        json_t *input, *output;
    } * schemas; /* one for each of the catalogue */
    struct mcp *mcp;
    struct tool_call *calls;
    size_t calls_n;
    struct idle *idle; /* connections, the one used last first */
    size_t idle_n;
    bool stopping;
    void (*stopped)(void *ctx);
    void *stopped_ctx;
};

struct tool_call {
    struct tools *tools;
    const struct tool *tool; /* NULL: work that is none of the catalogue's */
    tool_run *run;
    json_t *input;
    char team[ID_UUID_LEN + 1];
    char key[TOOLS_KEY_BYTES];
    const struct call_listener *listener;
    void *ctx;
    struct fiber *fiber; /* NULL: not begun, or ended */
    bool cancelled;
    bool abandoned;
    uv_timer_t begin; /* the fiber starts from the loop, never inside call_start() */
    struct tool_call *prev, *next;
};

/* "the call was cancelled", and -ECANCELED. */
int call_was_cancelled(struct err *err);

/* A call has ended. (tools.c) */
void tools_call_ended(struct tools *tools);

/* ---- REST (rest.c) and its description (openapi.c) ---- */

void rest_list(struct tools *tools, struct http_exchange *ex);
void rest_openapi(struct tools *tools, struct http_exchange *ex);
void rest_helper(struct tools *tools, struct http_exchange *ex);
void rest_call(struct tools *tools, struct http_exchange *ex, struct str name);
void rest_execute(struct tools *tools, struct http_exchange *ex);

struct dify_route;
void rest_dify(struct tools *tools, struct http_exchange *ex, const struct dify_route *route);

/* The OpenAPI document for a client that reached us at that address; the caller's. */
json_t *openapi_document(const struct tools *tools, const char *url);

#endif
