/* openapi.c - GET /openapi.json: the description of this API. It is the same for everybody, and
 * clients fetch it before they hold a key. */
#include "serve/api/internal.h"
#include "serve/api/openapi/document.h"

void handle_openapi(struct call *call, const json_t *body)
{
    (void)body;
    call_text(call, 200, "application/json; charset=utf-8", str_of(api_openapi_json));
}
