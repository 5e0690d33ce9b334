/* field_rules.h - which fields of a head a proxy passes on. Headers about one connection (RFC 9110,
 * 7.6.1) end here; the other side's connection writes its own. Pure. */
#ifndef HTTP_FIELD_RULES_H
#define HTTP_FIELD_RULES_H

#include "lib/http/http.h"

/* Whether a field is about the connection that brought it: by its name, or because the head's
 * Connection names it. */
bool field_is_hop_by_hop(struct str name, const struct http_header *headers, size_t n);

/* Whether a header can have that name: a token of RFC 9110. */
bool field_is_name(const char *name);

/* What frames a message, or says whom it is for: not for a rule to set. */
bool field_is_framing(const char *name);

#endif
