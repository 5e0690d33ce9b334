/* template_preparer.h - the built-in templates beyond `base`: made in the background, by a process
 * of their own, while the server serves already.
 *
 * Needs a prepared data directory and root. Blocks for minutes. Reports its progress on stderr and
 * in a notice. Until the template is ready, the server answers creates with that notice.
 */
#ifndef DAEMON_TEMPLATE_PREPARER_H
#define DAEMON_TEMPLATE_PREPARER_H

#include "serve/daemon/config.h"
#include "serve/daemon/paths.h"

/* Writes a notice for each template that is not ready, so that a client is told to wait and not
 * that there is no such template. Takes milliseconds. To be called before the server starts. */
void template_preparer_announce(const struct config *config, const struct paths *paths);

/* Every template of config->with_templates, once; 0, or the error of the last that failed, which
 * has been logged. The notices of those that wait for others are announced before. */
int template_preparer_once(const struct config *config, const struct paths *paths);

/* Until all are ready: failures are retried with growing pauses. Returns the exit code. */
int template_preparer_run(const struct config *config, const struct paths *paths);

#endif
