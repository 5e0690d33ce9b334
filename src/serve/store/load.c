/* load.c - rows read back: the fields of one from its columns, and whole tables when the daemon
 * starts. */
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "serve/store/internal.h"

const char *store_column_text(sqlite3_stmt *row, int column)
{
    return (const char *)sqlite3_column_text(row, column);
}

static bool field_read(sqlite3_stmt *row, int at, const struct store_column *column, void *field)
{
    switch (column->kind) {
    case STORE_TEXT:
        *(const char **)field = store_column_text(row, at);
        break;
    case STORE_CHARS:
        return str_copy(field, column->size, str_of(store_column_text(row, at)));
    case STORE_BOOL:
        *(bool *)field = sqlite3_column_int64(row, at) != 0;
        break;
    case STORE_INT32:
        *(int32_t *)field = (int32_t)sqlite3_column_int64(row, at);
        break;
    case STORE_UINT32:
        *(uint32_t *)field = (uint32_t)sqlite3_column_int64(row, at);
        break;
    case STORE_INT64:
        *(int64_t *)field = sqlite3_column_int64(row, at);
        break;
    case STORE_UINT64:
        *(uint64_t *)field = (uint64_t)sqlite3_column_int64(row, at);
        break;
    }
    return true;
}

bool store_row_read(sqlite3_stmt *row, int first, const struct store_column *columns, size_t n,
                    void *out)
{
    for (size_t i = 0; i < n; i++) {
        if (!field_read(row, first + (int)i, &columns[i], (char *)out + columns[i].offset)) {
            return false;
        }
    }
    return true;
}

static int query_run(sqlite3 *db, const char *sql, void (*each)(void *ctx, sqlite3_stmt *row),
                     void *ctx, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int step = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
    int r = 0;

    if (step == SQLITE_OK) {
        while ((step = sqlite3_step(stmt)) == SQLITE_ROW) {
            each(ctx, stmt);
        }
    }
    if (step != SQLITE_DONE) {
        r = store_fail(db, err, "read the database");
    }
    (void)sqlite3_finalize(stmt);
    return r;
}

/* A connection of its own: the writer's belongs to its thread. */
int store_query(struct store *store, const char *sql, void (*each)(void *ctx, sqlite3_stmt *row),
                void *ctx, struct err *err)
{
    sqlite3 *db = NULL;
    int r = store_db_open(store_path(store), SQLITE_OPEN_READONLY, &db, err);

    if (r == 0) {
        r = query_run(db, sql, each, ctx, err);
    }
    (void)sqlite3_close(db);
    return r;
}

struct load {
    const struct store_table *table;
    void (*each)(void *ctx, const void *row);
    void *ctx;
    void *row;
};

static void on_row(void *ctx, sqlite3_stmt *row)
{
    const struct load *load = ctx;

    if (store_row_read(row, 0, load->table->columns, load->table->columns_n, load->row)) {
        load->each(load->ctx, load->row);
    }
}

int store_table_load(struct store *store, const struct store_table *table,
                     void (*each)(void *ctx, const void *row), void *ctx, struct err *err)
{
    scoped_buf(sql, STORE_SQL_BYTES_MAX);
    struct load load = {table, each, ctx, xcalloc(1, table->row_size)};

    table_sql_load(table, &sql);
    int r = store_query(store, buf_at(&sql), on_row, &load, err);
    free(load.row);
    return r;
}
