#include <stdlib.h>

#include "serve/store/internal.h"

/* The number of versions of a secret that are kept. The newest one is used. */
enum { VERSIONS_KEPT = 10 };

static const struct store_statement forget_versions = {
    .what = "delete a secret's old versions",
    .sql = "DELETE FROM secret_versions WHERE secret_id = ? AND version <= ?",
};

void store_secret_save(struct store *store, const struct secret_row *row, store_done *done,
                       void *ctx)
{
    struct store_job *job = store_job_save(&table_secrets, row);

    store_job_then_save(job, &table_secret_versions, row);
    store_job_then(job, &forget_versions);
    store_job_text(job, row->id);
    store_job_int(job, row->version - VERSIONS_KEPT);
    store_submit(store, job, STORE_SYNC, done, ctx);
}

struct load {
    void (*each)(void *ctx, const struct secret_row *row);
    void *ctx;
};

static void on_row(void *ctx, const struct store_row *row)
{
    const struct load *load = ctx;
    struct secret_row out = {.sealed = store_column_text(row, 0)};

    (void)store_row_read(row, 1, table_secrets.columns, table_secrets.columns_n, &out);
    load->each(load->ctx, &out);
}

int store_load_secrets(struct store *store, void (*each)(void *ctx, const struct secret_row *row),
                       void *ctx, struct err *err)
{
    struct load load = {each, ctx};
    scoped_buf(columns, STORE_SQL_BYTES_MAX);
    scoped_buf(sql, STORE_SQL_BYTES_MAX);

    table_sql_columns(&table_secrets, "s.", &columns);
    if (buf_printf(&sql,
                   "SELECT v.sealed, %s FROM secrets s JOIN secret_versions v"
                   " ON v.secret_id = s.id AND v.version = s.version ORDER BY s.created_ms, s.id",
                   buf_at(&columns)) < 0) {
        abort(); /* it fits */
    }
    return store_query(store,
                       &(struct store_statement){.what = "read secrets", .sql = buf_at(&sql)},
                       on_row, &load, err);
}
