/* egress_wiring.h - connects the egress with the rest of the daemon: values of placeholders, and
 * log lines of sandboxes.
 *
 * Owns:     the daemon's key, the secrets, the shells, the identity.
 * Needs:    the store, the sandboxes, the logs.
 * Blocks:   egress_wiring_open().
 * Threads:  the loop's.
 */
#ifndef DAEMON_EGRESS_WIRING_H
#define DAEMON_EGRESS_WIRING_H

#include "serve/daemon/config.h"
#include "serve/egress/egress.h"
#include "serve/sandbox/sandbox.h"
#include "serve/secrets/identity.h"
#include "serve/secrets/secret.h"
#include "serve/secrets/shell/shells.h"
#include "serve/telemetry/logs.h"

struct egress_wiring {
    struct secrets *secrets;
    struct shells *shells;
    struct identity *identity;
    struct sandboxes *sandboxes; /* set by serve.c once there are any */
    struct logs *logs;
};

/* Whether the settings of the egress can be read. */
must_check int egress_wiring_check(const struct config *config, struct err *err);

/* Loads keys and secrets, and opens the egress with them. */
must_check int egress_wiring_open(struct egress_wiring *wiring, uv_loop_t *loop,
                                  struct store *store, const char *key_path,
                                  const struct config *config, struct egress **egress,
                                  struct err *err);

/* Once it is known where the API is served. */
void egress_wiring_name_issuer(struct egress_wiring *wiring, const struct config *config,
                               const char *url);

void egress_wiring_close(struct egress_wiring *wiring); /* after the store */

#endif
