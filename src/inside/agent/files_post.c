/* files_post.c - POST /files: the body goes to the thread pool chunk by chunk.
 *
 * Two buffers: one fills from the connection while the pool writes the other. The client has credit
 * for what fits in both and gets more as chunks reach the disk, so an upload of any size needs the
 * same memory. After a failure the temporary files are removed first and then it is answered: a
 * client that reads the error finds nothing left.
 */
#include <assert.h>
#include <stdlib.h>

#include "inside/agent/files.h"
#include "inside/agent/upload.h"
#include "lib/base/alloc.h"
#include "lib/base/err.h"

enum {
    IN_FLIGHT_BYTES = 2 * FILES_CHUNK_BYTES,
    REPLY_BYTES_MAX = 64 * 1024 * 1024,
};

enum job { JOB_FEED, JOB_FINISH, JOB_CLEAN };

struct post {
    uv_work_t work; /* the pool's while `busy`, with all from `job` to `err` */
    bool busy;
    enum job job;
    struct upload *upload; /* NULL when it has ended */
    struct buf writing;
    struct buf reply;
    int64_t written; /* bytes of files, once the upload has ended */
    int result;
    struct err err;

    struct files_request *req;
    struct buf filling;
    bool body_ended; /* nothing more comes */
    bool answered;
    bool gone; /* on_end was called: the exchange is dead */
};

/* Frees an upload that has failed or is in place. It is done here, where removing temporary files
 * may block. */
static void job_run(uv_work_t *work)
{
    struct post *post = container_of(work, struct post, work);
    struct str data = buf_str(&post->writing);

    if (post->job == JOB_FEED) {
        post->result = upload_feed(post->upload, data.at, data.len, &post->err);
    } else if (post->job == JOB_FINISH) {
        post->result = upload_finish(post->upload, &post->reply, &post->err);
    }
    if (post->job != JOB_FEED || post->result < 0) {
        post->written = upload_written(post->upload);
        upload_free(post->upload);
        post->upload = NULL;
    }
}

static void post_free(struct post *post)
{
    buf_fini(&post->writing);
    buf_fini(&post->filling);
    buf_fini(&post->reply);
    files_request_free(post->req);
    free(post);
}

static void answer(struct post *post)
{
    struct str path = post->req->path ? str_of(post->req->path) : STR("");

    post->answered = true;
    if (post->result < 0) {
        files_tell_failed("file_write", path, post->err.msg);
        files_fail(post->req->ex, files_status(-post->result), post->err.msg);
    } else {
        files_tell(LOG_INFO, "file_write", path, post->written);
        http_reply(post->req->ex, post->req->terms ? 201 : 200, "application/json",
                   buf_at(&post->reply), buf_len(&post->reply));
    }
}

static void job_done(uv_work_t *work, int status);

static void job_start(struct post *post, enum job job)
{
    post->job = job;
    post->busy = true;
    if (uv_queue_work(post->req->loop, &post->work, job_run, job_done) < 0) {
        abort(); /* only without a callback */
    }
}

static void feed_start(struct post *post)
{
    struct buf empty = post->writing;

    post->writing = post->filling;
    post->filling = empty;
    job_start(post, JOB_FEED);
}

/* Starts the next step; called whenever something has changed. May free post. */
static void advance(struct post *post)
{
    if (post->busy) {
        return;
    }
    if (!post->upload) { /* it has ended, one way or the other */
        if (post->gone) {
            post_free(post);
        } else if (!post->answered) {
            answer(post);
        }
    } else if (post->gone) {
        job_start(post, JOB_CLEAN);
    } else if (buf_len(&post->filling) > 0) {
        feed_start(post);
    } else if (post->body_ended) {
        job_start(post, JOB_FINISH);
    }
}

static void job_done(uv_work_t *work, int status)
{
    struct post *post = container_of(work, struct post, work);
    size_t written = buf_len(&post->writing);

    assert(status == 0); /* nobody cancels */
    post->busy = false;
    buf_clear(&post->writing);
    if (post->job == JOB_FEED && post->upload && !post->gone) {
        http_credit(post->req->ex, written);
    }
    advance(post);
}

static void on_body(void *ctx, const void *data, size_t len)
{
    struct post *post = ctx;

    if (post->answered) {
        return;
    }
    if (buf_append(&post->filling, data, len) < 0) {
        abort(); /* more than its credit: a bug of the connection's */
    }
    advance(post);
}

static void on_body_end(void *ctx)
{
    struct post *post = ctx;

    post->body_ended = true;
    advance(post);
}

static void on_end(void *ctx, int error)
{
    struct post *post = ctx;

    (void)error; /* a body that was cut never had its on_body_end */
    post->gone = true;
    advance(post);
}

void files_post(struct files_request *req)
{
    static const struct http_handler handler = {
        .on_body = on_body, .on_body_end = on_body_end, .on_end = on_end};
    struct err err;
    struct upload *upload = upload_new(req, http_request(req->ex), &err);

    if (!upload) {
        files_refuse(req->ex, 400, err.msg);
        files_request_free(req);
        return;
    }
    struct post *post = xnew(struct post);
    post->req = req;
    post->upload = upload;
    buf_init(&post->filling, IN_FLIGHT_BYTES);
    buf_init(&post->writing, IN_FLIGHT_BYTES);
    buf_init(&post->reply, REPLY_BYTES_MAX);
    http_accept(req->ex, &handler, post);
    http_credit(req->ex, IN_FLIGHT_BYTES);
}
