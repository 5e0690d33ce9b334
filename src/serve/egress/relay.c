/* relay.c - copies in both directions, once both ends of a connection are open.
 *
 * Bytes go to the writer at once, from one buffer that all connections share. Only bytes that the
 * writer does not take are kept, and then that direction stops until they are written. A half-close
 * is passed on as such, so that "I have sent all, now answer" works too.
 */
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "serve/egress/outbound.h"

static void flow_read(struct flow *flow);

/* A direction may stay silent without limit only while the other is open. */
static void patience(struct outbound *outbound);

static void on_shut(uv_shutdown_t *req, int status)
{
    struct flow *flow = req->data;
    struct outbound *outbound = flow->outbound;

    if (outbound->state != OUTBOUND_RELAYING) {
        return;
    }
    flow->done = true;
    if (status < 0) {
        outbound_reset(outbound);
    } else if (outbound->out.done && outbound->in.done) {
        outbound_close(outbound);
    } else {
        patience(outbound);
    }
}

static void on_written(uv_write_t *req, int status)
{
    struct flow *flow = req->data;

    free(flow->kept);
    flow->kept = NULL;
    if (flow->outbound->state != OUTBOUND_RELAYING) {
        return;
    }
    if (status < 0) {
        outbound_reset(flow->outbound);
    } else {
        flow_read(flow);
    }
}

/* Passes bytes on; the reader rests when they are not all taken. */
static void flow_pass(struct flow *flow, const char *bytes, size_t len)
{
    uv_buf_t buf = uv_buf_init((char *)(uintptr_t)bytes, (unsigned)len);
    int n = uv_try_write(flow->to, &buf, 1);

    if (n < 0 && n != UV_EAGAIN) {
        outbound_reset(flow->outbound);
        return;
    }
    *flow->bytes += len;
    *flow->also += len;
    size_t taken = n < 0 ? 0 : (size_t)n;
    if (taken == len) {
        flow_read(flow);
        return;
    }
    (void)uv_read_stop(flow->from);
    flow->kept = xcalloc(1, len - taken);
    memcpy(flow->kept, bytes + taken, len - taken);
    buf = uv_buf_init(flow->kept, (unsigned)(len - taken));
    if (uv_write(&flow->write, flow->to, &buf, 1, on_written) < 0) {
        outbound_reset(flow->outbound);
    }
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    struct outbound *outbound = handle->data;
    struct egress *egress = outbound->net->egress;

    (void)suggested;
    *out = uv_buf_init(egress->scratch, sizeof(egress->scratch));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct outbound *outbound = stream->data;
    struct flow *flow = stream == outbound->out.from ? &outbound->out : &outbound->in;

    if (n > 0) {
        patience(outbound);
        flow_pass(flow, buf->base, (size_t)n);
    } else if (n == UV_EOF) {
        (void)uv_read_stop(stream);
        if (uv_shutdown(&flow->shutdown, flow->to, on_shut) < 0) {
            outbound_reset(outbound);
        }
    } else if (n < 0) {
        outbound_reset(outbound);
    }
}

static void flow_read(struct flow *flow)
{
    (void)uv_read_start(flow->from, on_alloc, on_read); /* fine when it reads already */
}

static void on_silence(uv_timer_t *timer)
{
    outbound_reset(timer->data);
}

static void patience(struct outbound *outbound)
{
    if (outbound->out.done || outbound->in.done) {
        (void)uv_timer_start(&outbound->timer, on_silence, EGRESS_HALF_OPEN_MS, 0);
    }
}

static void flow_init(struct flow *flow, struct outbound *outbound, uv_tcp_t *from, uv_tcp_t *to,
                      uint64_t *bytes, uint64_t *also)
{
    *flow = (struct flow){.outbound = outbound,
                          .from = (uv_stream_t *)from,
                          .to = (uv_stream_t *)to,
                          .bytes = bytes,
                          .also = also};
    flow->write.data = flow->shutdown.data = flow;
    (void)uv_tcp_nodelay(to, 1);
    (void)uv_tcp_keepalive(to, 1, EGRESS_KEEPALIVE_S);
}

void relay_start(struct outbound *outbound)
{
    struct egress_counters *counters = &outbound->net->counters;

    flow_init(&outbound->out, outbound, &outbound->inner, &outbound->outer, &counters->bytes_out,
              &outbound->destination->bytes_out);
    flow_init(&outbound->in, outbound, &outbound->outer, &outbound->inner, &counters->bytes_in,
              &outbound->destination->bytes_in);
    flow_read(&outbound->in);
    if (buf_len(&outbound->first)) {
        flow_pass(&outbound->out, buf_at(&outbound->first), buf_len(&outbound->first));
        buf_fini(&outbound->first);
    } else {
        flow_read(&outbound->out);
    }
}
