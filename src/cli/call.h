/* call.h - shared by the files that send requests to the daemon by libcurl, over http:// and
 * https://. */
#ifndef CLI_CALL_H
#define CLI_CALL_H

#include <curl/curl.h>

#include "cli/cli.h"

/* Sets the address, the method and the trusted authorities of a request. A path that begins with a
 * scheme is a whole URL from the daemon. */
must_check int endpoint_prepare(CURL *easy, const struct endpoint *endpoint, const char *method,
                                const char *path, struct err *err);

/* The headers of every request, for the caller to add to and to free. */
struct curl_slist *endpoint_headers(const struct endpoint *endpoint);

/* Adds `NAME: VALUE`. */
struct curl_slist *header_add(struct curl_slist *headers, const char *name, struct str value);

/* Splits a line of an answer's head. False: it is the status line, or the end of the head. */
bool header_split(struct str line, struct str *name, struct str *value);

/* Makes a sentence of a request that failed; `reason` is libcurl's, or "". */
int endpoint_failure(const struct endpoint *endpoint, CURL *easy, CURLcode code, const char *reason,
                     struct err *err);

/* Performs a prepared request. 0: an answer came, and *status is its status; the caller's callbacks
 * have its body. *status is also set if the connection failed after the answer's head had come. */
must_check int endpoint_perform(const struct endpoint *endpoint, CURL *easy, long *status,
                                struct err *err);

#endif
