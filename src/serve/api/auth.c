#include <assert.h>
#include <ctype.h>
#include <errno.h>

#include "lib/base/clock.h"
#include "serve/api/internal.h"
#include "serve/web/sessions.h"

enum { SCHEME_BYTES_MAX = 32 };

struct str auth_key_text(const struct http_request *req)
{
    struct str key = http_header_get(req, "x-api-key");
    struct str bearer = http_header_get(req, "authorization");

    if (key.at) {
        return str_trim(key);
    }
    if (bearer.len > 7 && str_ieq((struct str){bearer.at, 7}, STR("Bearer "))) {
        return str_trim(str_skip(bearer, 7));
    }
    return (struct str){0};
}

static bool is_hex(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (!isxdigit((unsigned char)text.at[i]) || isupper((unsigned char)text.at[i])) {
            return false;
        }
    }
    return true;
}

/* The text can be the name of a scheme: safe to repeat in an answer to the client. */
static bool is_word(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (!isalpha((unsigned char)text.at[i])) {
            return false;
        }
    }
    return text.len > 0 && text.len <= SCHEME_BYTES_MAX;
}

/* "Last used" may lag behind on disk; it must not turn every call into a write. */
static void key_used(struct api *api, struct key *key)
{
    key->last_used_ms = clock_wall_ms();
    if (key->last_used_ms - key->used_saved_ms >= KEY_USED_SAVE_MS) {
        key->used_saved_ms = key->last_used_ms;
        key_save(api, key, NULL, NULL);
    }
}

/* Finds out which of the usual mistakes it is. The sentences name what to send instead. */
static int refuse_malformed(const struct http_request *req, struct str text, struct err *err)
{
    char first = text.at[0];

    if (text.len > 7 && str_ieq((struct str){text.at, 7}, STR("Bearer "))) {
        return err_set(err, EACCES,
                       "authorization header is malformed: there is \"Bearer \" before the key; %s",
                       http_header_get(req, "x-api-key").at ? "in X-API-Key send the key alone"
                                                            : "in Authorization write it once");
    }
    if (first == '"' || first == '\'' || first == '`') {
        return err_set(err, EACCES,
                       "authorization header is malformed: the key is in quotes; send "
                       "it without them");
    }
    return err_set(err, EACCES, "authorization header is malformed: a key begins with e2b_");
}

/* An Authorization header without a bearer token is reported as malformed, not as missing. */
static int refuse_missing(const struct http_request *req, struct err *err)
{
    struct str sent = str_trim(http_header_get(req, "authorization"));
    struct str scheme = {sent.at, str_find(sent, ' ')};

    if (str_starts(sent, STR(KEY_PREFIX))) {
        return err_set(err, EACCES,
                       "authorization header is malformed: write \"Bearer \" before "
                       "the key in Authorization, or send it as X-API-Key");
    }
    if (scheme.len < sent.len && is_word(scheme) && !http_header_get(req, "x-api-key").at) {
        return err_set(err, EACCES,
                       "authorization header is malformed: it is %.*s; send the API key as "
                       "X-API-Key, or as Authorization: Bearer KEY",
                       (int)scheme.len, scheme.at);
    }
    return err_set(err, EACCES,
                   "authorization header is missing: send the API key as X-API-Key, or as "
                   "Authorization: Bearer KEY");
}

int auth_check_text(struct api *api, struct str text, struct key **out, struct err *err)
{
    bool is_token = str_starts(text, STR(TOKEN_PREFIX));
    struct str plain = is_token ? str_skip(text, strlen("sk_")) : text;

    if (plain.len != KEY_TEXT_LEN || !str_starts(plain, STR(KEY_PREFIX)) ||
        !is_hex(str_skip(plain, strlen(KEY_PREFIX)))) {
        return err_set(err, EACCES,
                       is_token ? "Invalid access token format" : "Invalid API key format");
    }
    struct key *key = accounts_find_text(api, text);
    if (!key) {
        return err_set(err, EACCES,
                       is_token ? "Invalid access token: nobody has it"
                                : "Invalid API key: Cannot get the team for the given "
                                  "API key");
    }
    key_used(api, key);
    *out = key;
    return 0;
}

/* ---- sessions of the dashboard ---- */

/* Finds the cookie that the token in X-Atoll-CSRF belongs to. A page that a sandbox serves
 * belongs to the same site, so the browser sends our cookie with that page's requests too. Only the
 * token proves that a page of the dashboard made the request. */
static int csrf_check(const struct http_request *req, const struct web_cookies *cookies,
                      struct str *out, struct err *err)
{
    struct str given = str_trim(http_header_get(req, "x-atoll-csrf"));
    char wanted[SHA256_HEX_LEN + 1];

    if (!given.at || given.len == 0) {
        return err_set(err, EPERM,
                       "X-Atoll-CSRF is missing: with the dashboard's cookie send the token that "
                       "GET /dashboard/session answers");
    }
    for (size_t i = 0; i < cookies->n; i++) {
        session_csrf(cookies->values[i], wanted);
        if (str_eq_secret(given, str_of(wanted))) {
            *out = cookies->values[i];
            return 0;
        }
    }
    return err_set(err, EPERM, "X-Atoll-CSRF is not the token of this session");
}

struct key *session_key(struct api *api, struct session *session)
{
    struct key *key = NULL;

    HASH_FIND(hh_id, api->keys_by_id, session->key_id, strlen(session->key_id), key);
    if (!key) {
        sessions_end(api->sessions, session, NULL, NULL);
    }
    return key;
}

static int session_use(struct api *api, struct session *session, struct session **out,
                       struct key **key, struct err *err)
{
    struct key *of_session = session ? session_key(api, session) : NULL;

    if (!of_session) {
        return err_set(err, EACCES, "the session has ended: log in again");
    }
    sessions_use(api->sessions, session, clock_wall_ms());
    key_used(api, of_session);
    *out = session;
    *key = of_session;
    return 0;
}

int auth_session(struct api *api, const struct http_request *req, struct session **out,
                 struct key **key, struct err *err)
{
    struct web_cookies cookies;
    struct str token = {0};

    web_cookies_read(req, &cookies);
    if (cookies.n == 0) {
        return -ENOENT;
    }
    int r = csrf_check(req, &cookies, &token, err);
    if (r < 0) {
        return r;
    }
    struct session *session = sessions_find(api->sessions, token, clock_wall_ms());
    return session_use(api, session, out, key, err);
}

/* Our own programs act for a session by its handle. They come by a socket of this machine, which
 * has no address. */
static bool is_handle(const struct http_request *req, struct str text)
{
    return req->peer.len == 0 && str_starts(text, STR(SESSION_HANDLE_PREFIX));
}

/* ---- one request ---- */

int auth_check(struct api *api, const struct http_request *req, struct key **out, struct err *err)
{
    struct str text = auth_key_text(req);
    struct session *session = NULL;

    if (!text.at || text.len == 0) {
        int r = auth_session(api, req, &session, out, err);
        return r == -ENOENT ? refuse_missing(req, err) : r;
    }
    if (is_handle(req, text)) {
        session = sessions_find_handle(api->sessions, text, clock_wall_ms());
        return session_use(api, session, &session, out, err);
    }
    if (!str_starts(text, STR(KEY_PREFIX)) && !str_starts(text, STR(TOKEN_PREFIX))) {
        return refuse_malformed(req, text, err);
    }
    return auth_check_text(api, text, out, err);
}

int api_authenticate(struct api *api, const struct http_request *req, const char **team_id,
                     struct str *key, bool *read_only, struct err *err)
{
    struct session *session = NULL;
    struct key *found = NULL;
    struct str text = auth_key_text(req);
    int r = text.len > 0 ? -ENOENT : auth_session(api, req, &session, &found, err);

    if (r == -ENOENT) {
        r = auth_check(api, req, &found, err);
    }
    if (r == 0) {
        *team_id = found->team->id;
        *key = session ? str_of(session->handle) : text;
        *read_only = found->read_only;
    }
    return r;
}

/* The admin may act for a team that it names. */
static int authenticate_admin(struct call *call, const struct http_request *req, struct err *err)
{
    struct str team = str_trim(http_header_get(req, "x-team-id"));
    char id[ID_UUID_LEN + 1] = "";
    int r = admin_check(call->api, req, &call->admin, err);

    if (r < 0 || call->route->access == ACCESS_ADMIN) {
        return r;
    }
    (void)str_copy(id, sizeof(id), team);
    call->team = accounts_team(call->api, id);
    return call->team ? 0
                      : err_set(err, EACCES,
                                "Invalid admin token teamID: X-Team-ID names no team of this "
                                "server");
}

static bool is_reading(const struct route *route)
{
    return route->flags & READS || (strcmp(route->method, "GET") == 0 && !(route->flags & WRITES));
}

/* Fills the call with what the key may. */
static int take_key(struct call *call, const struct key *key, struct err *err)
{
    assert(key); /* of a check that succeeded */
    if (key->read_only && !is_reading(call->route)) {
        return err_set(err, EPERM,
                       "this API key is read-only: it may look at everything of its team, and "
                       "change nothing");
    }
    call->team = key->team;
    call->read_only = key->read_only;
    memcpy(call->key_id, key->id, sizeof(call->key_id));
    return 0;
}

static int authenticate_page(struct call *call, const struct http_request *req, struct err *err)
{
    struct key *key = NULL;
    int r = auth_page(call->api, req, &key, err);

    call->by_session = true;
    return r < 0 ? r : take_key(call, key, err);
}

static int authenticate_team(struct call *call, const struct http_request *req, struct err *err)
{
    struct key *key = NULL;

    if (!auth_key_text(req).at && http_header_get(req, "x-admin-token").at) {
        return authenticate_admin(call, req, err);
    }
    int r = auth_check(call->api, req, &key, err);
    if (r < 0) {
        return r;
    }
    /* A key with limits could make itself another without. */
    if (call->route->access == ACCESS_FULL_KEY && limits_any(&key->limits)) {
        return err_set(
            err, EPERM,
            "this API key has limits: it cannot make, change or delete keys, nor read the "
            "audit log");
    }
    call->by_session = auth_key_text(req).len == 0;
    return take_key(call, key, err);
}

static int authenticate_upload(struct call *call, struct err *err)
{
    call->team = upload_team(call);
    return call->team ? 0 : err_set(err, EPERM, "this address takes no upload: ask for a new one");
}

static int authenticate_volume(struct call *call, const struct http_request *req, struct err *err)
{
    const struct volume *volume =
        volumes_admit(call->api->options.volumes, str_of(call->param), auth_key_text(req), err);

    if (!volume) {
        return -EACCES;
    }
    call->volume = volume;
    call->team = accounts_team(call->api, volume->team_id);
    return call->team ? 0 : err_set(err, EACCES, "the team of this volume is unknown");
}

int call_authenticate(struct call *call, struct err *err)
{
    const struct http_request *req = http_request(call->ex);

    switch (call->route->access) {
    case ACCESS_NONE:
        return 0;
    case ACCESS_KEY:
    case ACCESS_FULL_KEY:
    case ACCESS_INTERNAL:
        return authenticate_team(call, req, err);
    case ACCESS_ADMIN:
        return authenticate_admin(call, req, err);
    case ACCESS_PAGE:
        return authenticate_page(call, req, err);
    case ACCESS_UPLOAD_TOKEN:
        return authenticate_upload(call, err);
    case ACCESS_VOLUME_TOKEN:
        return authenticate_volume(call, req, err);
    }
    return err_set(err, EACCES, "the route has no way to authenticate");
}
