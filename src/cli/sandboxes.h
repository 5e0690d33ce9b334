/* sandboxes.h - finds sandboxes by what the user typed. */
#ifndef CLI_SANDBOXES_H
#define CLI_SANDBOXES_H

#include "cli/cli.h"
#include "lib/base/id.h"

/* The id of a sandbox from its beginning, or from the whole of it, which the daemon is not asked
 * about. -CALL_NOT_FOUND when none begins so, -EINVAL with the ids when several do. Blocks. */
must_check int sandbox_find(const struct endpoint *endpoint, const char *word,
                            char id[ID_SANDBOX_LEN + 1], struct err *err);

/* Every sandbox of the team, running and paused, as /v2/sandboxes has them. `query` is more of the
 * query ("&metadata=..."), or "". Blocks. */
must_check int sandboxes_read(const struct endpoint *endpoint, const char *states,
                              const char *query, json_t **list, struct err *err);

#define SANDBOX_STATES "running,paused"

#endif
