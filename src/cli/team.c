/* team.c - teams of the running daemon, for its operator. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/grid.h"

static const char *const limits[] = {"sandboxes", "cpus", "memoryMB", "diskMB", "builds"};

enum {
    TEAM_WORDS_MAX = 16,
    ID_BYTES = 256,
    KEY_PATH_BYTES = ID_BYTES + 16,
    PATH_BYTES = 2 * ID_BYTES + 64
};

struct team_call {
    const struct cli *cli;
    struct endpoint endpoint;
    char id[ID_BYTES]; /* of the team, fit for a path */
    char **words;      /* behind the team's name */
    int words_n;
    const char *name; /* as it was given */
};

static int ask(const struct team_call *call, const char *method, const char *rest,
               const json_t *body, json_t **answer, struct err *err)
{
    char path[PATH_BYTES];

    (void)snprintf(path, sizeof(path), "/admin/teams/%s%s", call->id, rest);
    return endpoint_call(&call->endpoint, method, path, body, answer, err);
}

/* ---- words ---- */

/* "cpus=4" or "cpus=none", into an object of limits. The daemon knows which limits there are. */
static int limit_add(json_t *object, const char *word, struct err *err)
{
    const char *equals = strchr(word, '=');
    char *end = NULL;

    if (!equals || equals == word) {
        return err_set(err, EINVAL, "'%.64s' is not of the form LIMIT=N", word);
    }
    errno = 0;
    long long n = strtoll(equals + 1, &end, 10);
    bool none = strcmp(equals + 1, "none") == 0;
    if (!none && (!equals[1] || *end || errno)) {
        return err_set(err, EINVAL, "'%.64s': a limit is a whole number, or none", word);
    }
    json_t *value = none ? json_null() : json_integer(n);
    if (json_object_setn_new(object, word, (size_t)(equals - word), value) < 0) {
        return err_set(err, EINVAL, "'%.64s' is not UTF-8", word);
    }
    return 0;
}

/* {"limits": {...}} out of the words from `first` on. */
static int body_of(const struct team_call *call, int first, json_t **out, struct err *err)
{
    json_t *object = json_object();

    *out = json_pack("{so}", "limits", object);
    for (int i = first; i < call->words_n; i++) {
        int r = limit_add(object, call->words[i], err);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

/* ---- what is shown ---- */

/* Each limit is "used/most", or "used/-" without a limit. */
static const struct grid_column team_columns[] = {
    {.title = "ID"},
    {.title = "NAME", .shrinks = true},
    {.title = "USED AND LIMITS", .shrinks = true},
};

static void team_add(struct grid *grid, const json_t *team, const json_t *used)
{
    char text[256] = "";
    size_t n = 0;

    for (size_t i = 0; i < countof(limits); i++) {
        const json_t *most = json_object_get(json_object_get(team, "limits"), limits[i]);
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s %lld/", i ? "  " : "", limits[i],
                              (long long)json_integer_value(json_object_get(used, limits[i])));
        if (json_is_integer(most)) {
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%lld",
                                  (long long)json_integer_value(most));
        } else {
            n += (size_t)snprintf(text + n, sizeof(text) - n, "-");
        }
    }
    grid_add(grid, json_text_of(team, "teamID"));
    grid_add(grid, json_text_of(team, "name"));
    grid_add(grid, text);
}

static void row_add(struct grid *grid, const json_t *team)
{
    team_add(grid, team, json_object_get(team, "usage"));
}

/* Prints a team. Its usage is the field `used`: "usage" or "now". */
static void team_print(const struct cli *cli, const json_t *team, const char *used)
{
    scoped(grid_fini) struct grid grid = grid_of(team_columns);

    if (cli->json) {
        cli_print_json(team);
    } else {
        team_add(&grid, team, json_object_get(team, used));
        grid_print(&grid, stdout);
    }
}

static int key_make(const struct team_call *call, const char *name, json_t *body, struct err *err)
{
    scoped_json *answer = NULL;

    if (json_object_set_new(body, "name", json_string(name)) < 0) {
        return err_set(err, EINVAL, "the name is not UTF-8");
    }
    int r = ask(call, "POST", "/api-keys", body, &answer, err);
    if (r == 0 && call->cli->json) {
        cli_print_json(answer);
    } else if (r == 0) {
        printf("%s\n", answer_text(answer, "key"));
    }
    if (r == 0 && !call->cli->json && !call->cli->quiet) {
        (void)fprintf(stderr, "The key is shown once. Its id is %s\n", answer_text(answer, "id"));
    }
    return r;
}

/* ---- commands ---- */

static int team_create(struct team_call *call, struct err *err)
{
    scoped_json *body = NULL, *answer = NULL, *first = json_object();
    int r = body_of(call, 0, &body, err);

    if (r == 0 && json_object_set_new(body, "name", json_string(call->name)) < 0) {
        r = err_set(err, EINVAL, "the name is not UTF-8");
    }
    if (r == 0) {
        r = endpoint_call(&call->endpoint, "POST", "/admin/teams", body, &answer, err);
    }
    if (r < 0) {
        return r;
    }
    if (!call->cli->quiet && !call->cli->json) {
        (void)fprintf(stderr, "Created team %s; its id is %s\n", answer_text(answer, "name"),
                      answer_text(answer, "teamID"));
    }
    (void)snprintf(call->id, sizeof(call->id), "%s", answer_text(answer, "teamID"));
    return key_make(call, "first", first, err);
}

static int team_limit(struct team_call *call, struct err *err)
{
    scoped_json *body = NULL, *answer = NULL;
    int r = body_of(call, 0, &body, err);

    if (r == 0) {
        r = ask(call, "PATCH", "", body, &answer, err);
    }
    if (r == 0 && call->cli->quiet) {
        printf("%s\n", answer_text(answer, "teamID"));
    } else if (r == 0) {
        team_print(call->cli, answer, "usage");
    }
    return r;
}

static void totals_print(const json_t *total)
{
    static const struct {
        const char *name, *label;
        double unit;
    } rows[] = {
        {"sandboxSeconds", "sandbox hours", 3600},
        {"cpuSeconds", "CPU hours", 3600},
        {"memoryMBSeconds", "GB hours of memory", 3600 * 1024.0},
        {"diskMBSeconds", "GB hours of disk", 3600 * 1024.0},
        {"buildSeconds", "build hours", 3600},
        {"builds", "builds begun", 1},
    };

    for (size_t i = 0; i < countof(rows); i++) {
        double value = json_number_value(json_object_get(total, rows[i].name));
        printf("%14.2f  %s\n", value / rows[i].unit, rows[i].label);
    }
}

static int team_usage(struct team_call *call, struct err *err)
{
    scoped_json *answer = NULL;
    int r = ask(call, "GET", "/usage", NULL, &answer, err);

    if (r == 0) {
        team_print(call->cli, answer, "now");
    }
    if (r == 0 && !call->cli->json) {
        totals_print(json_object_get(answer, "total"));
    }
    return r;
}

static int team_key(struct team_call *call, struct err *err)
{
    scoped_json *body = NULL;
    int r = body_of(call, 1, &body, err);

    return r == 0 ? key_make(call, call->words[0], body, err) : r;
}

static const struct grid_column key_columns[] = {
    {.title = "ID"},
    {.title = "KEY"},
    {.title = "NAME", .shrinks = true},
    {.title = "LIMITS", .shrinks = true},
};

static void key_add(struct grid *grid, const json_t *key)
{
    const json_t *mask = json_object_get(key, "mask");
    char text[256] = "";
    size_t used = 0;

    for (size_t i = 0; i < countof(limits); i++) {
        const json_t *most = json_object_get(json_object_get(key, "limits"), limits[i]);
        if (json_is_integer(most)) {
            used +=
                (size_t)snprintf(text + used, sizeof(text) - used, "%s%s=%lld", used ? "  " : "",
                                 limits[i], (long long)json_integer_value(most));
        }
    }
    grid_add(grid, json_text_of(key, "id"));
    grid_addf(grid, "%s%s...%s", answer_text(mask, "prefix"),
              answer_text(mask, "maskedValuePrefix"), answer_text(mask, "maskedValueSuffix"));
    grid_add(grid, json_text_of(key, "name"));
    grid_add(grid, text);
}

static int team_keys(struct team_call *call, struct err *err)
{
    scoped(grid_fini) struct grid grid = grid_of(key_columns);
    scoped_json *answer = NULL;
    int r = ask(call, "GET", "/api-keys", NULL, &answer, err);

    if (r == 0) {
        grid_print_list(call->cli, answer, "id", &grid, key_add);
    }
    return r;
}

static void key_path(const struct team_call *call, char out[KEY_PATH_BYTES])
{
    char escaped[ID_BYTES];

    endpoint_escape(call->words[0], escaped, sizeof(escaped));
    (void)snprintf(out, KEY_PATH_BYTES, "/api-keys/%s", escaped);
}

static int team_key_limit(struct team_call *call, struct err *err)
{
    scoped_json *body = NULL, *answer = NULL;
    char path[KEY_PATH_BYTES];
    int r = body_of(call, 1, &body, err);

    key_path(call, path);
    r = r == 0 ? ask(call, "PATCH", path, body, &answer, err) : r;
    if (r == 0) {
        cli_print_done(call->cli, NULL, call->words[0]);
    }
    return r;
}

static int team_revoke(struct team_call *call, struct err *err)
{
    scoped_json *answer = NULL;
    char path[KEY_PATH_BYTES];

    key_path(call, path);
    int r = ask(call, "DELETE", path, NULL, &answer, err);
    if (r == 0) {
        cli_print_done(call->cli, NULL, call->words[0]);
    }
    return r;
}

/* ---- which team ---- */

static int team_find(struct team_call *call, struct err *err)
{
    scoped_json *teams = NULL;
    const json_t *team;
    size_t i;

    int r = endpoint_call(&call->endpoint, "GET", "/admin/teams", NULL, &teams, err);
    json_array_foreach (teams, i, team) {
        if (strcmp(answer_text(team, "name"), call->name) == 0 ||
            strcmp(answer_text(team, "teamID"), call->name) == 0) {
            endpoint_escape(answer_text(team, "teamID"), call->id, sizeof(call->id));
            return 0;
        }
    }
    return r < 0 ? r : err_set(err, CALL_NOT_FOUND, "there is no team '%.64s'", call->name);
}

static int list_all(const struct cli *cli, const struct endpoint *endpoint, struct err *err)
{
    scoped(grid_fini) struct grid grid = grid_of(team_columns);
    scoped_json *teams = NULL;
    int r = endpoint_call_verbatim(endpoint, "GET", "/admin/teams", NULL, &teams, err);

    if (r == 0) {
        grid_print_list(cli, teams, "teamID", &grid, row_add);
    }
    return r;
}

static const struct {
    const char *verb;
    int (*run)(struct team_call *call, struct err *err);
} verbs[] = {
    {"create", team_create}, {"limit", team_limit}, {"usage", team_usage},
    {"key", team_key},       {"keys", team_keys},   {"key-limit", team_key_limit},
    {"revoke", team_revoke},
};

static int verb_run(struct cli *cli, size_t i, struct err *err)
{
    struct team_call call = {
        .cli = cli, .name = cli->words[1], .words = cli->words + 2, .words_n = cli->words_n - 2};
    int r = endpoint_admin(cli, &call.endpoint, err);

    if (r == 0 && verbs[i].run != team_create) {
        r = team_find(&call, err);
    }
    return r == 0 ? verbs[i].run(&call, err) : r;
}

static int team(struct cli *cli)
{
    struct endpoint endpoint;
    struct err err;
    int r = 0;

    if (strcmp(cli->sub->name, "list") == 0) {
        r = endpoint_admin(cli, &endpoint, &err);
        return cli_result(r < 0 ? r : list_all(cli, &endpoint, &err), &err);
    }
    for (size_t i = 0; i < countof(verbs); i++) {
        if (strcmp(cli->sub->name, verbs[i].verb) == 0) {
            r = verb_run(cli, i, &err);
        }
    }
    return cli_result(r, &err);
}

static const struct subcommand team_subs[] = {
    {"list", "", "lists teams with usage and limits", 0, 0, COMMAND_JSON | COMMAND_QUIET,
     TAKES_TEXT},
    {"create", "NAME [LIMIT=N...]", "creates a team and its first key", 1, TEAM_WORDS_MAX,
     COMMAND_JSON | COMMAND_QUIET, TAKES_TEXT},
    {"limit", "TEAM LIMIT=N...", "sets limits; LIMIT=none removes one", 2, TEAM_WORDS_MAX,
     COMMAND_JSON | COMMAND_QUIET, TAKES_TEXT},
    {"usage", "TEAM", "usage now, and of the last 31 days", 1, 1, COMMAND_JSON, TAKES_TEXT},
    {"key", "TEAM NAME [LIMIT=N...]", "creates a key, perhaps with limits", 2, TEAM_WORDS_MAX,
     COMMAND_JSON | COMMAND_QUIET, TAKES_TEXT},
    {"keys", "TEAM", "lists the team's keys", 1, 1, COMMAND_JSON | COMMAND_QUIET, TAKES_TEXT},
    {"key-limit", "TEAM KEY-ID LIMIT=N...", "sets limits of a key", 3, TEAM_WORDS_MAX,
     COMMAND_JSON | COMMAND_QUIET, TAKES_TEXT},
    {"revoke", "TEAM KEY-ID", "ends a key at once", 2, 2, COMMAND_JSON | COMMAND_QUIET, TAKES_TEXT},
    {.name = NULL},
};

const struct command row_team = {
    .name = "team",
    .args = "list | create NAME | ...",
    .summary = "manages teams: keys, limits, usage",
    .run = team,
    .group = GROUP_ACCOUNTS,
    .subs = team_subs,
    .about = "\nTEAM is a name or an id. Limits: sandboxes, cpus, memoryMB, diskMB, builds.",
    .examples = "atoll team create research sandboxes=20 memoryMB=65536",
};
