/* libcurl tells which sockets to watch (on_socket) and when to come back (on_timeout); what libuv
 * sees is told back by curl_multi_socket_action(). A post that has ended is found by reading the
 * messages after each such call, so `done` never runs inside one of libcurl's callbacks. */
#include "telemetry/post.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "telemetry/address.h"

struct poster {
    uv_loop_t *loop;
    CURLM *multi;
    uv_timer_t timer;
    bool allow_local;
    struct post *posts;
};

struct post {
    struct post *prev, *next;
    struct poster *poster;
    CURL *easy;
    struct curl_slist *headers;
    post_done *done;
    void *ctx;
    int64_t begun_mono_ms;
    size_t head_bytes, body_bytes;
    bool cut; /* its answer was too long: the status counts, the rest does not */
    char refused[INET6_ADDRSTRLEN]; /* an address of this machine; "": none */
    char reason[CURL_ERROR_SIZE];
};

struct watch {
    uv_poll_t poll;
    struct poster *poster;
    curl_socket_t fd;
};

/* ---- ends ---- */

static void post_free(struct post *post)
{
    DL_DELETE(post->poster->posts, post);
    (void)curl_multi_remove_handle(post->poster->multi, post->easy);
    curl_easy_cleanup(post->easy);
    curl_slist_free_all(post->headers);
    free(post);
}

void post_cancel(struct post *post)
{
    post_free(post);
}

static bool failure_text(const struct post *post, CURLcode code, int status, char *out, size_t size)
{
    if (post->refused[0]) {
        (void)snprintf(out, size, "%s is an address of this machine, which webhooks may not call",
                       post->refused);
    } else if (code != CURLE_OK && !post->cut) {
        (void)snprintf(out, size, "%s", post->reason[0] ? post->reason : curl_easy_strerror(code));
    } else if (status >= 300 && status < 400) {
        (void)snprintf(out, size, "the endpoint answered %d; redirects are not followed", status);
    } else if (status < 200 || status >= 300) {
        (void)snprintf(out, size, "the endpoint answered %d", status);
    } else {
        return false;
    }
    return true;
}

static void post_finish(struct post *post, CURLcode code)
{
    char text[CURL_ERROR_SIZE + 64];
    long status = 0;
    post_done *done = post->done;
    void *ctx = post->ctx;

    (void)curl_easy_getinfo(post->easy, CURLINFO_RESPONSE_CODE, &status);
    bool failed = failure_text(post, code, (int)status, text, sizeof(text));
    struct post_result result = {
        .status = (int)status,
        .error = failed ? text : NULL,
        .took_ms = clock_mono_ms() - post->begun_mono_ms,
    };
    post_free(post);
    done(ctx, &result);
}

/* One at a time: what `done` does may end others. */
static void messages_read(struct poster *poster)
{
    CURLMsg *message;
    int left = 0;

    while ((message = curl_multi_info_read(poster->multi, &left))) {
        struct post *post = NULL;
        CURLcode code = message->data.result;

        (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &post);
        post_finish(post, code);
    }
}

/* ---- libcurl and the loop ---- */

static void on_readiness(uv_poll_t *poll, int status, int events)
{
    struct watch *watch = container_of(poll, struct watch, poll);
    struct poster *poster = watch->poster;
    int flags = (events & UV_READABLE ? CURL_CSELECT_IN : 0) |
                (events & UV_WRITABLE ? CURL_CSELECT_OUT : 0) | (status < 0 ? CURL_CSELECT_ERR : 0);
    int running = 0;

    (void)curl_multi_socket_action(poster->multi, watch->fd, flags, &running);
    messages_read(poster);
}

static void on_watch_closed(uv_handle_t *handle)
{
    free(container_of(handle, struct watch, poll));
}

static struct watch *watch_new(struct poster *poster, curl_socket_t fd)
{
    struct watch *watch = xnew(struct watch);

    watch->poster = poster;
    watch->fd = fd;
    if (uv_poll_init(poster->loop, &watch->poll, fd) < 0) {
        abort(); /* a socket that was made a moment ago */
    }
    (void)curl_multi_assign(poster->multi, fd, watch);
    return watch;
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *of_socket)
{
    struct poster *poster = ctx;
    struct watch *watch = of_socket;

    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (watch) {
            (void)curl_multi_assign(poster->multi, fd, NULL);
            uv_close((uv_handle_t *)&watch->poll, on_watch_closed);
        }
        return 0;
    }
    if (!watch) {
        watch = watch_new(poster, fd);
    }
    int events = (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0);
    (void)uv_poll_start(&watch->poll, events, on_readiness);
    return 0;
}

static void on_timer(uv_timer_t *timer)
{
    struct poster *poster = container_of(timer, struct poster, timer);
    int running = 0;

    (void)curl_multi_socket_action(poster->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    messages_read(poster);
}

static int on_timeout(CURLM *multi, long timeout_ms, void *ctx)
{
    struct poster *poster = ctx;

    (void)multi;
    if (timeout_ms < 0) {
        (void)uv_timer_stop(&poster->timer);
    } else {
        (void)uv_timer_start(&poster->timer, on_timer, (uint64_t)timeout_ms, 0);
    }
    return 0;
}

/* ---- what one post may do ---- */

static curl_socket_t on_open(void *ctx, curlsocktype purpose, struct curl_sockaddr *addr)
{
    struct post *post = ctx;
    const void *bytes = addr->family == AF_INET6
                            ? (const void *)&((struct sockaddr_in6 *)(void *)&addr->addr)->sin6_addr
                            : (const void *)&((struct sockaddr_in *)(void *)&addr->addr)->sin_addr;

    (void)purpose;
    if (!post->poster->allow_local && address_is_own(&addr->addr)) {
        if (!inet_ntop(addr->family, bytes, post->refused, sizeof(post->refused))) {
            (void)snprintf(post->refused, sizeof(post->refused), "it");
        }
        return CURL_SOCKET_BAD;
    }
    post->refused[0] = '\0'; /* another of the name's addresses is a stranger's */
    return socket(addr->family, addr->socktype | SOCK_CLOEXEC, addr->protocol);
}

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
    CURL *easy = post->easy;

    (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_PROXY, ""); /* nor one that the environment names */
    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)POST_CONNECT_TIMEOUT_MS);
    (void)curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)POST_TIMEOUT_MS);
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* never waits for a resolver's thread */
    (void)curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open);
    (void)curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, post);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_head);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, post);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, post);
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, post->reason);
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
    CURL *easy = post->easy;

    header_add(post, "Content-Type: application/json");
    header_add(post, "Expect:"); /* the body is small: no asking first */
    for (size_t i = 0; i < POST_HEADERS_MAX && request->headers[i]; i++) {
        header_add(post, request->headers[i]);
    }
    (void)curl_easy_setopt(easy, CURLOPT_URL, request->url);
    (void)curl_easy_setopt(easy, CURLOPT_USERAGENT, "atoll/" ATOLL_VERSION);
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
    post->easy = curl_easy_init();
    if (!post->easy) {
        abort();
    }
    (void)curl_easy_setopt(post->easy, CURLOPT_PRIVATE, post);
    set_limits(post);
    set_request(post, request);
    DL_APPEND(poster->posts, post);
    if (curl_multi_add_handle(poster->multi, post->easy) != CURLM_OK) {
        abort(); /* a handle that is in no other */
    }
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
                       host);
    }
    return 0;
}

/* ---- the whole ---- */

struct poster *poster_new(uv_loop_t *loop, bool allow_local)
{
    struct poster *poster = xnew(struct poster);

    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK ||
        uv_timer_init(loop, &poster->timer) < 0) {
        abort();
    }
    poster->loop = loop;
    poster->allow_local = allow_local;
    poster->multi = curl_multi_init();
    if (!poster->multi) {
        abort();
    }
    (void)curl_multi_setopt(poster->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    (void)curl_multi_setopt(poster->multi, CURLMOPT_SOCKETDATA, poster);
    (void)curl_multi_setopt(poster->multi, CURLMOPT_TIMERFUNCTION, on_timeout);
    (void)curl_multi_setopt(poster->multi, CURLMOPT_TIMERDATA, poster);
    (void)curl_multi_setopt(poster->multi, CURLMOPT_MAXCONNECTS, (long)POST_IDLE_CONNECTIONS);
    return poster;
}

static void on_timer_closed(uv_handle_t *handle)
{
    free(container_of(handle, struct poster, timer));
    curl_global_cleanup();
}

void poster_free(struct poster *poster)
{
    if (!poster) {
        return;
    }
    while (poster->posts) {
        post_free(poster->posts);
    }
    (void)curl_multi_cleanup(poster->multi);
    uv_close((uv_handle_t *)&poster->timer, on_timer_closed);
}
