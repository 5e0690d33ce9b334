/* Teams and keys in memory. A key is known by its SHA-256 alone: the text is shown once, when it is
 * made, and kept nowhere. The hash needs no salt: the text is 160 random bits, not a password. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "api/internal.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/encode.h"
#include "base/log.h"

static char *copy(const char *text)
{
    char *out = strdup(text);

    if (!out) {
        abort();
    }
    return out;
}

struct team *accounts_add_team(struct api *api, const char *id, const char *name)
{
    struct team *team = xnew(struct team);

    (void)snprintf(team->id, sizeof(team->id), "%s", id);
    team->name = copy(name);
    LL_APPEND(api->teams, team);
    return team;
}

static const struct team *team_find(const struct api *api, const char *id)
{
    const struct team *team;

    LL_FOREACH (api->teams, team) {
        if (strcmp(team->id, id) == 0) {
            return team;
        }
    }
    return NULL;
}

/* ---- keys ---- */

struct key *key_new(const struct team *team, const char *name, char text[KEY_TEXT_LEN + 1])
{
    struct key *key = xnew(struct key);

    memcpy(text, KEY_PREFIX, sizeof(KEY_PREFIX));
    id_hex(text + strlen(KEY_PREFIX), KEY_HEX_LEN / 2);
    id_uuid(key->id);
    sha256_hex(text, KEY_TEXT_LEN, key->hash);
    (void)snprintf(key->masked, sizeof(key->masked), KEY_PREFIX "%.2s...%s",
                   text + strlen(KEY_PREFIX), text + KEY_TEXT_LEN - 4);
    key->name = copy(name);
    key->team = team;
    key->created_ms = clock_wall_ms();
    return key;
}

void key_free(struct key *key)
{
    if (key) {
        free(key->name);
        free(key);
    }
}

struct key_row key_row(const struct key *key)
{
    return (struct key_row){
        .id = key->id,
        .team_id = key->team->id,
        .name = key->name,
        .hash = key->hash,
        .prefix = KEY_PREFIX,
        .masked = key->masked,
        .created_ms = key->created_ms,
        .last_used_ms = key->last_used_ms,
    };
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

/* ---- loading ---- */

static void on_team(void *ctx, const struct team_row *row)
{
    (void)accounts_add_team(ctx, row->id, row->name);
}

static void on_key(void *ctx, const struct key_row *row)
{
    struct api *api = ctx;
    const struct team *team = team_find(api, row->team_id);
    struct key *key = xnew(struct key);

    if (!team || !str_copy(key->id, sizeof(key->id), str_of(row->id)) ||
        !str_copy(key->hash, sizeof(key->hash), str_of(row->hash)) ||
        !str_copy(key->masked, sizeof(key->masked), str_of(row->masked))) {
        log_error("API key %s in the database is damaged: it does not work", row->id);
        free(key);
        return;
    }
    key->name = copy(row->name);
    key->team = team;
    key->created_ms = row->created_ms;
    key->last_used_ms = key->used_saved_ms = row->last_used_ms;
    accounts_add(api, key);
}

int accounts_load(struct api *api, struct err *err)
{
    int r = store_load_teams(api->options.store, on_team, api, err);

    if (r == 0) {
        r = store_load_keys(api->options.store, on_key, api, err);
    }
    return r < 0 ? err_wrap(err, "load the API keys") : 0;
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
