#include <ctype.h>
#include <errno.h>

#include "lib/base/clock.h"
#include "serve/api/internal.h"

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

int auth_check(struct api *api, const struct http_request *req, struct key **out, struct err *err)
{
    struct str text = auth_key_text(req);
    bool is_token = str_starts(text, STR(TOKEN_PREFIX));
    struct str plain = is_token ? str_skip(text, strlen("sk_")) : text;

    if (!text.at || text.len == 0) {
        return refuse_missing(req, err);
    }
    if (!str_starts(plain, STR(KEY_PREFIX))) {
        return refuse_malformed(req, text, err);
    }
    if (plain.len != KEY_TEXT_LEN || !is_hex(str_skip(plain, strlen(KEY_PREFIX)))) {
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

int api_authenticate(struct api *api, const struct http_request *req, const char **team_id,
                     struct str *key, struct err *err)
{
    struct key *found = NULL;
    int r = auth_check(api, req, &found, err);

    if (r == 0) {
        *team_id = found->team->id;
        *key = auth_key_text(req);
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
    call->team = key->team;
    memcpy(call->key_id, key->id, sizeof(call->key_id));
    return 0;
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
    case ACCESS_UPLOAD_TOKEN:
        return authenticate_upload(call, err);
    case ACCESS_VOLUME_TOKEN:
        return authenticate_volume(call, req, err);
    }
    return err_set(err, EACCES, "the route has no way to authenticate");
}
