/* arena.h - memory for one answer: given out piece by piece, freed at once, with a maximum.
 *
 * A listing of 100,000 entries is 700,000 small pieces; here they cost their bytes and one free.
 */
#ifndef AGENT_ARENA_H
#define AGENT_ARENA_H

#include <stddef.h>

#include "lib/base/compiler.h"
#include "lib/base/str.h"

struct arena_block;

struct arena {
    struct arena_block *blocks; /* newest first */
    size_t used_bytes;
    size_t max_bytes;
};

#define ARENA(max) ((struct arena){.max_bytes = (max)})
void arena_fini(struct arena *arena);

/* Zeroed and aligned for anything; NULL when the arena's maximum is passed. */
must_check void *arena_alloc(struct arena *arena, size_t bytes);
/* With a NUL at the end. */
must_check char *arena_copy(struct arena *arena, struct str text);

#define arena_new(arena, type) ((type *)arena_alloc((arena), sizeof(type)))
#define scoped_arena scoped(arena_fini) struct arena

#endif
