#include "h2_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static struct h2_call *call_of(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

static long plain_send(void *io, const void *data, size_t len)
{
    return send(*(int *)io, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static long plain_recv(void *io, void *out, size_t size)
{
    return recv(*(int *)io, out, size, MSG_DONTWAIT);
}

static ssize_t on_send(nghttp2_session *session, const uint8_t *data, size_t len, int flags,
                       void *user_data)
{
    struct h2_client *client = user_data;
    long n = client->send(client->io, data, len);

    (void)session, (void)flags;
    if (n > 0) {
        return n;
    }
    return errno == EAGAIN ? NGHTTP2_ERR_WOULDBLOCK : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *user_data)
{
    struct h2_call *call = call_of(session, frame->hd.stream_id);

    (void)flags, (void)user_data;
    if (!call) {
        return 0;
    }
    if (name_len == 7 && memcmp(name, ":status", 7) == 0) {
        int status = atoi((const char *)value);
        call->interim += status < 200;
        call->status = status < 200 ? 0 : status;
    }
    size_t used = strlen(call->headers);
    (void)snprintf(call->headers + used, sizeof(call->headers) - used, "%.*s: %.*s\n",
                   (int)name_len, name, (int)value_len, value);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
                   size_t len, void *user_data)
{
    struct h2_call *call = call_of(session, id);

    (void)flags, (void)user_data;
    nghttp2_session_consume_connection(session, len);
    if (call) {
        size_t room = sizeof(call->text) - 1;
        size_t at = call->received < room ? (size_t)call->received : room;
        size_t n = len < room - at ? len : room - at;
        memcpy(call->text + at, data, n);
        call->received += len;
        if (!call->hold) {
            nghttp2_session_consume_stream(session, id, len);
        }
    }
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user_data)
{
    struct h2_client *client = user_data;

    (void)session;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        client->goaway = true;
        client->goaway_code = frame->goaway.error_code;
    } else if (frame->hd.type == NGHTTP2_RST_STREAM) {
        struct h2_call *call = call_of(session, frame->hd.stream_id);
        if (call) {
            call->close_code = frame->rst_stream.error_code;
        }
    }
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *user_data)
{
    struct h2_call *call = call_of(session, id);

    (void)code, (void)user_data;
    if (call) {
        call->closed = true;
    }
    return 0;
}

static ssize_t on_body(nghttp2_session *session, int32_t id, uint8_t *out, size_t len,
                       uint32_t *flags, nghttp2_data_source *source, void *user_data)
{
    struct h2_call *call = call_of(session, id);
    uint64_t left = call->to_send - call->sent;
    size_t n = left < len ? (size_t)left : len;

    (void)source, (void)user_data;
    memset(out, 'b', n);
    call->sent += n;
    if (call->sent == call->to_send) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    return (ssize_t)n;
}

void h2_start(struct h2_client *client, int fd)
{
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;

    memset(client, 0, sizeof(*client));
    client->fd = fd;
    client->io = &client->fd;
    client->send = plain_send;
    client->recv = plain_recv;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_send_callback(callbacks, on_send);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_option_new(&option);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_session_client_new2(&client->session, callbacks, client, option);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(client->session, NGHTTP2_FLAG_NONE, NULL, 0);
}

void h2_end(struct h2_client *client)
{
    nghttp2_session_del(client->session);
}

static nghttp2_nv field(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name),
                        strlen(value), NGHTTP2_NV_FLAG_NONE};
}

struct h2_call *h2_request(struct h2_client *client, const char *method, const char *path,
                           uint64_t body, const struct h2_header *headers, size_t n)
{
    struct h2_call *call = &client->calls[client->calls_n++];
    nghttp2_nv fields[160];
    size_t fields_n = 0;
    nghttp2_data_provider provider = {.read_callback = on_body};

    fields[fields_n++] = field(":method", method);
    fields[fields_n++] = field(":scheme", "http");
    fields[fields_n++] = field(":authority", "h2.host");
    fields[fields_n++] = field(":path", path);
    for (size_t i = 0; i < n && fields_n < 160; i++) {
        fields[fields_n++] = field(headers[i].name, headers[i].value);
    }
    call->to_send = body;
    call->id = nghttp2_submit_request(client->session, NULL, fields, fields_n,
                                      body ? &provider : NULL, call);
    return call;
}

void h2_cancel(struct h2_client *client, struct h2_call *call)
{
    nghttp2_submit_rst_stream(client->session, NGHTTP2_FLAG_NONE, call->id, NGHTTP2_CANCEL);
}

void h2_step(struct h2_client *client)
{
    uint8_t bytes[16 * 1024];

    (void)nghttp2_session_send(client->session);
    long n = client->recv(client->io, bytes, sizeof(bytes));
    if (n > 0) {
        (void)nghttp2_session_mem_recv(client->session, bytes, (size_t)n);
    } else if (n == 0 || errno != EAGAIN) {
        client->eof = true;
    }
}
