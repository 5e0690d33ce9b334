/* absent.c - what clients of the API may ask for and this server does not have yet. A 404 would be
 * read as "no such sandbox". */
#include "api/internal.h"

static const struct {
    const char *method; /* NULL: any */
    const char *path;
    const char *what;
} absent[] = {
    {"POST", "/sandboxes/{}/pause", "Pausing a sandbox"},
    {"POST", "/sandboxes/{}/resume", "Resuming a sandbox"},
    {"POST", "/sandboxes/{}/fork", "Forking a sandbox"},
    {"POST", "/sandboxes/{}/snapshots", "Making a snapshot of a sandbox"},
    {"GET", "/snapshots", "Listing snapshots"},
    {"POST", "/templates", "Building a template from a pushed image"},
    {"POST", "/templates/{}", "Building a template from a pushed image"},
    {"POST", "/templates/{}/builds/{}", "Building a template from a pushed image"},
    {NULL, "/volumes", "Keeping volumes"},
    {NULL, "/volumes/{}", "Keeping volumes"},
    {NULL, "/secrets", "Keeping secrets"},
    {NULL, "/secrets/{}", "Keeping secrets"},
};

const char *absent_find(const struct http_request *req)
{
    for (size_t i = 0; i < countof(absent); i++) {
        struct path_params params = {0};

        if (path_match(absent[i].path, req->path, &params) &&
            (!absent[i].method || str_eq(str_of(absent[i].method), req->method))) {
            return absent[i].what;
        }
    }
    return NULL;
}

void handle_absent(struct call *call, const json_t *body)
{
    (void)body;
    call_fail(call, 501, "%s is not available on this server yet", call->absent);
}
