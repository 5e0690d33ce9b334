#include <errno.h>
#include <stdio.h>

#include "lib/base/compiler.h"
#include "serve/store/sqlite.h"

#define NEW_UUID                                                                                   \
    "lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' ||"                             \
    " substr(hex(randomblob(2)), 2) || '-a' || substr(hex(randomblob(2)), 2) || '-' ||"            \
    " hex(randomblob(6)))"
#define ASSIGNMENT_NOTED                                                                           \
    "INSERT INTO tag_assignments (id, template_id, tag, build_id, created_ms)"                     \
    " VALUES (" NEW_UUID ", new.template_id, new.tag, new.build_id, new.created_ms);"              \
    " DELETE FROM tag_assignments WHERE template_id = new.template_id AND seq <="                  \
    " (SELECT seq FROM tag_assignments WHERE template_id = new.template_id"                        \
    "  ORDER BY seq DESC LIMIT 1 OFFSET 1000);"

/* Step i upgrades a database of version i to version i + 1. A released step never changes:
 * databases that it made exist. */
static const char *const steps[] = {
    /* A sandbox's row is a record that outlives its team and its template: no references. */
    "CREATE TABLE sandboxes ("
    " id TEXT PRIMARY KEY, team_id TEXT NOT NULL, template_id TEXT NOT NULL, template_alias TEXT,"
    " state TEXT NOT NULL CHECK (state IN ('running', 'paused', 'killed')),"
    " started_ms INTEGER NOT NULL, end_ms INTEGER NOT NULL, created_ms INTEGER NOT NULL,"
    " end_reason TEXT, access_token TEXT, options_json TEXT NOT NULL,"
    " cpu_count INTEGER NOT NULL, memory_mb INTEGER NOT NULL, disk_mb INTEGER NOT NULL,"
    " uid_slot INTEGER NOT NULL, pid INTEGER NOT NULL, start_ticks INTEGER NOT NULL"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX sandboxes_by_end ON sandboxes (state, end_ms);"
    "CREATE TABLE teams ("
    " id TEXT PRIMARY KEY, name TEXT NOT NULL, created_ms INTEGER NOT NULL"
    ") STRICT, WITHOUT ROWID;"
    "CREATE TABLE keys ("
    " id TEXT PRIMARY KEY, team_id TEXT NOT NULL REFERENCES teams (id) ON DELETE CASCADE,"
    " name TEXT NOT NULL, hash TEXT NOT NULL UNIQUE, prefix TEXT NOT NULL, masked TEXT NOT NULL,"
    " created_ms INTEGER NOT NULL, last_used_ms INTEGER NOT NULL"
    ") STRICT, WITHOUT ROWID;"
    "CREATE TABLE templates ("
    " id TEXT PRIMARY KEY, alias TEXT, team_id TEXT REFERENCES teams (id) ON DELETE CASCADE,"
    " build_id TEXT NOT NULL, layers TEXT NOT NULL, user TEXT NOT NULL, workdir TEXT NOT NULL,"
    " env_json TEXT NOT NULL, cpu_count INTEGER NOT NULL, memory_mb INTEGER NOT NULL,"
    " disk_mb INTEGER NOT NULL, created_ms INTEGER NOT NULL, is_public INTEGER NOT NULL"
    ") STRICT, WITHOUT ROWID;"
    "CREATE UNIQUE INDEX templates_by_alias ON templates (ifnull(team_id, ''), alias);",

    /* An event is kept as the JSON text that is served and delivered. seq is the order in which
     * changes were committed. AUTOINCREMENT never gives a number twice, so a reader that goes on
     * behind the last number misses nothing. */
    "ALTER TABLE sandboxes ADD COLUMN build_id TEXT NOT NULL DEFAULT '';"
    "CREATE TABLE events ("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, team_id TEXT NOT NULL,"
    " sandbox_id TEXT NOT NULL, type TEXT NOT NULL, timestamp_ms INTEGER NOT NULL,"
    " body TEXT NOT NULL"
    ") STRICT;"
    "CREATE INDEX events_by_team ON events (team_id, seq);"
    "CREATE INDEX events_by_sandbox ON events (sandbox_id, seq);"
    "CREATE INDEX events_by_time ON events (timestamp_ms);"
    "CREATE TABLE webhooks ("
    " id TEXT PRIMARY KEY, team_id TEXT NOT NULL REFERENCES teams (id) ON DELETE CASCADE,"
    " name TEXT NOT NULL, url TEXT NOT NULL, events TEXT NOT NULL, secret TEXT NOT NULL,"
    " enabled INTEGER NOT NULL, created_ms INTEGER NOT NULL"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX webhooks_by_team ON webhooks (team_id);"
    "CREATE TABLE deliveries ("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL,"
    " webhook_id TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,"
    " event_seq INTEGER NOT NULL, sandbox_id TEXT NOT NULL,"
    " state TEXT NOT NULL CHECK (state IN ('pending', 'delivered', 'failed')),"
    " created_ms INTEGER NOT NULL, attempts INTEGER NOT NULL DEFAULT 0,"
    " next_ms INTEGER NOT NULL DEFAULT 0, last_ms INTEGER, status INTEGER, error TEXT"
    ") STRICT;"
    "CREATE INDEX deliveries_by_webhook ON deliveries (webhook_id, seq);"
    "CREATE INDEX deliveries_pending ON deliveries (webhook_id, seq) WHERE state = 'pending';"
    "CREATE INDEX deliveries_by_time ON deliveries (created_ms);",

    /* The start of a sandbox: commands, or the save of a jail in which they run already. */
    "ALTER TABLE templates ADD COLUMN start_cmd TEXT;"
    "ALTER TABLE templates ADD COLUMN ready_cmd TEXT;"
    "ALTER TABLE templates ADD COLUMN saved TEXT;",

    /* The saves of paused sandboxes. Snapshots, which are templates made of a sandbox. */
    "ALTER TABLE sandboxes ADD COLUMN saved TEXT;"
    "ALTER TABLE sandboxes ADD COLUMN saved_bytes INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE templates ADD COLUMN snapshot_of TEXT;"
    "ALTER TABLE templates ADD COLUMN saved_bytes INTEGER NOT NULL DEFAULT 0;",

    /* Templates as they are built. The row of a template is what its tag `default` names; every
     * other tag names a build. A build keeps its row after its disk is gone: its log is there. */
    "CREATE TABLE builds ("
    " id TEXT PRIMARY KEY,"
    " template_id TEXT NOT NULL REFERENCES templates (id) ON DELETE CASCADE,"
    " state TEXT NOT NULL CHECK (state IN ('waiting', 'building', 'ready', 'error')),"
    " tags TEXT NOT NULL, reason TEXT, created_ms INTEGER NOT NULL, started_ms INTEGER NOT NULL,"
    " finished_ms INTEGER NOT NULL, cpu_count INTEGER NOT NULL, memory_mb INTEGER NOT NULL,"
    " disk_mb INTEGER NOT NULL, layers TEXT NOT NULL, user TEXT NOT NULL, workdir TEXT NOT NULL,"
    " env_json TEXT NOT NULL, start_cmd TEXT, ready_cmd TEXT, saved TEXT, bytes INTEGER NOT NULL"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX builds_by_template ON builds (template_id);"
    "CREATE TABLE build_logs ("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT,"
    " build_id TEXT NOT NULL REFERENCES builds (id) ON DELETE CASCADE,"
    " level INTEGER NOT NULL, entry TEXT NOT NULL"
    ") STRICT;"
    "CREATE INDEX build_logs_by_build ON build_logs (build_id, seq);"
    "CREATE TABLE tags ("
    " template_id TEXT NOT NULL REFERENCES templates (id) ON DELETE CASCADE, tag TEXT NOT NULL,"
    " build_id TEXT NOT NULL REFERENCES builds (id) ON DELETE CASCADE, created_ms INTEGER NOT NULL,"
    " PRIMARY KEY (template_id, tag)"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX tags_by_build ON tags (build_id);"
    "CREATE TABLE steps ("
    " key TEXT PRIMARY KEY, team_id TEXT NOT NULL, saved TEXT NOT NULL, user TEXT NOT NULL,"
    " workdir TEXT NOT NULL, env_json TEXT NOT NULL, bytes INTEGER NOT NULL,"
    " created_ms INTEGER NOT NULL, used_ms INTEGER NOT NULL"
    ") STRICT, WITHOUT ROWID;"
    "CREATE TABLE files ("
    " team_id TEXT NOT NULL, hash TEXT NOT NULL, sha256 TEXT NOT NULL, bytes INTEGER NOT NULL,"
    " created_ms INTEGER NOT NULL, used_ms INTEGER NOT NULL, PRIMARY KEY (team_id, hash)"
    ") STRICT, WITHOUT ROWID;",

    /* A volume that is removed keeps its row until its bytes are gone; its name is free at once. */
    "CREATE TABLE volumes ("
    " id TEXT PRIMARY KEY, team_id TEXT NOT NULL, name TEXT NOT NULL, secret TEXT NOT NULL,"
    " size_mb INTEGER NOT NULL, removed INTEGER NOT NULL, created_ms INTEGER NOT NULL"
    ") STRICT, WITHOUT ROWID;"
    "CREATE UNIQUE INDEX volumes_by_name ON volumes (team_id, name) WHERE removed = 0;"
    "CREATE TABLE secrets ("
    " id TEXT PRIMARY KEY, team_id TEXT NOT NULL REFERENCES teams (id) ON DELETE CASCADE,"
    " name TEXT NOT NULL, metadata TEXT NOT NULL, version INTEGER NOT NULL,"
    " created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL"
    ") STRICT, WITHOUT ROWID;"
    "CREATE UNIQUE INDEX secrets_by_name ON secrets (team_id, name);"
    "CREATE TABLE secret_versions ("
    " secret_id TEXT NOT NULL REFERENCES secrets (id) ON DELETE CASCADE,"
    " version INTEGER NOT NULL, sealed TEXT NOT NULL, created_ms INTEGER NOT NULL,"
    " PRIMARY KEY (secret_id, version)"
    ") STRICT, WITHOUT ROWID;",

    /* A killed sandbox's row stays for a while; the keys that it was given do not. */
    "CREATE TABLE sandbox_keys ("
    " sandbox_id TEXT PRIMARY KEY REFERENCES sandboxes (id) ON DELETE CASCADE,"
    " team_id TEXT NOT NULL, sealed TEXT NOT NULL"
    ") STRICT, WITHOUT ROWID;"
    "CREATE TRIGGER sandbox_keys_end AFTER UPDATE OF state ON sandboxes"
    " WHEN new.state = 'killed' BEGIN"
    " DELETE FROM sandbox_keys WHERE sandbox_id = new.id; END;",

    "CREATE TABLE shells ("
    " team_id TEXT NOT NULL REFERENCES teams (id) ON DELETE CASCADE, name TEXT NOT NULL,"
    " definition TEXT NOT NULL, sealed TEXT,"
    " created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL,"
    " PRIMARY KEY (team_id, name)"
    ") STRICT, WITHOUT ROWID;"
    "CREATE TABLE artifacts ("
    " team_id TEXT NOT NULL REFERENCES teams (id) ON DELETE CASCADE, path TEXT NOT NULL,"
    " content TEXT NOT NULL, language TEXT NOT NULL, entrypoint TEXT NOT NULL,"
    " description TEXT NOT NULL, sha256 TEXT NOT NULL, version INTEGER NOT NULL,"
    " size INTEGER NOT NULL, created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL,"
    " PRIMARY KEY (team_id, path)"
    ") STRICT;",

    /* The keys of a sandbox are in the memory of its forks and snapshots too, so these get a copy
     * of the record. Each is sealed for the sandbox that it was first written for. */
    "CREATE TABLE given_keys ("
    " sandbox_id TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,"
    " sealed_for TEXT NOT NULL, team_id TEXT NOT NULL, given_ms INTEGER NOT NULL,"
    " sealed TEXT NOT NULL,"
    " PRIMARY KEY (sandbox_id, sealed_for)"
    ") STRICT, WITHOUT ROWID;"
    "INSERT INTO given_keys SELECT sandbox_id, sandbox_id, k.team_id, s.created_ms, sealed"
    " FROM sandbox_keys AS k JOIN sandboxes AS s ON s.id = sandbox_id;"
    "DROP TRIGGER sandbox_keys_end;"
    "DROP TABLE sandbox_keys;"
    "ALTER TABLE given_keys RENAME TO sandbox_keys;"
    "CREATE TABLE snapshot_keys ("
    " template_id TEXT NOT NULL REFERENCES templates (id) ON DELETE CASCADE,"
    " sealed_for TEXT NOT NULL, team_id TEXT NOT NULL, given_ms INTEGER NOT NULL,"
    " sealed TEXT NOT NULL,"
    " PRIMARY KEY (template_id, sealed_for)"
    ") STRICT, WITHOUT ROWID;"
    "ALTER TABLE sandboxes ADD COLUMN fork_of TEXT;"
    "CREATE TRIGGER sandbox_keys_end AFTER UPDATE OF state ON sandboxes"
    " WHEN new.state = 'killed' BEGIN"
    " DELETE FROM sandbox_keys WHERE sandbox_id = new.id; END;"
    "CREATE TRIGGER sandbox_keys_come AFTER INSERT ON sandboxes BEGIN"
    " INSERT INTO sandbox_keys SELECT new.id, sealed_for, team_id, given_ms, sealed"
    "  FROM sandbox_keys WHERE sandbox_id = new.fork_of AND team_id = new.team_id;"
    " INSERT OR IGNORE INTO sandbox_keys SELECT new.id, sealed_for, team_id, given_ms, sealed"
    "  FROM snapshot_keys WHERE template_id = new.template_id AND team_id = new.team_id; END;"
    "CREATE TRIGGER snapshot_keys_made AFTER INSERT ON templates BEGIN"
    " INSERT INTO snapshot_keys SELECT new.id, sealed_for, team_id, given_ms, sealed"
    "  FROM sandbox_keys WHERE sandbox_id = new.snapshot_of AND team_id = new.team_id; END;"
    "CREATE TRIGGER snapshot_keys_made_anew AFTER UPDATE OF saved ON templates"
    " WHEN new.saved IS NOT old.saved BEGIN"
    " DELETE FROM snapshot_keys WHERE template_id = new.id;"
    " INSERT INTO snapshot_keys SELECT new.id, sealed_for, team_id, given_ms, sealed"
    "  FROM sandbox_keys WHERE sandbox_id = new.snapshot_of AND team_id = new.team_id; END;",

    "ALTER TABLE sandboxes ADD COLUMN saved_disk_bytes INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE templates ADD COLUMN saved_disk_bytes INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE builds ADD COLUMN saved_bytes INTEGER NOT NULL DEFAULT 0;",

    /* Limits are a JSON object of numbers by name; a limit that is not there is none. A maker is
     * the key that made a template, a build, a volume or another key. */
    "ALTER TABLE teams ADD COLUMN limits TEXT NOT NULL DEFAULT '{}';"
    "ALTER TABLE keys ADD COLUMN limits TEXT NOT NULL DEFAULT '{}';"
    "CREATE TABLE admin_keys ("
    " id TEXT PRIMARY KEY, name TEXT NOT NULL, hash TEXT NOT NULL UNIQUE, masked TEXT NOT NULL,"
    " created_ms INTEGER NOT NULL, last_used_ms INTEGER NOT NULL"
    ") STRICT, WITHOUT ROWID;"
    "CREATE TABLE makers ("
    " id TEXT PRIMARY KEY, key_id TEXT NOT NULL"
    ") STRICT, WITHOUT ROWID;"
    "CREATE TABLE usage ("
    " team_id TEXT NOT NULL REFERENCES teams (id) ON DELETE CASCADE, hour_ms INTEGER NOT NULL,"
    " sandbox_ms INTEGER NOT NULL, cpu_ms INTEGER NOT NULL, memory_mb_ms INTEGER NOT NULL,"
    " disk_mb_ms INTEGER NOT NULL, builds INTEGER NOT NULL, build_ms INTEGER NOT NULL,"
    " PRIMARY KEY (team_id, hour_ms)"
    ") STRICT, WITHOUT ROWID;"
    /* Which builds a tag has named, the newest thousand of a template's. */
    "CREATE TABLE tag_assignments ("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL,"
    " template_id TEXT NOT NULL REFERENCES templates (id) ON DELETE CASCADE, tag TEXT NOT NULL,"
    " build_id TEXT NOT NULL REFERENCES builds (id) ON DELETE CASCADE, created_ms INTEGER NOT NULL"
    ") STRICT;"
    "CREATE INDEX tag_assignments_by_template ON tag_assignments (template_id, seq);"
    "CREATE INDEX tag_assignments_by_build ON tag_assignments (build_id);"
    "INSERT INTO tag_assignments (id, template_id, tag, build_id, created_ms)"
    " SELECT " NEW_UUID ", template_id, tag, build_id, created_ms FROM tags ORDER BY created_ms;"
    "CREATE TRIGGER tag_assigned AFTER INSERT ON tags BEGIN " ASSIGNMENT_NOTED " END;"
    "CREATE TRIGGER tag_moved AFTER UPDATE OF build_id ON tags BEGIN " ASSIGNMENT_NOTED " END;"
    "CREATE TRIGGER tag_removed AFTER DELETE ON tags BEGIN"
    " DELETE FROM tag_assignments WHERE template_id = old.template_id AND tag = old.tag; END;",
    /* Commands that a template has from its base run as they did there. */
    "ALTER TABLE templates ADD COLUMN start_context TEXT;"
    "ALTER TABLE builds ADD COLUMN start_context TEXT;",

    /* A snapshot is a build, so that tags can name it. The keys that its memory holds are kept as
     * long as a tag besides `default` may still name what was made of another sandbox. */
    "ALTER TABLE builds ADD COLUMN snapshot_of TEXT;"
    "CREATE TRIGGER snapshot_keys_tagged AFTER INSERT ON builds"
    " WHEN new.snapshot_of IS NOT NULL BEGIN"
    " INSERT OR IGNORE INTO snapshot_keys"
    "  SELECT new.template_id, k.sealed_for, k.team_id, k.given_ms, k.sealed"
    "  FROM sandbox_keys AS k JOIN templates AS t ON t.id = new.template_id"
    "  WHERE k.sandbox_id = new.snapshot_of AND k.team_id = t.team_id; END;"
    "DROP TRIGGER snapshot_keys_made_anew;"
    "CREATE TRIGGER snapshot_keys_made_anew AFTER UPDATE OF saved ON templates"
    " WHEN new.saved IS NOT old.saved BEGIN"
    " DELETE FROM snapshot_keys WHERE template_id = new.id AND NOT EXISTS"
    "  (SELECT 1 FROM tags WHERE template_id = new.id AND tag <> 'default');"
    " INSERT OR IGNORE INTO snapshot_keys SELECT new.id, sealed_for, team_id, given_ms, sealed"
    "  FROM sandbox_keys WHERE sandbox_id = new.snapshot_of AND team_id = new.team_id; END;",

    /* A session of the dashboard stands for a key, and ends with it. */
    "ALTER TABLE keys ADD COLUMN read_only INTEGER NOT NULL DEFAULT 0;"
    "CREATE TABLE sessions ("
    " hash TEXT PRIMARY KEY, key_id TEXT NOT NULL REFERENCES keys (id) ON DELETE CASCADE,"
    " admin_key_id TEXT NOT NULL, created_ms INTEGER NOT NULL, used_ms INTEGER NOT NULL"
    ") STRICT, WITHOUT ROWID;",
    /* For lineages: what was made of a sandbox, and of a snapshot. */
    "CREATE INDEX sandboxes_by_source ON sandboxes (fork_of) WHERE fork_of IS NOT NULL;"
    "CREATE INDEX sandboxes_by_template ON sandboxes (template_id);"
    "CREATE INDEX templates_by_source ON templates (snapshot_of) WHERE snapshot_of IS NOT NULL;",
    /* The audit log. A row outlives its team and its key: no references. A NULL status is a call
     * under way. AUTOINCREMENT keeps the last number when every row is gone. */
    "CREATE TABLE audit ("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT, time_ms INTEGER NOT NULL, team_id TEXT NOT NULL,"
    " actor_id TEXT NOT NULL, actor_name TEXT NOT NULL, actor_type TEXT NOT NULL,"
    " source TEXT NOT NULL, via TEXT NOT NULL, session TEXT NOT NULL, action TEXT NOT NULL,"
    " object TEXT NOT NULL,"
    " parent TEXT NOT NULL, status INTEGER, error TEXT, made TEXT, took_ms INTEGER"
    ") STRICT;"
    "CREATE INDEX audit_by_team ON audit (team_id, seq);"
    "CREATE INDEX audit_open ON audit (seq) WHERE status IS NULL;",
};

static int version_read(sqlite3 *db, int *version, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int r = 0;

    if (sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &stmt, NULL) != SQLITE_OK ||
        sqlite3_step(stmt) != SQLITE_ROW) {
        r = store_fail(db, err, "read the database's version");
    } else {
        *version = sqlite3_column_int(stmt, 0);
    }
    (void)sqlite3_finalize(stmt);
    return r;
}

/* The step and the new version number are one transaction: a crash leaves both or none. */
static int step_run(sqlite3 *db, int version, struct err *err)
{
    char what[64], mark[64];

    (void)snprintf(what, sizeof(what), "migrate the database to version %d", version + 1);
    (void)snprintf(mark, sizeof(mark), "PRAGMA user_version = %d; COMMIT", version + 1);
    if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK) {
        return store_fail(db, err, what);
    }
    if (sqlite3_exec(db, steps[version], NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_exec(db, mark, NULL, NULL, NULL) != SQLITE_OK) {
        int r = store_fail(db, err, what);
        (void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
        return r;
    }
    return 0;
}

int store_migrate(sqlite3 *db, const char *path, struct err *err)
{
    int newest = (int)countof(steps);
    int version = 0;
    int r = version_read(db, &version, err);

    if (r < 0) {
        return r;
    }
    if (version < 0 || version > newest) {
        return err_set(err, ENOTSUP,
                       "%s has version %d, this program knows up to %d: use the newer program",
                       path, version, newest);
    }
    for (; version < newest; version++) {
        r = step_run(db, version, err);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}
