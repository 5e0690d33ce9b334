/* transform.h - the rules of a sandbox's network: the headers that are added to requests for a
 * name. Pure.
 *
 *   network.rules  {"api.example.com": [{"transform": {"headers": {"authorization": "..."}}}],
 *                   "*.example.org": ...}
 *
 * An exact name beats a wildcard, and among those the longest suffix; rule sets are not merged. A
 * wildcard stands for names below it, at any depth, not for the name itself. The fields were
 * checked when they came in (serve/api/network.h); what cannot be understood here is no rule.
 *
 * A value may hold placeholders, ${e2b.secrets.NAME} and ${e2b.identity.tokens.NAME}: their values
 * are asked for with each request. Other text with a dollar and braces is just text.
 */
#ifndef EGRESS_TRANSFORM_H
#define EGRESS_TRANSFORM_H

#include <jansson.h>
#include <stdbool.h>

#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/base/str.h"

enum { TRANSFORM_VALUE_BYTES_MAX = 24 * 1024 }; /* of one header, once it is filled in */

struct transform_header {
    char *name, *value;
    bool filled; /* holds placeholders */
};

struct transform {
    char *domain; /* lower case, as the user wrote it */
    struct transform_header *headers;
    size_t headers_n;
};

struct transforms;

struct transforms *transforms_new(const json_t *options);
void transforms_free(struct transforms *all);
bool transforms_any(const struct transforms *all);

/* The rule for a name that sets something, or NULL. */
const struct transform *transforms_find(const struct transforms *all, struct str name);

/* Whether the rule sets that header: the one that a request brings is then dropped. */
bool transform_sets(const struct transform *transform, struct str header);
bool transform_fills(const struct transform *transform); /* has placeholders */
bool transform_has_placeholder(const char *value);

/* Appends what a placeholder stands for; `what` is the text between its braces. An error needs a
 * sentence, which the sandbox will read. */
typedef int transform_fill(void *ctx, struct str what, struct buf *out, struct err *err);

/* The value of a header for one request. -EINVAL when what came out cannot stand in a header. */
must_check int transform_value(const struct transform_header *header, transform_fill *fill,
                               void *ctx, struct buf *out, struct err *err);

#endif
