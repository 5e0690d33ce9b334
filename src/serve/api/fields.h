/* fields.h - reading a JSON body field by field, each with its type and its limits.
 *
 * Pure. A field that is absent or null leaves *out as it was, so the default is what the caller put
 * there. A wrong one is -EINVAL and "validation error: NAME must be ...".
 */
#ifndef API_FIELDS_H
#define API_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/json.h"
#include "lib/base/json_body.h"
#include "lib/base/str.h"

struct int_range {
    int64_t min, max;
};

must_check int field_bool(const json_t *object, const char *name, bool *out, struct err *err);
must_check int field_int(const json_t *object, const char *name, struct int_range range,
                         int64_t *out, struct err *err);
must_check int field_string(const json_t *object, const char *name, const char **out,
                            struct err *err);
must_check int field_object(const json_t *object, const char *name, const json_t **out,
                            struct err *err);
must_check int field_array(const json_t *object, const char *name, const json_t **out,
                           struct err *err);

/* An object whose values are all strings; at most `entries` of them, names and values at most
 * `bytes` together. */
must_check int field_string_map(const json_t *object, const char *name, size_t entries,
                                size_t bytes, const json_t **out, struct err *err);

/* "validation error: NAME must be WHAT" and -EINVAL. */
int field_refuse(struct err *err, const char *name, const char *what);

#endif
