#include "serve/web/sessions.h"

#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "lib/base/alloc.h"

struct link {
    struct link *prev, *next; /* oldest first */
    char hash[SHA256_HEX_LEN + 1];
    char key_id[ID_UUID_LEN + 1];
    char admin_key_id[ID_UUID_LEN + 1];
    int64_t made_ms;
};

struct source { /* of failed logins */
    struct source *prev, *next;
    char name[LOGIN_SOURCE_BYTES];
    int64_t since_ms;
    uint32_t failures;
};

struct sessions {
    struct store *store;
    struct session *all;
    struct session *by_handle;
    struct link *links;
    size_t links_n;
    struct source *sources;
    size_t sources_n;
};

/* ---- the table ---- */

static struct session *session_new(const char *hash, const char *key_id, const char *admin_key_id)
{
    struct session *session = xnew(struct session);

    (void)str_copy(session->hash, sizeof(session->hash), str_of(hash));
    (void)str_copy(session->key_id, sizeof(session->key_id), str_of(key_id));
    (void)str_copy(session->admin_key_id, sizeof(session->admin_key_id), str_of(admin_key_id));
    (void)snprintf(session->handle, sizeof(session->handle), SESSION_HANDLE_PREFIX);
    id_hex(session->handle + strlen(SESSION_HANDLE_PREFIX), SESSION_HANDLE_LEN / 2);
    return session;
}

static void add(struct sessions *sessions, struct session *session)
{
    HASH_ADD_STR(sessions->all, hash, session);
    HASH_ADD(hh_handle, sessions->by_handle, handle, strlen(session->handle), session);
}

static void drop(struct sessions *sessions, struct session *session)
{
    HASH_DEL(sessions->all, session);
    HASH_DELETE(hh_handle, sessions->by_handle, session);
    explicit_bzero(session->handle, sizeof(session->handle));
    free(session);
}

static void save(struct sessions *sessions, struct session *session, store_done *done, void *ctx)
{
    const struct session_row row = {
        .hash = session->hash,
        .key_id = session->key_id,
        .admin_key_id = session->admin_key_id,
        .created_ms = session->created_ms,
        .used_ms = session->used_ms,
    };

    session->saved_ms = session->used_ms;
    store_session_save(sessions->store, &row, done, ctx);
}

int64_t session_end_ms(const struct session *session)
{
    int64_t idle = session->used_ms + SESSION_IDLE_MS;
    int64_t longest = session->created_ms + SESSION_MAX_MS;

    return idle < longest ? idle : longest;
}

static bool is_over(const struct session *session, int64_t now_ms)
{
    return now_ms >= session_end_ms(session);
}

/* ---- life ---- */

static void on_row(void *ctx, const struct session_row *row)
{
    struct sessions *sessions = ctx;
    struct session *session = session_new(row->hash, row->key_id, row->admin_key_id);

    session->created_ms = row->created_ms;
    session->used_ms = session->saved_ms = row->used_ms;
    add(sessions, session);
}

/* The row of a session that is over is deleted when the daemon starts, or when the cookie comes. */
static void sweep(struct sessions *sessions, int64_t now_ms)
{
    struct session *session = NULL, *next = NULL;

    HASH_ITER (hh, sessions->all, session, next) {
        if (is_over(session, now_ms)) {
            sessions_end(sessions, session, NULL, NULL);
        }
    }
}

int sessions_new(struct store *store, int64_t now_ms, struct sessions **out, struct err *err)
{
    struct sessions *sessions = xnew(struct sessions);

    sessions->store = store;
    int r = store_load_sessions(store, on_row, sessions, err);
    if (r < 0) {
        sessions_free(sessions);
        return err_wrap(err, "load the sessions of the dashboard");
    }
    sweep(sessions, now_ms);
    *out = sessions;
    return 0;
}

void sessions_free(struct sessions *sessions)
{
    struct session *session = NULL, *session_next = NULL;
    struct link *link, *link_next;
    struct source *source, *source_next;

    if (!sessions) {
        return;
    }
    HASH_ITER (hh, sessions->all, session, session_next) {
        drop(sessions, session);
    }
    DL_FOREACH_SAFE (sessions->links, link, link_next) {
        free(link);
    }
    DL_FOREACH_SAFE (sessions->sources, source, source_next) {
        free(source);
    }
    free(sessions);
}

/* ---- one session ---- */

static void make_room(struct sessions *sessions, const char *key_id)
{
    struct session *session = NULL, *next = NULL, *oldest = NULL;
    size_t n = 0;

    HASH_ITER (hh, sessions->all, session, next) {
        if (strcmp(session->key_id, key_id) == 0) {
            n++;
            oldest = oldest && oldest->used_ms <= session->used_ms ? oldest : session;
        }
    }
    if (n >= SESSIONS_PER_KEY_MAX) {
        sessions_end(sessions, oldest, NULL, NULL);
    }
}

struct session *sessions_begin(struct sessions *sessions, const char *key_id,
                               const char *admin_key_id, int64_t now_ms,
                               char token[WEB_TOKEN_LEN + 1], store_done *done, void *ctx)
{
    char hash[SHA256_HEX_LEN + 1];

    sweep(sessions, now_ms);
    make_room(sessions, key_id);
    id_hex(token, WEB_TOKEN_BYTES);
    sha256_hex(token, WEB_TOKEN_LEN, hash);
    struct session *session = session_new(hash, key_id, admin_key_id);
    session->created_ms = session->used_ms = now_ms;
    add(sessions, session);
    save(sessions, session, done, ctx);
    return session;
}

static struct session *alive(struct sessions *sessions, struct session *session, int64_t now_ms)
{
    if (session && is_over(session, now_ms)) {
        sessions_end(sessions, session, NULL, NULL);
        return NULL;
    }
    return session;
}

/* A look-up by the hash of a secret takes a time that says nothing about the secret. */
struct session *sessions_find(struct sessions *sessions, struct str token, int64_t now_ms)
{
    char hash[SHA256_HEX_LEN + 1];
    struct session *session = NULL;

    sha256_hex(token.at, token.len, hash);
    HASH_FIND_STR(sessions->all, hash, session);
    return alive(sessions, session, now_ms);
}

struct session *sessions_find_handle(struct sessions *sessions, struct str handle, int64_t now_ms)
{
    struct session *session = NULL;

    if (handle.len != strlen(SESSION_HANDLE_PREFIX) + SESSION_HANDLE_LEN) {
        return NULL;
    }
    HASH_FIND(hh_handle, sessions->by_handle, handle.at, handle.len, session);
    return alive(sessions, session, now_ms);
}

void sessions_use(struct sessions *sessions, struct session *session, int64_t now_ms)
{
    session->used_ms = now_ms;
    if (now_ms - session->saved_ms >= SESSION_USED_SAVE_MS) {
        save(sessions, session, NULL, NULL);
    }
}

void sessions_elevate(struct sessions *sessions, struct session *session, const char *admin_key_id,
                      store_done *done, void *ctx)
{
    (void)str_copy(session->admin_key_id, sizeof(session->admin_key_id), str_of(admin_key_id));
    save(sessions, session, done, ctx);
}

void sessions_end(struct sessions *sessions, struct session *session, store_done *done, void *ctx)
{
    store_session_delete(sessions->store, session->hash, done, ctx);
    drop(sessions, session);
}

void sessions_end_of_key(struct sessions *sessions, const char *key_id)
{
    struct session *session = NULL, *next = NULL;
    struct link *link, *link_next;

    HASH_ITER (hh, sessions->all, session, next) {
        if (strcmp(session->key_id, key_id) == 0) {
            sessions_end(sessions, session, NULL, NULL);
        }
    }
    DL_FOREACH_SAFE (sessions->links, link, link_next) {
        if (strcmp(link->key_id, key_id) == 0) {
            DL_DELETE(sessions->links, link);
            sessions->links_n--;
            free(link);
        }
    }
}

size_t sessions_count(const struct sessions *sessions)
{
    return HASH_COUNT(sessions->all);
}

void session_csrf(struct str token, char out[SHA256_HEX_LEN + 1])
{
    static const char purpose[] = "atoll csrf ";
    char text[sizeof(purpose) + WEB_TOKEN_LEN];

    (void)snprintf(text, sizeof(text), "%s%.*s", purpose, (int)token.len, token.at);
    sha256_hex(text, strlen(text), out);
    explicit_bzero(text, sizeof(text));
}

/* ---- links ---- */

static void link_drop(struct sessions *sessions, struct link *link)
{
    DL_DELETE(sessions->links, link);
    sessions->links_n--;
    free(link);
}

/* A key that makes many ends its own: nobody else's login is in its hands. */
static void links_make_room(struct sessions *sessions, const char *key_id)
{
    struct link *link, *oldest = NULL;
    size_t n = 0;

    DL_FOREACH (sessions->links, link) {
        if (strcmp(link->key_id, key_id) == 0) {
            oldest = oldest ? oldest : link;
            n++;
        }
    }
    if (n >= LINKS_PER_KEY_MAX) {
        link_drop(sessions, oldest);
    } else if (sessions->links_n >= LINKS_MAX) {
        link_drop(sessions, sessions->links);
    }
}

void links_make(struct sessions *sessions, const char *key_id, const char *admin_key_id,
                int64_t now_ms, char token[WEB_TOKEN_LEN + 1])
{
    struct link *link = xnew(struct link);

    links_make_room(sessions, key_id);
    id_hex(token, WEB_TOKEN_BYTES);
    sha256_hex(token, WEB_TOKEN_LEN, link->hash);
    (void)str_copy(link->key_id, sizeof(link->key_id), str_of(key_id));
    (void)str_copy(link->admin_key_id, sizeof(link->admin_key_id), str_of(admin_key_id));
    link->made_ms = now_ms;
    DL_APPEND(sessions->links, link);
    sessions->links_n++;
}

bool links_take(struct sessions *sessions, struct str token, int64_t now_ms,
                char key_id[ID_UUID_LEN + 1], char admin_key_id[ID_UUID_LEN + 1])
{
    char hash[SHA256_HEX_LEN + 1];
    struct link *link, *next;
    bool found = false;

    sha256_hex(token.at, token.len, hash);
    DL_FOREACH_SAFE (sessions->links, link, next) {
        bool is_this = str_eq_secret(str_of(link->hash), str_of(hash));
        bool late = now_ms - link->made_ms >= LINK_MS;

        if (is_this && !late) {
            memcpy(key_id, link->key_id, sizeof(link->key_id));
            memcpy(admin_key_id, link->admin_key_id, sizeof(link->admin_key_id));
            found = true;
        }
        if (is_this || late) {
            link_drop(sessions, link);
        }
    }
    return found;
}

/* ---- failed logins ---- */

static struct source *source_find(const struct sessions *sessions, struct str name)
{
    struct source *source;

    DL_FOREACH (sessions->sources, source) {
        if (str_eq(str_of(source->name), name)) {
            return source;
        }
    }
    return NULL;
}

int64_t logins_wait_s(const struct sessions *sessions, struct str source, int64_t now_ms)
{
    const struct source *known = source_find(sessions, source);
    int64_t left_ms = known ? known->since_ms + LOGIN_WINDOW_MS - now_ms : 0;

    return left_ms > 0 && known->failures >= LOGIN_FAILURES_MAX ? (left_ms + 999) / 1000 : 0;
}

void logins_failed(struct sessions *sessions, struct str source, int64_t now_ms)
{
    struct source *known = source_find(sessions, source);

    if (!known) {
        if (sessions->sources_n >= LOGIN_SOURCES_MAX) {
            known = sessions->sources;
            DL_DELETE(sessions->sources, known);
        } else {
            known = xnew(struct source);
            sessions->sources_n++;
        }
        *known = (struct source){.since_ms = now_ms};
        (void)str_copy(known->name, sizeof(known->name), source);
        DL_APPEND(sessions->sources, known);
    }
    if (now_ms - known->since_ms >= LOGIN_WINDOW_MS) {
        known->since_ms = now_ms;
        known->failures = 0;
    }
    known->failures++;
}
