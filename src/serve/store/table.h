/* table.h - descriptors of the tables: the columns, and the field of each in the struct of a row.
 *
 * The statements that save, delete and load rows are made from the descriptor, and so are their
 * values and the rows that they read. A descriptor has no types of a database library.
 *
 * These tables have none, because their rows are made from other rows in the statement that inserts
 * them: artifacts (the version counts up, and the team's limit is checked in the same statement),
 * deliveries (selected from an event and the webhooks that want it) and sandbox_keys (only while
 * the sandbox is not killed). Their statements are in artifacts.c, deliveries.c, events.c and
 * sandbox_keys.c.
 */
#ifndef STORE_TABLE_H
#define STORE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buf.h"

enum { STORE_SQL_BYTES_MAX = 4096 };

enum store_kind {
    STORE_TEXT,  /* const char * */
    STORE_CHARS, /* char[size] */
    STORE_BOOL,
    STORE_INT32,
    STORE_UINT32,
    STORE_INT64,
    STORE_UINT64,
};

/* The effect on a column when a row is saved whose key is in the table already. */
enum store_change {
    STORE_REPLACES, /* it gets the new value */
    STORE_KEY,      /* it is part of the key. A table without a key only gets new rows */
    STORE_KEEPS,    /* it keeps the value with which the row was inserted */
    STORE_ADDS,     /* the new value is added to it */
};

struct store_column {
    const char *name;
    enum store_kind kind;
    size_t offset, size; /* of the field */
    enum store_change change;
    bool nullable;       /* may be NULL in the database */
    const char *if_null; /* stored for a NULL pointer; NULL: NULL is stored */
};

struct store_statement {
    const char *what;     /* "save sandbox": the start of an error sentence */
    const char *sql;      /* NULL: it is made from the table */
    const char *postgres; /* the same for PostgreSQL; NULL: made from `sql` (dialect.h) */
};

struct store_table {
    const char *name;
    size_t row_size;
    const struct store_column *columns;
    size_t columns_n;
    const char *load; /* the end of the SELECT that loads it: WHERE and ORDER BY, or "" */
    struct store_statement save, delete; /* without SQL */
};

#define STORE_KIND(field)                                                                          \
    _Generic((field),                                                                              \
        const char * : STORE_TEXT, char * : STORE_CHARS, bool : STORE_BOOL, int32_t : STORE_INT32, \
        uint32_t : STORE_UINT32, int64_t : STORE_INT64, uint64_t : STORE_UINT64)
#define STORE_COLUMN(row, column, field, on_save, ...)                                             \
    {                                                                                              \
        .name = (column), .kind = STORE_KIND(((struct row *)0)->field), .change = (on_save),       \
        .offset = offsetof(struct row, field), .size = sizeof(((struct row *)0)->field),           \
        __VA_ARGS__                                                                                \
    }

/* A column that has the name of its field. `...` may set .nullable and .if_null. */
#define KEY(row, field) STORE_COLUMN(row, #field, field, STORE_KEY)
#define VALUE(row, field, ...) STORE_COLUMN(row, #field, field, STORE_REPLACES, __VA_ARGS__)
#define KEEPS(row, field, ...) STORE_COLUMN(row, #field, field, STORE_KEEPS, __VA_ARGS__)
#define ADDS(row, field) STORE_COLUMN(row, #field, field, STORE_ADDS)

/* ---- tables.c ---- */

extern const struct store_table table_admin_keys, table_audit, table_build_logs, table_builds,
    table_events, table_files, table_keys, table_makers, table_sandboxes, table_secret_versions,
    table_secrets, table_sessions, table_shells, table_steps, table_tags, table_teams,
    table_templates, table_usage, table_volumes, table_webhooks;

/* All of the above, and then NULL. */
extern const struct store_table *const store_tables[];

/* ---- table.c ---- */

/* The text of a statement, with a `?` for each value. */
void table_sql_save(const struct store_table *table, struct buf *out);
void table_sql_delete(const struct store_table *table, struct buf *out);
void table_sql_load(const struct store_table *table, struct buf *out);

/* Names of columns with `prefix` before each: "t.id, t.name". */
void table_sql_columns(const struct store_table *table, const char *prefix, struct buf *out);

#endif
