#include "lib/mcp/session.h"

#include <errno.h>
#include <string.h>

#include "lib/base/clock.h"

static bool is_in_use(const struct session_table *table, struct session_entry *entry)
{
    return table->rules->in_use && table->rules->in_use(entry);
}

/* Counts the owner's sessions; *quietest is the one to end for another, or NULL. */
static unsigned sessions_of(const struct session_table *table, const char *owner,
                            struct session_entry **quietest)
{
    struct session_entry *entry, *next;
    unsigned n = 0;

    *quietest = NULL;
    session_each (table, entry, next) {
        if (strcmp(entry->owner, owner) != 0) {
            continue;
        }
        n++;
        if ((!*quietest || entry->used_mono_us < (*quietest)->used_mono_us) &&
            !is_in_use(table, entry)) {
            *quietest = entry;
        }
    }
    return n;
}

int session_add(struct session_table *table, struct session_entry *entry, const char *owner,
                enum mcp_version version, struct err *err)
{
    struct session_entry *quietest;

    if (sessions_of(table, owner, &quietest) >= table->rules->per_owner_max) {
        if (!quietest) {
            return err_set(err, EBUSY,
                           "the team has %u sessions, and each is in use: end one of them",
                           table->rules->per_owner_max);
        }
        table->rules->end(quietest);
    }
    id_uuid(entry->id);
    (void)str_copy(entry->owner, sizeof(entry->owner), str_of(owner));
    entry->version = version;
    entry->used_mono_us = clock_mono_us();
    HASH_ADD_STR(table->by_id, id, entry);
    return 0;
}

struct session_entry *session_find(struct session_table *table, struct str id, const char *owner,
                                   struct mcp_refusal *why)
{
    struct session_entry *entry = NULL;

    if (!id.at) {
        *why = (struct mcp_refusal){400, JSONRPC_INVALID_REQUEST,
                                    "the header Mcp-Session-Id is missing: begin with initialize"};
        return NULL;
    }
    HASH_FIND(hh, table->by_id, id.at, id.len, entry);
    if (!entry || strcmp(entry->owner, owner) != 0) {
        *why = (struct mcp_refusal){404, JSONRPC_INVALID_REQUEST,
                                    "there is no such session: it has ended, or never was; "
                                    "begin with initialize"};
        return NULL;
    }
    entry->used_mono_us = clock_mono_us();
    return entry;
}

void session_remove(struct session_table *table, struct session_entry *entry)
{
    HASH_DELETE(hh, table->by_id, entry);
}

void session_expire(struct session_table *table, int64_t now_mono_ms)
{
    struct session_entry *entry, *next;

    session_each (table, entry, next) {
        int64_t idle_ms = now_mono_ms - entry->used_mono_us / 1000;

        if (is_in_use(table, entry)) {
            entry->used_mono_us = now_mono_ms * 1000;
        } else if (table->rules->idle_ms && idle_ms >= table->rules->idle_ms) {
            table->rules->end(entry);
        }
    }
}
