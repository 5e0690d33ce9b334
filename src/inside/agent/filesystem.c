/* filesystem.c - filesystem.Filesystem: each call is one operation in the thread pool. Watches,
 * which outlive a call, are in watch_rpc.c. */
#include <assert.h>
#include <stdlib.h>

#include "inside/agent/call.h"
#include "inside/agent/filesystem_ops.h"
#include "inside/agent/journal.h"
#include "inside/agent/watch_rpc.h"
#include "lib/base/alloc.h"

/* A call under way. The pool's thread owns it between start and done; `rpc` is the loop's alone. */
struct op {
    uv_work_t work;
    struct rpc_call *rpc; /* NULL: the client has left */
    enum rpc_code (*run)(struct op *op);
    void (*reply)(struct op *op);
    const char *event; /* its name in the journal; reads are logged at debug */

    char path[AGENT_PATH_BYTES];
    char destination[AGENT_PATH_BYTES];
    uint32_t depth;
    bool reduced; /* the client fails on fields of EntryInfo that it does not know */
    struct fs_owner owner;

    struct arena arena;
    Filesystem__EntryInfo *entry;
    Filesystem__EntryInfo **entries;
    size_t entries_n;
    enum rpc_code code;
    struct err err;
};

static void op_free(struct op *op)
{
    arena_fini(&op->arena);
    free(op);
}

static enum rpc_code stat_run(struct op *op);
static enum rpc_code list_run(struct op *op);

static void op_run(uv_work_t *work)
{
    struct op *op = container_of(work, struct op, work);

    op->code = op->run(op);
}

static void op_tell(const struct op *op)
{
    bool reads = op->run == stat_run || op->run == list_run;
    json_t *fields = json_object();

    journal_text(fields, "path", str_of(op->path));
    if (op->destination[0]) {
        journal_text(fields, "destination", str_of(op->destination));
    }
    journal_write(reads ? LOG_DEBUG : LOG_INFO, "filesystem", op->event, fields, "%s %s", op->event,
                  op->path);
}

static void op_reduce(struct op *op)
{
    if (op->entry) {
        entry_reduce(op->entry);
    }
    for (size_t i = 0; i < op->entries_n; i++) {
        entry_reduce(op->entries[i]);
    }
}

static void op_done(uv_work_t *work, int status)
{
    struct op *op = container_of(work, struct op, work);

    assert(status == 0); /* nobody cancels */
    if (op->code == RPC_OK) {
        op_tell(op);
    }
    if (op->code == RPC_OK && op->reduced) {
        op_reduce(op);
    }
    if (op->rpc && op->code == RPC_OK) {
        op->reply(op);
    } else if (op->rpc) {
        call_fail(op->rpc, op->code, &op->err);
    }
    op_free(op);
}

static void op_gone(void *ctx)
{
    struct op *op = ctx;

    op->rpc = NULL;
}

/* Only Python SDKs up to 1.7 send this name. SDKs up to 1.5.2 refuse an answer with a field that
 * they do not know, and none of them reads more than the first three fields. */
static bool is_strict_client(const struct rpc_call *call)
{
    return str_eq(http_header_get(rpc_request(call), "user-agent"), STR("connect-python"));
}

/* Takes a call whose path is `path`. NULL when it has been refused. */
static struct op *op_new(struct agent *agent, struct rpc_call *call, const char *path,
                         const char *destination)
{
    struct op *op = xnew(struct op);
    struct user *user = xnew(struct user);

    op->rpc = call;
    op->reduced = is_strict_client(call);
    op->arena = ARENA(FS_LISTING_BYTES_MAX);
    enum rpc_code code = call_path(agent, call, path, user, op->path, &op->err);
    if (code == RPC_OK && destination &&
        user_path(agent, user, str_of(destination), op->destination, &op->err) < 0) {
        code = RPC_INVALID_ARGUMENT;
    }
    op->owner = (struct fs_owner){user->uid, user->gid};
    free(user);
    if (code != RPC_OK) {
        call_fail(call, code, &op->err);
        op_free(op);
        return NULL;
    }
    return op;
}

static void op_start(struct agent *agent, struct op *op, const char *event,
                     enum rpc_code (*run)(struct op *op), void (*reply)(struct op *op))
{
    static const struct rpc_watch watch = {.gone = op_gone};

    op->event = event;
    op->run = run;
    op->reply = reply;
    rpc_watch(op->rpc, &watch, op);
    if (uv_queue_work(agent->loop, &op->work, op_run, op_done) < 0) {
        abort(); /* only without a callback */
    }
}

static enum rpc_code stat_run(struct op *op)
{
    return fs_stat(&op->arena, op->path, &op->entry, &op->err);
}

static void stat_reply(struct op *op)
{
    Filesystem__StatResponse response = FILESYSTEM__STAT_RESPONSE__INIT;

    response.entry = op->entry;
    rpc_reply(op->rpc, &response.base);
}

static void stat_handle(void *ctx, struct rpc_call *call, const ProtobufCMessage *message)
{
    const Filesystem__StatRequest *request = (const Filesystem__StatRequest *)message;
    struct op *op = op_new(ctx, call, request->path, NULL);

    if (op) {
        op_start(ctx, op, "stat", stat_run, stat_reply);
    }
}

static enum rpc_code list_run(struct op *op)
{
    return fs_list(&op->arena, op->path, op->depth, &op->entries, &op->entries_n, &op->err);
}

static void list_reply(struct op *op)
{
    Filesystem__ListDirResponse response = FILESYSTEM__LIST_DIR_RESPONSE__INIT;

    response.entries = op->entries;
    response.n_entries = op->entries_n;
    rpc_reply(op->rpc, &response.base);
}

static void list_handle(void *ctx, struct rpc_call *call, const ProtobufCMessage *message)
{
    const Filesystem__ListDirRequest *request = (const Filesystem__ListDirRequest *)message;
    struct op *op = op_new(ctx, call, request->path, NULL);

    if (op) {
        op->depth = request->depth;
        op_start(ctx, op, "list_dir", list_run, list_reply);
    }
}

static enum rpc_code make_run(struct op *op)
{
    return fs_make_dir(&op->arena, op->path, op->owner, &op->entry, &op->err);
}

static void make_reply(struct op *op)
{
    Filesystem__MakeDirResponse response = FILESYSTEM__MAKE_DIR_RESPONSE__INIT;

    response.entry = op->entry;
    rpc_reply(op->rpc, &response.base);
}

static void make_handle(void *ctx, struct rpc_call *call, const ProtobufCMessage *message)
{
    const Filesystem__MakeDirRequest *request = (const Filesystem__MakeDirRequest *)message;
    struct op *op = op_new(ctx, call, request->path, NULL);

    if (op) {
        op_start(ctx, op, "make_dir", make_run, make_reply);
    }
}

static enum rpc_code move_run(struct op *op)
{
    return fs_move(&op->arena, op->path, op->destination, op->owner, &op->entry, &op->err);
}

static void move_reply(struct op *op)
{
    Filesystem__MoveResponse response = FILESYSTEM__MOVE_RESPONSE__INIT;

    response.entry = op->entry;
    rpc_reply(op->rpc, &response.base);
}

static void move_handle(void *ctx, struct rpc_call *call, const ProtobufCMessage *message)
{
    const Filesystem__MoveRequest *request = (const Filesystem__MoveRequest *)message;
    struct op *op = op_new(ctx, call, request->source, request->destination);

    if (op) {
        op_start(ctx, op, "move", move_run, move_reply);
    }
}

static enum rpc_code remove_run(struct op *op)
{
    return fs_remove(op->path, &op->err);
}

static void remove_reply(struct op *op)
{
    Filesystem__RemoveResponse response = FILESYSTEM__REMOVE_RESPONSE__INIT;

    rpc_reply(op->rpc, &response.base);
}

static void remove_handle(void *ctx, struct rpc_call *call, const ProtobufCMessage *message)
{
    const Filesystem__RemoveRequest *request = (const Filesystem__RemoveRequest *)message;
    struct op *op = op_new(ctx, call, request->path, NULL);

    if (op) {
        op_start(ctx, op, "remove", remove_run, remove_reply);
    }
}

#define METHOD(name, kind, type, handle)                                                           \
    {                                                                                              \
        "/filesystem.Filesystem/" name, kind, &filesystem__##type##_request__descriptor,           \
            &filesystem__##type##_response__descriptor, handle                                     \
    }

bool filesystem_handle(struct agent *agent, struct http_exchange *ex)
{
    static const struct rpc_method methods[] = {
        METHOD("Stat", RPC_UNARY, stat, stat_handle),
        METHOD("ListDir", RPC_UNARY, list_dir, list_handle),
        METHOD("MakeDir", RPC_UNARY, make_dir, make_handle),
        METHOD("Move", RPC_UNARY, move, move_handle),
        METHOD("Remove", RPC_UNARY, remove, remove_handle),
        METHOD("WatchDir", RPC_SERVER_STREAM, watch_dir, watch_dir_handle),
        METHOD("CreateWatcher", RPC_UNARY, create_watcher, create_watcher_handle),
        METHOD("GetWatcherEvents", RPC_UNARY, get_watcher_events, get_watcher_events_handle),
        METHOD("RemoveWatcher", RPC_UNARY, remove_watcher, remove_watcher_handle),
    };

    return rpc_handle(methods, countof(methods), agent, ex);
}
