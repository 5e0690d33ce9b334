/* content.c - requests for a volume's content, passed to the agent of a jail that has the volume.
 *
 *      client ◄── http_exchange ──┤ visit ├── upstream ──► agent in the service jail
 *
 * A volume that somebody asks for has a desk: its service jail, who visits, who waits for the jail
 * to start. A desk without visitors closes after a while. Nothing is gathered: each side is given as
 * much credit as the other can take.
 */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "http/upstream.h"
#include "sandbox/service.h"
#include "volume/internal.h"

enum {
    HEADERS_MAX = 16,
    ERROR_BYTES_MAX = 1024,
};

struct visit {
    struct visit *prev, *next; /* in desk->visits */
    struct desk *desk;         /* NULL: closed under it */
    struct http_exchange *ex;  /* NULL: the client is gone */
    struct upstream *up;       /* NULL: not yet, or over */
    char what[8];
    bool dialing; /* the channel's answer will come */
    bool request_ended;
    bool request_finished; /* so the agent was told */
    bool answered;
    bool answer_ended;
    size_t request_credit; /* bytes the client may send and has not */
    size_t answer_credit;
};

struct desk {
    struct entry *entry;
    struct service *service;
    bool ready;
    struct visit *visits;
    uint32_t visits_n;
    uv_timer_t *idle; /* its own allocation: closing it outlives the desk */
};

/* ---- answers of our own ---- */

static void fail(struct visit *visit, int status, const char *message)
{
    char code[8];
    json_t *body = json_object();

    if (!visit->ex) {
        return;
    }
    if (visit->answered) {
        if (!visit->answer_ended) {
            visit->answer_ended = true;
            http_abort(visit->ex, -ECONNRESET);
        }
        json_decref(body);
        return;
    }
    visit->answered = visit->answer_ended = true;
    (void)snprintf(code, sizeof(code), "%d", status);
    (void)json_object_set_new(body, "code", json_string(code)); /* a text, in this API alone */
    (void)json_object_set_new(body, "message", json_string(message));
    char *text = json_dumps(body, JSON_COMPACT);
    http_reply(visit->ex, status, "application/json; charset=utf-8", text, text ? strlen(text) : 0);
    free(text);
    json_decref(body);
}

/* ---- life ---- */

static void desk_wait(struct desk *desk);

static void visit_free(struct visit *visit)
{
    upstream_close(move_ptr(&visit->up));
    if (visit->desk) {
        DL_DELETE(visit->desk->visits, visit);
        visit->desk->visits_n--;
        desk_wait(visit->desk);
        visit->desk = NULL;
    }
    if (!visit->dialing) {
        free(visit);
    }
}

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle);
}

void desk_close(struct entry *entry)
{
    struct desk *desk = move_ptr(&entry->desk);
    struct visit *visit = NULL, *next = NULL;

    if (!desk) {
        return;
    }
    uv_close((uv_handle_t *)desk->idle, on_timer_closed);
    DL_FOREACH_SAFE (desk->visits, visit, next) {
        DL_DELETE(desk->visits, visit);
        visit->desk = NULL;
        upstream_close(move_ptr(&visit->up));
        fail(visit, 503, "the volume's service ended; try again");
        if (!visit->ex) {
            visit_free(visit);
        }
    }
    entry->all->desks_n--;
    service_free(desk->service); /* last: dials that wait are answered inside */
    free(desk);
}

static void on_idle(uv_timer_t *timer)
{
    struct desk *desk = timer->data;

    desk_close(desk->entry);
}

static void desk_wait(struct desk *desk)
{
    if (!desk->visits) {
        (void)uv_timer_start(desk->idle, on_idle, VOLUME_SERVICE_IDLE_MS, 0);
    }
}

/* ---- request: client to agent ---- */

static void pump_request(void *ctx)
{
    struct visit *visit = ctx;
    size_t room = visit->up ? upstream_writable(visit->up) : 0;

    if (visit->ex && !visit->request_ended && room > visit->request_credit) {
        size_t more = room - visit->request_credit;
        visit->request_credit = room;
        http_credit(visit->ex, more);
    }
}

static void finish_request(struct visit *visit)
{
    if (visit->up && !visit->request_finished) {
        visit->request_finished = true;
        upstream_finish(visit->up);
    }
}

static void on_request_body(void *ctx, const void *data, size_t len)
{
    struct visit *visit = ctx;

    visit->request_credit -= len;
    if (visit->up) {
        upstream_write(visit->up, data, len);
        pump_request(visit);
    }
}

static void on_request_end(void *ctx)
{
    struct visit *visit = ctx;

    visit->request_ended = true;
    finish_request(visit);
}

static void on_exchange_end(void *ctx, int error)
{
    struct visit *visit = ctx;

    (void)error;
    visit->ex = NULL;
    visit_free(visit);
}

/* ---- response: agent to client ---- */

static void pump_response(void *ctx)
{
    struct visit *visit = ctx;
    size_t room = visit->ex ? http_writable(visit->ex) : 0;

    if (visit->up && visit->answered && room > visit->answer_credit) {
        size_t more = room - visit->answer_credit;
        visit->answer_credit = room;
        upstream_credit(visit->up, more);
    }
}

static bool is_passed(struct str name)
{
    static const char *const names[] = {"content-type",  "content-encoding", "content-range",
                                        "accept-ranges", "etag",             "last-modified",
                                        "vary"};

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
    visit->answered = true;
    http_respond(visit->ex, status, passed, passed_n, content_length);
    pump_response(visit);
}

static void on_response_body(void *ctx, const void *data, size_t len)
{
    struct visit *visit = ctx;

    visit->answer_credit -= len;
    http_write(visit->ex, data, len);
    pump_response(visit);
}

static void on_response_end(void *ctx)
{
    struct visit *visit = ctx;

    visit->answer_ended = true;
    http_finish(visit->ex);
}

static void on_upstream_end(void *ctx, int error)
{
    struct visit *visit = ctx;

    (void)error;
    upstream_close(move_ptr(&visit->up));
    if (!visit->answer_ended) {
        fail(visit, 502, "the volume's service gave no answer");
    }
}

static const struct upstream_handler upstream_handler = {.on_response = on_response,
                                                         .on_body = on_response_body,
                                                         .on_body_end = on_response_end,
                                                         .on_credit = pump_request,
                                                         .on_end = on_upstream_end};

/* ---- to the agent ---- */

static void send_head(struct visit *visit)
{
    static const char *const names[] = {"content-type", "content-encoding", "range",
                                        "accept-encoding"};
    const struct http_request *req = http_request(visit->ex);
    struct http_header headers[HEADERS_MAX] = {{STR("host"), STR("localhost")}};
    size_t n = 1;
    scoped_buf target;

    buf_init(&target, HTTP_TARGET_BYTES_MAX + 32);
    for (size_t i = 0; i < countof(names); i++) {
        struct str value = http_header_get(req, names[i]);
        if (value.at) {
            headers[n++] = (struct http_header){str_of(names[i]), value};
        }
    }
    if (buf_printf(&target, "/volume/%s?%.*s", visit->what, (int)req->query.len, req->query.at) <
        0) {
        abort(); /* the query is within its own limit */
    }
    upstream_send(visit->up, req->method, buf_str(&target), headers, n, req->content_length, false,
                  &upstream_handler, visit);
}

static void on_dialed(void *ctx, int fd_or_error)
{
    struct visit *visit = ctx;
    struct err err;

    visit->dialing = false;
    if (!visit->ex || !visit->desk) {
        fd_closep(&fd_or_error);
        if (!visit->ex) {
            visit_free(visit);
        }
        return;
    }
    if (fd_or_error < 0 ||
        upstream_new(visit->desk->entry->all->use.loop, fd_or_error, &visit->up, &err) < 0) {
        fail(visit, 503, "the volume's service cannot be reached; try again");
        return;
    }
    send_head(visit);
    if (visit->request_ended || http_request(visit->ex)->content_length == 0) {
        finish_request(visit);
    }
    pump_request(visit);
}

static void visit_dial(struct visit *visit)
{
    visit->dialing = true;
    service_dial(visit->desk->service, on_dialed, visit);
}

/* ---- desks ---- */

static void on_ready(void *ctx, int error, const struct err *err)
{
    struct desk *desk = ctx;
    struct visit *visit = NULL, *next = NULL;

    if (error < 0) {
        log_warn("volume %s: its service did not start: %s", desk->entry->volume.id, err->msg);
        desk_close(desk->entry);
        return;
    }
    desk->ready = true;
    DL_FOREACH_SAFE (desk->visits, visit, next) {
        visit_dial(visit);
    }
}

static void on_gone(void *ctx)
{
    struct desk *desk = ctx;

    desk_close(desk->entry);
}

static struct desk *desk_open(struct entry *entry, struct err *err)
{
    static const struct service_handler handler = {.ready = on_ready, .gone = on_gone};
    struct volumes *volumes = entry->all;

    if (volumes->desks_n == VOLUME_SERVICES_MAX) {
        (void)err_set(err, EAGAIN, "the content of %d volumes is in use, try again later",
                      VOLUME_SERVICES_MAX);
        return NULL;
    }
    struct desk *desk = xnew(struct desk);
    desk->entry = entry;
    if (service_new(volumes->use.sandboxes, entry->volume.id, &handler, desk, &desk->service, err) <
        0) {
        free(desk);
        return NULL;
    }
    desk->idle = xnew(uv_timer_t);
    if (uv_timer_init(volumes->use.loop, desk->idle) < 0) {
        abort();
    }
    desk->idle->data = desk;
    volumes->desks_n++;
    entry->desk = desk;
    return desk;
}

static const struct http_handler exchange_handler = {.needs_peer = true,
                                                     .on_body = on_request_body,
                                                     .on_body_end = on_request_end,
                                                     .on_credit = pump_response,
                                                     .on_end = on_exchange_end};

void volume_content(struct volumes *volumes, const struct volume *volume, const char *what,
                    struct http_exchange *ex)
{
    struct entry *entry = entry_of(volumes, volume->id);
    struct visit *visit = xnew(struct visit);
    struct err err = {0};

    visit->ex = ex;
    (void)str_copy(visit->what, sizeof(visit->what), str_of(what));
    http_accept(ex, &exchange_handler, visit);
    struct desk *desk = entry->desk ? entry->desk : desk_open(entry, &err);
    if (!desk) {
        fail(visit, 503, err.msg);
        return;
    }
    if (desk->visits_n == VOLUME_REQUESTS_MAX) {
        fail(visit, 429, "too many requests to this volume are under way");
        return;
    }
    visit->desk = desk;
    DL_APPEND(desk->visits, visit);
    desk->visits_n++;
    (void)uv_timer_stop(desk->idle);
    if (desk->ready) {
        visit_dial(visit);
    }
}

const struct volume *volumes_admit(const struct volumes *volumes, struct str id, struct str token,
                                   struct err *err)
{
    char text[ID_UUID_LEN + 1];
    const struct entry *entry =
        str_copy(text, sizeof(text), id) ? entry_of(volumes, text) : NULL;

    /* One that does not exist has no token: the answers are the same. */
    if (!entry || entry->removed) {
        (void)err_set(err, EACCES, "the volume token is not valid for this volume");
        return NULL;
    }
    return volume_token_check(&entry->volume, token, clock_wall_ms() / 1000, err) < 0
               ? NULL
               : &entry->volume;
}
