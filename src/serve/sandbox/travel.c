/* travel.c - a save as a file that another machine can start, and back.
 *
 * The keeper makes and reads the file (docs/internals/travel.md). The daemon adds a description of
 * the snapshot, which comes back at an import: it holds what the row of a snapshot has.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/json.h"
#include "lib/base/log.h"
#include "serve/keeper/travel.h"
#include "serve/sandbox/internal.h"

enum { CPUS_MAX = KEEPER_CPU_MILLIS_MAX / 1000 };

struct traveller {
    struct sandboxes *all; /* counted */
    const struct traveller_handler *handler;
    void *ctx;
    bool dropped;                    /* it waits for the keeper or the store alone */
    bool waits;                      /* for one of these */
    struct keeper_travel_link *link; /* NULL: not yet, or no more */
    bool reads;
    json_t *meta;                  /* of an export: to be sent; of an import: came */
    char held[KEEPER_SAVED_BYTES]; /* the save that an export reads */

    bool imports;
    char *team_id, *alias, *tag;
    char template_id[ID_TEMPLATE_LEN + 1];
    char *replaced; /* the save of the snapshot whose tag it takes; NULL: none */
    char saved[KEEPER_SAVED_BYTES];
    uint64_t bytes;
};

static void traveller_free(struct traveller *traveller)
{
    struct sandboxes *all = traveller->all;

    keeper_travel_link_free(traveller->link);
    if (traveller->held[0]) {
        saved_release(all, traveller->held);
    }
    json_decref(traveller->meta);
    free(traveller->team_id);
    free(traveller->alias);
    free(traveller->tag);
    free(traveller->replaced);
    free(traveller);
    sandboxes_release(all);
}

/* The error of a file that the keeper refuses is the client's. */
static int error_of(int status)
{
    switch (-status) {
    case EBADMSG:
    case EKEYREJECTED:
    case EPROTONOSUPPORT:
        return -EINVAL;
    case EFBIG:
        return -EMSGSIZE;
    case ECONNRESET:
    case ENOTCONN:
        return -EAGAIN;
    default:
        return status;
    }
}

static void finish(struct traveller *traveller, int error, const struct err *err,
                   const struct sandbox_snapshot *made)
{
    if (!traveller->dropped) {
        traveller->handler->end(traveller->ctx, error, err, made);
    }
    traveller_free(traveller);
}

/* ---- the description ---- */

static void text_add(json_t *meta, const char *name, const char *text)
{
    if (text) {
        (void)json_object_set_new(meta, name, json_string(text));
    }
}

static void object_add(json_t *meta, const char *name, const char *text)
{
    json_t *object = text ? json_loads(text, 0, NULL) : NULL;

    if (object) {
        (void)json_object_set_new(meta, name, object);
    }
}

static json_t *template_meta(const struct template *t)
{
    json_t *meta = json_pack("{s:i, s:i, s:i, s:I}", "cpuCount", (int)t->cpu_count, "memoryMB",
                             (int)t->memory_mb, "diskMB", (int)t->disk_mb, "createdMs",
                             (json_int_t)t->created_ms);

    text_add(meta, "layers", t->layers);
    text_add(meta, "user", t->user);
    text_add(meta, "workdir", t->workdir);
    text_add(meta, "snapshotOf", t->snapshot_of);
    text_add(meta, "startCmd", t->start_cmd);
    text_add(meta, "readyCmd", t->ready_cmd);
    object_add(meta, "env", t->env_json);
    object_add(meta, "startContext", t->start_context);
    return meta;
}

/* As a snapshot of it would be (snapshot.c). */
static json_t *sandbox_meta(const struct sandbox *sb)
{
    json_t *meta = json_pack("{s:i, s:i, s:i, s:I}", "cpuCount", (int)sb->cpu_count, "memoryMB",
                             (int)sb->memory_mb, "diskMB", (int)sb->disk_mb, "createdMs",
                             (json_int_t)clock_wall_ms());
    static const char *const from_init[][2] = {
        {"defaultUser", "user"}, {"defaultWorkdir", "workdir"}, {"envVars", "env"}};
    static const char *const from_options[] = {"startCmd", "readyCmd", "startContext"};

    text_add(meta, "layers", sb->layers);
    text_add(meta, "snapshotOf", sb->id);
    for (size_t i = 0; i < countof(from_init); i++) {
        json_t *value = json_object_get(sb->init, from_init[i][0]);
        if (value) {
            (void)json_object_set(meta, from_init[i][1], value);
        }
    }
    for (size_t i = 0; i < countof(from_options); i++) {
        json_t *value = json_object_get(sb->options, from_options[i]);
        if (value) {
            (void)json_object_set(meta, from_options[i], value);
        }
    }
    return meta;
}

static bool number_read(const json_t *meta, const char *name, int64_t min, int64_t max,
                        uint32_t *out)
{
    const json_t *value = json_object_get(meta, name);

    *out = (uint32_t)json_integer_value(value);
    return json_is_integer(value) && json_integer_value(value) >= min &&
           json_integer_value(value) <= max;
}

static bool object_read(const json_t *meta, const char *name, char **out)
{
    const json_t *value = json_object_get(meta, name);

    *out = json_is_object(value) ? json_dumps(value, JSON_COMPACT) : NULL;
    return !value || *out;
}

/* Members that are texts, or not there. */
static bool texts_ok(const json_t *meta)
{
    static const char *const names[] = {"layers",     "user",     "workdir",
                                        "snapshotOf", "startCmd", "readyCmd"};

    for (size_t i = 0; i < countof(names); i++) {
        const json_t *value = json_object_get(meta, names[i]);
        if (value && !json_is_string(value)) {
            return false;
        }
    }
    return true;
}

static bool env_ok(const json_t *meta)
{
    const char *name = NULL;
    json_t *value = NULL, *env = json_object_get(meta, "env");

    json_object_foreach (env, name, value) {
        if (!json_is_string(value)) {
            return false;
        }
    }
    return true;
}

static char *text_of(const json_t *meta, const char *name)
{
    return (char *)(uintptr_t)json_string_value(json_object_get(meta, name)); /* is copied */
}

/* Texts borrow from meta, *env and *start_context are the caller's. */
static int meta_read(const json_t *meta, struct template *out, struct err *err)
{
    static char user[] = "user", none[] = "";
    const bool ok =
        json_is_object(meta) && texts_ok(meta) && env_ok(meta) &&
        number_read(meta, "cpuCount", 1, CPUS_MAX, &out->cpu_count) &&
        number_read(meta, "memoryMB", KEEPER_MEMORY_MB_MIN, KEEPER_MEMORY_MB_MAX,
                    &out->memory_mb) &&
        number_read(meta, "diskMB", KEEPER_DISK_MB_MIN, KEEPER_DISK_MB_MAX, &out->disk_mb) &&
        object_read(meta, "env", &out->env_json) &&
        object_read(meta, "startContext", &out->start_context) && text_of(meta, "layers") &&
        text_of(meta, "snapshotOf");

    if (!ok) {
        return err_set(err, EBADMSG, "the file does not describe a snapshot");
    }
    out->layers = text_of(meta, "layers");
    out->snapshot_of = text_of(meta, "snapshotOf");
    out->user = text_of(meta, "user") ? text_of(meta, "user") : user;
    out->workdir = text_of(meta, "workdir") ? text_of(meta, "workdir") : none;
    out->start_cmd = text_of(meta, "startCmd");
    out->ready_cmd = text_of(meta, "readyCmd");
    return 0;
}

/* ---- the end of an import ---- */

static void on_recorded(void *ctx, int error, const struct err *err)
{
    struct traveller *traveller = ctx;
    struct sandboxes *all = traveller->all;
    struct build_row build = {0};
    const struct sandbox_snapshot made = {.template_id = traveller->template_id,
                                          .alias = traveller->alias,
                                          .tag = traveller->tag,
                                          .build = &build,
                                          .bytes = traveller->bytes};

    if (error < 0) {
        saved_forget(all, traveller->saved);
        finish(traveller, error, err, NULL);
        return;
    }
    build = template_snapshot_build(
        templates_tagged(all->use.templates, traveller->template_id, traveller->tag),
        traveller->tag);
    if (traveller->replaced) {
        sandboxes_forget_saved(all, traveller->replaced);
    }
    log_info("snapshot %s was imported", traveller->template_id);
    finish(traveller, 0, err, &made);
}

static void import_record(struct traveller *traveller, const struct travel_end *end)
{
    struct template made = {0};
    char build_id[ID_UUID_LEN + 1], none[] = "{}";
    struct err err = {0};
    int r = meta_read(traveller->meta, &made, &err);

    (void)str_copy(traveller->saved, sizeof(traveller->saved), str_of(end->name));
    traveller->bytes = end->memory_bytes + end->disk_bytes;
    if (r < 0 || traveller->dropped) {
        saved_forget(traveller->all, traveller->saved);
        finish(traveller, error_of(r), &err, NULL);
    } else {
        char *const env = made.env_json;
        id_uuid(build_id);
        traveller->replaced =
            snapshot_take_name(traveller->all->use.templates, traveller->team_id, traveller->alias,
                               traveller->tag, traveller->template_id);
        made.id = traveller->template_id;
        made.alias = traveller->alias;
        made.team_id = traveller->team_id;
        made.build_id = build_id;
        made.env_json = env ? env : none;
        made.created_ms = clock_wall_ms();
        made.saved = traveller->saved;
        made.saved_bytes = end->memory_bytes;
        made.saved_disk_bytes = end->disk_bytes;
        traveller->waits = true;
        templates_put_snapshot(traveller->all->use.templates, &made, traveller->tag, on_recorded,
                               traveller);
        made.env_json = env;
    }
    free(made.env_json);
    free(made.start_context);
}

/* ---- the way ---- */

static void on_message(void *ctx, enum travel_kind kind, struct str body)
{
    struct traveller *traveller = ctx;

    if (traveller->imports && kind == TRAVEL_META && !traveller->meta) {
        traveller->meta = json_loadb(body.at, body.len, JSON_REJECT_DUPLICATES, NULL);
    } else if (!traveller->imports && kind == TRAVEL_BYTES) {
        traveller->handler->bytes(traveller->ctx, body);
    }
}

static void on_sent(void *ctx)
{
    struct traveller *traveller = ctx;

    if (traveller->imports) {
        traveller->handler->ready(traveller->ctx);
    }
}

static void on_end(void *ctx, const struct travel_end *end)
{
    struct traveller *traveller = ctx;

    keeper_travel_link_free(move_ptr(&traveller->link));
    if (end->status == 0 && traveller->imports) {
        import_record(traveller, end);
    } else {
        finish(traveller, error_of(end->status), &end->err, NULL);
    }
}

static const struct keeper_travel_handler link_handler = {on_message, on_sent, on_end};

static void meta_send(struct traveller *traveller)
{
    char *text = json_dumps(traveller->meta, JSON_COMPACT);

    if (text && strlen(text) <= TRAVEL_META_BYTES_MAX) {
        keeper_travel_send(traveller->link, TRAVEL_META, str_of(text));
    } else { /* the keeper refuses it */
        keeper_travel_send(traveller->link, TRAVEL_EOF, (struct str){NULL, 0});
    }
    free(text);
}

static void on_answer(void *ctx, const struct keeper_answer *answer, int fds[KEEPER_FDS_MAX])
{
    struct traveller *traveller = ctx;
    struct err err = answer->err;
    int r = answer->status;

    traveller->waits = false;
    if (r == 0 && fds[KEEPER_FD_TRAVEL] < 0) {
        r = err_set(&err, EAGAIN, "this process has no room for another descriptor");
    }
    if (r < 0 || traveller->dropped) {
        finish(traveller, error_of(r), &err, NULL);
        return;
    }
    traveller->link = keeper_travel_link_new(
        traveller->all->use.loop, move_fd(&fds[KEEPER_FD_TRAVEL]), &link_handler, traveller);
    keeper_travel_read(traveller->link, traveller->imports || traveller->reads);
    if (traveller->imports) {
        traveller->handler->ready(traveller->ctx);
    } else {
        meta_send(traveller);
    }
}

static struct traveller *traveller_new(struct sandboxes *all,
                                       const struct traveller_handler *handler, void *ctx)
{
    struct traveller *traveller = xnew(struct traveller);

    *traveller = (struct traveller){.all = all, .handler = handler, .ctx = ctx, .waits = true};
    all->refs++;
    return traveller;
}

static int layers_read(const char *layers, struct keeper_travel *out, struct err *err)
{
    struct str rest = str_of(layers), layer;

    while (layers && layers[0] && str_split(&rest, ',', &layer)) {
        if (out->layers_n == KEEPER_LAYERS_MAX ||
            !str_copy(out->layers[out->layers_n++], KEEPER_LAYER_BYTES, layer)) {
            return err_set(err, EINVAL, "the snapshot has more layers than it may have");
        }
    }
    return 0;
}

/* An answer that the keeper was never asked for: it comes from the loop all the same. */
static void ask(struct traveller *traveller, struct keeper_request *req, const char *owner)
{
    keeper_client_ask_for(traveller->all->use.keeper, owner, req, on_answer, traveller);
}

static struct traveller *export_begin(struct sandboxes *all, const char *saved, const char *layers,
                                      json_t *meta, const char *owner,
                                      const struct traveller_handler *handler, void *ctx)
{
    struct traveller *traveller = traveller_new(all, handler, ctx);
    struct keeper_request req = {.op = KEEPER_EXPORT};
    struct err err;

    traveller->meta = meta;
    traveller->reads = true;
    (void)str_copy(traveller->held, sizeof(traveller->held), str_of(saved));
    if (traveller->held[0]) {
        saved_hold(all, traveller->held);
    }
    memcpy(req.travel.name, traveller->held, sizeof(req.travel.name));
    if (layers_read(layers, &req.travel, &err) < 0) {
        req.travel.name[0] = '\0'; /* the keeper refuses it */
    }
    ask(traveller, &req, owner);
    return traveller;
}

struct traveller *sandbox_export(struct sandbox *sb, const struct traveller_handler *handler,
                                 void *ctx)
{
    return export_begin(sb->all, sb->state == SANDBOX_PAUSED && sb->saved ? sb->saved : "",
                        sb->layers, sandbox_meta(sb), sb->team_id, handler, ctx);
}

struct traveller *template_export(struct sandboxes *all, const struct template *snapshot,
                                  const struct traveller_handler *handler, void *ctx)
{
    return export_begin(all, snapshot->saved, snapshot->layers, template_meta(snapshot),
                        snapshot->team_id, handler, ctx);
}

struct traveller *sandboxes_import(struct sandboxes *all, const struct arrival *arrival,
                                   const struct traveller_handler *handler, void *ctx)
{
    struct traveller *traveller = traveller_new(all, handler, ctx);
    struct keeper_request req = {.op = KEEPER_IMPORT};

    traveller->imports = true;
    traveller->team_id = xstrdup(arrival->team_id);
    traveller->alias = xstrdup(arrival->alias);
    traveller->tag = xstrdup(arrival->tag);
    saved_name_new(req.travel.name);
    req.travel.bytes_max = arrival->bytes_max;
    ask(traveller, &req, arrival->team_id);
    return traveller;
}

void traveller_read(struct traveller *traveller, bool wanted)
{
    traveller->reads = wanted;
    if (traveller->link) {
        keeper_travel_read(traveller->link, wanted);
    }
}

void traveller_send(struct traveller *traveller, struct str bytes)
{
    if (traveller->link) {
        keeper_travel_send(traveller->link, bytes.len ? TRAVEL_BYTES : TRAVEL_EOF, bytes);
    }
}

void traveller_drop(struct traveller *traveller)
{
    if (!traveller) {
        return;
    }
    traveller->dropped = true;
    keeper_travel_link_free(move_ptr(&traveller->link));
    if (!traveller->waits) {
        traveller_free(traveller);
    }
}
