/* sandboxes.h - finds sandboxes by what the user typed, and acts on several at once. */
#ifndef CLI_SANDBOXES_H
#define CLI_SANDBOXES_H

#include "cli/cli.h"
#include "lib/base/id.h"

#define SANDBOX_STATES "running,paused"

enum { SANDBOX_QUERY_BYTES = 1024 };

/* Every sandbox of the team in these states, as /v2/sandboxes has them. `query` is more of the
 * query
 * ("&template=..."), or "". Blocks. */
must_check int sandboxes_read(const struct endpoint *endpoint, const char *states,
                              const char *query, json_t **list, struct err *err);

/* The id of a sandbox from its beginning, or from the whole of it, which the daemon is not asked
 * about. -CALL_NOT_FOUND when none begins so, -EINVAL with the ids when several do. `list` holds
 * what was read for words before, NULL at first; it may be NULL for one word. Blocks. */
must_check int sandbox_find(const struct endpoint *endpoint, const char *word,
                            char id[ID_SANDBOX_LEN + 1], struct err *err);
must_check int sandbox_find_in(const struct endpoint *endpoint, const char *word, json_t **list,
                               char id[ID_SANDBOX_LEN + 1], struct err *err);

/* The call that is sent for each sandbox. */
struct sandbox_action {
    const char *method;
    const char *path;   /* "/sandboxes/%s/pause" */
    const json_t *body; /* or NULL */
    const char *done;   /* "Paused" */
};

/* Does it to each of these words, several at a time. All are tried; each failure is a sentence with
 * its id. Prints a line for each that was done, its id with -q, or one list with --json. Returns an
 * exit code. */
int sandboxes_act(const struct cli *cli, const struct endpoint *endpoint, char **words, int n,
                  const struct sandbox_action *action);

#endif
