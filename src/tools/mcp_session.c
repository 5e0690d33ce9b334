#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "tools/mcp_internal.h"

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

/* The team's that has been idle for longest, if there are as many as may be; *full tells. */
static struct mcp_session *session_oldest(struct mcp *mcp, const char *team, bool *full)
{
    struct mcp_session *session, *next, *oldest = NULL;
    size_t n = 0;

    HASH_ITER (hh, mcp->sessions, session, next) {
        if (strcmp(session->team, team) != 0) {
            continue;
        }
        n++;
        if (!has_listener(session) && mcp_calls_count(session) == 0 &&
            (!oldest || session->used_mono_ms < oldest->used_mono_ms)) {
            oldest = session;
        }
    }
    *full = n >= MCP_SESSIONS_PER_TEAM_MAX;
    return oldest;
}

struct mcp_session *session_new(struct mcp *mcp, const struct tools_who *who,
                                enum mcp_version version, const struct mcp_tie *tie,
                                struct err *err)
{
    bool full = false;
    struct mcp_session *oldest = session_oldest(mcp, who->team, &full);

    if (full && !oldest) {
        (void)err_set(err, EBUSY, "the team has %d sessions, and each is in use: end one of them",
                      MCP_SESSIONS_PER_TEAM_MAX);
        return NULL;
    }
    if (full) {
        session_end(oldest);
    }
    struct mcp_session *session = xnew(struct mcp_session);
    id_uuid(session->id);
    session->mcp = mcp;
    session->version = version;
    session->tie = *tie;
    (void)str_copy(session->team, sizeof(session->team), str_of(who->team));
    (void)str_copy(session->key, sizeof(session->key), who->key);
    session_used(session);
    HASH_ADD_STR(mcp->sessions, id, session);
    mcp_wake(mcp);
    return session;
}

struct mcp_session *session_find(struct mcp *mcp, struct str id, const char *team)
{
    struct mcp_session *session = NULL;

    HASH_FIND(hh, mcp->sessions, id.at, id.len, session);
    return session && strcmp(session->team, team) == 0 ? session : NULL;
}

void session_used(struct mcp_session *session)
{
    session->used_mono_ms = clock_mono_ms();
}

void session_end(struct mcp_session *session)
{
    struct mcp *mcp = session->mcp;
    struct mcp_post *post, *next;

    HASH_DELETE(hh, mcp->sessions, session);
    session->ended = true;
    DL_FOREACH_SAFE (mcp->posts, post, next) {
        if (post->session == session) {
            post_drop(post);
        }
    }
    tie_end(session);
}

void sessions_tick(struct mcp *mcp, int64_t now_ms)
{
    struct mcp_session *session, *next;

    HASH_ITER (hh, mcp->sessions, session, next) {
        if (has_listener(session)) {
            session->used_mono_ms = now_ms;
        }
        if (now_ms - session->used_mono_ms >= MCP_SESSION_IDLE_MS) {
            session_end(session);
        } else {
            tie_tick(session, now_ms);
        }
    }
}
