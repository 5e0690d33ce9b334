/* A key is known by its SHA-256 alone: the text is shown once, when it is made, and kept nowhere.
 * The hash needs no salt: the text is 160 random bits, not a password. */
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/encode.h"
#include "serve/api/internal.h"

void key_text_make(const char *prefix, char *text, char hash[SHA256_HEX_LEN + 1],
                   char masked[KEY_MASK_BYTES])
{
    const size_t len = strlen(prefix);

    memcpy(text, prefix, len + 1);
    id_hex(text + len, KEY_HEX_LEN / 2);
    sha256_hex(text, len + KEY_HEX_LEN, hash);
    (void)snprintf(masked, KEY_MASK_BYTES, "%s%.2s...%s", prefix, text + len,
                   text + len + KEY_HEX_LEN - 4);
}

struct key *key_new(const struct team *team, const char *name, char text[KEY_TEXT_LEN + 1])
{
    struct key *key = xnew(struct key);

    key_text_make(KEY_PREFIX, text, key->hash, key->masked);
    id_uuid(key->id);
    key->name = xstrdup(name);
    key->team = team;
    key->limits = limits_none();
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

void key_save(struct api *api, const struct key *key, store_done *done, void *ctx)
{
    char limits[LIMITS_TEXT_BYTES];

    limits_write(&key->limits, limits);
    struct key_row row = {
        .id = key->id,
        .team_id = key->team->id,
        .name = key->name,
        .hash = key->hash,
        .prefix = key->is_token ? TOKEN_PREFIX : KEY_PREFIX,
        .masked = key->masked,
        .limits = limits,
        .read_only = key->read_only,
        .created_ms = key->created_ms,
        .last_used_ms = key->last_used_ms,
    };
    store_key_save(api->options.store, &row, done, ctx);
}

struct key *key_from_row(const struct team *team, const struct key_row *row)
{
    struct key *key = xnew(struct key);

    if (!str_copy(key->id, sizeof(key->id), str_of(row->id)) ||
        !str_copy(key->hash, sizeof(key->hash), str_of(row->hash)) ||
        !str_copy(key->masked, sizeof(key->masked), str_of(row->masked))) {
        free(key);
        return NULL;
    }
    key->name = xstrdup(row->name);
    key->team = team;
    key->is_token = strcmp(row->prefix, TOKEN_PREFIX) == 0;
    key->limits = limits_read(row->limits);
    key->read_only = row->read_only;
    key->created_ms = row->created_ms;
    key->last_used_ms = key->used_saved_ms = row->last_used_ms;
    return key;
}
