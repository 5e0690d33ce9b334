#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "serve/api/internal.h"
#include "serve/api/list_query.h"

struct listing {
    const struct call *call;
    const struct list_query *query;
    const char *template_id; /* NULL: any */
    json_t *page;
    struct sandbox_position last; /* on the page */
    size_t running;               /* that match, on whatever page */
    bool more;
};

static bool wanted(const struct listing *listing, const struct sandbox_info *info)
{
    const struct list_query *query = listing->query;

    if (strcmp(info->team_id, listing->call->team->id) != 0 ||
        (info->state == SANDBOX_PAUSED ? !query->paused : !query->running) ||
        info->started_ms < query->started_after_ms) {
        return false;
    }
    return (!listing->template_id || strcmp(info->template_id, listing->template_id) == 0) &&
           metadata_matches(info->metadata, query->metadata);
}

/* The total counts every match. Without a filter it is known; otherwise the walk visits all
 * sandboxes. */
static bool total_known(const struct listing *listing)
{
    const struct list_query *query = listing->query;

    return !query->running ||
           (!listing->template_id && !query->metadata && query->started_after_ms == INT64_MIN);
}

/* The page takes its part of what is walked over. */
static bool on_sandbox(void *ctx, struct sandbox *sb)
{
    struct listing *listing = ctx;
    const struct list_query *query = listing->query;
    struct sandbox_info info = sandbox_info(sb);
    struct sandbox_position at = {.created_ms = info.created_ms};

    if (!wanted(listing, &info)) {
        return true;
    }
    listing->running += info.state == SANDBOX_RUNNING;
    (void)snprintf(at.id, sizeof(at.id), "%s", info.id);
    if (query->continues && !position_before(&query->after, &at, query->ascending)) {
        return true;
    }
    if (query->limit != 0 && json_array_size(listing->page) == query->limit) {
        listing->more = true;
        return !total_known(listing);
    }
    (void)json_array_append_new(listing->page, sandbox_json_listed(sb));
    listing->last = at;
    return true;
}

static void page_headers(struct call *call, const struct listing *listing)
{
    char text[LIST_TOKEN_BYTES];

    if (listing->query->running) {
        (void)snprintf(text, sizeof(text), "%zu", listing->running);
        call_header(call, "X-Total-Running", text);
    }
    if (listing->more) {
        list_token_write(&listing->last, listing->query->ascending, text);
        call_header(call, "X-Next-Token", text);
    }
}

/* A template that is not there has no sandboxes: an empty page, not an error. */
static bool template_resolve(struct call *call, struct listing *listing)
{
    const char *name = listing->query->template_name;
    int why = 0;

    if (!name) {
        return true;
    }
    const struct template *found =
        templates_find(call->api->options.templates, call->team->id, str_of(name), &why);
    listing->template_id = found ? found->id : NULL;
    return found != NULL;
}

void handle_list_v2(struct call *call, const json_t *body)
{
    scoped_list_query query = {0};
    struct err err;
    int r = list_query_parse(http_request(call->ex)->query, &query, &err);

    (void)body;
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    struct listing listing = {.call = call, .query = &query, .page = json_array()};
    if (template_resolve(call, &listing)) {
        bool known = total_known(&listing);
        const struct sandbox_position *from = known && query.continues ? &query.after : NULL;

        sandboxes_each(call->api->options.sandboxes, query.ascending, from, on_sandbox, &listing);
        if (known && query.running) {
            listing.running = sandboxes_running(call->api->options.sandboxes, call->team->id);
        }
    }
    page_headers(call, &listing);
    call_json(call, 200, listing.page);
}

void handle_list_v1(struct call *call, const json_t *body)
{
    scoped_list_query query = {0};
    struct err err;
    int r = list_query_parse_v1(http_request(call->ex)->query, &query, &err);

    (void)body;
    if (r < 0) {
        call_fail_err(call, r, &err);
        return;
    }
    struct listing listing = {.call = call, .query = &query, .page = json_array()};
    sandboxes_each(call->api->options.sandboxes, false, NULL, on_sandbox, &listing);
    call_json(call, 200, listing.page);
}
