/* token.c - requests to an agent that name their sandbox only by its access token.
 *
 * Python SDK 2.7 to 2.26 sends no routing headers after connect() when it has one address for all
 * sandboxes. The token belongs to one sandbox only, so it names the sandbox too. The agent compares
 * it again, as for any other request.
 */
#include "lib/base/encode.h"
#include "serve/edge/internal.h"

bool names_sandbox_by_token(const struct http_request *req)
{
    static const char *const services[] = {"/process.Process/", "/filesystem.Filesystem/", "/tcp/"};

    if (http_header_get(req, EDGE_ACCESS_HEADER).len == 0) {
        return false;
    }
    for (size_t i = 0; i < countof(services); i++) {
        if (str_starts(req->path, str_of(services[i]))) {
            return true;
        }
    }
    return str_eq(req->path, STR("/files")) || str_eq(req->path, STR("/health"));
}

struct search {
    struct str token;
    struct sandbox *found;
};

static bool try_one(void *ctx, struct sandbox *sb)
{
    struct search *search = ctx;
    const char *token = sandbox_info(sb).access_token;

    if (token && str_eq_secret(search->token, str_of(token))) {
        search->found = sb;
    }
    return search->found == NULL;
}

struct sandbox *token_find(struct sandboxes *sandboxes, const struct http_request *req)
{
    struct search search = {.token = http_header_get(req, EDGE_ACCESS_HEADER)};

    sandboxes_each(sandboxes, false, NULL, try_one, &search);
    return search.found;
}
