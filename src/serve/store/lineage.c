#include "serve/store/internal.h"

#define STAMP(column) "strftime('%Y-%m-%dT%H:%M:%fZ', " column " / 1000.0, 'unixepoch')"

/* The snapshot of the team that a sandbox was made of. */
#define OF_SNAPSHOT(team)                                                                          \
    "(SELECT t.id FROM templates t WHERE t.id = s.template_id AND t.team_id = " team               \
    " AND t.snapshot_of IS NOT NULL)"
#define PARENT "ifnull(s.fork_of, " OF_SNAPSHOT("?1") ")"
#define PARENT_POSTGRES "coalesce(s.fork_of, " OF_SNAPSHOT("$1") ")"

/* A snapshot that was made again from one of its own descendants closes a circle; UNION walks it
 * once. Every step uses an index. */
#define FAMILY                                                                                     \
    "WITH RECURSIVE up(id) AS ("                                                                   \
    " SELECT id FROM sandboxes WHERE id = ?2 AND team_id = ?1"                                     \
    " UNION SELECT " PARENT " FROM up JOIN sandboxes s ON s.id = up.id"                            \
    "  WHERE s.team_id = ?1 AND " PARENT " IS NOT NULL"                                            \
    " UNION SELECT t.snapshot_of FROM up JOIN templates t ON t.id = up.id"                         \
    "  WHERE t.team_id = ?1 AND t.snapshot_of IS NOT NULL"                                         \
    " LIMIT ?3),"                                                                                  \
    " family(id) AS ("                                                                             \
    " SELECT id FROM up"                                                                           \
    " UNION SELECT s.id FROM family f JOIN sandboxes s ON s.fork_of = f.id WHERE s.team_id = ?1"   \
    " UNION SELECT t.id FROM family f JOIN templates t ON t.snapshot_of = f.id"                    \
    "  WHERE t.team_id = ?1"                                                                       \
    " UNION SELECT s.id FROM family f JOIN sandboxes s ON s.template_id = f.id"                    \
    "  WHERE s.team_id = ?1 AND s.fork_of IS NULL"                                                 \
    " LIMIT ?3)"

/* The same for PostgreSQL, in which a recursive query names itself once and has no limit of its
 * own: it makes as many rows as are taken from it. Its joins have no order unless one is asked for.
 */
#define FAMILY_POSTGRES                                                                            \
    "WITH RECURSIVE up(id) AS ("                                                                   \
    " SELECT id FROM sandboxes WHERE id = $2 AND team_id = $1"                                     \
    " UNION SELECT above.id FROM up, LATERAL ("                                                    \
    "  SELECT " PARENT_POSTGRES " FROM sandboxes s WHERE s.id = up.id AND s.team_id = $1"          \
    "  UNION ALL SELECT t.snapshot_of FROM templates t WHERE t.id = up.id AND t.team_id = $1"      \
    " ) AS above(id) WHERE above.id IS NOT NULL),"                                                 \
    " roots(id) AS (SELECT id FROM up LIMIT $3),"                                                  \
    " whole(id) AS ("                                                                              \
    " SELECT id FROM roots"                                                                        \
    " UNION SELECT below.id FROM whole f, LATERAL ("                                               \
    "  SELECT s.id FROM sandboxes s WHERE s.fork_of = f.id AND s.team_id = $1"                     \
    "  UNION ALL SELECT t.id FROM templates t WHERE t.snapshot_of = f.id AND t.team_id = $1"       \
    "  UNION ALL SELECT s.id FROM sandboxes s WHERE s.template_id = f.id AND s.team_id = $1"       \
    "   AND s.fork_of IS NULL"                                                                     \
    " ) AS below(id)),"                                                                            \
    " family(id, place) AS (SELECT id, row_number() OVER () FROM (SELECT id FROM whole LIMIT $3)"  \
    " AS few)"

#define SANDBOX                                                                                    \
    "'id', s.id, 'kind', 'sandbox', 'name', s.template_alias, 'state', s.state,"                   \
    " 'reason', s.end_reason, 'parentID', "
#define SANDBOX_TIMES                                                                              \
    ", 'at', " STAMP("s.created_ms") ", 'endedAt', CASE s.state WHEN 'killed' THEN " STAMP(        \
        "s.end_ms") " END"
#define SNAPSHOT                                                                                   \
    "'id', t.id, 'kind', 'snapshot', 'name', t.alias, 'state', 'ready', 'reason', NULL,"           \
    " 'parentID', t.snapshot_of, 'at', " STAMP("t.created_ms") ", 'endedAt', NULL"

static const struct store_statement family = {
    .what = "read a lineage",
    .sql = FAMILY " SELECT json_object(" SANDBOX PARENT SANDBOX_TIMES
                  ") FROM family f JOIN sandboxes s ON s.id = f.id WHERE s.team_id = ?1"
                  " UNION ALL SELECT json_object(" SNAPSHOT
                  ") FROM family f JOIN templates t ON t.id = f.id WHERE t.team_id = ?1"
                  " AND t.snapshot_of IS NOT NULL",
    .postgres = FAMILY_POSTGRES
    " SELECT line FROM ("
    " SELECT 1 AS part, f.place, json_build_object(" SANDBOX PARENT_POSTGRES SANDBOX_TIMES
    ") AS line FROM family f JOIN sandboxes s ON s.id = f.id WHERE s.team_id = $1"
    " UNION ALL SELECT 2, f.place, json_build_object(" SNAPSHOT
    ") FROM family f JOIN templates t ON t.id = f.id WHERE t.team_id = $1"
    " AND t.snapshot_of IS NOT NULL) AS lines ORDER BY part, place",
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
