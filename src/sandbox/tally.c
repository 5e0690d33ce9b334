/* tally.c - of each team, how many of its sandboxes live and run; and which one a key has made.
 *
 * Both are asked for with every create and every list, so they are kept up with each change of a
 * state instead of being counted or searched for.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "sandbox/internal.h"

struct team_tally {
    UT_hash_handle hh;
    char id[ID_UUID_LEN + 1];
    uint32_t alive, running;
};

/* ---- how many ---- */

static struct team_tally *team_find(const struct sandboxes *all, const char *id)
{
    struct team_tally *team = NULL;

    HASH_FIND_STR(all->teams, id, team);
    return team;
}

static struct team_tally *team_of(struct sandboxes *all, const char *id)
{
    struct team_tally *team = team_find(all, id);

    if (!team) {
        team = xnew(struct team_tally);
        (void)str_copy(team->id, sizeof(team->id), str_of(id));
        HASH_ADD_STR(all->teams, id, team);
    }
    return team;
}

static void team_count(struct sandbox *sb, bool alive, bool running)
{
    struct team_tally *team = team_of(sb->all, sb->team_id);

    team->alive = team->alive - sb->counted_alive + alive;
    team->running = team->running - sb->counted_running + running;
    sb->counted_alive = alive;
    sb->counted_running = running;
    if (team->alive == 0 && team->running == 0) {
        HASH_DEL(sb->all->teams, team);
        free(team);
    }
}

uint32_t sandboxes_count(const struct sandboxes *all, const char *team_id)
{
    const struct team_tally *team = team_find(all, team_id);

    return team ? team->alive : 0;
}

uint32_t sandboxes_running(const struct sandboxes *all, const char *team_id)
{
    const struct team_tally *team = team_find(all, team_id);

    return team ? team->running : 0;
}

/* ---- by key ---- */

static void key_of(const char *team_id, const char *key, char out[TALLY_KEY_BYTES])
{
    (void)snprintf(out, TALLY_KEY_BYTES, "%s %s", team_id, key);
}

static void key_keep(struct sandbox *sb, bool there)
{
    const char *key = json_string_value(json_object_get(sb->options, SANDBOX_KEY_OPTION));

    if (there && key && !sb->key) {
        char text[TALLY_KEY_BYTES];
        key_of(sb->team_id, key, text);
        sb->key = xstrdup(text);
        HASH_ADD_KEYPTR(hh_key, sb->all->by_key, sb->key, strlen(sb->key), sb);
    } else if (!there && sb->key) {
        HASH_DELETE(hh_key, sb->all->by_key, sb);
        free(move_ptr(&sb->key));
    }
}

struct sandbox *sandboxes_find_key(const struct sandboxes *all, const char *team_id,
                                   const char *key)
{
    struct sandbox *sb = NULL;
    char text[TALLY_KEY_BYTES];

    key_of(team_id, key, text);
    HASH_FIND(hh_key, all->by_key, text, strlen(text), sb);
    return sb && sb->state != SANDBOX_STARTING ? sb : NULL;
}

/* ---- changes ---- */

void tally_note(struct sandbox *sb)
{
    bool there = sb->team_id && !sb->hidden && sb->state != SANDBOX_KILLING;
    bool alive = there && sb->state != SANDBOX_PAUSED;
    bool running = there && sb->state == SANDBOX_RUNNING;

    if (alive != sb->counted_alive || running != sb->counted_running) {
        team_count(sb, alive, running);
    }
    key_keep(sb, there);
}
