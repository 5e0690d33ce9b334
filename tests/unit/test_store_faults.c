/* The store on a disk that fails: nothing that was acknowledged is lost, what was not is told with
 * a sentence, and a sandbox's row and its event are never apart. */
#include <errno.h>
#include <inttypes.h>

#include "check.h"
#include "faulty_vfs.h"
#include "lib/base/clock.h"
#include "store_fixture.h"

enum {
    ROWS = 24,
    STRIKES = 32, /* the fault moves on by one operation each time */
};

struct run {
    struct fixture f;
    bool acknowledged[ROWS];
    int failed;
    struct answer last;
};

/* ---- one run ---- */

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
    run->last = (struct answer){0};
    store_sandbox_save(run->f.store, &row, &event, durability, on_done, &run->last);
    wait_for(&run->f, &run->last);
    return run->last.error;
}

/* Saves them all; false when a failure came without its sentence, or with another error. */
static bool save_all(struct run *run, int expected)
{
    bool well_said = true;

    for (int i = 0; i < ROWS; i++) {
        int r = save(run, i, i % 2 ? STORE_SYNC : STORE_LAZY);

        run->acknowledged[i] = r == 0;
        run->failed += r < 0;
        if (r < 0 && (r != expected || !strstr(run->last.err.msg, "save sandbox"))) {
            printf("# row %d: %d: %s\n", i, r, run->last.err.msg);
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

/* Opens it again and compares; `lazy` says whether unsynced rows must be there too. */
static void check_disk(const struct run *run, const struct tmpdir *dir, bool lazy)
{
    bool present[ROWS] = {false};
    struct run again = {0};
    struct err err;

    CHECK(fixture_init(&again.f, dir));
    CHECK_INT(store_load_sandboxes(again.f.store, on_row, present, &err), 0);
    for (int i = 0; i < ROWS; i++) {
        bool owed = run->acknowledged[i] && (lazy || i % 2);
        CHECK_THAT(!owed || present[i], "row %d was acknowledged and is lost", i);
    }
    CHECK_INT(count(again.f.path, "SELECT count(*) FROM sandboxes s FULL JOIN events e"
                                  " ON s.id = e.sandbox_id WHERE s.id IS NULL OR e.id IS NULL"),
              0);
    CHECK_INT(count(again.f.path, "SELECT count(*) FROM pragma_integrity_check"
                                  " WHERE integrity_check <> 'ok'"),
              0);
    CHECK_INT(save(&again, ROWS, STORE_SYNC), 0);
    fixture_fini(&again.f);
}

/* ---- the faults ---- */

/* The fault strikes once, at every moment in turn; then the same store goes on. */
static void strike_once(enum fault fault, int expected)
{
    int struck = 0, failed = 0;

    for (int after = 0; after < STRIKES && !check_failed; after++) {
        scoped_tmpdir dir = tmpdir_make();
        struct run run = {0};

        CHECK(fixture_init(&run.f, &dir));
        faulty_vfs_arm(fault, after, false);
        bool well_said = save_all(&run, expected);
        struck += faulty_vfs_struck();
        failed += run.failed;
        faulty_vfs_arm(FAULT_NONE, 0, false);
        CHECK(well_said);
        CHECK_INT(save(&run, ROWS, STORE_SYNC), 0);
        fixture_fini(&run.f);
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
        struct run run = {0};

        CHECK(fixture_init(&run.f, &dir));
        faulty_vfs_arm(fault, after, true);
        bool well_said = save_all(&run, expected);
        int struck = faulty_vfs_struck();
        faulty_vfs_arm(FAULT_NONE, 0, false);
        CHECK(well_said && struck > 0 && run.failed > 0);
        CHECK_INT(save(&run, ROWS, STORE_SYNC), 0);
        fixture_fini(&run.f);
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
        struct run run = {0};
        char shm[160];

        CHECK(fixture_init(&run.f, &dir));
        for (int i = 0; i < rows; i++) {
            run.acknowledged[i] = save(&run, i, i % 2 ? STORE_SYNC : STORE_LAZY) == 0;
        }
        faulty_vfs_cut_power();
        fixture_fini(&run.f);
        faulty_vfs_restore_power();
        (void)snprintf(shm, sizeof(shm), "%s-shm", run.f.path);
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
