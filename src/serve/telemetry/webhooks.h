/* webhooks.h - endpoints of teams to which events are posted.
 *
 * Owns:     the webhooks in memory, and the deliveries under way.
 * Needs:    a loop and the store.
 * Blocks:   webhooks_new(), which reads the store; the rest never.
 * Threads:  the loop's.
 *
 * The transaction that writes an event also writes its delivery to each webhook. So a delivery
 * exists exactly when its event does, and this module only processes the deliveries in the store,
 * from where the last daemon stopped:
 *
 *   - at least once: a delivery is done when the endpoint has answered 2xx and that is stored;
 *   - in order for each sandbox: a delivery waits until the one before it is stored as done;
 *   - a sandbox whose delivery fails waits (WEBHOOK_RETRY_MS, doubled up to WEBHOOK_RETRY_MS_MAX,
 *     for WEBHOOK_GIVE_UP_MS) and holds up neither another sandbox nor another webhook.
 */
#ifndef TELEMETRY_WEBHOOKS_H
#define TELEMETRY_WEBHOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "serve/store/store.h"
#include "serve/telemetry/post.h"

enum {
    WEBHOOKS_PER_TEAM_MAX = 20,
    WEBHOOK_FLIGHTS_MAX = 8,   /* posts of one webhook at one time */
    WEBHOOK_PULL_MAX = 128,    /* deliveries read from the store at once */
    WEBHOOK_WINDOW_MAX = 1024, /* of one webhook in memory; the rest stays in the store */
    WEBHOOK_RETRY_MS = 1000,
    WEBHOOK_RETRY_MS_MAX = 10 * 60 * 1000,
    WEBHOOK_GIVE_UP_MS = 24 * 3600 * 1000,
};

struct webhooks;

struct webhooks_options {
    uv_loop_t *loop;
    struct store *store;
    bool allow_local; /* endpoints on this machine's own addresses */
};

must_check int webhooks_new(const struct webhooks_options *options, struct webhooks **out,
                            struct err *err);

/* Undelivered events stay in the store. NULL is fine; the loop must run once more. */
void webhooks_free(struct webhooks *all);

/* -EINVAL with a sentence for the client when webhooks may not call this URL. */
must_check int webhooks_check_url(const struct webhooks *all, const char *url, struct err *err);

/* Rows are valid until the loop runs on. */
const struct webhook_row *webhooks_find(struct webhooks *all, const char *team_id, const char *id);
void webhooks_each(struct webhooks *all, const char *team_id,
                   void (*each)(void *ctx, const struct webhook_row *row), void *ctx);
size_t webhooks_count(const struct webhooks *all, const char *team_id);

/* The row is copied. A new webhook is found once it is stored. A change applies at once, and is
 * undone when it cannot be stored. A deleted webhook is not called from this moment on. */
void webhook_create(struct webhooks *all, const struct webhook_row *row, store_done *done,
                    void *ctx);
/* Sends a delivery once more. One that is still pending is tried at once, under its own id; any
 * other is followed by a new delivery of the same event, behind those that its sandbox is owed.
 * `delivery_id` is the id it is sent with; NULL on failure, -ENOENT: there is none, or its event is
 * not kept any more. */
typedef void webhook_redelivered(void *ctx, int error, const struct err *err,
                                 const char *delivery_id);
void webhook_redeliver(struct webhooks *all, const char *id, const char *delivery_id,
                       webhook_redelivered *done, void *ctx);

void webhook_change(struct webhooks *all, const struct webhook_row *row, store_done *done,
                    void *ctx);
void webhook_delete(struct webhooks *all, const char *id, store_done *done, void *ctx);

/* Posts a test event once, and reports the result. */
typedef void webhook_tested(void *ctx, const char *delivery_id, const struct post_result *result);
void webhook_test(struct webhooks *all, const char *id, webhook_tested *done, void *ctx);

/* "e2b-signature": unpadded base64url of sha256(secret, body). out: WEBHOOK_SIGNATURE_BYTES. */
enum { WEBHOOK_SIGNATURE_BYTES = 48 };
void webhook_sign(const char *secret, const char *body, char out[WEBHOOK_SIGNATURE_BYTES]);

#endif
