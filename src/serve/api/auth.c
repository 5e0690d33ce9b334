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

/* Of the kind that names a scheme: fit to be repeated to whoever sent it. */
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

/* Which of the usual mistakes it is; the sentences name what to send instead. */
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

/* What stands in Authorization without being a bearer token is none that is missing. */
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
