/* sessions.h - sessions of the dashboard, one-time links into it, and how often logins failed.
 *
 * A session stands for an API key, and perhaps for an admin key as well. Whoever has the cookie's
 * value has the session. The store keeps the SHA-256 of that value.
 *
 * Owns:     the table in memory and in the store.
 * Needs:    the store. Times are wall-clock milliseconds, given by the caller.
 * Blocks:   sessions_new(), which belongs to start-up. The rest never.
 * Threads:  the loop's.
 *
 * Links live in memory alone: they are short, and end with the daemon.
 */
#ifndef WEB_SESSIONS_H
#define WEB_SESSIONS_H

#include "lib/base/encode.h"
#include "lib/base/id.h"
#include "lib/base/table.h"
#include "serve/store/store.h"
#include "serve/web/cookie.h"

enum {
    SESSION_IDLE_MS = 12 * 3600 * 1000, /* it ends so long after its last use */
    SESSION_USED_SAVE_MS = 60 * 1000,   /* the last use is written down at most that often */
    SESSIONS_PER_KEY_MAX = 50,          /* one more ends the one that was used longest ago */
    SESSION_HANDLE_LEN = 40,            /* hex digits */
    LINK_MS = 60 * 1000,
    LINKS_MAX = 2000,       /* one more ends the oldest, */
    LINKS_PER_KEY_MAX = 20, /* and one more of a key the oldest of that key */
    LOGIN_FAILURES_MAX = 10,
    LOGIN_WINDOW_MS = 60 * 1000, /* so many failures of one source in this time */
    LOGIN_SOURCES_MAX = 1000,    /* beyond them the oldest is forgotten */
    LOGIN_SOURCE_BYTES = 64,
};

static const int64_t SESSION_MAX_MS = (int64_t)30 * 24 * 3600 * 1000; /* whatever its use */

#define SESSION_HANDLE_PREFIX "atoll_session_"

struct session {
    char hash[SHA256_HEX_LEN + 1]; /* of the cookie's value */
    char key_id[ID_UUID_LEN + 1];
    char admin_key_id[ID_UUID_LEN + 1]; /* "": no rights of the operator */
    /* Stands for the session towards our own programs, which act for its user; made for each run of
     * the daemon. */
    char handle[sizeof(SESSION_HANDLE_PREFIX) + SESSION_HANDLE_LEN];
    int64_t created_ms, used_ms;
    int64_t saved_ms; /* the last use, as it is on disk */
    UT_hash_handle hh;
    UT_hash_handle hh_handle;
};

struct sessions;

must_check int sessions_new(struct store *store, int64_t now_ms, struct sessions **out,
                            struct err *err);
void sessions_free(struct sessions *sessions);

/* Begins a session and makes the cookie's value. It works at once; `done` comes when it is on disk,
 * with a failure the caller ends it. */
struct session *sessions_begin(struct sessions *sessions, const char *key_id,
                               const char *admin_key_id, int64_t now_ms,
                               char token[WEB_TOKEN_LEN + 1], store_done *done, void *ctx);

/* The session of a cookie's value, or of a handle. NULL: there is none, or its time is over. */
struct session *sessions_find(struct sessions *sessions, struct str token, int64_t now_ms);
struct session *sessions_find_handle(struct sessions *sessions, struct str handle, int64_t now_ms);

/* It was used now: it lasts longer. */
void sessions_use(struct sessions *sessions, struct session *session, int64_t now_ms);
int64_t session_end_ms(const struct session *session);

/* Gives it the rights of an admin key. */
void sessions_elevate(struct sessions *sessions, struct session *session, const char *admin_key_id,
                      store_done *done, void *ctx);

/* Ends it: the cookie's value is worth nothing from this moment on. */
void sessions_end(struct sessions *sessions, struct session *session, store_done *done, void *ctx);
void sessions_end_of_key(struct sessions *sessions, const char *key_id);
size_t sessions_count(const struct sessions *sessions);

/* The token that a page must send in X-Atoll-CSRF. It follows from the cookie's value, which no
 * page can read. */
void session_csrf(struct str token, char out[SHA256_HEX_LEN + 1]);

/* ---- links ---- */

void links_make(struct sessions *sessions, const char *key_id, const char *admin_key_id,
                int64_t now_ms, char token[WEB_TOKEN_LEN + 1]);

/* False: there is no such link, or it was used, or its time is over. */
bool links_take(struct sessions *sessions, struct str token, int64_t now_ms,
                char key_id[ID_UUID_LEN + 1], char admin_key_id[ID_UUID_LEN + 1]);

/* ---- failed logins, by the client's address ---- */

/* 0: it may try; otherwise so many seconds until it may. */
int64_t logins_wait_s(const struct sessions *sessions, struct str source, int64_t now_ms);
void logins_failed(struct sessions *sessions, struct str source, int64_t now_ms);

#endif
