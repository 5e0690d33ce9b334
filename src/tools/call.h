/* call.h - one call of a tool under way, as its handler sees it.
 *
 * Owns:     the connections to the daemon's API that the call opened.
 * Needs:    a fiber, in which the handler runs; the caller, whom the front end has authenticated.
 * Blocks:   the fiber, never the loop. Everything here that waits returns -ECANCELED when the
 *           client has left, a cancellation came or the daemon stops.
 * Threads:  the loop's.
 *
 * Tools are a client of the daemon's: they call its API with the caller's key, over its internal
 * socket. So a tool can do exactly what its caller could do with an SDK, and limits, events and
 * sentences are the API's own.
 */
#ifndef TOOLS_CALL_H
#define TOOLS_CALL_H

#include <jansson.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"

struct tools;
struct tool_call;

struct tools *call_tools(const struct tool_call *call);
const char *call_team(const struct tool_call *call); /* its id */

/* Asks the daemon's API. body may be NULL; *answer (may be NULL) is the caller's: parsed JSON, or
 * NULL when there is none. 0 for 2xx; otherwise the errno of the status (call_errno_of()), and the
 * API's own sentence. */
must_check int call_api(struct tool_call *call, const char *method, const char *target,
                        const json_t *body, json_t **answer, struct err *err);

/* The same for a route below /internal, which the daemon answers to its own programs alone. */
must_check int call_internal(struct tool_call *call, const char *method, const char *target,
                             const json_t *body, json_t **answer, struct err *err);

/* A GET of a list that comes in pages: all of its elements in one array, at most `most`. `target`
 * has a query already. */
must_check int call_api_list(struct tool_call *call, const char *target, size_t most,
                             json_t **answer, struct err *err);

/* 400 EINVAL, 401 EACCES, 403 EPERM, 404 ENOENT, 409 ESTALE, 413 EMSGSIZE, 422 EOPNOTSUPP,
 * 429 EBUSY, 503 EAGAIN, 504 ETIMEDOUT, 507 EDQUOT, else EIO; negative (the table is in
 * lib/http/status.c). And back, for the answers over plain HTTP. */
int call_errno_of(int status);
int call_status_of(int error);

must_check int call_sleep(struct tool_call *call, int64_t ms);

/* Reports progress to clients that asked for it: a sentence, and the steps done out of all (0:
 * unknown). Cheap when no client listens. */
void call_progress(struct tool_call *call, uint32_t done, uint32_t all, const char *fmt, ...)
    printf_like(4, 5);

#endif
