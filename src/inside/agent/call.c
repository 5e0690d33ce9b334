#include "inside/agent/call.h"

#include <stdlib.h>

#include "lib/base/utf8.h"

enum {
    MS_PER_S = 1000,
    KEEPALIVE_DEFAULT_S = 90,
    KEEPALIVE_MAX_S = 24 * 60 * 60,
};

void call_fail(struct rpc_call *call, enum rpc_code code, const struct err *err)
{
    char text[sizeof(err->msg) * UTF8_REPLACEMENT_BYTES + 1];

    (void)utf8_repair(str_of(err->msg), text); /* it may name a file */
    rpc_fail(call, code, "%s", text);
}

enum rpc_code call_path(const struct agent *agent, const struct rpc_call *call, const char *path,
                        struct user *user, char out[AGENT_PATH_BYTES], struct err *err)
{
    if (user_of_request(agent, rpc_request(call), user, err) < 0) {
        return RPC_UNAUTHENTICATED;
    }
    return user_path(agent, user, str_of(path), out, err) < 0 ? RPC_INVALID_ARGUMENT : RPC_OK;
}

uint64_t call_keepalive_ms(const struct rpc_call *call)
{
    struct str text = http_header_get(rpc_request(call), "keepalive-ping-interval");
    char digits[16];
    char *end;

    if (!str_copy(digits, sizeof(digits), text) || !digits[0]) {
        return (uint64_t)KEEPALIVE_DEFAULT_S * MS_PER_S;
    }
    long seconds = strtol(digits, &end, 10);
    if (*end || seconds <= 0 || seconds > KEEPALIVE_MAX_S) {
        seconds = KEEPALIVE_DEFAULT_S;
    }
    return (uint64_t)seconds * MS_PER_S;
}
