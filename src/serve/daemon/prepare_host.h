/* prepare_host.h - preparation by root before the server starts: the user, the data directory, the
 * pool, the base template. Every step checks first: on a prepared machine all of it takes
 * milliseconds.
 *
 * Blocks for as long as it takes (the first template: a minute or two) and says on stderr what it
 * does. Only one process prepares a data directory at a time; others wait.
 */
#ifndef DAEMON_PREPARE_HOST_H
#define DAEMON_PREPARE_HOST_H

#include <sys/types.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "serve/daemon/config.h"
#include "serve/daemon/paths.h"

struct server_user { /* the user that the server runs as */
    uid_t uid;
    gid_t gid;
};

must_check int prepare_host(const struct config *config, const struct paths *paths,
                            struct server_user *who, struct err *err);

/* The user's ids; -ENOENT when there is no such user. */
must_check int server_user_find(const char *user, struct server_user *out, struct err *err);

#endif
