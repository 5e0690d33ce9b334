#include <ctype.h>
#include <errno.h>

#include "api/internal.h"
#include "base/clock.h"

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

/* "Last used" may lag behind on disk; it must not turn every call into a write. */
static void key_used(struct api *api, struct key *key)
{
    key->last_used_ms = clock_wall_ms();
    if (key->last_used_ms - key->used_saved_ms >= KEY_USED_SAVE_MS) {
        struct key_row row = key_row(key);

        key->used_saved_ms = key->last_used_ms;
        store_key_save(api->options.store, &row, NULL, NULL);
    }
}

int auth_check(struct api *api, const struct http_request *req, const struct team **out,
               struct err *err)
{
    struct str text = auth_key_text(req);

    if (!text.at || text.len == 0) {
        return err_set(err, EACCES,
                       "authorization header is missing: send the API key as X-API-Key");
    }
    if (!str_starts(text, STR(KEY_PREFIX))) {
        return err_set(err, EACCES, "authorization header is malformed: a key begins with e2b_");
    }
    if (text.len != KEY_TEXT_LEN || !is_hex(str_skip(text, strlen(KEY_PREFIX)))) {
        return err_set(err, EACCES, "Invalid API key format");
    }
    struct key *key = accounts_find_text(api, text);
    if (!key) {
        return err_set(err, EACCES, "Invalid API key: Cannot get the team for the given API key");
    }
    key_used(api, key);
    *out = key->team;
    return 0;
}
