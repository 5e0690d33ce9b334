/* request.c - the way of every request: CORS, the access token, then the part whose path it is.
 * Paths are compared as they are: nothing is decoded or normalized before. */
#include "inside/agent/files.h"
#include "inside/agent/internal.h"
#include "inside/agent/volume.h"
#include "lib/base/encode.h"

/* STR() is no constant expression, so a table of constants is spelt out. */
#define FIELD(name, value)                                                                         \
    {                                                                                              \
        {(name), sizeof(name) - 1},                                                                \
        {                                                                                          \
            (value), sizeof(value) - 1                                                             \
        }                                                                                          \
    }

static const struct http_header cors[] = {
    FIELD("access-control-allow-origin", "*"),
    FIELD("access-control-expose-headers",
          "Content-Encoding, Connect-Content-Encoding, Grpc-Status, Grpc-Message, "
          "Grpc-Status-Details-Bin, Location, Cache-Control, X-Content-Type-Options"),
    FIELD("vary", "Origin"),
};

static bool is_preflight(const struct http_request *req)
{
    return str_eq(req->method, STR("OPTIONS")) && http_header_get(req, "origin").at &&
           http_header_get(req, "access-control-request-method").at;
}

static void preflight_end(void *ctx, int error)
{
    (void)ctx, (void)error;
}

/* Any origin may ask for anything: the access token is what guards, and no cookie is looked at. */
static void preflight(struct http_exchange *ex)
{
    static const struct http_handler handler = {.on_end = preflight_end};
    struct str wanted = http_header_get(http_request(ex), "access-control-request-headers");
    const struct http_header headers[] = {
        {STR("access-control-allow-methods"), STR("HEAD, GET, POST, PUT, PATCH, DELETE")},
        {STR("access-control-max-age"), STR("7200")},
        {STR("access-control-allow-headers"), wanted},
    };

    http_accept(ex, &handler, NULL);
    http_reply_with(ex, 204, headers, countof(headers) - (wanted.len == 0), NULL, NULL, 0);
}

/* What needs no token: liveness; /files, which takes signatures as well and looks for itself; and
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
        http_also(ex, cors, countof(cors));
    }
    if (is_preflight(req)) {
        preflight(ex);
    } else if (!is_allowed(agent, req)) {
        files_refuse(ex, 401,
                     "unauthorized access, please provide a valid access token or method signing "
                     "if supported");
    } else if (!volume_handle(agent, ex) && !process_handle(agent, ex) &&
               !filesystem_handle(agent, ex) && !files_handle(agent, ex) &&
               !system_handle(agent, ex)) {
        files_refuse(ex, 404, "there is nothing at this path");
    }
}
