/* volume.h - volumes: named disks of a team that outlive its sandboxes.
 *
 * Owns:     the table of volumes in memory, and the service jails through which their content is
 *           read and written.
 * Needs:    a loop, the store, the keeper's client, the sandboxes.
 * Blocks:   volumes_new(), which reads the store; the rest never.
 * Threads:  the loop's.
 *
 * A volume is on record as removed until the keeper has made it, and again from the moment that it
 * is deleted until its bytes are gone: whenever the daemon ends, the next one clears up. Sandboxes
 * that have a deleted volume keep it; it goes with the last of them.
 */
#ifndef VOLUME_VOLUME_H
#define VOLUME_VOLUME_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "lib/base/err.h"
#include "lib/base/id.h"
#include "lib/base/str.h"
#include "lib/http/http.h"
#include "serve/keeper/client.h"
#include "serve/sandbox/sandbox.h"
#include "serve/store/store.h"

enum {
    VOLUME_NAME_BYTES_MAX = 128,
    VOLUMES_PER_TEAM_MAX = 1000,
    VOLUME_SECRET_BYTES = 32,
    VOLUME_TOKEN_S = 24 * 3600, /* GET /volumes/{id} gives a fresh one */
    VOLUME_TOKEN_BYTES_MAX = 1024,
    VOLUME_REMOVE_RETRY_MS = 5000,
    VOLUME_SERVICES_MAX = 32, /* service jails at one time */
    VOLUME_SERVICE_IDLE_MS = 15 * 1000,
    VOLUME_REQUESTS_MAX = 64, /* under way to one volume */
};

struct volumes;

struct volume {
    char id[ID_UUID_LEN + 1];
    char team_id[ID_UUID_LEN + 1];
    char name[VOLUME_NAME_BYTES_MAX + 1];
    char secret[2 * VOLUME_SECRET_BYTES + 1];
    uint32_t size_mb;
    int64_t created_ms;
};

struct volumes_options {
    uv_loop_t *loop;
    struct store *store;
    struct keeper_client *keeper;
    struct sandboxes *sandboxes;
    uint32_t size_mb; /* of new ones */
};

must_check int volumes_new(const struct volumes_options *options, struct volumes **out,
                           struct err *err);
/* Requests under way are cut off. */
void volumes_free(struct volumes *volumes);

/* NULL when the team has none of that id, or name. Valid until the next return to the loop. */
const struct volume *volumes_find(const struct volumes *volumes, const char *team_id,
                                  const char *id);
const struct volume *volumes_named(const struct volumes *volumes, const char *team_id,
                                   const char *name);
void volumes_each(const struct volumes *volumes, const char *team_id,
                  void (*each)(void *ctx, const struct volume *volume), void *ctx);

uint32_t volumes_size_mb(const struct volumes *volumes); /* of new ones */

bool volume_name_ok(const char *name);

/* volume is NULL on failure: -EEXIST for a name that is taken, -EINVAL for one that cannot be,
 * -ENOSPC when the team has too many, else as the store or the keeper said. */
typedef void volume_made(void *ctx, const struct volume *volume, int error, const struct err *err);
void volume_create(struct volumes *volumes, const char *team_id, const char *name,
                   volume_made *done, void *ctx);

/* The volume is not found any more when this returns; `done` is called when that is on record. */
void volume_delete(struct volumes *volumes, const struct volume *volume, store_done *done,
                   void *ctx);

/* ---- tokens (token.c) ---- */

/* A JWT (HS256) for the volume's content, good for VOLUME_TOKEN_S. */
void volume_token(const struct volume *volume, int64_t now_s, char out[VOLUME_TOKEN_BYTES_MAX]);
/* Whether the token is the volume's, and not expired. -EACCES with the reason. */
must_check int volume_token_check(const struct volume *volume, struct str token, int64_t now_s,
                                  struct err *err);

/* ---- content (content.c) ---- */

/* The volume that a request for content names and may access, or NULL and the sentence. */
const struct volume *volumes_admit(const struct volumes *volumes, struct str id, struct str token,
                                   struct err *err);

/* Takes the exchange: the agent reads the rest of /volumecontent/{id}/... */
void volume_content(struct volumes *volumes, const struct volume *volume, struct http_exchange *ex);

#endif
