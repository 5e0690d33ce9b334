#include "serve/store/internal.h"

#define COLUMNS                                                                                    \
    "id, team_id, template_id, template_alias, state, started_ms, end_ms, created_ms, end_reason," \
    " access_token, options_json, cpu_count, memory_mb, disk_mb, uid_slot, pid, start_ticks,"      \
    " build_id, saved, saved_bytes, saved_disk_bytes"

/* created_ms stays what it was: lists are ordered by it, and pages must not lose their place. */
static const struct store_statement save = {
    "save sandbox",
    "INSERT INTO sandboxes (" COLUMNS ", fork_of)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (id) DO UPDATE SET team_id = excluded.team_id,"
    " template_id = excluded.template_id, template_alias = excluded.template_alias,"
    " state = excluded.state, started_ms = excluded.started_ms, end_ms = excluded.end_ms,"
    " end_reason = excluded.end_reason, access_token = excluded.access_token,"
    " options_json = excluded.options_json, cpu_count = excluded.cpu_count,"
    " memory_mb = excluded.memory_mb, disk_mb = excluded.disk_mb, uid_slot = excluded.uid_slot,"
    " pid = excluded.pid, start_ticks = excluded.start_ticks, build_id = excluded.build_id,"
    " saved = excluded.saved, saved_bytes = excluded.saved_bytes,"
    " saved_disk_bytes = excluded.saved_disk_bytes",
};

void store_sandbox_save(struct store *store, const struct sandbox_row *row,
                        const struct event_row *event, enum store_durability durability,
                        store_done *done, void *ctx)
{
    struct store_job *job = store_job_new(&save);

    store_job_text(job, row->id);
    store_job_text(job, row->team_id);
    store_job_text(job, row->template_id);
    store_job_text(job, row->template_alias);
    store_job_text(job, row->state);
    store_job_int(job, row->started_ms);
    store_job_int(job, row->end_ms);
    store_job_int(job, row->created_ms);
    store_job_text(job, row->end_reason);
    store_job_text(job, row->access_token);
    store_job_text(job, row->options_json ? row->options_json : "{}");
    store_job_int(job, row->cpu_count);
    store_job_int(job, row->memory_mb);
    store_job_int(job, row->disk_mb);
    store_job_int(job, row->uid_slot);
    store_job_int(job, row->pid);
    store_job_int(job, (int64_t)row->start_ticks);
    store_job_text(job, row->build_id ? row->build_id : "");
    store_job_text(job, row->saved);
    store_job_int(job, (int64_t)row->saved_bytes);
    store_job_int(job, (int64_t)row->saved_disk_bytes);
    store_job_text(job, row->fork_of);
    store_job_event(job, event);
    store_submit(store, job, durability, done, ctx);
}

static const struct store_statement settle = {
    .what = "settle what is stored",
    .sql = "DELETE FROM sandboxes WHERE 0",
};

void store_settle(struct store *store, store_done *done, void *ctx)
{
    store_submit(store, store_job_new(&settle), STORE_SETTLE, done, ctx);
}

struct load {
    void (*each)(void *ctx, const struct sandbox_row *row);
    void *ctx;
};

static void on_row(void *ctx, sqlite3_stmt *row)
{
    const struct load *load = ctx;
    struct sandbox_row out = {
        .id = store_column_text(row, 0),
        .team_id = store_column_text(row, 1),
        .template_id = store_column_text(row, 2),
        .template_alias = store_column_text(row, 3),
        .state = store_column_text(row, 4),
        .started_ms = sqlite3_column_int64(row, 5),
        .end_ms = sqlite3_column_int64(row, 6),
        .created_ms = sqlite3_column_int64(row, 7),
        .end_reason = store_column_text(row, 8),
        .access_token = store_column_text(row, 9),
        .options_json = store_column_text(row, 10),
        .cpu_count = (uint32_t)sqlite3_column_int64(row, 11),
        .memory_mb = (uint32_t)sqlite3_column_int64(row, 12),
        .disk_mb = (uint32_t)sqlite3_column_int64(row, 13),
        .uid_slot = (uint32_t)sqlite3_column_int64(row, 14),
        .pid = (int32_t)sqlite3_column_int64(row, 15),
        .start_ticks = (uint64_t)sqlite3_column_int64(row, 16),
        .build_id = store_column_text(row, 17),
        .saved = store_column_text(row, 18),
        .saved_bytes = (uint64_t)sqlite3_column_int64(row, 19),
        .saved_disk_bytes = (uint64_t)sqlite3_column_int64(row, 20),
    };

    load->each(load->ctx, &out);
}

int store_load_sandboxes(struct store *store,
                         void (*each)(void *ctx, const struct sandbox_row *row), void *ctx,
                         struct err *err)
{
    struct load load = {each, ctx};

    return store_query(store,
                       "SELECT " COLUMNS " FROM sandboxes WHERE state <> 'killed'"
                       " ORDER BY created_ms, id",
                       on_row, &load, err);
}
