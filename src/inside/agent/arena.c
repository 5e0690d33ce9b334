#include "inside/agent/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>

enum {
    BLOCK_BYTES = 64 * 1024,
    ALIGN = alignof(max_align_t),
};

struct arena_block {
    struct arena_block *next;
    size_t used;
    size_t cap;
    alignas(max_align_t) char data[];
};

void arena_fini(struct arena *arena)
{
    while (arena->blocks) {
        struct arena_block *next = arena->blocks->next;
        free(arena->blocks);
        arena->blocks = next;
    }
    arena->used_bytes = 0;
}

static struct arena_block *block_new(struct arena *arena, size_t bytes)
{
    size_t cap = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
    struct arena_block *block = calloc(1, sizeof(*block) + cap);

    if (block) {
        block->cap = cap;
        block->next = arena->blocks;
        arena->blocks = block;
    }
    return block;
}

void *arena_alloc(struct arena *arena, size_t bytes)
{
    struct arena_block *block = arena->blocks;

    if (bytes > arena->max_bytes || arena->used_bytes > arena->max_bytes - bytes) {
        return NULL;
    }
    bytes = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (!block || block->cap - block->used < bytes) {
        block = block_new(arena, bytes);
        if (!block) {
            return NULL;
        }
    }
    void *at = block->data + block->used;
    block->used += bytes;
    arena->used_bytes += bytes;
    return at;
}

char *arena_copy(struct arena *arena, struct str text)
{
    char *at = arena_alloc(arena, text.len + 1);

    if (at && text.len) {
        memcpy(at, text.at, text.len);
    }
    return at;
}
