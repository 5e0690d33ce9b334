/* deliver.c - a webhook's deliveries, from the store to the endpoint.
 *
 *      pull: the store's pending rows behind the cursor ─► lanes, one for each sandbox
 *      pump: the first of each lane that is due ─► read its event ─► post ─► mark ─► pump
 *
 * A lane is busy until the mark is on record: only then comes its next. So the order of a sandbox's
 * events holds even when the daemon is killed between an answer and its mark: the same delivery is
 * made again, and nothing behind it has been sent.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "serve/telemetry/internal.h"

struct flight {
    struct flight *prev, *next;
    struct webhook *hook; /* counted */
    struct lane *lane;
    struct post *post; /* NULL while the store is asked */
    bool over;         /* delivered, or given up */
};

static void pump(struct webhook *hook);

/* ---- from the store ---- */

static void on_pulled(void *ctx, int error, const struct err *err, const struct delivery *all,
                      size_t n)
{
    struct webhook *hook = ctx;

    hook->pulling = false;
    if (hook->gone) {
        webhook_release(hook);
        return;
    }
    if (error < 0) {
        log_error("webhook %s: %s", ours(hook->own.row.id),
                  err->msg); /* the next event asks again */
    }
    for (size_t i = 0; i < n; i++) {
        lanes_add(&hook->lanes, &all[i]);
        hook->cursor = all[i].seq;
    }
    hook->more = hook->more || n == WEBHOOK_PULL_MAX;
    pump(hook);
    webhook_release(hook);
}

static void pull_more(struct webhook *hook)
{
    if (!hook->more || hook->pulling || hook->gone || !hook->own.row.enabled ||
        hook->lanes.items_n + WEBHOOK_PULL_MAX > WEBHOOK_WINDOW_MAX) {
        return;
    }
    hook->pulling = true;
    hook->more = false;
    webhook_hold(hook);
    store_deliveries_pending(hook->all->use.store, hook->own.row.id, hook->cursor, WEBHOOK_PULL_MAX,
                             on_pulled, hook);
}

void deliver_pull(struct webhook *hook)
{
    hook->more = true;
    pull_more(hook);
}

/* ---- a single try ---- */

static void flight_free(struct flight *flight)
{
    struct webhook *hook = flight->hook;

    DL_DELETE(hook->flights, flight);
    hook->flights_n--;
    free(flight);
    webhook_release(hook);
}

static void on_marked(void *ctx, int error, const struct err *err)
{
    struct flight *flight = ctx;
    struct webhook *hook = flight->hook;

    if (error < 0) {
        log_error("webhook %s: %s", ours(hook->own.row.id), err->msg);
    }
    webhook_hold(hook);
    if (!hook->gone) {
        flight->lane->busy = false;
        if (flight->over) {
            lane_shift(&hook->lanes, flight->lane);
        }
    }
    flight_free(flight);
    if (!hook->gone) {
        pump(hook);
    }
    webhook_release(hook);
}

static int64_t retry_in(int64_t attempts)
{
    int64_t wait = WEBHOOK_RETRY_MS;

    while (--attempts > 0 && wait < WEBHOOK_RETRY_MS_MAX) {
        wait *= 2;
    }
    return wait < WEBHOOK_RETRY_MS_MAX ? wait : WEBHOOK_RETRY_MS_MAX;
}

/* Records the result of a try. */
static void settle(struct flight *flight, const struct post_result *result, bool hopeless)
{
    struct delivery *delivery = lane_head(flight->lane);
    int64_t now = clock_wall_ms();

    delivery->attempts++;
    delivery->next_ms = now + retry_in(delivery->attempts);
    hopeless = hopeless || now - delivery->created_ms > WEBHOOK_GIVE_UP_MS;
    flight->over = !result->error || hopeless;
    flight->lane->due_mono_ms = lane_due(delivery);

    struct delivery_mark mark = {
        .seq = delivery->seq,
        .state = !result->error ? "delivered"
                 : hopeless     ? "failed"
                                : "pending",
        .attempts = delivery->attempts,
        .next_ms = delivery->next_ms,
        .last_ms = now,
        .status = result->status,
        .error = result->error,
    };
    store_delivery_mark(flight->hook->all->use.store, &mark, on_marked, flight);
}

static void on_posted(void *ctx, const struct post_result *result)
{
    struct flight *flight = ctx;

    flight->post = NULL;
    settle(flight, result, false);
}

static void on_event(void *ctx, int error, const struct err *err, const char *body)
{
    struct flight *flight = ctx;
    struct webhook *hook = flight->hook;
    struct webhook_post post;

    if (hook->gone) {
        flight_free(flight);
    } else if (error < 0) {
        settle(flight, &(struct post_result){.error = err->msg}, false);
    } else if (!body) {
        settle(flight, &(struct post_result){.error = "the event is not kept any more"}, true);
    } else {
        webhook_post_make(hook, lane_head(flight->lane)->id, body, &post);
        flight->post = post_send(hook->all->poster, &post.request, on_posted, flight);
    }
}

static void take_off(struct webhook *hook, struct lane *lane)
{
    struct flight *flight = xnew(struct flight);

    *flight = (struct flight){.hook = hook, .lane = lane};
    webhook_hold(hook);
    lane->busy = true;
    DL_APPEND(hook->flights, flight);
    hook->flights_n++;
    store_event_read(hook->all->use.store, lane_head(lane)->event_seq, on_event, flight);
}

/* ---- which is next ---- */

static void on_timer(uv_timer_t *timer)
{
    pump(container_of(timer, struct webhook, timer));
}

static void pump(struct webhook *hook)
{
    struct lane *lane = NULL, *next = NULL;
    int64_t now = clock_mono_ms();
    int64_t earliest = INT64_MAX;

    (void)uv_timer_stop(&hook->timer);
    if (!hook->own.row.enabled) {
        return;
    }
    DL_FOREACH_SAFE (hook->lanes.first, lane, next) {
        if (lane->busy) {
            continue;
        }
        if (lane->due_mono_ms <= now && hook->flights_n < WEBHOOK_FLIGHTS_MAX) {
            take_off(hook, lane);
        } else if (lane->due_mono_ms < earliest) {
            earliest = lane->due_mono_ms;
        }
    }
    pull_more(hook);
    if (earliest != INT64_MAX && hook->flights_n < WEBHOOK_FLIGHTS_MAX) {
        int64_t left = earliest > now ? earliest - now : 0;
        (void)uv_timer_start(&hook->timer, on_timer, (uint64_t)left, 0);
    }
}

/* ---- the webhook's part ---- */

static void on_timer_closed(uv_handle_t *handle)
{
    webhook_release(container_of(handle, struct webhook, timer));
}

void deliver_init(struct webhook *hook)
{
    if (uv_timer_init(hook->all->use.loop, &hook->timer) < 0) {
        abort();
    }
    webhook_hold(hook); /* until libuv has closed the timer */
}

void deliver_rouse(struct webhook *hook)
{
    struct lane *lane = NULL, *next = NULL;

    DL_FOREACH_SAFE (hook->lanes.first, lane, next) {
        lane->due_mono_ms = clock_mono_ms();
    }
    hook->more = true;
    pump(hook);
}

void deliver_stop(struct webhook *hook)
{
    struct flight *flight = NULL, *next = NULL;

    hook->gone = true;
    webhook_hold(hook);
    DL_FOREACH_SAFE (hook->flights, flight, next) {
        if (flight->post) {
            post_cancel(flight->post);
            flight_free(flight);
        }
    }
    lanes_fini(&hook->lanes);
    uv_close((uv_handle_t *)&hook->timer, on_timer_closed);
    webhook_release(hook);
}
