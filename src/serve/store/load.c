/* load.c - rows read back: the fields of one from its columns, and whole tables when the daemon
 * starts. */
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "serve/store/engine.h"

const char *store_column_text(const struct store_row *row, int column)
{
    return row->text(row, column);
}

int64_t store_column_int(const struct store_row *row, int column)
{
    return row->number(row, column);
}

static bool field_read(const struct store_row *row, int at, const struct store_column *column,
                       void *field)
{
    switch (column->kind) {
    case STORE_TEXT:
        *(const char **)field = store_column_text(row, at);
        break;
    case STORE_CHARS:
        return str_copy(field, column->size, str_of(store_column_text(row, at)));
    case STORE_BOOL:
        *(bool *)field = store_column_int(row, at) != 0;
        break;
    case STORE_INT32:
        *(int32_t *)field = (int32_t)store_column_int(row, at);
        break;
    case STORE_UINT32:
        *(uint32_t *)field = (uint32_t)store_column_int(row, at);
        break;
    case STORE_INT64:
        *(int64_t *)field = store_column_int(row, at);
        break;
    case STORE_UINT64:
        *(uint64_t *)field = (uint64_t)store_column_int(row, at);
        break;
    }
    return true;
}

bool store_row_read(const struct store_row *row, int first, const struct store_column *columns,
                    size_t n, void *out)
{
    for (size_t i = 0; i < n; i++) {
        if (!field_read(row, first + (int)i, &columns[i], (char *)out + columns[i].offset)) {
            return false;
        }
    }
    return true;
}

int store_query(struct store *store, const struct store_statement *statement, store_each *each,
                void *ctx, struct err *err)
{
    struct store_source *source = store_source_use(store);
    int r = source->query(source, statement, NULL, NULL, each, ctx, err);

    store_source_release(source);
    return r;
}

struct load {
    const struct store_table *table;
    void (*each)(void *ctx, const void *row);
    void *ctx;
    void *row;
};

static void on_row(void *ctx, const struct store_row *row)
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
    int r = store_query(store,
                        &(struct store_statement){.what = "read the database", .sql = buf_at(&sql)},
                        on_row, &load, err);
    free(load.row);
    return r;
}
