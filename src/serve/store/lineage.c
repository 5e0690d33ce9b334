#include "serve/store/internal.h"

#define STAMP(column) "strftime('%Y-%m-%dT%H:%M:%fZ', " column " / 1000.0, 'unixepoch')"

/* The snapshot of the team that a sandbox was made of. */
#define OF_SNAPSHOT                                                                                \
    "(SELECT t.id FROM templates t WHERE t.id = s.template_id AND t.team_id = ?1"                  \
    " AND t.snapshot_of IS NOT NULL)"
#define PARENT "ifnull(s.fork_of, " OF_SNAPSHOT ")"

/* A snapshot that was made again from one of its own descendants closes a circle; UNION walks it
 * once. Every step uses an index. */
static const struct store_statement family = {
    "read a lineage",
    "WITH RECURSIVE up(id) AS ("
    " SELECT id FROM sandboxes WHERE id = ?2 AND team_id = ?1"
    " UNION SELECT " PARENT " FROM up JOIN sandboxes s ON s.id = up.id"
    "  WHERE s.team_id = ?1 AND " PARENT " IS NOT NULL"
    " UNION SELECT t.snapshot_of FROM up JOIN templates t ON t.id = up.id"
    "  WHERE t.team_id = ?1 AND t.snapshot_of IS NOT NULL"
    " LIMIT ?3),"
    " family(id) AS ("
    " SELECT id FROM up"
    " UNION SELECT s.id FROM family f JOIN sandboxes s ON s.fork_of = f.id WHERE s.team_id = ?1"
    " UNION SELECT t.id FROM family f JOIN templates t ON t.snapshot_of = f.id"
    "  WHERE t.team_id = ?1"
    " UNION SELECT s.id FROM family f JOIN sandboxes s ON s.template_id = f.id"
    "  WHERE s.team_id = ?1 AND s.fork_of IS NULL"
    " LIMIT ?3)"
    " SELECT json_object('id', s.id, 'kind', 'sandbox', 'name', s.template_alias,"
    " 'state', s.state, 'reason', s.end_reason, 'parentID', " PARENT ","
    " 'at', " STAMP(
        "s.created_ms") ","
                        " 'endedAt', CASE s.state WHEN 'killed' THEN " STAMP(
                            "s.end_ms") " END)"
                                        " FROM family f JOIN sandboxes s ON s.id = f.id WHERE "
                                        "s.team_id = ?1"
                                        " UNION ALL"
                                        " SELECT json_object('id', t.id, 'kind', 'snapshot', "
                                        "'name', t.alias, 'state', 'ready',"
                                        " 'reason', NULL, 'parentID', t.snapshot_of, 'at', " STAMP(
                                            "t.created_ms") ", 'endedAt', NULL)"
                                                            " FROM family f JOIN templates t ON "
                                                            "t.id = f.id WHERE t.team_id = ?1"
                                                            " AND t.snapshot_of IS NOT NULL",
};

void store_lineage(struct store *store, const char *team_id, const char *sandbox_id, int64_t limit,
                   store_text *done, void *ctx)
{
    struct store_job *job = store_job_new(&family);

    store_job_text(job, team_id);
    store_job_text(job, sandbox_id);
    store_job_int(job, limit);
    store_read_array(store, job, done, ctx);
}
