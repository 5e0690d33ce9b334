/* tables.c - the tables whose rows are structs of store.h, and the calls that need nothing else. */
#include "serve/store/internal.h"

#define TABLE(table, row, noun, of_columns, rows_loaded)                                           \
    const struct store_table table_##table = {                                                     \
        .name = #table,                                                                            \
        .row_size = sizeof(struct row),                                                            \
        .columns = (of_columns),                                                                   \
        .columns_n = countof(of_columns),                                                          \
        .load = (rows_loaded),                                                                     \
        .save = {.what = "save " noun},                                                            \
        .delete = {.what = "delete " noun},                                                        \
    }

/* ---- sandboxes and their events ---- */

/* created_ms stays what it was: lists are ordered by it, and pages must not lose their place. */
static const struct store_column sandbox_columns[] = {
    KEY(sandbox_row, id),
    VALUE(sandbox_row, team_id),
    VALUE(sandbox_row, template_id),
    VALUE(sandbox_row, template_alias, .nullable = true),
    VALUE(sandbox_row, build_id, .if_null = ""),
    KEEPS(sandbox_row, fork_of, .nullable = true),
    VALUE(sandbox_row, state),
    VALUE(sandbox_row, started_ms),
    VALUE(sandbox_row, execution),
    VALUE(sandbox_row, end_ms),
    KEEPS(sandbox_row, created_ms),
    VALUE(sandbox_row, end_reason, .nullable = true),
    VALUE(sandbox_row, access_token, .nullable = true),
    VALUE(sandbox_row, options_json, .if_null = "{}"),
    VALUE(sandbox_row, cpu_count),
    VALUE(sandbox_row, memory_mb),
    VALUE(sandbox_row, disk_mb),
    VALUE(sandbox_row, uid_slot),
    VALUE(sandbox_row, pid),
    VALUE(sandbox_row, start_ticks),
    VALUE(sandbox_row, saved, .nullable = true),
    VALUE(sandbox_row, saved_bytes),
    VALUE(sandbox_row, saved_disk_bytes),
};
TABLE(sandboxes, sandbox_row, "sandbox", sandbox_columns,
      "WHERE state <> 'killed' ORDER BY created_ms, id");

static const struct store_column event_columns[] = {
    VALUE(event_row, id),   VALUE(event_row, team_id),      VALUE(event_row, sandbox_id),
    VALUE(event_row, type), VALUE(event_row, timestamp_ms), VALUE(event_row, body),
};
TABLE(events, event_row, "event", event_columns, "");

static const struct store_column webhook_columns[] = {
    KEY(webhook_row, id),        KEEPS(webhook_row, team_id),    VALUE(webhook_row, name),
    VALUE(webhook_row, url),     VALUE(webhook_row, events),     VALUE(webhook_row, secret),
    VALUE(webhook_row, enabled), KEEPS(webhook_row, created_ms),
};
TABLE(webhooks, webhook_row, "webhook", webhook_columns, "ORDER BY created_ms, id");

/* ---- teams, keys, and what the operator has ---- */

static const struct store_column team_columns[] = {
    KEY(team_row, id),
    VALUE(team_row, name),
    VALUE(team_row, limits, .if_null = "{}"),
    KEEPS(team_row, created_ms),
};
TABLE(teams, team_row, "team", team_columns, "ORDER BY created_ms, id");

static const struct store_column key_columns[] = {
    KEY(key_row, id),
    KEEPS(key_row, team_id),
    VALUE(key_row, name),
    KEEPS(key_row, hash),
    KEEPS(key_row, prefix),
    KEEPS(key_row, masked),
    VALUE(key_row, limits, .if_null = "{}"),
    KEEPS(key_row, read_only),
    KEEPS(key_row, created_ms),
    VALUE(key_row, last_used_ms),
};
TABLE(keys, key_row, "API key", key_columns, "ORDER BY created_ms, id");

static const struct store_column session_columns[] = {
    KEY(session_row, hash),         KEEPS(session_row, key_id),  VALUE(session_row, admin_key_id),
    KEEPS(session_row, created_ms), VALUE(session_row, used_ms),
};
TABLE(sessions, session_row, "session", session_columns, "ORDER BY created_ms, hash");

static const struct store_column admin_key_columns[] = {
    KEY(admin_key_row, id),           KEEPS(admin_key_row, name),
    KEEPS(admin_key_row, hash),       KEEPS(admin_key_row, masked),
    KEEPS(admin_key_row, created_ms), VALUE(admin_key_row, last_used_ms),
};
TABLE(admin_keys, admin_key_row, "admin key", admin_key_columns, "ORDER BY created_ms, id");

static const struct store_column maker_columns[] = {KEY(maker_row, id), VALUE(maker_row, key_id)};
TABLE(makers, maker_row, "the maker of a thing", maker_columns, "");

static const struct store_column usage_columns[] = {
    KEY(usage_row, team_id), KEY(usage_row, hour_ms),       ADDS(usage_row, sandbox_ms),
    ADDS(usage_row, cpu_ms), ADDS(usage_row, memory_mb_ms), ADDS(usage_row, disk_mb_ms),
    ADDS(usage_row, builds), ADDS(usage_row, build_ms),
};
TABLE(usage, usage_row, "what a team has used", usage_columns, "");

/* ---- templates and their builds ---- */

static const struct store_column template_columns[] = {
    KEY(template_row, id),
    VALUE(template_row, alias, .nullable = true),
    VALUE(template_row, team_id, .nullable = true),
    VALUE(template_row, build_id),
    VALUE(template_row, layers),
    VALUE(template_row, user),
    VALUE(template_row, workdir),
    VALUE(template_row, env_json),
    VALUE(template_row, cpu_count),
    VALUE(template_row, memory_mb),
    VALUE(template_row, disk_mb),
    KEEPS(template_row, created_ms),
    VALUE(template_row, is_public),
    VALUE(template_row, start_cmd, .nullable = true),
    VALUE(template_row, ready_cmd, .nullable = true),
    VALUE(template_row, start_context, .nullable = true),
    VALUE(template_row, saved, .nullable = true),
    VALUE(template_row, saved_bytes),
    VALUE(template_row, saved_disk_bytes),
    VALUE(template_row, snapshot_of, .nullable = true),
};
TABLE(templates, template_row, "template", template_columns, "ORDER BY created_ms, id");

static const struct store_column build_columns[] = {
    KEY(build_row, id),
    KEEPS(build_row, template_id),
    VALUE(build_row, state),
    VALUE(build_row, tags),
    VALUE(build_row, reason, .nullable = true),
    KEEPS(build_row, created_ms),
    VALUE(build_row, started_ms),
    VALUE(build_row, finished_ms),
    VALUE(build_row, cpu_count),
    VALUE(build_row, memory_mb),
    VALUE(build_row, disk_mb),
    VALUE(build_row, layers),
    VALUE(build_row, user),
    VALUE(build_row, workdir),
    VALUE(build_row, env_json),
    VALUE(build_row, start_cmd, .nullable = true),
    VALUE(build_row, ready_cmd, .nullable = true),
    VALUE(build_row, start_context, .nullable = true),
    VALUE(build_row, saved, .nullable = true),
    VALUE(build_row, bytes),
    VALUE(build_row, saved_bytes),
    KEEPS(build_row, snapshot_of, .nullable = true),
};
TABLE(builds, build_row, "build", build_columns, "ORDER BY created_ms, id");

static const struct store_column tag_columns[] = {
    KEY(tag_row, template_id),
    KEY(tag_row, tag),
    VALUE(tag_row, build_id),
    VALUE(tag_row, created_ms),
};
TABLE(tags, tag_row, "tag", tag_columns, "ORDER BY created_ms, tag");

/* Only new rows, numbered by the database. */
static const struct store_column build_log_columns[] = {
    VALUE(build_log_row, build_id),
    VALUE(build_log_row, level),
    VALUE(build_log_row, entry),
};
TABLE(build_logs, build_log_row, "a line of a build's log", build_log_columns, "ORDER BY seq");

static const struct store_column step_columns[] = {
    KEY(step_row, key),     KEEPS(step_row, team_id),    VALUE(step_row, saved),
    VALUE(step_row, user),  VALUE(step_row, workdir),    VALUE(step_row, env_json),
    VALUE(step_row, bytes), VALUE(step_row, created_ms), VALUE(step_row, used_ms),
};
TABLE(steps, step_row, "step", step_columns, "ORDER BY created_ms, key");

static const struct store_column file_columns[] = {
    KEY(file_row, team_id), KEY(file_row, hash),         VALUE(file_row, sha256),
    VALUE(file_row, bytes), VALUE(file_row, created_ms), VALUE(file_row, used_ms),
};
TABLE(files, file_row, "uploaded files", file_columns, "ORDER BY created_ms, hash");

/* ---- volumes, secrets, shells ---- */

static const struct store_column volume_columns[] = {
    KEY(volume_row, id),           KEEPS(volume_row, team_id), KEEPS(volume_row, name),
    KEEPS(volume_row, secret),     KEEPS(volume_row, size_mb), VALUE(volume_row, removed),
    KEEPS(volume_row, created_ms),
};
TABLE(volumes, volume_row, "volume", volume_columns, "ORDER BY created_ms, id");

static const struct store_column secret_columns[] = {
    KEY(secret_row, id),           KEEPS(secret_row, team_id), KEEPS(secret_row, name),
    VALUE(secret_row, metadata),   VALUE(secret_row, version), KEEPS(secret_row, created_ms),
    VALUE(secret_row, updated_ms),
};
TABLE(secrets, secret_row, "secret", secret_columns, "ORDER BY created_ms, id");

/* The value of the version that a secret has from now on. */
static const struct store_column secret_version_columns[] = {
    STORE_COLUMN(secret_row, "secret_id", id, STORE_REPLACES),
    VALUE(secret_row, version),
    VALUE(secret_row, sealed),
    STORE_COLUMN(secret_row, "created_ms", updated_ms, STORE_REPLACES),
};
TABLE(secret_versions, secret_row, "a secret's version", secret_version_columns, "");

static const struct store_column shell_columns[] = {
    KEY(shell_row, team_id),      KEY(shell_row, name),
    VALUE(shell_row, definition), VALUE(shell_row, sealed, .nullable = true),
    KEEPS(shell_row, created_ms), VALUE(shell_row, updated_ms),
};
TABLE(shells, shell_row, "shell", shell_columns, "");

/* ---- the audit log ---- */

/* Only new rows; their outcome is an UPDATE (audit.c). */
static const struct store_column audit_columns[] = {
    VALUE(audit_row, seq),      VALUE(audit_row, time_ms),    VALUE(audit_row, team_id),
    VALUE(audit_row, actor_id), VALUE(audit_row, actor_name), VALUE(audit_row, actor_type),
    VALUE(audit_row, source),   VALUE(audit_row, via),        VALUE(audit_row, session),
    VALUE(audit_row, action),   VALUE(audit_row, object),     VALUE(audit_row, parent),
};
TABLE(audit, audit_row, "a row of the audit log", audit_columns, "");

const struct store_table *const store_tables[] = {
    &table_teams,           &table_sandboxes,  &table_events,
    &table_webhooks,        &table_keys,       &table_admin_keys,
    &table_makers,          &table_usage,      &table_templates,
    &table_builds,          &table_tags,       &table_steps,
    &table_files,           &table_volumes,    &table_secrets,
    &table_secret_versions, &table_shells,     &table_sessions,
    &table_audit,           &table_build_logs, NULL,
};

/* ---- the calls ---- */

#define SAVE(function, row_type, table)                                                            \
    void function(struct store *store, const struct row_type *row, store_done *done, void *ctx)    \
    {                                                                                              \
        store_submit(store, store_job_save(&(table), row), STORE_SYNC, done, ctx);                 \
    }

#define DELETE(function, table)                                                                    \
    void function(struct store *store, const char *id, store_done *done, void *ctx)                \
    {                                                                                              \
        store_submit(store, store_job_delete(&(table), id, NULL), STORE_SYNC, done, ctx);          \
    }

/* By a key of two columns. */
#define DELETE_2(function, table, first, second)                                                   \
    void function(struct store *store, const char *(first), const char *(second),                  \
                  store_done *done, void *ctx)                                                     \
    {                                                                                              \
        store_submit(store, store_job_delete(&(table), first, second), STORE_SYNC, done, ctx);     \
    }

SAVE(store_team_save, team_row, table_teams)
LOAD(store_load_teams, team_row, table_teams)
SAVE(store_key_save, key_row, table_keys)
DELETE(store_key_delete, table_keys)
LOAD(store_load_keys, key_row, table_keys)
SAVE(store_session_save, session_row, table_sessions)
DELETE(store_session_delete, table_sessions)
LOAD(store_load_sessions, session_row, table_sessions)
SAVE(store_admin_key_save, admin_key_row, table_admin_keys)
DELETE(store_admin_key_delete, table_admin_keys)
LOAD(store_load_admin_keys, admin_key_row, table_admin_keys)

SAVE(store_webhook_save, webhook_row, table_webhooks)
DELETE(store_webhook_delete, table_webhooks)
LOAD(store_load_webhooks, webhook_row, table_webhooks)
SAVE(store_volume_save, volume_row, table_volumes)
DELETE(store_volume_delete, table_volumes)
LOAD(store_load_volumes, volume_row, table_volumes)
SAVE(store_shell_save, shell_row, table_shells)
DELETE_2(store_shell_delete, table_shells, team_id, name)
LOAD(store_load_shells, shell_row, table_shells)

SAVE(store_template_save, template_row, table_templates)
DELETE(store_template_delete, table_templates)
LOAD(store_load_templates, template_row, table_templates)
SAVE(store_build_save, build_row, table_builds)
DELETE(store_build_delete, table_builds)
LOAD(store_load_builds, build_row, table_builds)
SAVE(store_tag_save, tag_row, table_tags)
DELETE_2(store_tag_delete, table_tags, template_id, tag)
SAVE(store_step_save, step_row, table_steps)
DELETE(store_step_delete, table_steps)
LOAD(store_load_steps, step_row, table_steps)
SAVE(store_file_save, file_row, table_files)
DELETE_2(store_file_delete, table_files, team_id, hash)
LOAD(store_load_files, file_row, table_files)
DELETE(store_secret_delete, table_secrets)
