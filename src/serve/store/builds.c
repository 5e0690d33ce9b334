/* builds.c - templates as they are built: builds, their logs, tags, cached steps, uploaded files.
 */
#include "serve/store/internal.h"

/* ---- builds ---- */

#define BUILD_COLUMNS                                                                              \
    "id, template_id, state, tags, reason, created_ms, started_ms, finished_ms, cpu_count,"        \
    " memory_mb, disk_mb, layers, user, workdir, env_json, start_cmd, ready_cmd, saved, bytes,"    \
    " saved_bytes, start_context, snapshot_of"
#define BUILD_N 22

static const struct store_statement save = {
    "save build",
    "INSERT INTO builds (" BUILD_COLUMNS ")"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (id) DO UPDATE SET state = excluded.state, tags = excluded.tags,"
    " reason = excluded.reason, started_ms = excluded.started_ms,"
    " finished_ms = excluded.finished_ms, cpu_count = excluded.cpu_count,"
    " memory_mb = excluded.memory_mb, disk_mb = excluded.disk_mb, layers = excluded.layers,"
    " user = excluded.user, workdir = excluded.workdir, env_json = excluded.env_json,"
    " start_cmd = excluded.start_cmd, ready_cmd = excluded.ready_cmd, saved = excluded.saved,"
    " bytes = excluded.bytes, saved_bytes = excluded.saved_bytes,"
    " start_context = excluded.start_context",
};

void store_build_save(struct store *store, const struct build_row *row, store_done *done, void *ctx)
{
    struct store_job *job = store_job_new(&save);

    store_job_text(job, row->id);
    store_job_text(job, row->template_id);
    store_job_text(job, row->state);
    store_job_text(job, row->tags);
    store_job_text(job, row->reason);
    store_job_int(job, row->created_ms);
    store_job_int(job, row->started_ms);
    store_job_int(job, row->finished_ms);
    store_job_int(job, row->cpu_count);
    store_job_int(job, row->memory_mb);
    store_job_int(job, row->disk_mb);
    store_job_text(job, row->layers);
    store_job_text(job, row->user);
    store_job_text(job, row->workdir);
    store_job_text(job, row->env_json);
    store_job_text(job, row->start_cmd);
    store_job_text(job, row->ready_cmd);
    store_job_text(job, row->saved);
    store_job_int(job, (int64_t)row->bytes);
    store_job_int(job, (int64_t)row->saved_bytes);
    store_job_text(job, row->start_context);
    store_job_text(job, row->snapshot_of);
    store_submit(store, job, STORE_SYNC, done, ctx);
}

void store_build_delete(struct store *store, const char *id, store_done *done, void *ctx)
{
    static const struct store_statement remove = {"delete build",
                                                  "DELETE FROM builds WHERE id = ?"};
    struct store_job *job = store_job_new(&remove);

    store_job_text(job, id);
    store_submit(store, job, STORE_SYNC, done, ctx);
}

static struct build_row build_of(sqlite3_stmt *row)
{
    return (struct build_row){
        .id = store_column_text(row, 0),
        .template_id = store_column_text(row, 1),
        .state = store_column_text(row, 2),
        .tags = store_column_text(row, 3),
        .reason = store_column_text(row, 4),
        .created_ms = sqlite3_column_int64(row, 5),
        .started_ms = sqlite3_column_int64(row, 6),
        .finished_ms = sqlite3_column_int64(row, 7),
        .cpu_count = (uint32_t)sqlite3_column_int64(row, 8),
        .memory_mb = (uint32_t)sqlite3_column_int64(row, 9),
        .disk_mb = (uint32_t)sqlite3_column_int64(row, 10),
        .layers = store_column_text(row, 11),
        .user = store_column_text(row, 12),
        .workdir = store_column_text(row, 13),
        .env_json = store_column_text(row, 14),
        .start_cmd = store_column_text(row, 15),
        .ready_cmd = store_column_text(row, 16),
        .saved = store_column_text(row, 17),
        .bytes = (uint64_t)sqlite3_column_int64(row, 18),
        .saved_bytes = (uint64_t)sqlite3_column_int64(row, 19),
        .start_context = store_column_text(row, 20),
        .snapshot_of = store_column_text(row, 21),
    };
}

struct load_builds {
    void (*each)(void *ctx, const struct build_row *row);
    void *ctx;
};

static void on_build(void *ctx, sqlite3_stmt *row)
{
    const struct load_builds *load = ctx;
    struct build_row out = build_of(row);

    load->each(load->ctx, &out);
}

int store_load_builds(struct store *store, void (*each)(void *ctx, const struct build_row *row),
                      void *ctx, struct err *err)
{
    struct load_builds load = {each, ctx};

    return store_query(store, "SELECT " BUILD_COLUMNS " FROM builds ORDER BY created_ms, id",
                       on_build, &load, err);
}

/* ---- logs ---- */

void store_build_log(struct store *store, const char *build_id, int level, const char *entry)
{
    static const struct store_statement insert = {
        "save a line of a build's log",
        "INSERT INTO build_logs (build_id, level, entry) VALUES (?, ?, ?)"};
    struct store_job *job = store_job_new(&insert);

    store_job_text(job, build_id);
    store_job_int(job, level);
    store_job_text(job, entry);
    store_submit(store, job, STORE_LAZY, NULL, NULL);
}

void store_build_logs_list(struct store *store, const struct build_log_query *query,
                           store_text *done, void *ctx)
{
    static const struct store_statement forward = {
        "read a build's log", "SELECT entry FROM build_logs WHERE build_id = ? AND level >= ?"
                              " ORDER BY seq LIMIT ? OFFSET ?"};
    static const struct store_statement backward = {
        "read a build's log", "SELECT entry FROM build_logs WHERE build_id = ? AND level >= ?"
                              " ORDER BY seq DESC LIMIT ? OFFSET ?"};
    struct store_job *job = store_job_new(query->backward ? &backward : &forward);

    store_job_text(job, query->build_id);
    store_job_int(job, query->level);
    store_job_int(job, query->limit);
    store_job_int(job, query->offset);
    store_read_array(store, job, done, ctx);
}

/* ---- tags ---- */

void store_tag_save(struct store *store, const struct tag_row *row, store_done *done, void *ctx)
{
    static const struct store_statement put = {
        "save tag", "INSERT INTO tags (template_id, tag, build_id, created_ms) VALUES (?, ?, ?, ?)"
                    " ON CONFLICT (template_id, tag) DO UPDATE SET build_id = excluded.build_id,"
                    " created_ms = excluded.created_ms"};
    struct store_job *job = store_job_new(&put);

    store_job_text(job, row->template_id);
    store_job_text(job, row->tag);
    store_job_text(job, row->build_id);
    store_job_int(job, row->created_ms);
    store_submit(store, job, STORE_SYNC, done, ctx);
}

void store_tag_delete(struct store *store, const char *template_id, const char *tag,
                      store_done *done, void *ctx)
{
    static const struct store_statement remove = {
        "delete tag", "DELETE FROM tags WHERE template_id = ? AND tag = ?"};
    struct store_job *job = store_job_new(&remove);

    store_job_text(job, template_id);
    store_job_text(job, tag);
    store_submit(store, job, STORE_SYNC, done, ctx);
}

void store_tag_assignments(struct store *store, const char *template_id, store_text *done,
                           void *ctx)
{
    static const struct store_statement list = {
        "list what tags have named",
        "SELECT json_object('tag', a.tag, 'assignmentId', a.id, 'buildId', a.build_id,"
        " 'assignedMs', a.created_ms, 'buildCreatedMs', b.created_ms,"
        " 'buildFinishedMs', b.finished_ms)"
        " FROM tag_assignments AS a JOIN builds AS b ON b.id = a.build_id"
        " WHERE a.template_id = ? AND b.state = 'ready' ORDER BY a.seq DESC"};
    struct store_job *job = store_job_new(&list);

    store_job_text(job, template_id);
    store_read_array(store, job, done, ctx);
}

struct load_tags {
    void (*each)(void *ctx, const struct tag_row *tag, const struct build_row *build);
    void *ctx;
};

static void on_tag(void *ctx, sqlite3_stmt *row)
{
    const struct load_tags *load = ctx;
    struct build_row build = build_of(row);
    struct tag_row tag = {
        .template_id = build.template_id,
        .tag = store_column_text(row, BUILD_N),
        .build_id = build.id,
        .created_ms = sqlite3_column_int64(row, BUILD_N + 1),
    };

    load->each(load->ctx, &tag, &build);
}

int store_load_tags(struct store *store,
                    void (*each)(void *ctx, const struct tag_row *tag,
                                 const struct build_row *build),
                    void *ctx, struct err *err)
{
    struct load_tags load = {each, ctx};

    return store_query(store,
                       "SELECT b.*, tag, tagged_ms FROM (SELECT " BUILD_COLUMNS " FROM builds) b"
                       " JOIN (SELECT build_id, tag, created_ms AS tagged_ms FROM tags) t"
                       " ON t.build_id = b.id ORDER BY tagged_ms, tag",
                       on_tag, &load, err);
}

/* ---- cached steps ---- */

#define STEP_COLUMNS "key, team_id, saved, user, workdir, env_json, bytes, created_ms, used_ms"

void store_step_save(struct store *store, const struct step_row *row, store_done *done, void *ctx)
{
    static const struct store_statement put = {
        "save step", "INSERT INTO steps (" STEP_COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
                     " ON CONFLICT (key) DO UPDATE SET saved = excluded.saved,"
                     " user = excluded.user, workdir = excluded.workdir,"
                     " env_json = excluded.env_json, bytes = excluded.bytes,"
                     " created_ms = excluded.created_ms, used_ms = excluded.used_ms"};
    struct store_job *job = store_job_new(&put);

    store_job_text(job, row->key);
    store_job_text(job, row->team_id);
    store_job_text(job, row->saved);
    store_job_text(job, row->user);
    store_job_text(job, row->workdir);
    store_job_text(job, row->env_json);
    store_job_int(job, (int64_t)row->bytes);
    store_job_int(job, row->created_ms);
    store_job_int(job, row->used_ms);
    store_submit(store, job, STORE_SYNC, done, ctx);
}

void store_step_delete(struct store *store, const char *key, store_done *done, void *ctx)
{
    static const struct store_statement remove = {"delete step", "DELETE FROM steps WHERE key = ?"};
    struct store_job *job = store_job_new(&remove);

    store_job_text(job, key);
    store_submit(store, job, STORE_SYNC, done, ctx);
}

struct load_steps {
    void (*each)(void *ctx, const struct step_row *row);
    void *ctx;
};

static void on_step(void *ctx, sqlite3_stmt *row)
{
    const struct load_steps *load = ctx;
    struct step_row out = {
        .key = store_column_text(row, 0),
        .team_id = store_column_text(row, 1),
        .saved = store_column_text(row, 2),
        .user = store_column_text(row, 3),
        .workdir = store_column_text(row, 4),
        .env_json = store_column_text(row, 5),
        .bytes = (uint64_t)sqlite3_column_int64(row, 6),
        .created_ms = sqlite3_column_int64(row, 7),
        .used_ms = sqlite3_column_int64(row, 8),
    };

    load->each(load->ctx, &out);
}

int store_load_steps(struct store *store, void (*each)(void *ctx, const struct step_row *row),
                     void *ctx, struct err *err)
{
    struct load_steps load = {each, ctx};

    return store_query(store, "SELECT " STEP_COLUMNS " FROM steps ORDER BY created_ms, key",
                       on_step, &load, err);
}

/* ---- uploaded files ---- */

#define FILE_COLUMNS "team_id, hash, sha256, bytes, created_ms, used_ms"

void store_file_save(struct store *store, const struct file_row *row, store_done *done, void *ctx)
{
    static const struct store_statement put = {
        "save uploaded files", "INSERT INTO files (" FILE_COLUMNS ") VALUES (?, ?, ?, ?, ?, ?)"
                               " ON CONFLICT (team_id, hash) DO UPDATE SET"
                               " sha256 = excluded.sha256, bytes = excluded.bytes,"
                               " created_ms = excluded.created_ms, used_ms = excluded.used_ms"};
    struct store_job *job = store_job_new(&put);

    store_job_text(job, row->team_id);
    store_job_text(job, row->hash);
    store_job_text(job, row->sha256);
    store_job_int(job, (int64_t)row->bytes);
    store_job_int(job, row->created_ms);
    store_job_int(job, row->used_ms);
    store_submit(store, job, STORE_SYNC, done, ctx);
}

void store_file_delete(struct store *store, const char *team_id, const char *hash, store_done *done,
                       void *ctx)
{
    static const struct store_statement remove = {
        "delete uploaded files", "DELETE FROM files WHERE team_id = ? AND hash = ?"};
    struct store_job *job = store_job_new(&remove);

    store_job_text(job, team_id);
    store_job_text(job, hash);
    store_submit(store, job, STORE_SYNC, done, ctx);
}

struct load_files {
    void (*each)(void *ctx, const struct file_row *row);
    void *ctx;
};

static void on_file(void *ctx, sqlite3_stmt *row)
{
    const struct load_files *load = ctx;
    struct file_row out = {
        .team_id = store_column_text(row, 0),
        .hash = store_column_text(row, 1),
        .sha256 = store_column_text(row, 2),
        .bytes = (uint64_t)sqlite3_column_int64(row, 3),
        .created_ms = sqlite3_column_int64(row, 4),
        .used_ms = sqlite3_column_int64(row, 5),
    };

    load->each(load->ctx, &out);
}

int store_load_files(struct store *store, void (*each)(void *ctx, const struct file_row *row),
                     void *ctx, struct err *err)
{
    struct load_files load = {each, ctx};

    return store_query(store, "SELECT " FILE_COLUMNS " FROM files ORDER BY created_ms, hash",
                       on_file, &load, err);
}
