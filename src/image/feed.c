/*      read a block on a thread ─► write it to the socket ─► and again ─► shut down ─► the last
 * line */
#include "image/feed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/fd.h"

enum {
    BLOCK_BYTES = 512 * 1024,
    ANSWER_BYTES_MAX = 4096, /* of a line; the unpacker's are far shorter */
    HANDLES = 2,
};

struct feed {
    uv_loop_t *loop;
    uv_pipe_t pipe;
    uv_timer_t stall;
    int handles; /* that libuv has not closed yet */
    int file_fd;
    int64_t at, end; /* -1: the file's end */
    char *block;
    bool reading; /* a thread does */
    bool over;    /* done was called, or nobody wants it any more */
    char *options;
    struct buf line;
    uv_fs_t read;
    uv_write_t write;
    uv_shutdown_t shutdown;
    void (*progress)(void *ctx, uint64_t bytes, uint64_t entries);
    void (*done)(void *ctx, const struct feed_end *end);
    void *ctx;
};

/* ---- ends ---- */

static void feed_release(struct feed *feed)
{
    if (feed->handles > 0 || feed->reading) {
        return;
    }
    fd_closep(&feed->file_fd);
    buf_fini(&feed->line);
    free(feed->options);
    free(feed->block);
    free(feed);
}

static void on_closed(uv_handle_t *handle)
{
    struct feed *feed = handle->data;

    feed->handles--;
    feed_release(feed);
}

static void feed_close(struct feed *feed)
{
    if (!feed->over) {
        feed->over = true;
        uv_close((uv_handle_t *)&feed->pipe, on_closed);
        uv_close((uv_handle_t *)&feed->stall, on_closed);
    }
}

void feed_cancel(struct feed *feed)
{
    if (feed) {
        feed_close(feed);
    }
}

static void finish(struct feed *feed, const struct feed_end *end)
{
    if (!feed->over) {
        feed_close(feed);
        feed->done(feed->ctx, end);
    }
}

static void fail(struct feed *feed, int code, const char *why)
{
    struct err err;

    (void)err_set(&err, code, "%s", why);
    finish(feed, &(struct feed_end){.err = &err});
}

static void on_stall(uv_timer_t *timer)
{
    fail(timer->data, ETIMEDOUT, "the unpacker stopped answering");
}

static void patience_renew(struct feed *feed)
{
    (void)uv_timer_start(&feed->stall, on_stall, FEED_STALL_MS, 0);
}

/* ---- what the unpacker says ---- */

/* "WORD BYTES ENTRIES". */
static bool counts_read(const char *text, const char *word, struct feed_end *out)
{
    size_t n = strlen(word);
    char *end = NULL;

    if (strncmp(text, word, n) != 0 || text[n] != ' ') {
        return false;
    }
    out->bytes = strtoull(text + n, &end, 10);
    out->entries = strtoull(end, &end, 10);
    return *end == '\0';
}

static void line_take(struct feed *feed, struct str line)
{
    char text[ANSWER_BYTES_MAX] = "";
    struct feed_end end = {0};

    if (!str_copy(text, sizeof(text), line)) {
        fail(feed, EPROTO, "the unpacker's answer cannot be read");
    } else if (str_starts(line, STR("error "))) {
        fail(feed, EBADMSG, text + strlen("error "));
    } else if (counts_read(text, "done", &end)) {
        finish(feed, &end);
    } else if (counts_read(text, "at", &end) && feed->progress) {
        feed->progress(feed->ctx, end.bytes, end.entries);
    }
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    struct feed *feed = handle->data;
    char *at = NULL;

    (void)suggested;
    *out = buf_reserve(&feed->line, ANSWER_BYTES_MAX / 2, &at) < 0
               ? uv_buf_init(NULL, 0)
               : uv_buf_init(at, ANSWER_BYTES_MAX / 2);
}

static void on_lines(uv_stream_t *stream, ssize_t n, const uv_buf_t *unused)
{
    struct feed *feed = stream->data;

    (void)unused;
    if (n == 0 || n == UV_EAGAIN) {
        return;
    }
    if (n < 0) {
        fail(feed, EIO, "the unpacker ended without a word; its sandbox may be out of memory");
        return;
    }
    patience_renew(feed);
    buf_commit(&feed->line, (size_t)n);
    while (!feed->over) {
        size_t end = str_find(buf_str(&feed->line), '\n');
        if (end == buf_len(&feed->line)) {
            return;
        }
        struct str line = {buf_at(&feed->line), end};
        line_take(feed, line);
        buf_consume(&feed->line, end + 1);
    }
}

/* ---- what it is sent ---- */

static void block_read(struct feed *feed);

static void on_shutdown(uv_shutdown_t *req, int status)
{
    (void)req, (void)status; /* the unpacker's last line tells */
}

static void on_written(uv_write_t *req, int status)
{
    struct feed *feed = req->data;

    if (feed->over) {
        return;
    }
    if (status == 0) {
        patience_renew(feed);
        block_read(feed);
    } /* else it has closed its end, and said why: that line is on its way */
}

static void block_write(struct feed *feed, char *data, size_t len)
{
    uv_buf_t buf = uv_buf_init(data, (unsigned)len);

    feed->write.data = feed;
    if (uv_write(&feed->write, (uv_stream_t *)&feed->pipe, &buf, 1, on_written) < 0) {
        fail(feed, EIO, "the unpacker cannot be written to");
    }
}

static void on_read(uv_fs_t *req)
{
    struct feed *feed = req->data;
    ssize_t n = req->result;

    uv_fs_req_cleanup(req);
    feed->reading = false;
    if (feed->over) {
        feed_release(feed);
    } else if (n < 0) {
        fail(feed, EIO, "the archive cannot be read from the disk");
    } else if (n == 0) {
        (void)uv_shutdown(&feed->shutdown, (uv_stream_t *)&feed->pipe, on_shutdown);
    } else {
        feed->at += n;
        block_write(feed, feed->block, (size_t)n);
    }
}

static void block_read(struct feed *feed)
{
    int64_t left = feed->end < 0 ? BLOCK_BYTES : feed->end - feed->at;
    uv_buf_t buf = uv_buf_init(feed->block, (unsigned)(left < BLOCK_BYTES ? left : BLOCK_BYTES));

    if (left == 0) {
        (void)uv_shutdown(&feed->shutdown, (uv_stream_t *)&feed->pipe, on_shutdown);
        return;
    }
    feed->read.data = feed;
    feed->reading = true;
    if (uv_fs_read(feed->loop, &feed->read, feed->file_fd, &buf, 1, feed->at, on_read) < 0) {
        abort();
    }
}

struct feed *feed_start(uv_loop_t *loop, const struct feed_plan *plan,
                        void (*progress)(void *ctx, uint64_t bytes, uint64_t entries),
                        void (*done)(void *ctx, const struct feed_end *end), void *ctx)
{
    struct feed *feed = xnew(struct feed);
    size_t len = strlen(plan->options);

    *feed = (struct feed){.loop = loop,
                          .file_fd = plan->file_fd,
                          .at = plan->offset,
                          .end = plan->length < 0 ? -1 : plan->offset + plan->length,
                          .block = xcalloc(1, BLOCK_BYTES),
                          .options = xcalloc(1, len + 2),
                          .handles = HANDLES,
                          .progress = progress,
                          .done = done,
                          .ctx = ctx};
    memcpy(feed->options, plan->options, len);
    feed->options[len] = '\n';
    buf_init(&feed->line, ANSWER_BYTES_MAX);
    if (uv_pipe_init(loop, &feed->pipe, 0) < 0 || uv_timer_init(loop, &feed->stall) < 0 ||
        uv_pipe_open(&feed->pipe, plan->socket_fd) < 0) {
        abort(); /* a socket that the agent made for this */
    }
    feed->pipe.data = feed->stall.data = feed;
    patience_renew(feed);
    if (uv_read_start((uv_stream_t *)&feed->pipe, on_alloc, on_lines) < 0) {
        abort();
    }
    block_write(feed, feed->options, len + 1);
    return feed;
}
