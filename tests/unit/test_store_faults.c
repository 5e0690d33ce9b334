/* The store on a disk that fails: nothing that was acknowledged is lost, what was not is told with
 * a sentence, and a sandbox's row and its event are never apart. */
#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <uv.h>

#include "base/clock.h"
#include "check.h"
#include "faulty_vfs.h"
#include "store/store.h"
#include "tmpdir.h"

enum {
    ROWS = 24,
    STRIKES = 32, /* the fault moves on by one operation each time */
};

struct run {
    uv_loop_t loop;
    struct store *store;
    char path[64];
    bool acknowledged[ROWS];
    int failed;
    int calls, error; /* of the last answer */
    struct err err;
};

/* ---- one run ---- */

static bool run_open(struct run *run, const struct tmpdir *dir)
{
    struct err err = {0};

    *run = (struct run){0};
    (void)snprintf(run->path, sizeof(run->path), "%s/state.db", dir->path);
    if (uv_loop_init(&run->loop) != 0 || store_open(&run->loop, run->path, &run->store, &err) < 0) {
        printf("# %s\n", err.msg);
        return false;
    }
    return true;
}

static void run_close(struct run *run)
{
    store_close(run->store);
    (void)uv_run(&run->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&run->loop);
}

static void on_done(void *ctx, int error, const struct err *err)
{
    struct run *run = ctx;

    run->calls++;
    run->error = error;
    run->err = *err;
}

static int save(struct run *run, int number, enum store_durability durability)
{
    char id[16], body[4096];
    struct sandbox_row row = {.id = id,
                              .team_id = "team",
                              .template_id = "template",
                              .state = "running",
                              .created_ms = number};
    struct event_row event = {.id = id,
                              .team_id = "team",
                              .sandbox_id = id,
                              .type = "sandbox.lifecycle.created",
                              .timestamp_ms = clock_wall_ms(),
                              .body = body};

    (void)snprintf(id, sizeof(id), "s%d", number);
    (void)snprintf(body, sizeof(body), "%0*d", (int)sizeof(body) - 1, number); /* fills a page */
    run->calls = 0;
    store_sandbox_save(run->store, &row, &event, durability, on_done, run);
    while (run->calls == 0) {
        (void)uv_run(&run->loop, UV_RUN_ONCE);
    }
    return run->error;
}

/* Saves them all; false when a failure came without its sentence, or with another error. */
static bool save_all(struct run *run, int expected)
{
    bool well_said = true;

    for (int i = 0; i < ROWS; i++) {
        int r = save(run, i, i % 2 ? STORE_SYNC : STORE_LAZY);

        run->acknowledged[i] = r == 0;
        run->failed += r < 0;
        if (r < 0 && (r != expected || !strstr(run->err.msg, "save sandbox"))) {
            printf("# row %d: %d: %s\n", i, r, run->err.msg);
            well_said = false;
        }
    }
    return well_said;
}

/* ---- what is on the disk ---- */

static void on_row(void *ctx, const struct sandbox_row *row)
{
    bool *present = ctx;
    long i = strtol(row->id + 1, NULL, 10);

    if (i >= 0 && i < ROWS) {
        present[i] = true;
    }
}

static int count(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    int n = -1;

    if (sqlite3_open(path, &db) == SQLITE_OK &&
        sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK &&
        sqlite3_step(stmt) == SQLITE_ROW) {
        n = sqlite3_column_int(stmt, 0);
    }
    (void)sqlite3_finalize(stmt);
    (void)sqlite3_close(db);
    return n;
}

/* Opens it again and compares; `lazy` says whether unsynced rows must be there too. */
static void check_disk(const struct run *run, const struct tmpdir *dir, bool lazy)
{
    bool present[ROWS] = {false};
    struct run again;
    struct err err;

    CHECK(run_open(&again, dir));
    CHECK_INT(store_load_sandboxes(again.store, on_row, present, &err), 0);
    for (int i = 0; i < ROWS; i++) {
        bool owed = run->acknowledged[i] && (lazy || i % 2);
        CHECK_THAT(!owed || present[i], "row %d was acknowledged and is lost", i);
    }
    CHECK_INT(count(again.path, "SELECT count(*) FROM sandboxes s FULL JOIN events e"
                                " ON s.id = e.sandbox_id WHERE s.id IS NULL OR e.id IS NULL"),
              0);
    CHECK_INT(count(again.path, "SELECT count(*) FROM pragma_integrity_check"
                                " WHERE integrity_check <> 'ok'"),
              0);
    CHECK_INT(save(&again, ROWS, STORE_SYNC), 0);
    run_close(&again);
}

/* ---- the faults ---- */

/* The fault strikes once, at every moment in turn; then the same store goes on. */
static void strike_once(enum fault fault, int expected)
{
    int struck = 0, failed = 0;

    for (int after = 0; after < STRIKES && !check_failed; after++) {
        scoped_tmpdir dir = tmpdir_make();
        struct run run;

        CHECK(run_open(&run, &dir));
        faulty_vfs_arm(fault, after, false);
        bool well_said = save_all(&run, expected);
        struck += faulty_vfs_struck();
        failed += run.failed;
        faulty_vfs_arm(FAULT_NONE, 0, false);
        CHECK(well_said);
        CHECK_INT(save(&run, ROWS, STORE_SYNC), 0);
        run_close(&run);
        check_disk(&run, &dir, true);
    }
    CHECK(struck > STRIKES / 4);
    CHECK_THAT(failed <= struck, "%d faults made %d saves fail", struck, failed);
}

/* The fault stays until the operator has made room; all saves fail meanwhile, each with its
 * sentence. */
static void strike_forever(enum fault fault, int expected)
{
    for (int after = 0; after <= 10 && !check_failed; after += 5) {
        scoped_tmpdir dir = tmpdir_make();
        struct run run;

        CHECK(run_open(&run, &dir));
        faulty_vfs_arm(fault, after, true);
        bool well_said = save_all(&run, expected);
        int struck = faulty_vfs_struck();
        faulty_vfs_arm(FAULT_NONE, 0, false);
        CHECK(well_said && struck > 0 && run.failed > 0);
        CHECK_INT(save(&run, ROWS, STORE_SYNC), 0);
        run_close(&run);
        check_disk(&run, &dir, true);
    }
}

static void writes_fail(void)
{
    strike_once(FAULT_WRITE, -EIO);
    strike_forever(FAULT_WRITE, -EIO);
}

static void pages_tear(void)
{
    strike_once(FAULT_TORN, -EIO);
    strike_forever(FAULT_TORN, -EIO);
}

static void syncs_fail(void)
{
    strike_once(FAULT_SYNC, -EIO);
    strike_forever(FAULT_SYNC, -EIO);
}

static void the_disk_is_full(void)
{
    strike_once(FAULT_FULL, -EDQUOT);
    strike_forever(FAULT_FULL, -EDQUOT);
}

static void the_power_goes(void)
{
    for (int rows = 1; rows <= ROWS && !check_failed; rows++) {
        scoped_tmpdir dir = tmpdir_make();
        struct run run;
        char shm[80];

        CHECK(run_open(&run, &dir));
        for (int i = 0; i < rows; i++) {
            run.acknowledged[i] = save(&run, i, i % 2 ? STORE_SYNC : STORE_LAZY) == 0;
        }
        faulty_vfs_cut_power();
        run_close(&run);
        faulty_vfs_restore_power();
        (void)snprintf(shm, sizeof(shm), "%s-shm", run.path);
        (void)unlink(shm);
        check_disk(&run, &dir, false);
    }
}

int main(void)
{
    static const struct check_test tests[] = {
        {"writes that fail", writes_fail},        {"pages that are half written", pages_tear},
        {"syncs that fail", syncs_fail},          {"a full disk", the_disk_is_full},
        {"power that goes away", the_power_goes},
    };

    faulty_vfs_install();
    return check_run(tests, countof(tests));
}
