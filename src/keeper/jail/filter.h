/* filter.h - the system call filter of a jail.
 *
 * The filter lists every call that exists in a jail; all others, and those of newer kernels, give
 * ENOSYS. It refuses some uses of the listed calls (namespaces, rare socket families, a few
 * ioctls), each with an errno that programs expect. It never kills. The kernel compiles it again
 * for every jail, and keeps each result: so it is a binary search over ranges of numbers, and
 * short.
 *
 * Owns:    the program, made once by filters_compile().
 * Blocks:  never.
 * Threads: one at a time. filters_load() is safe between clone3() and exec().
 */
#ifndef JAIL_FILTER_H
#define JAIL_FILTER_H

#include "lib/base/compiler.h"
#include "lib/base/err.h"

struct filters;

must_check int filters_compile(struct filters **out, struct err *err);
void filters_free(struct filters *filters);

/* Applies it to this process and its descendants. Needs CAP_SYS_ADMIN in its user namespace:
 * no_new_privs stays off, so that sudo works inside. */
must_check int filters_load(const struct filters *filters, struct err *err);

#endif
