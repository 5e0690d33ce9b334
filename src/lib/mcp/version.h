/* version.h - the revisions of the protocol that are spoken here. Pure.
 *
 * Up to 2025-11-25 a client introduces itself with `initialize` and has a session; from 2026-07-28
 * on every request says all that is needed, and there are no sessions.
 */
#ifndef MCP_VERSION_H
#define MCP_VERSION_H

#include <jansson.h>
#include <stdbool.h>

#include "lib/base/str.h"

enum mcp_version { /* oldest first */
                   MCP_2024_11_05,
                   MCP_2025_03_26,
                   MCP_2025_06_18,
                   MCP_2025_11_25,
                   MCP_2026_07_28,
                   MCP_VERSIONS_N,
};

const char *version_name(enum mcp_version version);

/* False: it is none of ours. */
bool version_find(struct str name, enum mcp_version *out);

/* The version to answer `initialize` with: the one asked for, or the newest that has sessions. */
enum mcp_version version_negotiate(const char *asked);

/* Every request stands for itself. */
static inline bool version_is_stateless(enum mcp_version version)
{
    return version >= MCP_2026_07_28;
}

static inline bool version_has_batches(enum mcp_version version)
{
    return version <= MCP_2025_03_26;
}

/* A stream begins with an event that has an id and no data, so that it can be resumed. */
static inline bool version_primes_streams(enum mcp_version version)
{
    return version == MCP_2025_11_25;
}

/* {"supported": [...], "requested": ...}, newest first. */
json_t *version_error_data(struct str requested);
json_t *version_names(void);

#endif
