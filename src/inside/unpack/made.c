/* A set of paths, stored as hashes: an archive of a million names costs 16 MB. The key is random,
 * so no one can construct two names with the same hash. */
#include "inside/unpack/internal.h"
#include "lib/base/alloc.h"
#include "lib/base/id.h"

enum { MADE_START = 1024 };

void made_init(struct made *made)
{
    *made = (struct made){.cap = MADE_START};
    id_random(made->key, sizeof(made->key));
    made->slots = xcalloc(made->cap, sizeof(*made->slots));
}

void made_fini(struct made *made)
{
    free(made->slots);
    made->slots = NULL;
}

static uint64_t mix(uint64_t value)
{
    value ^= value >> 32;
    value *= 0xd6e8feb86659fd93;
    value ^= value >> 32;
    value *= 0xd6e8feb86659fd93;
    return value ^ (value >> 32);
}

/* Never 0. */
static uint64_t hash(const struct made *made, struct str path)
{
    uint64_t value = made->key[0] ^ path.len;

    for (size_t i = 0; i < path.len; i++) {
        value = mix(value ^ (unsigned char)path.at[i]) + made->key[1];
    }
    return mix(value) | 1;
}

static uint64_t *slot(const struct made *made, uint64_t value)
{
    size_t at = (value >> 1) & (made->cap - 1);

    while (made->slots[at] && made->slots[at] != value) {
        at = (at + 1) & (made->cap - 1);
    }
    return &made->slots[at];
}

static void grow(struct made *made)
{
    struct made bigger = *made;

    bigger.cap = made->cap * 2;
    bigger.slots = xcalloc(bigger.cap, sizeof(*bigger.slots));
    for (size_t i = 0; i < made->cap; i++) {
        if (made->slots[i]) {
            *slot(&bigger, made->slots[i]) = made->slots[i];
        }
    }
    made_fini(made);
    *made = bigger;
}

void made_add(struct made *made, struct str path)
{
    while (path.len > 0) {
        if (2 * (made->n + 1) > made->cap) {
            grow(made);
        }
        uint64_t value = hash(made, path), *at = slot(made, value);
        if (*at) {
            return; /* then the directories above it are in the set too */
        }
        *at = value;
        made->n++;
        while (path.len > 0 && path.at[--path.len] != '/') {
        }
    }
}

bool made_has(const struct made *made, struct str path)
{
    return *slot(made, hash(made, path)) != 0;
}
