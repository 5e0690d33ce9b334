/* filter.h - the system calls of a jail.
 *
 * One filter names every call that exists in a jail; any other, and any of a newer kernel, is
 * ENOSYS. It refuses uses of those: namespaces, odd socket families, a few ioctls; each with the
 * errno that programs are prepared for. Nothing is ever killed. The kernel translates it for every
 * jail anew, and keeps each translation: so it is a search over ranges of numbers, and short.
 *
 * Owns:    the program, made once by filters_compile().
 * Threads: one at a time. filters_load() is safe between clone3() and exec().
 */
#ifndef JAIL_FILTER_H
#define JAIL_FILTER_H

#include "lib/base/compiler.h"
#include "lib/base/err.h"

struct filters;

must_check int filters_compile(struct filters **out, struct err *err);
void filters_free(struct filters *filters);

/* For this process and all that come of it. Needs CAP_SYS_ADMIN in its user namespace: no_new_privs
 * stays off, so that sudo works inside. */
must_check int filters_load(const struct filters *filters, struct err *err);

#endif
