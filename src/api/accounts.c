/* Teams and keys in memory. */
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "api/internal.h"
#include "base/alloc.h"
#include "base/encode.h"

struct team *accounts_add_team(struct api *api, const char *id, const char *name)
{
    struct team *team = xnew(struct team);

    (void)snprintf(team->id, sizeof(team->id), "%s", id);
    team->name = xstrdup(name);
    LL_APPEND(api->teams, team);
    return team;
}

void accounts_add(struct api *api, struct key *key)
{
    HASH_ADD_STR(api->keys, hash, key);
}

void accounts_remove(struct api *api, struct key *key)
{
    HASH_DEL(api->keys, key);
}

struct key *accounts_find_text(struct api *api, struct str key_text)
{
    char hash[SHA256_HEX_LEN + 1];
    struct key *key;

    sha256_hex(key_text.at, key_text.len, hash);
    HASH_FIND_STR(api->keys, hash, key);
    return key;
}

struct key *accounts_find_id(struct api *api, const struct team *team, const char *id)
{
    struct key *key, *next;

    HASH_ITER (hh, api->keys, key, next) {
        if (key->team == team && strcmp(key->id, id) == 0) {
            return key;
        }
    }
    return NULL;
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

    HASH_ITER (hh, api->keys, key, key_next) {
        HASH_DEL(api->keys, key);
        key_free(key);
    }
    LL_FOREACH_SAFE (api->teams, team, team_next) {
        free(team->name);
        free(team);
    }
}
