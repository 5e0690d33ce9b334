/* Teams and keys in memory. */
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/encode.h"
#include "serve/api/internal.h"
#include "serve/web/sessions.h"

struct team *accounts_add_team(struct api *api, const struct team_row *row)
{
    struct team *team = xnew(struct team);

    (void)snprintf(team->id, sizeof(team->id), "%s", row->id);
    team->name = xstrdup(row->name);
    team->created_ms = row->created_ms;
    team->limits = limits_read(row->limits);
    LL_APPEND(api->teams, team);
    return team;
}

struct team *accounts_team(const struct api *api, const char *id)
{
    struct team *team;

    LL_FOREACH (api->teams, team) {
        if (strcmp(team->id, id) == 0) {
            return team;
        }
    }
    return NULL;
}

void accounts_add(struct api *api, struct key *key)
{
    HASH_ADD_STR(api->keys, hash, key);
    HASH_ADD(hh_id, api->keys_by_id, id, strlen(key->id), key);
}

void accounts_remove(struct api *api, struct key *key)
{
    HASH_DEL(api->keys, key);
    HASH_DELETE(hh_id, api->keys_by_id, key);
    if (api->sessions) {
        sessions_end_of_key(api->sessions, key->id);
    }
}

/* An access token is its key with "sk_" before it. No other key has that spelling. */
struct key *accounts_find_text(struct api *api, struct str key_text)
{
    bool as_token = str_starts(key_text, STR(TOKEN_PREFIX));
    struct str plain = as_token ? str_skip(key_text, strlen("sk_")) : key_text;
    char hash[SHA256_HEX_LEN + 1];
    struct key *key;

    sha256_hex(plain.at, plain.len, hash);
    HASH_FIND_STR(api->keys, hash, key);
    return key && (!as_token || key->is_token) ? key : NULL;
}

struct key *accounts_find_id(struct api *api, const struct team *team, const char *id)
{
    struct key *key = NULL;

    HASH_FIND(hh_id, api->keys_by_id, id, strlen(id), key);
    return key && key->team == team ? key : NULL;
}

size_t accounts_count(struct api *api, const struct team *team)
{
    struct key *key, *next;
    size_t n = 0;

    HASH_ITER (hh, api->keys, key, next) {
        n += key->team == team;
    }
    return n;
}

void api_key_hashes_each(const struct api *api, const char *team_id,
                         void (*each)(void *ctx, const char *hash), void *ctx)
{
    const struct key *key, *next;

    HASH_ITER (hh, api->keys, key, next) {
        if (strcmp(key->team->id, team_id) == 0) {
            each(ctx, key->hash);
        }
    }
}

void accounts_free(struct api *api)
{
    struct key *key, *key_next;
    struct team *team, *team_next;

    sessions_free(move_ptr(&api->sessions)); /* first: they are to last longer than this daemon */
    HASH_ITER (hh, api->keys, key, key_next) {
        accounts_remove(api, key);
        key_free(key);
    }
    LL_FOREACH_SAFE (api->teams, team, team_next) {
        free(team->name);
        free(team);
    }
}
