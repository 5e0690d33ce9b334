#include <errno.h>

#include "serve/store/internal.h"

#define OF_TEAM "FROM artifacts WHERE team_id = ?1"

/* ?1 is the first of `values`, and so on. */
static const struct store_statement save = {
    .what = "save code artifact",
    .sql =
        "INSERT INTO artifacts (team_id, path, content, language, entrypoint, description, sha256,"
        " version, size, created_ms, updated_ms)"
        " SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, 1, ?8, ?9, ?9"
        " WHERE CASE WHEN EXISTS (SELECT 1 " OF_TEAM " AND path = ?2) THEN ?10 <> 0"
        " ELSE (SELECT count(*) " OF_TEAM ") < ?11 END"
        " ON CONFLICT (team_id, path) DO UPDATE SET content = excluded.content,"
        " language = excluded.language, entrypoint = excluded.entrypoint,"
        " description = excluded.description, sha256 = excluded.sha256, version = "
        "artifacts.version + "
        "1,"
        " size = excluded.size, updated_ms = excluded.updated_ms",
};

static const struct store_column values[] = {
    VALUE(artifact_row, team_id),    VALUE(artifact_row, path),
    VALUE(artifact_row, content),    VALUE(artifact_row, language),
    VALUE(artifact_row, entrypoint), VALUE(artifact_row, description),
    VALUE(artifact_row, sha256),     VALUE(artifact_row, size),
    VALUE(artifact_row, now_ms),     VALUE(artifact_row, replace),
    VALUE(artifact_row, team_max),
};

static const struct store_statement forget = {
    .what = "delete code artifact", .sql = "DELETE FROM artifacts WHERE team_id = ? AND path = ?"};

#define ABOUT                                                                                      \
    "'path', path, 'language', language, 'entrypoint', entrypoint, 'description', description,"    \
    " 'sha256', sha256, 'version', version, 'size', size, 'createdMs', created_ms,"                \
    " 'updatedMs', updated_ms"

static const struct store_statement list = {
    .what = "list code artifacts",
    .sql = "SELECT json_object(" ABOUT ") FROM artifacts WHERE team_id = ? ORDER BY path"};

static const struct store_statement one = {.what = "read code artifact",
                                           .sql = "SELECT json_object(" ABOUT
                                                  ", 'content', content) FROM artifacts"
                                                  " WHERE team_id = ? AND path = ?"};

void store_artifact_save(struct store *store, const struct artifact_row *row, store_done *done,
                         void *ctx)
{
    struct store_job *job = store_job_new(&save);

    store_job_must_change(job, EEXIST);
    store_job_fields(job, values, countof(values), row);
    store_submit(store, job, STORE_SYNC, done, ctx);
}

void store_artifact_delete(struct store *store, const char *team_id, const char *path,
                           store_done *done, void *ctx)
{
    struct store_job *job = store_job_new(&forget);

    store_job_text(job, team_id);
    store_job_text(job, path);
    store_submit(store, job, STORE_SYNC, done, ctx);
}

void store_artifacts_list(struct store *store, const char *team_id, const char *path,
                          store_text *done, void *ctx)
{
    struct store_job *job = store_job_new(path ? &one : &list);

    store_job_text(job, team_id);
    if (path) {
        store_job_text(job, path);
    }
    store_read_array(store, job, done, ctx);
}
