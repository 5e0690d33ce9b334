/* usage_sums.c - for each account, how many sandboxes it has and what they use; and the sandbox
 * that a create with an idempotency key has made.
 *
 * An account is a team, or the API key that made a sandbox. Every create and every list asks for
 * both, so the sums are updated with each change of a state instead of being counted. Usage over
 * time is exact for the same reason: each change adds what was in use until then. An account is
 * never removed while the daemon runs: teams and keys are few.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "serve/sandbox/internal.h"

struct account {
    UT_hash_handle hh;
    char id[ID_UUID_LEN + 1];
    struct sandboxes_used used;
    int64_t until_ms; /* monotonic: the sums over time are those of that moment */
};

/* ---- sums ---- */

static struct account *account_find(const struct sandboxes *all, const char *id)
{
    struct account *account = NULL;

    HASH_FIND_STR(all->accounts, id, account);
    return account;
}

static struct account *account_of(struct sandboxes *all, const char *id)
{
    struct account *account = account_find(all, id);

    if (!account) {
        account = xnew(struct account);
        (void)str_copy(account->id, sizeof(account->id), str_of(id));
        account->until_ms = clock_mono_ms();
        HASH_ADD_STR(all->accounts, id, account);
    }
    return account;
}

static void account_settle(struct account *account)
{
    struct sandboxes_used *used = &account->used;
    uint64_t ms = (uint64_t)(clock_mono_ms() - account->until_ms);

    used->sandbox_ms += used->alive * ms;
    used->cpu_ms += used->cpus * ms;
    used->memory_mb_ms += used->memory_mb * ms;
    account->until_ms += (int64_t)ms;
}

static void account_change(struct account *account, const struct usage_part *old,
                           const struct usage_part *now)
{
    struct sandboxes_used *used = &account->used;

    account_settle(account);
    used->alive = used->alive - old->alive + now->alive;
    used->running = used->running - old->running + now->running;
    used->paused = used->paused - old->paused + now->paused;
    used->cpus = used->cpus - old->cpus + now->cpus;
    used->memory_mb = used->memory_mb - old->memory_mb + now->memory_mb;
    used->disk_bytes = used->disk_bytes - old->disk_bytes + now->disk_bytes;
}

struct sandboxes_used sandboxes_used(const struct sandboxes *all, const char *account_id)
{
    struct account *account = account_find(all, account_id);

    if (!account) {
        return (struct sandboxes_used){0};
    }
    account_settle(account);
    return account->used;
}

uint32_t sandboxes_running(const struct sandboxes *all, const char *team_id)
{
    const struct account *account = account_find(all, team_id);

    return account ? account->used.running : 0;
}

void usage_sums_free(struct sandboxes *all)
{
    struct account *account = NULL, *next = NULL;

    HASH_ITER (hh, all->accounts, account, next) {
        HASH_DEL(all->accounts, account);
        free(account);
    }
}

/* ---- by idempotency key ---- */

static void key_of(const char *team_id, const char *key, char out[USAGE_KEY_BYTES])
{
    (void)snprintf(out, USAGE_KEY_BYTES, "%s %s", team_id, key);
}

static void key_keep(struct sandbox *sb, bool there)
{
    const char *key = json_string_value(json_object_get(sb->options, SANDBOX_KEY_OPTION));

    if (there && key && !sb->key) {
        char text[USAGE_KEY_BYTES];
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
    char text[USAGE_KEY_BYTES];

    key_of(team_id, key, text);
    HASH_FIND(hh_key, all->by_key, text, strlen(text), sb);
    return sb && sb->state != SANDBOX_STARTING ? sb : NULL;
}

/* ---- changes ---- */

/* A running sandbox counts with its limits: nothing stops it from using all of that. */
static struct usage_part part_of(const struct sandbox *sb)
{
    bool there = sb->team_id && sandbox_is_users(sb) && sb->state != SANDBOX_KILLING;
    bool paused = there && sb->state == SANDBOX_PAUSED;

    if (!there || paused) {
        return (struct usage_part){
            .paused = paused,
            .disk_bytes = paused ? sb->saved_bytes + sb->saved_disk_bytes : 0,
        };
    }
    return (struct usage_part){
        .alive = 1,
        .running = sb->state == SANDBOX_RUNNING,
        .cpus = sb->cpu_count,
        .memory_mb = sb->memory_mb,
        .disk_bytes = (uint64_t)sb->disk_mb << 20,
    };
}

void usage_sums_update(struct sandbox *sb)
{
    struct usage_part now = part_of(sb);
    const char *maker = json_string_value(json_object_get(sb->options, SANDBOX_MAKER_OPTION));

    if (sb->team_id && memcmp(&now, &sb->counted, sizeof(now)) != 0) {
        account_change(account_of(sb->all, sb->team_id), &sb->counted, &now);
        if (maker) {
            account_change(account_of(sb->all, maker), &sb->counted, &now);
        }
        sb->counted = now;
    }
    key_keep(sb, sb->team_id && sandbox_is_users(sb) && sb->state != SANDBOX_KILLING);
}
