#include "serve/store/internal.h"

static const struct store_statement team_save = {
    "save team",
    "INSERT INTO teams (id, name, limits, created_ms) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (id) DO UPDATE SET name = excluded.name, limits = excluded.limits",
};

static const struct store_statement key_save = {
    "save API key",
    "INSERT INTO keys (id, team_id, name, hash, prefix, masked, limits, created_ms,"
    " last_used_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (id) DO UPDATE SET name = excluded.name, limits = excluded.limits,"
    " last_used_ms = excluded.last_used_ms",
};

static const struct store_statement key_delete = {
    "delete API key",
    "DELETE FROM keys WHERE id = ?",
};

void store_team_save(struct store *store, const struct team_row *row, store_done *done, void *ctx)
{
    struct store_job *job = store_job_new(&team_save);

    store_job_text(job, row->id);
    store_job_text(job, row->name);
    store_job_text(job, row->limits ? row->limits : "{}");
    store_job_int(job, row->created_ms);
    store_submit(store, job, STORE_SYNC, done, ctx);
}

void store_key_save(struct store *store, const struct key_row *row, store_done *done, void *ctx)
{
    struct store_job *job = store_job_new(&key_save);

    store_job_text(job, row->id);
    store_job_text(job, row->team_id);
    store_job_text(job, row->name);
    store_job_text(job, row->hash);
    store_job_text(job, row->prefix);
    store_job_text(job, row->masked);
    store_job_text(job, row->limits ? row->limits : "{}");
    store_job_int(job, row->created_ms);
    store_job_int(job, row->last_used_ms);
    store_submit(store, job, STORE_SYNC, done, ctx);
}

void store_key_delete(struct store *store, const char *id, store_done *done, void *ctx)
{
    struct store_job *job = store_job_new(&key_delete);

    store_job_text(job, id);
    store_submit(store, job, STORE_SYNC, done, ctx);
}

struct team_load {
    void (*each)(void *ctx, const struct team_row *row);
    void *ctx;
};

static void on_team(void *ctx, sqlite3_stmt *row)
{
    const struct team_load *load = ctx;
    struct team_row out = {
        .id = store_column_text(row, 0),
        .name = store_column_text(row, 1),
        .limits = store_column_text(row, 2),
        .created_ms = sqlite3_column_int64(row, 3),
    };

    load->each(load->ctx, &out);
}

int store_load_teams(struct store *store, void (*each)(void *ctx, const struct team_row *row),
                     void *ctx, struct err *err)
{
    struct team_load load = {each, ctx};

    return store_query(store,
                       "SELECT id, name, limits, created_ms FROM teams"
                       " ORDER BY created_ms, id",
                       on_team, &load, err);
}

struct key_load {
    void (*each)(void *ctx, const struct key_row *row);
    void *ctx;
};

static void on_key(void *ctx, sqlite3_stmt *row)
{
    const struct key_load *load = ctx;
    struct key_row out = {
        .id = store_column_text(row, 0),
        .team_id = store_column_text(row, 1),
        .name = store_column_text(row, 2),
        .hash = store_column_text(row, 3),
        .prefix = store_column_text(row, 4),
        .masked = store_column_text(row, 5),
        .limits = store_column_text(row, 6),
        .created_ms = sqlite3_column_int64(row, 7),
        .last_used_ms = sqlite3_column_int64(row, 8),
    };

    load->each(load->ctx, &out);
}

int store_load_keys(struct store *store, void (*each)(void *ctx, const struct key_row *row),
                    void *ctx, struct err *err)
{
    struct key_load load = {each, ctx};

    return store_query(store,
                       "SELECT id, team_id, name, hash, prefix, masked, limits, created_ms,"
                       " last_used_ms FROM keys ORDER BY created_ms, id",
                       on_key, &load, err);
}
