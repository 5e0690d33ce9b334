/* mcp_session.c - the sessions of the MCP server (lib/mcp/session.h), with their posts and sandbox.
 */
#include <stdlib.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "tools/mcp_internal.h"

static struct mcp_session *session_of(struct session_entry *entry)
{
    return entry ? container_of(entry, struct mcp_session, entry) : NULL;
}

static bool has_listener(const struct mcp_session *session)
{
    const struct mcp_post *post;

    DL_FOREACH (session->mcp->posts, post) {
        if (post->session == session && post->link) {
            return true;
        }
    }
    return false;
}

static bool is_in_use(struct session_entry *entry)
{
    const struct mcp_session *session = session_of(entry);

    return has_listener(session) || mcp_calls_count(session) > 0;
}

static void entry_end(struct session_entry *entry)
{
    mcp_session_end(session_of(entry));
}

const struct session_rules mcp_session_rules = {
    .per_owner_max = MCP_SESSIONS_PER_TEAM_MAX,
    .idle_ms = MCP_SESSION_IDLE_MS,
    .in_use = is_in_use,
    .end = entry_end,
};

struct mcp_session *mcp_session_new(struct mcp *mcp, const struct tools_who *who,
                                    enum mcp_version version, const struct mcp_sandbox *sandbox,
                                    struct err *err)
{
    struct mcp_session *session = xnew(struct mcp_session);

    session->mcp = mcp;
    session->sandbox = *sandbox;
    (void)str_copy(session->key, sizeof(session->key), who->key);
    if (session_add(&mcp->sessions, &session->entry, who->team, version, err) < 0) {
        free(session);
        return NULL;
    }
    mcp_wake(mcp);
    return session;
}

struct mcp_session *mcp_session_find(struct mcp *mcp, struct str id, const char *team,
                                     struct mcp_refusal *why)
{
    return session_of(session_find(&mcp->sessions, id, team, why));
}

void mcp_session_end(struct mcp_session *session)
{
    struct mcp *mcp = session->mcp;
    struct mcp_post *post, *next;

    session_remove(&mcp->sessions, &session->entry);
    session->ended = true;
    DL_FOREACH_SAFE (mcp->posts, post, next) {
        if (post->session == session) {
            post_drop(post);
        }
    }
    session_sandbox_end(session);
}

void mcp_sessions_tick(struct mcp *mcp, int64_t now_ms)
{
    struct session_entry *entry, *next;

    session_expire(&mcp->sessions, now_ms);
    session_each (&mcp->sessions, entry, next) {
        session_sandbox_tick(session_of(entry), now_ms);
    }
}

void mcp_sessions_forget(struct mcp *mcp)
{
    struct session_entry *entry, *next;

    session_each (&mcp->sessions, entry, next) {
        session_of(entry)->sandbox.own = false;
        mcp_session_end(session_of(entry));
    }
}
