/* lock.h - lock files: at most one process serves, keeps or prepares a data directory.
 *
 * flock() on an open file: the kernel lets go when the last holder dies, however it dies, so a file
 * left behind means nothing. A child made by fork() holds its parent's lock as well.
 */
#ifndef DAEMON_LOCK_H
#define DAEMON_LOCK_H

#include <stdbool.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

/* The locked descriptor, or -EBUSY after wait_ms, -errno. Blocks for up to wait_ms: a predecessor
 * that was killed may take a moment to be gone. */
must_check int lock_take(const char *path, int wait_ms, struct err *err);

/* Whether somebody holds it. */
bool lock_is_held(const char *path);

#endif
