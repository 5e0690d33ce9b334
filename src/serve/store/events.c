#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "serve/store/internal.h"

/* Runs right after the insert of the event: last_insert_rowid() is the seq of the event. */
static const struct store_statement owe = {
    .what = "save deliveries",
    .sql = "INSERT INTO deliveries (id, webhook_id, event_seq, sandbox_id, state, created_ms)"
           " SELECT uuid(), w.id, e.seq, e.sandbox_id, 'pending', e.timestamp_ms"
           " FROM events e JOIN webhooks w ON w.team_id = e.team_id"
           " WHERE e.seq = last_insert_rowid() AND w.enabled <> 0"
           " AND instr(w.events, ',' || e.type || ',') > 0",
};

static void event_then(struct store_job *job, const struct event_row *event)
{
    store_job_then(job, &owe);
    (void)snprintf(job->event_team, sizeof(job->event_team), "%s", event->team_id);
}

void store_job_event(struct store_job *job, const struct event_row *event)
{
    store_job_then_save(job, &table_events, event);
    event_then(job, event);
}

void store_event_save(struct store *store, const struct event_row *event, store_done *done,
                      void *ctx)
{
    struct store_job *job = store_job_save(&table_events, event);

    event_then(job, event);
    store_submit(store, job, STORE_LAZY, done, ctx);
}

/* ---- reading ---- */

#define SELECT_TEAM                                                                                \
    "SELECT body FROM events WHERE team_id = ?1 AND timestamp_ms >= ?2"                            \
    " AND (?3 IS NULL OR instr(?3, ',' || type || ',') > 0)"
#define SELECT_ONE SELECT_TEAM " AND sandbox_id = ?6"
#define PAGE " LIMIT ?4 OFFSET ?5"

/* [of one sandbox][ascending]. Each walks an index and sorts nothing. */
static const struct store_statement lists[2][2] = {
    {{.what = "list events", .sql = SELECT_TEAM " ORDER BY seq DESC" PAGE},
     {.what = "list events", .sql = SELECT_TEAM " ORDER BY seq" PAGE}},
    {{.what = "list events", .sql = SELECT_ONE " ORDER BY seq DESC" PAGE},
     {.what = "list events", .sql = SELECT_ONE " ORDER BY seq" PAGE}},
};

void store_events_list(struct store *store, const struct event_query *query, store_text *done,
                       void *ctx)
{
    struct store_job *job = store_job_new(&lists[query->sandbox_id != NULL][query->ascending]);

    store_job_text(job, query->team_id);
    store_job_int(job, query->since_ms);
    store_job_text(job, query->types);
    store_job_int(job, query->limit);
    store_job_int(job, query->offset);
    if (query->sandbox_id) {
        store_job_text(job, query->sandbox_id);
    }
    store_read_array(store, job, done, ctx);
}

static const struct store_statement one = {.what = "read event",
                                           .sql = "SELECT body FROM events WHERE seq = ?"};

struct reading {
    char *body;
    store_text *done;
    void *ctx;
};

static void on_body(void *ctx, const struct store_row *row)
{
    struct reading *reading = ctx;

    reading->body = strdup(store_column_text(row, 0));
}

static void on_read(void *ctx, int error, const struct err *err)
{
    struct reading *reading = ctx;

    reading->done(reading->ctx, error, err, error == 0 ? reading->body : NULL);
    free(reading->body);
    free(reading);
}

void store_event_read(struct store *store, int64_t seq, store_text *done, void *ctx)
{
    struct store_job *job = store_job_new(&one);
    struct reading *reading = xnew(struct reading);

    *reading = (struct reading){.done = done, .ctx = ctx};
    store_job_int(job, seq);
    store_read(store, job, on_body, on_read, reading);
}

/* ---- reading on ---- */

/* Rows of other types count for the page as well: so a page costs the same whatever is wanted, and
 * its end moves on. */
#define AFTER_TEAM                                                                                 \
    "SELECT seq, CASE WHEN ?3 IS NULL OR instr(?3, ',' || type || ',') > 0 THEN body END"          \
    " FROM events WHERE team_id = ?1 AND seq > ?2"

/* [of one sandbox] */
static const struct store_statement after_it[2] = {
    {.what = "follow events", .sql = AFTER_TEAM " ORDER BY seq LIMIT ?4"},
    {.what = "follow events", .sql = AFTER_TEAM " AND sandbox_id = ?5 ORDER BY seq LIMIT ?4"},
};

/* [of a given event] */
static const struct store_statement places[2] = {
    {.what = "find the newest event",
     .sql = "SELECT ifnull(max(seq), 0), NULL FROM events WHERE team_id = ?1"},
    {.what = "find event",
     .sql = "SELECT seq, NULL FROM events WHERE team_id = ?1 AND id = ?2"
            " ORDER BY seq DESC LIMIT 1"},
};

struct page {
    struct buf lines;
    int64_t last;
    bool found, overflow;
    bool must_find;
    store_events_page *done;
    void *ctx;
};

static void page_row(void *ctx, const struct store_row *row)
{
    struct page *page = ctx;
    const char *body = store_column_text(row, 1);

    /* A row that does not fit is the first of the next page. */
    page->overflow = page->overflow || (body && buf_printf(&page->lines, "%s\n", body) < 0);
    if (!page->overflow) {
        page->last = store_column_int(row, 0);
        page->found = true;
    }
}

static void page_done(void *ctx, int error, const struct err *err)
{
    struct page *page = ctx;
    struct err own = *err;

    if (error == 0 && page->overflow && !page->found) {
        error = err_set(&own, EMSGSIZE, "an event is larger than a page");
    } else if (error == 0 && page->must_find && !page->found) {
        error = err_set(&own, ENOENT, "there is no such event");
    }
    page->done(page->ctx, error, &own, buf_str(&page->lines), page->last);
    buf_fini(&page->lines);
    free(page);
}

static struct page *page_new(int64_t after, bool must_find, store_events_page *done, void *ctx)
{
    struct page *page = xnew(struct page);

    *page = (struct page){.last = after, .must_find = must_find, .done = done, .ctx = ctx};
    buf_init(&page->lines, STORE_PAGE_BYTES_MAX);
    return page;
}

void store_events_after(struct store *store, const struct event_query *query, int64_t after,
                        store_events_page *done, void *ctx)
{
    struct store_job *job = store_job_new(&after_it[query->sandbox_id != NULL]);

    store_job_text(job, query->team_id);
    store_job_int(job, after);
    store_job_text(job, query->types);
    store_job_int(job, STORE_EVENTS_PAGE);
    if (query->sandbox_id) {
        store_job_text(job, query->sandbox_id);
    }
    store_read(store, job, page_row, page_done, page_new(after, false, done, ctx));
}

void store_events_place(struct store *store, const char *team_id, const char *event_id,
                        store_events_page *done, void *ctx)
{
    struct store_job *job = store_job_new(&places[event_id != NULL]);

    store_job_text(job, team_id);
    if (event_id) {
        store_job_text(job, event_id);
    }
    store_read(store, job, page_row, page_done, page_new(0, event_id != NULL, done, ctx));
}
