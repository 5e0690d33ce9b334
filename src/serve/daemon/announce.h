/* announce.h - what a daemon that serves tells its user on standard output. */
#ifndef DAEMON_ANNOUNCE_H
#define DAEMON_ANNOUNCE_H

#include "serve/daemon/config.h"

void announce(const struct config *config, const char *program, const char *url);

#endif
