/* Snapshots: POST /sandboxes/{id}/snapshots, GET /snapshots, and DELETE /templates/{id} of one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "serve/api/internal.h"
#include "serve/api/list_query.h"
#include "serve/api/query.h"
#include "serve/template/name.h"

enum { SNAPSHOT_NAME_BYTES = 2 * TEMPLATE_NAME_MAX + 16 };

/* ---- as JSON ---- */

json_t *snapshot_json(const struct call *call, const char *id, const char *alias, const char *tag,
                      uint64_t bytes)
{
    const char *space = templates_space(call->api->options.templates, call->team->id);
    char name[SNAPSHOT_NAME_BYTES], tagged[SNAPSHOT_NAME_BYTES + TEMPLATE_NAME_MAX + 2];
    json_t *names = json_array();

    (void)snprintf(name, sizeof(name), "%s%s%s", alias && space ? space : "",
                   alias && space ? "/" : "", alias ? alias : id);
    (void)snprintf(tagged, sizeof(tagged), "%s:%s", name, tag);
    if (alias) {
        (void)json_array_append_new(names, json_string(name));
    }
    return json_pack("{sssosI}", "snapshotID", tagged, "names", names, "diskUsedBytes",
                     (json_int_t)bytes);
}

/* ---- names ---- */

/* A namespace in the name comes from the client: it must be the team's own. */
static int name_parse(const struct call *call, struct str text, struct template_name *out,
                      struct err *err)
{
    const char *space = templates_space(call->api->options.templates, call->team->id);

    if (template_name_parse(text, out) < 0) {
        return err_set(err, EINVAL, "Invalid name: want [namespace/]name[:tag] of a-z 0-9 _ -");
    }
    if (out->space[0] && (!space || strcmp(out->space, space) != 0)) {
        return err_set(err, EINVAL, "namespace '%.64s' is not your team's", out->space);
    }
    return 0;
}

/* ---- making one ---- */

struct making {
    struct call *call;
    struct quota_hold *hold;
};

static void on_made(void *ctx, int error, const struct err *err,
                    const struct sandbox_snapshot *snapshot)
{
    struct making *making = ctx;
    struct call *call = making->call;

    quota_hold_end(call->api, making->hold);
    free(making);
    if (error < 0) {
        call_fail_logged(call, error, err);
    } else {
        maker_note(call, snapshot->template_id);
        builds_add_snapshot(call->api->options.builds, snapshot->build);
        call_json(call, 201,
                  snapshot_json(call, snapshot->template_id, snapshot->alias, snapshot->tag,
                                snapshot->bytes));
    }
}

int snapshot_name_check(const struct call *call, const char *text, struct template_name *out,
                        struct err *err)
{
    int r = name_parse(call, str_of(text), out, err);

    if (r == 0 && template_tag_is_build(str_of(out->tag))) {
        r = err_set(err, EINVAL, "Invalid name: a tag cannot be a UUID");
    }
    return r;
}

/* The size of a snapshot is known only when it is made. Until then it counts as the size of the
 * sandbox at its last sample. */
static struct amounts amounts_of(const struct call *call, const struct sandbox *sb)
{
    struct amounts more = {.of = {[LIMIT_DISK_MB] = 1}};
    struct metric metric;

    if (metrics_latest(call->api->options.metrics, str_of(sandbox_info(sb).id), &metric)) {
        more.of[LIMIT_DISK_MB] += (int64_t)((metric.memory_bytes + metric.disk_bytes) >> 20);
    }
    return more;
}

void handle_snapshot(struct call *call, const json_t *body)
{
    struct template_name name = {0};
    const char *text = NULL;
    bool memory = true;
    struct err err;
    int r = field_string(body, "name", &text, &err);

    if (r == 0) {
        r = field_bool(body, "memory", &memory, &err);
    }
    if (r == 0 && text) {
        r = snapshot_name_check(call, text, &name, &err);
    }
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    struct sandbox *sb = call_running(call, 409);
    struct amounts more = sb ? amounts_of(call, sb) : (struct amounts){0};
    if (sb && call_quota(call, &more)) {
        struct making *making = xnew(struct making);

        *making = (struct making){call, quota_hold(call, &more)};
        sandbox_trace(sb, &call->trace);
        sandbox_snapshot(sb, text ? name.alias : NULL, text ? name.tag : TEMPLATE_TAG_DEFAULT,
                         memory, on_made, making);
    }
}

/* ---- the list ---- */

struct listing {
    const struct call *call;
    struct buf sandbox_id;     /* empty: of any */
    struct template_name name; /* alias "": any */
    bool tagged;
    int64_t limit;
    bool continues;
    struct sandbox_position after;
    const struct template **found;
    size_t n, cap;
};

static void listing_fini(struct listing *listing)
{
    buf_fini(&listing->sandbox_id);
    free(listing->found);
}

static struct sandbox_position position_of(const struct template *t)
{
    struct sandbox_position at = {.created_ms = t->created_ms};

    (void)str_copy(at.id, sizeof(at.id), str_of(t->id));
    return at;
}

/* A template is listed with a single snapshot: that of the tag asked for, or the newest. */
struct shown {
    const struct listing *listing;
    const struct template *of; /* NULL: none has that tag */
    const char *tag;
    int64_t tagged_ms;
};

static void on_tag(void *ctx, const char *tag, const struct template *t, int64_t created_ms)
{
    struct shown *shown = ctx;

    if (t->snapshot_of && (!shown->of || created_ms >= shown->tagged_ms) &&
        (!shown->listing->tagged || strcmp(tag, shown->listing->name.tag) == 0)) {
        shown->tagged_ms = created_ms;
        shown->of = t;
        shown->tag = tag;
    }
}

static struct shown shown_of(const struct listing *listing, const struct template *t)
{
    struct shown shown = {.listing = listing};

    if (t->layers[0]) { /* of an older daemon, it has no tags */
        on_tag(&shown, TEMPLATE_TAG_DEFAULT, t, 0);
    }
    templates_each_tag(listing->call->api->options.templates, t->id, on_tag, &shown);
    return shown;
}

static bool is_wanted(const struct listing *listing, const struct template *t)
{
    struct str sandbox_id = buf_str(&listing->sandbox_id);
    const char *alias = listing->name.alias;
    struct sandbox_position at = position_of(t);

    if (!t->snapshot_of || !t->team_id || strcmp(t->team_id, listing->call->team->id) != 0 ||
        (sandbox_id.len > 0 && !str_eq(sandbox_id, str_of(t->snapshot_of)))) {
        return false;
    }
    if (alias[0] && strcmp(alias, t->id) != 0 && (!t->alias || strcmp(alias, t->alias) != 0)) {
        return false;
    }
    return shown_of(listing, t).of &&
           (!listing->continues || position_before(&listing->after, &at, false));
}

static void on_template(void *ctx, const struct template *t)
{
    struct listing *listing = ctx;

    if (!is_wanted(listing, t)) {
        return;
    }
    if (listing->n == listing->cap) {
        listing->cap = listing->cap ? 2 * listing->cap : LIST_LIMIT_MAX;
        listing->found = reallocarray(listing->found, listing->cap, sizeof(struct template *));
        if (!listing->found) {
            abort();
        }
    }
    listing->found[listing->n++] = t;
}

static int newest_first(const void *a, const void *b)
{
    struct sandbox_position left = position_of(*(const struct template *const *)a);
    struct sandbox_position right = position_of(*(const struct template *const *)b);

    return position_before(&left, &right, false) ? -1 : 1;
}

static int name_read(struct listing *listing, struct str query, struct err *err)
{
    scoped_buf(name, QUERY_VALUE_BYTES_MAX);

    int r = query_text(query, "name", &name, err);
    if (r <= 0) {
        return r;
    }
    listing->tagged = str_find(buf_str(&name), ':') < buf_len(&name);
    return name_parse(listing->call, buf_str(&name), &listing->name, err);
}

static int token_read(struct listing *listing, struct str query, struct err *err)
{
    scoped_buf(token, QUERY_VALUE_BYTES_MAX);

    int r = query_text(query, "nextToken", &token, err);
    if (r <= 0 || buf_len(&token) == 0) {
        return r < 0 ? r : 0;
    }
    listing->continues = true;
    return list_token_read(buf_str(&token), false, &listing->after) < 0
               ? err_set(err, EINVAL, "Invalid next token")
               : 0;
}

static int query_read(struct listing *listing, struct str query, struct err *err)
{
    int r = query_text(query, "sandboxID", &listing->sandbox_id, err);

    if (r >= 0) {
        r = query_int(query, "limit", (struct int_range){1, LIST_LIMIT_MAX}, &listing->limit, err);
    }
    if (r >= 0) {
        r = name_read(listing, query, err);
    }
    return r < 0 ? r : token_read(listing, query, err);
}

static json_t *listed_json(const struct call *call, const struct shown *shown)
{
    const struct template *t = shown->of;
    json_t *row =
        snapshot_json(call, t->id, t->alias, shown->tag, t->saved_bytes + t->saved_disk_bytes);

    (void)json_object_set_new(row, "sandboxID", json_string(t->snapshot_of));
    (void)json_object_set_new(row, "createdAt",
                              stamp_json(shown->tagged_ms ? shown->tagged_ms : t->created_ms));
    return row;
}

void handle_snapshots(struct call *call, const json_t *body)
{
    scoped(listing_fini) struct listing listing = {.call = call, .limit = LIST_LIMIT_MAX};
    char token[LIST_TOKEN_BYTES];
    struct err err;

    (void)body;
    buf_init(&listing.sandbox_id, QUERY_VALUE_BYTES_MAX);
    int r = query_read(&listing, http_request(call->ex)->query, &err);
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    templates_each(call->api->options.templates, call->team->id, on_template, &listing);
    if (listing.n > 0) {
        qsort(listing.found, listing.n, sizeof(struct template *), newest_first);
    }
    json_t *page = json_array();
    size_t n = listing.n < (size_t)listing.limit ? listing.n : (size_t)listing.limit;
    for (size_t i = 0; i < n; i++) {
        struct shown shown = shown_of(&listing, listing.found[i]);
        (void)json_array_append_new(page, listed_json(call, &shown));
    }
    if (n < listing.n) {
        struct sandbox_position last = position_of(listing.found[n - 1]);
        list_token_write(&last, false, token);
        call_header(call, "X-Next-Token", token);
    }
    call_json(call, 200, page);
}
