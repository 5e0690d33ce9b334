/* announce.h - what a daemon that serves tells its user on standard output. */
#ifndef DAEMON_ANNOUNCE_H
#define DAEMON_ANNOUNCE_H

#include "serve/daemon/config.h"

/* Where it serves, and the three lines that a newcomer needs. The key is not printed: `atoll env`
 * gives it to those who may have it. */
void announce(const struct config *config, const char *program, const char *url);

#endif
