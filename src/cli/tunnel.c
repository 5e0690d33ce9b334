#include "cli/tunnel.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/call.h"
#include "lib/base/alloc.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/web/multi.h"

enum {
    CHUNK_BYTES = 64 * 1024,
    HEAD_BYTES_MAX = 16 * 1024,
    HEAD_WAIT_MS = 30 * 1000,
    REFUSAL_WAIT_MS = 2 * 1000,
    CONNECT_WAIT_MS = 30 * 1000,
    STACK_BYTES = 512 * 1024,
};

/* Bytes on their way in one direction. */
struct flow {
    char data[CHUNK_BYTES];
    size_t start, end;
    bool eof;  /* its source has ended */
    bool shut; /* its target was told so */
};

struct tunnel {
    const struct link *link;
    uint16_t port;
    int local;  /* the client's socket */
    int remote; /* the socket below `easy` */
    CURL *easy;
    struct flow in, out; /* into the sandbox, and out of it */
};

/* ---- the handshake ---- */

static int wait_for(int fd, short events, int wait_ms)
{
    struct pollfd poller = {.fd = fd, .events = events};
    int n = poll(&poller, 1, wait_ms);

    return n > 0 ? 0 : n == 0 ? -ETIMEDOUT : -errno;
}

static int send_all(struct tunnel *tunnel, struct str data)
{
    while (data.len > 0) {
        size_t n = 0;
        CURLcode code = curl_easy_send(tunnel->easy, data.at, data.len, &n);

        if (code == CURLE_AGAIN) {
            int r = wait_for(tunnel->remote, POLLOUT, HEAD_WAIT_MS);
            if (r < 0) {
                return r;
            }
        } else if (code != CURLE_OK) {
            return -EPIPE;
        }
        data = str_skip(data, n);
    }
    return 0;
}

/* By libcurl's list of headers, without those that it leaves out itself. */
static int head_make(const struct tunnel *tunnel, const struct curl_slist *headers, struct buf *out)
{
    char *host = NULL;
    CURLU *url = curl_url();
    char *effective = NULL, *port = NULL;

    (void)curl_easy_getinfo(tunnel->easy, CURLINFO_EFFECTIVE_URL, &effective);
    (void)curl_url_set(url, CURLUPART_URL, effective, 0);
    (void)curl_url_get(url, CURLUPART_HOST, &host, 0);
    (void)curl_url_get(url, CURLUPART_PORT, &port, 0);
    int r = buf_printf(out, "GET /tcp/%u HTTP/1.1\r\nHost: %s%s%s\r\n", tunnel->port,
                       host ? host : "", port ? ":" : "", port ? port : "");
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(url);
    for (; r == 0 && headers; headers = headers->next) {
        if (strncmp(headers->data, "expect", 6) != 0) {
            r = buf_printf(out, "%s\r\n", headers->data);
        }
    }
    return r < 0 ? r : buf_printf(out, "Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n");
}

static const char *head_end(const struct buf *head)
{
    return buf_len(head) > 0 ? memmem(buf_at(head), buf_len(head), "\r\n\r\n", 4) : NULL;
}

/* Reads the answer's head, and a little more: that belongs to the flow. */
static int head_read(struct tunnel *tunnel, struct buf *head, struct err *err)
{
    const char *end;
    char chunk[2048];

    do {
        size_t n = 0;
        CURLcode code = curl_easy_recv(tunnel->easy, chunk, sizeof(chunk), &n);
        if (code == CURLE_AGAIN) {
            if (wait_for(tunnel->remote, POLLIN, HEAD_WAIT_MS) < 0) {
                return err_set(err, ETIMEDOUT, "the daemon does not answer");
            }
            continue;
        }
        if (code != CURLE_OK || n == 0 || buf_append(head, chunk, n) < 0) {
            return err_set(err, ECONNRESET, "the daemon closed the connection");
        }
    } while (!(end = head_end(head)) && buf_len(head) < HEAD_BYTES_MAX);
    if (!end) {
        return err_set(err, EPROTO, "the daemon's answer is no HTTP");
    }
    return (int)(end + 4 - buf_at(head));
}

/* The sentence of a refusal is a small JSON object behind the head. */
static int refusal_read(struct tunnel *tunnel, struct buf *head, int head_len, long status,
                        struct err *err)
{
    char chunk[2048];
    size_t n = 0;
    struct str body = str_skip(buf_str(head), (size_t)head_len);

    while (str_find(body, '}') == body.len &&
           wait_for(tunnel->remote, POLLIN, REFUSAL_WAIT_MS) == 0 &&
           curl_easy_recv(tunnel->easy, chunk, sizeof(chunk), &n) == CURLE_OK && n > 0 &&
           buf_append(head, chunk, n) == 0) {
        body = str_skip(buf_str(head), (size_t)head_len);
    }
    body.len = str_find(body, '}') < body.len ? str_find(body, '}') + 1 : body.len;
    (void)link_refusal(str_skip(body, str_find(body, '{')), status, err);
    return err_wrap(err, "port %u", tunnel->port);
}

static int head_check(struct tunnel *tunnel, struct buf *head, int head_len, struct err *err)
{
    struct str all = buf_str(head), body = str_skip(all, (size_t)head_len);
    char digits[4] = "";

    if (all.len > 12) {
        memcpy(digits, all.at + strlen("HTTP/1.1 "), 3);
    }
    long status = strtol(digits, NULL, 10);

    if (status != 101) {
        return refusal_read(tunnel, head, head_len, status, err);
    }
    memcpy(tunnel->out.data, body.at, body.len);
    tunnel->out.end = body.len;
    return 0;
}

static int open_remote(struct tunnel *tunnel, struct curl_slist **headers, struct err *err)
{
    char path[32];
    curl_socket_t remote = CURL_SOCKET_BAD;
    long status = 0; /* stays 0: libcurl only connects */

    (void)snprintf(path, sizeof(path), "/tcp/%u", tunnel->port);
    int r = link_prepare(tunnel->link, tunnel->easy, "GET", path, NULL, NULL, headers, err);
    if (r < 0) {
        return r;
    }
    (void)curl_easy_setopt(tunnel->easy, CURLOPT_CONNECT_ONLY, 1L);
    (void)curl_easy_setopt(tunnel->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(tunnel->easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_WAIT_MS);
    r = endpoint_perform(&tunnel->link->endpoint, tunnel->easy, &status, err);
    if (r < 0) {
        return r;
    }
    (void)curl_easy_getinfo(tunnel->easy, CURLINFO_ACTIVESOCKET, &remote);
    tunnel->remote = remote;
    return 0;
}

static int handshake(struct tunnel *tunnel, struct err *err)
{
    struct curl_slist *headers = NULL;
    scoped_buf(head, HEAD_BYTES_MAX + CHUNK_BYTES);
    int r = open_remote(tunnel, &headers, err);

    if (r == 0 && (head_make(tunnel, headers, &head) < 0 || send_all(tunnel, buf_str(&head)) < 0)) {
        r = err_set(err, EPIPE, "the daemon closed the connection");
    }
    curl_slist_free_all(headers);
    buf_clear(&head);
    r = r < 0 ? r : head_read(tunnel, &head, err);
    return r < 0 ? r : head_check(tunnel, &head, r, err);
}

/* ---- the bytes ---- */

static bool is_empty(const struct flow *flow)
{
    return flow->start == flow->end;
}

/* Each of these four makes one step; -1: the connection is broken. */
static int in_fill(struct tunnel *tunnel)
{
    ssize_t n = recv(tunnel->local, tunnel->in.data, CHUNK_BYTES, MSG_DONTWAIT);

    if (n < 0) {
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    }
    tunnel->in.start = 0;
    tunnel->in.end = (size_t)n;
    tunnel->in.eof = n == 0;
    return 0;
}

static int in_drain(struct tunnel *tunnel)
{
    struct flow *flow = &tunnel->in;
    size_t n = 0;
    CURLcode code =
        curl_easy_send(tunnel->easy, flow->data + flow->start, flow->end - flow->start, &n);

    flow->start += n;
    return code == CURLE_OK || code == CURLE_AGAIN ? 0 : -1;
}

static int out_fill(struct tunnel *tunnel)
{
    size_t n = 0;
    CURLcode code = curl_easy_recv(tunnel->easy, tunnel->out.data, CHUNK_BYTES, &n);

    if (code == CURLE_AGAIN) {
        return 0;
    }
    tunnel->out.start = 0;
    tunnel->out.end = n;
    tunnel->out.eof = code == CURLE_OK && n == 0;
    return code == CURLE_OK ? 1 : -1;
}

static int out_drain(struct tunnel *tunnel)
{
    struct flow *flow = &tunnel->out;
    ssize_t n = send(tunnel->local, flow->data + flow->start, flow->end - flow->start,
                     MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n < 0) {
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    }
    flow->start += (size_t)n;
    return 0;
}

/* Over TLS a closed half cannot be told apart from the whole: only plain sockets tell it on. */
static void ends_pass_on(struct tunnel *tunnel)
{
    bool secure = strncmp(tunnel->link->endpoint.url, "https", 5) == 0;

    if (tunnel->in.eof && !tunnel->in.shut) {
        tunnel->in.shut = true;
        if (!secure) {
            (void)shutdown(tunnel->remote, SHUT_WR);
        }
    }
    if (tunnel->out.eof && is_empty(&tunnel->out) && !tunnel->out.shut) {
        tunnel->out.shut = true;
        (void)shutdown(tunnel->local, SHUT_WR);
    }
}

static int step(struct tunnel *tunnel)
{
    struct flow *in = &tunnel->in, *out = &tunnel->out;
    /* TLS may hold bytes that the socket no longer shows: so it is read before it is waited for. */
    int got = is_empty(out) && !out->eof ? out_fill(tunnel) : 0;

    if (got < 0 || (!is_empty(out) && out_drain(tunnel) < 0)) {
        return -1;
    }
    ends_pass_on(tunnel);
    if (out->shut && in->shut) {
        return 1;
    }
    struct pollfd fds[2] = {{.fd = tunnel->local,
                             .events = (short)((is_empty(in) && !in->eof ? POLLIN : 0) |
                                               (is_empty(out) ? 0 : POLLOUT))},
                            {.fd = tunnel->remote,
                             .events = (short)((is_empty(out) && !out->eof ? POLLIN : 0) |
                                               (is_empty(in) ? 0 : POLLOUT))}};
    fds[0].fd = fds[0].events ? fds[0].fd : -1;
    fds[1].fd = fds[1].events ? fds[1].fd : -1;
    if (poll(fds, 2, got > 0 ? 0 : -1) < 0 && errno != EINTR) {
        return -1;
    }
    if (fds[0].revents && is_empty(in) && !in->eof && in_fill(tunnel) < 0) {
        return -1;
    }
    return !is_empty(in) ? in_drain(tunnel) : 0;
}

static void reset(int fd)
{
    struct linger at_once = {.l_onoff = 1};

    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

static void *tunnel_run(void *ctx)
{
    struct tunnel *tunnel = ctx;
    struct err err;
    int r = 0;

    tunnel->easy = web_handle_new();
    if (handshake(tunnel, &err) < 0) {
        (void)cli_fail(CLI_FAILED, "%s", err.msg);
        r = -1;
    }
    while (r == 0) {
        r = step(tunnel);
    }
    if (r < 0) {
        reset(tunnel->local); /* a connection that was cut must not look ended */
    }
    (void)close(tunnel->local);
    curl_easy_cleanup(tunnel->easy);
    free(tunnel);
    return NULL;
}

void tunnel_start(const struct link *link, uint16_t port, int fd)
{
    struct tunnel *tunnel = xnew(struct tunnel);
    pthread_attr_t attributes;
    pthread_t thread;
    int one = 1;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    tunnel->link = link;
    tunnel->port = port;
    tunnel->local = fd;
    tunnel->remote = -1;
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    if (pthread_create(&thread, &attributes, tunnel_run, tunnel) != 0) {
        (void)close(fd);
        free(tunnel);
    }
    (void)pthread_attr_destroy(&attributes);
}
