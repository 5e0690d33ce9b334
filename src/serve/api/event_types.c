#include "serve/api/event_types.h"

#include <errno.h>
#include <string.h>

#define PREFIX "sandbox.lifecycle."

/* Clients use two names for snapshots. */
static const char *const names[] = {
    "created", "updated", "paused", "resumed", "snapshotted", "checkpointed", "forked", "killed",
};
#define SHELL_CALLED "sandbox.shell.called"

const char event_types_known[] = PREFIX
    "created, updated, paused, resumed, snapshotted, checkpointed, forked, killed, " SHELL_CALLED;

static bool known(struct str type)
{
    if (!str_starts(type, STR(PREFIX))) {
        return str_eq(type, STR(SHELL_CALLED));
    }
    for (size_t i = 0; i < countof(names); i++) {
        if (str_eq(str_skip(type, strlen(PREFIX)), str_of(names[i]))) {
            return true;
        }
    }
    return false;
}

static bool listed(const struct buf *list, struct str type)
{
    struct str rest = buf_str(list), one;

    while (str_split(&rest, ',', &one)) {
        if (str_eq(one, type)) {
            return true;
        }
    }
    return false;
}

int event_types_add(struct buf *list, struct str type)
{
    if (!known(type)) {
        return -EINVAL;
    }
    if (listed(list, type)) {
        return 0;
    }
    return buf_printf(list, "%s%.*s,", buf_len(list) > 0 ? "" : ",", (int)type.len, type.at);
}
