/* admin.c - tables for the operator: the makers of things, and the usage of teams. */
#include "serve/store/internal.h"

/* Older hours are deleted. */
static const int64_t USAGE_KEPT_MS = (int64_t)400 * 24 * 3600 * 1000;

/* ---- makers ---- */

void store_maker_save(struct store *store, const struct maker_row *row)
{
    store_submit(store, store_job_save(&table_makers, row), STORE_SYNC, NULL, NULL);
}

void store_maker_delete(struct store *store, const char *id)
{
    store_submit(store, store_job_delete(&table_makers, id, NULL), STORE_LAZY, NULL, NULL);
}

static void makers_sweep(struct store *store)
{
    static const struct store_statement sweep = {
        .what = "remove the makers of what is gone",
        .sql = "DELETE FROM makers WHERE id NOT IN (SELECT id FROM templates)"
               " AND id NOT IN (SELECT id FROM builds) AND id NOT IN (SELECT id FROM volumes)"
               " AND id NOT IN (SELECT id FROM keys)",
    };

    store_submit(store, store_job_new(&sweep), STORE_LAZY, NULL, NULL);
}

static int makers_load(struct store *store, void (*each)(void *ctx, const struct maker_row *row),
                       void *ctx, struct err *err);
LOAD(makers_load, maker_row, table_makers)

int store_load_makers(struct store *store, void (*each)(void *ctx, const struct maker_row *row),
                      void *ctx, struct err *err)
{
    makers_sweep(store);
    return makers_load(store, each, ctx, err);
}

/* ---- usage ---- */

void store_usage_add(struct store *store, const struct usage_row *row, store_done *done, void *ctx)
{
    static const struct store_statement forget = {.what = "forget what a team has used long ago",
                                                  .sql = "DELETE FROM usage WHERE hour_ms < ?"};
    struct store_job *job = store_job_save(&table_usage, row);

    store_job_then(job, &forget);
    store_job_int(job, row->hour_ms - USAGE_KEPT_MS);
    store_submit(store, job, STORE_LAZY, done, ctx);
}

void store_usage_list(struct store *store, const char *team_id, int64_t from_ms, int64_t to_ms,
                      store_text *done, void *ctx)
{
    static const struct store_statement list = {
        .what = "read what a team has used",
        .sql = "SELECT json_object('hourMs', hour_ms, 'sandboxSeconds', sandbox_ms / 1000.0,"
               " 'cpuSeconds', cpu_ms / 1000.0, 'memoryMBSeconds', memory_mb_ms / 1000.0,"
               " 'diskMBSeconds', disk_mb_ms / 1000.0, 'builds', builds,"
               " 'buildSeconds', build_ms / 1000.0)"
               " FROM usage WHERE team_id = ? AND hour_ms BETWEEN ? AND ? ORDER BY hour_ms",
    };
    struct store_job *job = store_job_new(&list);

    store_job_text(job, team_id);
    store_job_int(job, from_ms);
    store_job_int(job, to_ms);
    store_read_array(store, job, done, ctx);
}
