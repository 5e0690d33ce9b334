/* internal.h - the codecs behind rpc.h: a protobuf-c message to bytes and back.
 *
 * Everything a decoder makes is freed by protobuf_c_message_free_unpacked(m, NULL). A decoder
 * bounds its own memory by the number of values in the text, not by its length alone: two bytes of
 * JSON or protobuf can otherwise ask for fifty bytes of heap.
 */
#ifndef RPC_INTERNAL_H
#define RPC_INTERNAL_H

#include <protobuf-c/protobuf-c.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/http/http.h"

enum {
    RPC_VALUES_MAX = 256 * 1024, /* fields, elements and map entries of one message, all levels */
    RPC_DEPTH_MAX = 32,
};

enum rpc_codec { RPC_CODEC_JSON, RPC_CODEC_PROTO };

/* -ENOBUFS when the message does not fit *out. */
must_check int rpc_encode(enum rpc_codec codec, const ProtobufCMessage *message, struct buf *out);

/* -EINVAL with a sentence for bytes that are not such a message; *out is then untouched. */
must_check int rpc_decode(enum rpc_codec codec, const ProtobufCMessageDescriptor *type,
                          struct str bytes, ProtobufCMessage **out, struct err *err);

/* The two codecs. Neither knows floating point: no message of ours has any. */
must_check int json_encode(const ProtobufCMessage *message, struct buf *out);
must_check int json_decode(const ProtobufCMessageDescriptor *type, struct str text,
                           ProtobufCMessage **out, struct err *err);
must_check int proto_decode(const ProtobufCMessageDescriptor *type, struct str bytes,
                            ProtobufCMessage **out, struct err *err);

/* A message in binary form, in its envelope, without a copy of its long values: these stay where
 * they are, and everything else is in `small`. */
struct proto_parts {
    ProtobufCBuffer base;
    struct str list[HTTP_PARTS_MAX];
    size_t n;
    size_t small_n;
    bool fits, has_long;
    char small[128];
};
/* False when it has no long value, or too many values for this form. */
must_check bool proto_parts(const ProtobufCMessage *message, struct proto_parts *out);

/* A JSON string literal; bytes that are not UTF-8 become U+FFFD. */
must_check int json_quote(struct buf *out, struct str text);

/* Shapes with a JSON form of their own. */
bool rpc_is_map(const ProtobufCFieldDescriptor *field);
bool rpc_is_timestamp(const ProtobufCMessageDescriptor *type);

/* A member of a message in memory. */
static inline const void *rpc_member(const ProtobufCMessage *message, unsigned offset)
{
    return (const char *)message + offset;
}

static inline void *rpc_member_mut(ProtobufCMessage *message, unsigned offset)
{
    return (char *)message + offset;
}

/* Connect's word for a code, and the HTTP status of a unary call that ends with it. */
struct rpc_code_row {
    const char *name;
    int status;
};
const struct rpc_code_row *rpc_code_row(unsigned code);

#endif
