#include "serve/store/internal.h"

void store_sandbox_save(struct store *store, const struct sandbox_row *row,
                        const struct event_row *event, enum store_durability durability,
                        store_done *done, void *ctx)
{
    struct store_job *job = store_job_save(&table_sandboxes, row);

    store_job_event(job, event);
    store_submit(store, job, durability, done, ctx);
}

static const struct store_statement settle = {
    .what = "settle what is stored",
    .sql = "DELETE FROM sandboxes WHERE 1 = 0",
};

void store_settle(struct store *store, store_done *done, void *ctx)
{
    store_submit(store, store_job_new(&settle), STORE_SETTLE, done, ctx);
}

LOAD(store_load_sandboxes, sandbox_row, table_sandboxes)
