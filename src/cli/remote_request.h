/* remote_request.h - a request to an agent that others run beside, on one libcurl multi handle.
 *
 * Owns:     its handle, its headers, its body and its answer.
 * Blocks:   never.
 * Threads:  that of its multi handle.
 */
#ifndef CLI_REMOTE_REQUEST_H
#define CLI_REMOTE_REQUEST_H

#include "cli/link.h"
#include "lib/base/buf.h"

enum { REMOTE_ANSWER_BYTES_MAX = 2 * 1024 * 1024 };

struct remote_request {
    CURL *easy; /* NULL: none is under way */
    struct curl_slist *headers;
    struct buf body, answer;
    char reason[CURL_ERROR_SIZE];
    long status;
    void (*done)(void *ctx, struct remote_request *request, CURLcode code);
    /* Called with the answer as it grows, after the head has said 200; NULL: it is wanted whole. */
    int (*news)(void *ctx, struct remote_request *request);
    void *ctx;
    bool detaches; /* it starts a program whose output others read later */
};

void remote_request_init(struct remote_request *request, size_t body_max);
void remote_request_fini(struct remote_request *request, CURLM *multi);

/* Sends what is in `body` to the agent, or to the API when `type` is NULL. With a keepalive the
 * agent gives signs of life, and a connection without them is lost; 0: none. */
must_check int remote_request_send(struct remote_request *request, CURLM *multi,
                                   const struct link *link, const char *path, const char *type,
                                   const char *user, int keepalive_s, struct err *err);

/* Calls `done` of each that has ended; inside it the request may be sent again. */
void remote_requests_reap(CURLM *multi);

#endif
