/* The audit log's names of actions, and the sentences that it keeps. Rows and queries are tested
 * over the store itself. */
#include <string.h>

#include "check.h"
#include "serve/api/internal.h"
#include "store_fixture.h"

/* ---- actions ---- */

static bool is_change(const struct route *route)
{
    return strcmp(route->method, "GET") != 0 || route->flags & WRITES;
}

static void every_changing_route_has_an_action(void)
{
    for (size_t i = 0; i < routes_count(); i++) {
        const struct route *route = route_at(i);
        const char *action = route->action;

        CHECK_THAT(!is_change(route) || action, "%s %s has no action in src/serve/api/routes.c",
                   route->method, route->path);
        CHECK_THAT(is_change(route) || !action, "%s %s changes nothing, and has a name",
                   route->method, route->path);
    }
}

static void an_action_is_an_object_and_a_verb(void)
{
    for (size_t i = 0; i < routes_count(); i++) {
        const char *action = route_at(i)->action;

        CHECK_THAT(!action || action[0] == '-' || strchr(action, '.'), "'%s' is not OBJECT.VERB",
                   action);
    }
}

/* ---- sentences ---- */

static void says(const char *text, const char *want)
{
    static const char *const names[] = {"v1", "my-volume", "", NULL};
    char out[AUDIT_SENTENCE_BYTES];

    audit_sentence(text, names, out);
    CHECK_STR(out, want);
}

static void a_sentence_keeps_no_value_that_it_quotes(void)
{
    says("template 'very-private' not found", "template '..' not found");
    says("Sandbox \"i123\" doesn't exist", "Sandbox \"..\" doesn't exist");
    says("two 'a' and 'b'", "two '..' and '..'");
    says("an open 'quote is cut", "an open '");
    says("bytes \x01\xff here", "bytes ?? here");
    says("", "");
}

static void a_sentence_keeps_the_name_of_its_object(void)
{
    says("volume 'my-volume' is mounted", "volume 'my-volume' is mounted");
    says("volume \"my-volume\" has no tag 'v1' but 'v2'",
         "volume \"my-volume\" has no tag 'v1' but '..'");
    says("no 'my-volume-of-others'", "no '..'");
    says("no 'not-my-volume'", "no '..'");
    says("nothing ''", "nothing '..'");
}

static void a_sentence_keeps_no_key(void)
{
    static const char *const names[] = {NULL};
    char out[AUDIT_SENTENCE_BYTES];

    audit_sentence("no: e2b_7f3a91c04be85d2a6610fd97c38e4ab5209d71ec", names, out);
    CHECK(!strstr(out, "7f3a91c0"));
}

static void a_long_sentence_is_cut(void)
{
    static const char *const names[] = {"long-enough-to-be-the-end-of-the-room", NULL};
    char text[2000], out[AUDIT_SENTENCE_BYTES];

    memset(text, '\'', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    audit_sentence(text, names, out);
    CHECK(strlen(out) < sizeof(out));
    text[0] = '\0';
    for (size_t n = 0; n + strlen(names[0]) + 4 < sizeof(text); n = strlen(text)) {
        (void)snprintf(text + n, sizeof(text) - n, "'%s' ", names[0]);
    }
    audit_sentence(text, names, out);
    CHECK(strlen(out) < sizeof(out) && strstr(out, names[0]));
    memset(text, 'x', sizeof(text) - 1);
    audit_sentence(text, names, out);
    CHECK(strlen(out) < sizeof(out) && strlen(out) > 300);
}

/* ---- rows ---- */

static void begin(struct fixture *f, int64_t seq, const char *team, const char *type,
                  const char *object)
{
    const struct audit_row row = {
        .seq = seq,
        .time_ms = 1000 * seq,
        .team_id = team,
        .actor_id = "k1",
        .actor_name = "name",
        .actor_type = type,
        .source = "192.0.2.1",
        .via = "api",
        .session = "",
        .action = seq % 2 ? "sandbox.kill" : "key.create",
        .object = object,
        .parent = "",
    };

    store_audit_begin(f->store, &row);
}

static void end(struct fixture *f, int64_t seq, int64_t status)
{
    store_audit_end(f->store, &(struct audit_outcome){.seq = seq, .status = status, .object = "o"});
}

struct rows {
    bool done;
    json_t *list;
};

static void on_rows(void *ctx, int error, const struct err *err, const char *text)
{
    struct rows *rows = ctx;

    (void)err;
    rows->done = true;
    rows->list = error == 0 ? json_loads(text, 0, NULL) : NULL;
}

/* After all that was written before. */
static json_t *list(struct fixture *f, struct audit_query query)
{
    struct answer answer = {0};
    struct rows rows = {0};

    query.to_ms = query.to_ms ? query.to_ms : INT64_MAX;
    query.limit = query.limit ? query.limit : 100;
    query.cursor = query.cursor || query.oldest_first ? query.cursor : INT64_MAX;
    store_key_delete(f->store, "nobody", on_done, &answer);
    wait_for(f, &answer);
    store_audit_list(f->store, &query, on_rows, &rows);
    while (!rows.done) {
        (void)uv_run(&f->loop, UV_RUN_ONCE);
    }
    return rows.list;
}

static int64_t number(const json_t *rows, size_t i, const char *name)
{
    return json_integer_value(json_object_get(json_array_get(rows, i), name));
}

static void a_team_sees_its_own_rows(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;

    CHECK(fixture_init(&f, &dir));
    begin(&f, 1, "ours", "key", "a");
    begin(&f, 2, "theirs", "key", "a");
    begin(&f, 3, "ours", "admin", "b");
    end(&f, 1, 204);
    json_t *rows = list(&f, (struct audit_query){.team_id = "ours"});
    CHECK_INT(json_array_size(rows), 2);
    CHECK_INT(number(rows, 0, "seq"), 3);
    CHECK_INT(number(rows, 1, "status"), 204);
    CHECK(json_is_null(json_object_get(json_array_get(rows, 0), "status")));
    /* The operator is not named to a team. */
    CHECK(json_is_null(json_object_get(json_array_get(rows, 0), "source")));
    CHECK_INT(json_object_size(json_object_get(json_array_get(rows, 0), "actor")), 1);
    json_decref(rows);
    rows = list(&f, (struct audit_query){.for_operator = true});
    CHECK_INT(json_array_size(rows), 3);
    CHECK_INT(json_object_size(json_object_get(json_array_get(rows, 0), "actor")), 3);
    json_decref(rows);
    fixture_fini(&f);
}

static void filters_and_pages(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;

    CHECK(fixture_init(&f, &dir));
    for (int64_t i = 1; i <= 6; i++) {
        begin(&f, i, "t", "key", i == 5 ? "special" : "plain");
        if (i != 4) {
            end(&f, i, 200);
        }
    }
    const struct {
        struct audit_query query;
        size_t n;
        int64_t first;
    } cases[] = {
        {{.action = "key.*"}, 3, 6},
        {{.action = "sandbox.kill"}, 3, 5},
        {{.object = "o"}, 5, 6}, /* the outcome named it */
        {{.object = "plain"}, 1, 4},
        {{.actor = "k2"}, 0, 0},
        {{.from_ms = 2000, .to_ms = 4000}, 2, 3},
        {{.limit = 2}, 2, 6},
        {{.limit = 2, .cursor = 5}, 2, 4},
        {{.oldest_first = true}, 3, 1}, /* not beyond the call under way */
        {{.oldest_first = true, .cursor = 2}, 1, 3},
        {{.team_id = "other"}, 0, 0},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct audit_query query = cases[i].query;

        query.for_operator = true;
        json_t *rows = list(&f, query);
        CHECK_THAT(json_array_size(rows) == cases[i].n && number(rows, 0, "seq") == cases[i].first,
                   "case %zu: %zu rows", i, json_array_size(rows));
        json_decref(rows);
    }
    fixture_fini(&f);
}

static void a_crash_leaves_a_row_that_says_so(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;
    struct err err;
    int64_t last = 0;

    CHECK(fixture_init(&f, &dir));
    CHECK_INT(store_audit_open(f.store, &last, &err), 0);
    CHECK_INT(last, 0);
    begin(&f, 1, "t", "key", "a");
    begin(&f, 2, "t", "key", "a");
    end(&f, 1, 200);
    json_decref(list(&f, (struct audit_query){.team_id = "t"}));
    CHECK_INT(store_audit_open(f.store, &last, &err), 0); /* as the next daemon does */
    CHECK_INT(last, 2);
    json_t *rows = list(&f, (struct audit_query){.team_id = "t", .oldest_first = true});
    CHECK_INT(json_array_size(rows), 2);
    CHECK_INT(number(rows, 0, "status"), 200);
    CHECK(json_is_integer(json_object_get(json_array_get(rows, 1), "status")));
    CHECK_INT(number(rows, 1, "status"), 0);
    CHECK(json_string_of(json_array_get(rows, 1), "error"));
    json_decref(rows);
    fixture_fini(&f);
}

static void rows_are_bounded(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;

    CHECK(fixture_init(&f, &dir));
    for (int64_t i = 1; i <= 20; i++) {
        begin(&f, i, i <= 10 ? "busy" : "calm", "key", "a");
    }
    store_audit_forget_team(f.store, "busy", 4);
    json_decref(list(&f, (struct audit_query){.team_id = "busy"}));
    CHECK_INT(count(f.path, "SELECT count(*) FROM audit WHERE team_id = 'busy'"), 4);
    CHECK_INT(count(f.path, "SELECT count(*) FROM audit WHERE team_id = 'calm'"), 10);
    store_audit_forget(f.store, 13 * 1000, 0); /* by age */
    json_decref(list(&f, (struct audit_query){.team_id = "busy"}));
    CHECK_INT(count(f.path, "SELECT min(seq) FROM audit"), 13);
    store_audit_forget(f.store, 0, 15); /* by number */
    json_decref(list(&f, (struct audit_query){.team_id = "busy"}));
    CHECK_INT(count(f.path, "SELECT min(seq) FROM audit"), 15);
    fixture_fini(&f);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"every changing route has an action", every_changing_route_has_an_action},
        {"an action is an object and a verb", an_action_is_an_object_and_a_verb},
        {"a sentence keeps no value that it quotes", a_sentence_keeps_no_value_that_it_quotes},
        {"a sentence keeps no key", a_sentence_keeps_no_key},
        {"a sentence keeps the name of its object", a_sentence_keeps_the_name_of_its_object},
        {"a long sentence is cut", a_long_sentence_is_cut},
        {"a team sees its own rows", a_team_sees_its_own_rows},
        {"filters and pages", filters_and_pages},
        {"a crash leaves a row that says so", a_crash_leaves_a_row_that_says_so},
        {"rows are bounded", rows_are_bounded},
    };

    return check_run(tests, sizeof(tests) / sizeof(tests[0]));
}
