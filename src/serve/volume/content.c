/* content.c - requests for a volume's content, passed to the agent of a jail that has the volume.
 *
 *      client ◄──┤ visit ├──► agent in the service jail
 *
 * A volume has a struct content_jail while its content is in use: its service jail, the requests
 * that are under way, and those that wait for the jail to start. Without requests the jail is
 * closed after a while.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/foreign.h"
#include "lib/base/log.h"
#include "lib/http/forward.h"
#include "serve/sandbox/service.h"
#include "serve/volume/internal.h"

enum {
    HEADERS_MAX = 16,
    START_TRIES = 10, /* a keeper that was started again is back by then */
    START_RETRY_MS = 200,
};

struct visit {
    struct visit *prev, *next; /* in jail->visits */
    struct content_jail *jail; /* NULL: closed under it */
    struct forward forward;
    bool dialing; /* the channel's answer will come */
    bool over;    /* only that answer is waited for */
};

struct content_jail {
    struct entry *entry;
    struct service *service; /* NULL: between two tries to start it */
    int tries;
    bool ready;
    struct visit *visits;
    uint32_t visits_n;
    uv_timer_t *timer; /* to the next try, or to the end when idle; its own allocation: closing it
                          outlives the jail */
};

/* ---- answers of our own ---- */

static void fail(struct visit *visit, int status, const char *message)
{
    char code[8];

    if (!forward_may_answer(&visit->forward)) {
        return;
    }
    (void)snprintf(code, sizeof(code), "%d", status);
    json_t *body = json_object();
    (void)json_object_set_new(body, "code", json_string(code)); /* a text, in this API alone */
    (void)json_object_set_new(body, "message", json_string(message));
    char *text = json_dumps(body, JSON_COMPACT);
    http_reply(visit->forward.ex, status, "application/json; charset=utf-8", text,
               text ? strlen(text) : 0);
    free(text);
    json_decref(body);
}

/* ---- life ---- */

static void content_jail_wait(struct content_jail *jail);

static void visit_free(struct visit *visit)
{
    visit->over = true;
    forward_fini(&visit->forward);
    if (visit->jail) {
        DL_DELETE(visit->jail->visits, visit);
        visit->jail->visits_n--;
        content_jail_wait(visit->jail);
        visit->jail = NULL;
    }
    if (!visit->dialing) {
        free(visit);
    }
}

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle);
}

void content_jail_close(struct entry *entry)
{
    struct content_jail *jail = move_ptr(&entry->jail);
    struct visit *visit = NULL, *next = NULL;

    if (!jail) {
        return;
    }
    uv_close((uv_handle_t *)jail->timer, on_timer_closed);
    DL_FOREACH_SAFE (jail->visits, visit, next) {
        DL_DELETE(jail->visits, visit);
        visit->jail = NULL;
        forward_fini(&visit->forward);
        fail(visit, 503, "the volume's service ended; try again");
        if (!visit->forward.ex) {
            visit_free(visit);
        }
    }
    entry->all->content_jails_n--;
    service_free(jail->service); /* last: dials that wait are answered inside */
    free(jail);
}

static void on_idle(uv_timer_t *timer)
{
    struct content_jail *jail = timer->data;

    content_jail_close(jail->entry);
}

static void content_jail_wait(struct content_jail *jail)
{
    if (!jail->visits) {
        (void)uv_timer_start(jail->timer, on_idle, VOLUME_SERVICE_IDLE_MS, 0);
    }
}

/* ---- there and back ---- */

static bool is_passed(struct str name)
{
    static const char *const names[] = {
        "content-type", "content-encoding", "content-range", "accept-ranges",
        "etag",         "last-modified",    "vary"};

    for (size_t i = 0; i < countof(names); i++) {
        if (str_ieq(name, str_of(names[i]))) {
            return true;
        }
    }
    return false;
}

static void on_response(void *ctx, int status, const struct http_header *headers, size_t n,
                        int64_t content_length)
{
    struct visit *visit = ctx;
    struct http_header passed[HEADERS_MAX];
    size_t passed_n = 0;

    for (size_t i = 0; i < n && passed_n < HEADERS_MAX; i++) {
        if (is_passed(headers[i].name)) {
            passed[passed_n++] = headers[i];
        }
    }
    forward_respond(&visit->forward, status, passed, passed_n, content_length);
}

static void on_upstream_end(void *ctx, struct upstream *up, int error)
{
    struct visit *visit = ctx;

    upstream_close(up);
    if (error < 0) {
        fail(visit, 502, "the volume's service gave no answer");
    }
}

static void on_over(void *ctx)
{
    visit_free(ctx);
}

static const struct forward_events forward_events = {
    .on_response = on_response, .on_upstream_end = on_upstream_end, .on_over = on_over};

static void send_head(struct visit *visit, struct upstream *up)
{
    static const char *const names[] = {"content-type", "content-encoding", "range",
                                        "accept-encoding"};
    const struct http_request *req = http_request(visit->forward.ex);
    struct http_header headers[HEADERS_MAX] = {{STR("host"), STR("localhost")}};
    size_t n = 1;

    for (size_t i = 0; i < countof(names); i++) {
        struct str value = http_header_get(req, names[i]);
        if (value.at) {
            headers[n++] = (struct http_header){str_of(names[i]), value};
        }
    }
    if (forward_send(&visit->forward, up, headers, n) < 0) {
        upstream_close(up);
        fail(visit, 400, "the request's path is too long");
    }
}

static void on_dialed(void *ctx, int fd_or_error)
{
    struct visit *visit = ctx;
    struct upstream *up = NULL;
    struct err err;

    visit->dialing = false;
    if (visit->over || !visit->jail) {
        foreign_closep(&fd_or_error);
        if (visit->over) {
            visit_free(visit);
        }
    } else if (fd_or_error < 0 ||
               upstream_new(visit->jail->entry->all->use.loop, fd_or_error, &up, &err) < 0) {
        fail(visit, 503, "the volume's service cannot be reached; try again");
    } else {
        send_head(visit, up);
    }
}

static void visit_dial(struct visit *visit)
{
    visit->dialing = true;
    service_dial(visit->jail->service, on_dialed, visit);
}

/* ---- the service jails of volumes ---- */

static void on_retry(uv_timer_t *timer);

static void on_ready(void *ctx, int error, const struct err *err)
{
    struct content_jail *jail = ctx;
    struct visit *visit = NULL, *next = NULL;

    if ((error == -ENOTCONN || error == -ECONNRESET) && ++jail->tries < START_TRIES) {
        service_free(move_ptr(&jail->service));
        (void)uv_timer_start(jail->timer, on_retry, START_RETRY_MS, 0);
        return;
    }
    if (error < 0) {
        log_warn("volume %s: its service did not start: %s", jail->entry->volume.id, err->msg);
        content_jail_close(jail->entry);
        return;
    }
    jail->ready = true;
    DL_FOREACH_SAFE (jail->visits, visit, next) {
        visit_dial(visit);
    }
}

static void on_gone(void *ctx)
{
    struct content_jail *jail = ctx;

    content_jail_close(jail->entry);
}

static const struct service_handler service_handler = {.ready = on_ready, .gone = on_gone};

static void on_retry(uv_timer_t *timer)
{
    struct content_jail *jail = timer->data;
    struct err err;

    if (service_new(jail->entry->all->use.sandboxes, jail->entry->volume.id, &service_handler, jail,
                    &jail->service, &err) < 0) {
        log_warn("volume %s: its service did not start: %s", jail->entry->volume.id, err.msg);
        content_jail_close(jail->entry);
    }
}

static struct content_jail *content_jail_open(struct entry *entry, struct err *err)
{
    struct volumes *volumes = entry->all;

    if (volumes->content_jails_n == VOLUME_SERVICES_MAX) {
        (void)err_set(err, EAGAIN, "the content of %d volumes is in use, try again later",
                      VOLUME_SERVICES_MAX);
        return NULL;
    }
    struct content_jail *jail = xnew(struct content_jail);
    jail->entry = entry;
    if (service_new(volumes->use.sandboxes, entry->volume.id, &service_handler, jail,
                    &jail->service, err) < 0) {
        free(jail);
        return NULL;
    }
    jail->timer = xnew(uv_timer_t);
    if (uv_timer_init(volumes->use.loop, jail->timer) < 0) {
        abort();
    }
    jail->timer->data = jail;
    volumes->content_jails_n++;
    entry->jail = jail;
    return jail;
}

void volume_content(struct volumes *volumes, const struct volume *volume, struct http_exchange *ex)
{
    struct entry *entry = entry_known(volumes, volume->id);
    struct visit *visit = xnew(struct visit);
    struct err err = {0};

    forward_accept(&visit->forward, ex, &forward_events, visit);
    struct content_jail *jail = entry->jail ? entry->jail : content_jail_open(entry, &err);
    if (!jail) {
        fail(visit, 503, err.msg);
        return;
    }
    if (jail->visits_n == VOLUME_REQUESTS_MAX) {
        fail(visit, 429, "too many requests to this volume are under way");
        return;
    }
    visit->jail = jail;
    DL_APPEND(jail->visits, visit);
    jail->visits_n++;
    if (jail->service) {
        (void)uv_timer_stop(jail->timer);
    }
    if (jail->ready) {
        visit_dial(visit);
    }
}

const struct volume *volumes_admit(const struct volumes *volumes, struct str id, struct str token,
                                   struct err *err)
{
    char text[ID_UUID_LEN + 1] = "";
    const struct entry *entry = str_copy(text, sizeof(text), id) ? entry_of(volumes, text) : NULL;

    /* A volume that does not exist has no token: the answers are the same. */
    if (!entry || entry->as.removed) {
        (void)err_set(err, EACCES, "the volume token is not valid for this volume");
        return NULL;
    }
    return volume_token_check(&entry->volume, token, clock_wall_ms() / 1000, err) < 0
               ? NULL
               : &entry->volume;
}
