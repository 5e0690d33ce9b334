/* sessions.c - /dashboard/session and /dashboard/links: logs in to the dashboard, and out.
 *
 * Whoever can read the answer of GET /dashboard/session can use the session, because the answer
 * has the token for X-Atoll-CSRF. It is therefore sent without CORS headers: no page of another
 * origin can read it. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "serve/api/internal.h"
#include "serve/web/sessions.h"

enum { NUMBER_BYTES = 24 };

/* ---- pages of others ---- */

/* A browser says which page asks, in headers that no page can set; programs send neither. The
 * scheme may differ: a proxy before us may have ended TLS. */
static bool is_own_origin(const struct http_request *req)
{
    struct str origin = str_trim(http_header_get(req, "origin"));
    struct str rest = str_skip(origin, str_find(origin, ':'));

    return str_starts(rest, STR("://")) && str_ieq(str_skip(rest, 3), req->authority);
}

static bool is_foreign_page(const struct http_request *req)
{
    struct str site = str_trim(http_header_get(req, "sec-fetch-site"));

    if (site.len > 0 && !str_ieq(site, STR("same-origin")) && !str_ieq(site, STR("none"))) {
        return true;
    }
    return http_header_get(req, "origin").at && !is_own_origin(req);
}

static bool refuse_foreign(struct call *call)
{
    if (!call_gone(call) && is_foreign_page(http_request(call->ex))) {
        call_fail(call, 403,
                  "a page of another origin cannot use the dashboard's session (behind a proxy: "
                  "it must pass the Host header on)");
        return true;
    }
    return false;
}

/* ---- what a page is told ---- */

static json_t *session_json(struct api *api, const struct session *session, const struct key *key,
                            struct str token)
{
    const char *domain = api->options.domain;
    char csrf[SHA256_HEX_LEN + 1];
    json_t *out = json_object();

    session_csrf(token, csrf);
    (void)json_object_set_new(out, "team",
                              json_pack("{ssss}", "id", key->team->id, "name", key->team->name));
    (void)json_object_set_new(out, "key", json_pack("{ssss}", "id", key->id, "name", key->name));
    (void)json_object_set_new(out, "readOnly", json_boolean(key->read_only));
    (void)json_object_set_new(out, "operator",
                              json_boolean(admin_id_works(api, session->admin_key_id)));
    (void)json_object_set_new(out, "csrf", json_string(csrf));
    (void)json_object_set_new(out, "expiresAt", stamp_json(session_end_ms(session)));
    (void)json_object_set_new(out, "version", json_string(ATOLL_VERSION));
    (void)json_object_set_new(out, "domain", domain ? json_string(domain) : json_null());
    return out;
}

static void cookie_set(struct call *call, const char *token)
{
    char cookie[WEB_COOKIE_BYTES];

    if (!call_gone(call)) {
        web_cookie_write(http_request(call->ex), token, SESSION_MAX_MS / 1000, cookie);
        call_header(call, "Set-Cookie", cookie);
        explicit_bzero(cookie, sizeof(cookie));
    }
}

/* ---- beginning ---- */

struct login {
    struct call *call;
    char token[WEB_TOKEN_LEN + 1];
    bool is_new; /* the cookie is to be set; a session that was not saved ends */
};

static void login_free(struct login *login)
{
    explicit_bzero(login->token, sizeof(login->token));
    free(login);
}

/* A session was begun, or has got the operator's rights. */
static void on_saved(void *ctx, int error, const struct err *err)
{
    struct login *login = ctx;
    struct call *call = login->call;
    struct str token = str_of(login->token);
    struct session *session = sessions_find(call->api->sessions, token, clock_wall_ms());
    const struct key *key = session ? session_key(call->api, session) : NULL;

    if (error < 0) {
        if (key && login->is_new) {
            sessions_end(call->api->sessions, session, NULL, NULL);
        }
        call_fail_err(call, error, err);
    } else if (!key) {
        call_fail(call, 401, "the session has ended: log in again");
    } else {
        if (login->is_new) {
            cookie_set(call, login->token);
        }
        call_json(call, 201, session_json(call->api, session, key, token));
    }
    login_free(login);
}

static void begin(struct call *call, const struct key *key, const char *admin_key_id)
{
    struct login *login = xnew(struct login);

    login->call = call;
    login->is_new = true;
    audit_begin_as(call, key, "session.begin");
    (void)sessions_begin(call->api->sessions, key->id, admin_key_id, clock_wall_ms(), login->token,
                         on_saved, login);
}

/* Counts the failure, against those who try many. */
static void fail_login(struct call *call, int error, const struct err *err)
{
    if (!call_gone(call)) {
        logins_failed(call->api->sessions, http_request(call->ex)->peer, clock_wall_ms());
    }
    call_fail(call, status_of_errno(STATUS_LOGIN, error), "%s", err->msg);
}

static bool refuse_often(struct call *call)
{
    struct str source = call_gone(call) ? STR("") : http_request(call->ex)->peer;
    int64_t wait_s = logins_wait_s(call->api->sessions, source, clock_wall_ms());
    char seconds[NUMBER_BYTES];

    if (wait_s == 0) {
        return false;
    }
    (void)snprintf(seconds, sizeof(seconds), "%" PRId64, wait_s);
    call_header(call, "Retry-After", seconds);
    call_fail(call, 429, "%d logins from this address have failed: try again in %s s",
              LOGIN_FAILURES_MAX, seconds);
    return true;
}

static void begin_by_link(struct call *call, const char *link)
{
    char key_id[ID_UUID_LEN + 1], admin_key_id[ID_UUID_LEN + 1];
    struct key *key = NULL;
    struct err err;

    if (links_take(call->api->sessions, str_of(link), clock_wall_ms(), key_id, admin_key_id)) {
        HASH_FIND(hh_id, call->api->keys_by_id, key_id, strlen(key_id), key);
    }
    if (key) {
        begin(call, key, admin_key_id);
        return;
    }
    (void)!err_set(&err, EACCES,
                   "this link does not work: it was used already, or is older than %d s; `atoll "
                   "open` makes a new one",
                   LINK_MS / 1000);
    fail_login(call, -EACCES, &err);
}

static int admin_of(struct call *call, const struct key *key, const char *text,
                    struct admin_key **out, struct err *err)
{
    if (!text) {
        return 0;
    }
    *out = admin_find_text(call->api, str_of(text), err);
    if (!*out) {
        return -EACCES;
    }
    return key->read_only ? err_set(err, EPERM,
                                    "a session of a read-only API key cannot have the rights of "
                                    "the operator")
                          : 0;
}

static void begin_by_key(struct call *call, const char *key_text, const char *admin_text)
{
    struct admin_key *admin = NULL;
    struct key *key = NULL;
    struct err err;
    int r = auth_check_text(call->api, str_trim(str_of(key_text)), &key, &err);

    if (r == 0) {
        r = admin_of(call, key, admin_text, &admin, &err);
    }
    if (r < 0) {
        fail_login(call, r, &err);
    } else {
        begin(call, key, admin ? admin->id : "");
    }
}

/* ---- the operator's rights ---- */

/* The value of the cookie that auth_session() has taken. */
static bool token_of(const struct http_request *req, const struct session *session, char *out)
{
    char hash[SHA256_HEX_LEN + 1];
    struct web_cookies cookies;

    web_cookies_read(req, &cookies);
    for (size_t i = 0; i < cookies.n; i++) {
        sha256_hex(cookies.values[i].at, cookies.values[i].len, hash);
        if (strcmp(hash, session->hash) == 0) {
            return str_copy(out, WEB_TOKEN_LEN + 1, cookies.values[i]);
        }
    }
    return false;
}

static void elevate(struct call *call, const char *admin_text)
{
    struct session *session = NULL;
    struct admin_key *admin = NULL;
    struct key *key = NULL;
    struct err err;
    int r = auth_session(call->api, http_request(call->ex), &session, &key, &err);

    if (r == -ENOENT) {
        call_fail(call, 401, "there is no session to add an admin key to: log in with an API key");
        return;
    }
    if (r < 0) {
        call_fail(call, status_of_errno(STATUS_LOGIN, r), "%s", err.msg);
        return;
    }
    call->by_session = true;
    audit_begin_as(call, key, "session.elevate");
    r = admin_of(call, key, admin_text, &admin, &err);
    if (r < 0) {
        fail_login(call, r, &err);
        return;
    }
    struct login *login = xnew(struct login);
    login->call = call;
    (void)token_of(http_request(call->ex), session, login->token);
    sessions_elevate(call->api->sessions, session, admin->id, on_saved, login);
}

/* ---- /dashboard/session ---- */

static int fields_parse(const json_t *body, const char **key, const char **link, const char **admin,
                        struct err *err)
{
    int r = field_string(body, "apiKey", key, err);

    r = r < 0 ? r : field_string(body, "link", link, err);
    r = r < 0 ? r : field_string(body, "adminKey", admin, err);
    if (r == 0 && ((!*key && !*link && !*admin) || (*link && (*key || *admin)))) {
        r = err_set(err, EINVAL,
                    "validation error: send apiKey, link or adminKey (adminKey may stand beside "
                    "apiKey)");
    }
    return r;
}

void handle_session_begin(struct call *call, const json_t *body)
{
    const char *key = NULL, *link = NULL, *admin = NULL;
    struct err err;
    int r = fields_parse(body, &key, &link, &admin, &err);

    if (r < 0) {
        call_fail_err(call, r, &err);
    } else if (call_gone(call)) {
        call_free(call);
    } else if (!refuse_foreign(call) && !refuse_often(call)) {
        if (link) {
            begin_by_link(call, link);
        } else if (key) {
            begin_by_key(call, key, admin);
        } else {
            elevate(call, admin);
        }
    }
}

/* Looks at the cookie alone: this call is where a page learns its token for X-Atoll-CSRF. If two
 * cookies have a session each, another page has set one of them, so none is taken. */
static struct session *session_of_cookie(struct api *api, const struct http_request *req,
                                         struct str *token)
{
    struct session *found = NULL;
    struct web_cookies cookies;
    size_t n = 0;

    web_cookies_read(req, &cookies);
    for (size_t i = 0; i < cookies.n; i++) {
        struct session *one = sessions_find(api->sessions, cookies.values[i], clock_wall_ms());

        if (one && one != found) {
            n++;
            found = one;
            *token = cookies.values[i];
        }
    }
    return n == 1 ? found : NULL;
}

void handle_session_get(struct call *call, const json_t *body)
{
    struct str token = {0};

    (void)body;
    if (call_gone(call)) {
        call_free(call);
        return;
    }
    if (refuse_foreign(call)) {
        return;
    }
    struct session *session = session_of_cookie(call->api, http_request(call->ex), &token);
    const struct key *key = session ? session_key(call->api, session) : NULL;
    if (!key) {
        call_fail(call, 401, "there is no session: log in with an API key, or by `atoll open`");
        return;
    }
    sessions_use(call->api->sessions, session, clock_wall_ms());
    call_json(call, 200, session_json(call->api, session, key, token));
}

void handle_session_end(struct call *call, const json_t *body)
{
    struct session *session = NULL;
    struct key *key = NULL;
    struct err err;

    (void)body;
    if (call_gone(call)) {
        call_free(call);
        return;
    }
    int r = auth_session(call->api, http_request(call->ex), &session, &key, &err);
    if (r == -EPERM) {
        call_fail(call, 403, "%s", err.msg);
        return;
    }
    cookie_set(call, NULL);
    if (r == 0) {
        call->by_session = true;
        audit_begin_as(call, key, "session.end");
        sessions_end(call->api->sessions, session, call_recorded, call);
    } else {
        call_empty(call, 204); /* it has ended before */
    }
}

/* ---- /dashboard/links ---- */

void handle_link_make(struct call *call, const json_t *body)
{
    struct str admin_text =
        call_gone(call) ? (struct str){0}
                        : str_trim(http_header_get(http_request(call->ex), "x-admin-token"));
    int64_t now_ms = clock_wall_ms();
    struct admin_key *admin = NULL;
    char token[WEB_TOKEN_LEN + 1];
    struct err err;

    (void)body;
    if (call->by_session || !call->key_id[0]) {
        call_fail(call, 403, "a link into the dashboard is made with an API key");
        return;
    }
    if (admin_text.len > 0 && !(admin = admin_find_text(call->api, admin_text, &err))) {
        call_fail(call, 401, "%s", err.msg);
        return;
    }
    if (admin && call->read_only) {
        call_fail(call, 403,
                  "a session of a read-only API key cannot have the rights of the operator");
        return;
    }
    links_make(call->api->sessions, call->key_id, admin ? admin->id : "", now_ms, token);
    call_json(call, 201,
              json_pack("{ssso}", "link", token, "expiresAt", stamp_json(now_ms + LINK_MS)));
    explicit_bzero(token, sizeof(token));
}

/* ---- /dashboard/sandboxes/{}/stream/{} ---- */

int auth_page(struct api *api, const struct http_request *req, struct key **key, struct err *err)
{
    struct str token = {0};

    if (!is_own_origin(req)) {
        return err_set(err, EPERM, "only a page of the dashboard opens this WebSocket");
    }
    struct session *session = session_of_cookie(api, req, &token);
    struct key *of_session = session ? session_key(api, session) : NULL;
    if (!of_session) {
        return err_set(err, EACCES, "there is no session: log in again");
    }
    sessions_use(api->sessions, session, clock_wall_ms());
    *key = of_session;
    return 0;
}

static bool port_parse(const char *text, uint16_t *out)
{
    char *end = NULL;
    unsigned long port = strtoul(text, &end, 10);

    *out = (uint16_t)port;
    return text[0] >= '1' && text[0] <= '9' && !*end && port <= UINT16_MAX;
}

/* A path that can stand in a request: no spaces, no control characters. */
static bool target_ok(struct str target)
{
    for (size_t i = 0; i < target.len; i++) {
        if (target.at[i] <= ' ' || target.at[i] > '~') {
            return false;
        }
    }
    return str_starts(target, STR("/")) && target.len < API_PARAM_BYTES;
}

static void refuse_stream(struct call *call, int status, const char *sentence)
{
    call->refused = status;
    (void)snprintf(call->refusal, sizeof(call->refusal), "%s", sentence);
}

/* The screen of a desktop is a WebSocket of the program that serves it, at /websockify. */
bool stream_screen(struct call *call)
{
    const struct http_request *req = http_request(call->ex);
    char target[API_PARAM_BYTES] = "/websockify";
    scoped_buf(path, API_PARAM_BYTES);
    uint16_t port = 0;
    struct str id = {0};

    if (!req->upgrade || !str_ieq(http_header_get(req, "upgrade"), STR("websocket"))) {
        refuse_stream(call, 400, "validation error: this path takes WebSockets alone");
    } else if (!port_parse(call->param, &port) || !sandbox_id_cut(call->first, &id)) {
        refuse_stream(call, 400, "validation error: the path has no sandbox and port");
    } else if (http_query_get(req->query, "path", &path) < 0 ||
               (buf_len(&path) > 0 && (!target_ok(buf_str(&path)) ||
                                       !str_copy(target, sizeof(target), buf_str(&path))))) {
        refuse_stream(call, 400, "validation error: path is no path");
    }
    if (!call->refused && !call->api->options.stream) {
        refuse_stream(call, 503, "this server passes no WebSockets on");
    }
    if (call->refused) {
        return false;
    }
    char name[API_PARAM_BYTES];
    (void)str_copy(name, sizeof(name), id);
    struct http_exchange *ex = call->ex;
    const struct api_options *options = &call->api->options;
    options->stream(options->stream_ctx, ex, call->team->id, name, port, target);
    figures_note(call, 101);
    call_free(call);
    return true;
}
