/* shells.h - the API shells of teams: named connections that code uses without seeing their keys.
 *
 * serve/egress/shell.h describes a shell. A key that was given as a plain text is sealed in the
 * store and in memory, and opened only while a request is put together. A key that was given as
 * ${e2b.secrets.NAME} is a secret of the team.
 *
 * Owns:     the table of shells in memory.
 * Needs:    the store, the secrets.
 * Blocks:   shells_new(), which reads the store; the rest never.
 * Threads:  the loop's.
 */
#ifndef SHELL_SHELLS_H
#define SHELL_SHELLS_H

#include <jansson.h>

#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "serve/egress/shell.h"
#include "serve/secrets/secret.h"
#include "serve/store/store.h"

enum { SHELLS_PER_TEAM_MAX = 200 };

struct shells;

must_check int shells_new(struct store *store, const struct secrets *secrets, struct shells **out,
                          struct err *err);
void shells_free(struct shells *all); /* NULL is fine */

/* Valid until the next return to the loop. NULL when the team has none of that name. */
const struct shell *shells_find(const struct shells *all, const char *team_id, struct str name);

struct shell_times {
    int64_t created_ms, updated_ms;
};

/* Visits the shells of a team, by name. */
void shells_each(const struct shells *all, const char *team_id,
                 void (*each)(void *ctx, const struct shell *shell, struct shell_times times),
                 void *ctx);

/* Makes or replaces the shell of that name. It is used from the moment that it is stored. A
 * definition without a value keeps the sealed value, if the base URL is the same. -EINVAL or
 * -ENOSPC with the sentence; `done` is not called then. */
must_check int shells_put(struct shells *all, const char *team_id, const char *name,
                          const json_t *definition, store_done *done, void *ctx, struct err *err);

/* Not found from this moment on, and back if that cannot be stored. -ENOENT: there is none. */
must_check int shells_delete(struct shells *all, const char *team_id, const char *name,
                             store_done *done, void *ctx, struct err *err);

/* Appends the opened value of a shell. */
must_check int shells_value(const struct shells *all, const char *team_id, struct str name,
                            struct buf *out, struct err *err);

#endif
