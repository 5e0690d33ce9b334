#include <errno.h>

#include "lib/rpc/internal.h"
#include "lib/rpc/rpc.h"

static const struct rpc_code_row code_rows[] = {
    [RPC_OK] = {"ok", 200},
    [RPC_CANCELED] = {"canceled", 499},
    [RPC_UNKNOWN] = {"unknown", 500},
    [RPC_INVALID_ARGUMENT] = {"invalid_argument", 400},
    [RPC_DEADLINE_EXCEEDED] = {"deadline_exceeded", 504},
    [RPC_NOT_FOUND] = {"not_found", 404},
    [RPC_ALREADY_EXISTS] = {"already_exists", 409},
    [RPC_PERMISSION_DENIED] = {"permission_denied", 403},
    [RPC_RESOURCE_EXHAUSTED] = {"resource_exhausted", 429},
    [RPC_FAILED_PRECONDITION] = {"failed_precondition", 400},
    [RPC_ABORTED] = {"aborted", 409},
    [RPC_OUT_OF_RANGE] = {"out_of_range", 400},
    [RPC_UNIMPLEMENTED] = {"unimplemented", 501},
    [RPC_INTERNAL] = {"internal", 500},
    [RPC_UNAVAILABLE] = {"unavailable", 503},
    [RPC_DATA_LOSS] = {"data_loss", 500},
    [RPC_UNAUTHENTICATED] = {"unauthenticated", 401},
};

const struct rpc_code_row *rpc_code_row(unsigned code)
{
    return code < countof(code_rows) ? &code_rows[code] : &code_rows[RPC_UNKNOWN];
}

enum rpc_code rpc_code_of(int error)
{
    switch (error < 0 ? -error : error) {
    case 0:
        return RPC_OK;
    case ENOENT:
    case ESRCH:
        return RPC_NOT_FOUND;
    case EEXIST:
        return RPC_ALREADY_EXISTS;
    case EACCES:
    case EPERM:
    case EROFS:
        return RPC_PERMISSION_DENIED;
    case EINVAL:
    case ENOTDIR:
    case EISDIR:
    case ENAMETOOLONG:
    case ELOOP:
    case E2BIG:
    case ENOEXEC:
        return RPC_INVALID_ARGUMENT;
    case EAGAIN:
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
    case EMSGSIZE:
        return RPC_RESOURCE_EXHAUSTED;
    case ENOTEMPTY:
    case EXDEV:
    case EBUSY:
        return RPC_FAILED_PRECONDITION;
    case ENOSYS:
    case EOPNOTSUPP:
        return RPC_UNIMPLEMENTED;
    case ETIMEDOUT:
        return RPC_DEADLINE_EXCEEDED;
    default:
        return RPC_INTERNAL;
    }
}

bool rpc_is_map(const ProtobufCFieldDescriptor *field)
{
    const ProtobufCMessageDescriptor *entry = field->descriptor;

    return field->label == PROTOBUF_C_LABEL_REPEATED && field->type == PROTOBUF_C_TYPE_MESSAGE &&
           entry->n_fields == 2 && str_ends(str_of(entry->short_name), STR("Entry")) &&
           strcmp(entry->fields[0].name, "key") == 0 &&
           strcmp(entry->fields[1].name, "value") == 0 &&
           entry->fields[0].type == PROTOBUF_C_TYPE_STRING;
}

bool rpc_is_timestamp(const ProtobufCMessageDescriptor *type)
{
    return strcmp(type->short_name, "Timestamp") == 0 && type->n_fields == 2 &&
           type->fields[0].type == PROTOBUF_C_TYPE_INT64 &&
           type->fields[1].type == PROTOBUF_C_TYPE_INT32;
}

static int proto_encode(const ProtobufCMessage *message, struct buf *out)
{
    size_t len = protobuf_c_message_get_packed_size(message);
    char *at;
    int r = buf_reserve(out, len, &at);

    if (r < 0) {
        return r;
    }
    buf_commit(out, protobuf_c_message_pack(message, (uint8_t *)at));
    return 0;
}

int rpc_encode(enum rpc_codec codec, const ProtobufCMessage *message, struct buf *out)
{
    return codec == RPC_CODEC_JSON ? json_encode(message, out) : proto_encode(message, out);
}

int rpc_decode(enum rpc_codec codec, const ProtobufCMessageDescriptor *type, struct str bytes,
               ProtobufCMessage **out, struct err *err)
{
    return codec == RPC_CODEC_JSON ? json_decode(type, bytes, out, err)
                                   : proto_decode(type, bytes, out, err);
}
