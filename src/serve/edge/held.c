/* held.c - requests whose client waits for the rest of its answer while the sandbox is paused.
 *
 *      answer ──► waits ──► rejoins ──► answer
 *                   │  ▲       │
 *                   │  └───────┤ the sandbox is paused once more
 *                   ▼          ▼
 *                 the client is told that the sandbox was paused
 *
 * A command's stream waits from the envelope with which its agent ends it because of the pause. A
 * cell's answer waits from the moment when the sandbox has been paused. Until the resume both
 * belong to a new backend of the sandbox, like requests that come meanwhile.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <utlist.h>

#include "lib/base/clock.h"
#include "serve/edge/internal.h"

enum {
    HELD_TARGET_MAX = 128,
    HELD_NUMBER_MAX = 24,
    TIMEOUT_DIGITS_MAX = 10, /* as the agent reads it */
};

#define TIMEOUT_HEADER "connect-timeout-ms"

/* ---- beginning and end ---- */

static bool takes_place(struct edge_request *p, const struct sandbox *sb)
{
    return shares_take(&p->edge->held, sandbox_info(sb).team_id, &p->place) == 0;
}

static void begin(struct edge_request *p)
{
    p->waits = true;
    p->rejoins = false;
    p->forward.keeps = true;
}

static void over(struct edge_request *p)
{
    p->waits = p->rejoins = p->forward.keeps = false;
    share_give(move_ptr(&p->place));
    (void)uv_timer_stop(&p->timer);
}

void held_fail(struct edge_request *p)
{
    struct forward *forward = &p->forward;

    over(p);
    forward_fini(forward);
    if (p->follow->is_cell) {
        if (forward_may_answer(forward)) { /* otherwise its answer has begun: it is reset */
            edge_fail(p->edge, forward->ex, EDGE_ERROR_CHANGING, str_of(p->id), p->port);
        }
    } else if (forward->ex && !forward->answer_ended) {
        forward->answer_ended = true;
        http_write(forward->ex, p->follow->end, p->follow->end_n);
        http_finish(forward->ex);
    }
}

/* ---- the pause ---- */

static bool may_wait(const struct edge_request *p)
{
    return p->backend && p->backend->watch.told && p->forward.request_ended &&
           shares_room(&p->edge->held, sandbox_info(p->backend->watch.sandbox).team_id) > 0;
}

/* The agent sends nothing behind the last envelope; what comes all the same is dropped. */
static void withheld(struct edge_request *p)
{
    begin(p);
    if (!takes_place(p, p->backend->watch.sandbox)) {
        held_fail(p);
    } else {
        backend_check(p->backend);
    }
}

void held_body(struct edge_request *p, const void *data, size_t len)
{
    struct str in = {data, len}, pass = {NULL, 0};

    while (in.len > 0 && p->forward.ex && !p->forward.answer_ended && (!p->waits || p->rejoins)) {
        enum follow_news news = follow_next(p->follow, &in, may_wait(p), &pass);

        if (news == FOLLOW_FAILED) {
            held_fail(p);
            return;
        }
        if (news == FOLLOW_JOINED) {
            over(p);
        }
        http_write(p->forward.ex, pass.at, pass.len);
        if (news == FOLLOW_WITHHELD) {
            withheld(p);
        }
    }
}

static void on_late(uv_timer_t *timer)
{
    struct edge_request *p = timer->data;

    if (p->held || sandbox_info(p->backend->watch.sandbox).exact == SANDBOX_RESUMING) {
        (void)uv_timer_start(timer, on_late, EDGE_HELD_LOOK_MS, 0);
    } else {
        held_fail(p);
    }
}

/* A cell waits if its interpreter can continue it, or has not answered yet: then the restored one
 * is asked whether it knows the cell. */
static bool joins(struct edge_request *p, const struct sandbox *sb)
{
    const struct forward *forward = &p->forward;

    if (p->waits || !p->follow || !p->follow->is_cell) {
        return p->waits;
    }
    if (p->held && (p->follow->named || !forward->answered) && !forward->answer_ended &&
        forward->request_ended && takes_place(p, sb)) {
        begin(p);
    }
    return p->waits;
}

void held_take(struct backend *from, struct sandbox *sb)
{
    struct edge_request *p = NULL, *next = NULL;

    DL_FOREACH_SAFE (from->requests, p, next) {
        if (joins(p, sb)) {
            request_move(p, backend_of(from->edge, sb));
            p->held = p->rejoins = false;
            (void)uv_timer_start(&p->timer, on_late, EDGE_HELD_MS, 0);
        }
    }
}

void held_wait(struct edge_request *p)
{
    request_drop(p);
    p->rejoins = false;
}

/* ---- the resume ---- */

/* Counts the held requests that follow the same process. */
static unsigned together(const struct edge_request *p)
{
    const struct edge_request *other = NULL;
    unsigned n = 0;

    DL_FOREACH (p->backend->requests, other) {
        n += other->waits && !other->follow->is_cell && other->follow->pid == p->follow->pid;
    }
    return n;
}

void held_rejoin(struct edge_request *p)
{
    if (p->waits) {
        request_drop(p);
        p->rejoins = true;
        p->reused = false;
        p->tries = 0;
        follow_again(p->follow);
        request_dial(p);
    }
}

/* The time limit of a command counts from its start. */
static int timeout_left(const struct edge_request *p, char out[HELD_NUMBER_MAX])
{
    struct str text = http_header_get(http_request(p->forward.ex), TIMEOUT_HEADER);
    int64_t ms = 0;

    if (text.len == 0 || text.len > TIMEOUT_DIGITS_MAX) {
        return 0;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9') {
            return 0;
        }
        ms = ms * 10 + (text.at[i] - '0');
    }
    if (ms == 0) {
        return 0;
    }
    ms -= clock_mono_ms() - p->began_ms + EDGE_HELD_TIMEOUT_SLACK_MS;
    return snprintf(out, HELD_NUMBER_MAX, "%" PRId64, ms > 0 ? ms : 1);
}

static int command_send(struct edge_request *p, struct upstream *up, struct headers *headers)
{
    char body[FOLLOW_REQUEST_MAX], number[HELD_NUMBER_MAX], timeout[HELD_NUMBER_MAX];
    int n = snprintf(number, sizeof(number), "%u", together(p));
    int timeout_n = timeout_left(p, timeout);

    headers_drop(headers, "atoll-replay");
    headers_drop(headers, TIMEOUT_HEADER);
    if (headers_add(headers, STR(REJOIN_HEADER), (struct str){number, (size_t)n}) < 0 ||
        (timeout_n > 0 &&
         headers_add(headers, STR(TIMEOUT_HEADER), (struct str){timeout, (size_t)timeout_n}) < 0)) {
        return -ENOBUFS;
    }
    size_t len = follow_request(p->follow, body);
    forward_continue(&p->forward, up, STR("POST"), STR(FOLLOW_CONNECT), headers->list, headers->n,
                     (struct str){body, len});
    return 0;
}

static void cell_send(struct edge_request *p, struct upstream *up, struct headers *headers)
{
    char target[HELD_TARGET_MAX];
    int n = snprintf(target, sizeof(target), EXECUTIONS_PATH "%s?from=%" PRIu64, p->follow->id,
                     p->follow->passed);

    headers_drop(headers, "content-type");
    forward_continue(&p->forward, up, STR("GET"), (struct str){target, (size_t)n}, headers->list,
                     headers->n, (struct str){NULL, 0});
}

int held_send(struct edge_request *p, struct upstream *up, struct headers *headers)
{
    (void)uv_timer_start(&p->timer, on_late, EDGE_HELD_MS, 0); /* for the answer */
    if (!p->follow->is_cell) {
        return command_send(p, up, headers);
    }
    cell_send(p, up, headers);
    return 0;
}

/* A command's stream is joined when its first envelope is there. */
bool held_answered(struct edge_request *p, int status, const struct http_header *headers, size_t n)
{
    if (status != 200 || (p->follow->is_cell && !follow_named(p->follow, headers, n))) {
        held_fail(p);
        return false;
    }
    if (p->follow->is_cell) {
        over(p);
    }
    if (p->forward.answered) {
        forward_go_on(&p->forward);
    }
    return !p->forward.answered;
}
