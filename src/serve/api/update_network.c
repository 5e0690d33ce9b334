/* PUT /sandboxes/{id}/network: what a running sandbox may reach, from now on. */
#include <errno.h>

#include "serve/api/internal.h"
#include "serve/api/network.h"

/* The options as they will be. An omitted field is cleared, as that of the internet access is. */
static int options_make(const json_t *before, const json_t *body, json_t **out, struct err *err)
{
    json_t *network = NULL;
    bool allowed = true;
    int r = field_bool(body, "allow_internet_access", &allowed, err);

    if (r == 0) {
        r = network_update(json_object_get(before, "network"), body, &network, err);
    }
    if (r < 0) {
        return r;
    }
    json_t *options = json_deep_copy(before);
    (void)json_object_set_new(options, "network", network);
    if (json_is_boolean(json_object_get(body, "allow_internet_access"))) {
        (void)json_object_set_new(options, "allowInternetAccess", json_boolean(allowed));
    } else {
        (void)json_object_del(options, "allowInternetAccess");
    }
    *out = options;
    return 0;
}

void handle_network(struct call *call, const json_t *body)
{
    struct sandbox *sb = call_running(call, 409);
    scoped_json *options = NULL;
    struct err err;

    if (!sb) {
        return;
    }
    int r = options_make(sandbox_info(sb).options, body, &options, &err);
    if (r == 0) {
        r = sandbox_set_options(sb, options, call_recorded, call, &err);
    }
    if (r < 0) {
        call_fail_err(call, r, &err);
    }
}
