/* audit.c - the audit log: a row when a call begins, its outcome when the call is answered.
 *
 * A row gets its number from the caller, before it is written, so that its outcome can be written
 * without waiting for the row. Neither wakes the writer: a row is written with the change that
 * follows it, in one transaction, and an outcome with whatever comes next. */
#include <stdlib.h>

#include "serve/store/internal.h"

enum { AUDIT_PURGE_ROWS = 1000 }; /* that one job deletes: others wait for it */

/* ---- writing ---- */

void store_audit_begin(struct store *store, const struct audit_row *row)
{
    store_submit_late(store, store_job_save(&table_audit, row));
}

void store_audit_end(struct store *store, const struct audit_outcome *outcome)
{
    static const struct store_statement end = {
        .what = "save the outcome of a call",
        .sql = "UPDATE audit SET status = ?, error = ?, object = ?, made = ?, took_ms = ?"
               " WHERE seq = ?",
    };
    struct store_job *job = store_job_new(&end);

    store_job_int(job, outcome->status);
    store_job_text(job, outcome->error);
    store_job_text(job, outcome->object);
    store_job_text(job, outcome->made);
    store_job_int(job, outcome->took_ms);
    store_job_int(job, outcome->seq);
    store_submit_late(store, job);
}

void store_audit_forget(struct store *store, int64_t before_ms, int64_t before_seq)
{
    /* Numbers grow with time: the oldest rows are the first, and nothing else is looked at. */
    static const struct store_statement forget = {
        .what = "forget old rows of the audit log",
        .sql = "DELETE FROM audit WHERE seq IN (SELECT seq FROM audit ORDER BY seq LIMIT ?)"
               " AND (time_ms < ? OR seq < ?)",
    };
    struct store_job *job = store_job_new(&forget);

    store_job_int(job, AUDIT_PURGE_ROWS);
    store_job_int(job, before_ms);
    store_job_int(job, before_seq);
    store_submit(store, job, STORE_LAZY, NULL, NULL);
}

void store_audit_forget_team(struct store *store, const char *team_id, int64_t most)
{
    static const struct store_statement forget = {
        .what = "forget the oldest rows of a team's audit log",
        .sql = "DELETE FROM audit WHERE team_id = ?1 AND seq <="
               " (SELECT seq FROM audit WHERE team_id = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2)",
    };
    struct store_job *job = store_job_new(&forget);

    store_job_text(job, team_id);
    store_job_int(job, most);
    store_submit(store, job, STORE_LAZY, NULL, NULL);
}

/* ---- at the start ---- */

static void on_last(void *ctx, const struct store_row *row)
{
    int64_t *last = ctx;

    *last = store_column_int(row, 0);
}

int store_audit_open(struct store *store, int64_t *last, struct err *err)
{
    static const struct store_statement unknown = {
        .what = "close the calls that were cut short",
        .sql = "UPDATE audit SET status = 0,"
               " error = 'the daemon ended before the call was answered' WHERE status IS NULL",
    };

    static const struct store_statement find_last = {
        .what = "find the last number of the audit log",
        .sql = "SELECT seq FROM sqlite_sequence WHERE name = 'audit'",
        "SELECT greatest((SELECT max(seq) FROM audit), (SELECT seq FROM audit_last))",
    };

    *last = 0;
    store_submit(store, store_job_new(&unknown), STORE_LAZY, NULL, NULL);
    return store_query(store, &find_last, on_last, last, err);
}

/* ---- reading ---- */

#define STAMP "strftime('%Y-%m-%dT%H:%M:%fZ', time_ms / 1000.0, 'unixepoch')"
#define WHOLE_ACTOR                                                                                \
    "json_object('type', actor_type, 'id', nullif(actor_id, ''), 'name', nullif(actor_name, ''))"
#define ENTRY(actor, source)                                                                       \
    "SELECT json_object('seq', seq, 'time', " STAMP                                                \
    ", 'team', nullif(team_id, ''), 'actor', " actor ", 'source', " source                         \
    ", 'via', via, 'session', nullif(session, ''), 'action', action, 'object', nullif(object, "    \
    "''),"                                                                                         \
    " 'parent', nullif(parent, ''), 'status', status, 'error', error, 'made', json(made),"         \
    " 'durationMs', took_ms) FROM audit WHERE "

/* A team is not told which of the operator's keys it was, nor where from. */
#define FOR_TEAM                                                                                   \
    ENTRY("CASE actor_type WHEN 'admin' THEN json_object('type', 'admin') ELSE " WHOLE_ACTOR       \
          " END",                                                                                  \
          "CASE actor_type WHEN 'admin' THEN NULL ELSE nullif(source, '') END")                    \
    "team_id = ?1"
#define FOR_ALL ENTRY(WHOLE_ACTOR, "nullif(source, '')") "(?1 IS NULL OR team_id = ?1)"
#define FILTERS                                                                                    \
    " AND time_ms >= ?2 AND time_ms < ?3 AND (?4 IS NULL OR actor_id = ?4)"                        \
    " AND (?5 IS NULL OR glob(?5, action)) AND (?6 IS NULL OR object = ?6 OR parent = ?6)"
#define NEWEST " AND seq < ?7 ORDER BY seq DESC LIMIT ?8"
/* In the order of the beginnings, and none whose outcome is not known yet. */
#define OLDEST                                                                                     \
    " AND seq > ?7 AND seq < ifnull((SELECT min(seq) FROM audit WHERE status IS NULL),"            \
    " 9223372036854775807) ORDER BY seq LIMIT ?8"

/* [of all teams][oldest first] */
static const struct store_statement lists[2][2] = {
    {{.what = "list the audit log", .sql = FOR_TEAM FILTERS NEWEST},
     {.what = "list the audit log", .sql = FOR_TEAM FILTERS OLDEST}},
    {{.what = "list the audit log", .sql = FOR_ALL FILTERS NEWEST},
     {.what = "list the audit log", .sql = FOR_ALL FILTERS OLDEST}},
};

void store_audit_list(struct store *store, const struct audit_query *query, store_text *done,
                      void *ctx)
{
    struct store_job *job = store_job_new(&lists[query->for_operator][query->oldest_first]);

    store_job_text(job, query->team_id);
    store_job_int(job, query->from_ms);
    store_job_int(job, query->to_ms);
    store_job_text(job, query->actor);
    store_job_text(job, query->action);
    store_job_text(job, query->object);
    store_job_int(job, query->cursor);
    store_job_int(job, query->limit);
    store_read_array(store, job, done, ctx);
}
