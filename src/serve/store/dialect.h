/* dialect.h - the statements of the store in the words of PostgreSQL.
 *
 * Statements are written for SQLite. Both databases share nearly all of SQL that the store uses, so
 * a statement is translated by replacing its placeholders and a few names of functions. Functions
 * that PostgreSQL lacks are made by its schema (postgres_schema.c). A statement that needs more has
 * a text of its own (store_statement.postgres).
 */
#ifndef STORE_DIALECT_H
#define STORE_DIALECT_H

#include "lib/base/buf.h"

enum { DIALECT_BYTES_MAX = 16 * 1024 };

/* Appends the translation of a statement and a NUL. Only texts of this program are given to it. */
void dialect_postgres(const char *sql, struct buf *out);

#endif
