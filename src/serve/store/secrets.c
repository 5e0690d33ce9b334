#include "serve/store/internal.h"

/* Versions of a secret that are kept; the newest one is the one that is used. */
enum { VERSIONS_KEPT = 10 };

static const struct store_statement save = {
    "save secret",
    "INSERT INTO secrets (id, team_id, name, metadata, version, created_ms, updated_ms)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (id) DO UPDATE SET metadata = excluded.metadata, version = excluded.version,"
    " updated_ms = excluded.updated_ms",
};

static const struct store_statement save_version = {
    "save a secret's version",
    "INSERT INTO secret_versions (secret_id, version, sealed, created_ms) VALUES (?, ?, ?, ?)",
};

static const struct store_statement forget_versions = {
    "delete a secret's old versions",
    "DELETE FROM secret_versions WHERE secret_id = ? AND version <= ?",
};

static const struct store_statement forget = {"delete secret", "DELETE FROM secrets WHERE id = ?"};

void store_secret_save(struct store *store, const struct secret_row *row, store_done *done,
                       void *ctx)
{
    struct store_job *job = store_job_new(&save);

    store_job_text(job, row->id);
    store_job_text(job, row->team_id);
    store_job_text(job, row->name);
    store_job_text(job, row->metadata);
    store_job_int(job, row->version);
    store_job_int(job, row->created_ms);
    store_job_int(job, row->updated_ms);
    store_job_then(job, &save_version);
    store_job_text(job, row->id);
    store_job_int(job, row->version);
    store_job_text(job, row->sealed);
    store_job_int(job, row->updated_ms);
    store_job_then(job, &forget_versions);
    store_job_text(job, row->id);
    store_job_int(job, row->version - VERSIONS_KEPT);
    store_submit(store, job, STORE_SYNC, done, ctx);
}

void store_secret_delete(struct store *store, const char *id, store_done *done, void *ctx)
{
    struct store_job *job = store_job_new(&forget);

    store_job_text(job, id);
    store_submit(store, job, STORE_SYNC, done, ctx);
}

struct load {
    void (*each)(void *ctx, const struct secret_row *row);
    void *ctx;
};

static void on_row(void *ctx, sqlite3_stmt *row)
{
    const struct load *load = ctx;
    const struct secret_row out = {
        .id = store_column_text(row, 0),
        .team_id = store_column_text(row, 1),
        .name = store_column_text(row, 2),
        .metadata = store_column_text(row, 3),
        .version = sqlite3_column_int64(row, 4),
        .created_ms = sqlite3_column_int64(row, 5),
        .updated_ms = sqlite3_column_int64(row, 6),
        .sealed = store_column_text(row, 7),
    };

    load->each(load->ctx, &out);
}

int store_load_secrets(struct store *store, void (*each)(void *ctx, const struct secret_row *row),
                       void *ctx, struct err *err)
{
    struct load load = {each, ctx};

    return store_query(store,
                       "SELECT s.id, s.team_id, s.name, s.metadata, s.version, s.created_ms,"
                       " s.updated_ms, v.sealed FROM secrets s JOIN secret_versions v"
                       " ON v.secret_id = s.id AND v.version = s.version"
                       " ORDER BY s.created_ms, s.id",
                       on_row, &load, err);
}
