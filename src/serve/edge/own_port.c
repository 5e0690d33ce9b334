/* own_port.c - which requests may reach the ports that our own programs serve.
 *
 * The agent compares its token itself, request by request. The code interpreter and the MCP gateway
 * can be changed by the code they run, so their checks are here. A page of another site can send
 * requests to every port whose name it knows, as long as they look like a form's: such requests
 * never reach a program that would run their content.
 */
#include "lib/base/encode.h"
#include "lib/http/browser.h"
#include "serve/edge/internal.h"
#include "wire/channel.h"

bool own_port_is(uint16_t port)
{
    return port == AGENT_PORT || port == EDGE_INTERPRETER_PORT || port == EDGE_GATEWAY_PORT;
}

/* A browser's preflight, which cannot have a token. */
static bool is_preflight(const struct http_request *req)
{
    return str_eq(req->method, STR("OPTIONS"));
}

static bool is_health(const struct http_request *req)
{
    return str_eq(req->path, STR("/health")) &&
           (str_eq(req->method, STR("GET")) || str_eq(req->method, STR("HEAD")));
}

/* Pages may follow signed links to files, and forms may send to them. The agent checks the
 * signature. */
static bool is_file_link(const struct http_request *req, uint16_t port)
{
    return port == AGENT_PORT && str_eq(req->path, STR("/files"));
}

/* The SDKs send no access token with these. Nothing that is run comes with them. */
static bool is_contexts(const struct http_request *req)
{
    static const struct str contexts = {"/contexts", 9};
    scoped_buf(path, HTTP_TARGET_BYTES_MAX);

    if (edge_plain_path(req->path, &path) < 0 || !str_eq(buf_str(&path), req->path)) {
        return false;
    }
    return str_eq(req->path, contexts) ||
           (str_starts(req->path, contexts) && req->path.at[contexts.len] == '/');
}

/* A request to a sandbox that is not public has shown the traffic token already. A sandbox made by
 * an SDK before version 2 is used by that SDK, which has no token to send: its id is the key, as
 * with E2B. */
static bool is_owner(const struct sandbox *sb, const struct http_request *req)
{
    const char *token = sandbox_info(sb).access_token;
    const json_t *options = sandbox_info(sb).options;

    return !token || !edge_is_public(sb) ||
           json_is_true(json_object_get(options, SANDBOX_OPEN_INTERPRETER_OPTION)) ||
           str_eq_secret(http_header_get(req, EDGE_ACCESS_HEADER), str_of(token));
}

bool own_port_refuses(const struct sandbox *sb, const struct http_request *req, uint16_t port,
                      enum edge_error *out)
{
    if (!own_port_is(port) || is_preflight(req) || (is_health(req) && !req->upgrade) ||
        is_file_link(req, port)) {
        return false;
    }
    if (browser_is_foreign(req) && !browser_asked_first(req)) {
        *out = EDGE_ERROR_FOREIGN_PAGE;
        return true;
    }
    *out = EDGE_ERROR_NOT_OWNER;
    return port == EDGE_INTERPRETER_PORT && !is_contexts(req) && !is_owner(sb, req);
}
