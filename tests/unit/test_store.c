#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "lib/base/clock.h"
#include "store_fixture.h"

static struct sandbox_row a_row(const char *id)
{
    return (struct sandbox_row){
        .id = id,
        .team_id = "team",
        .template_id = "template",
        .state = "running",
        .started_ms = 1000,
        .end_ms = 2000,
        .created_ms = 1000,
        .access_token = "token",
        .options_json = "{\"metadata\":{\"a\":\"\xc3\xa9\"}}",
        .cpu_count = 2,
        .memory_mb = 512,
        .disk_mb = 1024,
        .uid_slot = 7,
        .pid = 4711,
        .start_ticks = UINT64_C(1) << 40,
    };
}

static struct event_row an_event(const struct sandbox_row *row)
{
    return (struct event_row){.id = "event",
                              .team_id = row->team_id,
                              .sandbox_id = row->id,
                              .type = "sandbox.lifecycle.updated",
                              .timestamp_ms = clock_wall_ms(),
                              .body = "{\"event\":1}"};
}

static void save_row(struct store *store, const struct sandbox_row *row,
                     enum store_durability durability, store_done *done, void *ctx)
{
    struct event_row event = an_event(row);

    store_sandbox_save(store, row, &event, durability, done, ctx);
}

static int save(struct fixture *f, const struct sandbox_row *row, enum store_durability durability)
{
    struct answer answer = {0};

    save_row(f->store, row, durability, on_done, &answer);
    wait_for(f, &answer);
    return answer.error;
}

struct seen {
    int n;
    char ids[8][32];
    char alias[32], reason[32], token[32], options[64];
    struct sandbox_row last; /* its texts are dead: the numbers are what is looked at */
};

static void on_sandbox(void *ctx, const struct sandbox_row *row)
{
    struct seen *seen = ctx;

    if (seen->n < 8) {
        (void)snprintf(seen->ids[seen->n], sizeof(seen->ids[0]), "%s", row->id);
    }
    seen->n++;
    (void)snprintf(seen->alias, 32, "%s", row->template_alias ? row->template_alias : "NULL");
    (void)snprintf(seen->token, 32, "%s", row->access_token ? row->access_token : "NULL");
    (void)snprintf(seen->options, 64, "%s", row->options_json);
    seen->last = *row;
}

static void saves_and_loads(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;
    struct seen seen = {0};
    struct err err;

    CHECK(fixture_init(&f, &dir));
    struct sandbox_row late = a_row("late"), early = a_row("early");
    late.created_ms = 5000;
    CHECK_INT(save(&f, &late, STORE_LAZY), 0);
    CHECK_INT(save(&f, &early, STORE_SYNC), 0);
    CHECK_INT(store_load_sandboxes(f.store, on_sandbox, &seen, &err), 0);
    CHECK_INT(seen.n, 2);
    CHECK_STR(seen.ids[0], "early");
    CHECK_STR(seen.ids[1], "late");
    CHECK_STR(seen.alias, "NULL");
    CHECK_STR(seen.token, "token");
    CHECK_STR(seen.options, late.options_json);
    CHECK_INT(seen.last.pid, 4711);
    CHECK(seen.last.start_ticks == UINT64_C(1) << 40);
    fixture_fini(&f);
}

static void replaces_all_but_the_birth(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;
    struct seen seen = {0};
    struct err err;

    CHECK(fixture_init(&f, &dir));
    struct sandbox_row row = a_row("one");
    CHECK_INT(save(&f, &row, STORE_LAZY), 0);
    row.end_ms = 9000;
    row.created_ms = 9000;
    CHECK_INT(save(&f, &row, STORE_LAZY), 0);
    CHECK_INT(store_load_sandboxes(f.store, on_sandbox, &seen, &err), 0);
    CHECK_INT(seen.n, 1);
    CHECK_INT(seen.last.end_ms, 9000);
    CHECK_INT(seen.last.created_ms, 1000);
    fixture_fini(&f);
}

static void killed_are_kept_then_forgotten(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;
    struct seen seen = {0};
    struct err err;
    int64_t day_ms = 24 * 3600 * 1000;

    CHECK(fixture_init(&f, &dir));
    struct sandbox_row fresh = a_row("fresh"), old = a_row("old");
    fresh.state = old.state = "killed";
    fresh.end_reason = old.end_reason = "out of memory";
    fresh.end_ms = clock_wall_ms() - day_ms;
    old.end_ms = clock_wall_ms() - 30 * day_ms;
    CHECK_INT(save(&f, &fresh, STORE_LAZY), 0);
    CHECK_INT(save(&f, &old, STORE_LAZY), 0);
    CHECK_INT(store_load_sandboxes(f.store, on_sandbox, &seen, &err), 0);
    CHECK_INT(seen.n, 0);
    fixture_fini(&f);

    CHECK(fixture_init(&f, &dir));
    CHECK_INT(count(f.path, "SELECT count(*) FROM sandboxes WHERE end_reason = 'out of memory'"),
              1);
    CHECK_INT(count(f.path, "SELECT count(*) FROM sandboxes WHERE id = 'fresh'"), 1);
    fixture_fini(&f);
}

static void on_key(void *ctx, const struct key_row *row)
{
    struct seen *seen = ctx;

    (void)snprintf(seen->ids[seen->n++], sizeof(seen->ids[0]), "%s", row->name);
    seen->last.end_ms = row->last_used_ms;
}

static struct key_row a_key(const char *id, const char *team, const char *hash)
{
    return (struct key_row){
        .id = id,
        .team_id = team,
        .name = id,
        .hash = hash,
        .prefix = "e2b_",
        .masked = "e2b_ab...wxyz",
        .created_ms = 1,
    };
}

static void keys_belong_to_teams(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;
    struct seen seen = {0};
    struct err err;
    struct answer team = {0}, good = {0}, bad = {0}, twin = {0}, after = {0}, gone = {0};

    CHECK(fixture_init(&f, &dir));
    struct team_row row = {.id = "t", .name = "default", .created_ms = 1};
    struct key_row k1 = a_key("k1", "t", "h1"), k2 = a_key("k2", "nobody", "h2");
    struct key_row k3 = a_key("k3", "t", "h1"), k4 = a_key("k4", "t", "h4");
    k1.last_used_ms = 99;

    /* Asked for at once, so most likely in one transaction: the bad ones fail alone. */
    store_team_save(f.store, &row, on_done, &team);
    store_key_save(f.store, &k1, on_done, &good);
    store_key_save(f.store, &k2, on_done, &bad);
    store_key_save(f.store, &k3, on_done, &twin);
    store_key_save(f.store, &k4, on_done, &after);
    store_key_delete(f.store, "k4", on_done, &gone);
    wait_for(&f, &gone);
    CHECK_INT(team.error, 0);
    CHECK_INT(good.error, 0);
    CHECK_INT(bad.error, -EEXIST);
    CHECK(strstr(bad.err.msg, "save API key") && strcasestr(bad.err.msg, "foreign key"));
    CHECK_INT(twin.error, -EEXIST);
    CHECK_INT(after.error, 0);
    CHECK_INT(gone.error, 0);
    CHECK_INT(store_load_keys(f.store, on_key, &seen, &err), 0);
    CHECK_INT(seen.n, 1);
    CHECK_STR(seen.ids[0], "k1");
    CHECK_INT(seen.last.end_ms, 99);
    fixture_fini(&f);
}

static void a_row_too_large_fails_alone(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;
    struct answer large = {0}, small = {0};
    size_t len = (size_t)5 << 20;

    CHECK(fixture_init(&f, &dir));
    char *text = malloc(len + 1);
    CHECK(text);
    memset(text, 'x', len);
    text[len] = '\0';
    struct sandbox_row row = a_row("large"), other = a_row("small");
    row.options_json = text;
    save_row(f.store, &row, STORE_LAZY, on_done, &large);
    save_row(f.store, &other, STORE_LAZY, on_done, &small);
    free(text);
    wait_for(&f, &small);
    CHECK_INT(large.error, -ENOBUFS);
    CHECK_INT(small.error, 0);
    fixture_fini(&f);
    CHECK_INT(count(f.path, "SELECT count(*) FROM sandboxes"), 1);
}

static void close_drains(void)
{
    enum { JOBS = 2000 };
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;
    struct answer answer = {0};
    char id[16];

    CHECK(fixture_init(&f, &dir));
    for (int i = 0; i < JOBS; i++) {
        (void)snprintf(id, sizeof(id), "s%d", i);
        struct sandbox_row row = a_row(id);
        save_row(f.store, &row, i % 2 ? STORE_SYNC : STORE_LAZY, on_done, &answer);
    }
    fixture_fini(&f);
    CHECK_INT(answer.calls, JOBS);
    CHECK_INT(answer.error, 0);
    CHECK_INT(count(f.path, "SELECT count(*) FROM sandboxes"), JOBS);
}

static void file_is_ours_alone(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;
    struct stat st;
    char wal[160];

    CHECK(fixture_init(&f, &dir));
    struct sandbox_row row = a_row("one");
    CHECK_INT(save(&f, &row, STORE_LAZY), 0);
    (void)snprintf(wal, sizeof(wal), "%s-wal", f.path);
    CHECK(stat(f.path, &st) == 0 && (st.st_mode & 0777) == 0600);
    CHECK(stat(wal, &st) == 0 && (st.st_mode & 0777) == 0600);
    fixture_fini(&f);
}

/* ---- the disk ---- */

static _Atomic int syncs;

/* SQLite's, which asks for no other. */
int fdatasync(int fd)
{
    syncs++;
    return (int)syscall(SYS_fdatasync, fd);
}

static int settle(struct fixture *f)
{
    struct answer answer = {0};

    store_settle(f->store, on_done, &answer);
    wait_for(f, &answer);
    return answer.error;
}

/* A commit that changes nothing is none that SQLite would sync. */
static void settling_writes_what_was_lazy_to_the_disk(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;

    CHECK(fixture_init(&f, &dir));
    for (int i = 0; i < 3; i++) {
        struct sandbox_row row = a_row(i == 1 ? "one" : "two");
        CHECK_INT(save(&f, &row, STORE_SYNC), 0); /* the log may begin with a sync of its own */
        int before = syncs;
        row.state = "paused";
        CHECK_INT(save(&f, &row, STORE_LAZY), 0);
        CHECK_INT(syncs, before);
        CHECK_INT(settle(&f), 0);
        CHECK_INT(syncs, before + 1);
    }
    fixture_fini(&f);
}

static void template_add(struct fixture *f, const char *id, const char *build_id)
{
    struct answer answer = {0};
    struct template_row row = {.id = id,
                               .alias = id,
                               .team_id = "team",
                               .build_id = build_id,
                               .layers = "",
                               .user = "user",
                               .workdir = "",
                               .env_json = "{}"};

    store_template_save(f->store, &row, on_done, &answer);
    wait_for(f, &answer);
    CHECK_INT(answer.error, 0);
}

/* Its first build is recorded after it: the machine may be cut off between the two. */
static void a_template_that_was_cut_short_is_removed(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;
    struct answer team = {0}, build = {0};

    CHECK(fixture_init(&f, &dir));
    store_team_save(f.store, &(struct team_row){.id = "team", .name = "team"}, on_done, &team);
    wait_for(&f, &team);
    template_add(&f, "half", "");
    template_add(&f, "built", "build");
    template_add(&f, "waiting", "");
    struct build_row row = {.id = "first",
                            .template_id = "waiting",
                            .state = "waiting",
                            .tags = "",
                            .layers = "",
                            .user = "",
                            .workdir = "",
                            .env_json = "{}"};
    store_build_save(f.store, &row, on_done, &build);
    wait_for(&f, &build);
    CHECK_INT(build.error, 0);
    fixture_fini(&f);

    CHECK(fixture_init(&f, &dir));
    CHECK_INT(count(f.path, "SELECT count(*) FROM templates"), 2);
    CHECK_INT(count(f.path, "SELECT count(*) FROM templates WHERE id = 'half'"), 0);
    fixture_fini(&f);
}

/* ---- versions ---- */

static void sql(const char *path, const char *text)
{
    sqlite3 *db = NULL;

    if (on_postgres) {
        (void)postgres_server_number(path, text);
        return;
    }
    if (sqlite3_open(path, &db) != SQLITE_OK ||
        sqlite3_exec(db, text, NULL, NULL, NULL) != SQLITE_OK) {
        printf("# %s: %s\n", text, sqlite3_errmsg(db));
        abort();
    }
    (void)sqlite3_close(db);
}

/* ---- artifacts ---- */

static struct artifact_row an_artifact(const char *path, bool replace)
{
    return (struct artifact_row){.team_id = "team",
                                 .path = path,
                                 .content = "code",
                                 .language = "python",
                                 .entrypoint = "",
                                 .description = "",
                                 .sha256 = "",
                                 .team_max = 2,
                                 .replace = replace};
}

static void artifacts_are_counted_and_saved_as_one(void)
{
    static const struct {
        const char *path;
        bool replace;
        int error;
    } saves[] = {{"a", false, 0}, {"a", false, -EEXIST}, {"b", true, 0},
                 {"a", true, 0},  {"c", true, -EEXIST},  {"c", false, -EEXIST}};
    scoped_tmpdir dir = tmpdir_make();
    struct answer answers[countof(saves)] = {0};
    struct fixture f;

    CHECK(fixture_init(&f, &dir));
    sql(f.path, "INSERT INTO teams (id, name, created_ms) VALUES ('team', 'team', 0)");
    for (size_t i = 0; i < countof(saves); i++) { /* at one time: none waits for another */
        struct artifact_row row = an_artifact(saves[i].path, saves[i].replace);
        store_artifact_save(f.store, &row, on_done, &answers[i]);
    }
    for (size_t i = 0; i < countof(saves); i++) {
        wait_for(&f, &answers[i]);
        CHECK_INT(answers[i].error, saves[i].error);
    }
    CHECK_INT(count(f.path, "SELECT count(*) FROM artifacts"), 2);
    CHECK_INT(count(f.path, "SELECT version FROM artifacts WHERE path = 'a'"), 2);
    fixture_fini(&f);
}

/* ---- keys in the memory of snapshots ---- */

static void snapshot_save(struct fixture *f, const char *build_id, const char *sandbox_id)
{
    struct answer answer = {0};
    const struct build_row build = {.id = build_id,
                                    .template_id = "snap",
                                    .state = "ready",
                                    .tags = "",
                                    .layers = "base",
                                    .user = "user",
                                    .workdir = "",
                                    .env_json = "{}",
                                    .snapshot_of = sandbox_id};

    store_build_save(f->store, &build, on_done, &answer);
    wait_for(f, &answer);
    CHECK_INT(answer.error, 0);
}

static void keys_go_with_every_tagged_snapshot(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;

    CHECK(fixture_init(&f, &dir));
    for (int i = 0; i < 3; i++) {
        struct sandbox_row row = a_row((const char *[]){"one", "two", "three"}[i]);
        CHECK_INT(save(&f, &row, STORE_LAZY), 0);
    }
    sql(f.path, "INSERT INTO sandbox_keys VALUES ('one', 'one', 'team', 1, 'x'),"
                " ('two', 'two', 'team', 1, 'y'), ('three', 'three', 'another', 1, 'z');"
                "INSERT INTO teams (id, name, created_ms) VALUES ('team', 'team', 0);"
                "INSERT INTO templates (id, team_id, build_id, layers, \"user\", workdir, env_json,"
                " cpu_count, memory_mb, disk_mb, created_ms, is_public, snapshot_of)"
                " VALUES ('snap', 'team', '', '', 'user', '', '{}', 1, 1, 1, 1, 0, 'one')");
    snapshot_save(&f, "b1", "one");
    snapshot_save(&f, "b2", "two");
    snapshot_save(&f, "b3", "three"); /* another team's: never */
    CHECK_INT(count(f.path, "SELECT count(*) FROM snapshot_keys WHERE sealed IN ('x', 'y')"), 2);
    CHECK_INT(count(f.path, "SELECT count(*) FROM snapshot_keys"), 2);

    sql(f.path, "INSERT INTO tags VALUES ('snap', 'v1', 'b1', 1);"
                "UPDATE templates SET saved = 'a', snapshot_of = 'two'");
    CHECK_INT(count(f.path, "SELECT count(*) FROM snapshot_keys"), 2); /* v1 still names one */
    sql(f.path, "DELETE FROM tags; UPDATE templates SET saved = 'b'");
    CHECK_INT(count(f.path, "SELECT count(*) FROM snapshot_keys WHERE sealed = 'y'"), 1);
    CHECK_INT(count(f.path, "SELECT count(*) FROM snapshot_keys"), 1);
    fixture_fini(&f);
}

static void version_set(const char *path, int version)
{
    char text[128];

    (void)snprintf(text, sizeof(text),
                   on_postgres ? "CREATE TABLE IF NOT EXISTS atoll_version (version bigint);"
                                 "DELETE FROM atoll_version; INSERT INTO atoll_version VALUES (%d)"
                               : "PRAGMA user_version = %d",
                   version);
    sql(path, text);
}

static int version_of(const char *path)
{
    return count(path, on_postgres ? "SELECT version FROM atoll_version" : "PRAGMA user_version");
}

static void migrates_from_nothing(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f = {0};

    place_of(&dir, f.path, sizeof(f.path));
    sql(f.path, "CREATE TABLE of_somebody_else (x TEXT)");
    version_set(f.path, 0);
    CHECK(uv_loop_init(&f.loop) == 0 && open_store(&f));
    CHECK(version_of(f.path) >= 1);
    CHECK_INT(count(f.path, "SELECT count(*) FROM keys"), 0);
    fixture_fini(&f);
}

static void a_failed_step_changes_nothing(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f = {0};
    struct err err = {0};

    place_of(&dir, f.path, sizeof(f.path));
    sql(f.path, "CREATE TABLE keys (of_somebody_else TEXT)"); /* the step makes sandboxes first */
    CHECK_INT(uv_loop_init(&f.loop), 0);
    CHECK(store_open(&f.loop, f.path, &f.store, &err) < 0);
    CHECK(strstr(err.msg, "migrate the database to version 1"));
    CHECK_INT(count(f.path, on_postgres ? "SELECT count(*) FROM pg_class WHERE relname IN"
                                          " ('sandboxes', 'atoll_version')"
                                        : "SELECT count(*) FROM sqlite_schema"
                                          " WHERE name = 'sandboxes'"),
              0);
    CHECK(on_postgres || version_of(f.path) == 0);
    CHECK_INT(uv_loop_close(&f.loop), 0);
}

static void refuses_a_newer_one(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f = {0};
    struct err err = {0};

    place_of(&dir, f.path, sizeof(f.path));
    version_set(f.path, 1000);
    CHECK_INT(uv_loop_init(&f.loop), 0);
    CHECK_INT(store_open(&f.loop, f.path, &f.store, &err), -ENOTSUP);
    CHECK(strstr(err.msg, "version 1000") && strstr(err.msg, "newer program"));
    CHECK_INT(version_of(f.path), 1000);
    CHECK_INT(uv_loop_close(&f.loop), 0);
}

static void says_that_a_file_is_damaged(void)
{
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f = {0};
    struct err err = {0};

    (void)snprintf(f.path, sizeof(f.path), "%s/state.db", dir.path);
    FILE *file = fopen(f.path, "w");
    CHECK(file);
    for (int i = 0; i < 1000; i++) {
        (void)fprintf(file, "this is no database\n");
    }
    CHECK_INT(fclose(file), 0);
    CHECK_INT(uv_loop_init(&f.loop), 0);
    CHECK_INT(store_open(&f.loop, f.path, &f.store, &err), -EUCLEAN);
    CHECK(strstr(err.msg, "damaged"));
    CHECK_INT(store_open(&f.loop, "/nonexistent/state.db", &f.store, &err), -ENOENT);
    CHECK(strstr(err.msg, "/nonexistent/state.db"));
    CHECK_INT(uv_loop_close(&f.loop), 0);
}

/* ---- death and full disks ---- */

struct load {
    struct fixture *f;
    volatile uint32_t *acknowledged; /* shared with the parent: bit per row */
    uint32_t next;
    enum { ROWS = 20000 } rows;
};

struct ticket {
    struct load *load;
    uint32_t row;
};

static void on_ticket(void *ctx, int error, const struct err *err);

static void load_more(struct load *load)
{
    if (load->next == ROWS) {
        return;
    }
    struct ticket *ticket = malloc(sizeof(*ticket));
    char id[16];

    if (!ticket) {
        abort();
    }
    *ticket = (struct ticket){load, load->next++};
    (void)snprintf(id, sizeof(id), "s%" PRIu32, ticket->row);
    struct sandbox_row row = a_row(id);
    save_row(load->f->store, &row, STORE_LAZY, on_ticket, ticket);
}

static void on_ticket(void *ctx, int error, const struct err *err)
{
    struct ticket *ticket = ctx;
    struct load *load = ticket->load;

    (void)err;
    if (error == 0) {
        load->acknowledged[ticket->row] = 1;
    }
    free(ticket);
    load_more(load);
}

static void write_until_killed(const struct tmpdir *dir, volatile uint32_t *acknowledged)
{
    struct fixture f;
    struct load load = {.f = &f, .acknowledged = acknowledged};

    if (!fixture_init(&f, dir)) {
        _exit(1);
    }
    for (int i = 0; i < 64; i++) {
        load_more(&load);
    }
    (void)uv_run(&f.loop, UV_RUN_DEFAULT);
    _exit(0);
}

static uint32_t count_acknowledged(const volatile uint32_t *acknowledged)
{
    uint32_t n = 0;

    for (int i = 0; i < ROWS; i++) {
        n += acknowledged[i];
    }
    return n;
}

static void on_survivor(void *ctx, const struct sandbox_row *row)
{
    uint8_t *present = ctx;
    unsigned long i = strtoul(row->id + 1, NULL, 10);

    if (i < ROWS) {
        present[i] = 1;
    }
}

static void kill_9_loses_nothing_acknowledged(void)
{
    static uint8_t present[ROWS];
    volatile uint32_t *acknowledged = mmap(NULL, ROWS * sizeof(uint32_t), PROT_READ | PROT_WRITE,
                                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct err err;

    CHECK(acknowledged != MAP_FAILED);
    for (uint32_t at = 100; at < 5000; at *= 4) { /* dies at 100, 400 and 1600 rows */
        scoped_tmpdir dir = tmpdir_make();
        struct fixture f;

        memset((void *)(uintptr_t)acknowledged, 0, ROWS * sizeof(uint32_t));
        memset(present, 0, sizeof(present));
        (void)fflush(stdout);
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            write_until_killed(&dir, acknowledged);
        }
        int status = 0;
        while (count_acknowledged(acknowledged) < at && waitpid(pid, &status, WNOHANG) == 0) {
            (void)usleep(200);
        }
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, &status, 0);

        CHECK(fixture_init(&f, &dir));
        CHECK_INT(store_load_sandboxes(f.store, on_survivor, present, &err), 0);
        CHECK(count_acknowledged(acknowledged) >= at);
        for (int i = 0; i < ROWS; i++) {
            CHECK_THAT(!acknowledged[i] || present[i], "row %d was acknowledged and is lost", i);
        }
        CHECK(on_postgres || count(f.path, "SELECT count(*) FROM pragma_integrity_check"
                                           " WHERE integrity_check = 'ok'") == 1);
        fixture_fini(&f);
    }
    (void)munmap((void *)(uintptr_t)acknowledged, ROWS * sizeof(uint32_t));
}

/* A limit on file sizes stands for a full disk: the write fails in the middle of the log. */
static void full_disk_child(const struct tmpdir *dir, volatile uint32_t *acknowledged)
{
    struct fixture f;
    struct rlimit limit = {.rlim_cur = 1024 * 1024, .rlim_max = RLIM_INFINITY};
    struct answer answer = {0};
    char id[16];

    (void)signal(SIGXFSZ, SIG_IGN);
    if (!fixture_init(&f, dir) || setrlimit(RLIMIT_FSIZE, &limit) < 0) {
        _exit(10);
    }
    for (uint32_t i = 0; i < ROWS; i++) {
        (void)snprintf(id, sizeof(id), "s%" PRIu32, i);
        struct sandbox_row row = a_row(id);
        int r = save(&f, &row, STORE_SYNC);
        if (r < 0) {
            struct rlimit none = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};

            save_row(f.store, &row, STORE_SYNC, on_done, &answer);
            wait_for(&f, &answer);
            if (answer.error != -EIO || !strstr(answer.err.msg, "save sandbox: commit: disk I/O")) {
                _exit(11);
            }
            /* Room again: the same store goes on. */
            if (setrlimit(RLIMIT_FSIZE, &none) < 0 || save(&f, &row, STORE_SYNC) != 0) {
                _exit(12);
            }
            acknowledged[i] = 1;
            _exit(0);
        }
        acknowledged[i] = 1;
    }
    _exit(13);
}

static void full_disk_loses_nothing_acknowledged(void)
{
    static uint8_t present[ROWS];
    scoped_tmpdir dir = tmpdir_make();
    struct fixture f;
    struct err err;
    volatile uint32_t *acknowledged = mmap(NULL, ROWS * sizeof(uint32_t), PROT_READ | PROT_WRITE,
                                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    CHECK(acknowledged != MAP_FAILED);
    (void)fflush(stdout);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        full_disk_child(&dir, acknowledged);
    }
    int status = 0;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status));
    CHECK_INT(WEXITSTATUS(status), 0);

    CHECK(fixture_init(&f, &dir));
    CHECK_INT(store_load_sandboxes(f.store, on_survivor, present, &err), 0);
    CHECK(count_acknowledged(acknowledged) > 10);
    for (int i = 0; i < ROWS; i++) {
        CHECK_THAT(!acknowledged[i] || present[i], "row %d was acknowledged and is lost", i);
    }
    fixture_fini(&f);
    (void)munmap((void *)(uintptr_t)acknowledged, ROWS * sizeof(uint32_t));
}

int main(int argc, char **argv)
{
    static const struct check_test tests[] = {
        {"rows are saved and loaded, oldest first", saves_and_loads},
        {"a save replaces everything but the creation time", replaces_all_but_the_birth},
        {"killed rows are not loaded, kept, then forgotten", killed_are_kept_then_forgotten},
        {"a failing statement fails only its own job", keys_belong_to_teams},
        {"a row over the limit fails alone", a_row_too_large_fails_alone},
        {"close runs what is queued", close_drains},
        {"a template that was cut short is removed", a_template_that_was_cut_short_is_removed},
        {"artifacts are counted and saved as one", artifacts_are_counted_and_saved_as_one},
        {"keys go with every tagged snapshot", keys_go_with_every_tagged_snapshot},
        {"a database of version 0 is migrated", migrates_from_nothing},
        {"a migration that fails leaves nothing", a_failed_step_changes_nothing},
        {"a newer database is refused and left alone", refuses_a_newer_one},
        {"kill -9 loses nothing acknowledged", kill_9_loses_nothing_acknowledged},
        /* Only of a file: */
        {"the file and its log are private", file_is_ours_alone},
        {"settling writes what was lazy to the disk", settling_writes_what_was_lazy_to_the_disk},
        {"a damaged or missing file is named", says_that_a_file_is_damaged},
        {"a full disk loses nothing acknowledged", full_disk_loses_nothing_acknowledged},
    };
    enum { OF_A_FILE = 4 };

    on_postgres = argc > 1 && strcmp(argv[1], "postgres") == 0;
    return check_run(tests, countof(tests) - (on_postgres ? OF_A_FILE : 0));
}
