/* rpc_client.h - a blocking Connect client of a few functions, JSON only, for tests.
 *
 * One request per connection. Every read has a bound of READ_TIMEOUT_S seconds, so that a test of
 * something that never comes fails instead of hanging.
 */
#ifndef TESTS_RPC_CLIENT_H
#define TESTS_RPC_CLIENT_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <jansson.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "lib/base/buf.h"
#include "lib/base/encode.h"

enum { READ_TIMEOUT_S = 60, CLIENT_BYTES_MAX = 64 * 1024 * 1024 };

struct client {
    int fd;
    int status;
    char head[1024]; /* of the answer, or its beginning */
    bool chunked;
    size_t chunk_left; /* of the chunk being read */
    bool ended;
    struct buf in; /* raw bytes not looked at yet */
};

static inline void client_take_fd(struct client *c, int fd)
{
    struct timeval timeout = {.tv_sec = READ_TIMEOUT_S};

    *c = (struct client){.fd = fd};
    buf_init(&c->in, CLIENT_BYTES_MAX);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    (void)fcntl(fd, F_SETFL, 0); /* one that was passed to us may be non-blocking */
}

static inline void client_open(struct client *c, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    client_take_fd(c, socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(c->fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
        abort();
    }
}

static inline void client_close(struct client *c)
{
    (void)close(c->fd);
    buf_fini(&c->in);
}
#define scoped_client(name) scoped(client_close) struct client name = {.fd = -1}

static inline void client_write(struct client *c, const void *data, size_t len)
{
    const char *at = data;

    while (len > 0) {
        ssize_t n = send(c->fd, at, len, MSG_NOSIGNAL);
        if (n <= 0) {
            return; /* the answer, or its absence, tells */
        }
        at += n;
        len -= (size_t)n;
    }
}

/* More raw bytes; false at the end or when none come in time. */
static inline bool client_fill(struct client *c)
{
    char *at;

    if (buf_reserve(&c->in, 65536, &at) < 0) {
        return false;
    }
    ssize_t n = recv(c->fd, at, 65536, 0);
    buf_commit(&c->in, n > 0 ? (size_t)n : 0);
    return n > 0;
}

/* Sends a request with its whole body and reads the answer's head. */
static inline bool client_request(struct client *c, const char *method, const char *path,
                                  const char *headers, struct str body)
{
    char head[4096];
    const char *end;
    int n =
        snprintf(head, sizeof(head), "%s %s HTTP/1.1\r\nHost: t\r\nContent-Length: %zu\r\n%s\r\n",
                 method, path, body.len, headers);

    client_write(c, head, (size_t)n);
    client_write(c, body.at, body.len);
    while (buf_len(&c->in) == 0 ||
           !(end = memmem(buf_at(&c->in), buf_len(&c->in), "\r\n\r\n", 4))) {
        if (!client_fill(c)) {
            return false;
        }
    }
    size_t len = (size_t)(end - buf_at(&c->in)) + 4;
    c->status = atoi(buf_at(&c->in) + 9);
    (void)snprintf(c->head, sizeof(c->head), "%.*s", (int)len, buf_at(&c->in));
    c->chunked = memmem(buf_at(&c->in), len, "chunked", 7) != NULL;
    buf_consume(&c->in, len);
    return true;
}

/* The next line of a chunk's framing; false at the end. */
static inline bool client_chunk(struct client *c)
{
    const char *end;

    for (;;) {
        while (buf_len(&c->in) == 0 ||
               !(end = memmem(buf_at(&c->in), buf_len(&c->in), "\r\n", 2))) {
            if (!client_fill(c)) {
                return false;
            }
        }
        size_t len = (size_t)(end - buf_at(&c->in));
        c->chunk_left = strtoul(buf_at(&c->in), NULL, 16);
        buf_consume(&c->in, len + 2);
        if (len > 0) {
            return c->chunk_left > 0;
        }
    }
}

/* Exactly len bytes of the body; false when it ends before. */
static inline bool client_body(struct client *c, void *out, size_t len)
{
    char *at = out;

    while (len > 0) {
        if (c->chunked && c->chunk_left == 0 && !client_chunk(c)) {
            return false;
        }
        if (buf_len(&c->in) == 0 && !client_fill(c)) {
            return false;
        }
        size_t n = buf_len(&c->in) < len ? buf_len(&c->in) : len;
        if (c->chunked && n > c->chunk_left) {
            n = c->chunk_left;
        }
        memcpy(at, buf_at(&c->in), n);
        buf_consume(&c->in, n);
        c->chunk_left -= c->chunked ? n : 0;
        at += n;
        len -= n;
    }
    return true;
}

/* ---- unary ---- */

/* Calls and returns the HTTP status; *out is the JSON of the answer (to be freed), or NULL. */
static inline int client_unary(struct client *c, const char *path, const char *headers,
                               struct str body, json_t **out)
{
    char text[65536];
    size_t n = 0;
    char all[1024];

    *out = NULL;
    (void)snprintf(all, sizeof(all), "Content-Type: application/json\r\nConnection: close\r\n%s",
                   headers);
    if (!client_request(c, "POST", path, all, body)) {
        return -1;
    }
    while (n < sizeof(text) && client_body(c, text + n, 1)) {
        n++;
    }
    *out = json_loadb(text, n, 0, NULL);
    return c->status;
}

/* ---- streams ---- */

static inline void envelope_put(struct buf *out, uint8_t flags, struct str payload)
{
    uint32_t len = htonl((uint32_t)payload.len);

    if (buf_append(out, &flags, 1) < 0 || buf_append(out, &len, 4) < 0 ||
        buf_append(out, payload.at, payload.len) < 0) {
        abort();
    }
}

static inline bool client_stream(struct client *c, const char *path, const char *headers,
                                 const char *message)
{
    scoped_buf(body, CLIENT_BYTES_MAX);
    char all[1024];

    envelope_put(&body, 0, str_of(message));
    (void)snprintf(all, sizeof(all), "Content-Type: application/connect+json\r\n%s", headers);
    return client_request(c, "POST", path, all, buf_str(&body));
}

/* The next message of the stream; NULL when it ends without one. *flags is 2 for the last. */
static inline json_t *client_next(struct client *c, uint8_t *flags)
{
    uint8_t head[5];
    uint32_t len;

    if (!client_body(c, head, sizeof(head))) {
        return NULL;
    }
    memcpy(&len, head + 1, sizeof(len));
    len = ntohl(len);
    char *text = malloc(len + 1);
    json_t *json = text && client_body(c, text, len) ? json_loadb(text, len, 0, NULL) : NULL;
    free(text);
    *flags = head[0];
    return json;
}

/* Text at a path of names ("error", "code"); "" when there is none. */
static inline const char *json_text(const json_t *json, const char *a, const char *b)
{
    const json_t *value = json_object_get(json, a);

    value = b ? json_object_get(value, b) : value;
    return json_is_string(value) ? json_string_value(value) : "";
}

#endif
