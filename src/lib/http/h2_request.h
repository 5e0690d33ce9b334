/* h2_request.h - the request that the head of an HTTP/2 stream makes.
 *
 * Owns:    nothing: the request points into the head and the cookie, which outlive it.
 * Blocks:  never. Threads: any; objects are not shared.
 */
#ifndef HTTP_H2_REQUEST_H
#define HTTP_H2_REQUEST_H

#include "lib/http/head.h"
#include "lib/http/internal.h"

/* Seals the head and fills the request from it; `cookie` takes the text of a cookie that came in
 * parts. Returns why it is no request, or NULL. */
must_check const char *h2_request_fill(struct http_request *req, struct head *head,
                                       struct buf *cookie, const struct http_conn *conn,
                                       bool has_body);

#endif
