/* tools.h - between the daemon and atoll-tools, the program that has the catalogue of tools.
 *
 *      client ──► daemon ──► state/tools.sock ──► atoll-tools ──► state/api.sock ──► daemon's API
 *
 * Both speak HTTP/1.1. The daemon finds out who asks before it passes a request on, and says so in
 * headers that no client can set: those of clients that begin with TOOLS_HEADERS are left out.
 * atoll-tools asks the API with the key of who asks, and routes below /internal as well.
 */
#ifndef WIRE_TOOLS_H
#define WIRE_TOOLS_H

#include <stdbool.h>

#include "lib/base/compiler.h"
#include "lib/base/str.h"

#define TOOLS_HEADERS "x-atoll-"
#define TOOLS_HEADER_TEAM "x-atoll-team"       /* the id of who asks, */
#define TOOLS_HEADER_KEY "x-atoll-key"         /* and the key's own text; */
#define TOOLS_HEADER_REFUSED "x-atoll-refused" /* or the sentence of a 401 instead */

enum { TOOLS_LISTEN_FD = 3 }; /* of atoll-tools: its listening socket */

#define TOOLS_PATH "/tools"
#define TOOLS_PATH_MCP "/mcp"
#define TOOLS_PATH_EXECUTE "/api/code/execute"
#define TOOLS_PATH_DIFY "/v1/sandbox/"

/* Whether a request is for atoll-tools. Preflights are the API's, but for those of MCP. Pure. */
static inline bool tools_takes(struct str method, struct str path)
{
    if (str_eq(path, STR(TOOLS_PATH_MCP))) {
        return true;
    }
    return !str_eq(method, STR("OPTIONS")) &&
           (str_eq(path, STR(TOOLS_PATH)) || str_starts(path, STR(TOOLS_PATH "/")) ||
            str_eq(path, STR(TOOLS_PATH_EXECUTE)) || str_eq(path, STR(TOOLS_PATH_DIFY "run")) ||
            str_eq(path, STR(TOOLS_PATH_DIFY "dependencies")) ||
            str_eq(path, STR(TOOLS_PATH_DIFY "dependencies/refresh")) ||
            str_eq(path, STR(TOOLS_PATH_DIFY "dependencies/update")));
}

#endif
