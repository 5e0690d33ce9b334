#include "tools/reply.h"

#include <stdarg.h>
#include <stdio.h>

#include "lib/base/clock.h"
#include "lib/base/json.h"

enum { NOTE_BYTES_MAX = 4096, URL_BYTES = REMOTE_DOMAIN_BYTES + ID_SANDBOX_LEN + 32 };

json_t *reply_new(const struct remote_sandbox *sandbox)
{
    char stamp[CLOCK_STAMP_BYTES];
    json_t *reply = json_object();

    clock_stamp(sandbox->expires_ms, stamp);
    (void)json_object_set_new(reply, "sandbox_id", json_string(sandbox->id));
    (void)json_object_set_new(reply, "expires_at", json_string(stamp));
    return reply;
}

/* Headers name the sandbox, for clients that cannot resolve a name below the domain or do not trust
 * its certificate. */
static json_t *url_json(const struct remote_sandbox *sandbox, const json_t *port)
{
    json_t *out = json_object();
    char text[URL_BYTES];

    (void)json_object_set_new(out, "port", json_integer(json_integer_value(port)));
    if (sandbox->domain[0]) {
        (void)snprintf(text, sizeof(text), "https://%lld-%s.%s",
                       (long long)json_integer_value(port), sandbox->id, sandbox->domain);
        (void)json_object_set_new(out, "url", json_string(text));
    }
    (void)snprintf(text, sizeof(text), "%lld", (long long)json_integer_value(port));
    (void)json_object_set_new(
        out, "headers",
        json_pack("{ssss}", "E2b-Sandbox-Id", sandbox->id, "E2b-Sandbox-Port", text));
    (void)json_object_set_new(
        out, "how",
        json_string(sandbox->domain[0]
                        ? "open the url, or send requests to the address that this tool "
                          "was called at, with these headers"
                        : "the service has no domain: send requests to the address that "
                          "this tool was called at, with these headers"));
    return out;
}

json_t *reply_urls(const struct remote_sandbox *sandbox, const json_t *ports)
{
    json_t *urls = json_array();

    for (size_t i = 0; i < json_array_size(ports); i++) {
        (void)json_array_append_new(urls, url_json(sandbox, json_array_get(ports, i)));
    }
    return urls;
}

void field_copy(json_t *to, const char *name, const json_t *from, const char *field)
{
    json_t *value = json_object_get(from, field);

    if (value) {
        (void)json_object_set(to, name, value);
    }
}

void reply_note(json_t *reply, const char *fmt, ...)
{
    const char *before = json_string_of(reply, "note");
    scoped_buf(text, NOTE_BYTES_MAX);
    va_list ap;

    va_start(ap, fmt);
    if ((!before || buf_printf(&text, "%s ", before) == 0) && buf_vprintf(&text, fmt, ap) == 0) {
        (void)json_object_set_new(reply, "note", json_stringn(buf_at(&text), buf_len(&text)));
    }
    va_end(ap);
}

void reply_result(json_t *reply, const struct remote_result *result)
{
    bool success = result->exit_code == 0 && !result->timed_out;

    (void)json_object_set_new(reply, "success", json_boolean(success));
    (void)json_object_set_new(reply, "stdout",
                              json_stringn(buf_at(&result->out), buf_len(&result->out)));
    (void)json_object_set_new(reply, "stderr",
                              json_stringn(buf_at(&result->err), buf_len(&result->err)));
    (void)json_object_set_new(reply, "exit_code", json_integer(result->exit_code));
    (void)json_object_set_new(reply, "duration_ms", json_integer(result->duration_ms));
    (void)json_object_set_new(reply, "timed_out", json_boolean(result->timed_out));
    (void)json_object_set_new(reply, "truncated", json_boolean(result->out_cut || result->err_cut));
}
