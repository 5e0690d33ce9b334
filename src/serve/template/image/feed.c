/*      read a block on a thread ─► write it to the socket ─► and again ─► shut down ─► the last
 * line */
#include "serve/template/image/feed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/base/alloc.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/foreign.h"

enum {
    BLOCK_BYTES = 512 * 1024,
    ANSWER_BYTES_MAX = 4096, /* of a line; the unpacker's are far shorter */
    HANDLES = 3,
    LAST_READS = 64, /* of a connection that broke: more than a socket's buffer of lines */
};

struct feed {
    uv_loop_t *loop;
    uv_poll_t poll;
    int socket_fd; /* shared with the jail: lib/base/foreign.h */
    uv_timer_t stall;
    uv_timer_t limit;
    int handles; /* that libuv has not closed yet */
    int file_fd;
    int64_t at, end; /* -1: the file's end */
    char *block;
    bool reading; /* a thread does */
    bool over;    /* done was called, or nobody wants it any more */
    char *options;
    const char *out; /* bytes that the socket has not taken yet */
    size_t out_len;
    struct buf line;
    uv_fs_t read;
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
        uv_close((uv_handle_t *)&feed->poll, on_closed);
        uv_close((uv_handle_t *)&feed->stall, on_closed);
        uv_close((uv_handle_t *)&feed->limit, on_closed);
        foreign_closep(&feed->socket_fd);
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

/* In a jail where commands have run, the unpacker may be replaced, and send without end. */
static void on_limit(uv_timer_t *timer)
{
    fail(timer->data, ETIMEDOUT, "the unpacker took too long");
}

static void patience_renew(struct feed *feed)
{
    (void)uv_timer_start(&feed->stall, on_stall, FEED_STALL_MS, 0);
}

/* ---- answers of the unpacker ---- */

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

static void lines_take(struct feed *feed)
{
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

static void on_lines(struct feed *feed)
{
    char *at = NULL;

    if (buf_reserve(&feed->line, ANSWER_BYTES_MAX / 2, &at) < 0) {
        fail(feed, EPROTO, "the unpacker's answer cannot be read");
        return;
    }
    ssize_t n = recv(feed->socket_fd, at, ANSWER_BYTES_MAX / 2, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0) {
        fail(feed, EIO, "the unpacker ended without a word; its sandbox may be out of memory");
        return;
    }
    patience_renew(feed);
    buf_commit(&feed->line, (size_t)n);
    lines_take(feed);
}

/* ---- sending the archive ---- */

static void block_read(struct feed *feed);

static void on_poll(uv_poll_t *poll, int status, int events);

static void watch(struct feed *feed, int events)
{
    (void)uv_poll_start(&feed->poll, events, on_poll);
}

/* Writes as much as the socket takes. An unpacker that has closed its end has sent the reason: that
 * line is read. */
static void block_send(struct feed *feed)
{
    ssize_t n = send(feed->socket_fd, feed->out, feed->out_len, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        watch(feed, UV_READABLE);
        return;
    }
    feed->out += n > 0 ? n : 0;
    feed->out_len -= n > 0 ? (size_t)n : 0;
    if (n > 0) {
        patience_renew(feed);
    }
    if (feed->out_len == 0) {
        watch(feed, UV_READABLE);
        block_read(feed);
    }
}

static void block_write(struct feed *feed, const char *data, size_t len)
{
    feed->out = data;
    feed->out_len = len;
    watch(feed, UV_READABLE | UV_WRITABLE);
}

/* An error that neither a write nor a read explains would keep the loop busy. */
static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct feed *feed = poll->data;

    if (status < 0) {
        for (int i = 0; i < LAST_READS && !feed->over; i++) {
            on_lines(feed); /* its last words came before */
        }
        if (!feed->over) {
            fail(feed, EIO, "the connection to the unpacker broke");
        }
        return;
    }
    if (events & UV_READABLE) {
        on_lines(feed);
    }
    if (events & UV_WRITABLE && !feed->over && feed->out_len > 0) {
        block_send(feed);
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
        (void)shutdown(feed->socket_fd, SHUT_WR); /* the unpacker's last line tells */
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
        (void)shutdown(feed->socket_fd, SHUT_WR); /* the unpacker's last line tells */
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
                          .socket_fd = plan->socket_fd,
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
    if (uv_timer_init(loop, &feed->stall) < 0 || uv_timer_init(loop, &feed->limit) < 0 ||
        uv_poll_init(loop, &feed->poll, feed->socket_fd) < 0) {
        abort(); /* a TCP socket can always be polled */
    }
    feed->poll.data = feed->stall.data = feed->limit.data = feed;
    if (plan->limit_ms > 0) {
        (void)uv_timer_start(&feed->limit, on_limit, (uint64_t)plan->limit_ms, 0);
    }
    patience_renew(feed);
    block_write(feed, feed->options, len + 1);
    return feed;
}
