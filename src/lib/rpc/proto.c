/* proto.c - binary protobuf from a client, and to it without a copy of what is long.
 *
 * protobuf-c unpacks what is well formed, but it neither bounds the number of values nor sees a NUL
 * inside a string, which would cut a path short behind the caller's back. So the bytes are walked
 * once before: every tag is read, submessages are entered, strings are looked at.
 */
#include <errno.h>

#include "lib/rpc/frame.h"
#include "lib/rpc/internal.h"

enum {
    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_BYTES = 2,
    WIRE_FIXED32 = 5,
    VARINT_BYTES_MAX = 10,
};

struct walk {
    size_t values;
    struct err *err;
};

static int varint_take(struct str *s, uint64_t *out)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < VARINT_BYTES_MAX && i < s->len; i++) {
        uint8_t byte = (uint8_t)s->at[i];
        v |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (!(byte & 0x80)) {
            *s = str_skip(*s, i + 1);
            *out = v;
            return 0;
        }
    }
    return -EINVAL;
}

/* Takes one value off the front; *value is its content when it has a length. */
static int value_take(struct str *s, unsigned wire, struct str *value)
{
    uint64_t len;

    *value = (struct str){s->at, 0};
    switch (wire) {
    case WIRE_VARINT:
        return varint_take(s, &len);
    case WIRE_FIXED64:
        len = 8;
        break;
    case WIRE_FIXED32:
        len = 4;
        break;
    case WIRE_BYTES:
        if (varint_take(s, &len) < 0) {
            return -EINVAL;
        }
        break;
    default:
        return -EINVAL;
    }
    if (len > s->len) {
        return -EINVAL;
    }
    *value = (struct str){s->at, (size_t)len};
    *s = str_skip(*s, (size_t)len);
    return 0;
}

static const ProtobufCFieldDescriptor *field_of(const ProtobufCMessageDescriptor *type, uint64_t id)
{
    for (unsigned i = 0; i < type->n_fields; i++) {
        if (type->fields[i].id == id) {
            return &type->fields[i];
        }
    }
    return NULL;
}

static int message_walk(struct walk *walk, const ProtobufCMessageDescriptor *type, struct str bytes,
                        unsigned depth)
{
    if (depth > RPC_DEPTH_MAX) {
        return err_set(walk->err, EINVAL, "the message is nested too deeply");
    }
    while (bytes.len > 0) {
        uint64_t tag;
        struct str value;
        if (varint_take(&bytes, &tag) < 0 || value_take(&bytes, tag & 7, &value) < 0) {
            return err_set(walk->err, EINVAL, "the message is not protobuf of %s", type->name);
        }
        if (++walk->values > RPC_VALUES_MAX) {
            return err_set(walk->err, EINVAL, "the message has too many values");
        }
        const ProtobufCFieldDescriptor *field = field_of(type, tag >> 3);
        if (!field || (tag & 7) != WIRE_BYTES) {
            continue;
        }
        if (field->type == PROTOBUF_C_TYPE_STRING && str_find(value, '\0') != value.len) {
            return err_set(walk->err, EINVAL, "%s: text may not hold a NUL", field->name);
        }
        if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
            int r = message_walk(walk, field->descriptor, value, depth + 1);
            if (r < 0) {
                return r;
            }
        }
    }
    return 0;
}

int proto_decode(const ProtobufCMessageDescriptor *type, struct str bytes, ProtobufCMessage **out,
                 struct err *err)
{
    struct walk walk = {.err = err};
    int r = message_walk(&walk, type, bytes, 0);

    if (r < 0) {
        return r;
    }
    ProtobufCMessage *message =
        protobuf_c_message_unpack(type, NULL, bytes.len, (const uint8_t *)bytes.at);
    if (!message) {
        return err_set(err, EINVAL, "the message is not protobuf of %s", type->name);
    }
    *out = message;
    return 0;
}

/* ---- parts ---- */

enum {
    LONG_BYTES = 1024, /* from here on a value is not copied */
};

static void parts_append(ProtobufCBuffer *base, size_t len, const uint8_t *data)
{
    struct proto_parts *parts = container_of(base, struct proto_parts, base);
    struct str *last = parts->n > 0 ? &parts->list[parts->n - 1] : NULL;
    char *at = parts->small + parts->small_n;
    bool is_long = len >= LONG_BYTES;
    bool joins = !is_long && last && last->at + last->len == at;

    if ((!joins && parts->n == HTTP_PARTS_MAX) ||
        (!is_long && len > sizeof(parts->small) - parts->small_n)) {
        parts->fits = false;
    }
    if (!parts->fits || len == 0) {
        return;
    }
    if (is_long) {
        parts->has_long = true;
        parts->list[parts->n++] = (struct str){(const char *)data, len};
        return;
    }
    memcpy(at, data, len);
    parts->small_n += len;
    if (joins) {
        last->len += len;
    } else {
        parts->list[parts->n++] = (struct str){at, len};
    }
}

bool proto_parts(const ProtobufCMessage *message, struct proto_parts *out)
{
    size_t len = protobuf_c_message_get_packed_size(message);
    char head[FRAME_HEAD_BYTES];

    if (len < LONG_BYTES) {
        return false;
    }
    out->base = (ProtobufCBuffer){.append = parts_append};
    out->n = out->small_n = 0;
    out->fits = true;
    out->has_long = false;
    frame_head(head, 0, len);
    parts_append(&out->base, sizeof(head), (const uint8_t *)head);
    (void)protobuf_c_message_pack_to_buffer(message, &out->base);
    return out->fits && out->has_long;
}
