/* serve.h - the server: everything unprivileged, wired together on one loop. */
#ifndef DAEMON_SERVE_H
#define DAEMON_SERVE_H

#include <stdbool.h>

#include "serve/daemon/config.h"
#include "serve/daemon/listeners.h"
#include "serve/daemon/paths.h"

/* Serves until SIGTERM or SIGINT, then lets running exchanges end. Returns the exit code; a failure
 * has been logged. Sandboxes go on. `program` is how the user called us, for the text that is
 * printed when it is ready, if `announce` is set. Takes the sockets of *listeners. */
int serve_run(const struct config *config, const struct paths *paths, const char *program,
              struct listeners *listeners, bool announce);

/* "http://127.0.0.1:3000" for a listen address and the port that was really taken. */
void serve_url(const char *listen, int port, char *out, size_t size);

#endif
