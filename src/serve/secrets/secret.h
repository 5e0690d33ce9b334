/* secret.h - secrets of teams: named values that network rules put into requests (egress/).
 *
 * A value can be set, but never read by a client. It is sealed (seal.h) in the store and in memory,
 * and opened only while a request is put together.
 *
 * Owns:     the table of secrets in memory.
 * Needs:    the store, the daemon's key.
 * Blocks:   secrets_new(), which reads the store; the rest never.
 * Threads:  the loop's.
 */
#ifndef SECRETS_SECRET_H
#define SECRETS_SECRET_H

#include <jansson.h>

#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/base/id.h"
#include "serve/secrets/key.h"
#include "serve/store/store.h"

#define SECRET_ID_PREFIX "sec_"

enum {
    SECRET_NAME_BYTES_MAX = 128,
    SECRET_VALUE_BYTES_MAX = 16 * 1024, /* HTTP headers are not longer */
    SECRET_METADATA_MAX = 32,           /* entries */
    SECRET_METADATA_KEY_BYTES_MAX = 128,
    SECRET_METADATA_VALUE_BYTES_MAX = 1024,
    SECRET_METADATA_BYTES_MAX = 8192,
    SECRETS_PER_TEAM_MAX = 1000,
    SECRET_ID_BYTES = sizeof(SECRET_ID_PREFIX) + ID_UUID_LEN,
};

struct secrets;

struct secret { /* valid until the next return to the loop */
    const char *id, *name, *team_id;
    int64_t version;
    json_t *metadata; /* object of strings */
    int64_t created_ms, updated_ms;
};

must_check int secrets_new(struct store *store, const uint8_t key[SECRET_KEY_BYTES],
                           struct secrets **out, struct err *err);
void secrets_free(struct secrets *all); /* NULL is fine */

/* Each is 0, or -EINVAL with a sentence for the client. Names come out in lower case. */
must_check int secret_name_check(const char *name, char out[SECRET_NAME_BYTES_MAX + 1],
                                 struct err *err);
must_check int secret_value_check(const char *value, struct err *err);
must_check int secret_metadata_check(const json_t *metadata, struct err *err);

/* By id, or by name in any case. NULL when the team has no such secret. */
const struct secret *secrets_find(const struct secrets *all, const char *team_id,
                                  const char *selector);

/* Visits the secrets of a team, oldest first, until each returns false. */
void secrets_each(const struct secrets *all, const char *team_id,
                  bool (*each)(void *ctx, const struct secret *secret), void *ctx);

/* The arguments must have been checked. A new secret or value is used at once, and undone when it
 * cannot be stored; secret is NULL then. -EEXIST: the name is taken; -ENOSPC: too many. */
typedef void secret_saved(void *ctx, const struct secret *secret, int error, const struct err *err);
void secret_create(struct secrets *all, const char *team_id, const char *name, const char *value,
                   const json_t *metadata, secret_saved *done, void *ctx);

/* metadata NULL: unchanged. -EAGAIN: an earlier change is not stored yet. */
void secret_update(struct secrets *all, const struct secret *secret, const char *value,
                   const json_t *metadata, secret_saved *done, void *ctx);

/* It is not used from this moment on. */
void secret_delete(struct secrets *all, const struct secret *secret, store_done *done, void *ctx);

/* Appends the value. -ENOENT with the sentence when the team has none of that name. */
must_check int secret_value(const struct secrets *all, const char *team_id, struct str name,
                            struct buf *out, struct err *err);

/* For values of other modules: sealed (seal.h) with another key, and bound to `of`. */
must_check int secrets_seal(const struct secrets *all, const char *of, struct str value,
                            struct buf *out);
must_check int secrets_unseal(const struct secrets *all, const char *of, const char *sealed,
                              struct buf *out);

#endif
