/* guard_output: what is about to be shown to somebody, searched for secrets. */
#include <errno.h>
#include <string.h>

#include "lib/guard/guard.h"
#include "serve/api/fields.h"
#include "tools/box.h"
#include "tools/catalogue/handlers.h"
#include "tools/known.h"

#define WARNING "[BLOCKED] The text held secrets and was withheld."

static int secret_add(struct known *known, const json_t *secret, struct err *err)
{
    return known_add(known, (struct str){json_string_value(secret), json_string_length(secret)},
                     "a secret that was passed", err);
}

static int given_add(struct known *known, const json_t *given, struct err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < json_array_size(given); i++) {
        r = secret_add(known, json_array_get(given, i), err);
    }
    return r;
}

static int named_add(struct known *known, const json_t *given, struct err *err)
{
    int r = 0;

    json_each (given, it) {
        r = r < 0 ? r : secret_add(known, json_object_iter_value(it), err);
    }
    return r;
}

static json_t *answer_of(const struct buf *out, size_t count, const char *mode, json_t *kinds,
                         size_t known)
{
    bool block = strcmp(mode, "block") == 0 && count > 0;
    json_t *text =
        block ? json_string(WARNING) : json_stringn(buf_len(out) ? buf_at(out) : "", buf_len(out));

    /* A mark in the place of a part of a character leaves what is no text. */
    return json_pack("{sb sI so ss so sI}", "found", count > 0, "count", (json_int_t)count, "text",
                     text ? text : json_string(WARNING), "mode", mode, "kinds", kinds, "known",
                     (json_int_t)known);
}

static int search(struct tool_call *call, const json_t *input, struct known *known, json_t **out,
                  struct err *err)
{
    const json_t *text = json_object_get(input, "text");
    scoped_buf(clean, KNOWN_OUT_BYTES_MAX);
    json_t *kinds = NULL;
    size_t count = 0;

    int r = given_add(known, json_object_get(input, "secrets"), err);
    r = r < 0 ? r : named_add(known, json_object_get(input, "additional_secrets"), err);
    r = r < 0 ? r
              : known_redact(call, known,
                             (struct str){json_string_value(text), json_string_length(text)},
                             &clean, &count, &kinds, err);
    if (r == 0) {
        *out = answer_of(&clean, count, json_string_of(input, "mode"), kinds, known_count(known));
    }
    return r;
}

int tool_guard_output(struct tool_call *call, const json_t *input, json_t **out, struct err *err)
{
    const char *sandbox = json_string_of(input, "sandbox_id");
    struct known *known = NULL;

    if (json_string_length(json_object_get(input, "text")) > GUARD_TEXT_BYTES_MAX) {
        return err_set(err, EMSGSIZE, "text: is larger than %d bytes", GUARD_TEXT_BYTES_MAX);
    }
    /* Of whoever else's sandbox nothing is said, not even that it has no keys. */
    int r = sandbox ? box_api(call, "GET", sandbox, "", NULL, NULL, err) : 0;
    r = r < 0 ? r : known_new(call, sandbox, 1, &known, err);
    r = r < 0 ? r : search(call, input, known, out, err);
    known_free(known);
    return r;
}
