/* admin.c - the operator's tables: keys of the admin, makers of things, what teams have used. */
#include "serve/store/internal.h"

/* Hours that began longer ago are forgotten. */
static const int64_t USAGE_KEPT_MS = (int64_t)400 * 24 * 3600 * 1000;

/* ---- keys of the admin ---- */

void store_admin_key_save(struct store *store, const struct admin_key_row *row, store_done *done,
                          void *ctx)
{
    static const struct store_statement save = {
        "save admin key",
        "INSERT INTO admin_keys (id, name, hash, masked, created_ms, last_used_ms)"
        " VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET last_used_ms = excluded.last_used_ms",
    };
    struct store_job *job = store_job_new(&save);

    store_job_text(job, row->id);
    store_job_text(job, row->name);
    store_job_text(job, row->hash);
    store_job_text(job, row->masked);
    store_job_int(job, row->created_ms);
    store_job_int(job, row->last_used_ms);
    store_submit(store, job, STORE_SYNC, done, ctx);
}

void store_admin_key_delete(struct store *store, const char *id, store_done *done, void *ctx)
{
    static const struct store_statement remove = {"delete admin key",
                                                  "DELETE FROM admin_keys WHERE id = ?"};
    struct store_job *job = store_job_new(&remove);

    store_job_text(job, id);
    store_submit(store, job, STORE_SYNC, done, ctx);
}

struct load_admin_keys {
    void (*each)(void *ctx, const struct admin_key_row *row);
    void *ctx;
};

static void on_admin_key(void *ctx, sqlite3_stmt *row)
{
    const struct load_admin_keys *load = ctx;
    struct admin_key_row out = {
        .id = store_column_text(row, 0),
        .name = store_column_text(row, 1),
        .hash = store_column_text(row, 2),
        .masked = store_column_text(row, 3),
        .created_ms = sqlite3_column_int64(row, 4),
        .last_used_ms = sqlite3_column_int64(row, 5),
    };

    load->each(load->ctx, &out);
}

int store_load_admin_keys(struct store *store,
                          void (*each)(void *ctx, const struct admin_key_row *row), void *ctx,
                          struct err *err)
{
    struct load_admin_keys load = {each, ctx};

    return store_query(store,
                       "SELECT id, name, hash, masked, created_ms, last_used_ms FROM admin_keys"
                       " ORDER BY created_ms, id",
                       on_admin_key, &load, err);
}

/* ---- makers ---- */

void store_maker_save(struct store *store, const struct maker_row *row)
{
    static const struct store_statement save = {
        "save the maker of a thing",
        "INSERT INTO makers (id, key_id) VALUES (?, ?)"
        " ON CONFLICT (id) DO UPDATE SET key_id = excluded.key_id",
    };
    struct store_job *job = store_job_new(&save);

    store_job_text(job, row->id);
    store_job_text(job, row->key_id);
    store_submit(store, job, STORE_SYNC, NULL, NULL);
}

void store_maker_delete(struct store *store, const char *id)
{
    static const struct store_statement remove = {"delete the maker of a thing",
                                                  "DELETE FROM makers WHERE id = ?"};
    struct store_job *job = store_job_new(&remove);

    store_job_text(job, id);
    store_submit(store, job, STORE_LAZY, NULL, NULL);
}

static void makers_sweep(struct store *store)
{
    static const struct store_statement sweep = {
        "remove the makers of what is gone",
        "DELETE FROM makers WHERE id NOT IN (SELECT id FROM templates)"
        " AND id NOT IN (SELECT id FROM builds) AND id NOT IN (SELECT id FROM volumes)"
        " AND id NOT IN (SELECT id FROM keys)",
    };

    store_submit(store, store_job_new(&sweep), STORE_LAZY, NULL, NULL);
}

struct load_makers {
    void (*each)(void *ctx, const struct maker_row *row);
    void *ctx;
};

static void on_maker(void *ctx, sqlite3_stmt *row)
{
    const struct load_makers *load = ctx;
    struct maker_row out = {.id = store_column_text(row, 0), .key_id = store_column_text(row, 1)};

    load->each(load->ctx, &out);
}

int store_load_makers(struct store *store, void (*each)(void *ctx, const struct maker_row *row),
                      void *ctx, struct err *err)
{
    struct load_makers load = {each, ctx};

    makers_sweep(store);
    return store_query(store, "SELECT id, key_id FROM makers", on_maker, &load, err);
}

/* ---- usage ---- */

void store_usage_add(struct store *store, const struct usage_row *row, store_done *done, void *ctx)
{
    static const struct store_statement add = {
        "add to what a team has used",
        "INSERT INTO usage (team_id, hour_ms, sandbox_ms, cpu_ms, memory_mb_ms, disk_mb_ms, builds,"
        " build_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (team_id, hour_ms) DO UPDATE SET"
        " sandbox_ms = sandbox_ms + excluded.sandbox_ms, cpu_ms = cpu_ms + excluded.cpu_ms,"
        " memory_mb_ms = memory_mb_ms + excluded.memory_mb_ms,"
        " disk_mb_ms = disk_mb_ms + excluded.disk_mb_ms, builds = builds + excluded.builds,"
        " build_ms = build_ms + excluded.build_ms",
    };
    static const struct store_statement forget = {"forget what a team has used long ago",
                                                  "DELETE FROM usage WHERE hour_ms < ?"};
    struct store_job *job = store_job_new(&add);

    store_job_text(job, row->team_id);
    store_job_int(job, row->hour_ms);
    store_job_int(job, row->sandbox_ms);
    store_job_int(job, row->cpu_ms);
    store_job_int(job, row->memory_mb_ms);
    store_job_int(job, row->disk_mb_ms);
    store_job_int(job, row->builds);
    store_job_int(job, row->build_ms);
    store_job_then(job, &forget);
    store_job_int(job, row->hour_ms - USAGE_KEPT_MS);
    store_submit(store, job, STORE_LAZY, done, ctx);
}

void store_usage_list(struct store *store, const char *team_id, int64_t from_ms, int64_t to_ms,
                      store_text *done, void *ctx)
{
    static const struct store_statement list = {
        "read what a team has used",
        "SELECT json_object('hourMs', hour_ms, 'sandboxSeconds', sandbox_ms / 1000.0,"
        " 'cpuSeconds', cpu_ms / 1000.0, 'memoryMBSeconds', memory_mb_ms / 1000.0,"
        " 'diskMBSeconds', disk_mb_ms / 1000.0, 'builds', builds,"
        " 'buildSeconds', build_ms / 1000.0)"
        " FROM usage WHERE team_id = ? AND hour_ms BETWEEN ? AND ? ORDER BY hour_ms",
    };
    struct store_job *job = store_job_new(&list);

    store_job_text(job, team_id);
    store_job_int(job, from_ms);
    store_job_int(job, to_ms);
    store_read_array(store, job, done, ctx);
}
