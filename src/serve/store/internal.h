/* internal.h - shared by the writer (store.c), the readers (read.c, load.c), the engines (engine.h)
 * and the files that know the tables.
 *
 * A change is a job: statements and copies of their values. The writer's thread hands them to the
 * engine later, which stores all statements of a job or none. So the writer knows no table and no
 * database, and the files that know the tables know no thread.
 */
#ifndef STORE_INTERNAL_H
#define STORE_INTERNAL_H

#include "lib/base/buf.h"
#include "lib/base/id.h"
#include "serve/store/store.h"
#include "serve/store/table.h"

enum {
    STORE_VALUES_MAX = 40,                   /* of one job */
    STORE_STEPS_MAX = 3,                     /* statements of one job */
    STORE_ROW_BYTES_MAX = 4 * 1024 * 1024,   /* the texts of one job together */
    STORE_READ_BYTES_MAX = 32 * 1024 * 1024, /* of one answer */
    STORE_PAGE_BYTES_MAX = 5 * 1024 * 1024,  /* of store_events_after(): more than any event */
    STORE_BATCH_MAX = 256,                   /* jobs in one transaction */
    STORE_STATEMENTS_MAX = 80,               /* each is prepared once */
    STORE_AWAY_MS = 5000,   /* a job that somebody waits for waits that long for the database */
    STORE_KEPT_MAX = 20000, /* jobs that nobody waits for, while the database is away */
    STORE_RETRY_MS = 50,    /* the first of the pauses between tries to reach it; they double */
    STORE_RETRY_MAX_MS = 1000,
    STORE_PURGE_EVERY_MS = 3600000,
    STORE_LATE_MS = 20,
};

/* Why it is away is for the log: the words of the network name hosts that clients need not know. */
#define STORE_AWAY_SENTENCE "%s: the database is away; try again"

struct store_row; /* of a query's answer */
struct store_source;

struct store_value {
    enum { VALUE_NULL, VALUE_TEXT, VALUE_INT } kind;
    int64_t number;  /* VALUE_INT; of a text: where it begins in the job's buffer */
    size_t text_len; /* without its NUL */
};

struct store_step {
    const struct store_statement *statement;
    const struct store_table *table; /* that the statement is of; NULL: it has its own SQL */
    size_t first, n;                 /* of the job's values */
    int unchanged; /* the errno of its job when it changes no row; 0: that is fine */
};

struct store_job {
    struct store_job *prev, *next;
    struct store_step steps[STORE_STEPS_MAX];
    size_t steps_n;
    struct store_value values[STORE_VALUES_MAX];
    size_t values_n;
    struct buf texts; /* each with a NUL behind it */
    enum store_durability durability;
    int64_t queued_mono_ms;
    char event_team[ID_UUID_LEN + 1]; /* whose watchers of events are called after the commit */
    store_done *done;
    void *ctx;
    struct err err; /* code 0: done and committed */
};

/* ---- job.c ---- */

/* The statement must be static: the prepared statement is found by its address. */
struct store_job *store_job_new(const struct store_statement *statement);

/* Adds another statement to the job. The values that follow belong to it. */
void store_job_then(struct store_job *job, const struct store_statement *statement);

/* The job fails with -code when its last statement changes no row. */
void store_job_must_change(struct store_job *job, int code);
void store_job_text(struct store_job *job, const char *text); /* NULL: SQL's NULL */
void store_job_int(struct store_job *job, int64_t number);
void store_job_fields(struct store_job *job, const struct store_column *columns, size_t n,
                      const void *row);

/* A job that saves a row, and one that deletes the row of that key (second NULL: of one column). */
struct store_job *store_job_save(const struct store_table *table, const void *row);
struct store_job *store_job_delete(const struct store_table *table, const char *first,
                                   const char *second);

/* Another row, in the same job. */
void store_job_then_save(struct store_job *job, const struct store_table *table, const void *row);

/* The SQL of a step, for SQLite. It is in `made` when it is made from the table. */
const char *store_step_sql(const struct store_step *step, struct buf *made);

/* The text of a value of the job, with a NUL behind it. */
const char *store_job_text_at(const struct store_job *job, const struct store_value *value);
void store_job_free(struct store_job *job);

/* ---- store.c ---- */

/* Hands the job to the writer, which owns it from here. done may be NULL. */
void store_submit(struct store *store, struct store_job *job, enum store_durability durability,
                  store_done *done, void *ctx);

/* The same for a job that nobody waits for: it does not wake the writer, which takes it with the
 * next job that does, or after STORE_LATE_MS. The order of all jobs stays. */
void store_submit_late(struct store *store, struct store_job *job);

uv_loop_t *store_loop(const struct store *store);

/* Where rows are read from. The caller releases it (engine.h). */
struct store_source *store_source_use(struct store *store);

/* ---- events.c ---- */

/* Adds the event of a change to its job, and a delivery to each webhook that wants the event. */
void store_job_event(struct store_job *job, const struct event_row *event);

/* ---- read.c ---- */

/* Runs the job's first statement as a query on a thread of the pool, on a connection of its own:
 * `each` is called there for every row, then `done` on the loop. The job is owned from here. It
 * needs the store only during this call, so it may end after the store is closed. */
void store_read(struct store *store, struct store_job *job,
                void (*each)(void *ctx, const struct store_row *row), store_done *done, void *ctx);

/* As store_read(), for a query of one text column: the rows as one JSON array. */
void store_read_array(struct store *store, struct store_job *job, store_text *done, void *ctx);

/* Runs a query without values on a connection of its own and calls each for every row. Blocks. */
must_check int store_query(struct store *store, const struct store_statement *statement,
                           void (*each)(void *ctx, const struct store_row *row), void *ctx,
                           struct err *err);

/* A text column, or NULL. Valid until the row's callback returns. */
const char *store_column_text(const struct store_row *row, int column);
int64_t store_column_int(const struct store_row *row, int column); /* NULL: 0 */

/* Reads n columns of a row, from the one of number `first` on, into the fields of *out. False when
 * a text does not fit its field. */
bool store_row_read(const struct store_row *row, int first, const struct store_column *columns,
                    size_t n, void *out);

/* Calls each for the rows of a table that are loaded when the daemon starts. */
must_check int store_table_load(struct store *store, const struct store_table *table,
                                void (*each)(void *ctx, const void *row), void *ctx,
                                struct err *err);

/* Defines a function of store.h that is store_table_load() for one type of row. */
#define LOAD(function, row_type, table)                                                            \
    struct function {                                                                              \
        void (*each)(void *ctx, const struct row_type *row);                                       \
        void *ctx;                                                                                 \
    };                                                                                             \
    static void function##_row(void *ctx, const void *row)                                         \
    {                                                                                              \
        const struct function *load = ctx;                                                         \
        load->each(load->ctx, row);                                                                \
    }                                                                                              \
    int function(struct store *store, void (*each)(void *ctx, const struct row_type *row),         \
                 void *ctx, struct err *err)                                                       \
    {                                                                                              \
        struct function load = {each, ctx};                                                        \
        return store_table_load(store, &(table), function##_row, &load, err);                      \
    }

#endif
