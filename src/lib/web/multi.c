/* libcurl says which sockets to watch (on_socket) and when to call it again (on_timeout);
 * curl_multi_socket_action() passes libuv's events to it. A transfer that has ended is found by
 * reading the messages after each such call. */
#include "lib/web/multi.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "lib/base/alloc.h"
#include "lib/base/compiler.h"
#include "lib/web/address.h"

struct multi {
    uv_loop_t *loop;
    CURLM *handle;
    uv_timer_t timer;
    struct transfer *transfers;
};

struct watch {
    uv_poll_t poll;
    struct multi *multi;
    curl_socket_t fd;
};

/* ---- ends ---- */

static void transfer_leave(struct transfer *transfer)
{
    struct multi *multi = move_ptr(&transfer->multi);

    if (multi) {
        DL_DELETE(multi->transfers, transfer);
        (void)curl_multi_remove_handle(multi->handle, transfer->easy);
    }
}

void transfer_end(struct transfer *transfer)
{
    transfer_leave(transfer);
    curl_easy_cleanup(move_ptr(&transfer->easy));
}

/* Reads a single message at a time, because `done` may end other transfers. */
static void messages_read(struct multi *multi)
{
    CURLMsg *message;
    int left = 0;

    while ((message = curl_multi_info_read(multi->handle, &left))) {
        struct transfer *transfer = NULL;
        CURLcode code = message->data.result;

        (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
        transfer_leave(transfer);
        transfer->done(transfer, code);
    }
}

const char *transfer_reason(const struct transfer *transfer, CURLcode code,
                            const struct guard *guard, struct said *out)
{
    const char *words = transfer->reason[0] ? transfer->reason : curl_easy_strerror(code);

    return guard_said(guard, str_of(words), out);
}

/* ---- libcurl and the loop ---- */

static void on_readiness(uv_poll_t *poll, int status, int events)
{
    struct watch *watch = container_of(poll, struct watch, poll);
    struct multi *multi = watch->multi;
    int flags = (events & UV_READABLE ? CURL_CSELECT_IN : 0) |
                (events & UV_WRITABLE ? CURL_CSELECT_OUT : 0) | (status < 0 ? CURL_CSELECT_ERR : 0);
    int running = 0;

    (void)curl_multi_socket_action(multi->handle, watch->fd, flags, &running);
    messages_read(multi);
}

static void on_watch_closed(uv_handle_t *handle)
{
    free(container_of(handle, struct watch, poll));
}

static struct watch *watch_new(struct multi *multi, curl_socket_t fd)
{
    struct watch *watch = xnew(struct watch);

    watch->multi = multi;
    watch->fd = fd;
    if (uv_poll_init(multi->loop, &watch->poll, fd) < 0) {
        abort(); /* a socket that was made a moment ago */
    }
    (void)curl_multi_assign(multi->handle, fd, watch);
    return watch;
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *of_socket)
{
    struct multi *multi = ctx;
    struct watch *watch = of_socket;

    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (watch) {
            (void)curl_multi_assign(multi->handle, fd, NULL);
            uv_close((uv_handle_t *)&watch->poll, on_watch_closed);
        }
        return 0;
    }
    if (!watch) {
        watch = watch_new(multi, fd);
    }
    int events = (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0);
    (void)uv_poll_start(&watch->poll, events, on_readiness);
    return 0;
}

static void on_timer(uv_timer_t *timer)
{
    struct multi *multi = container_of(timer, struct multi, timer);
    int running = 0;

    (void)curl_multi_socket_action(multi->handle, CURL_SOCKET_TIMEOUT, 0, &running);
    messages_read(multi);
}

static int on_timeout(CURLM *handle, long timeout_ms, void *ctx)
{
    struct multi *multi = ctx;

    (void)handle;
    if (timeout_ms < 0) {
        (void)uv_timer_stop(&multi->timer);
    } else {
        (void)uv_timer_start(&multi->timer, on_timer, (uint64_t)timeout_ms, 0);
    }
    return 0;
}

/* ---- what one transfer may do ---- */

static curl_socket_t on_open(void *ctx, curlsocktype purpose, struct curl_sockaddr *addr)
{
    struct transfer *transfer = ctx;
    const void *bytes = addr->family == AF_INET6
                            ? (const void *)&((struct sockaddr_in6 *)(void *)&addr->addr)->sin6_addr
                            : (const void *)&((struct sockaddr_in *)(void *)&addr->addr)->sin_addr;

    (void)purpose;
    if (!transfer->allow_local && address_is_own(&addr->addr)) {
        if (!inet_ntop(addr->family, bytes, transfer->refused, sizeof(transfer->refused))) {
            (void)snprintf(transfer->refused, sizeof(transfer->refused), "it");
        }
        return CURL_SOCKET_BAD;
    }
    transfer->refused[0] = '\0'; /* another of the name's addresses is a stranger's */
    return socket(addr->family, addr->socktype | SOCK_CLOEXEC, addr->protocol);
}

CURL *web_handle_new(void)
{
    CURL *easy = curl_easy_init();

    if (!easy) {
        abort();
    }
    (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_PROXY, ""); /* nor one that the environment names */
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_USERAGENT, "atoll/" ATOLL_VERSION);
    return easy;
}

void transfer_init(struct transfer *transfer, bool allow_local)
{
    *transfer = (struct transfer){.allow_local = allow_local, .easy = web_handle_new()};
    CURL *easy = transfer->easy;

    (void)curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
    (void)curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* never waits for a resolver's thread */
    (void)curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open);
    (void)curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, transfer);
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->reason);
}

void transfer_start(struct multi *multi, struct transfer *transfer,
                    void (*done)(struct transfer *transfer, CURLcode code))
{
    transfer->multi = multi;
    transfer->done = done;
    DL_APPEND(multi->transfers, transfer);
    if (curl_multi_add_handle(multi->handle, transfer->easy) != CURLM_OK) {
        abort(); /* a handle that is in no other */
    }
}

/* ---- the whole ---- */

struct multi *multi_new(uv_loop_t *loop, long idle_connections)
{
    struct multi *multi = xnew(struct multi);

    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK ||
        uv_timer_init(loop, &multi->timer) < 0) {
        abort();
    }
    multi->loop = loop;
    multi->handle = curl_multi_init();
    if (!multi->handle) {
        abort();
    }
    (void)curl_multi_setopt(multi->handle, CURLMOPT_SOCKETFUNCTION, on_socket);
    (void)curl_multi_setopt(multi->handle, CURLMOPT_SOCKETDATA, multi);
    (void)curl_multi_setopt(multi->handle, CURLMOPT_TIMERFUNCTION, on_timeout);
    (void)curl_multi_setopt(multi->handle, CURLMOPT_TIMERDATA, multi);
    (void)curl_multi_setopt(multi->handle, CURLMOPT_MAXCONNECTS, idle_connections);
    return multi;
}

static void on_timer_closed(uv_handle_t *handle)
{
    free(container_of(handle, struct multi, timer));
    curl_global_cleanup();
}

void multi_free(struct multi *multi)
{
    if (!multi) {
        return;
    }
    while (multi->transfers) {
        transfer_leave(multi->transfers);
    }
    (void)curl_multi_cleanup(multi->handle);
    uv_close((uv_handle_t *)&multi->timer, on_timer_closed);
}
