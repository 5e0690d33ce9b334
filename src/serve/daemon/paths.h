/* paths.h - paths: below the data directory, and beside the program.
 *
 *   DATA/state/      0700, the serving user's: atoll.db, default.key, secret.key, logs/, files/,
 *                    blobs/, tools.sock, api.sock
 *   DATA/run/        0755, root's: keeper.sock, the lock files, notices/, findings.json,
 * ca-bundle.pem; endpoint and domain are the user's DATA/pool...     root's alone: layers and
 * sandbox disks (keeper/disk/pool.h)
 *
 * Root never follows a name that the serving user could have put there.
 */
#ifndef DAEMON_PATHS_H
#define DAEMON_PATHS_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/str.h"
#include "serve/daemon/config.h"

enum { DATA_PATH_BYTES = 1024 }; /* longest path we make ourselves; checked once, here */

struct paths {
    char state[DATA_PATH_BYTES];
    char run[DATA_PATH_BYTES];
    char pool[DATA_PATH_BYTES];
    char database[DATA_PATH_BYTES];
    char logs[DATA_PATH_BYTES];  /* logs of agents */
    char files[DATA_PATH_BYTES]; /* uploads for builds */
    char default_key[DATA_PATH_BYTES];
    char admin_token[DATA_PATH_BYTES]; /* the operator's, of the daemon that serves */
    char ca[DATA_PATH_BYTES];         /* of the authority that signs the daemon's own certificate */
    char secret_key[DATA_PATH_BYTES]; /* the key that seals secrets: serve/secrets/key.h */
    char endpoint[DATA_PATH_BYTES];   /* the URL of the daemon that serves, while it does */
    char domain[DATA_PATH_BYTES];     /* the domain that it serves, likewise */
    char ca_bundle[DATA_PATH_BYTES];  /* authorities that its clients trust: client_trust.h */
    char notices[DATA_PATH_BYTES];    /* how far the built-in templates are (builtin.h) */
    char findings[DATA_PATH_BYTES]; /* what this machine lacks, as of the start (prepare_host.c) */
    char keeper_socket[DATA_PATH_BYTES]; /* fits a sockaddr_un, as the next two do */
    char tools_socket[DATA_PATH_BYTES];  /* of atoll-tools */
    char api_socket[DATA_PATH_BYTES];    /* the API, for atoll-tools */
    char serve_lock[DATA_PATH_BYTES];    /* held by the process that serves this data directory */
    char keeper_lock[DATA_PATH_BYTES];
    char prepare_lock[DATA_PATH_BYTES]; /* the pool is being mounted, or put away */
    char layers_lock[DATA_PATH_BYTES];  /* a layer is being unpacked, which takes minutes */
    char templates[DATA_PATH_BYTES];    /* their recipes; empty when there are none */
    char agent[DATA_PATH_BYTES];        /* likewise */
    char interpreter[DATA_PATH_BYTES];  /* likewise */
    char gateway[DATA_PATH_BYTES];      /* likewise */
    char keeper[DATA_PATH_BYTES];       /* likewise */
    char tools[DATA_PATH_BYTES];        /* likewise */
    char instance[16];                  /* names this data directory where paths cannot: cgroups */
};

must_check int paths_find(const struct config *config, struct paths *out, struct err *err);

/* Files that the server writes and root reads: root's commands open them through these alone. Such
 * a file may be a link, a FIFO or a device by now, belong to anybody and hold anything. Each of
 * these opens without following or waiting, takes a regular file with one name that belongs to root
 * or to the server's user (the owner of state/), and accepts only a value of the right form. */

/* Opens it for reading; -EMLINK, -EINVAL, -EPERM, -EFBIG with a sentence when it is not such a
 * file of at most `bytes_max`. */
must_check int server_file_open(const struct paths *paths, const char *path, off_t bytes_max,
                                struct err *err);

/* http://ADDRESS:PORT of the daemon that serves; "" when none does. */
must_check int server_file_read_url(const struct paths *paths, char *out, size_t size,
                                    struct err *err);

/* The domain that it serves, perhaps with a port; "" when there is none. */
must_check int server_file_read_domain(const struct paths *paths, char *out, size_t size,
                                       struct err *err);

/* The default key, e2b_ and hexadecimal digits. */
must_check int server_file_read_key(const struct paths *paths, char *out, size_t size,
                                    struct err *err);

/* The operator's token, atoll_admin_ and hexadecimal digits. */
must_check int server_file_read_admin(const struct paths *paths, char *out, size_t size,
                                      struct err *err);

/* The certificate of the daemon's own authority: one PEM block and nothing else. */
must_check int server_file_read_ca(const struct paths *paths, char *out, size_t size,
                                   struct err *err);

/* Whether a text has the form of such a value. Pure. */
bool server_file_url_ok(struct str url);
bool server_file_key_ok(struct str key);
bool server_file_admin_ok(struct str token);
bool server_file_ca_ok(struct str pem);

#endif
