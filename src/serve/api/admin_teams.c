/* admin_teams.c - /admin/teams: teams, their limits and keys, and what the operator may end. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "serve/api/internal.h"
#include "serve/template/name.h"

enum { TEAMS_MAX = 10000 };

/* ---- teams ---- */

static json_t *team_json(struct api *api, const struct team *team)
{
    struct amounts used = quota_used(api, team, NULL);
    struct limits limits = quota_limits(api, team);
    json_t *out = json_object();

    (void)json_object_set_new(out, "teamID", json_string(team->id));
    (void)json_object_set_new(out, "name", json_string(team->name));
    (void)json_object_set_new(out, "createdAt", stamp_json(team->created_ms));
    (void)json_object_set_new(out, "isDefault", json_boolean(team == api->teams));
    (void)json_object_set_new(out, "limits", limits_json(&limits));
    (void)json_object_set_new(out, "usage", amounts_json(&used));
    return out;
}

void handle_admin_teams_list(struct call *call, const json_t *body)
{
    json_t *list = json_array();
    const struct team *team;

    (void)body;
    LL_FOREACH (call->api->teams, team) {
        (void)json_array_append_new(list, team_json(call->api, team));
    }
    call_json(call, 200, list);
}

void handle_admin_team(struct call *call, const json_t *body)
{
    (void)body;
    call_json(call, 200, team_json(call->api, call->team));
}

static void team_save(struct api *api, const struct team *team, store_done *done, void *ctx)
{
    char limits[LIMITS_TEXT_BYTES];

    limits_write(&team->limits, limits);
    const struct team_row row = {
        .id = team->id, .name = team->name, .created_ms = team->created_ms, .limits = limits};
    store_team_save(api->options.store, &row, done, ctx);
}

/* A team's name is the namespace of its templates, so it has the form of one, and no other team
 * may have it. */
static int name_check(const struct api *api, const char *name, struct err *err)
{
    struct template_name parsed;
    const struct team *team;

    if (!name || template_name_parse(str_of(name), &parsed) < 0 || parsed.space[0] ||
        strcmp(parsed.alias, name) != 0) {
        return err_set(err, EINVAL,
                       "validation error: name must be of a-z 0-9 - _: it is the namespace of the "
                       "team's templates");
    }
    LL_FOREACH (api->teams, team) {
        if (strcmp(team->name, name) == 0) {
            return err_set(err, EEXIST, "there is a team '%s' already", name);
        }
    }
    return 0;
}

struct making {
    struct call *call;
    struct team *team; /* in no list yet */
};

static void on_made(void *ctx, int error, const struct err *err)
{
    struct making *making = ctx;
    struct call *call = making->call;
    struct api *api = call->api;

    if (error < 0) {
        LL_DELETE(api->teams, making->team);
        free(making->team->name);
        free(making->team);
        call_fail_err(call, error, err);
    } else {
        templates_name_team(api->options.templates, making->team->id, making->team->name);
        call_json(call, 201, team_json(api, making->team));
    }
    free(making);
}

/* The team is in the list from now on, so that its name is taken. It has no key yet, so no caller
 * can act as this team. */
static void team_make(struct call *call, const char *name, const struct limits *limits)
{
    struct making *making = xnew(struct making);
    char id[ID_UUID_LEN + 1];

    id_uuid(id);
    const struct team_row row = {.id = id, .name = name, .created_ms = clock_wall_ms()};
    *making = (struct making){call, accounts_add_team(call->api, &row)};
    making->team->limits = *limits;
    team_save(call->api, making->team, on_made, making);
}

static int limits_field(const json_t *body, struct limits *limits, struct err *err)
{
    const json_t *object = NULL;
    int r = field_object(body, "limits", &object, err);

    return r == 0 ? limits_parse(object, limits, err) : r;
}

void handle_admin_teams_create(struct call *call, const json_t *body)
{
    struct limits limits = limits_none();
    const char *name = NULL;
    const struct team *team;
    size_t n = 0;
    struct err err;
    int r = field_string(body, "name", &name, &err);

    if (r == 0) {
        r = name_check(call->api, name, &err);
    }
    if (r == 0) {
        r = limits_field(body, &limits, &err);
    }
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    LL_COUNT(call->api->teams, team, n);
    if (n >= TEAMS_MAX) {
        call_fail(call, 403, "there are %d teams, which is the most there can be", TEAMS_MAX);
        return;
    }
    team_make(call, name, &limits);
}

struct changing {
    struct call *call;
    struct team *team;
    struct limits old;
};

static void on_changed(void *ctx, int error, const struct err *err)
{
    struct changing *changing = ctx;

    if (error < 0) {
        changing->team->limits = changing->old;
        call_fail_err(changing->call, error, err);
    } else {
        call_json(changing->call, 200, team_json(changing->call->api, changing->team));
    }
    free(changing);
}

void handle_admin_team_change(struct call *call, const json_t *body)
{
    struct team *team = accounts_team(call->api, call->first);
    struct limits limits = team->limits;
    struct err err;
    int r = limits_field(body, &limits, &err);

    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    struct changing *changing = xnew(struct changing);
    *changing = (struct changing){call, team, team->limits};
    team->limits = limits;
    team_save(call->api, team, on_changed, changing);
}

/* ---- ending sandboxes and builds ---- */

struct killing {
    const struct team *team;
    uint32_t n;
};

static bool kill_one(void *ctx, struct sandbox *sb)
{
    struct killing *killing = ctx;
    struct sandbox_info info = sandbox_info(sb);

    if (strcmp(info.team_id, killing->team->id) == 0 && info.state == SANDBOX_RUNNING) {
        sandbox_kill(sb, SANDBOX_END_ADMIN, NULL, NULL);
        killing->n++;
    }
    return true;
}

/* Kills running sandboxes. Paused ones stay. */
void handle_admin_team_kill(struct call *call, const json_t *body)
{
    struct killing killing = {.team = call->team};

    (void)body;
    sandboxes_each(call->api->options.sandboxes, false, NULL, kill_one, &killing);
    call_json(call, 200, json_pack("{sisi}", "killedCount", (int)killing.n, "failedCount", 0));
}

struct cancelling {
    const struct team *team;
    json_t *found; /* [template id, build id, ...] */
};

static bool find_build(void *ctx, const struct build_info *info)
{
    struct cancelling *cancelling = ctx;
    bool open = info->state == BUILD_WAITING || info->state == BUILD_BUILDING;

    if (open && info->team_id && strcmp(info->team_id, cancelling->team->id) == 0) {
        (void)json_array_append_new(cancelling->found, json_string(info->template_id));
        (void)json_array_append_new(cancelling->found, json_string(info->id));
    }
    return true;
}

void handle_admin_team_cancel(struct call *call, const json_t *body)
{
    int cancelled = 0, failed = 0;

    (void)body;
    scoped_json *found = json_array();
    struct cancelling cancelling = {call->team, found};
    builds_each(call->api->options.builds, NULL, find_build, &cancelling);
    for (size_t i = 0; i < json_array_size(found); i += 2) {
        const char *template_id = json_string_value(json_array_get(found, i));
        const char *id = json_string_value(json_array_get(found, i + 1));
        bool done = build_cancel(call->api->options.builds, template_id, id, "by the admin") == 0;

        cancelled += done;
        failed += !done;
    }
    call_json(call, 200, json_pack("{sisi}", "cancelledCount", cancelled, "failedCount", failed));
}

/* Teams that have none are left out. */
void handle_admin_running(struct call *call, const json_t *body)
{
    json_t *counts = json_object();
    const struct team *team;

    (void)body;
    LL_FOREACH (call->api->teams, team) {
        uint32_t n = sandboxes_running(call->api->options.sandboxes, team->id);
        if (n > 0) {
            (void)json_object_set_new(counts, team->id, json_integer(n));
        }
    }
    call_json(call, 200, counts);
}
