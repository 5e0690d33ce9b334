/* request.c - every request passes CORS and the access token, then goes to the handler of its path.
 * Paths are compared as they are: nothing is decoded or normalized before. */
#include "inside/agent/files.h"
#include "inside/agent/internal.h"
#include "inside/agent/tunnel.h"
#include "inside/agent/volume.h"
#include "lib/base/encode.h"
#include "lib/http/cors.h"

/* No token is needed for liveness, for /files (which checks tokens and signatures itself) and on
 * the daemon's own connections. */
static bool is_open(const struct http_request *req)
{
    if (req->connection_tag == agent_tag_control) {
        return true;
    }
    if (str_eq(req->path, STR("/files"))) {
        return true;
    }
    return str_eq(req->path, STR("/health")) && str_eq(req->method, STR("GET"));
}

static bool is_allowed(const struct agent *agent, const struct http_request *req)
{
    return !agent->access_token || is_open(req) ||
           str_eq_secret(http_header_get(req, "x-access-token"), str_of(agent->access_token));
}

void agent_request(void *ctx, struct http_exchange *ex)
{
    struct agent *agent = ctx;
    const struct http_request *req = http_request(ex);

    if (http_header_get(req, "origin").at) {
        cors_also(ex, CORS_AGENT);
    }
    if (cors_is_preflight(req)) {
        cors_preflight(ex, CORS_AGENT);
    } else if (!is_allowed(agent, req)) {
        files_refuse(ex, 401,
                     "unauthorized access, please provide a valid access token or method signing "
                     "if supported");
    } else if (!volume_handle(agent, ex) && !process_handle(agent, ex) &&
               !filesystem_handle(agent, ex) && !files_handle(agent, ex) &&
               !tunnel_handle(agent, ex) && !system_handle(agent, ex) && !proc_handle(agent, ex)) {
        files_refuse(ex, 404, "there is nothing at this path");
    }
}
