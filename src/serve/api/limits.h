/* limits.h - the most that a team or an API key may have at one time. Pure.
 *
 * In JSON an object: {"sandboxes": 10, "cpus": null}. A limit that is null or not there is none; 0
 * allows nothing. Each is for a sum:
 *
 *   sandboxes   that run or start
 *   cpus        of these and of builds
 *   memoryMB    likewise
 *   diskMB      running sandboxes and builds: what each may take at most; paused sandboxes,
 *               snapshots and templates: what they take; volumes: their size
 *   builds      that run or wait for their turn
 */
#ifndef API_LIMITS_H
#define API_LIMITS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

enum limit {
    LIMIT_SANDBOXES,
    LIMIT_CPUS,
    LIMIT_MEMORY_MB,
    LIMIT_DISK_MB,
    LIMIT_BUILDS,
    LIMITS,
};

enum { LIMIT_NONE = -1, LIMIT_MAX = 1000 * 1000 * 1000, LIMITS_TEXT_BYTES = 256 };

struct limits {
    int64_t most[LIMITS]; /* LIMIT_NONE: no limit */
};

/* Amounts in use, or asked for. */
struct amounts {
    int64_t of[LIMITS];
};

const char *limit_name(enum limit limit);
struct limits limits_none(void);
bool limits_any(const struct limits *limits);

/* Changes the limits that the object names. -EINVAL with the sentence for an unknown name, or a
 * value that is no number from 0 to LIMIT_MAX. A NULL object names none. */
must_check int limits_parse(const json_t *object, struct limits *out, struct err *err);

/* All of them by name, with null for none. */
json_t *limits_json(const struct limits *limits);
json_t *amounts_json(const struct amounts *amounts);

/* For the store, and back. A text that is damaged has no limits. */
void limits_write(const struct limits *limits, char out[LIMITS_TEXT_BYTES]);
struct limits limits_read(const char *text);

/* The first limit that `used` and `more` together pass; -1: none. */
int limits_passed(const struct limits *limits, const struct amounts *used,
                  const struct amounts *more);

#endif
