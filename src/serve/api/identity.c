/* The public keys that a service needs to verify a workload token. Open to all, as public keys
 * are. */
#include <stdlib.h>

#include "serve/api/internal.h"
#include "serve/secrets/identity.h"

static void publish(struct call *call, char *text)
{
    call_text(call, 200, "application/json", str_of(text));
    free(text);
}

void handle_identity_configuration(struct call *call, const json_t *body)
{
    (void)body;
    publish(call, identity_configuration(call->api->options.identity));
}

void handle_identity_keys(struct call *call, const json_t *body)
{
    (void)body;
    publish(call, identity_keys(call->api->options.identity));
}
