/* query.h - single parameters of a query, read strictly. */
#ifndef API_QUERY_H
#define API_QUERY_H

#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/str.h"
#include "serve/api/fields.h"

enum { QUERY_VALUE_BYTES_MAX = 4096 };

/* 1 with the decoded value in *out, 0 when it is not there, -EINVAL with the sentence. A value is
 * never NULL inside, and has no NUL byte. */
must_check int query_text(struct str query, const char *name, struct buf *out, struct err *err);

/* As above for a whole number of decimal digits within the range. */
must_check int query_int(struct str query, const char *name, struct int_range range, int64_t *out,
                         struct err *err);

/* As above for true or false. */
must_check int query_bool(struct str query, const char *name, bool *out, struct err *err);

/* `start` and `end` in seconds of Unix time; INT64_MIN and INT64_MAX when they are not given.
 * -EINVAL when they are no such numbers, or in the wrong order. */
struct query_range {
    int64_t start_s, end_s;
};
must_check int query_range(struct str query, struct query_range *out, struct err *err);

#endif
