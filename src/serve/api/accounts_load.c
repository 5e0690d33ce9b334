#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "serve/api/internal.h"
#include "serve/web/sessions.h"

static void on_team(void *ctx, const struct team_row *row)
{
    (void)accounts_add_team(ctx, row);
}

static void on_key(void *ctx, const struct key_row *row)
{
    struct api *api = ctx;
    const struct team *team = accounts_team(api, row->team_id);
    struct key *key = team ? key_from_row(team, row) : NULL;

    if (!key) {
        log_error("API key %s in the database is damaged: it does not work", row->id);
        return;
    }
    accounts_add(api, key);
}

int accounts_load(struct api *api, struct err *err)
{
    int r = store_load_teams(api->options.store, on_team, api, err);

    if (r == 0) {
        r = store_load_keys(api->options.store, on_key, api, err);
    }
    if (r == 0) {
        r = admin_keys_load(api, err);
    }
    if (r == 0) {
        r = makers_load(api, err);
    }
    if (r == 0) {
        r = sessions_new(api->options.store, clock_wall_ms(), &api->sessions, err);
    }
    return r < 0 ? err_wrap(err, "load the API keys") : 0;
}
