#include "cli/remote_request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/call.h"
#include "lib/web/multi.h"
#include "wire/detach.h"

enum {
    SILENT_KEEPALIVES = 3, /* a connection that misses that many is lost */
};

void remote_request_init(struct remote_request *request, size_t body_max)
{
    *request = (struct remote_request){0};
    buf_init(&request->body, body_max);
    buf_init(&request->answer, REMOTE_ANSWER_BYTES_MAX);
}

static void request_close(struct remote_request *request, CURLM *multi)
{
    if (request->easy) {
        (void)curl_multi_remove_handle(multi, request->easy);
        curl_easy_cleanup(move_ptr(&request->easy));
    }
    curl_slist_free_all(move_ptr(&request->headers));
}

void remote_request_fini(struct remote_request *request, CURLM *multi)
{
    request_close(request, multi);
    buf_fini(&request->body);
    buf_fini(&request->answer);
}

static size_t on_answer(char *data, size_t size, size_t n, void *ctx)
{
    struct remote_request *request = ctx;

    (void)curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &request->status);
    if (buf_append(&request->answer, data, size * n) < 0) {
        return 0;
    }
    if (request->news && request->status == 200 && request->news(request->ctx, request) < 0) {
        return 0;
    }
    return size * n;
}

static void options_set(struct remote_request *request, int keepalive_s)
{
    CURL *easy = request->easy;

    (void)curl_easy_setopt(easy, CURLOPT_PRIVATE, request);
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, request->reason);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_answer);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, request);
    (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)buf_len(&request->body));
    (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, buf_at(&request->body));
    if (keepalive_s > 0) {
        (void)curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
        (void)curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)keepalive_s * SILENT_KEEPALIVES);
    }
}

static int prepare(struct remote_request *request, const struct link *link, const char *path,
                   const char *type, const char *user, struct err *err)
{
    CURL *easy = request->easy;

    if (type) {
        return link_prepare(link, easy, "POST", path, type, user, &request->headers, err);
    }
    request->headers = endpoint_headers(&link->endpoint);
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, request->headers);
    return endpoint_prepare(easy, &link->endpoint, "POST", path, err);
}

int remote_request_send(struct remote_request *request, CURLM *multi, const struct link *link,
                        const char *path, const char *type, const char *user, int keepalive_s,
                        struct err *err)
{
    char seconds[16];

    request_close(request, multi);
    buf_clear(&request->answer);
    request->status = 0;
    request->reason[0] = '\0';
    request->easy = web_handle_new();
    int r = prepare(request, link, path, type, user, err);
    if (r < 0) {
        return r;
    }
    if (keepalive_s > 0) {
        (void)snprintf(seconds, sizeof(seconds), "%d", keepalive_s);
        request->headers = header_add(request->headers, "keepalive-ping-interval", str_of(seconds));
        (void)curl_easy_setopt(request->easy, CURLOPT_HTTPHEADER, request->headers);
    }
    if (request->detaches) {
        request->headers = header_add(request->headers, DETACH_HEADER, STR("on"));
        (void)curl_easy_setopt(request->easy, CURLOPT_HTTPHEADER, request->headers);
    }
    options_set(request, keepalive_s);
    if (curl_multi_add_handle(multi, request->easy) != CURLM_OK) {
        abort(); /* a handle that is in no other */
    }
    return 0;
}

void remote_requests_reap(CURLM *multi)
{
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(multi, &left))) {
        struct remote_request *request = NULL;
        CURLcode code = message->data.result;

        if (message->msg != CURLMSG_DONE) {
            continue;
        }
        (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &request);
        (void)curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &request->status);
        (void)curl_multi_remove_handle(multi, request->easy);
        curl_easy_cleanup(move_ptr(&request->easy));
        curl_slist_free_all(move_ptr(&request->headers));
        request->done(request->ctx, request, code);
    }
}
