/* /events/webhooks: where a team wants to be told of events. The secret is taken, never shown. */
#include <errno.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "serve/api/event_types.h"
#include "serve/api/internal.h"
#include "serve/api/page_query.h"
#include "serve/api/query.h"
#include "serve/telemetry/webhooks.h"

enum {
    WEBHOOK_NAME_BYTES_MAX = 256,
    WEBHOOK_SECRET_BYTES_MAX = 1024,
};

/* ---- out ---- */

static json_t *types_json(const char *list)
{
    json_t *array = json_array();
    struct str rest = str_of(list), type;

    while (str_split(&rest, ',', &type)) {
        if (type.len > 0) {
            (void)json_array_append_new(array, json_stringn(type.at, type.len));
        }
    }
    return array;
}

static json_t *webhook_json(const struct webhook_row *row)
{
    json_t *out = json_object();

    (void)json_object_set_new(out, "id", json_string(row->id));
    (void)json_object_set_new(out, "teamId", json_string(row->team_id));
    (void)json_object_set_new(out, "name", json_string(row->name));
    (void)json_object_set_new(out, "createdAt", stamp_json(row->created_ms));
    (void)json_object_set_new(out, "enabled", json_boolean(row->enabled));
    (void)json_object_set_new(out, "url", json_string(row->url));
    (void)json_object_set_new(out, "events", types_json(row->events));
    return out;
}

/* The webhook that the path names, if it is the team's. Otherwise answers, and NULL. */
static const struct webhook_row *call_webhook(struct call *call)
{
    const struct webhook_row *row =
        webhooks_find(call->api->options.webhooks, call->team->id, call->param);

    if (!row) {
        call_fail(call, 404, "Webhook \"%s\" doesn't exist or you don't have access to it",
                  call->param);
    }
    return row;
}

/* ---- in ---- */

static int text_parse(const json_t *body, const char *name, size_t max, const char **out,
                      struct err *err)
{
    int r = field_string(body, name, out, err);

    if (r == 0 && (!*out || !(*out)[0] || strlen(*out) > max)) {
        r = err_set(err, EINVAL, "validation error: %s must be 1 to %zu bytes", name, max);
    }
    return r;
}

static int types_parse(const json_t *body, struct buf *list, struct err *err)
{
    const json_t *array = NULL;
    int r = field_array(body, "events", &array, err);

    for (size_t i = 0; r == 0 && i < json_array_size(array); i++) {
        const json_t *type = json_array_get(array, i);
        struct str text = {json_string_value(type), json_string_length(type)};

        if (!json_is_string(type) || event_types_add(list, text) < 0) {
            r = field_refuse(err, "events", event_types_known);
        }
    }
    if (r == 0 && array && json_array_size(array) == 0) {
        r = field_refuse(err, "events", "at least one type");
    }
    return r;
}

static int url_parse(const struct call *call, const json_t *body, const char **out, struct err *err)
{
    int r = text_parse(body, "url", POST_URL_BYTES_MAX, out, err);

    if (r == 0) {
        r = webhooks_check_url(call->api->options.webhooks, *out, err);
        r = r < 0 ? err_wrap(err, "validation error") : r;
    }
    return r;
}

/* Fields that the body does not name keep their value in *row: a new webhook's row has nothing, so
 * its body must name all but `enabled`. types must outlive *row. */
static int row_parse(const struct call *call, const json_t *body, struct buf *types,
                     struct webhook_row *row, struct err *err)
{
    int r = text_parse(body, "name", WEBHOOK_NAME_BYTES_MAX, &row->name, err);

    if (r == 0) {
        r = url_parse(call, body, &row->url, err);
    }
    if (r == 0) {
        r = field_bool(body, "enabled", &row->enabled, err);
    }
    if (r == 0) {
        r = types_parse(body, types, err);
    }
    if (r == 0) {
        r = text_parse(body, "signatureSecret", WEBHOOK_SECRET_BYTES_MAX, &row->secret, err);
    }
    if (r == 0 && buf_len(types) > 0) {
        r = buf_append(types, "", 1);
        row->events = buf_at(types);
    }
    if (r == 0 && !row->events) {
        r = err_set(err, EINVAL, "validation error: events is required");
    }
    return r;
}

/* ---- create, change, delete ---- */

void handle_webhooks_create(struct call *call, const json_t *body)
{
    struct webhooks *all = call->api->options.webhooks;
    char id[ID_UUID_LEN + 1];
    struct webhook_row row = {.id = id, .team_id = call->team->id, .enabled = true};
    scoped_buf(types, EVENT_TYPES_BYTES_MAX);
    struct err err;

    int r = row_parse(call, body, &types, &row, &err);
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    if (webhooks_count(all, call->team->id) >= WEBHOOKS_PER_TEAM_MAX) {
        call_fail(call, 403, "the team has %d webhooks, which is the most it can have",
                  WEBHOOKS_PER_TEAM_MAX);
        return;
    }
    id_uuid(id);
    row.created_ms = clock_wall_ms();
    webhook_create(all, &row, call_due, call_later(call, 201, webhook_json(&row)));
}

void handle_webhooks_change(struct call *call, const json_t *body)
{
    const struct webhook_row *old = call_webhook(call);
    scoped_buf(types, EVENT_TYPES_BYTES_MAX);
    struct err err;

    if (!old) {
        return;
    }
    struct webhook_row row = *old;
    int r = row_parse(call, body, &types, &row, &err);
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    webhook_change(call->api->options.webhooks, &row, call_due,
                   call_later(call, 200, webhook_json(&row)));
}

void handle_webhooks_delete(struct call *call, const json_t *body)
{
    const struct webhook_row *row = call_webhook(call);

    (void)body;
    if (row) {
        webhook_delete(call->api->options.webhooks, row->id, call_due, call_later(call, 200, NULL));
    }
}

/* ---- look ---- */

static void append(void *ctx, const struct webhook_row *row)
{
    (void)json_array_append_new(ctx, webhook_json(row));
}

void handle_webhooks_list(struct call *call, const json_t *body)
{
    json_t *list = json_array();

    (void)body;
    webhooks_each(call->api->options.webhooks, call->team->id, append, list);
    call_json(call, 200, list);
}

void handle_webhooks_get(struct call *call, const json_t *body)
{
    const struct webhook_row *row = call_webhook(call);

    (void)body;
    if (row) {
        call_json(call, 200, webhook_json(row));
    }
}

void handle_webhooks_deliveries(struct call *call, const json_t *body)
{
    struct str query = http_request(call->ex)->query;
    struct page_query page;
    struct err err;
    bool with_events = false;
    int r = page_query_parse(query, &page, &err);
    r = r < 0 ? r : query_bool(query, "events", &with_events, &err);

    (void)body;
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    const struct webhook_row *row = call_webhook(call);
    if (row) {
        const struct deliveries_query wanted = {.webhook_id = row->id,
                                                .offset = page.offset,
                                                .limit = page.limit,
                                                .ascending = page.ascending,
                                                .with_events = with_events};
        store_deliveries_list(call->api->options.store, &wanted, call_array, call);
    }
}

static void on_redelivered(void *ctx, int error, const struct err *err, const char *delivery_id)
{
    struct call *call = ctx;

    if (error == -ENOENT) {
        call_fail(call, 404, "Delivery \"%.64s\" doesn't exist, or its event is not kept any more",
                  call->param);
    } else if (error < 0) {
        call_fail_err(call, error, err);
    } else {
        call_json(call, 202, json_pack("{ss}", "deliveryId", delivery_id));
    }
}

void handle_webhooks_redeliver(struct call *call, const json_t *body)
{
    const struct webhook_row *row =
        webhooks_find(call->api->options.webhooks, call->team->id, call->first);

    (void)body;
    if (!row) {
        call_fail(call, 404, "Webhook \"%.64s\" doesn't exist or you don't have access to it",
                  call->first);
    } else if (!row->enabled) {
        call_fail(call, 409, "the webhook is not enabled: enable it first");
    } else {
        webhook_redeliver(call->api->options.webhooks, row->id, call->param, on_redelivered, call);
    }
}

/* ---- test ---- */

static void on_tested(void *ctx, const char *delivery_id, const struct post_result *result)
{
    json_t *reply = json_object();

    (void)json_object_set_new(reply, "deliveryId", json_string(delivery_id));
    (void)json_object_set_new(reply, "delivered", json_boolean(!result->error));
    (void)json_object_set_new(reply, "responseStatus",
                              result->status ? json_integer(result->status) : json_null());
    (void)json_object_set_new(reply, "error",
                              result->error ? json_string(result->error) : json_null());
    (void)json_object_set_new(reply, "durationMs", json_integer(result->took_ms));
    call_json(ctx, 200, reply);
}

void handle_webhooks_test(struct call *call, const json_t *body)
{
    const struct webhook_row *row = call_webhook(call);

    (void)body;
    if (row) {
        webhook_test(call->api->options.webhooks, row->id, on_tested, call);
    }
}
