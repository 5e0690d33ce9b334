#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "serve/store/postgres.h"

/* Names the lock under which one daemon at a time migrates. */
#define MIGRATION_LOCK "7020583113291497"

/* Step i upgrades a database of version i to version i + 1. A released step never changes:
 * databases that it made exist. The tables and triggers mean the same as those of schema.c, which
 * has the reasons; a test compares the columns. */
static const char *const steps[] = {
    /* Functions of SQLite that statements call (dialect.h). The one format of strftime() is that of
     * a time in JSON; glob() knows `*` alone. */
    "CREATE FUNCTION as_json(text) RETURNS json LANGUAGE sql IMMUTABLE STRICT"
    " AS $$ SELECT $1::json $$;"
    "CREATE FUNCTION strftime(format text, seconds numeric, unit text) RETURNS text"
    " LANGUAGE sql STABLE STRICT AS $$ SELECT to_char(to_timestamp($2) AT TIME ZONE 'UTC',"
    " 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"') $$;"
    "CREATE FUNCTION glob(pattern text, word text) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT"
    " AS $$ SELECT $2 LIKE replace(replace(replace(replace($1, '\\', '\\\\'), '%', '\\%'),"
    " '_', '\\_'), '*', '%') $$;"

    /* It has one row: the connection that may write, and its last transaction (postgres.c). */
    "CREATE TABLE writer (session bigint NOT NULL, batch bigint NOT NULL) WITH (fillfactor = 10);"
    "INSERT INTO writer VALUES (0, 0);"

    "CREATE TABLE sandboxes ("
    " id text PRIMARY KEY, team_id text NOT NULL, template_id text NOT NULL, template_alias text,"
    " build_id text NOT NULL DEFAULT '', fork_of text,"
    " state text NOT NULL CHECK (state IN ('running', 'paused', 'killed')),"
    " started_ms bigint NOT NULL, end_ms bigint NOT NULL, created_ms bigint NOT NULL,"
    " end_reason text, access_token text, options_json text NOT NULL,"
    " cpu_count bigint NOT NULL, memory_mb bigint NOT NULL, disk_mb bigint NOT NULL,"
    " uid_slot bigint NOT NULL, pid bigint NOT NULL, start_ticks bigint NOT NULL, saved text,"
    " saved_bytes bigint NOT NULL DEFAULT 0, saved_disk_bytes bigint NOT NULL DEFAULT 0"
    ") WITH (fillfactor = 70);"
    "CREATE INDEX sandboxes_by_end ON sandboxes (state, end_ms);"
    "CREATE INDEX sandboxes_by_source ON sandboxes (fork_of) WHERE fork_of IS NOT NULL;"
    "CREATE INDEX sandboxes_by_template ON sandboxes (template_id);"

    "CREATE TABLE teams ("
    " id text PRIMARY KEY, name text NOT NULL, limits text NOT NULL DEFAULT '{}',"
    " created_ms bigint NOT NULL);"
    "CREATE TABLE keys ("
    " id text PRIMARY KEY, team_id text NOT NULL REFERENCES teams (id) ON DELETE CASCADE,"
    " name text NOT NULL, hash text NOT NULL UNIQUE, prefix text NOT NULL, masked text NOT NULL,"
    " limits text NOT NULL DEFAULT '{}', read_only bigint NOT NULL DEFAULT 0,"
    " created_ms bigint NOT NULL, last_used_ms bigint NOT NULL);"
    "CREATE TABLE sessions ("
    " hash text PRIMARY KEY, key_id text NOT NULL REFERENCES keys (id) ON DELETE CASCADE,"
    " admin_key_id text NOT NULL, created_ms bigint NOT NULL, used_ms bigint NOT NULL);"
    "CREATE TABLE admin_keys ("
    " id text PRIMARY KEY, name text NOT NULL, hash text NOT NULL UNIQUE, masked text NOT NULL,"
    " created_ms bigint NOT NULL, last_used_ms bigint NOT NULL);"
    "CREATE TABLE makers (id text PRIMARY KEY, key_id text NOT NULL);"
    "CREATE TABLE usage ("
    " team_id text NOT NULL REFERENCES teams (id) ON DELETE CASCADE, hour_ms bigint NOT NULL,"
    " sandbox_ms bigint NOT NULL, cpu_ms bigint NOT NULL, memory_mb_ms bigint NOT NULL,"
    " disk_mb_ms bigint NOT NULL, builds bigint NOT NULL, build_ms bigint NOT NULL,"
    " PRIMARY KEY (team_id, hour_ms));"

    "CREATE TABLE templates ("
    " id text PRIMARY KEY, alias text, team_id text REFERENCES teams (id) ON DELETE CASCADE,"
    " build_id text NOT NULL, layers text NOT NULL, \"user\" text NOT NULL, workdir text NOT NULL,"
    " env_json text NOT NULL, cpu_count bigint NOT NULL, memory_mb bigint NOT NULL,"
    " disk_mb bigint NOT NULL, created_ms bigint NOT NULL, is_public bigint NOT NULL,"
    " start_cmd text, ready_cmd text, start_context text, saved text,"
    " saved_bytes bigint NOT NULL DEFAULT 0, saved_disk_bytes bigint NOT NULL DEFAULT 0,"
    " snapshot_of text);"
    "CREATE UNIQUE INDEX templates_by_alias ON templates (coalesce(team_id, ''), alias);"
    "CREATE INDEX templates_by_source ON templates (snapshot_of) WHERE snapshot_of IS NOT NULL;"
    "CREATE TABLE builds ("
    " id text PRIMARY KEY, template_id text NOT NULL REFERENCES templates (id) ON DELETE CASCADE,"
    " state text NOT NULL CHECK (state IN ('waiting', 'building', 'ready', 'error')),"
    " tags text NOT NULL, reason text, created_ms bigint NOT NULL, started_ms bigint NOT NULL,"
    " finished_ms bigint NOT NULL, cpu_count bigint NOT NULL, memory_mb bigint NOT NULL,"
    " disk_mb bigint NOT NULL, layers text NOT NULL, \"user\" text NOT NULL, workdir text NOT NULL,"
    " env_json text NOT NULL, start_cmd text, ready_cmd text, start_context text, saved text,"
    " bytes bigint NOT NULL, saved_bytes bigint NOT NULL DEFAULT 0, snapshot_of text);"
    "CREATE INDEX builds_by_template ON builds (template_id);"
    "CREATE TABLE build_logs ("
    " seq bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,"
    " build_id text NOT NULL REFERENCES builds (id) ON DELETE CASCADE,"
    " level bigint NOT NULL, entry text NOT NULL);"
    "CREATE INDEX build_logs_by_build ON build_logs (build_id, seq);"
    "CREATE TABLE tags ("
    " template_id text NOT NULL REFERENCES templates (id) ON DELETE CASCADE, tag text NOT NULL,"
    " build_id text NOT NULL REFERENCES builds (id) ON DELETE CASCADE, created_ms bigint NOT NULL,"
    " PRIMARY KEY (template_id, tag));"
    "CREATE INDEX tags_by_build ON tags (build_id);"
    "CREATE TABLE tag_assignments ("
    " seq bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, id text NOT NULL,"
    " template_id text NOT NULL REFERENCES templates (id) ON DELETE CASCADE, tag text NOT NULL,"
    " build_id text NOT NULL REFERENCES builds (id) ON DELETE CASCADE,"
    " created_ms bigint NOT NULL);"
    "CREATE INDEX tag_assignments_by_template ON tag_assignments (template_id, seq);"
    "CREATE INDEX tag_assignments_by_build ON tag_assignments (build_id);"
    "CREATE TABLE steps ("
    " key text PRIMARY KEY, team_id text NOT NULL, saved text NOT NULL, \"user\" text NOT NULL,"
    " workdir text NOT NULL, env_json text NOT NULL, bytes bigint NOT NULL,"
    " created_ms bigint NOT NULL, used_ms bigint NOT NULL);"
    "CREATE TABLE files ("
    " team_id text NOT NULL, hash text NOT NULL, sha256 text NOT NULL, bytes bigint NOT NULL,"
    " created_ms bigint NOT NULL, used_ms bigint NOT NULL, PRIMARY KEY (team_id, hash));"

    "CREATE TABLE events ("
    " seq bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, id text NOT NULL,"
    " team_id text NOT NULL, sandbox_id text NOT NULL, type text NOT NULL,"
    " timestamp_ms bigint NOT NULL, body text NOT NULL);"
    "CREATE INDEX events_by_team ON events (team_id, seq);"
    "CREATE INDEX events_by_sandbox ON events (sandbox_id, seq);"
    "CREATE INDEX events_by_time ON events (timestamp_ms);"
    "CREATE TABLE webhooks ("
    " id text PRIMARY KEY, team_id text NOT NULL REFERENCES teams (id) ON DELETE CASCADE,"
    " name text NOT NULL, url text NOT NULL, events text NOT NULL, secret text NOT NULL,"
    " enabled bigint NOT NULL, created_ms bigint NOT NULL);"
    "CREATE INDEX webhooks_by_team ON webhooks (team_id);"
    "CREATE TABLE deliveries ("
    " seq bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, id text NOT NULL,"
    " webhook_id text NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,"
    " event_seq bigint NOT NULL, sandbox_id text NOT NULL,"
    " state text NOT NULL CHECK (state IN ('pending', 'delivered', 'failed')),"
    " created_ms bigint NOT NULL, attempts bigint NOT NULL DEFAULT 0,"
    " next_ms bigint NOT NULL DEFAULT 0, last_ms bigint, status bigint, error text);"
    "CREATE INDEX deliveries_by_webhook ON deliveries (webhook_id, seq);"
    "CREATE INDEX deliveries_pending ON deliveries (webhook_id, seq) WHERE state = 'pending';"
    "CREATE INDEX deliveries_by_time ON deliveries (created_ms);"

    "CREATE TABLE volumes ("
    " id text PRIMARY KEY, team_id text NOT NULL, name text NOT NULL, secret text NOT NULL,"
    " size_mb bigint NOT NULL, removed bigint NOT NULL, created_ms bigint NOT NULL);"
    "CREATE UNIQUE INDEX volumes_by_name ON volumes (team_id, name) WHERE removed = 0;"
    "CREATE TABLE secrets ("
    " id text PRIMARY KEY, team_id text NOT NULL REFERENCES teams (id) ON DELETE CASCADE,"
    " name text NOT NULL, metadata text NOT NULL, version bigint NOT NULL,"
    " created_ms bigint NOT NULL, updated_ms bigint NOT NULL);"
    "CREATE UNIQUE INDEX secrets_by_name ON secrets (team_id, name);"
    "CREATE TABLE secret_versions ("
    " secret_id text NOT NULL REFERENCES secrets (id) ON DELETE CASCADE,"
    " version bigint NOT NULL, sealed text NOT NULL, created_ms bigint NOT NULL,"
    " PRIMARY KEY (secret_id, version));"
    "CREATE TABLE shells ("
    " team_id text NOT NULL REFERENCES teams (id) ON DELETE CASCADE, name text NOT NULL,"
    " definition text NOT NULL, sealed text, created_ms bigint NOT NULL,"
    " updated_ms bigint NOT NULL, PRIMARY KEY (team_id, name));"
    "CREATE TABLE artifacts ("
    " team_id text NOT NULL REFERENCES teams (id) ON DELETE CASCADE, path text NOT NULL,"
    " content text NOT NULL, language text NOT NULL, entrypoint text NOT NULL,"
    " description text NOT NULL, sha256 text NOT NULL, version bigint NOT NULL,"
    " size bigint NOT NULL, created_ms bigint NOT NULL, updated_ms bigint NOT NULL,"
    " PRIMARY KEY (team_id, path));"

    "CREATE TABLE sandbox_keys ("
    " sandbox_id text NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,"
    " sealed_for text NOT NULL, team_id text NOT NULL, given_ms bigint NOT NULL,"
    " sealed text NOT NULL, PRIMARY KEY (sandbox_id, sealed_for));"
    "CREATE TABLE snapshot_keys ("
    " template_id text NOT NULL REFERENCES templates (id) ON DELETE CASCADE,"
    " sealed_for text NOT NULL, team_id text NOT NULL, given_ms bigint NOT NULL,"
    " sealed text NOT NULL, PRIMARY KEY (template_id, sealed_for));"

    "CREATE TABLE audit ("
    " seq bigint PRIMARY KEY, time_ms bigint NOT NULL, team_id text NOT NULL,"
    " actor_id text NOT NULL, actor_name text NOT NULL, actor_type text NOT NULL,"
    " source text NOT NULL, via text NOT NULL, session text NOT NULL, action text NOT NULL,"
    " object text NOT NULL, parent text NOT NULL, status bigint, error text, made text,"
    " took_ms bigint);"
    "CREATE INDEX audit_by_team ON audit (team_id, seq);"
    "CREATE INDEX audit_open ON audit (seq) WHERE status IS NULL;"
    /* The last number of a row that is gone: none is given twice. */
    "CREATE TABLE audit_last (seq bigint NOT NULL);"
    "INSERT INTO audit_last VALUES (0);"
    "CREATE FUNCTION audit_gone() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " UPDATE audit_last SET seq = greatest(seq, (SELECT max(g.seq) FROM gone g));"
    " RETURN NULL; END $$;"
    "CREATE TRIGGER audit_gone AFTER DELETE ON audit REFERENCING OLD TABLE AS gone"
    " FOR EACH STATEMENT EXECUTE FUNCTION audit_gone();"

    /* The keys of a sandbox go with its forks and snapshots. */
    "CREATE FUNCTION sandbox_keys_end() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " DELETE FROM sandbox_keys WHERE sandbox_id = new.id; RETURN NULL; END $$;"
    "CREATE TRIGGER sandbox_keys_end AFTER UPDATE OF state ON sandboxes FOR EACH ROW"
    " WHEN (new.state = 'killed') EXECUTE FUNCTION sandbox_keys_end();"
    "CREATE FUNCTION sandbox_keys_come() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " INSERT INTO sandbox_keys SELECT new.id, k.sealed_for, k.team_id, k.given_ms, k.sealed"
    "  FROM sandbox_keys k WHERE k.sandbox_id = new.fork_of AND k.team_id = new.team_id;"
    " INSERT INTO sandbox_keys SELECT new.id, k.sealed_for, k.team_id, k.given_ms, k.sealed"
    "  FROM snapshot_keys k WHERE k.template_id = new.template_id AND k.team_id = new.team_id"
    "  ON CONFLICT DO NOTHING; RETURN NULL; END $$;"
    "CREATE TRIGGER sandbox_keys_come AFTER INSERT ON sandboxes FOR EACH ROW"
    " EXECUTE FUNCTION sandbox_keys_come();"
    "CREATE FUNCTION snapshot_keys_made() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " IF tg_op = 'UPDATE' THEN"
    "  DELETE FROM snapshot_keys WHERE template_id = new.id AND NOT EXISTS"
    "   (SELECT 1 FROM tags t WHERE t.template_id = new.id AND t.tag <> 'default');"
    " END IF;"
    " INSERT INTO snapshot_keys SELECT new.id, k.sealed_for, k.team_id, k.given_ms, k.sealed"
    "  FROM sandbox_keys k WHERE k.sandbox_id = new.snapshot_of AND k.team_id = new.team_id"
    "  ON CONFLICT DO NOTHING; RETURN NULL; END $$;"
    "CREATE TRIGGER snapshot_keys_made AFTER INSERT ON templates FOR EACH ROW"
    " EXECUTE FUNCTION snapshot_keys_made();"
    "CREATE TRIGGER snapshot_keys_made_anew AFTER UPDATE OF saved ON templates FOR EACH ROW"
    " WHEN (new.saved IS DISTINCT FROM old.saved) EXECUTE FUNCTION snapshot_keys_made();"
    "CREATE FUNCTION snapshot_keys_tagged() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " INSERT INTO snapshot_keys"
    "  SELECT new.template_id, k.sealed_for, k.team_id, k.given_ms, k.sealed"
    "  FROM sandbox_keys k JOIN templates t ON t.id = new.template_id"
    "  WHERE k.sandbox_id = new.snapshot_of AND k.team_id = t.team_id"
    "  ON CONFLICT DO NOTHING; RETURN NULL; END $$;"
    "CREATE TRIGGER snapshot_keys_tagged AFTER INSERT ON builds FOR EACH ROW"
    " WHEN (new.snapshot_of IS NOT NULL) EXECUTE FUNCTION snapshot_keys_tagged();"

    /* Which builds a tag has named, the newest thousand of a template's. */
    "CREATE FUNCTION tag_assigned() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " INSERT INTO tag_assignments (id, template_id, tag, build_id, created_ms)"
    "  VALUES (gen_random_uuid(), new.template_id, new.tag, new.build_id, new.created_ms);"
    " DELETE FROM tag_assignments a WHERE a.template_id = new.template_id AND a.seq <="
    "  (SELECT b.seq FROM tag_assignments b WHERE b.template_id = new.template_id"
    "   ORDER BY b.seq DESC LIMIT 1 OFFSET 1000); RETURN NULL; END $$;"
    "CREATE TRIGGER tag_assigned AFTER INSERT ON tags FOR EACH ROW"
    " EXECUTE FUNCTION tag_assigned();"
    "CREATE TRIGGER tag_moved AFTER UPDATE OF build_id ON tags FOR EACH ROW"
    " EXECUTE FUNCTION tag_assigned();"
    "CREATE FUNCTION tag_removed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " DELETE FROM tag_assignments a WHERE a.template_id = old.template_id AND a.tag = old.tag;"
    " RETURN NULL; END $$;"
    "CREATE TRIGGER tag_removed AFTER DELETE ON tags FOR EACH ROW"
    " EXECUTE FUNCTION tag_removed();",
};

/* Begins the transaction that migrates. The row of the version is made with the first step. */
static const char begin[] = "BEGIN; SELECT pg_advisory_xact_lock(" MIGRATION_LOCK ");"
                            "CREATE TABLE IF NOT EXISTS atoll_version (version bigint NOT NULL);"
                            "SELECT max(version) FROM atoll_version";

static int version_read(PGconn *conn, long *version, struct err *err)
{
    PGresult *result = NULL;
    int r = postgres_exec(conn, begin, "read the database's version", POSTGRES_MIGRATE_MS, &result,
                          err);

    if (r == 0) {
        *version = PQgetisnull(result, 0, 0) ? 0 : strtol(PQgetvalue(result, 0, 0), NULL, 10);
        PQclear(result);
    }
    return r;
}

static int step_run(PGconn *conn, long version, struct err *err)
{
    char what[64], mark[128];

    (void)snprintf(what, sizeof(what), "migrate the database to version %ld", version + 1);
    (void)snprintf(mark, sizeof(mark),
                   "DELETE FROM atoll_version; INSERT INTO atoll_version VALUES (%ld)",
                   version + 1);
    int r = postgres_exec(conn, steps[version], what, POSTGRES_MIGRATE_MS, NULL, err);
    return r < 0 ? r : postgres_exec(conn, mark, what, POSTGRES_MIGRATE_MS, NULL, err);
}

static int steps_run(PGconn *conn, struct err *err)
{
    long newest = (long)countof(steps), version = 0;
    int r = version_read(conn, &version, err);

    if (r == 0 && (version < 0 || version > newest)) {
        return err_set(err, ENOTSUP,
                       "the database has version %ld, this program knows up to %ld: use the newer "
                       "program",
                       version, newest);
    }
    for (; r == 0 && version < newest; version++) {
        r = step_run(conn, version, err);
    }
    return r;
}

/* All steps are one transaction: a crash leaves all or none. */
int postgres_migrate(PGconn *conn, struct err *err)
{
    struct err ignored;
    int r = steps_run(conn, err);

    if (r < 0) {
        (void)postgres_exec(conn, "ROLLBACK", "roll back", POSTGRES_ANSWER_MS, NULL, &ignored);
        return r;
    }
    return postgres_exec(conn, "COMMIT", "migrate the database", POSTGRES_MIGRATE_MS, NULL, err);
}
