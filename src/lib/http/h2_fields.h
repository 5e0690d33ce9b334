/* h2_fields.h - the fields of one HTTP/2 request or response, as nghttp2 takes them.
 *
 * Owns:     the list and the lowered names; values are borrowed. nghttp2 copies both.
 * Blocks:   never. Threads: any; objects are not shared.
 */
#ifndef HTTP_H2_FIELDS_H
#define HTTP_H2_FIELDS_H

#include <nghttp2/nghttp2.h>

#include "lib/http/http.h"

struct h2_fields {
    nghttp2_nv *list;
    size_t n;
    struct buf names;
    char status[8], length[24];
};

/* Makes the fields of a response: the headers that may be sent, with status, date and (unless -1)
 * length. -EMSGSIZE when they are too long. Call h2_fields_fini() in any case. */
must_check int h2_fields_make(struct h2_fields *fields, int status,
                              const struct http_header *headers, size_t n, int64_t content_length);

/* Makes the fields of a request over TLS; `host` among the headers becomes :authority. */
must_check int h2_fields_request(struct h2_fields *fields, struct str method, struct str target,
                                 const struct http_header *headers, size_t n,
                                 int64_t content_length);
/* Makes the trailers. */
must_check int h2_fields_trailers(struct h2_fields *fields, const struct http_header *headers,
                                  size_t n);
void h2_fields_fini(struct h2_fields *fields);

#endif
