#include "keeper/checkpoint/fill_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, ROOM = 64 };

void fill_map_fini(struct fill_map *map)
{
    free(map->at);
    *map = (struct fill_map){0};
}

bool fill_map_check(const struct fill_map *map)
{
    uint64_t last = 0;

    for (size_t i = map->first; i < map->end; i++) {
        const struct fill_range *range = &map->at[i];
        if (range->start < last || range->end <= range->start || range->start % PAGE ||
            range->end % PAGE || range->offset % PAGE || range->offset > INT64_MAX / 2 ||
            range->end > INT64_MAX / 2) {
            return false;
        }
        last = range->end;
    }
    return true;
}

static int room_make(struct fill_map *map, size_t more)
{
    if (map->end + more <= map->cap) {
        return 0;
    }
    size_t cap = map->cap + map->cap / 2 + more + ROOM;
    if (fill_map_n(map) + more > FILL_RANGES_MAX) {
        return -E2BIG;
    }
    struct fill_range *at = reallocarray(map->at, cap, sizeof(*at));
    if (!at) {
        return -ENOMEM;
    }
    map->at = at;
    map->cap = cap;
    return 0;
}

int fill_map_copy(const struct fill_map *map, struct fill_map *out)
{
    struct fill_map copy = {0};
    int r = room_make(&copy, fill_map_n(map));

    if (r == 0 && fill_map_n(map)) {
        memcpy(copy.at, map->at + map->first, fill_map_n(map) * sizeof(*copy.at));
        copy.end = fill_map_n(map);
    }
    if (r == 0) {
        *out = copy;
    }
    return r;
}

/* The index of the first range that ends after the address. */
static size_t index_of(const struct fill_map *map, uint64_t address)
{
    size_t from = map->first, to = map->end;

    while (from < to) {
        size_t mid = from + (to - from) / 2;
        if (map->at[mid].end <= address) {
            from = mid + 1;
        } else {
            to = mid;
        }
    }
    return from;
}

const struct fill_range *fill_map_find(const struct fill_map *map, uint64_t address)
{
    size_t i = index_of(map, address);

    return i < map->end && map->at[i].start <= address ? &map->at[i] : NULL;
}

static void tail_cut(struct fill_range *range, uint64_t start)
{
    range->offset += start - range->start;
    range->start = start;
}

/* Makes a boundary at that address, if a range has it inside. */
static int split(struct fill_map *map, uint64_t address)
{
    size_t i = index_of(map, address);

    if (i == map->end || map->at[i].start >= address) {
        return 0;
    }
    int r = room_make(map, 1);
    if (r < 0) {
        return r;
    }
    memmove(map->at + i + 1, map->at + i, (map->end - i) * sizeof(*map->at));
    map->end++;
    map->at[i].end = address;
    tail_cut(&map->at[i + 1], address);
    return 0;
}

static void remove_between(struct fill_map *map, size_t from, size_t to)
{
    if (from == map->first) { /* the usual case: they are filled in order */
        map->first = to;
        return;
    }
    memmove(map->at + from, map->at + to, (map->end - to) * sizeof(*map->at));
    map->end -= to - from;
}

int fill_map_cut(struct fill_map *map, uint64_t start, uint64_t end)
{
    size_t i = index_of(map, start);

    if (i < map->end && map->at[i].start == start && map->at[i].end > end) {
        tail_cut(&map->at[i], end); /* no room is needed */
        return 0;
    }
    int r = split(map, start);
    if (r == 0) {
        r = split(map, end);
    }
    if (r == 0 && start < end) {
        remove_between(map, index_of(map, start),
                       index_of(map, end - 1) + (fill_map_find(map, end - 1) != NULL));
    }
    return r;
}

int fill_map_move(struct fill_map *map, uint64_t from, uint64_t to, uint64_t len)
{
    int r = split(map, from);

    if (r == 0) {
        r = split(map, from + len);
    }
    const size_t begin = index_of(map, from);
    size_t n = 0;
    while (r == 0 && begin + n < map->end && map->at[begin + n].end <= from + len) {
        n++;
    }
    struct fill_range *moved = r < 0 || !n ? NULL : calloc(n, sizeof(*moved));
    if (!moved) {
        return r < 0 ? r : n ? -ENOMEM : 0;
    }
    for (size_t i = 0; i < n; i++) {
        moved[i] = map->at[begin + i];
        moved[i].start += to - from;
        moved[i].end += to - from;
    }
    remove_between(map, begin, begin + n);
    const size_t at = index_of(map, to);
    r = room_make(map, n);
    if (r == 0) {
        memmove(map->at + at + n, map->at + at, (map->end - at) * sizeof(*map->at));
        memcpy(map->at + at, moved, n * sizeof(*moved));
        map->end += n;
    }
    free(moved);
    return r;
}
