/* /secrets: names for values. A value is taken, never shown; no answer may be kept by a cache. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "serve/api/internal.h"
#include "serve/api/query.h"
#include "serve/secrets/secret.h"

enum { SECRETS_LIMIT_MAX = 100, SECRETS_TOKEN_BYTES = 96 };

static json_t *secret_json(const struct secret *secret)
{
    json_t *out = json_object();

    (void)json_object_set_new(out, "secretID", json_string(secret->id));
    (void)json_object_set_new(out, "name", json_string(secret->name));
    (void)json_object_set_new(out, "currentVersion", json_integer(secret->version));
    (void)json_object_set(out, "metadata", secret->metadata);
    (void)json_object_set_new(out, "createdAt", stamp_json(secret->created_ms));
    (void)json_object_set_new(out, "updatedAt", stamp_json(secret->updated_ms));
    return out;
}

/* The secret that the path names, if it is the team's. Otherwise answers, and NULL. */
static const struct secret *call_secret(struct call *call)
{
    const struct secret *secret =
        secrets_find(call->api->options.secrets, call->team->id, call->param);

    if (!secret) {
        call_fail(call, 404, "Secret not found");
    }
    return secret;
}

/* ---- create, change, delete ---- */

static int value_parse(const json_t *body, const char **value, const json_t **metadata,
                       struct err *err)
{
    int r = field_string(body, "value", value, err);

    if (r == 0 && !*value) {
        r = err_set(err, EINVAL, "validation error: value is required");
    }
    r = r < 0 ? r : secret_value_check(*value, err);
    r = r < 0 ? r : field_object(body, "metadata", metadata, err);
    return r == 0 && *metadata ? secret_metadata_check(*metadata, err) : r;
}

static void on_created(void *ctx, const struct secret *secret, int error, const struct err *err)
{
    if (secret) {
        call_json(ctx, 201, secret_json(secret));
    } else if (error == -ENOSPC) {
        call_fail(ctx, 403, "%s", err->msg);
    } else {
        call_fail_err(ctx, error, err);
    }
}

void handle_secrets_create(struct call *call, const json_t *body)
{
    char name[SECRET_NAME_BYTES_MAX + 1];
    const char *given = NULL, *value = NULL;
    const json_t *metadata = NULL;
    struct err err;
    int r = field_string(body, "name", &given, &err);

    r = r < 0 ? r : secret_name_check(given ? given : "", name, &err);
    r = r < 0 ? r : value_parse(body, &value, &metadata, &err);
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    secret_create(call->api->options.secrets, call->team->id, name, value, metadata, on_created,
                  call);
}

static void on_updated(void *ctx, const struct secret *secret, int error, const struct err *err)
{
    if (secret) {
        call_json(ctx, 200, secret_json(secret));
    } else {
        call_fail_err(ctx, error, err);
    }
}

void handle_secrets_update(struct call *call, const json_t *body)
{
    const struct secret *secret = call_secret(call);
    const char *value = NULL;
    const json_t *metadata = NULL;
    struct err err;

    if (!secret) {
        return;
    }
    int r = value_parse(body, &value, &metadata, &err);
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    secret_update(call->api->options.secrets, secret, value, metadata, on_updated, call);
}

static void on_deleted(void *ctx, int error, const struct err *err)
{
    if (error < 0) {
        call_fail_err(ctx, error, err);
    } else {
        call_empty(ctx, 204);
    }
}

void handle_secrets_delete(struct call *call, const json_t *body)
{
    const struct secret *secret = call_secret(call);

    (void)body;
    if (secret) {
        secret_delete(call->api->options.secrets, secret, on_deleted, call);
    }
}

/* ---- look ---- */

void handle_secrets_get(struct call *call, const json_t *body)
{
    const struct secret *secret = call_secret(call);

    (void)body;
    if (secret) {
        call_json(call, 200, secret_json(secret));
    }
}

/* A page begins behind the secret that was made then and has that id. */
struct listing {
    json_t *page;
    size_t limit;
    int64_t after_ms;
    char after_id[SECRET_ID_BYTES];
    char next[SECRETS_TOKEN_BYTES]; /* empty: this is the last page */
};

static bool on_secret(void *ctx, const struct secret *secret)
{
    struct listing *listing = ctx;
    bool before =
        secret->created_ms < listing->after_ms ||
        (secret->created_ms == listing->after_ms && strcmp(secret->id, listing->after_id) <= 0);

    if (before) {
        return true;
    }
    if (json_array_size(listing->page) == listing->limit) {
        (void)snprintf(listing->next, sizeof(listing->next), "%" PRId64 ".%s", listing->after_ms,
                       listing->after_id);
        return false;
    }
    (void)json_array_append_new(listing->page, secret_json(secret));
    listing->after_ms = secret->created_ms;
    (void)str_copy(listing->after_id, sizeof(listing->after_id), str_of(secret->id));
    return true;
}

static int token_read(const char *text, struct listing *listing)
{
    char *end = NULL;

    errno = 0;
    listing->after_ms = strtoll(text, &end, 10);
    bool good = text[0] >= '0' && text[0] <= '9' && errno == 0 && *end == '.';
    return good && str_copy(listing->after_id, sizeof(listing->after_id), str_of(end + 1))
               ? 0
               : -EINVAL;
}

static int listing_parse(struct str query, struct listing *listing, struct err *err)
{
    const struct int_range limits = {1, SECRETS_LIMIT_MAX};
    int64_t limit = SECRETS_LIMIT_MAX;
    scoped_buf(token, QUERY_VALUE_BYTES_MAX);

    int r = query_int(query, "limit", limits, &limit, err);
    r = r < 0 ? r : query_text(query, "nextToken", &token, err);
    if (r > 0 && (buf_append(&token, "", 1) < 0 || token_read(buf_at(&token), listing) < 0)) {
        r = err_set(err, EINVAL, "validation error: nextToken is none that this server gave");
    }
    listing->limit = (size_t)limit;
    return r < 0 ? r : 0;
}

void handle_secrets_list(struct call *call, const json_t *body)
{
    struct listing listing = {.after_ms = INT64_MIN};
    struct err err;
    int r = listing_parse(http_request(call->ex)->query, &listing, &err);

    (void)body;
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    listing.page = json_array();
    secrets_each(call->api->options.secrets, call->team->id, on_secret, &listing);
    if (listing.next[0]) {
        call_header(call, "X-Next-Token", listing.next);
    }
    call_json(call, 200, listing.page);
}
