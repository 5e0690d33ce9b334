/* field_rules.h - the header fields that a proxy passes on. Fields about one connection (RFC 9110,
 * 7.6.1) are dropped; the other side's connection writes its own. Pure. */
#ifndef HTTP_FIELD_RULES_H
#define HTTP_FIELD_RULES_H

#include "lib/http/http.h"

/* Whether a field is about the connection that brought it: by its name, or because the head's
 * Connection names it. */
bool field_is_hop_by_hop(struct str name, const struct http_header *headers, size_t n);

/* Whether a header can have that name: a token of RFC 9110. */
bool field_is_name(const char *name);

/* Whether a field frames a message or names its receiver: a rule may not set it. */
bool field_is_framing(const char *name);

#endif
