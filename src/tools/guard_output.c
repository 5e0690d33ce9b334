/* guard_output: searches a text for secrets before it is shown. The daemon searches, so that
 * secrets that this call did not pass stay there. */
#include <errno.h>
#include <string.h>

#include "lib/base/json.h"
#include "lib/guard/guard.h"
#include "tools/catalogue/handlers.h"
#include "tools/remote.h"
#include "tools/reply.h"

#define WARNING "[BLOCKED] The text held secrets and was withheld."

/* The secrets that were passed: an array, the caller's. */
static json_t *passed_of(const json_t *input)
{
    json_t *all = json_array();

    (void)json_array_extend(all, json_object_get(input, "secrets"));
    json_each (json_object_get(input, "additional_secrets"), it) {
        (void)json_array_append(all, json_object_iter_value(it));
    }
    return all;
}

static json_t *answer_of(const json_t *found, const char *mode)
{
    json_int_t count = json_integer_value(json_object_get(found, "count"));
    json_t *text = json_object_get(found, "text");
    bool show = json_is_string(text) && !(strcmp(mode, "block") == 0 && count > 0);

    return json_pack("{sb sI so ss sO sO}", "found", count > 0, "count", count, "text",
                     show ? json_incref(text) : json_string(WARNING), "mode", mode, "kinds",
                     json_object_get(found, "kinds"), "known", json_object_get(found, "known"));
}

static int search(struct tool_call *call, const json_t *input, json_t **out, struct err *err)
{
    scoped_json *body = json_pack("{sO si so}", "text", json_object_get(input, "text"), "least", 1,
                                  "secrets", passed_of(input));
    scoped_json *found = NULL;

    field_copy(body, "sandboxID", input, "sandbox_id");
    int r = call_internal(call, "POST", "/internal/guard", body, &found, err);
    if (r == 0) {
        *out = answer_of(found, json_string_of(input, "mode"));
    }
    return r;
}

int tool_guard_output(struct tool_call *call, const json_t *input, json_t **out, struct err *err)
{
    const char *sandbox = json_string_of(input, "sandbox_id");

    if (json_string_length(json_object_get(input, "text")) > GUARD_TEXT_BYTES_MAX) {
        return err_set(err, EMSGSIZE, "text: is larger than %d bytes", GUARD_TEXT_BYTES_MAX);
    }
    /* Nothing is said about a sandbox of another team, not even that it has no keys. */
    int r = sandbox ? remote_api(call, "GET", sandbox, "", NULL, NULL, err) : 0;
    return r < 0 ? r : search(call, input, out, err);
}
