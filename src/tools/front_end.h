/* front_end.h - shared by the front ends of the catalogue: REST, MCP and one-call execution each
 * authenticate the caller, parse the request, start a call, and send its result in their own form.
 *
 * Owns:     a call, from call_start() until its `done` has returned.
 * Needs:    the tools.
 * Blocks:   never.
 * Threads:  the loop's.
 */
#ifndef TOOLS_FRONT_END_H
#define TOOLS_FRONT_END_H

#include <jansson.h>
#include <uv.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/http/http.h"
#include "tools/tool.h"
#include "tools/tools.h"

enum {
    TOOLS_CALLS_MAX = 256, /* under way at one time */
    TOOLS_CALLS_PER_TEAM_MAX = 64,
};

/* The caller: 0 and *out, or -EACCES and the sentence of a 401. The texts are borrowed: the team's
 * id is valid for good, the key as long as the request. */
struct tools_who {
    const char *team; /* its id */
    struct str key;
};
must_check int tools_authenticate(struct tools *tools, const struct http_request *req,
                                  struct tools_who *out, struct err *err);

/* The parsed schemas of a tool of the catalogue; borrowed. */
const json_t *tools_input(const struct tools *tools, const struct tool *tool);
const json_t *tools_output(const struct tools *tools, const struct tool *tool);

uv_loop_t *tools_loop(const struct tools *tools);
const struct tools_options *tools_options(const struct tools *tools);

struct call_listener {
    /* May be NULL. all 0: unknown. */
    void (*progress)(void *ctx, uint32_t done, uint32_t all, const char *text);
    /* Once, never inside call_start(). error 0: `out` is the result, borrowed during the call;
     * otherwise `err` has the sentence. */
    void (*done)(void *ctx, int error, const json_t *out, const struct err *err);
};

/* Checks the input, which is taken over in every case, and starts the tool in a fiber of its own.
 * -EINVAL with the path of what is wrong with the input; -EBUSY when too many calls are under way
 * or the daemon stops. The call is good until `done`. */
must_check int call_start(struct tools *tools, const struct tool *tool, const struct tools_who *who,
                          json_t *input, const struct call_listener *listener, void *ctx,
                          struct tool_call **out, struct err *err);

/* The same for a piece of work that is no tool of the catalogue: its input is not checked. */
must_check int call_start_run(struct tools *tools, tool_run *run, const struct tools_who *who,
                              json_t *input, const struct call_listener *listener, void *ctx,
                              struct tool_call **out, struct err *err);

/* The client has left, or has cancelled the call. The tool cleans up and `done` is called, with
 * -ECANCELED most often; perhaps before this returns. */
void call_cancel(struct tool_call *call);

/* Nobody listens any more: as call_cancel(), and `done` is not called. */
void call_abandon(struct tool_call *call);

/* The answers of all front ends to plain HTTP requests (rest.c); errors have the body
 * {"code","message"}, like the API's. The exchange must have been accepted (http_gather()). */
void rest_reply_json(struct http_exchange *ex, int status, const json_t *body);
void rest_reply_error(struct http_exchange *ex, int status, const char *message);

#endif
