/* call.h - helpers for the RPC calls of both services: the user, the path, and failures. */
#ifndef AGENT_CALL_H
#define AGENT_CALL_H

#include "inside/agent/internal.h"

/* Fails a call with a sentence that may name a file. */
void call_fail(struct rpc_call *call, enum rpc_code code, const struct err *err);

/* Finds the user that the call acts as, and makes its path absolute. RPC_OK, or the code and the
 * sentence. */
must_check enum rpc_code call_path(const struct agent *agent, const struct rpc_call *call,
                                   const char *path, struct user *user, char out[AGENT_PATH_BYTES],
                                   struct err *err);

/* Keepalive-Ping-Interval of a stream, or the default. */
uint64_t call_keepalive_ms(const struct rpc_call *call);

#endif
