/* Every query of the running daemon, on SQLite and on PostgreSQL: both give the same answer. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

#include "check.h"
#include "lib/base/clock.h"
#include "store_fixture.h"

static const int64_t A_DAY_MS = (int64_t)24 * 3600 * 1000;

struct text_answer {
    int calls, error;
    char text[8192];
};

/* The same JSON for both, whatever spaces and order of names a database has. */
static void text_normal(const char *text, char *out, size_t size)
{
    json_t *value = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
    char *dumped =
        value ? json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY) : NULL;

    (void)snprintf(out, size, "%s", dumped ? dumped : text ? text : "NULL");
    free(dumped);
    json_decref(value);
}

static void on_text(void *ctx, int error, const struct err *err, const char *text)
{
    struct text_answer *answer = ctx;

    answer->calls++;
    answer->error = error;
    text_normal(error == 0 ? text : err->msg, answer->text, sizeof(answer->text));
}

static const char *text_wait(struct fixture *f, struct text_answer *answer)
{
    while (answer->calls == 0) {
        (void)uv_run(&f->loop, UV_RUN_ONCE);
    }
    answer->calls = 0;
    return answer->text;
}

static bool settled(struct fixture *f)
{
    struct answer answer = {0};

    store_settle(f->store, on_done, &answer);
    wait_for(f, &answer);
    return answer.error == 0;
}

static void must_save(void *ctx, int error, const struct err *err)
{
    (void)ctx;
    if (error < 0) {
        printf("# %s\n", err->msg);
        check_failed = true;
    }
}

static void team_save(struct fixture *f)
{
    store_team_save(f->store, &(struct team_row){.id = "team", .name = "team"}, must_save, NULL);
}

static void sandbox_save(struct fixture *f, const char *id, const char *template_id,
                         const char *fork_of, const char *state)
{
    struct sandbox_row row = {.id = id,
                              .team_id = "team",
                              .template_id = template_id,
                              .fork_of = fork_of,
                              .state = state,
                              .created_ms = 1234,
                              .end_ms = clock_wall_ms()};
    struct event_row event = {.id = "e",
                              .team_id = "team",
                              .sandbox_id = id,
                              .type = "x",
                              .timestamp_ms = clock_wall_ms(),
                              .body = "{}"};

    store_sandbox_save(f->store, &row, &event, STORE_LAZY, must_save, NULL);
}

static void template_save(struct fixture *f, const char *id, const char *snapshot_of)
{
    struct template_row row = {.id = id,
                               .alias = id,
                               .team_id = "team",
                               .build_id = "build",
                               .layers = "",
                               .user = "user",
                               .workdir = "",
                               .env_json = "{}",
                               .created_ms = 1500,
                               .saved = "saved",
                               .snapshot_of = snapshot_of};

    store_template_save(f->store, &row, must_save, NULL);
}

static void build_save(struct fixture *f, const char *id, const char *template_id)
{
    struct build_row row = {.id = id,
                            .template_id = template_id,
                            .state = "ready",
                            .tags = "",
                            .layers = "",
                            .user = "user",
                            .workdir = "",
                            .env_json = "{}",
                            .created_ms = 1,
                            .finished_ms = 2};

    store_build_save(f->store, &row, must_save, NULL);
}

/* ---- the tests ---- */

static void usage_adds_up(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;
    struct text_answer got = {0};
    struct usage_row row = {.team_id = "team", .hour_ms = 3600000, .sandbox_ms = 1500, .builds = 1};

    CHECK(fixture_init(&f, &dir));
    team_save(&f);
    store_usage_add(f.store, &row, must_save, NULL);
    row.sandbox_ms = 250;
    store_usage_add(f.store, &row, must_save, NULL);
    CHECK(settled(&f));
    store_usage_list(f.store, "team", 0, INT64_MAX, on_text, &got);
    json_t *all = json_loads(text_wait(&f, &got), 0, NULL);
    const json_t *hour = json_array_get(all, 0);
    CHECK_INT(json_array_size(all), 1);
    CHECK(json_number_value(json_object_get(hour, "sandboxSeconds")) == 1.75);
    CHECK_INT(json_integer_value(json_object_get(hour, "builds")), 2);
    CHECK_INT(json_integer_value(json_object_get(hour, "hourMs")), 3600000);
    json_decref(all);
    fixture_fini(&f);
}

static void artifacts_are_listed(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;
    struct text_answer got = {0};
    struct artifact_row row = {.team_id = "team",
                               .path = "a/b.py",
                               .content = "print('\xc3\xa9\\n')",
                               .language = "python",
                               .entrypoint = "",
                               .description = "",
                               .sha256 = "ff",
                               .size = 3,
                               .now_ms = 7,
                               .team_max = 10};

    CHECK(fixture_init(&f, &dir));
    team_save(&f);
    store_artifact_save(f.store, &row, must_save, NULL);
    CHECK(settled(&f));
    store_artifacts_list(f.store, "team", NULL, on_text, &got);
    CHECK_STR(text_wait(&f, &got),
              "[{\"createdMs\":7,\"description\":\"\",\"entrypoint\":\"\",\"language\":\"python\","
              "\"path\":\"a/b.py\",\"sha256\":\"ff\",\"size\":3,\"updatedMs\":7,\"version\":1}]");
    store_artifacts_list(f.store, "team", "a/b.py", on_text, &got);
    CHECK(strstr(text_wait(&f, &got), "\"content\":\"print('\xc3\xa9\\\\n')\""));
    store_artifact_delete(f.store, "team", "a/b.py", must_save, NULL);
    CHECK(settled(&f));
    store_artifacts_list(f.store, "team", NULL, on_text, &got);
    CHECK_STR(text_wait(&f, &got), "[]");
    fixture_fini(&f);
}

static void tags_and_logs_of_builds_are_listed(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;
    struct text_answer got = {0};

    CHECK(fixture_init(&f, &dir));
    team_save(&f);
    template_save(&f, "t", NULL);
    build_save(&f, "b1", "t");
    build_save(&f, "b2", "t");
    store_tag_save(f.store, &(struct tag_row){"t", "v1", "b1", 5}, must_save, NULL);
    store_tag_save(f.store, &(struct tag_row){"t", "v1", "b2", 6}, must_save, NULL);
    store_build_log_save(f.store, &(struct build_log_row){"b1", 0, "\"one\""}, must_save, NULL);
    store_build_log_save(f.store, &(struct build_log_row){"b1", 2, "\"two\""}, must_save, NULL);
    CHECK(settled(&f));

    store_tag_assignments(f.store, "t", on_text, &got);
    json_t *all = json_loads(text_wait(&f, &got), 0, NULL);
    CHECK_INT(json_array_size(all), 2);
    const json_t *newest = json_array_get(all, 0);
    CHECK_STR(json_string_value(json_object_get(newest, "buildId")), "b2");
    CHECK_INT(json_integer_value(json_object_get(newest, "buildFinishedMs")), 2);
    CHECK_INT(json_string_length(json_object_get(newest, "assignmentId")), 36);
    json_decref(all);

    struct build_log_query query = {.build_id = "b1", .limit = 10};
    store_build_logs_list(f.store, &query, on_text, &got);
    CHECK_STR(text_wait(&f, &got), "[\"one\",\"two\"]");
    query.backward = true;
    store_build_logs_list(f.store, &query, on_text, &got);
    CHECK_STR(text_wait(&f, &got), "[\"two\",\"one\"]");
    query.level = 1;
    store_build_logs_list(f.store, &query, on_text, &got);
    CHECK_STR(text_wait(&f, &got), "[\"two\"]");

    store_tag_delete(f.store, "t", "v1", must_save, NULL);
    CHECK(settled(&f));
    store_tag_assignments(f.store, "t", on_text, &got);
    CHECK_STR(text_wait(&f, &got), "[]");
    fixture_fini(&f);
}

static void keys_of_sandboxes_go_with_forks_and_snapshots(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;
    struct text_answer got = {0};

    CHECK(fixture_init(&f, &dir));
    team_save(&f);
    sandbox_save(&f, "a", "base", NULL, "running");
    store_sandbox_keys_save(f.store, "a", "sealed", must_save, NULL);
    sandbox_save(&f, "fork", "base", "a", "running");
    template_save(&f, "snap", "a");
    sandbox_save(&f, "born", "snap", NULL, "running");
    CHECK(settled(&f));
    for (int i = 0; i < 3; i++) {
        store_sandbox_keys_list(f.store, "team", (const char *[]){"a", "fork", "born"}[i], on_text,
                                &got);
        CHECK_STR(text_wait(&f, &got), "[{\"sealed\":\"sealed\",\"sealedFor\":\"a\"}]");
    }
    store_sandbox_keys_list(f.store, "team", NULL, on_text, &got);
    CHECK_STR(text_wait(&f, &got), "[{\"sealed\":\"sealed\",\"sealedFor\":\"a\"}]");
    sandbox_save(&f, "fork", "base", "a", "killed");
    CHECK(settled(&f));
    store_sandbox_keys_list(f.store, "team", "fork", on_text, &got);
    CHECK_STR(text_wait(&f, &got), "[]");
    store_sandbox_keys_list(f.store, "another", NULL, on_text, &got);
    CHECK_STR(text_wait(&f, &got), "[]");
    fixture_fini(&f);
}

static void a_lineage_is_walked_up_and_down(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;
    struct text_answer got = {0};
    static const char *const ids[] = {"fork", "a", "twin", "born", "snap"};
    static const char *const parents[] = {"a", NULL, "a", "snap", "a"};

    CHECK(fixture_init(&f, &dir));
    team_save(&f);
    sandbox_save(&f, "a", "base", NULL, "killed");
    sandbox_save(&f, "fork", "base", "a", "running");
    sandbox_save(&f, "twin", "base", "a", "running");
    sandbox_save(&f, "stranger", "base", NULL, "running");
    template_save(&f, "snap", "a");
    sandbox_save(&f, "born", "snap", NULL, "running");
    CHECK(settled(&f));
    store_lineage(f.store, "team", "fork", 100, on_text, &got);
    json_t *all = json_loads(text_wait(&f, &got), 0, NULL);
    CHECK_THAT(json_array_size(all) == countof(ids), "the lineage is %s", got.text);
    for (size_t i = 0; i < countof(ids); i++) {
        const json_t *one = json_array_get(all, i);
        const char *parent = json_string_value(json_object_get(one, "parentID"));

        CHECK_STR(json_string_value(json_object_get(one, "id")), ids[i]);
        CHECK_STR(parent ? parent : "none", parents[i] ? parents[i] : "none");
        CHECK_STR(json_string_value(json_object_get(one, "at")),
                  i == 4 ? "1970-01-01T00:00:01.500Z" : "1970-01-01T00:00:01.234Z");
        CHECK(json_is_string(json_object_get(one, "endedAt")) == (i == 1));
    }
    json_decref(all);
    store_lineage(f.store, "team", "fork", 2, on_text, &got);
    all = json_loads(text_wait(&f, &got), 0, NULL);
    CHECK_INT(json_array_size(all), 2);
    json_decref(all);
    store_lineage(f.store, "another", "fork", 100, on_text, &got);
    CHECK_STR(text_wait(&f, &got), "[]");
    fixture_fini(&f);
}

static void audit_add(struct fixture *f, int64_t seq, const char *action, int64_t time_ms)
{
    struct audit_row row = {.seq = seq,
                            .time_ms = time_ms,
                            .team_id = "team",
                            .actor_id = "key",
                            .actor_name = "name",
                            .actor_type = seq % 2 ? "key" : "admin",
                            .source = "127.0.0.1",
                            .via = "api",
                            .session = "",
                            .action = action,
                            .object = "thing",
                            .parent = ""};

    store_audit_begin(f->store, &row);
}

static int audit_count(struct fixture *f, const struct audit_query *query, const char *first)
{
    struct text_answer got = {0};

    store_audit_list(f->store, query, on_text, &got);
    json_t *all = json_loads(text_wait(f, &got), 0, NULL);
    int n = (int)json_array_size(all);
    const char *action = json_string_value(json_object_get(json_array_get(all, 0), "action"));
    if (got.error < 0 || (n > 0 && strcmp(action, first) != 0)) {
        printf("# %s\n", got.text);
        n = -1;
    }
    json_decref(all);
    return n;
}

static void the_audit_log_is_filtered_and_numbers_are_not_given_twice(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;
    struct err err;
    int64_t last = -1;
    struct audit_query query = {
        .team_id = "team", .to_ms = INT64_MAX, .cursor = INT64_MAX, .limit = 10};
    struct audit_outcome outcome = {
        .seq = 1, .status = 201, .took_ms = 3, .object = "made", .made = "[\"x\"]"};

    CHECK(fixture_init(&f, &dir));
    CHECK_INT(store_audit_open(f.store, &last, &err), 0);
    CHECK_INT(last, 0);
    audit_add(&f, 1, "sandbox.create", 1000);
    audit_add(&f, 2, "sandbox.kill", 2000);
    audit_add(&f, 3, "key.create", 3000);
    store_audit_end(f.store, &outcome);
    CHECK(settled(&f));
    CHECK_INT(audit_count(&f, &query, "key.create"), 3);
    query.for_operator = true;
    CHECK_INT(audit_count(&f, &query, "key.create"), 3);
    query.action = "sandbox.*";
    CHECK_INT(audit_count(&f, &query, "sandbox.kill"), 2);
    query.action = "*.create";
    query.object = "made";
    CHECK_INT(audit_count(&f, &query, "sandbox.create"), 1);
    query.action = "sandbox_create";
    CHECK_INT(audit_count(&f, &query, ""), 0);
    query = (struct audit_query){
        .team_id = "team", .to_ms = INT64_MAX, .limit = 10, .oldest_first = true};
    CHECK_INT(audit_count(&f, &query, "sandbox.create"), 1); /* the next has no outcome yet */

    store_audit_forget_team(f.store, "team", 1);
    CHECK(settled(&f));
    CHECK_INT(count(f.path, "SELECT count(*) FROM audit"), 1);
    store_audit_forget(f.store, INT64_MAX, INT64_MAX);
    CHECK(settled(&f));
    CHECK_INT(count(f.path, "SELECT count(*) FROM audit"), 0);
    CHECK_INT(store_audit_open(f.store, &last, &err), 0);
    CHECK_INT(last, 3);
    fixture_fini(&f);
}

struct page_answer {
    int calls, error;
    char lines[256];
    int64_t last;
};

static void on_page(void *ctx, int error, const struct err *err, struct str lines, int64_t last)
{
    struct page_answer *page = ctx;

    (void)err;
    page->calls++;
    page->error = error;
    page->last = last;
    (void)snprintf(page->lines, sizeof(page->lines), "%.*s", (int)lines.len, lines.at);
}

static void page_wait(struct fixture *f, struct page_answer *page)
{
    while (page->calls == 0) {
        (void)uv_run(&f->loop, UV_RUN_ONCE);
    }
    page->calls = 0;
}

static void event_save(struct fixture *f, const char *id, const char *type)
{
    struct event_row event = {.id = id,
                              .team_id = "team",
                              .sandbox_id = "a",
                              .type = type,
                              .timestamp_ms = clock_wall_ms() - A_DAY_MS,
                              .body = id};

    store_event_save(f->store, &event, must_save, NULL);
}

static void events_are_followed_from_a_place(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;
    struct page_answer page = {0};
    struct event_query query = {.team_id = "team"};

    CHECK(fixture_init(&f, &dir));
    event_save(&f, "1", ".created");
    event_save(&f, "2", ".killed");
    event_save(&f, "3", ".created");
    CHECK(settled(&f));
    store_events_place(f.store, "team", "1", on_page, &page);
    page_wait(&f, &page);
    CHECK_INT(page.error, 0);
    store_events_after(f.store, &query, page.last, on_page, &page);
    page_wait(&f, &page);
    CHECK_STR(page.lines, "2\n3\n");
    int64_t end = page.last;
    query.types = ",.killed,";
    query.sandbox_id = "a";
    store_events_after(f.store, &query, 0, on_page, &page);
    page_wait(&f, &page);
    CHECK_STR(page.lines, "2\n");
    CHECK_INT(page.last, end);
    store_events_place(f.store, "team", NULL, on_page, &page);
    page_wait(&f, &page);
    CHECK_INT(page.last, end);
    store_events_place(f.store, "team", "none", on_page, &page);
    page_wait(&f, &page);
    CHECK_INT(page.error, -ENOENT);
    fixture_fini(&f);
}

static void deliver_again(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;
    struct answer answer = {0};
    struct webhook_row hook = {"w", "team", "name", "http://x/", ",.created,", "secret", true, 1};
    struct delivery of = {.event_seq = 1};
    struct text_answer got = {0};

    CHECK(fixture_init(&f, &dir));
    team_save(&f);
    store_webhook_save(f.store, &hook, must_save, NULL);
    event_save(&f, "1", ".created");
    CHECK(settled(&f));
    store_delivery_again(f.store, "w", &of, "again", clock_wall_ms(), on_done, &answer);
    wait_for(&f, &answer);
    CHECK_INT(answer.error, 0);
    answer = (struct answer){0};
    of.event_seq = 4711;
    store_delivery_again(f.store, "w", &of, "none", clock_wall_ms(), on_done, &answer);
    wait_for(&f, &answer);
    CHECK_INT(answer.error, -ENOENT);
    CHECK_INT(count(f.path, "SELECT count(*) FROM deliveries"), 2);
    store_deliveries_list(
        f.store, &(struct deliveries_query){.webhook_id = "w", .limit = 9, .with_events = true},
        on_text, &got);
    CHECK(strstr(text_wait(&f, &got), "\"event\":1,"));
    fixture_fini(&f);
}

int main(int argc, char **argv)
{
    static const struct check_test tests[] = {
        {"the usage of an hour adds up", usage_adds_up},
        {"artifacts are listed and read", artifacts_are_listed},
        {"tags and logs of builds are listed", tags_and_logs_of_builds_are_listed},
        {"keys go with forks and snapshots", keys_of_sandboxes_go_with_forks_and_snapshots},
        {"a lineage is walked up and down", a_lineage_is_walked_up_and_down},
        {"the audit log is filtered, and gives no number twice",
         the_audit_log_is_filtered_and_numbers_are_not_given_twice},
        {"events are followed from a place", events_are_followed_from_a_place},
        {"an event is delivered again", deliver_again},
    };

    on_postgres = argc > 1 && strcmp(argv[1], "postgres") == 0;
    return check_run(tests, countof(tests));
}
