/* postgres.h - connections to PostgreSQL, shared by the engine, its queries, the schema and the
 * copy.
 *
 * Every wait has an end: no call blocks for longer than its limit, whatever the server does. None
 * of this is for the loop's thread.
 */
#ifndef STORE_POSTGRES_H
#define STORE_POSTGRES_H

#include <libpq-fe.h>

#include "serve/store/engine.h"

/* Names the lock that a daemon holds while it writes. */
#define POSTGRES_WRITER_LOCK "7020583113291498"

enum {
    POSTGRES_CONNECT_MS = 3000,
    POSTGRES_ANSWER_MS = 30000, /* a dead network is noticed earlier, by TCP itself */
    POSTGRES_MIGRATE_MS = 600000,
    POSTGRES_VERSION_MIN = 130000, /* has gen_random_uuid() */
};

/* ---- postgres_link.c ---- */

/* A connection in UTF-8 to a server that can hold the store. -EAGAIN: it is away. */
must_check int postgres_connect(const char *url, PGconn **out, struct err *err);

/* The next result of what was sent (NULL: there are no more of that command). -EAGAIN when the
 * connection is lost. */
must_check int postgres_answer(PGconn *conn, int64_t limit_ms, PGresult **out, struct err *err);

/* Runs statements without values. The result of the last is given out, unless out is NULL. */
int postgres_exec(PGconn *conn, const char *sql, const char *what, int64_t limit_ms, PGresult **out,
                  struct err *err);

/* -errno and the sentence "what: words of the server" for a result that is an error. -EAGAIN means
 * that the connection, or the server behind it, is of no use any more. */
int postgres_fail(const PGconn *conn, const PGresult *result, const char *what, struct err *err);

/* The same for a connection that is lost. */
int postgres_lost(const PGconn *conn, const char *what, struct err *err);

/* Values of a statement, as libpq takes them. Valid while the job is. */
struct postgres_values {
    int n;
    Oid types[STORE_VALUES_MAX];
    const char *texts[STORE_VALUES_MAX];
    char numbers[STORE_VALUES_MAX][24];
    char *repaired[STORE_VALUES_MAX]; /* texts that were not UTF-8 */
};
void postgres_values_init(struct postgres_values *values, const struct store_job *job,
                          const struct store_step *step);
void postgres_values_fini(struct postgres_values *values);

/* ---- postgres_read.c ---- */

struct store_source *postgres_source_new(const char *url);

/* ---- postgres_schema.c ---- */

/* Makes the tables, or brings them to the newest version. */
must_check int postgres_migrate(PGconn *conn, struct err *err);

#endif
