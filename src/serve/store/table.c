#include "serve/store/table.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>

/* All texts are names from this program, and they fit. */
static void printf_like(2, 3) put(struct buf *out, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (buf_vprintf(out, format, args) < 0) {
        abort();
    }
    va_end(args);
}

/* Names are quoted because `user` is a word of PostgreSQL. */
void table_sql_columns(const struct store_table *table, const char *prefix, struct buf *out)
{
    for (size_t i = 0; i < table->columns_n; i++) {
        put(out, "%s%s\"%s\"", i > 0 ? ", " : "", prefix, table->columns[i].name);
    }
}

static void changes_put(const struct store_table *table, struct buf *out)
{
    const char *before = ") DO UPDATE SET ";

    for (size_t i = 0; i < table->columns_n; i++) {
        const char *name = table->columns[i].name;
        bool adds = table->columns[i].change == STORE_ADDS;

        if (adds || table->columns[i].change == STORE_REPLACES) {
            put(out, "%s\"%s\" = ", before, name);
            if (adds) {
                put(out, "%s.\"%s\" + ", table->name, name);
            }
            put(out, "excluded.\"%s\"", name);
            before = ", ";
        }
    }
}

/* The number of columns in the key. */
static size_t keys_put(const struct store_table *table, const char *before, const char *between,
                       const char *after, struct buf *out)
{
    size_t n = 0;

    for (size_t i = 0; i < table->columns_n; i++) {
        if (table->columns[i].change == STORE_KEY) {
            put(out, "%s\"%s\"%s", n++ == 0 ? before : between, table->columns[i].name, after);
        }
    }
    return n;
}

void table_sql_save(const struct store_table *table, struct buf *out)
{
    put(out, "INSERT INTO %s (", table->name);
    table_sql_columns(table, "", out);
    for (size_t i = 0; i < table->columns_n; i++) {
        put(out, "%s", i == 0 ? ") VALUES (?" : ", ?");
    }
    put(out, ")");
    if (keys_put(table, " ON CONFLICT (", ", ", "", out) > 0) {
        changes_put(table, out);
    }
}

void table_sql_delete(const struct store_table *table, struct buf *out)
{
    put(out, "DELETE FROM %s", table->name);
    size_t keys = keys_put(table, " WHERE ", " AND ", " = ?", out);
    assert(keys > 0); /* else it would delete every row */
}

void table_sql_load(const struct store_table *table, struct buf *out)
{
    put(out, "SELECT ");
    table_sql_columns(table, "", out);
    put(out, " FROM %s %s", table->name, table->load);
}
