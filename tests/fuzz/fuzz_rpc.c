/* fuzz_rpc.c - a message from a client, in either codec, for each request the agent takes.
 *
 * The first byte chooses codec and message. What decodes must encode again, and what was encoded
 * must decode to the same bytes: a decoder that accepts what its encoder cannot say is a bug.
 */
#include <assert.h>
#include <stdint.h>

#include "filesystem.pb-c.h"
#include "lib/rpc/internal.h"
#include "process.pb-c.h"

enum { TEXT_MAX = 8 * 1024 * 1024 };

static const ProtobufCMessageDescriptor *const types[] = {
    &process__start_request__descriptor,        &process__connect_request__descriptor,
    &process__send_input_request__descriptor,   &process__stream_input_request__descriptor,
    &process__send_signal_request__descriptor,  &process__update_request__descriptor,
    &process__process_event__descriptor,        &filesystem__list_dir_request__descriptor,
    &filesystem__watch_dir_request__descriptor, &filesystem__entry_info__descriptor,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Encodes, decodes that, encodes again: both texts must be the same. */
static void check_round_trip(enum rpc_codec codec, const ProtobufCMessage *message)
{
    scoped_buf(first, TEXT_MAX);
    scoped_buf(second, TEXT_MAX);
    ProtobufCMessage *again;
    struct err err;

    if (rpc_encode(codec, message, &first) < 0) {
        return; /* larger than an answer may be */
    }
    if (rpc_decode(codec, message->descriptor, buf_str(&first), &again, &err) < 0) {
        return; /* bytes that are no text were replaced, and a name may now be there twice */
    }
    int r = rpc_encode(codec, again, &second);
    assert(r == 0 && str_eq(buf_str(&first), buf_str(&second)));
    protobuf_c_message_free_unpacked(again, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ProtobufCMessage *message;
    struct err err;

    if (size == 0) {
        return 0;
    }
    enum rpc_codec codec = data[0] & 1 ? RPC_CODEC_PROTO : RPC_CODEC_JSON;
    const ProtobufCMessageDescriptor *type = types[(data[0] >> 1) % countof(types)];
    struct str bytes = {(const char *)data + 1, size - 1};
    if (rpc_decode(codec, type, bytes, &message, &err) == 0) {
        check_round_trip(RPC_CODEC_JSON, message);
        protobuf_c_message_free_unpacked(message, NULL);
    }
    return 0;
}
