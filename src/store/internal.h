/* internal.h - between the writer (store.c), the schema and the files that know the tables.
 *
 * A change is a statement and its values, copied when it is asked for, bound and run later on the
 * writer's thread. So the writer knows no table, and a table's file knows no thread.
 */
#ifndef STORE_INTERNAL_H
#define STORE_INTERNAL_H

#include <sqlite3.h>

#include "base/buf.h"
#include "store/store.h"

enum {
    STORE_VALUES_MAX = 20,                   /* of one statement */
    STORE_ROW_BYTES_MAX = 4 * 1024 * 1024,   /* the texts of one row together */
    STORE_BATCH_MAX = 256,                   /* jobs in one transaction */
    STORE_STATEMENTS_MAX = 8,                /* kinds of jobs: each is prepared once */
    STORE_BUSY_MS = 5000,                    /* another process may hold the file that long */
    STORE_KILLED_KEPT_MS = 7 * 24 * 3600000, /* rows of killed sandboxes tell why, a week long */
    STORE_PURGE_EVERY_MS = 3600000,
};

struct store_statement {
    const char *what; /* "save sandbox": begins the sentence of a failure */
    const char *sql;
};

struct store_value {
    enum { STORE_NULL, STORE_TEXT, STORE_INT } kind;
    int64_t number;  /* STORE_INT; of a text: where it begins in the job's buffer */
    size_t text_len; /* without its NUL */
};

struct store_job;

/* The statement must be static: its address is how the prepared one is found again. */
struct store_job *store_job_new(const struct store_statement *statement);
void store_job_text(struct store_job *job, const char *text); /* NULL: SQL's NULL */
void store_job_int(struct store_job *job, int64_t number);

/* Hands the job to the writer, which owns it from here. done may be NULL. */
void store_submit(struct store *store, struct store_job *job, enum store_durability durability,
                  store_done *done, void *ctx);

/* Runs a query on a connection of its own and calls each for every row. */
must_check int store_query(struct store *store, const char *sql,
                           void (*each)(void *ctx, sqlite3_stmt *row), void *ctx, struct err *err);

/* A text column, or NULL. Valid until the row's callback returns. */
const char *store_column_text(sqlite3_stmt *row, int column);

/* Brings the database to the newest version (schema.c). */
must_check int store_migrate(sqlite3 *db, const char *path, struct err *err);

/* -errno for what SQLite last said on db, and a sentence: "what: SQLite's words". */
int store_fail(sqlite3 *db, struct err *err, const char *what);

#endif
