#include "serve/store/internal.h"

static const struct store_statement save = {
    "save shell",
    "INSERT INTO shells (team_id, name, definition, sealed, created_ms, updated_ms)"
    " VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (team_id, name) DO UPDATE SET definition = excluded.definition,"
    " sealed = excluded.sealed, updated_ms = excluded.updated_ms",
};

static const struct store_statement forget = {"delete shell",
                                              "DELETE FROM shells WHERE team_id = ? AND name = ?"};

void store_shell_save(struct store *store, const struct shell_row *row, store_done *done, void *ctx)
{
    struct store_job *job = store_job_new(&save);

    store_job_text(job, row->team_id);
    store_job_text(job, row->name);
    store_job_text(job, row->definition);
    store_job_text(job, row->sealed);
    store_job_int(job, row->created_ms);
    store_job_int(job, row->updated_ms);
    store_submit(store, job, STORE_SYNC, done, ctx);
}

void store_shell_delete(struct store *store, const char *team_id, const char *name,
                        store_done *done, void *ctx)
{
    struct store_job *job = store_job_new(&forget);

    store_job_text(job, team_id);
    store_job_text(job, name);
    store_submit(store, job, STORE_SYNC, done, ctx);
}

struct load {
    void (*each)(void *ctx, const struct shell_row *row);
    void *ctx;
};

static void on_row(void *ctx, sqlite3_stmt *row)
{
    const struct load *load = ctx;
    const struct shell_row out = {
        .team_id = store_column_text(row, 0),
        .name = store_column_text(row, 1),
        .definition = store_column_text(row, 2),
        .sealed = store_column_text(row, 3),
        .created_ms = sqlite3_column_int64(row, 4),
        .updated_ms = sqlite3_column_int64(row, 5),
    };

    load->each(load->ctx, &out);
}

int store_load_shells(struct store *store, void (*each)(void *ctx, const struct shell_row *row),
                      void *ctx, struct err *err)
{
    struct load load = {each, ctx};

    return store_query(store,
                       "SELECT team_id, name, definition, sealed, created_ms, updated_ms"
                       " FROM shells",
                       on_row, &load, err);
}
