/* supervisor.h - `atoll serve` as root: prepares, then runs a keeper and an unprivileged server.
 *
 * Parses nothing that comes from outside. A child that crashes is started again, with growing
 * pauses; a child that ends by itself at its first start has logged why, and the supervisor ends
 * with the same code. When the supervisor dies, however it dies, the kernel ends both children.
 * Sandboxes are not children of these processes: they go on, and the next start adopts them.
 */
#ifndef DAEMON_SUPERVISOR_H
#define DAEMON_SUPERVISOR_H

#include "serve/daemon/config.h"
#include "serve/daemon/paths.h"

/* Returns the exit code; a failure has been logged. Fills in settings that are left to the daemon
 * (tls_address.h). */
int supervisor_run(struct config *config, const struct paths *paths, const char *program);

/* The parts that systemd's units run apart: `atoll keeper`, and `atoll serve` without root. */
int supervisor_keeper(const struct config *config, const struct paths *paths);
int supervisor_unprivileged(struct config *config, const struct paths *paths, const char *program);

#endif
