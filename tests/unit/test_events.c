/* Events and deliveries in the store: one transaction with the change, pages, and what is owed. */
#include <errno.h>
#include <jansson.h>
#include <uv.h>

#include "check.h"
#include "lib/base/clock.h"
#include "store_fixture.h"

static uv_loop_t loop;
static struct store *store;
static char path[128];

static struct {
    int calls, error;
    char text[8192];
    struct delivery owed[16];
    size_t owed_n;
} got;

static void on_changed(void *ctx, int error, const struct err *err)
{
    (void)ctx, (void)err;
    got.calls++;
    got.error = error;
}

static void on_text(void *ctx, int error, const struct err *err, const char *text)
{
    on_changed(ctx, error, err);
    (void)snprintf(got.text, sizeof(got.text), "%s", text ? text : "NULL");
}

static void on_owed(void *ctx, int error, const struct err *err, const struct delivery *all,
                    size_t n)
{
    on_changed(ctx, error, err);
    got.owed_n = n;
    memcpy(got.owed, all, n * sizeof(*all));
}

static int wait_answer(void)
{
    while (got.calls == 0) {
        (void)uv_run(&loop, UV_RUN_ONCE);
    }
    got.calls = 0;
    return got.error;
}

static int sql(const char *text)
{
    return count(path, text);
}

static void setup(const struct tmpdir *dir)
{
    struct err err;
    struct team_row ours = {.id = "ours", .name = "ours", .created_ms = 1};
    struct team_row theirs = {.id = "theirs", .name = "theirs", .created_ms = 2};

    got.calls = 0;
    place_of(dir, path, sizeof(path));
    if (uv_loop_init(&loop) < 0 || store_open(&loop, path, &store, &err) < 0) {
        abort();
    }
    store_team_save(store, &ours, NULL, NULL);
    store_team_save(store, &theirs, on_changed, NULL);
    (void)wait_answer();
}

static void teardown(void)
{
    store_close(store);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&loop) != 0) {
        check_failed = true;
        printf("# the loop still has handles\n");
    }
}

static int change(const char *team, const char *sandbox, const char *type, const char *body)
{
    struct sandbox_row row = {
        .id = sandbox, .team_id = team, .template_id = "t", .state = "running", .created_ms = 1};
    struct event_row event = {.id = "id",
                              .team_id = team,
                              .sandbox_id = sandbox,
                              .type = type,
                              .timestamp_ms = clock_wall_ms(),
                              .body = body};

    store_sandbox_save(store, &row, &event, STORE_LAZY, on_changed, NULL);
    return wait_answer();
}

static int add_webhook(const char *id, const char *team, const char *events, bool enabled)
{
    struct webhook_row row = {id, team, "name", "http://x/", events, "secret", enabled, 1};

    store_webhook_save(store, &row, on_changed, NULL);
    return wait_answer();
}

static const char *list(const char *sandbox, const char *types, int64_t offset, int64_t limit,
                        bool ascending)
{
    struct event_query query = {.team_id = "ours",
                                .sandbox_id = sandbox,
                                .types = types,
                                .offset = offset,
                                .limit = limit,
                                .ascending = ascending};

    store_events_list(store, &query, on_text, NULL);
    return wait_answer() == 0 ? got.text : "failed";
}

static void a_change_and_its_event_are_one(void)
{
    scoped_tmpdir dir = tmpdir_make();

    setup(&dir);
    CHECK_INT(change("ours", "a", ".created", "1"), 0);
    CHECK_INT(change("ours", "b", ".created", NULL), -EEXIST); /* an event without a body */
    CHECK_INT(sql("SELECT count(*) FROM sandboxes"), 1);
    CHECK_INT(sql("SELECT count(*) FROM events"), 1);
    CHECK_INT(sql("SELECT count(*) FROM sandboxes WHERE id = 'a'"), 1);
    teardown();
}

static void pages_and_types(void)
{
    scoped_tmpdir dir = tmpdir_make();

    setup(&dir);
    CHECK_INT(change("ours", "a", ".created", "1"), 0);
    CHECK_INT(change("theirs", "x", ".created", "9"), 0);
    CHECK_INT(change("ours", "b", ".created", "2"), 0);
    CHECK_INT(change("ours", "a", ".killed", "3"), 0);
    CHECK_STR(list(NULL, NULL, 0, 10, false), "[3,2,1]");
    CHECK_STR(list(NULL, NULL, 0, 10, true), "[1,2,3]");
    CHECK_STR(list(NULL, NULL, 1, 1, true), "[2]");
    CHECK_STR(list(NULL, NULL, 3, 10, true), "[]");
    CHECK_STR(list("a", NULL, 0, 10, true), "[1,3]");
    CHECK_STR(list("x", NULL, 0, 10, true), "[]");
    CHECK_STR(list(NULL, ",.killed,", 0, 10, true), "[3]");
    CHECK_STR(list("a", ",.killed,.created,", 0, 10, true), "[1,3]");
    CHECK_STR(list("a", ",.kill,", 0, 10, true), "[]");
    teardown();
}

static void old_events_are_forgotten(void)
{
    scoped_tmpdir dir = tmpdir_make();

    setup(&dir);
    CHECK_INT(add_webhook("w", "ours", ",.created,", true), 0);
    CHECK_INT(change("ours", "a", ".created", "1"), 0);
    CHECK_INT(change("ours", "b", ".created", "2"), 0);
    teardown();
    (void)sql("UPDATE events SET timestamp_ms = 1000 WHERE sandbox_id = 'a'");
    (void)sql("UPDATE deliveries SET created_ms = 1000 WHERE sandbox_id = 'a'");
    setup(&dir);
    CHECK_STR(list(NULL, NULL, 0, 10, true), "[2]");
    CHECK_INT(sql("SELECT count(*) FROM events"), 1);
    CHECK_INT(sql("SELECT count(*) FROM deliveries"), 1);
    teardown();
}

static void webhooks_are_owed_what_they_want(void)
{
    scoped_tmpdir dir = tmpdir_make();

    setup(&dir);
    CHECK_INT(add_webhook("all", "ours", ",.created,.killed,", true), 0);
    CHECK_INT(add_webhook("end", "ours", ",.killed,", true), 0);
    CHECK_INT(add_webhook("off", "ours", ",.killed,", false), 0);
    CHECK_INT(add_webhook("other", "theirs", ",.created,.killed,", true), 0);
    CHECK_INT(change("ours", "a", ".created", "1"), 0);
    CHECK_INT(change("ours", "a", ".killed", "2"), 0);
    CHECK_INT(sql("SELECT count(*) FROM deliveries WHERE webhook_id = 'all'"), 2);
    CHECK_INT(sql("SELECT count(*) FROM deliveries WHERE webhook_id = 'end'"), 1);
    CHECK_INT(sql("SELECT count(*) FROM deliveries"), 3);
    CHECK_INT(sql("SELECT count(DISTINCT id) FROM deliveries"), 3);

    store_webhook_delete(store, "all", on_changed, NULL);
    CHECK_INT(wait_answer(), 0);
    CHECK_INT(sql("SELECT count(*) FROM deliveries"), 1);
    teardown();
}

static void deliveries_are_read_and_marked(void)
{
    scoped_tmpdir dir = tmpdir_make();

    setup(&dir);
    CHECK_INT(add_webhook("w", "ours", ",.created,", true), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(change("ours", i == 1 ? "b" : "a", ".created", i == 0 ? "10" : "11"), 0);
    }
    store_deliveries_pending(store, "w", 0, 2, on_owed, NULL);
    CHECK_INT(wait_answer(), 0);
    CHECK_INT(got.owed_n, 2);
    CHECK_STR(got.owed[0].sandbox_id, "a");
    CHECK_STR(got.owed[1].sandbox_id, "b");
    CHECK_INT(strlen(got.owed[0].id), 36);
    int64_t last = got.owed[1].seq;

    struct delivery_mark mark = {.seq = got.owed[0].seq,
                                 .state = "delivered",
                                 .attempts = 2,
                                 .last_ms = 1000,
                                 .status = 204};
    store_event_read(store, got.owed[0].event_seq, on_text, NULL);
    CHECK_INT(wait_answer(), 0);
    CHECK_STR(got.text, "10");
    store_event_read(store, 4711, on_text, NULL);
    CHECK_INT(wait_answer(), 0);
    CHECK_STR(got.text, "NULL");
    store_delivery_mark(store, &mark, on_changed, NULL);
    CHECK_INT(wait_answer(), 0);

    store_deliveries_pending(store, "w", 0, 10, on_owed, NULL);
    CHECK_INT(wait_answer(), 0);
    CHECK_INT(got.owed_n, 2);
    store_deliveries_pending(store, "w", last, 10, on_owed, NULL);
    CHECK_INT(wait_answer(), 0);
    CHECK_INT(got.owed_n, 1);
    teardown();
}

static void history_is_shown(void)
{
    scoped_tmpdir dir = tmpdir_make();

    setup(&dir);
    CHECK_INT(add_webhook("w", "ours", ",.created,", true), 0);
    CHECK_INT(change("ours", "a", ".created", "1"), 0);
    CHECK_INT(change("ours", "b", ".created", "2"), 0);
    struct delivery_mark mark = {.seq = 1,
                                 .state = "pending",
                                 .attempts = 1,
                                 .next_ms = 2000,
                                 .last_ms = 1000,
                                 .error = "it said \"no\""};
    store_delivery_mark(store, &mark, on_changed, NULL);
    CHECK_INT(wait_answer(), 0);
    store_deliveries_list(
        store, &(struct deliveries_query){.webhook_id = "w", .limit = 10, .ascending = true},
        on_text, NULL);
    CHECK_INT(wait_answer(), 0);
    json_t *all = json_loads(got.text, 0, NULL);
    const json_t *first = json_array_get(all, 0);
    bool ok = json_array_size(all) == 2 &&
              strcmp(json_string_value(json_object_get(first, "error")), mark.error) == 0 &&
              strcmp(json_string_value(json_object_get(first, "lastAttemptAt")),
                     "1970-01-01T00:00:01.000Z") == 0 &&
              strcmp(json_string_value(json_object_get(first, "nextAttemptAt")),
                     "1970-01-01T00:00:02.000Z") == 0 &&
              json_is_null(json_object_get(first, "responseStatus")) &&
              json_integer_value(json_object_get(first, "attempts")) == 1;
    json_decref(all);
    CHECK_THAT(ok, "the history is %s", got.text);
    teardown();
}

struct counted_watch {
    struct events_watch watch;
    int count;
};

static void on_event(struct events_watch *watch)
{
    container_of(watch, struct counted_watch, watch)->count++;
}

static void commits_are_announced(void)
{
    scoped_tmpdir dir = tmpdir_make();

    struct counted_watch all = {.watch.on_event = on_event}, others = all;

    setup(&dir);
    others.watch.team_id = "theirs";
    store_events_watch(store, &all.watch);
    store_events_watch(store, &others.watch);
    CHECK_INT(add_webhook("w", "ours", ",.created,", true), 0);
    CHECK_INT(all.count, 0);
    CHECK_INT(change("ours", "b", ".created", NULL), -EEXIST);
    CHECK_INT(all.count, 0);
    CHECK_INT(change("ours", "a", ".created", "1"), 0);
    CHECK_INT(all.count, 1);
    CHECK_INT(others.count, 0);
    CHECK_INT(change("theirs", "c", ".created", "2"), 0);
    CHECK_INT(all.count, 2);
    CHECK_INT(others.count, 1);
    store_events_unwatch(store, &others.watch);
    store_events_unwatch(store, &all.watch);
    teardown();
}

int main(int argc, char **argv)
{
    static const struct check_test tests[] = {
        {"a change and its event are one", a_change_and_its_event_are_one},
        {"lists have pages, types and teams", pages_and_types},
        {"what is old is forgotten", old_events_are_forgotten},
        {"each webhook is owed what it wants", webhooks_are_owed_what_they_want},
        {"deliveries are read and marked", deliveries_are_read_and_marked},
        {"the history of a webhook", history_is_shown},
        {"a watcher is told after the commit", commits_are_announced},
    };

    on_postgres = argc > 1 && strcmp(argv[1], "postgres") == 0;
    return check_run(tests, countof(tests));
}
