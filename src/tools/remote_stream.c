#include <errno.h>
#include <stdio.h>

#include "tools/remote_internal.h"

enum { DEADLINE_DIGITS = 24 };

void remote_stream_init(struct remote_stream *stream)
{
    *stream = (struct remote_stream){0};
    buf_init(&stream->in, PROCESS_MESSAGE_BYTES_MAX + HTTP_WINDOW_BYTES + FRAME_HEAD_BYTES);
    process_event_init(&stream->event);
}

void remote_stream_fini(struct remote_stream *stream)
{
    ask_close(stream->ask);
    buf_fini(&stream->in);
    process_event_fini(&stream->event);
}

int remote_stream_open(struct tool_call *call, const struct remote_sandbox *sandbox,
                       const struct remote_stream_plan *plan, struct remote_stream *stream,
                       struct err *err)
{
    char deadline[DEADLINE_DIGITS];
    struct remote_headers headers;

    remote_headers(&headers, sandbox, REMOTE_AGENT_PORT);
    remote_header(&headers, "content-type", PROCESS_CONTENT_TYPE);
    if (plan->authorization) {
        remote_header(&headers, "authorization", plan->authorization);
    }
    if (plan->deadline_ms > 0) {
        (void)snprintf(deadline, sizeof(deadline), "%lld", (long long)plan->deadline_ms);
        remote_header(&headers, "connect-timeout-ms", deadline);
    }
    const struct ask_plan asked = {.method = "POST",
                                   .target = plan->target,
                                   .headers = headers.at,
                                   .headers_n = headers.n,
                                   .body = plan->body,
                                   .limit_ms = plan->limit_ms};
    int r = ask_open(call_tools(call), &asked, &stream->ask, err);
    if (r == 0 && ask_status(stream->ask) != 200) {
        r = remote_refused(stream->ask, plan->what, err);
    }
    return r;
}

static int read_more(struct remote_stream *stream, struct err *err)
{
    struct str piece = {0};
    int r = ask_read(stream->ask, &piece, err);

    if (r == 0) {
        return err_set(err, EIO, "the sandbox went away");
    }
    return r > 0 && buf_append(&stream->in, piece.at, piece.len) < 0
               ? err_set(err, EIO, "the sandbox's agent sent too long a message")
               : r;
}

int remote_stream_next(struct remote_stream *stream, struct err *err)
{
    struct frame frame;
    int r;

    while ((r = frame_read(buf_str(&stream->in), PROCESS_MESSAGE_BYTES_MAX, &frame)) == 0) {
        r = read_more(stream, err);
        if (r < 0) {
            return r;
        }
    }
    if (r < 0) {
        return err_set(err, EIO, "the sandbox's agent sent too long a message");
    }
    process_event(&frame, &stream->event);
    buf_consume(&stream->in, frame.bytes);
    return 0;
}
