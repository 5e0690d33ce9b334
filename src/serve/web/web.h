/* web.h - serves the files of the dashboard: GET and HEAD of "/", "/favicon.svg" and "/assets/...".
 *
 * Owns:     index.html, unpacked.
 * Needs:    the table of files, as long as it lives.
 * Blocks:   never.
 * Threads:  the loop's.
 *
 * Call it for requests to the daemon's own names alone: the edge comes first. index.html has
 * WEB_NONCE_MARK where a nonce belongs. Every answer gets a new one, in the page and in its
 * Content-Security-Policy, so the page is never cached. All other files are, by their ETag or for
 * good.
 */
#ifndef WEB_WEB_H
#define WEB_WEB_H

#include "lib/base/err.h"
#include "lib/http/http.h"
#include "serve/web/files.h"

#define WEB_NONCE_MARK "__CSP_NONCE__"

enum { WEB_FILE_BYTES_MAX = 16 * 1024 * 1024 }; /* unpacked */

struct web;

/* -EINVAL when the table has no page "/", or it cannot be unpacked. */
must_check int web_new(const struct web_file *files, size_t n, struct web **out, struct err *err);
void web_free(struct web *web); /* NULL is fine; exchanges under way go on */

/* True when it took the exchange. A program that asks for "/" and wants JSON is the API's. */
bool web_handle(struct web *web, struct http_exchange *ex);

/* Pure: whether the value of an Accept-Encoding header admits a coding: "gzip", "br". */
bool web_takes(struct str accept_encoding, const char *name);

#endif
