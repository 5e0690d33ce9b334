/* json_decode.c - JSON to a message, by its descriptor. jansson reads the text (and refuses what is
 * not UTF-8, NUL in strings and repeated names); this file gives it types. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/encode.h"
#include "lib/rpc/internal.h"

/* Text is given to the message at an offset from its descriptor, where the analyzer loses sight of
 * it; protobuf_c_message_free_unpacked() frees it. */
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

enum {
    MS_PER_S = 1000,
    NANOS_PER_S = 1000 * 1000 * 1000,
};

static int wrong(struct err *err, const char *wanted)
{
    return err_set(err, EINVAL, "must be %s", wanted);
}

/* Counts what the text would make on the heap, before it is made. */
static int weigh(struct str text, struct err *err)
{
    size_t values = 0;
    unsigned depth = 0;
    bool quoted = false;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        if (quoted) {
            i += c == '\\';
            quoted = c != '"';
            continue;
        }
        quoted = c == '"';
        values += c == ',' || c == '[' || c == '{';
        depth += c == '[' || c == '{';
        depth -= depth > 0 && (c == ']' || c == '}');
        if (values > RPC_VALUES_MAX || depth > RPC_DEPTH_MAX) {
            return err_set(err, EINVAL, "the message has too many values or levels");
        }
    }
    return 0;
}

/* A whole number in any of its spellings: 5, 5.0, "5". */
static int number(const json_t *value, int64_t *out_signed, uint64_t *out_unsigned, bool *negative)
{
    char *end;

    if (json_is_integer(value)) {
        *out_signed = json_integer_value(value);
    } else if (json_is_real(value)) {
        double real = json_real_value(value);
        if (!(real >= -9e15 && real <= 9e15) || real != (double)(int64_t)real) {
            return -EINVAL; /* a fraction, or more than a double holds exactly */
        }
        *out_signed = (int64_t)real;
    } else {
        const char *text = json_string_value(value);
        bool digits = text && (text[0] == '-' ? text[1] : text[0]) >= '0' &&
                      (text[0] == '-' ? text[1] : text[0]) <= '9';
        if (!digits) {
            return -EINVAL;
        }
        *negative = text[0] == '-';
        errno = 0;
        *out_signed = strtoll(text, &end, 10);
        if (errno == ERANGE && !*negative) {
            errno = 0;
            *out_unsigned = strtoull(text, &end, 10);
            return errno || *end ? -EINVAL : 1; /* only an unsigned one holds it */
        }
        if (errno || *end) {
            return -EINVAL;
        }
    }
    *negative = *out_signed < 0;
    *out_unsigned = (uint64_t)*out_signed;
    return 0;
}

static int set_signed(const json_t *value, int64_t min, int64_t max, int64_t *out, struct err *err)
{
    uint64_t u;
    bool negative = false;

    if (number(value, out, &u, &negative) != 0 || *out < min || *out > max) {
        return wrong(err, "a whole number in range");
    }
    return 0;
}

static int set_unsigned(const json_t *value, uint64_t max, uint64_t *out, struct err *err)
{
    int64_t s;
    bool negative = false;

    if (number(value, &s, out, &negative) < 0 || negative || *out > max) {
        return wrong(err, "a whole number in range, not negative");
    }
    return 0;
}

static int set_enum(const ProtobufCEnumDescriptor *type, const json_t *value, int *out,
                    struct err *err)
{
    int64_t n = 0;

    if (!json_is_string(value)) {
        int r = set_signed(value, INT32_MIN, INT32_MAX, &n, err);
        if (r == 0) {
            *out = (int)n;
        }
        return r;
    }
    const ProtobufCEnumValue *known =
        protobuf_c_enum_descriptor_get_value_by_name(type, json_string_value(value));
    if (!known) {
        return err_set(err, EINVAL, "'%.64s' is no value of %s", json_string_value(value),
                       type->short_name);
    }
    *out = known->value;
    return 0;
}

static int set_bytes(const json_t *value, ProtobufCBinaryData *out, struct err *err)
{
    struct str text = {json_string_value(value), json_string_length(value)};
    scoped_buf(bytes, text.len + 4);

    if (!text.at || base64_decode(&bytes, text) < 0) {
        return wrong(err, "base64 text");
    }
    out->len = buf_len(&bytes);
    out->data = (uint8_t *)bytes.data; /* nothing was consumed: the content begins at data */
    bytes.data = NULL;
    return 0;
}

/* The digits behind the point; clock_parse() has checked them and kept milliseconds. */
static int32_t fraction_nanos(struct str text)
{
    int32_t scale = NANOS_PER_S / 10;
    int32_t nanos = 0;

    for (size_t i = str_find(text, '.') + 1; i < text.len && scale > 0; i++, scale /= 10) {
        if (text.at[i] < '0' || text.at[i] > '9') {
            break;
        }
        nanos += (text.at[i] - '0') * scale;
    }
    return nanos;
}

static int set_timestamp(const ProtobufCMessageDescriptor *type, const json_t *value,
                         ProtobufCMessage *out, struct err *err)
{
    const ProtobufCFieldDescriptor *fields = type->fields;
    struct str text = {json_string_value(value), json_string_length(value)};
    int64_t ms;

    if (!text.at || clock_parse(text, &ms) < 0) {
        return wrong(err, "a time such as 2026-01-02T03:04:05Z");
    }
    *(int64_t *)rpc_member_mut(out, fields[0].offset) = ms / MS_PER_S - (ms % MS_PER_S < 0);
    *(int32_t *)rpc_member_mut(out, fields[1].offset) = fraction_nanos(text);
    for (unsigned i = 0; i < type->n_fields && fields[i].label == PROTOBUF_C_LABEL_OPTIONAL; i++) {
        *(protobuf_c_boolean *)rpc_member_mut(out, fields[i].quantifier_offset) = 1;
    }
    return 0;
}

static int set_fields(const json_t *object, ProtobufCMessage *out, struct err *err);

static int set_message(const ProtobufCMessageDescriptor *type, const json_t *value,
                       ProtobufCMessage **out, struct err *err)
{
    ProtobufCMessage *message = calloc(1, type->sizeof_message);

    if (!message) {
        abort();
    }
    protobuf_c_message_init(type, message);
    int r = rpc_is_timestamp(type) ? set_timestamp(type, value, message, err)
                                   : set_fields(value, message, err);
    if (r < 0) {
        protobuf_c_message_free_unpacked(message, NULL);
        return r;
    }
    *out = message;
    return 0;
}

static int set_text(const json_t *value, char **out, struct err *err)
{
    if (!json_is_string(value)) {
        return wrong(err, "text");
    }
    *out = strdup(json_string_value(value));
    return *out ? 0 : err_set(err, ENOMEM, "out of memory");
}

static int set_integer(ProtobufCType type, const json_t *value, void *at, struct err *err)
{
    bool wide = type == PROTOBUF_C_TYPE_INT64 || type == PROTOBUF_C_TYPE_SINT64 ||
                type == PROTOBUF_C_TYPE_SFIXED64;
    int64_t n = 0;
    int r = set_signed(value, wide ? INT64_MIN : INT32_MIN, wide ? INT64_MAX : INT32_MAX, &n, err);

    if (r == 0 && wide) {
        *(int64_t *)at = n;
    } else if (r == 0) {
        *(int32_t *)at = (int32_t)n;
    }
    return r;
}

static int set_natural(ProtobufCType type, const json_t *value, void *at, struct err *err)
{
    bool wide = type == PROTOBUF_C_TYPE_UINT64 || type == PROTOBUF_C_TYPE_FIXED64;
    uint64_t n = 0;
    int r = set_unsigned(value, wide ? UINT64_MAX : UINT32_MAX, &n, err);

    if (r == 0 && wide) {
        *(uint64_t *)at = n;
    } else if (r == 0) {
        *(uint32_t *)at = (uint32_t)n;
    }
    return r;
}

static int set_value(const ProtobufCFieldDescriptor *field, const json_t *value, void *at,
                     struct err *err)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return set_integer(field->type, value, at, err);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return set_natural(field->type, value, at, err);
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)at = json_is_true(value);
        return json_is_boolean(value) ? 0 : wrong(err, "true or false");
    case PROTOBUF_C_TYPE_ENUM:
        return set_enum(field->descriptor, value, at, err);
    case PROTOBUF_C_TYPE_STRING:
        return set_text(value, at, err);
    case PROTOBUF_C_TYPE_BYTES:
        return set_bytes(value, at, err);
    case PROTOBUF_C_TYPE_MESSAGE:
        return set_message(field->descriptor, value, at, err);
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_DOUBLE:
        break;
    }
    return err_set(err, ENOTSUP, "is of a type this service does not speak");
}

static int map_entry(const ProtobufCMessageDescriptor *type, const char *key, const json_t *value,
                     ProtobufCMessage **out, struct err *err)
{
    ProtobufCMessage *entry = calloc(1, type->sizeof_message);

    if (!entry) {
        abort();
    }
    protobuf_c_message_init(type, entry);
    int r = set_value(&type->fields[1], value, rpc_member_mut(entry, type->fields[1].offset), err);
    if (r < 0) {
        protobuf_c_message_free_unpacked(entry, NULL);
        return err_wrap(err, "%.64s", key);
    }
    *(char **)rpc_member_mut(entry, type->fields[0].offset) = xstrdup(key);
    *out = entry;
    return 0;
}

static int set_map(const ProtobufCFieldDescriptor *field, json_t *object, ProtobufCMessage *out,
                   struct err *err)
{
    size_t *n = rpc_member_mut(out, field->quantifier_offset);
    const char *key;
    json_t *value;

    if (!json_is_object(object)) {
        return wrong(err, "an object");
    }
    ProtobufCMessage **entries = calloc(json_object_size(object) + 1, sizeof(*entries));
    if (!entries) {
        abort();
    }
    *(ProtobufCMessage ***)rpc_member_mut(out, field->offset) = entries;
    json_object_foreach (object, key, value) {
        int r = map_entry(field->descriptor, key, value, &entries[*n], err);
        if (r < 0) {
            return r;
        }
        (*n)++;
    }
    return 0;
}

static size_t element_size(ProtobufCType type)
{
    return type == PROTOBUF_C_TYPE_BYTES ? sizeof(ProtobufCBinaryData) : sizeof(uint64_t);
}

/* Elements are text, bytes or messages: no message of ours repeats numbers, whose packed form
 * would need another stride. */
static int set_list(const ProtobufCFieldDescriptor *field, const json_t *list,
                    ProtobufCMessage *out, struct err *err)
{
    size_t *n = rpc_member_mut(out, field->quantifier_offset);
    bool pointers = field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_BYTES ||
                    field->type == PROTOBUF_C_TYPE_MESSAGE;

    if (!json_is_array(list) || !pointers) {
        return wrong(err, "a list");
    }
    char *elements = calloc(json_array_size(list) + 1, element_size(field->type));
    if (!elements) {
        abort();
    }
    *(char **)rpc_member_mut(out, field->offset) = elements;
    while (*n < json_array_size(list)) {
        int r = set_value(field, json_array_get(list, *n),
                          elements + *n * element_size(field->type), err);
        if (r < 0) {
            return r;
        }
        (*n)++;
    }
    return 0;
}

/* Notes that the field is there; -EEXIST when it, or another of its oneof, was there before. */
static int claim(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    void *quantifier = rpc_member_mut(message, field->quantifier_offset);
    void *at = rpc_member_mut(message, field->offset);

    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
        return *(uint32_t *)quantifier != 0 ? -EEXIST : 0;
    }
    if (field->label == PROTOBUF_C_LABEL_REPEATED || field->type == PROTOBUF_C_TYPE_MESSAGE) {
        return *(void **)at ? -EEXIST : 0;
    }
    if (field->type == PROTOBUF_C_TYPE_STRING) {
        return *(const void **)at && *(const void **)at != field->default_value ? -EEXIST : 0;
    }
    return field->label == PROTOBUF_C_LABEL_OPTIONAL && *(protobuf_c_boolean *)quantifier ? -EEXIST
                                                                                          : 0;
}

static void mark(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    void *quantifier = rpc_member_mut(message, field->quantifier_offset);

    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
        *(uint32_t *)quantifier = field->id;
    } else if (field->label == PROTOBUF_C_LABEL_OPTIONAL && field->type != PROTOBUF_C_TYPE_STRING &&
               field->type != PROTOBUF_C_TYPE_MESSAGE) {
        *(protobuf_c_boolean *)quantifier = 1;
    }
}

static int set_field(const ProtobufCFieldDescriptor *field, json_t *value, ProtobufCMessage *out,
                     struct err *err)
{
    if (claim(out, field) < 0) {
        return err_set(err, EINVAL, "is given twice, or beside another of which only one may be");
    }
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        return rpc_is_map(field) ? set_map(field, value, out, err)
                                 : set_list(field, value, out, err);
    }
    int r = set_value(field, value, rpc_member_mut(out, field->offset), err);
    if (r == 0) {
        mark(out, field);
    }
    return r;
}

/* exit_code is "exitCode" in JSON; the name as written in the schema is taken as well. */
static bool name_is(const char *field, const char *given)
{
    if (strcmp(field, given) == 0) {
        return true;
    }
    for (; *field && *given; field++, given++) {
        bool raise = *field == '_' && field[1] >= 'a' && field[1] <= 'z';
        field += raise;
        if ((raise ? char_upper(*field) : *field) != *given) {
            return false;
        }
    }
    return *field == *given;
}

static const ProtobufCFieldDescriptor *field_named(const ProtobufCMessageDescriptor *type,
                                                   const char *name)
{
    for (unsigned i = 0; i < type->n_fields; i++) {
        if (name_is(type->fields[i].name, name)) {
            return &type->fields[i];
        }
    }
    return NULL;
}

static int set_fields(const json_t *object, ProtobufCMessage *out, struct err *err)
{
    /* jansson iterates only what it may change; nothing is changed here. */
    json_t *members = (json_t *)(uintptr_t)object;
    const char *name;
    json_t *value;

    if (!json_is_object(object)) {
        return wrong(err, "an object");
    }
    json_object_foreach (members, name, value) {
        const ProtobufCFieldDescriptor *field = field_named(out->descriptor, name);
        if (!field || json_is_null(value)) {
            continue;
        }
        if (set_field(field, value, out, err) < 0) {
            return err_wrap(err, "%s", field->name);
        }
    }
    return 0;
}

int json_decode(const ProtobufCMessageDescriptor *type, struct str text, ProtobufCMessage **out,
                struct err *err)
{
    json_error_t why;
    int r = weigh(text, err);

    if (r < 0) {
        return r;
    }
    json_auto_t *json = json_loadb(text.at ? text.at : "", text.len, JSON_REJECT_DUPLICATES, &why);
    if (!json && json_error_code(&why) == json_error_null_character) {
        return err_set(err, EINVAL, "a string of the message holds a NUL character");
    }
    if (!json) {
        return err_set(err, EINVAL, "the message is not JSON: %s", why.text);
    }
    r = set_message(type, json, out, err);
    return r < 0 ? err_wrap(err, "%s", type->short_name) : 0;
}
