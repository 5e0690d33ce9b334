/* browser.h - requests that a browser makes for a page of another site.
 *
 * A browser says so itself, in headers that no page can set: Origin and Sec-Fetch-Site. Programs
 * send neither. Such a request is either one that every page may make of any server without being
 * asked ("simple": a form, an image, a fetch of plain text), or one that the browser asked about
 * before, by OPTIONS (a preflight).
 *
 * Owns:     nothing.
 * Blocks:   never; pure. Any thread.
 */
#ifndef HTTP_BROWSER_H
#define HTTP_BROWSER_H

#include "lib/http/http.h"

/* Made for a page of another origin: another scheme, name or port. A page of a neighbouring
 * sandbox is one, too. */
bool browser_is_foreign(const struct http_request *req);

/* No browser sends this for a foreign page without a preflight that was answered with yes. */
bool browser_asked_first(const struct http_request *req);

#endif
