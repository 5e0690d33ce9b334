/* quota.c - the one place where quotas are checked.
 *
 * A call is charged to its team and, where it came with an API key, to that key. Usage is read from
 * the tables that hold the objects and never counted separately: after a restart it is what the
 * store has loaded. All of it runs on the loop's thread, and a new object is in its table, or held
 * here, before the loop continues: many calls at once cannot exceed a limit together. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "serve/api/internal.h"

enum { MIB_BITS = 20 };

struct quota_hold {
    struct quota_hold *prev, *next;
    const struct team *team;
    char key_id[ID_UUID_LEN + 1];
    struct amounts amounts;
};

/* ---- usage ---- */

struct sum {
    struct api *api;
    const struct team *team;
    const char *key_id; /* NULL: of the whole team */
    struct amounts amounts;
    uint64_t disk_bytes;
};

static bool is_of(const struct sum *sum, const char *team_id, const char *id)
{
    const char *maker = sum->key_id ? maker_of(sum->api, id) : NULL;

    return team_id && strcmp(team_id, sum->team->id) == 0 &&
           (!sum->key_id || (maker && strcmp(maker, sum->key_id) == 0));
}

static bool add_build(void *ctx, const struct build_info *info)
{
    struct sum *sum = ctx;

    if (!is_of(sum, info->team_id, info->id)) {
        return true;
    }
    if (info->under_way) {
        sum->amounts.of[LIMIT_BUILDS]++;
        sum->amounts.of[LIMIT_CPUS] += info->cpu_count;
        sum->amounts.of[LIMIT_MEMORY_MB] += info->memory_mb;
        sum->disk_bytes += (uint64_t)info->disk_mb << MIB_BITS;
    } else {
        sum->disk_bytes += info->bytes;
    }
    return true;
}

/* A template's own bytes are those of its builds. */
static void add_snapshot(void *ctx, const struct template *t)
{
    struct sum *sum = ctx;

    if (t->snapshot_of && is_of(sum, t->team_id, t->id)) {
        sum->disk_bytes += t->saved_bytes + t->saved_disk_bytes;
    }
}

static void add_volume(void *ctx, const struct volume *volume)
{
    struct sum *sum = ctx;

    if (is_of(sum, volume->team_id, volume->id)) {
        sum->disk_bytes += (uint64_t)volume->size_mb << MIB_BITS;
    }
}

static void add_sandboxes(struct sum *sum)
{
    struct sandboxes_used used =
        sandboxes_used(sum->api->options.sandboxes, sum->key_id ? sum->key_id : sum->team->id);

    sum->amounts.of[LIMIT_SANDBOXES] += used.alive;
    sum->amounts.of[LIMIT_CPUS] += (int64_t)used.cpus;
    sum->amounts.of[LIMIT_MEMORY_MB] += (int64_t)used.memory_mb;
    sum->disk_bytes += used.disk_bytes;
}

static void add_holds(struct sum *sum)
{
    const struct quota_hold *hold;

    DL_FOREACH (sum->api->holds, hold) {
        if (hold->team == sum->team && (!sum->key_id || strcmp(hold->key_id, sum->key_id) == 0)) {
            for (int i = 0; i < LIMITS; i++) {
                sum->amounts.of[i] += hold->amounts.of[i];
            }
        }
    }
}

struct amounts quota_used(struct api *api, const struct team *team, const char *key_id)
{
    const struct api_options *options = &api->options;
    struct sum sum = {.api = api, .team = team, .key_id = key_id};

    add_sandboxes(&sum);
    add_holds(&sum);
    builds_each(options->builds, NULL, add_build, &sum);
    templates_each(options->templates, team->id, add_snapshot, &sum);
    volumes_each(options->volumes, team->id, add_volume, &sum);
    sum.amounts.of[LIMIT_DISK_MB] += (int64_t)((sum.disk_bytes + (1U << MIB_BITS) - 1) >> MIB_BITS);
    return sum.amounts;
}

/* ---- limits ---- */

struct limits quota_limits(const struct api *api, const struct team *team)
{
    struct limits limits = team->limits;

    if (limits.most[LIMIT_SANDBOXES] == LIMIT_NONE) {
        limits.most[LIMIT_SANDBOXES] = api->options.team_sandboxes_max;
    }
    return limits;
}

/* Most teams have a limit of sandboxes alone, for which nothing has to be summed up. */
static bool is_far(const struct api *api, const struct team *team, const char *key_id,
                   const struct limits *limits, const struct amounts *more)
{
    struct limits others = *limits;
    struct sandboxes_used used = sandboxes_used(api->options.sandboxes, key_id ? key_id : team->id);

    others.most[LIMIT_SANDBOXES] = LIMIT_NONE;
    return !limits_any(&others) && !api->holds &&
           (limits->most[LIMIT_SANDBOXES] == LIMIT_NONE ||
            used.alive + more->of[LIMIT_SANDBOXES] <= limits->most[LIMIT_SANDBOXES]);
}

struct party { /* the owner of the limits, as the sentence names it */
    const char *kind, *name;
};

static int refuse(struct party party, enum limit limit, int64_t most, int64_t used, int64_t more,
                  struct err *err)
{
    if (limit == LIMIT_SANDBOXES) {
        return err_set(err, EUSERS,
                       "you have reached the maximum number of concurrent E2B sandboxes (%lld), "
                       "which is the limit sandboxes of %s '%.64s'",
                       (long long)most, party.kind, party.name);
    }
    return err_set(err, EUSERS,
                   "you have reached the limit %s of %s '%.64s', which is %lld: %lld are in use "
                   "and this needs %lld more",
                   limit_name(limit), party.kind, party.name, (long long)most, (long long)used,
                   (long long)more);
}

static int check(struct api *api, const struct team *team, const struct key *key,
                 const struct amounts *more, struct err *err)
{
    struct limits limits = key ? key->limits : quota_limits(api, team);
    const char *key_id = key ? key->id : NULL;

    if (is_far(api, team, key_id, &limits, more)) {
        return 0;
    }
    struct amounts used = quota_used(api, team, key_id);
    int i = limits_passed(&limits, &used, more);
    struct party party = {key ? "key" : "team", key ? key->name : team->name};
    return i < 0 ? 0 : refuse(party, (enum limit)i, limits.most[i], used.of[i], more->of[i], err);
}

int quota_check(struct api *api, const struct team *team, const char *key_id,
                const struct amounts *more, struct err *err)
{
    const struct key *key = key_id && key_id[0] ? accounts_find_id(api, team, key_id) : NULL;
    int r = check(api, team, NULL, more, err);

    return r == 0 && key ? check(api, team, key, more, err) : r;
}

bool call_quota(struct call *call, const struct amounts *more)
{
    struct err err;
    int r = quota_check(call->api, call->team, call->key_id, more, &err);

    if (r < 0) {
        call_fail_err(call, r, &err);
    }
    return r == 0;
}

/* ---- objects being made ---- */

struct quota_hold *quota_hold(struct call *call, const struct amounts *amounts)
{
    struct quota_hold *hold = xnew(struct quota_hold);

    hold->team = call->team;
    memcpy(hold->key_id, call->key_id, sizeof(hold->key_id));
    hold->amounts = *amounts;
    DL_APPEND(call->api->holds, hold);
    return hold;
}

void quota_hold_end(struct api *api, struct quota_hold *hold)
{
    if (hold) {
        DL_DELETE(api->holds, hold);
        free(hold);
    }
}

/* ---- sandboxes ---- */

static struct amounts amounts_of(const struct sandbox_wanted *wanted, uint32_t count)
{
    uint64_t disk_mb = (wanted->disk_bytes + (1U << MIB_BITS) - 1) >> MIB_BITS;

    return (struct amounts){.of = {
                                [LIMIT_SANDBOXES] = count,
                                [LIMIT_CPUS] = (int64_t)wanted->cpu_count * count,
                                [LIMIT_MEMORY_MB] = (int64_t)wanted->memory_mb * count,
                                [LIMIT_DISK_MB] = (int64_t)disk_mb * count,
                            }};
}

static int admit(struct api *api, const struct sandbox_wanted *wanted, uint32_t count,
                 struct err *err)
{
    const struct team *team = accounts_team(api, wanted->team_id);
    struct amounts more = amounts_of(wanted, count);

    if (api->draining) {
        return err_set(err, EAGAIN, "this node is draining: it takes no new sandboxes");
    }
    return team ? quota_check(api, team, wanted->maker, &more, err) : 0;
}

int api_admit_sandbox(struct api *api, const struct sandbox_wanted *wanted, struct err *err)
{
    return admit(api, wanted, 1, err);
}

bool call_has_room(struct call *call, const struct sandbox_wanted *wanted, uint32_t count)
{
    struct err err;
    int r = admit(call->api, wanted, count, &err);

    if (r < 0) {
        call_fail_err(call, r, &err);
    }
    return r == 0;
}
