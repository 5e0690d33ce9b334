#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/base/json.h"
#include "lib/base/log.h"
#include "serve/api/internal.h"

enum { STATUS_CLIENT_LEFT = 499 }; /* in the audit log alone, as other servers do */
enum { REAL_DIGITS = 8 };          /* shares and rates: 0.2 and not 0.20000000000000001 */

void call_header(struct call *call, const char *name, const char *value)
{
    assert(call->headers_n < API_HEADERS_MAX && strlen(value) < API_HEADER_BYTES);
    call->headers[call->headers_n].name = name;
    (void)snprintf(call->headers[call->headers_n].value, API_HEADER_BYTES, "%s", value);
    call->headers_n++;
}

void call_free(struct call *call)
{
    audit_note_error(call, "the client left before the call was answered");
    audit_end(call, STATUS_CLIENT_LEFT);
    api_release(call->api);
    free(call);
}

static void call_end(struct call *call, int status, const char *type, struct str body)
{
    struct http_header headers[API_HEADERS_MAX + 1];
    size_t n = 0;

    for (size_t i = 0; i < call->headers_n; i++, n++) {
        headers[n].name = str_of(call->headers[i].name);
        headers[n].value = str_of(call->headers[i].value);
    }
    if (call->route && call->route->flags & NO_STORE) {
        headers[n++] = (struct http_header){STR("Cache-Control"), STR("no-store")};
    }
    figures_note(call, status);
    if (call->ex) {
        http_reply_with(call->ex, status, headers, n, type, body.at, body.len);
    }
    call_free(call);
}

void call_text(struct call *call, int status, const char *type, struct str text)
{
    call_end(call, status, type, text);
}

void call_empty(struct call *call, int status)
{
    call_end(call, status, NULL, (struct str){0});
}

void call_json(struct call *call, int status, json_t *body)
{
    char *text = json_dumps(body, JSON_COMPACT | JSON_REAL_PRECISION(REAL_DIGITS));

    audit_note_answer(call, body);
    json_decref(body);
    if (!text) {
        abort(); /* made of values that were checked */
    }
    call_end(call, status, "application/json; charset=utf-8", str_of(text));
    free(text);
}

/* The content of volumes is an API of its own, whose errors have a text for their code. */
static json_t *code_json(const struct call *call, int status)
{
    bool is_text = call->route && call->route->access == ACCESS_VOLUME_TOKEN;

    return is_text ? json_sprintf("%d", status) : json_integer(status);
}

void call_fail_code(struct call *call, int status, const char *error_code, const char *message)
{
    json_t *body = json_object();

    audit_note_error(call, message);
    (void)json_object_set_new(body, "code", code_json(call, status));
    (void)json_object_set_new(body, "message", json_sentence(message));
    if (error_code) {
        (void)json_object_set_new(body, "error_code", json_string(error_code));
    }
    if (status == 503 && !call->permanent) {
        char seconds[12];

        (void)snprintf(seconds, sizeof(seconds), "%d", API_RETRY_AFTER_S);
        call_header(call, "Retry-After", seconds);
    }
    call_json(call, status, body);
}

void call_fail(struct call *call, int status, const char *fmt, ...)
{
    char message[API_MESSAGE_BYTES];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    call_fail_code(call, status, NULL, message);
}

void call_permanent(struct call *call)
{
    call->permanent = true;
    call_header(call, "Should-Retry", "false");
}

/* Clients repeat a call that was answered 429, 502, 503 or 504. That is in vain when the request
 * itself is at fault, and slow when the call took its whole time limit. */
static bool is_permanent(int error)
{
    return error == -EBUSY || error == -ENOTCONN || error == -ETIMEDOUT || error == -EUSERS;
}

void call_fail_logged(struct call *call, int error, const struct err *err)
{
    if (is_permanent(error)) {
        call_permanent(call);
    }
    call_fail_code(call, status_of_errno(STATUS_API, error), NULL, err->msg);
}

void call_fail_err(struct call *call, int error, const struct err *err)
{
    if (status_of_errno(STATUS_API, error) == 500) {
        log_error("%s %s: %s", call->route->method, call->route->path, err->msg);
    }
    call_fail_logged(call, error, err);
}

/* ---- answers that wait for the store ---- */

struct later {
    struct call *call;
    int status;
    json_t *reply; /* NULL: none */
};

void *call_later(struct call *call, int status, json_t *reply)
{
    struct later *later = xnew(struct later);

    *later = (struct later){call, status, reply};
    return later;
}

void call_due(void *ctx, int error, const struct err *err)
{
    struct later *later = ctx;

    if (error < 0) {
        json_decref(later->reply);
        call_fail_err(later->call, error, err);
    } else if (later->reply) {
        call_json(later->call, later->status, later->reply);
    } else {
        call_empty(later->call, later->status);
    }
    free(later);
}
