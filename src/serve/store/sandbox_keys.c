#include "serve/store/internal.h"

/* Stores nothing for a sandbox that was killed meanwhile. */
static const struct store_statement save = {
    .what = "save what a sandbox was given",
    .sql =
        "INSERT INTO sandbox_keys (sandbox_id, sealed_for, team_id, given_ms, sealed)"
        " SELECT id, id, team_id, created_ms, ?2 FROM sandboxes WHERE id = ?1 AND state <> 'killed'"
        " ON CONFLICT (sandbox_id, sealed_for) DO UPDATE SET sealed = excluded.sealed",
};

static const struct store_statement list = {
    .what = "read what sandboxes were given",
    .sql = "SELECT json_object('sealedFor', sealed_for, 'sealed', sealed) FROM sandbox_keys"
           " WHERE team_id = ?1 AND (?2 IS NULL OR sandbox_id = ?2)"
           " GROUP BY sealed_for ORDER BY given_ms",
    "SELECT json_build_object('sealedFor', sealed_for, 'sealed', sealed) FROM"
    " (SELECT DISTINCT ON (sealed_for) sealed_for, sealed, given_ms FROM sandbox_keys"
    "  WHERE team_id = $1 AND ($2 IS NULL OR sandbox_id = $2) ORDER BY sealed_for) AS once"
    " ORDER BY given_ms",
};

void store_sandbox_keys_save(struct store *store, const char *sandbox_id, const char *sealed,
                             store_done *done, void *ctx)
{
    struct store_job *job = store_job_new(&save);

    store_job_text(job, sandbox_id);
    store_job_text(job, sealed);
    store_submit(store, job, STORE_LAZY, done, ctx);
}

void store_sandbox_keys_list(struct store *store, const char *team_id, const char *sandbox_id,
                             store_text *done, void *ctx)
{
    struct store_job *job = store_job_new(&list);

    store_job_text(job, team_id);
    store_job_text(job, sandbox_id);
    store_read_array(store, job, done, ctx);
}
