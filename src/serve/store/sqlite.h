/* sqlite.h - shared by the engine on SQLite, its schema and the copy to PostgreSQL. */
#ifndef STORE_SQLITE_H
#define STORE_SQLITE_H

#include <sqlite3.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

/* Brings the database to the newest version (schema.c). */
must_check int store_migrate(sqlite3 *db, const char *path, struct err *err);

/* -errno for the last error of db, and the sentence "what: message of SQLite". */
int store_fail(sqlite3 *db, struct err *err, const char *what);

#endif
