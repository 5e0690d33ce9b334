/* clean.h - the daemon's programs start with a clean environment.
 *
 * The shell that starts the daemon may hold keys of other services. They would lie in the
 * memory of the server, which reads hostile bytes, and in /proc/<pid>/environ of every child. So
 * serve, keeper and prepare begin anew with the variables that they know, and nothing else.
 *
 * Owns:     nothing.
 * Blocks:   never.
 * Threads:  one, before any other is started.
 */
#ifndef DAEMON_CLEAN_H
#define DAEMON_CLEAN_H

#include "lib/base/compiler.h"
#include "lib/base/err.h"

/* Executes this program again with the same words when the environment has a variable that is not
 * known: memory that was freed or overwritten could be missed, a new image cannot. Returns 0 when
 * there is nothing to remove. */
must_check int clean_start(char **argv, struct err *err);

#endif
