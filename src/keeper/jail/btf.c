#include "keeper/jail/btf.h"

#include <errno.h>
#include <linux/btf.h>
#include <stdbool.h>
#include <string.h>

enum { KINDS = BTF_KIND_ENUM64 + 1 };

/* The bytes after a type: a fixed number, and a number for each of its members. */
static const struct {
    uint8_t once;
    uint8_t each;
} lengths[KINDS] = {
    [BTF_KIND_INT] = {.once = sizeof(uint32_t)},
    [BTF_KIND_ARRAY] = {.once = sizeof(struct btf_array)},
    [BTF_KIND_STRUCT] = {.each = sizeof(struct btf_member)},
    [BTF_KIND_UNION] = {.each = sizeof(struct btf_member)},
    [BTF_KIND_ENUM] = {.each = sizeof(struct btf_enum)},
    [BTF_KIND_FUNC_PROTO] = {.each = sizeof(struct btf_param)},
    [BTF_KIND_VAR] = {.once = sizeof(struct btf_var)},
    [BTF_KIND_DATASEC] = {.each = sizeof(struct btf_var_secinfo)},
    [BTF_KIND_DECL_TAG] = {.once = sizeof(struct btf_decl_tag)},
    [BTF_KIND_ENUM64] = {.each = sizeof(struct btf_enum64)},
};

struct part {
    const uint8_t *at;
    size_t n;
};

/* A section after the header; there are two. */
static bool part_find(const uint8_t *bytes, size_t n, const struct btf_header *header,
                      uint32_t offset, uint32_t length, struct part *out)
{
    size_t from = (size_t)header->hdr_len + offset;

    if (from > n || length > n - from) {
        return false;
    }
    *out = (struct part){bytes + from, length};
    return true;
}

static bool is_named(const struct part *names, uint32_t at, const char *name)
{
    size_t size = strlen(name) + 1;

    return at < names->n && names->n - at >= size && memcmp(names->at + at, name, size) == 0;
}

int64_t btf_function(const uint8_t *bytes, size_t n, const char *name)
{
    struct btf_header header;
    struct btf_type type;
    struct part types, names;

    if (n < sizeof(header)) {
        return -EPROTO;
    }
    memcpy(&header, bytes, sizeof(header));
    if (header.magic != BTF_MAGIC || header.version != BTF_VERSION ||
        !part_find(bytes, n, &header, header.type_off, header.type_len, &types) ||
        !part_find(bytes, n, &header, header.str_off, header.str_len, &names)) {
        return -EPROTO;
    }
    for (int64_t number = 1; types.n; number++) { /* 0 is void, which is not stored */
        if (types.n < sizeof(type)) {
            return -EPROTO;
        }
        memcpy(&type, types.at, sizeof(type));
        const uint32_t kind = BTF_INFO_KIND(type.info);
        if (kind == BTF_KIND_UNKN || kind >= KINDS) {
            return -EPROTO;
        }
        if (kind == BTF_KIND_FUNC && is_named(&names, type.name_off, name)) {
            return number;
        }
        size_t length = sizeof(type) + lengths[kind].once +
                        (size_t)BTF_INFO_VLEN(type.info) * lengths[kind].each;
        if (length > types.n) {
            return -EPROTO;
        }
        types = (struct part){types.at + length, types.n - length};
    }
    return -ENOENT;
}
