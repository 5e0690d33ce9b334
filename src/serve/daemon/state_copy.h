/* state_copy.h - moves the state of this machine's daemon into PostgreSQL, for `atoll store copy`.
 */
#ifndef DAEMON_STATE_COPY_H
#define DAEMON_STATE_COPY_H

#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "serve/daemon/config.h"
#include "serve/daemon/paths.h"

/* Copies the file into the database of the setting `database`, as the serving user: root opens
 * nothing in that user's directory, so this process is not root any more afterwards. -EBUSY while a
 * daemon serves the data directory. Blocks. `each` is told how many rows a table has. */
must_check int state_copy(const struct config *config, const struct paths *paths,
                          void (*each)(void *ctx, const char *table, int64_t rows), void *ctx,
                          struct err *err);

#endif
