#include "serve/store/internal.h"

#define COLUMNS "id, team_id, name, secret, size_mb, removed, created_ms"

static const struct store_statement save = {
    "save volume",
    "INSERT INTO volumes (" COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (id) DO UPDATE SET removed = excluded.removed",
};

static const struct store_statement forget = {"delete volume", "DELETE FROM volumes WHERE id = ?"};

void store_volume_save(struct store *store, const struct volume_row *row, store_done *done,
                       void *ctx)
{
    struct store_job *job = store_job_new(&save);

    store_job_text(job, row->id);
    store_job_text(job, row->team_id);
    store_job_text(job, row->name);
    store_job_text(job, row->secret);
    store_job_int(job, row->size_mb);
    store_job_int(job, row->removed);
    store_job_int(job, row->created_ms);
    store_submit(store, job, STORE_SYNC, done, ctx);
}

void store_volume_delete(struct store *store, const char *id, store_done *done, void *ctx)
{
    struct store_job *job = store_job_new(&forget);

    store_job_text(job, id);
    store_submit(store, job, STORE_SYNC, done, ctx);
}

struct load {
    void (*each)(void *ctx, const struct volume_row *row);
    void *ctx;
};

static void on_row(void *ctx, sqlite3_stmt *row)
{
    const struct load *load = ctx;
    struct volume_row out = {
        .id = store_column_text(row, 0),
        .team_id = store_column_text(row, 1),
        .name = store_column_text(row, 2),
        .secret = store_column_text(row, 3),
        .size_mb = (uint32_t)sqlite3_column_int64(row, 4),
        .removed = sqlite3_column_int64(row, 5) != 0,
        .created_ms = sqlite3_column_int64(row, 6),
    };

    load->each(load->ctx, &out);
}

int store_load_volumes(struct store *store, void (*each)(void *ctx, const struct volume_row *row),
                       void *ctx, struct err *err)
{
    struct load load = {each, ctx};

    return store_query(store, "SELECT " COLUMNS " FROM volumes ORDER BY created_ms, id", on_row,
                       &load, err);
}
