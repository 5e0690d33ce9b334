/* fill_map.h - the memory of one process that is not there yet: where each part belongs, and where
 * the file of pages has it.
 *
 * Owns:    the ranges, sorted by address.
 * Threads: one.
 */
#ifndef CHECKPOINT_FILL_MAP_H
#define CHECKPOINT_FILL_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/compiler.h"

enum { FILL_RANGES_MAX = 4 * 1024 * 1024 }; /* of one process, and of all of a jail */

/* As `criu swrk` writes it (lazyfill_wire.h). */
struct fill_range {
    uint64_t start;
    uint64_t end;
    uint64_t offset;
};

struct fill_map {
    struct fill_range *at;
    size_t first; /* those before it are done */
    size_t end;
    size_t cap;
};

void fill_map_fini(struct fill_map *map);
/* Whether the ranges are of whole pages, sorted, and apart from each other. */
bool fill_map_check(const struct fill_map *map);
must_check int fill_map_copy(const struct fill_map *map, struct fill_map *out);
/* The range that has the address, or NULL. */
const struct fill_range *fill_map_find(const struct fill_map *map, uint64_t address);
/* The memory from start to end is there, or is to be empty. */
must_check int fill_map_cut(struct fill_map *map, uint64_t start, uint64_t end);
/* The program has moved so many bytes; the place was emptied before. */
must_check int fill_map_move(struct fill_map *map, uint64_t from, uint64_t to, uint64_t len);

static inline size_t fill_map_n(const struct fill_map *map)
{
    return map->end - map->first;
}

#endif
