#include "serve/telemetry/post.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/guard/said.h"
#include "lib/web/address.h"
#include "lib/web/multi.h"

struct poster {
    struct multi *multi;
    bool allow_local;
    struct post *posts;
};

struct post {
    struct post *prev, *next;
    struct poster *poster;
    struct transfer transfer;
    struct curl_slist *headers;
    struct guard *guard; /* removes the endpoint's own secrets from sentences for others */
    post_done *done;
    void *ctx;
    int64_t begun_mono_ms;
    size_t head_bytes, body_bytes;
    bool cut; /* its answer was too long: the status counts, the rest does not */
};

/* ---- ends ---- */

static void post_free(struct post *post)
{
    DL_DELETE(post->poster->posts, post);
    transfer_end(&post->transfer);
    curl_slist_free_all(post->headers);
    guard_free(post->guard);
    free(post);
}

void post_cancel(struct post *post)
{
    post_free(post);
}

static bool failure_text(const struct post *post, CURLcode code, int status, char *out, size_t size)
{
    const struct transfer *transfer = &post->transfer;
    struct said said;

    if (transfer->refused[0]) {
        (void)snprintf(out, size, "%s is an address of this machine, which webhooks may not call",
                       transfer->refused);
    } else if (code != CURLE_OK && !post->cut) {
        (void)snprintf(out, size, "%s", transfer_reason(transfer, code, post->guard, &said));
    } else if (status >= 300 && status < 400) {
        (void)snprintf(out, size, "the endpoint answered %d; redirects are not followed", status);
    } else if (status < 200 || status >= 300) {
        (void)snprintf(out, size, "the endpoint answered %d", status);
    } else {
        return false;
    }
    return true;
}

static void post_finish(struct transfer *transfer, CURLcode code)
{
    struct post *post = container_of(transfer, struct post, transfer);
    char text[CURL_ERROR_SIZE + 64];
    long status = 0;
    post_done *done = post->done;
    void *ctx = post->ctx;

    (void)curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    bool failed = failure_text(post, code, (int)status, text, sizeof(text));
    struct post_result result = {
        .status = (int)status,
        .error = failed ? text : NULL,
        .took_ms = clock_mono_ms() - post->begun_mono_ms,
    };
    post_free(post);
    done(ctx, &result);
}

/* ---- limits of a post ---- */

static size_t on_head(char *data, size_t size, size_t n, void *ctx)
{
    struct post *post = ctx;

    (void)data;
    post->head_bytes += size * n;
    return post->head_bytes <= POST_ANSWER_BYTES_MAX ? size * n : 0;
}

static size_t on_body(char *data, size_t size, size_t n, void *ctx)
{
    struct post *post = ctx;

    (void)data;
    post->body_bytes += size * n;
    post->cut = post->body_bytes > POST_ANSWER_BYTES_MAX;
    return post->cut ? 0 : size * n;
}

static void set_limits(struct post *post)
{
    CURL *easy = post->transfer.easy;

    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)POST_CONNECT_TIMEOUT_MS);
    (void)curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)POST_TIMEOUT_MS);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_head);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, post);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, post);
}

/* Signatures, and the path of the URL: for many services it is the key. */
static struct guard *request_guard(const struct post_request *request)
{
    const char *host = strstr(request->url, "://");
    const char *path = host ? strchr(host + 3, '/') : NULL;
    struct guard *guard = guard_new();
    struct err err;
    int r = 0;

    for (size_t i = 0; r == 0 && i < POST_HEADERS_MAX && request->headers[i]; i++) {
        const char *colon = strchr(request->headers[i], ':');
        r = colon ? guard_add_value(guard, str_trim(str_of(colon + 1)), &err) : 0;
    }
    if (r == 0 && path && strlen(path) >= GUARD_WORD_BYTES_MIN) {
        r = guard_add(guard, str_of(path), &err);
    }
    if (r < 0) {
        abort(); /* a URL and a few lines are no longer than that */
    }
    guard_ready(guard);
    return guard;
}

static void header_add(struct post *post, const char *line)
{
    struct curl_slist *longer = curl_slist_append(post->headers, line);

    if (!longer) {
        abort();
    }
    post->headers = longer;
}

static void set_request(struct post *post, const struct post_request *request)
{
    CURL *easy = post->transfer.easy;

    header_add(post, "Content-Type: application/json");
    header_add(post, "Expect:"); /* the body is small: no asking first */
    for (size_t i = 0; i < POST_HEADERS_MAX && request->headers[i]; i++) {
        header_add(post, request->headers[i]);
    }
    (void)curl_easy_setopt(easy, CURLOPT_URL, request->url);
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, post->headers);
    (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(request->body));
    (void)curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, request->body);
}

struct post *post_send(struct poster *poster, const struct post_request *request, post_done *done,
                       void *ctx)
{
    struct post *post = xnew(struct post);

    *post = (struct post){.poster = poster, .done = done, .ctx = ctx};
    post->begun_mono_ms = clock_mono_ms();
    transfer_init(&post->transfer, poster->allow_local);
    post->guard = request_guard(request);
    set_limits(post);
    set_request(post, request);
    DL_APPEND(poster->posts, post);
    transfer_start(poster->multi, &post->transfer, post_finish);
    return post;
}

/* ---- URLs ---- */

static void url_free(CURLU **url)
{
    curl_url_cleanup(*url);
}

static void text_free(char **text)
{
    curl_free(*text);
}

static bool host_is_own(const char *host)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    char bare[INET6_ADDRSTRLEN] = "";

    if (sscanf(host, "[%45[^]]", bare) == 1 && inet_pton(AF_INET6, bare, &in6.sin6_addr) == 1) {
        return address_is_own((const struct sockaddr *)&in6);
    }
    return inet_pton(AF_INET, host, &in.sin_addr) == 1 &&
           address_is_own((const struct sockaddr *)&in);
}

int post_check_url(const char *text, bool allow_local, struct err *err)
{
    scoped(url_free) CURLU *url = curl_url();
    scoped(text_free) char *scheme = NULL;
    scoped(text_free) char *host = NULL;

    if (!url) {
        abort();
    }
    if (strlen(text) > POST_URL_BYTES_MAX) {
        return err_set(err, EINVAL, "the URL is longer than %d bytes", POST_URL_BYTES_MAX);
    }
    if (curl_url_set(url, CURLUPART_URL, text, 0) != CURLUE_OK ||
        curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
        curl_url_get(url, CURLUPART_HOST, &host, 0) != CURLUE_OK || !host[0] ||
        (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0)) {
        return err_set(err, EINVAL, "the URL is not one of http:// or https://");
    }
    if (!allow_local && host_is_own(host)) {
        return err_set(err, EINVAL, "%s is an address of this machine, which webhooks may not call",
                       ours(host));
    }
    return 0;
}

/* ---- the whole ---- */

struct poster *poster_new(uv_loop_t *loop, bool allow_local)
{
    struct poster *poster = xnew(struct poster);

    poster->allow_local = allow_local;
    poster->multi = multi_new(loop, POST_IDLE_CONNECTIONS);
    return poster;
}

void poster_free(struct poster *poster)
{
    if (!poster) {
        return;
    }
    while (poster->posts) {
        post_free(poster->posts);
    }
    multi_free(poster->multi);
    free(poster);
}
