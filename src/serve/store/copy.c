/* copy.c - the state of a machine, from its SQLite file into an empty PostgreSQL database.
 *
 * All of it is one transaction on PostgreSQL: a copy that fails leaves the database as it was. The
 * file is brought to the newest version and is not changed otherwise. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/alloc.h"
#include "lib/base/utf8.h"
#include "serve/store/postgres.h"
#include "serve/store/sqlite.h"

enum {
    COLUMNS_BYTES_MAX = 4096,
    LINE_BYTES_MAX = 64 * 1024 * 1024, /* of one row */
    SQL_BYTES = 512,
};

/* Every table of the file; one that others refer to comes before them. */
static const char *const tables[] = {
    "teams",         "sandboxes", "templates",       "builds",     "keys",       "admin_keys",
    "sessions",      "makers",    "usage",           "build_logs", "tags",       "tag_assignments",
    "steps",         "files",     "events",          "webhooks",   "deliveries", "volumes",
    "secrets",       "shells",    "secret_versions", "artifacts",  "audit",      "sandbox_keys",
    "snapshot_keys",
};

/* Tables whose rows PostgreSQL numbers. */
static const char *const numbered[] = {"build_logs", "tag_assignments", "events", "deliveries"};

struct copy {
    sqlite3 *from;
    PGconn *to;
};

/* ---- both sides ---- */

static int from_number(const struct copy *copy, const char *sql, int64_t *out, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int r = 0;

    *out = 0;
    if (sqlite3_prepare_v2(copy->from, sql, -1, &stmt, NULL) != SQLITE_OK) {
        r = store_fail(copy->from, err, "read the file");
    } else if (sqlite3_step(stmt) == SQLITE_ROW) {
        *out = sqlite3_column_int64(stmt, 0);
    }
    (void)sqlite3_finalize(stmt);
    return r;
}

static int to_run(const struct copy *copy, const char *sql, struct err *err)
{
    return postgres_exec(copy->to, sql, "write to the database", POSTGRES_MIGRATE_MS, NULL, err);
}

static int to_number(const struct copy *copy, const char *sql, int64_t *out, struct err *err)
{
    PGresult *result = NULL;
    int r = postgres_exec(copy->to, sql, "read the database", POSTGRES_MIGRATE_MS, &result, err);

    if (r == 0) {
        *out = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
        PQclear(result);
    }
    return r;
}

static int counts(const struct copy *copy, const char *table, int64_t *from, int64_t *to,
                  struct err *err)
{
    char sql[SQL_BYTES];

    (void)snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s", table);
    int r = from_number(copy, sql, from, err);
    return r < 0 ? r : to_number(copy, sql, to, err);
}

/* ---- checks ---- */

/* A table that this list does not know would be left behind. */
static int tables_check(const struct copy *copy, struct err *err)
{
    int64_t n = 0;
    int r = from_number(copy,
                        "SELECT count(*) FROM sqlite_schema WHERE type = 'table'"
                        " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
                        &n, err);

    if (r == 0 && n != (int64_t)countof(tables)) {
        return err_set(err, ENOTSUP, "the file has %" PRId64 " tables, and %zu are known", n,
                       countof(tables));
    }
    return r;
}

static int empty_check(const struct copy *copy, struct err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < countof(tables); i++) {
        int64_t from = 0, to = 0;

        r = counts(copy, tables[i], &from, &to, err);
        if (r == 0 && to != 0) {
            return err_set(err, EEXIST,
                           "the database is not empty: its table %s has %" PRId64
                           " rows. Name a new one",
                           tables[i], to);
        }
    }
    return r;
}

/* ---- rows ---- */

/* In the text format of COPY. */
static int field_put(struct buf *line, const char *text, size_t len)
{
    static const char special[] = "\\\n\r\t";
    static const char letters[] = "\\nrt";
    int r = 0;

    for (size_t i = 0; r == 0 && i < len; i++) {
        const char *found = text[i] ? strchr(special, text[i]) : NULL;

        r = found ? buf_printf(line, "\\%c", letters[found - special])
                  : buf_append(line, &text[i], 1);
    }
    return r;
}

static int column_put(sqlite3_stmt *stmt, int column, struct buf *line)
{
    const char *text = (const char *)sqlite3_column_text(stmt, column);
    struct str whole = {text, (size_t)sqlite3_column_bytes(stmt, column)};
    int r = column > 0 ? buf_append(line, "\t", 1) : 0;

    if (r < 0 || !text) {
        return r < 0 ? r : buf_append(line, "\\N", 2);
    }
    if (utf8_valid(whole)) {
        return field_put(line, text, whole.len);
    }
    scoped_text repaired = xcalloc(UTF8_REPLACEMENT_BYTES * whole.len + 1, 1);
    return field_put(line, repaired, utf8_repair(whole, repaired));
}

static int row_send(const struct copy *copy, sqlite3_stmt *stmt, struct buf *line, struct err *err)
{
    int r = 0;

    buf_clear(line);
    for (int i = 0; r == 0 && i < sqlite3_column_count(stmt); i++) {
        r = column_put(stmt, i, line);
    }
    r = r < 0 ? r : buf_append(line, "\n", 1);
    if (r < 0) {
        return err_set(err, ENOBUFS, "a row is larger than %d bytes", LINE_BYTES_MAX);
    }
    return PQputCopyData(copy->to, buf_at(line), (int)buf_len(line)) == 1
               ? 0
               : postgres_lost(copy->to, "write to the database", err);
}

static int rows_send(const struct copy *copy, sqlite3_stmt *stmt, struct err *err)
{
    scoped_buf(line, LINE_BYTES_MAX);
    int code, r = 0;

    while (r == 0 && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
        r = row_send(copy, stmt, &line, err);
    }
    return r == 0 && code != SQLITE_DONE ? store_fail(copy->from, err, "read the file") : r;
}

/* The names of a query's columns, quoted: the two schemas may have them in another order. */
static void columns_put(sqlite3_stmt *stmt, struct buf *out)
{
    for (int i = 0; i < sqlite3_column_count(stmt); i++) {
        if (buf_printf(out, "%s\"%s\"", i > 0 ? ", " : "", sqlite3_column_name(stmt, i)) < 0) {
            abort(); /* they are names of ours */
        }
    }
}

static int copy_end(const struct copy *copy, const char *table, struct err *err)
{
    PGresult *result = NULL, *end = NULL;

    if (PQputCopyEnd(copy->to, NULL) != 1) {
        return postgres_lost(copy->to, table, err);
    }
    int r = postgres_answer(copy->to, POSTGRES_MIGRATE_MS, &result, err);
    if (r == 0 && PQresultStatus(result) != PGRES_COMMAND_OK) {
        r = postgres_fail(copy->to, result, table, err);
    }
    PQclear(result);
    return r < 0 ? r : postgres_answer(copy->to, POSTGRES_MIGRATE_MS, &end, err);
}

static int table_send(const struct copy *copy, const char *table, sqlite3_stmt *stmt,
                      struct err *err)
{
    scoped_buf(columns, COLUMNS_BYTES_MAX);
    scoped_buf(sql, 2 * COLUMNS_BYTES_MAX);
    PGresult *result = NULL;

    columns_put(stmt, &columns);
    if (buf_printf(&sql, "COPY %s (%s) FROM STDIN", table, buf_at(&columns)) < 0) {
        abort();
    }
    if (!PQsendQuery(copy->to, buf_at(&sql))) {
        return postgres_lost(copy->to, table, err);
    }
    int r = postgres_answer(copy->to, POSTGRES_MIGRATE_MS, &result, err);
    if (r == 0 && PQresultStatus(result) != PGRES_COPY_IN) {
        r = postgres_fail(copy->to, result, table, err);
    }
    PQclear(result);
    r = r < 0 ? r : rows_send(copy, stmt, err);
    return r < 0 ? r : copy_end(copy, table, err);
}

/* Triggers have done their work on the rows of the file already. */
static int table_copy(const struct copy *copy, const char *table, int64_t *rows, struct err *err)
{
    char select[SQL_BYTES], off[SQL_BYTES], on[SQL_BYTES];
    sqlite3_stmt *stmt = NULL;
    int64_t to = 0;

    (void)snprintf(select, sizeof(select), "SELECT * FROM %s", table);
    (void)snprintf(off, sizeof(off), "ALTER TABLE %s DISABLE TRIGGER USER", table);
    (void)snprintf(on, sizeof(on), "ALTER TABLE %s ENABLE TRIGGER USER", table);
    int r = to_run(copy, off, err);
    if (r == 0 && sqlite3_prepare_v2(copy->from, select, -1, &stmt, NULL) != SQLITE_OK) {
        r = store_fail(copy->from, err, "read the file");
    }
    r = r < 0 ? r : table_send(copy, table, stmt, err);
    (void)sqlite3_finalize(stmt);
    r = r < 0 ? r : to_run(copy, on, err);
    r = r < 0 ? r : counts(copy, table, rows, &to, err);
    if (r == 0 && *rows != to) {
        return err_set(err, EIO, "%s has %" PRId64 " rows in the file and %" PRId64 " in the copy",
                       table, *rows, to);
    }
    return r;
}

/* No number is given twice, also if the rows that had it are gone. */
static int numbers_copy(const struct copy *copy, struct err *err)
{
    char sql[SQL_BYTES];
    int64_t last = 0;
    int r = 0;

    for (size_t i = 0; r == 0 && i < countof(numbered); i++) {
        (void)snprintf(sql, sizeof(sql), "SELECT seq FROM sqlite_sequence WHERE name = '%s'",
                       numbered[i]);
        r = from_number(copy, sql, &last, err);
        (void)snprintf(sql, sizeof(sql),
                       "SELECT setval(pg_get_serial_sequence('%s', 'seq'), %" PRId64 ", false)",
                       numbered[i], last + 1);
        r = r < 0 ? r : to_run(copy, sql, err);
    }
    r = r < 0
            ? r
            : from_number(copy, "SELECT seq FROM sqlite_sequence WHERE name = 'audit'", &last, err);
    (void)snprintf(sql, sizeof(sql), "UPDATE audit_last SET seq = %" PRId64, last);
    return r < 0 ? r : to_run(copy, sql, err);
}

static int copy_all(const struct copy *copy, store_copied *each, void *ctx, struct err *err)
{
    int r = tables_check(copy, err);

    r = r < 0 ? r : to_run(copy, "BEGIN", err);
    r = r < 0 ? r : empty_check(copy, err);
    for (size_t i = 0; r == 0 && i < countof(tables); i++) {
        int64_t rows = 0;

        r = table_copy(copy, tables[i], &rows, err);
        if (r == 0) {
            each(ctx, tables[i], rows);
        }
    }
    r = r < 0 ? r : numbers_copy(copy, err);
    return r < 0 ? r : to_run(copy, "COMMIT", err);
}

/* ---- opening ---- */

static int from_open(const char *path, sqlite3 **out, struct err *err)
{
    struct store_engine *engine = NULL;

    if (access(path, R_OK | W_OK) < 0) {
        return err_sys(err, "open %s", path);
    }
    int r = sqlite_open(path, &engine, err); /* it may be of an older version */
    if (r < 0) {
        return r;
    }
    engine->close(engine);
    if (sqlite3_open_v2(path, out, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK) {
        return store_fail(*out, err, path);
    }
    return 0;
}

/* A daemon that uses the database holds the lock. */
static int to_open(const char *url, PGconn **out, struct err *err)
{
    PGresult *result = NULL;
    int r = postgres_connect(url, out, err);

    r = r < 0 ? r
              : postgres_exec(*out, "SELECT pg_try_advisory_lock(" POSTGRES_WRITER_LOCK ")",
                              "lock the database", POSTGRES_ANSWER_MS, &result, err);
    if (r == 0 && PQgetvalue(result, 0, 0)[0] != 't') {
        r = err_set(err, EBUSY, "a daemon uses the database");
    }
    PQclear(result);
    r = r < 0 ? r : postgres_migrate(*out, err);
    if (r == 0 && PQsetnonblocking(*out, 0) != 0) {
        r = postgres_lost(*out, "write to the database", err);
    }
    return r;
}

int store_copy(const char *path, const char *url, store_copied *each, void *ctx, struct err *err)
{
    struct copy copy = {0};
    int r = from_open(path, &copy.from, err);

    r = r < 0 ? r : to_open(url, &copy.to, err);
    r = r < 0 ? r : copy_all(&copy, each, ctx, err);
    (void)sqlite3_close(copy.from);
    PQfinish(copy.to);
    return r;
}
