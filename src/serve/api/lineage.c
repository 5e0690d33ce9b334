/* GET /sandboxes/{id}/lineage: the tree of forks, snapshots and sandboxes made of them. A sandbox
 * that has ended is found as long as its row is kept. */
#include <errno.h>
#include <string.h>

#include "lib/base/json.h"
#include "serve/api/internal.h"

enum { LINEAGE_NODES_MAX = 1000 };

static void refuse(struct call *call)
{
    call_fail(call, 404, "Sandbox \"%.64s\" doesn't exist or you don't have access to it",
              call->param);
}

static void on_read(void *ctx, int error, const struct err *err, const char *text)
{
    struct call *call = ctx;

    if (error < 0) {
        call_fail_err(call, error, err);
        return;
    }
    json_t *nodes = json_loads(text, 0, NULL);
    bool truncated = json_array_size(nodes) > LINEAGE_NODES_MAX;
    if (json_array_size(nodes) == 0) {
        json_decref(nodes);
        refuse(call);
        return;
    }
    if (truncated) {
        (void)json_array_remove(nodes, LINEAGE_NODES_MAX);
    }
    call_json(call, 200, json_pack("{sosb}", "nodes", nodes, "truncated", truncated));
}

void handle_lineage(struct call *call, const json_t *body)
{
    char id[ID_SANDBOX_LEN + 1];
    struct str cut;

    (void)body;
    if (!sandbox_id_cut(call->param, &cut) || !str_copy(id, sizeof(id), cut)) {
        refuse(call);
        return;
    }
    store_lineage(call->api->options.store, call->team->id, id, LINEAGE_NODES_MAX + 1, on_read,
                  call);
}
