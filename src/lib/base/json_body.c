#include "lib/base/json_body.h"

#include <errno.h>

#include "lib/base/json.h"
#include "lib/base/json_text.h"

int body_parse(struct str text, bool optional, json_t **out, struct err *err)
{
    json_error_t why;

    if (text.len == 0) {
        if (!optional) {
            return err_set(err, EINVAL, "validation error: the request has no body");
        }
        *out = json_object();
        return 0;
    }
    if (json_text_values(text) > JSON_TEXT_VALUES_MAX) {
        return err_set(err, EINVAL, "validation error: the body has more than %d values",
                       JSON_TEXT_VALUES_MAX);
    }
    scoped_json *body = json_loadb(text.at, text.len, JSON_REJECT_DUPLICATES, &why);
    if (!body && json_error_code(&why) == json_error_null_character) {
        return err_set(err, EINVAL, "validation error: a string holds a NUL character (line %d)",
                       why.line);
    }
    if (!body) {
        return err_set(err, EINVAL, "validation error: the body is not valid JSON: %s (line %d)",
                       why.text, why.line);
    }
    if (!json_is_object(body)) {
        return err_set(err, EINVAL, "validation error: the body must be a JSON object");
    }
    *out = move_ptr(&body);
    return 0;
}
