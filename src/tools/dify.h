/* dify.h - the HTTP interface of Dify's own sandbox, for Dify's code nodes.
 *
 *      POST /v1/sandbox/run                    {language: python3|nodejs, code, enable_network,
 *                                               dependencies: [{name, version}]}
 *      GET  /v1/sandbox/dependencies           ?language=python3
 *      GET  /v1/sandbox/dependencies/refresh   the same
 *      POST /v1/sandbox/dependencies/update    {language}; does nothing: packages belong to the
 *                                              template
 *
 * Every answer is {code, message, data}: code 0 and "success", or a negative code. A piece of code
 * that fails is a success whose data has `error`. The key in X-Api-Key is a key of the team's.
 *
 * Blocks:   the fiber.
 * Threads:  the loop's.
 */
#ifndef TOOLS_DIFY_H
#define TOOLS_DIFY_H

#include "tools/tool.h"

struct dify_route {
    const char *method, *path;
    tool_run *run; /* its input is what the client sent, unchecked; of a GET, its query */
};

/* NULL: the path is none of Dify's. */
const struct dify_route *dify_find(struct str path);

/* {code, message, data: null} for a failure with that HTTP status; the caller's. */
json_t *dify_failure(int status, const char *message);

#endif
