/* builds.c - the logs of builds, and the tags of templates with the builds that they name. */
#include <stdlib.h>

#include "serve/store/internal.h"

/* ---- logs ---- */

void store_build_log_save(struct store *store, const struct build_log_row *row, store_done *done,
                          void *ctx)
{
    store_submit(store, store_job_save(&table_build_logs, row), STORE_LAZY, done, ctx);
}

void store_build_logs_list(struct store *store, const struct build_log_query *query,
                           store_text *done, void *ctx)
{
    static const struct store_statement forward = {
        .what = "read a build's log",
        .sql = "SELECT entry FROM build_logs WHERE build_id = ? AND level >= ?"
               " ORDER BY seq LIMIT ? OFFSET ?"};
    static const struct store_statement backward = {
        .what = "read a build's log",
        .sql = "SELECT entry FROM build_logs WHERE build_id = ? AND level >= ?"
               " ORDER BY seq DESC LIMIT ? OFFSET ?"};
    struct store_job *job = store_job_new(query->backward ? &backward : &forward);

    store_job_text(job, query->build_id);
    store_job_int(job, query->level);
    store_job_int(job, query->limit);
    store_job_int(job, query->offset);
    store_read_array(store, job, done, ctx);
}

/* ---- tags ---- */

void store_tag_assignments(struct store *store, const char *template_id, store_text *done,
                           void *ctx)
{
    static const struct store_statement list = {
        .what = "list what tags have named",
        .sql = "SELECT json_object('tag', a.tag, 'assignmentId', a.id, 'buildId', a.build_id,"
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

static void on_tag(void *ctx, const struct store_row *row)
{
    const struct load_tags *load = ctx;
    struct build_row build;
    struct tag_row tag;
    size_t n = table_builds.columns_n;

    (void)store_row_read(row, 0, table_builds.columns, n, &build);
    (void)store_row_read(row, (int)n, table_tags.columns, table_tags.columns_n, &tag);
    load->each(load->ctx, &tag, &build);
}

int store_load_tags(struct store *store,
                    void (*each)(void *ctx, const struct tag_row *tag,
                                 const struct build_row *build),
                    void *ctx, struct err *err)
{
    struct load_tags load = {each, ctx};
    scoped_buf(builds, STORE_SQL_BYTES_MAX);
    scoped_buf(tags, STORE_SQL_BYTES_MAX);
    scoped_buf(sql, STORE_SQL_BYTES_MAX);

    table_sql_columns(&table_builds, "b.", &builds);
    table_sql_columns(&table_tags, "t.", &tags);
    if (buf_printf(&sql,
                   "SELECT %s, %s FROM tags t JOIN builds b ON b.id = t.build_id"
                   " ORDER BY t.created_ms, t.tag",
                   buf_at(&builds), buf_at(&tags)) < 0) {
        abort(); /* it fits */
    }
    return store_query(store, &(struct store_statement){.what = "read tags", .sql = buf_at(&sql)},
                       on_tag, &load, err);
}
