/* shells.h - the API shells of teams: names for connections that code uses without their keys.
 *
 * serve/egress/shell.h says what one is. A key that was given as it is lies sealed in the store and
 * in memory, and is opened for the moment in which a request is put together; one that was given as
 * ${e2b.secrets.NAME} is a secret of the team's.
 *
 * Owns:     the table of shells in memory. Needs: the store, the secrets.
 * Blocks:   shells_new(), which reads the store; the rest never. Threads: the loop's.
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

/* Of one team, by name. */
void shells_each(const struct shells *all, const char *team_id,
                 void (*each)(void *ctx, const struct shell *shell, struct shell_times times),
                 void *ctx);

/* Makes one, or puts this in the place of the one of that name; used from the moment that it is on
 * record. A definition without a value keeps the sealed one that there is, if it stays with its
 * base URL. -EINVAL, -ENOSPC with the sentence, and then `done` is not called. */
must_check int shells_put(struct shells *all, const char *team_id, const char *name,
                          const json_t *definition, store_done *done, void *ctx, struct err *err);

/* -ENOENT: there is none. */
must_check int shells_delete(struct shells *all, const char *team_id, const char *name,
                             store_done *done, void *ctx, struct err *err);

/* Appends the sealed value of one. */
must_check int shells_value(const struct shells *all, const char *team_id, struct str name,
                            struct buf *out, struct err *err);

#endif
