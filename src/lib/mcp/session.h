/* session.h - the sessions of an MCP server: ids, owners, limits, the order of use, expiry.
 *
 * A session begins with `initialize`. Each server embeds a struct session_entry in its own session
 * object and gives the table the rules it keeps. An owner that has as many sessions as it may have
 * loses the one that was quiet for longest.
 *
 * Owns:     the index of the entries; the objects belong to the server.
 * Needs:    a server that ends a session when the rules' `end` is called.
 * Blocks:   never.
 * Threads:  the loop's.
 */
#ifndef MCP_SESSION_H
#define MCP_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/id.h"
#include "lib/base/str.h"
#include "lib/base/table.h"
#include "lib/mcp/refusal.h"
#include "lib/mcp/version.h"

struct session_entry {
    char id[ID_UUID_LEN + 1];
    char owner[ID_UUID_LEN + 1]; /* a team; "" where the server does not tell clients apart */
    enum mcp_version version;    /* as negotiated by `initialize` */
    int64_t used_mono_us;
    UT_hash_handle hh;
};

struct session_rules {
    unsigned per_owner_max;
    int64_t idle_ms; /* a session ends after that long without use; 0: never */
    bool (*in_use)(struct session_entry *entry); /* it is not ended then; NULL: never so */
    void (*end)(struct session_entry *entry);    /* calls session_remove() */
};

struct session_table {
    struct session_entry *by_id;
    const struct session_rules *rules;
};

#define session_each(table, entry, next) HASH_ITER (hh, (table)->by_id, entry, next)

/* Gives the entry an id and adds it. -EBUSY with the sentence when the owner has as many sessions
 * as it may have and each is in use. */
must_check int session_add(struct session_table *table, struct session_entry *entry,
                           const char *owner, enum mcp_version version, struct err *err);

/* The session that the header Mcp-Session-Id names, which counts as use. NULL with *why when the
 * header is missing (a NULL text), or names no session of this owner. */
struct session_entry *session_find(struct session_table *table, struct str id, const char *owner,
                                   struct mcp_refusal *why);

void session_remove(struct session_table *table, struct session_entry *entry);

/* Ends the sessions that have been idle for too long. A session in use counts as used now. */
void session_expire(struct session_table *table, int64_t now_mono_ms);

#endif
