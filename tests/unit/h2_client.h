/* h2_client.h - an HTTP/2 client for tests, on nghttp2's own client half. */
#ifndef TESTS_H2_CLIENT_H
#define TESTS_H2_CLIENT_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    H2_CALLS_MAX = 512,
};

struct h2_call {
    int32_t id;
    int status;
    unsigned interim; /* 1xx */
    uint64_t to_send, sent, received;
    bool head_ended, closed;
    bool hold;           /* do not open the window for what was received */
    uint32_t close_code; /* of RST_STREAM, or 0 */
    char text[256];      /* the beginning of the body */
    char headers[1024];  /* "name: value\n"... */
};

struct h2_client {
    nghttp2_session *session;
    int fd;
    void *io; /* for send and recv below; NULL: plain fd */
    long (*send)(void *io, const void *data, size_t len);
    long (*recv)(void *io, void *out, size_t size);
    struct h2_call calls[H2_CALLS_MAX];
    size_t calls_n;
    bool goaway, eof;
    uint32_t goaway_code;
};

struct h2_header {
    const char *name, *value;
};

void h2_start(struct h2_client *client, int fd);
void h2_end(struct h2_client *client);

/* A request with a body of `body` bytes, or none when it is 0. */
struct h2_call *h2_request(struct h2_client *client, const char *method, const char *path,
                           uint64_t body, const struct h2_header *headers, size_t n);
void h2_cancel(struct h2_client *client, struct h2_call *call);

/* Sends and receives what can be now. */
void h2_step(struct h2_client *client);

#endif
