#include "lib/http/link.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "lib/http/wire.h"

enum {
    CIPHER_READ_BYTES = 64 * 1024,
    RECORD_BYTES = 16 * 1024, /* from here on there is no use in gathering more */
    PLAIN_BYTES_MAX = 64 * 1024 * 1024,
};

struct link {
    struct wire wire;
    const struct link_events *events;
    void *ctx;
    const struct tls_ops *tls; /* NULL: plain */
    struct tls_session *session;
    link_handshake *handshake; /* NULL: it is through */
    void (*ready)(void *ctx, int error, const struct err *err);
    struct buf plain;               /* written in this turn, not encrypted yet */
    uint64_t *bytes_in, *bytes_out; /* NULL: nobody counts */
    size_t limit;                   /* of plain bytes that the owner wants */
    bool eof;
    bool failed; /* `end` has been told of an error, or `ready` has */
    bool closing;
};

static struct link *link_of(struct wire *wire)
{
    return container_of(wire, struct link, wire);
}

/* ---- TLS ---- */

static void link_fail(struct link *link, int error)
{
    if (!link->failed && !link->closing) {
        link->failed = true;
        link->limit = 0;
        link->events->end(link->ctx, error);
    }
}

static void link_data(struct link *link, const char *data, size_t len)
{
    if (link->bytes_in) {
        *link->bytes_in += len;
    }
    link->events->data(link->ctx, data, len);
}

static void link_encrypt(struct link *link)
{
    size_t len = buf_len(&link->plain);

    if (len == 0 || link->handshake) {
        return;
    }
    if (link->tls->write(link->session, buf_at(&link->plain), len) < 0) {
        link->wire.error = link->wire.error ? link->wire.error : -EPROTO;
        wire_wake(&link->wire);
    }
    buf_fini(&link->plain);
}

static void link_shake(struct link *link)
{
    struct err err = {0};
    int r = link->handshake(link->session, &err);

    if (r == -EAGAIN && !link->wire.eof) {
        return;
    }
    if (r == -EAGAIN) {
        r = err_set(&err, ECONNRESET, "the connection was closed before TLS had begun");
    }
    link->failed = r < 0;
    link->handshake = r < 0 ? link->handshake : NULL;
    link->ready(link->ctx, r, &err);
}

static void link_ended(struct link *link)
{
    if (!link->eof && !link->closing && !link->failed) {
        link->eof = true;
        link->events->end(link->ctx, 0);
    }
}

/* Decrypts as long as somebody wants what comes out. */
static void link_pump(struct link *link)
{
    char *plain = hub_plain(link->wire.hub);

    if (link->handshake && !link->failed && !link->closing) {
        link_shake(link);
    }
    while (!link->handshake && link->limit > 0 && !link->eof && !link->closing && !link->failed) {
        size_t size = link->limit < HUB_PLAIN_BYTES ? link->limit : HUB_PLAIN_BYTES;
        long n = link->tls->read(link->session, plain, size);
        if (n > 0) {
            link_data(link, plain, (size_t)n);
        } else if (n == 0 || (n == -EAGAIN && link->wire.eof)) {
            link_ended(link);
        } else if (n == -EAGAIN) {
            break;
        } else {
            link_fail(link, -EPROTO);
        }
    }
}

/* Encrypted bytes are read by the record: how many of them make a plain one is not known. */
static void link_settle(struct link *link)
{
    if (link->closing) {
        return;
    }
    if (!link->tls) {
        wire_read(&link->wire, link->limit);
    } else {
        bool wants = (link->handshake || link->limit > 0) && !link->failed && !link->eof;
        wire_read(&link->wire, wants ? (size_t)CIPHER_READ_BYTES : 0);
    }
}

/* ---- events of the wire ---- */

static void on_data(struct wire *wire, const char *data, size_t len)
{
    struct link *link = link_of(wire);

    if (link->tls) {
        link->tls->feed(link->session, data, len);
        link_pump(link);
        if (link->tls->hold(link->session) < 0) {
            link_fail(link, -EPROTO);
        }
        link_encrypt(link);
    } else {
        link_data(link, data, len);
    }
    link_settle(link);
}

static void on_end(struct wire *wire, int error)
{
    struct link *link = link_of(wire);

    bool shaking = link->tls && link->handshake;

    if (error < 0 && shaking && !link->failed && !link->closing) {
        struct err err;
        link->failed = true;
        (void)err_set(&err, ECONNRESET, "the connection was cut before TLS had begun");
        link->ready(link->ctx, -ECONNRESET, &err);
    } else if (!link->tls || (error < 0 && !wire->eof)) {
        link->events->end(link->ctx, error); /* of a write: what the peer sent may still come */
    } else if (error < 0) {
        link_fail(link, error);
    } else {
        link_pump(link);
    }
    link_settle(link);
}

static void on_run(struct wire *wire)
{
    struct link *link = link_of(wire);

    if (!link->closing) {
        link->events->run(link->ctx);
    }
    if (link->tls && !link->closing) {
        link_encrypt(link);
        link_pump(link);
        link_encrypt(link);
    }
    link_settle(link);
}

static void on_written(struct wire *wire)
{
    struct link *link = link_of(wire);

    if (!link->closing) {
        link->events->written(link->ctx);
        link_settle(link);
    }
}

static void on_closed(struct wire *wire)
{
    struct link *link = link_of(wire);

    if (link->session) {
        link->tls->free(link->session);
    }
    buf_fini(&link->plain);
    link->events->closed(link->ctx);
    free(link);
}

static const struct wire_events events_of_wire = {
    .data = on_data, .end = on_end, .run = on_run, .written = on_written, .closed = on_closed};

/* ---- what the owner does ---- */

int link_open(uv_loop_t *loop, int fd, const struct link_events *events, void *ctx,
              struct link **out, struct err *err)
{
    struct link *link = xnew(struct link);
    int r = wire_open(&link->wire, &events_of_wire, loop, fd, err);

    if (r < 0) {
        free(link);
        return r;
    }
    buf_init(&link->plain, PLAIN_BYTES_MAX);
    link_own(link, events, ctx);
    *out = link;
    return 0;
}

void link_own(struct link *link, const struct link_events *events, void *ctx)
{
    link->events = events;
    link->ctx = ctx;
}

void link_secure(struct link *link, const struct tls_ops *ops, struct tls_session *session,
                 link_handshake *handshake,
                 void (*ready)(void *ctx, int error, const struct err *err))
{
    assert(!link->tls);
    link->tls = ops;
    link->session = session;
    link->handshake = handshake;
    link->ready = ready;
    wire_wake(&link->wire);
}

void link_send(void *ctx, const void *data, size_t len)
{
    struct link *link = ctx;

    wire_write(&link->wire, data, len);
}

void link_count(struct link *link, uint64_t *in, uint64_t *out)
{
    link->bytes_in = in;
    link->bytes_out = out;
}

bool link_is_http2(const struct link *link)
{
    return link->tls && link->tls->is_http2(link->session);
}

void link_write(struct link *link, const void *data, size_t len)
{
    if (link->bytes_out) {
        *link->bytes_out += len;
    }
    if (!link->tls) {
        wire_write(&link->wire, data, len);
        return;
    }
    if (buf_append(&link->plain, data, len) < 0) {
        link->wire.error = link->wire.error ? link->wire.error : -ENOBUFS;
    }
    if (buf_len(&link->plain) >= RECORD_BYTES) {
        link_encrypt(link);
    }
    wire_wake(&link->wire);
}

size_t link_pending(const struct link *link)
{
    return wire_pending(&link->wire) + buf_len(&link->plain);
}

void link_read(struct link *link, size_t limit)
{
    bool more = limit > 0 && link->limit == 0;

    link->limit = limit;
    if (more && link->tls) {
        wire_wake(&link->wire); /* some may be decrypted already */
    }
    link_settle(link);
}

void link_wake(struct link *link)
{
    wire_wake(&link->wire);
}

void link_shutdown(struct link *link)
{
    if (link->tls) {
        link_encrypt(link);
        link->tls->shutdown(link->session);
    }
    wire_shutdown(&link->wire);
}

bool link_eof(const struct link *link)
{
    return link->tls ? link->eof || link->failed : link->wire.eof;
}

void link_close(struct link *link, bool reset)
{
    link->closing = true;
    wire_close(&link->wire, reset);
}

/* ---- without an owner ---- */

static void no_data(void *ctx, const char *data, size_t len)
{
    (void)ctx, (void)data, (void)len;
}

static void no_end(void *ctx, int error)
{
    (void)ctx, (void)error;
}

static void no_event(void *ctx)
{
    (void)ctx;
}

const struct link_events link_quiet = {
    .data = no_data, .end = no_end, .run = no_event, .written = no_event, .closed = no_event};

void link_drop(struct link *link)
{
    if (link) {
        link_own(link, &link_quiet, NULL);
        link_close(link, true);
    }
}
