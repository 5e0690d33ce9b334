/* rpc.h - Connect RPC on an HTTP exchange: unary calls, server streams and client streams.
 *
 * Messages are protobuf-c structures whatever travels: JSON (application/json,
 * application/connect+json) and binary (application/proto, application/connect+proto) are two
 * codecs over the same descriptors, so a handler is written once and never sees either.
 * Unknown fields are ignored, fields of the wrong type are refused with a sentence.
 * Nor does it see compression: gzip is unpacked, and long answers are packed for those who ask.
 *
 * The library answers by itself: unknown method (404), wrong HTTP method (405), unsupported content
 * type (415), unknown compression (unimplemented), malformed body (invalid_argument), message over
 * its limit, unpacked (resource_exhausted).
 */
#ifndef RPC_RPC_H
#define RPC_RPC_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/http/http.h"

enum {
    RPC_MESSAGE_BYTES_MAX = 16 * 1024 * 1024,
};

enum rpc_code {
    RPC_OK = 0,
    RPC_CANCELED,
    RPC_UNKNOWN,
    RPC_INVALID_ARGUMENT,
    RPC_DEADLINE_EXCEEDED,
    RPC_NOT_FOUND,
    RPC_ALREADY_EXISTS,
    RPC_PERMISSION_DENIED,
    RPC_RESOURCE_EXHAUSTED,
    RPC_FAILED_PRECONDITION,
    RPC_ABORTED,
    RPC_OUT_OF_RANGE,
    RPC_UNIMPLEMENTED,
    RPC_INTERNAL,
    RPC_UNAVAILABLE,
    RPC_DATA_LOSS,
    RPC_UNAUTHENTICATED,
};

enum rpc_kind { RPC_UNARY, RPC_SERVER_STREAM, RPC_CLIENT_STREAM };

struct rpc_call; /* one call under way */

struct rpc_method {
    const char *path; /* "/process.Process/Start" */
    enum rpc_kind kind;
    const ProtobufCMessageDescriptor *request;
    const ProtobufCMessageDescriptor *response;

    /* UNARY, SERVER_STREAM: once, with the one request message. CLIENT_STREAM: per message; then
     * once with NULL when the client has ended its side. The message is valid during the call. */
    void (*handle)(void *ctx, struct rpc_call *call, const ProtobufCMessage *request);
};

/* True when the path belongs to one of the methods' services and the exchange was taken. */
bool rpc_handle(const struct rpc_method *methods, size_t n, void *ctx, struct http_exchange *ex);

/* UNARY and CLIENT_STREAM: the answer. The call is dead afterwards. */
void rpc_reply(struct rpc_call *call, const ProtobufCMessage *response);

/* SERVER_STREAM: sends one message. While rpc_writable() is positive, one more message of any
 * size the caller keeps bounded may be sent. */
void rpc_send(struct rpc_call *call, const ProtobufCMessage *message);
size_t rpc_writable(const struct rpc_call *call);
void rpc_finish(struct rpc_call *call); /* a good end; the call is dead afterwards */

/* Any kind: ends with an error. The call is dead afterwards. */
void rpc_fail(struct rpc_call *call, enum rpc_code code, const char *fmt, ...) printf_like(3, 4);

/* Tells `failed` of every call that ends with an error, the library's own included; one for the
 * process, NULL for none. `code` is Connect's word for it. */
void rpc_observe(void (*failed)(const char *path, const char *code, const char *message));

/* Ends every stream of the process with an error, and tells its watch that the client is gone. */
void rpc_fail_streams(enum rpc_code code, const char *message);

/* CLIENT_STREAM: while held no further message is handed to `handle` and the client is not read, so
 * that a handler whose sink is full slows its client. May be called inside `handle`. */
void rpc_hold(struct rpc_call *call, bool held);

/* For calls that outlive their handler. gone: the client left, or has sent what is no message and
 * was told so; the call is dead when it returns. */
struct rpc_watch {
    void (*credit)(void *ctx); /* rpc_writable() has become positive again; may be NULL */
    void (*gone)(void *ctx);
};
void rpc_watch(struct rpc_call *call, const struct rpc_watch *watch, void *ctx);
void *rpc_watcher(const struct rpc_call *call); /* that ctx; NULL before */

const struct http_request *rpc_request(const struct rpc_call *call);

/* Connect-Timeout-Ms, or 0 when the client set none. */
int64_t rpc_timeout_ms(const struct rpc_call *call);

/* errno to the nearest code, for file and process operations. */
enum rpc_code rpc_code_of(int error);

#endif
