/* table.h - uthash's hash tables, with memory that cannot run out: it aborts, as in alloc.h.
 *
 * The memory comes from a function that is not inline: gcc's analyzer cannot follow objects into a
 * table, and would report them as leaked.
 */
#ifndef BASE_TABLE_H
#define BASE_TABLE_H

#include <stddef.h>

void *table_alloc(size_t bytes);

#define uthash_malloc(bytes) table_alloc(bytes)
#include <uthash.h>

#endif
