/* encoding.h - the parts of HTTP's content negotiation that /files needs. Pure. */
#ifndef AGENT_ENCODING_H
#define AGENT_ENCODING_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/str.h"

enum encoding { ENCODING_IDENTITY, ENCODING_GZIP, ENCODING_NONE };

/* How to answer an Accept-Encoding (at == NULL: none). gzip is used only when the client accepts
 * nothing else or refuses identity. The lists that HTTP clients send by default also allow
 * identity, which is faster on the same machine. ENCODING_NONE: nothing is acceptable. */
enum encoding encoding_choose(struct str accept);
bool encoding_identity_acceptable(struct str accept);

/* Content-Encoding of an upload. ENCODING_NONE: not one that we read. */
enum encoding encoding_of_body(struct str content_encoding);

/* Reads one byte range of a file. 1: *first and *length are the part to send; 0: send the whole (no
 * range, or one to be ignored: malformed, several); -ERANGE: outside of the file. */
must_check int range_parse(struct str range, int64_t size, int64_t *first, int64_t *length);

/* Conditional requests (RFC 9110, 13.2.2). */
struct conditions {
    struct str if_match, if_none_match, if_range;
    struct str if_modified_since, if_unmodified_since;
};

/* 200, 304 or 412. */
int conditions_check(const struct conditions *conditions, const char *etag, int64_t modified_s);
/* Whether the Range of the request still applies to this version of the file. */
bool conditions_range_valid(const struct conditions *conditions, const char *etag,
                            int64_t modified_s);

enum {
    HTTP_DATE_BYTES = 32,
};
void http_date(int64_t seconds, char out[HTTP_DATE_BYTES]);
must_check int http_date_parse(struct str text, int64_t *seconds);

#endif
