/* store_fixture.h - a store in a directory of its own, or in a database of its own on a PostgreSQL
 * that the test starts, with the loop that it answers on. */
#ifndef TESTS_STORE_FIXTURE_H
#define TESTS_STORE_FIXTURE_H

#include <sqlite3.h>
#include <stdio.h>
#include <uv.h>

#include "postgres_server.h"
#include "serve/store/store.h"
#include "tmpdir.h"

/* Set by main(), from the argument "postgres". */
static bool on_postgres;

struct fixture {
    uv_loop_t loop;
    struct store *store;
    char path[128]; /* or the URL */
};

static inline bool open_store(struct fixture *f)
{
    struct err err = {0};
    int r = store_open(&f->loop, f->path, &f->store, &err);

    if (r < 0) {
        printf("# %s\n", err.msg);
    }
    return r == 0;
}

/* The place that belongs to a directory: the same one each time. */
static inline void place_of(const struct tmpdir *dir, char *path, size_t size)
{
    if (on_postgres) {
        postgres_server_database(dir->path + sizeof("/tmp/") - 1, path, size);
    } else {
        (void)snprintf(path, size, "%s/state.db", dir->path);
    }
}

static inline bool fixture_init(struct fixture *f, const struct tmpdir *dir)
{
    *f = (struct fixture){0};
    place_of(dir, f->path, sizeof(f->path));
    return uv_loop_init(&f->loop) == 0 && open_store(f);
}

static inline void fixture_fini(struct fixture *f)
{
    store_close(f->store);
    (void)uv_run(&f->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&f->loop);
}

/* What one change came to. */
struct answer {
    int calls;
    int error;
    struct err err;
};

static inline void on_done(void *ctx, int error, const struct err *err)
{
    struct answer *answer = ctx;

    answer->calls++;
    answer->error = error;
    answer->err = *err;
}

static inline void wait_for(struct fixture *f, const struct answer *answer)
{
    while (answer->calls == 0) {
        (void)uv_run(&f->loop, UV_RUN_ONCE);
    }
}

/* The number that a query gives, from outside; -1: it gives none. */
static inline int count(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    int n = -1;

    if (on_postgres) {
        return postgres_server_number(path, sql);
    }
    if (sqlite3_open(path, &db) == SQLITE_OK &&
        sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK &&
        sqlite3_step(stmt) == SQLITE_ROW) {
        n = sqlite3_column_int(stmt, 0);
    }
    (void)sqlite3_finalize(stmt);
    (void)sqlite3_close(db);
    return n;
}

#endif
