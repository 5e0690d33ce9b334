/* absent.c - what clients of the API may ask for and this server does not have yet. A 404 would be
 * read as "no such sandbox". */
#include "api/internal.h"

static const struct {
    const char *method; /* NULL: any */
    const char *path;
    const char *what;
} absent[] = {
    {"POST", "/templates", "Building a template"},
    {"POST", "/v2/templates", "Building a template"},
    {"POST", "/v3/templates", "Building a template"},
    {NULL, "/templates/tags", "Tagging a template"},
    {"GET", "/templates/{}/tags", "Tagging a template"},
    {"POST", "/templates/{}", "Building a template"},
    {NULL, "/templates/{}/files/{}", "Building a template"},
    {NULL, "/templates/{}/builds/{}", "Building a template"},
    {NULL, "/v2/templates/{}/builds/{}", "Building a template"},
    {NULL, "/templates/{}/builds/{}/status", "Building a template"},
    {NULL, "/templates/{}/builds/{}/logs", "Building a template"},
    {"GET", "/v2/templates", "Listing templates page by page"},
    {"GET", "/templates/{}", "Listing the builds of a template"},
    {"PATCH", "/templates/{}", "Publishing a template"},
    {"PATCH", "/v2/templates/{}", "Publishing a template"},
    {NULL, "/volumes", "Keeping volumes"},
    {NULL, "/volumes/{}", "Keeping volumes"},
    {NULL, "/secrets", "Keeping secrets"},
    {NULL, "/secrets/{}", "Keeping secrets"},
};

const char *absent_find(const struct http_request *req)
{
    for (size_t i = 0; i < countof(absent); i++) {
        struct str param;

        if (path_match(absent[i].path, req->path, &param) &&
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
