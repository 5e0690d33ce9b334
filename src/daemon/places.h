/* places.h - where things lie: below the data directory, and beside the program.
 *
 *   DATA/state/      0700, the serving user's: atoll.db, default.key, secret.key, logs/, files/,
 *                    blobs/
 *   DATA/run/        0755, root's: keeper.sock, the lock files, notices/; endpoint is the user's
 *   DATA/pool...     root's alone: layers and sandbox disks (keeper/pool.h)
 *
 * Root never follows a name that the serving user could have put there.
 */
#ifndef DAEMON_PLACES_H
#define DAEMON_PLACES_H

#include <limits.h>

#include "base/compiler.h"
#include "base/err.h"
#include "daemon/config.h"

enum { PLACE_BYTES = 1024 }; /* longest path we make ourselves; checked once, here */

struct places {
    char state[PLACE_BYTES];
    char run[PLACE_BYTES];
    char pool[PLACE_BYTES];
    char database[PLACE_BYTES];
    char logs[PLACE_BYTES];  /* what agents logged */
    char files[PLACE_BYTES]; /* what was uploaded for builds */
    char default_key[PLACE_BYTES];
    char ca[PLACE_BYTES];            /* of the authority that signs the daemon's own certificate */
    char secret_key[PLACE_BYTES];    /* what secrets are sealed with: secret/key.h */
    char endpoint[PLACE_BYTES];      /* the URL of the daemon that serves, while it does */
    char notices[PLACE_BYTES];       /* how far the built-in templates are (builtin.h) */
    char keeper_socket[PLACE_BYTES]; /* fits a sockaddr_un */
    char serve_lock[PLACE_BYTES];    /* held by whoever serves this data directory */
    char keeper_lock[PLACE_BYTES];
    char prepare_lock[PLACE_BYTES]; /* the pool is being mounted, or put away */
    char layers_lock[PLACE_BYTES];  /* a layer is being unpacked, which takes minutes */
    char templates[PLACE_BYTES];    /* their recipes; empty when there are none */
    char agent[PLACE_BYTES];        /* likewise */
    char interpreter[PLACE_BYTES];  /* likewise */
    char gateway[PLACE_BYTES];      /* likewise */
    char keeper[PLACE_BYTES];       /* likewise */
    char instance[16];              /* names this data directory where paths cannot: cgroups */
};

must_check int places_find(const struct config *config, struct places *out, struct err *err);

/* The first line of a small file: a key, a URL, a layer's name. */
must_check int place_read(const char *path, char *out, size_t size, struct err *err);

#endif
