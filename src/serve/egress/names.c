#include "serve/egress/names.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/table.h"
#include "serve/egress/policy.h"

enum {
    BLOCK_BITS = 15,
    BLOCK_SIZE = 1 << (32 - BLOCK_BITS),
    V4_AT = 12,
};

static const uint8_t block_first[4] = {198, 18, 0, 0};

struct name {
    char text[POLICY_NAME_BYTES];
    uint32_t index; /* its address is the index-th of the block */
    UT_hash_handle hh, by_index;
};

struct names {
    struct name *by_text;
    struct name *by_index;
    /* Addresses are reused late: one that is still in a cache must not soon belong to another name.
     */
    uint32_t next;
};

struct names *names_new(void)
{
    return xnew(struct names);
}

static void name_drop(struct names *names, struct name *name)
{
    HASH_DELETE(hh, names->by_text, name);
    HASH_DELETE(by_index, names->by_index, name);
    free(name);
}

void names_free(struct names *names)
{
    while (names && names->by_text) {
        name_drop(names, names->by_text);
    }
    free(names);
}

static struct address address_of(uint32_t index)
{
    struct address address = {.bytes = {[10] = 0xff, [11] = 0xff}};

    memcpy(address.bytes + V4_AT, block_first, sizeof(block_first));
    address.bytes[V4_AT + 1] = (uint8_t)(address.bytes[V4_AT + 1] | index >> 16);
    address.bytes[V4_AT + 2] = (uint8_t)(index >> 8);
    address.bytes[V4_AT + 3] = (uint8_t)index;
    return address;
}

bool names_has_block(const struct address *address)
{
    const struct block block = {address_of(0), 96 + BLOCK_BITS};

    return block_has(&block, address);
}

static struct name *name_add(struct names *names, const char *text)
{
    struct name *name = NULL;

    if (HASH_COUNT(names->by_text) == NAMES_MAX) {
        name_drop(names, names->by_text); /* the table keeps the order of their coming */
    }
    do {
        names->next = (names->next + 1) % BLOCK_SIZE;
        HASH_FIND(by_index, names->by_index, &names->next, sizeof(names->next), name);
    } while (name || names->next == 0);
    name = xnew(struct name);
    memcpy(name->text, text, strlen(text));
    name->index = names->next;
    HASH_ADD_STR(names->by_text, text, name);
    HASH_ADD(by_index, names->by_index, index, sizeof(name->index), name);
    return name;
}

struct address names_address(struct names *names, struct str text)
{
    char lower[POLICY_NAME_BYTES] = "";
    struct name *name = NULL;

    (void)str_copy(lower, sizeof(lower), text);
    for (char *c = lower; *c; c++) {
        *c = (char)tolower((unsigned char)*c);
    }
    HASH_FIND_STR(names->by_text, lower, name);
    return address_of((name ? name : name_add(names, lower))->index);
}

const char *names_find(const struct names *names, const struct address *address)
{
    const uint8_t *v4 = address->bytes + V4_AT;
    uint32_t index = (uint32_t)(v4[1] & 1) << 16 | (uint32_t)v4[2] << 8 | v4[3];
    struct name *name = NULL;

    if (!names || !names_has_block(address)) {
        return NULL;
    }
    HASH_FIND(by_index, names->by_index, &index, sizeof(index), name);
    return name ? name->text : NULL;
}

struct address names_shells(void)
{
    return (struct address){
        .bytes = {[10] = 0xff, [11] = 0xff, [V4_AT] = 169, [V4_AT + 1] = 254, [15] = 10}};
}

bool names_is_shells(const struct address *address)
{
    const struct address shells = names_shells();

    return address_eq(address, &shells);
}

struct address names_self(void)
{
    return (struct address){.bytes = {[10] = 0xff, [11] = 0xff, [V4_AT] = 192, [14] = 2, [15] = 1}};
}

bool names_is_self(const struct address *address)
{
    const struct address self = names_self();

    return address_eq(address, &self);
}
