/* internal.h - shared by the webhooks (webhooks.c) and their deliveries (deliver.c).
 *
 * A webhook counts its references: one of the mirror, one of its timer until libuv has closed it,
 * and one of each query to the store and of each flight. A webhook that is `gone` is not called any
 * more; late answers only release their reference.
 */
#ifndef TELEMETRY_INTERNAL_H
#define TELEMETRY_INTERNAL_H

#include "lib/base/id.h"
#include "serve/store/mirror.h"
#include "serve/telemetry/lanes.h"
#include "serve/telemetry/webhooks.h"

struct flight;
struct trial;

struct webhooks {
    struct webhooks_options use;
    struct poster *poster; /* NULL once webhooks_free() was called */
    struct mirror mirror;  /* oldest first */
    struct trial *trials;
    struct events_watch watch; /* its on_event is NULL until it watches */
    unsigned refs;             /* one of the owner, and one of each webhook */
};

struct own_row { /* a row, and the one piece of memory that holds its texts */
    struct webhook_row row;
    char *texts;
    size_t texts_len;
};

struct webhook {
    struct mirrored as;
    char id[ID_UUID_LEN + 1], team_id[ID_UUID_LEN + 1];
    struct webhooks *all;
    struct own_row own;
    unsigned refs;
    bool gone;

    /* deliver.c */
    int64_t cursor; /* the last delivery that was read */
    bool pulling;
    bool more; /* there may be deliveries behind the cursor */
    struct lanes lanes;
    struct flight *flights;
    size_t flights_n;
    uv_timer_t timer;
};

void webhooks_release(struct webhooks *all);
void webhook_hold(struct webhook *hook);
void webhook_release(struct webhook *hook);

/* The request for one try. headers and request are the caller's to keep until it is sent. */
struct webhook_post {
    char lines[4][128];
    struct post_request request;
};
void webhook_post_make(const struct webhook *hook, const char *delivery_id, const char *body,
                       struct webhook_post *out);

/* ---- deliver.c ---- */

void deliver_init(struct webhook *hook);
void deliver_pull(struct webhook *hook);  /* the store may have more deliveries */
void deliver_rouse(struct webhook *hook); /* it has changed: waiting deliveries are tried now */
void deliver_stop(struct webhook *hook);  /* for good */

#endif
