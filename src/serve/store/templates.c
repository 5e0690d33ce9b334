#include "serve/store/internal.h"

#define COLUMNS                                                                                    \
    "id, alias, team_id, build_id, layers, user, workdir, env_json, cpu_count, memory_mb,"         \
    " disk_mb, created_ms, is_public, start_cmd, ready_cmd, saved, snapshot_of, saved_bytes,"      \
    " saved_disk_bytes, start_context"

static const struct store_statement save = {
    "save template",
    "INSERT INTO templates (" COLUMNS
    ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (id) DO UPDATE SET alias = excluded.alias, team_id = excluded.team_id,"
    " build_id = excluded.build_id, layers = excluded.layers, user = excluded.user,"
    " workdir = excluded.workdir, env_json = excluded.env_json, cpu_count = excluded.cpu_count,"
    " memory_mb = excluded.memory_mb, disk_mb = excluded.disk_mb, is_public = excluded.is_public,"
    " start_cmd = excluded.start_cmd, ready_cmd = excluded.ready_cmd, saved = excluded.saved,"
    " snapshot_of = excluded.snapshot_of, saved_bytes = excluded.saved_bytes,"
    " saved_disk_bytes = excluded.saved_disk_bytes, start_context = excluded.start_context",
};

void store_template_save(struct store *store, const struct template_row *row, store_done *done,
                         void *ctx)
{
    struct store_job *job = store_job_new(&save);

    store_job_text(job, row->id);
    store_job_text(job, row->alias);
    store_job_text(job, row->team_id);
    store_job_text(job, row->build_id);
    store_job_text(job, row->layers);
    store_job_text(job, row->user);
    store_job_text(job, row->workdir);
    store_job_text(job, row->env_json);
    store_job_int(job, row->cpu_count);
    store_job_int(job, row->memory_mb);
    store_job_int(job, row->disk_mb);
    store_job_int(job, row->created_ms);
    store_job_int(job, row->is_public);
    store_job_text(job, row->start_cmd);
    store_job_text(job, row->ready_cmd);
    store_job_text(job, row->saved);
    store_job_text(job, row->snapshot_of);
    store_job_int(job, (int64_t)row->saved_bytes);
    store_job_int(job, (int64_t)row->saved_disk_bytes);
    store_job_text(job, row->start_context);
    store_submit(store, job, STORE_SYNC, done, ctx);
}

static const struct store_statement delete = {"delete template",
                                              "DELETE FROM templates WHERE id = ?"};

void store_template_delete(struct store *store, const char *id, store_done *done, void *ctx)
{
    struct store_job *job = store_job_new(&delete);

    store_job_text(job, id);
    store_submit(store, job, STORE_SYNC, done, ctx);
}

struct load {
    void (*each)(void *ctx, const struct template_row *row);
    void *ctx;
};

static void on_row(void *ctx, sqlite3_stmt *row)
{
    const struct load *load = ctx;
    struct template_row out = {
        .id = store_column_text(row, 0),
        .alias = store_column_text(row, 1),
        .team_id = store_column_text(row, 2),
        .build_id = store_column_text(row, 3),
        .layers = store_column_text(row, 4),
        .user = store_column_text(row, 5),
        .workdir = store_column_text(row, 6),
        .env_json = store_column_text(row, 7),
        .cpu_count = (uint32_t)sqlite3_column_int64(row, 8),
        .memory_mb = (uint32_t)sqlite3_column_int64(row, 9),
        .disk_mb = (uint32_t)sqlite3_column_int64(row, 10),
        .created_ms = sqlite3_column_int64(row, 11),
        .is_public = sqlite3_column_int64(row, 12) != 0,
        .start_cmd = store_column_text(row, 13),
        .ready_cmd = store_column_text(row, 14),
        .saved = store_column_text(row, 15),
        .snapshot_of = store_column_text(row, 16),
        .saved_bytes = (uint64_t)sqlite3_column_int64(row, 17),
        .saved_disk_bytes = (uint64_t)sqlite3_column_int64(row, 18),
        .start_context = store_column_text(row, 19),
    };

    load->each(load->ctx, &out);
}

int store_load_templates(struct store *store,
                         void (*each)(void *ctx, const struct template_row *row), void *ctx,
                         struct err *err)
{
    struct load load = {each, ctx};

    return store_query(store, "SELECT " COLUMNS " FROM templates ORDER BY created_ms, id", on_row,
                       &load, err);
}
