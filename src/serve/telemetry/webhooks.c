#include "serve/telemetry/webhooks.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/encode.h"
#include "serve/telemetry/internal.h"

/* ---- a single webhook ---- */

static void own_row_fini(struct own_row *own)
{
    explicit_bzero(own->texts, own->texts_len);
    free(own->texts);
}

static const char *put(char **at, const char *text)
{
    const char *put = *at;

    *at = stpcpy(*at, text) + 1;
    return put;
}

static void own_row_init(struct own_row *own, const struct webhook_row *row)
{
    own->texts_len = strlen(row->id) + strlen(row->team_id) + strlen(row->name) + strlen(row->url) +
                     strlen(row->events) + strlen(row->secret) + 6;
    own->texts = xcalloc(1, own->texts_len);
    char *at = own->texts;
    own->row = *row;
    own->row.id = put(&at, row->id);
    own->row.team_id = put(&at, row->team_id);
    own->row.name = put(&at, row->name);
    own->row.url = put(&at, row->url);
    own->row.events = put(&at, row->events);
    own->row.secret = put(&at, row->secret);
}

void webhooks_release(struct webhooks *all)
{
    if (--all->refs == 0) {
        free(all);
    }
}

void webhook_hold(struct webhook *hook)
{
    hook->refs++;
}

void webhook_release(struct webhook *hook)
{
    if (--hook->refs > 0) {
        return;
    }
    webhooks_release(hook->all);
    own_row_fini(&hook->own);
    free(hook);
}

static struct webhook *hook_of(struct mirrored *one)
{
    return one ? container_of(one, struct webhook, as) : NULL;
}

static void hook_add(struct webhooks *all, const struct webhook_row *row)
{
    struct webhook *hook = xnew(struct webhook);

    hook->all = all;
    all->refs++;
    hook->refs = 1; /* the table's */
    own_row_init(&hook->own, row);
    (void)str_copy(hook->id, sizeof(hook->id), str_of(row->id));
    (void)str_copy(hook->team_id, sizeof(hook->team_id), str_of(row->team_id));
    hook->as = (struct mirrored){.id = hook->id, .team_id = hook->team_id};
    mirror_put(&all->mirror, &hook->as);
    deliver_init(hook);
    deliver_pull(hook);
}

static void on_removed(struct mirrored *one)
{
    deliver_stop(hook_of(one));
    webhook_release(hook_of(one)); /* the table's */
}

static struct webhook *hook_find(struct webhooks *all, const char *id)
{
    return hook_of(mirror_find(&all->mirror, id));
}

/* A webhook that the caller has just found. */
static struct webhook *hook_get(struct webhooks *all, const char *id)
{
    struct webhook *hook = hook_find(all, id);

    assert(hook);
    return hook;
}

/* ---- the request ---- */

void webhook_sign(const char *secret, const char *body, char out[WEBHOOK_SIGNATURE_BYTES])
{
    uint8_t digest[SHA256_BYTES];
    size_t secret_len = strlen(secret), body_len = strlen(body);
    scoped_buf(both, secret_len + body_len);
    scoped_buf(text, WEBHOOK_SIGNATURE_BYTES);

    if (buf_append(&both, secret, secret_len) < 0 || buf_append(&both, body, body_len) < 0) {
        abort(); /* it was made to fit */
    }
    sha256(buf_at(&both), buf_len(&both), digest);
    explicit_bzero(buf_at(&both), secret_len);
    if (base64_encode(&text, digest, sizeof(digest), BASE64_URL_NOPAD) < 0 ||
        !str_copy(out, WEBHOOK_SIGNATURE_BYTES, buf_str(&text))) {
        abort(); /* 43 letters, always */
    }
}

void webhook_post_make(const struct webhook *hook, const char *delivery_id, const char *body,
                       struct webhook_post *out)
{
    char signature[WEBHOOK_SIGNATURE_BYTES];

    webhook_sign(hook->own.row.secret, body, signature);
    (void)snprintf(out->lines[0], sizeof(out->lines[0]), "e2b-webhook-id: %s", hook->own.row.id);
    (void)snprintf(out->lines[1], sizeof(out->lines[1]), "e2b-delivery-id: %s", delivery_id);
    (void)snprintf(out->lines[2], sizeof(out->lines[2]), "e2b-signature-version: v1");
    (void)snprintf(out->lines[3], sizeof(out->lines[3]), "e2b-signature: %s", signature);
    out->request = (struct post_request){
        .url = hook->own.row.url,
        .headers = {out->lines[0], out->lines[1], out->lines[2], out->lines[3]},
        .body = body,
    };
}

/* ---- a trial ---- */

struct trial {
    struct trial *prev, *next; /* in all->trials */
    struct webhooks *all;      /* counted */
    struct post *post;
    char delivery_id[ID_UUID_LEN + 1];
    webhook_tested *done;
    void *ctx;
};

static void trial_end(struct trial *trial, const struct post_result *result)
{
    DL_DELETE(trial->all->trials, trial);
    trial->done(trial->ctx, trial->delivery_id, result);
    webhooks_release(trial->all);
    free(trial);
}

static void on_tried(void *ctx, const struct post_result *result)
{
    trial_end(ctx, result);
}

static char *trial_body(const struct webhook *hook)
{
    char id[ID_UUID_LEN + 1], stamp[CLOCK_STAMP_BYTES];

    id_uuid(id);
    clock_stamp(clock_wall_ms(), stamp);
    json_t *body =
        json_pack("{ss ss ss s{} ss ss}", "version", "v1", "id", id, "type", "webhook.test",
                  "eventData", "sandboxTeamId", hook->own.row.team_id, "timestamp", stamp);
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    if (!text) {
        abort();
    }
    return text;
}

void webhook_test(struct webhooks *all, const char *id, webhook_tested *done, void *ctx)
{
    struct webhook *hook = hook_get(all, id);
    struct trial *trial = xnew(struct trial);
    struct webhook_post post;
    char *body = trial_body(hook);

    *trial = (struct trial){.all = all, .done = done, .ctx = ctx};
    all->refs++;
    id_uuid(trial->delivery_id);
    DL_APPEND(all->trials, trial);
    webhook_post_make(hook, trial->delivery_id, body, &post);
    trial->post = post_send(all->poster, &post.request, on_tried, trial);
    free(body);
}

/* ---- once more ---- */

struct again {
    struct webhooks *all; /* counted */
    char hook_id[ID_UUID_LEN + 1];
    char delivery_id[DELIVERY_ID_BYTES];
    webhook_redelivered *done;
    void *ctx;
};

static void again_end(struct again *again, int error, const struct err *err)
{
    again->done(again->ctx, error, err, error == 0 ? again->delivery_id : NULL);
    webhooks_release(again->all);
    free(again);
}

static void on_again(void *ctx, int error, const struct err *err)
{
    struct again *again = ctx;
    struct webhook *hook = again->all->poster ? hook_find(again->all, again->hook_id) : NULL;

    if (error == 0 && hook) {
        deliver_pull(hook);
    }
    again_end(again, error, err);
}

static void on_delivery(void *ctx, int error, const struct err *err, const struct delivery *found,
                        size_t n)
{
    struct again *again = ctx;
    struct webhook *hook = again->all->poster ? hook_find(again->all, again->hook_id) : NULL;
    struct err why = *err;

    if (error == 0 && (n == 0 || !hook)) {
        error = err_set(&why, ENOENT, "there is no such delivery");
    }
    if (error < 0) {
        again_end(again, error, &why);
    } else if (strcmp(found->state, "pending") == 0) {
        deliver_rouse(hook);
        again_end(again, 0, &why);
    } else {
        id_uuid(again->delivery_id);
        store_delivery_again(again->all->use.store, again->hook_id, found, again->delivery_id,
                             clock_wall_ms(), on_again, again);
    }
}

void webhook_redeliver(struct webhooks *all, const char *id, const char *delivery_id,
                       webhook_redelivered *done, void *ctx)
{
    struct again *again = xnew(struct again);

    *again = (struct again){.all = all, .done = done, .ctx = ctx};
    all->refs++;
    (void)str_copy(again->hook_id, sizeof(again->hook_id), str_of(id));
    (void)str_copy(again->delivery_id, sizeof(again->delivery_id), str_of(delivery_id));
    store_delivery_find(all->use.store, id, again->delivery_id, on_delivery, again);
}

/* ---- changes ---- */

struct change {
    struct webhooks *all; /* counted */
    struct own_row own;   /* create: the new one; change, delete: what to put back */
    store_done *done;
    void *ctx;
};

static struct change *change_new(struct webhooks *all, const struct webhook_row *row,
                                 store_done *done, void *ctx)
{
    struct change *change = xnew(struct change);

    *change = (struct change){.all = all, .done = done, .ctx = ctx};
    own_row_init(&change->own, row);
    all->refs++;
    return change;
}

static void change_end(struct change *change, int error, const struct err *err)
{
    change->done(change->ctx, error, err);
    webhooks_release(change->all);
    own_row_fini(&change->own);
    free(change);
}

static void on_created(void *ctx, int error, const struct err *err)
{
    struct change *change = ctx;

    if (error == 0 && change->all->poster) {
        hook_add(change->all, &change->own.row);
    }
    change_end(change, error, err);
}

void webhook_create(struct webhooks *all, const struct webhook_row *row, store_done *done,
                    void *ctx)
{
    store_webhook_save(all->use.store, row, on_created, change_new(all, row, done, ctx));
}

static void hook_set(struct webhook *hook, const struct webhook_row *row)
{
    struct own_row old = hook->own;

    own_row_init(&hook->own, row); /* row may point into the old one */
    own_row_fini(&old);
}

static void on_changed(void *ctx, int error, const struct err *err)
{
    struct change *change = ctx;
    struct webhook *hook = hook_find(change->all, change->own.row.id);

    if (hook && error < 0) {
        hook_set(hook, &change->own.row);
    } else if (hook) {
        deliver_rouse(hook);
    }
    change_end(change, error, err);
}

void webhook_change(struct webhooks *all, const struct webhook_row *row, store_done *done,
                    void *ctx)
{
    struct webhook *hook = hook_get(all, row->id);
    struct change *change = change_new(all, &hook->own.row, done, ctx);

    store_webhook_save(all->use.store, row, on_changed, change);
    hook_set(hook, row);
}

static void on_deleted(void *ctx, int error, const struct err *err)
{
    struct change *change = ctx;

    if (error < 0 && change->all->poster) {
        hook_add(change->all, &change->own.row); /* it is still on disk */
    }
    change_end(change, error, err);
}

void webhook_delete(struct webhooks *all, const char *id, store_done *done, void *ctx)
{
    struct webhook *hook = hook_get(all, id);

    store_webhook_delete(all->use.store, id, on_deleted,
                         change_new(all, &hook->own.row, done, ctx));
    mirror_drop(&all->mirror, &hook->as);
}

/* ---- the table ---- */

const struct webhook_row *webhooks_find(struct webhooks *all, const char *team_id, const char *id)
{
    const struct webhook *hook = hook_of(mirror_of_team(&all->mirror, team_id, id));

    return hook ? &hook->own.row : NULL;
}

void webhooks_each(struct webhooks *all, const char *team_id,
                   void (*each)(void *ctx, const struct webhook_row *row), void *ctx)
{
    struct mirrored *one = NULL;

    while ((one = mirror_next(&all->mirror, team_id, one))) {
        each(ctx, &hook_of(one)->own.row);
    }
}

size_t webhooks_count(const struct webhooks *all, const char *team_id)
{
    return mirror_count(&all->mirror, team_id);
}

int webhooks_check_url(const struct webhooks *all, const char *url, struct err *err)
{
    return post_check_url(url, all->use.allow_local, err);
}

/* ---- the whole ---- */

static void on_event(struct events_watch *watch)
{
    struct webhooks *all = container_of(watch, struct webhooks, watch);

    for (struct mirrored *one = all->mirror.first; one; one = one->hh.next) {
        deliver_pull(hook_of(one));
    }
}

static void on_row(void *ctx, const struct webhook_row *row)
{
    hook_add(ctx, row);
}

int webhooks_new(const struct webhooks_options *options, struct webhooks **out, struct err *err)
{
    struct webhooks *all = xnew(struct webhooks);

    all->use = *options;
    all->refs = 1;
    all->mirror.free = on_removed;
    all->poster = poster_new(options->loop, options->allow_local);
    int r = store_load_webhooks(options->store, on_row, all, err);
    if (r < 0) {
        webhooks_free(all);
        return r;
    }
    all->watch.on_event = on_event;
    store_events_watch(options->store, &all->watch);
    *out = all;
    return 0;
}

static void trials_end(struct webhooks *all)
{
    static const struct post_result stopped = {.error = "the daemon is stopping"};

    while (all->trials) {
        post_cancel(all->trials->post);
        trial_end(all->trials, &stopped);
    }
}

void webhooks_free(struct webhooks *all)
{
    if (!all) {
        return;
    }
    if (all->watch.on_event) {
        store_events_unwatch(all->use.store, &all->watch);
    }
    trials_end(all);
    mirror_fini(&all->mirror);
    poster_free(move_ptr(&all->poster));
    webhooks_release(all);
}
