/* engine.h - a database behind the store: SQLite (sqlite.c) or PostgreSQL (postgres.c).
 *
 * The writer's thread alone uses an engine. A source answers queries, on any thread, on connections
 * of its own; it is counted, because a query may end after the store is closed.
 */
#ifndef STORE_ENGINE_H
#define STORE_ENGINE_H

#include <stdatomic.h>

#include "serve/store/internal.h"

/* A row of a query's answer, valid until the query's callback returns. */
struct store_row {
    const char *(*text)(const struct store_row *row, int column);
    int64_t (*number)(const struct store_row *row, int column);
};

typedef void store_each(void *ctx, const struct store_row *row);

struct store_source {
    atomic_int uses;
    /* Runs a query with the values of a step of a job (step NULL: without any). Blocks. */
    int (*query)(struct store_source *source, const struct store_statement *statement,
                 const struct store_job *job, const struct store_step *step, store_each *each,
                 void *ctx, struct err *err);
    void (*free)(struct store_source *source);
};

struct store_engine {
    struct store_source *source;

    /* Runs the jobs of *batch in their order. Those that are stored, or have failed with an error
     * of their own, are moved to *finished. 0, or -errno with the reason when the database is away:
     * then *batch has the jobs that are to be run again. Nothing of them is stored, or the next run
     * finds out that it was. */
    int (*run)(struct store_engine *engine, struct store_job **batch, struct store_job **finished,
               struct err *err);

    /* Fails the jobs that run() has taken from *batch and not finished. Only an engine whose run()
     * can fail has it. */
    void (*abandon)(struct store_engine *engine, struct store_job **finished);

    /* Statements without values, in one transaction. */
    int (*exec)(struct store_engine *engine, const char *sql, const char *what, struct err *err);
    void (*close)(struct store_engine *engine);
};

/* Each opens a database, brings it to the newest version, and blocks meanwhile. */
must_check int sqlite_open(const char *path, struct store_engine **out, struct err *err);
must_check int postgres_open(const char *url, struct store_engine **out, struct err *err);

static inline void store_source_release(struct store_source *source)
{
    if (source && atomic_fetch_sub(&source->uses, 1) == 1) {
        source->free(source);
    }
}

#endif
