/* json_encode.c - a message to JSON, straight from its descriptor into the buffer: no tree is
 * built, so 32 KiB of output cost one base64 pass. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "lib/base/encode.h"
#include "lib/rpc/internal.h"

enum {
    NANOS_PER_S = 1000 * 1000 * 1000,
};

static int put(struct buf *out, struct str text)
{
    return buf_append(out, text.at, text.len);
}

/* Length of the UTF-8 character at the front, 0 when there is none. */
static size_t utf8_len(struct str s)
{
    uint8_t c = (uint8_t)s.at[0];
    size_t n = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : (c & 0xf0) == 0xe0 ? 3 : 4;

    if (c >= 0x80 && (c < 0xc2 || c > 0xf4)) {
        return 0;
    }
    if (n > s.len) {
        return 0;
    }
    for (size_t i = 1; i < n; i++) {
        if (((uint8_t)s.at[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    uint8_t second = n > 2 ? (uint8_t)s.at[1] : 0x90;
    bool overlong = (c == 0xe0 && second < 0xa0) || (c == 0xf0 && second < 0x90);
    bool surrogate = c == 0xed && second > 0x9f;
    bool beyond = c == 0xf4 && second > 0x8f;
    return overlong || surrogate || beyond ? 0 : n;
}

static int escape(struct buf *out, unsigned char c)
{
    switch (c) {
    case '"':
        return put(out, STR("\\\""));
    case '\\':
        return put(out, STR("\\\\"));
    case '\n':
        return put(out, STR("\\n"));
    case '\r':
        return put(out, STR("\\r"));
    case '\t':
        return put(out, STR("\\t"));
    default:
        return buf_printf(out, "\\u%04x", c);
    }
}

int json_quote(struct buf *out, struct str text)
{
    int r = put(out, STR("\""));

    while (r == 0 && text.len > 0) {
        size_t plain = 0;
        size_t n = 0;
        while (plain < text.len && text.at[plain] != '"' && text.at[plain] != '\\' &&
               (uint8_t)text.at[plain] >= 0x20 && (n = utf8_len(str_skip(text, plain))) > 0) {
            plain += n;
        }
        r = put(out, (struct str){text.at, plain});
        text = str_skip(text, plain);
        if (r == 0 && text.len > 0) {
            bool broken = (uint8_t)text.at[0] >= 0x80;
            r = broken ? put(out, STR("\xef\xbf\xbd")) : escape(out, (uint8_t)text.at[0]);
            text = str_skip(text, 1);
        }
    }
    return r < 0 ? r : put(out, STR("\""));
}

static int put_name(struct buf *out, const char *name)
{
    char camel[128];
    size_t n = 0;

    for (; *name && n + 1 < sizeof(camel); name++) {
        bool raise = *name == '_' && name[1] >= 'a' && name[1] <= 'z';
        name += raise;
        camel[n] = *name;
        if (raise) {
            camel[n] = char_upper(*name);
        }
        n++;
    }
    camel[n] = '\0';
    return buf_printf(out, "\"%s\":", camel);
}

/* RFC 3339 knows the years 1 to 9999; a file may carry any time, and is shown with the nearest. */
static int put_timestamp(const ProtobufCMessage *message, struct buf *out)
{
    const int64_t first = -62135596800, last = 253402300799;
    const ProtobufCFieldDescriptor *fields = message->descriptor->fields;
    int64_t seconds = *(const int64_t *)rpc_member(message, fields[0].offset);
    int32_t nanos = *(const int32_t *)rpc_member(message, fields[1].offset);
    char fraction[16] = "";
    struct tm tm;

    time_t t = (time_t)(seconds < first ? first : seconds > last ? last : seconds);
    if (!gmtime_r(&t, &tm)) {
        return -EINVAL;
    }
    if (nanos > 0 && nanos < NANOS_PER_S) {
        (void)snprintf(fraction, sizeof(fraction), ".%09" PRId32, nanos);
    }
    return buf_printf(out, "\"%04d-%02d-%02dT%02d:%02d:%02d%sZ\"", tm.tm_year + 1900, tm.tm_mon + 1,
                      tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, fraction);
}

static int put_enum(const ProtobufCEnumDescriptor *type, int value, struct buf *out)
{
    const ProtobufCEnumValue *known = protobuf_c_enum_descriptor_get_value(type, value);

    return known ? buf_printf(out, "\"%s\"", known->name) : buf_printf(out, "%d", value);
}

static int put_bytes(const ProtobufCBinaryData *bytes, struct buf *out)
{
    int r = put(out, STR("\""));

    if (r == 0) {
        r = base64_encode(out, bytes->data, bytes->len, BASE64_STD);
    }
    return r < 0 ? r : put(out, STR("\""));
}

static int put_message(const ProtobufCMessage *message, struct buf *out);

static int put_value(const ProtobufCFieldDescriptor *field, const void *at, struct buf *out)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        return buf_printf(out, "%" PRId32, *(const int32_t *)at);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        return buf_printf(out, "%" PRIu32, *(const uint32_t *)at);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return buf_printf(out, "\"%" PRId64 "\"", *(const int64_t *)at);
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return buf_printf(out, "\"%" PRIu64 "\"", *(const uint64_t *)at);
    case PROTOBUF_C_TYPE_BOOL:
        return put(out, *(const protobuf_c_boolean *)at ? STR("true") : STR("false"));
    case PROTOBUF_C_TYPE_ENUM:
        return put_enum(field->descriptor, *(const int *)at, out);
    case PROTOBUF_C_TYPE_STRING:
        return json_quote(out, str_of(*(const char *const *)at));
    case PROTOBUF_C_TYPE_BYTES:
        return put_bytes(at, out);
    case PROTOBUF_C_TYPE_MESSAGE:
        return put_message(*(const ProtobufCMessage *const *)at, out);
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_DOUBLE:
        break;
    }
    return -ENOTSUP;
}

static size_t element_size(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return sizeof(uint64_t);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_ENUM:
    case PROTOBUF_C_TYPE_BOOL:
        break;
    }
    return sizeof(uint32_t);
}

static int put_map_entry(const ProtobufCMessage *entry, struct buf *out)
{
    const ProtobufCFieldDescriptor *fields = entry->descriptor->fields;
    const char *key = *(const char *const *)rpc_member(entry, fields[0].offset);
    int r = json_quote(out, str_of(key));

    if (r == 0) {
        r = put(out, STR(":"));
    }
    return r < 0 ? r : put_value(&fields[1], rpc_member(entry, fields[1].offset), out);
}

static int put_repeated(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                        struct buf *out)
{
    size_t n = *(const size_t *)rpc_member(message, field->quantifier_offset);
    const char *at = *(const char *const *)rpc_member(message, field->offset);
    bool map = rpc_is_map(field);
    int r = put(out, map ? STR("{") : STR("["));

    for (size_t i = 0; r == 0 && i < n; i++, at += element_size(field->type)) {
        r = i > 0 ? put(out, STR(",")) : 0;
        if (r == 0) {
            r = map ? put_map_entry(*(const ProtobufCMessage *const *)(const void *)at, out)
                    : put_value(field, at, out);
        }
    }
    return r < 0 ? r : put(out, map ? STR("}") : STR("]"));
}

/* proto3 fields without presence are there when they are not zero. */
static bool nonzero(const ProtobufCFieldDescriptor *field, const void *at)
{
    static const char zero[sizeof(ProtobufCBinaryData)];

    if (field->type == PROTOBUF_C_TYPE_BYTES) {
        return ((const ProtobufCBinaryData *)at)->len > 0;
    }
    if (field->type == PROTOBUF_C_TYPE_STRING) {
        const char *text = *(const char *const *)at;
        return text && *text;
    }
    return memcmp(at, zero, element_size(field->type)) != 0;
}

static bool present(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    const void *quantifier = rpc_member(message, field->quantifier_offset);
    const void *at = rpc_member(message, field->offset);

    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
        return *(const uint32_t *)quantifier == field->id;
    }
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        return *(const size_t *)quantifier > 0;
    }
    if (field->label == PROTOBUF_C_LABEL_NONE) {
        return nonzero(field, at);
    }
    if (field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_MESSAGE) {
        return *(const void *const *)at != NULL;
    }
    return field->label == PROTOBUF_C_LABEL_REQUIRED || *(const protobuf_c_boolean *)quantifier;
}

static int put_message(const ProtobufCMessage *message, struct buf *out)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;
    bool first = true;

    if (rpc_is_timestamp(type)) {
        return put_timestamp(message, out);
    }
    int r = put(out, STR("{"));
    for (unsigned i = 0; r == 0 && i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &type->fields[i];
        if (!present(message, field)) {
            continue;
        }
        r = first ? 0 : put(out, STR(","));
        first = false;
        if (r == 0) {
            r = put_name(out, field->name);
        }
        if (r == 0) {
            r = field->label == PROTOBUF_C_LABEL_REPEATED
                    ? put_repeated(message, field, out)
                    : put_value(field, rpc_member(message, field->offset), out);
        }
    }
    return r < 0 ? r : put(out, STR("}"));
}

int json_encode(const ProtobufCMessage *message, struct buf *out)
{
    return put_message(message, out);
}
