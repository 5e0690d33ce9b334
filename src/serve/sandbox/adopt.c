/* adopt.c - the daemon's start: the rows of the store are compared with what is alive.
 *
 *      load rows ─► (keeper connects) ─► LIST_SAVED ─► ATTACH each that runs
 *          ─► LIST, DESTROY unknown jails ─► FORGET unreferenced saves ─► ready
 *
 * A sandbox on record as running that cannot be attached was paused, if the keeper has a pause of
 * it: the daemon before ended between the two. The jail of a paused sandbox is a leftover of a
 * pause or of a resume that did not finish; it is destroyed. Loaded sandboxes are found and listed
 * from the first moment; a dial waits until its sandbox is attached. When the keeper goes away in
 * the middle, the whole pass is made again: each step may be repeated. A keeper that comes back
 * later changes little: the channels belong to the daemon and outlive it, so only the requests that
 * could not be sent while it was away are sent again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "serve/sandbox/internal.h"

static void adopt_set_phase(struct sandboxes *all, enum adoption phase)
{
    if (phase_allows(adopt_phases, all->adoption, phase, "adoption", "of sandboxes")) {
        all->adoption = phase;
    }
}

/* ---- unknown jails ---- */

static void list_next(struct sandboxes *all);

static void adopt_again(struct sandboxes *all)
{
    adopt_set_phase(all, ADOPT_WAITING);
    if (keeper_client_connected(all->use.keeper)) {
        adopt_start(all); /* it is back already */
    }
}

static void adopt_done(struct sandboxes *all)
{
    adopt_set_phase(all, ADOPT_READY);
    saved_sweep(all);
    struct sandboxes_figures figures = sandboxes_figures(all);
    log_info("on record: %u running, %u paused", figures.running, figures.paused);
    if (all->ready) {
        all->ready(all->ready_ctx);
    }
    start_waiting(all);
    sandboxes_prestart(all);
    parked_want(all);
}

/* A client may ask for a paused sandbox while jails are listed. Its start waits until adoption is
 * over, so a jail that is listed now is not the one it asked for. */
static bool is_saved(const struct sandbox *sb)
{
    return sb->state == SANDBOX_PAUSED || sb->state == SANDBOX_RESUMING;
}

static void consider(struct sandboxes *all, const struct keeper_answer *answer)
{
    static const struct keeper_jail unknown;
    char id[KEEPER_ID_BYTES + 1] = "";

    memcpy(id, answer->id, KEEPER_ID_BYTES);
    const struct sandbox *sb = table_find(&all->table, str_of(id));
    if ((!sb || is_saved(sb)) && !destroy_has(all, id)) {
        log_warn("jail %s is on %s: destroyed", id, sb ? "record as paused" : "no record");
        destroy_jail(all, id, &unknown, SLOT_NONE);
    }
}

static void on_listed(void *ctx, const struct keeper_answer *answer, int fds[KEEPER_FDS_MAX])
{
    struct sandboxes *all = ctx;

    (void)fds;
    if (all->closed) {
        sandboxes_release(all);
        return;
    }
    if (answer->status == 0) {
        consider(all, answer);
        memcpy(all->list_after, answer->id, sizeof(all->list_after) - 1);
        list_next(all);
    } else if (answer->status == -ENOTCONN || answer->status == -ECONNRESET) {
        adopt_again(all);
    } else {
        if (answer->status < 0 && answer->status != -ENOENT) {
            log_error("list the jails: %s", answer->err.msg);
        }
        adopt_done(all);
    }
    sandboxes_release(all);
}

static void list_next(struct sandboxes *all)
{
    struct keeper_request req = {.op = KEEPER_LIST};

    memcpy(req.id, all->list_after, sizeof(req.id));
    all->refs++;
    keeper_client_ask(all->use.keeper, &req, on_listed, all);
}

/* ---- sandboxes on record ---- */

static bool attach_one(void *ctx, struct sandbox *sb)
{
    struct sandboxes *all = ctx;

    if (all->attaching_n == SANDBOX_ADOPT_WINDOW) {
        return false;
    }
    all->adopt_cursor.created_ms = sb->created_ms;
    memcpy(all->adopt_cursor.id, sb->id, sizeof(sb->id));
    if (sb->state == SANDBOX_RUNNING && !sb->channel) {
        sandbox_attach(sb);
    }
    return true;
}

void adopt_pump(struct sandboxes *all)
{
    if (all->closed || all->adoption != ADOPT_ATTACHING) {
        return;
    }
    table_each(&all->table, true, &all->adopt_cursor, attach_one, all);
    if (all->attaching_n == 0) {
        adopt_set_phase(all, ADOPT_JAILS);
        all->list_after[0] = '\0';
        list_next(all);
    }
}

static void on_saved_loaded(struct sandboxes *all, int error)
{
    if (error == -ENOTCONN || error == -ECONNRESET) {
        adopt_again(all);
        return;
    }
    adopt_set_phase(all, ADOPT_ATTACHING);
    all->adopt_cursor = (struct sandbox_position){.created_ms = INT64_MIN};
    adopt_pump(all);
}

void adopt_start(struct sandboxes *all)
{
    adopt_set_phase(all, ADOPT_SAVES);
    saved_load(all, on_saved_loaded);
}

static bool attach_again(void *ctx, struct sandbox *sb)
{
    bool lost = save_is(sb, SAVE_UNKNOWN); /* its outcome is known once it is attached */

    (void)ctx;
    if (lost || (sb->state == SANDBOX_RUNNING && !sb->channel)) {
        sandbox_attach(sb);
    }
    return true;
}

/* They are in no list. */
static void internal_attach_again(struct sandboxes *all)
{
    struct sandbox *sb = NULL, *next = NULL;

    HASH_ITER (hh, all->table.by_id, sb, next) {
        if (sb->internal) {
            (void)attach_again(NULL, sb);
        }
    }
}

void sandboxes_keeper_changed(struct sandboxes *all, bool connected)
{
    if (!connected) {
        return;
    }
    destroy_resend(all);
    saved_resend(all);
    if (all->adoption == ADOPT_WAITING) {
        adopt_start(all);
    } else if (all->adoption == ADOPT_READY) {
        table_each(&all->table, true, NULL, attach_again, NULL);
        internal_attach_again(all);
        start_waiting(all);
        parked_refill(all);
    }
}

/* ---- all sandboxes ---- */

static void load_one(void *ctx, const struct sandbox_row *row)
{
    struct sandboxes *all = ctx;
    struct sandbox *sb = sandbox_new(all);

    if (!sandbox_load(sb, row) || table_find(&all->table, str_of(sb->id))) {
        log_error("load sandbox '%s': its row has no id that can be used", row->id);
        sandbox_close(sb);
        return;
    }
    slots_mark(&all->slots, sb->uid_slot);
    table_add(&all->table, sb);
    usage_sums_update(sb);
    all->created_ms = sb->created_ms > all->created_ms ? sb->created_ms : all->created_ms;
    table_show(&all->table, sb);
    sb->init_due = sb->adopted = sb->state == SANDBOX_RUNNING;
    sandbox_arm(sb);
}

static bool end_expired(void *ctx, struct sandbox *sb)
{
    if (sb->state == SANDBOX_RUNNING && sb->end_ms <= *(int64_t *)ctx &&
        !json_is_true(json_object_get(sb->options, "autoPause"))) {
        sandbox_kill(sb, SANDBOX_END_TIMEOUT, NULL, NULL);
    }
    return true;
}

int sandboxes_new(const struct sandboxes_options *options, void (*ready)(void *ctx), void *ctx,
                  struct sandboxes **out, struct err *err)
{
    struct sandboxes *all = xnew(struct sandboxes);
    int64_t now = clock_wall_ms();

    all->use = *options;
    all->ready = ready;
    if (options->instance) {
        slots_begin(&all->slots, options->instance);
    }
    all->ready_ctx = ctx;
    all->refs = 5; /* the caller's, and the timers' */
    if (uv_timer_init(options->loop, &all->destroy_timer) < 0 ||
        uv_timer_init(options->loop, &all->record_timer) < 0 ||
        uv_timer_init(options->loop, &all->prestart_timer) < 0 ||
        uv_timer_init(options->loop, &all->pack_timer) < 0) {
        abort();
    }
    all->destroy_timer.data = all->record_timer.data = all->prestart_timer.data = all;
    all->pack_timer.data = all;
    pack_start(all);
    parked_new(all);
    int r = store_load_sandboxes(options->store, load_one, all, err);
    if (r < 0) {
        sandboxes_free(all);
        return r;
    }
    table_each(&all->table, true, NULL, end_expired, &now);
    *out = all;
    if (keeper_client_connected(options->keeper)) {
        adopt_start(all);
    }
    return 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
    sandboxes_release(handle->data);
}

void sandboxes_free(struct sandboxes *all)
{
    struct sandbox *sb = NULL, *next = NULL;

    if (!all) {
        return;
    }
    all->closed = true;
    HASH_ITER (hh, all->table.by_id, sb, next) {
        start_drop(sb);
        if (!sandbox_is_users(sb)) { /* nobody is left who could use it */
            destroy_jail(all, sb->id, &sb->jail, sb->uid_slot);
        }
        sandbox_leave(sb);
    }
    destroy_free(all);
    saved_free(all);
    record_free(all);
    prestart_free(all);
    parked_close(all);
    uv_close((uv_handle_t *)&all->destroy_timer, on_timer_closed);
    uv_close((uv_handle_t *)&all->record_timer, on_timer_closed);
    uv_close((uv_handle_t *)&all->prestart_timer, on_timer_closed);
    uv_close((uv_handle_t *)&all->pack_timer, on_timer_closed);
    sandboxes_release(all);
}

void sandboxes_release(struct sandboxes *all)
{
    if (--all->refs == 0) {
        table_fini(&all->table);
        parked_free(all);
        usage_sums_free(all);
        free(all);
    }
}
