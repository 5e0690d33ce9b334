/* files_get.c - GET /files: chunks from the thread pool to the connection, one read ahead.
 *
 * The chunks of a large file are pipes: the pool moves pages of the file into one while the loop
 * moves those of the other to the connection, and no byte is copied. Small files, compressed ones,
 * and those of a file system or a connection that cannot do it go through memory.
 *
 * The first job opens the file, decides the answer and reads the first chunk: a small file is one
 * job, and a file whose size the kernel does not tell (/proc) or tells wrong (/sys) is seen to end
 * before its length is promised. A file that becomes shorter while it is sent resets the
 * connection; the client never takes a part for the whole.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inside/agent/encoding.h"
#include "inside/agent/files.h"
#include "inside/agent/gzip.h"
#include "inside/agent/media.h"
#include "inside/agent/users.h"
#include "lib/base/alloc.h"
#include "lib/base/fd.h"

enum {
    HEADERS_MAX = 12,
    CONDITION_BYTES_MAX = 1024, /* a longer condition is as if it were not there */
    ETAG_BYTES = 64,
    DISPOSITION_BYTES = 1024,
    PAGE_BYTES = 4096,
    PIPE_BYTES_MIN = 64 * 1024, /* less is not worth it */
};

struct chunk {
    char *data; /* NULL while it is in the pipe */
    size_t cap, len, sent;
    bool full;
    bool piped;
    int pipe[2]; /* -1: none was needed */
    size_t pipe_bytes;
};

/* Copies of request headers, for the pool's thread. */
struct asked {
    char range[CONDITION_BYTES_MAX], accept[CONDITION_BYTES_MAX];
    char text[5][CONDITION_BYTES_MAX];
    bool has_range;
    struct conditions conditions;
};

struct get {
    /* While `busy`, the pool owns this and all fields to `err`, but the loop owns `chunks[head]`.
     */
    uv_work_t work;
    bool busy;
    bool opened; /* the first job has run */
    struct asked asked;
    char path[AGENT_PATH_BYTES];
    int fd;
    int status;
    int64_t size;       /* as the kernel told */
    int64_t modified_s; /* of the file */
    int64_t offset;     /* of the next read */
    int64_t left;       /* bytes still to read; -1: to the end */
    int64_t length;     /* of the answer's body; -1: not known before its end */
    int64_t first;      /* of a 206's part */
    bool gzip;
    z_stream z;
    char *packing; /* GZIP_CHUNK_BYTES of the file on their way through z */
    bool last;     /* nothing follows the chunk that was read */
    bool no_pipe;  /* there is none to be had, or the file system has no use for it */
    unsigned fill;
    struct chunk chunks[2];
    char etag[ETAG_BYTES];
    int error;
    struct err err;

    struct files_request *req;
    unsigned head; /* the chunk to send next */
    bool answered;
    bool finished;
    bool gone;
};

/* ---- the pool's thread ---- */

static int file_open(struct get *get)
{
    struct stat st;

    if (stat(get->path, &st) < 0) {
        if (errno == ENOENT || errno == ENOTDIR) {
            get->status = 404;
            return err_set(&get->err, ENOENT, "path '%s' does not exist", get->path);
        }
        return err_sys(&get->err, "error checking if path exists '%s'", get->path);
    }
    if (S_ISDIR(st.st_mode)) {
        return err_set(&get->err, EISDIR, "path '%s' is a directory", get->path);
    }
    if (!S_ISREG(st.st_mode)) { /* before open(): that alone would wake a FIFO's writer */
        return err_set(&get->err, EINVAL, "path '%s' is not a regular file", get->path);
    }
    get->fd = open(get->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (get->fd < 0 || fstat(get->fd, &st) < 0) {
        return err_sys(&get->err, "error opening file '%s'", get->path);
    }
    if (!S_ISREG(st.st_mode)) {
        return err_set(&get->err, EINVAL, "path '%s' is not a regular file", get->path);
    }
    get->size = st.st_size;
    get->modified_s = st.st_mtim.tv_sec;
    (void)snprintf(get->etag, sizeof(get->etag), "\"%" PRIx64 "-%" PRIx64 "-%" PRIx64 ".%lx\"",
                   (uint64_t)st.st_ino, (uint64_t)st.st_size, (uint64_t)st.st_mtim.tv_sec,
                   (unsigned long)st.st_mtim.tv_nsec);
    return 0;
}

/* Range and conditions refer to the file's own bytes: with either, it is not compressed. */
static int encoding_decide(struct get *get)
{
    struct str accept = str_of(get->asked.accept);
    const struct conditions *c = &get->asked.conditions;
    bool plain = get->asked.has_range || c->if_range.at || c->if_none_match.at ||
                 c->if_modified_since.at || c->if_match.at || c->if_unmodified_since.at;

    if (plain && !encoding_identity_acceptable(accept)) {
        get->status = 406;
        return err_set(&get->err, EINVAL,
                       "identity encoding not acceptable for Range or conditional request");
    }
    enum encoding encoding = plain ? ENCODING_IDENTITY : encoding_choose(accept);
    if (encoding == ENCODING_NONE) {
        get->status = 406;
        return err_set(&get->err, EINVAL,
                       "error parsing Accept-Encoding: no acceptable encoding found, "
                       "supported: [gzip]");
    }
    get->gzip = encoding == ENCODING_GZIP;
    get->packing = get->gzip ? xcalloc(1, GZIP_CHUNK_BYTES) : NULL;
    if (get->gzip &&
        deflateInit2(&get->z, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        get->gzip = false;
        return err_set(&get->err, ENOMEM, "error opening file '%s': out of memory", get->path);
    }
    return 0;
}

/* Which status and which bytes. */
static void part_decide(struct get *get)
{
    const struct conditions *c = &get->asked.conditions;
    int64_t first, length;

    get->status = conditions_check(c, get->etag, get->modified_s);
    get->left = get->size > 0 ? get->size : -1;
    if (get->status != 200) {
        get->left = 0;
    } else if (get->asked.has_range && get->size > 0 &&
               conditions_range_valid(c, get->etag, get->modified_s)) {
        int r = range_parse(str_of(get->asked.range), get->size, &first, &length);
        if (r == 1) {
            get->status = 206;
            get->first = get->offset = first;
            get->left = length;
        } else if (r < 0) {
            get->status = 416;
            get->left = 0;
        }
    }
}

/* Reads until the buffer is full, the part is read or the file ends. Bytes, or -errno. */
static ssize_t part_read(struct get *get, char *out, size_t size)
{
    size_t got = 0;

    while (got < size && get->left != 0) {
        size_t want = size - got;
        if (get->left > 0 && (uint64_t)get->left < want) {
            want = (size_t)get->left;
        }
        ssize_t n = pread(get->fd, out + got, want, get->offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return -errno;
        }
        if (n == 0) {
            /* The file is shorter than its size: fine if no length was sent yet. */
            if (get->left > 0 && get->opened && !get->gzip) {
                return -EIO;
            }
            get->left = 0;
            break;
        }
        got += (size_t)n;
        get->offset += n;
        get->left -= get->left > 0 ? n : 0;
    }
    return (ssize_t)got;
}

/* Fills the chunk with compressed bytes. Input that did not fit waits in `packing` for the next. */
static int chunk_deflate(struct get *get, struct chunk *chunk)
{
    get->z.next_out = (Bytef *)chunk->data;
    get->z.avail_out = (uInt)chunk->cap;
    while (get->z.avail_out > 0 && !get->last) {
        if (get->z.avail_in == 0 && get->left != 0) {
            ssize_t n = part_read(get, get->packing, GZIP_CHUNK_BYTES);
            if (n < 0) {
                return (int)n;
            }
            get->z.next_in = (const Bytef *)get->packing;
            get->z.avail_in = (uInt)n;
        }
        get->last = deflate(&get->z, get->left == 0 ? Z_FINISH : Z_NO_FLUSH) == Z_STREAM_END;
    }
    chunk->len = chunk->cap - get->z.avail_out;
    return 0;
}

/* A small file gets only the buffer it needs, and a byte to detect its end. */
static void chunk_prepare(const struct get *get, struct chunk *chunk)
{
    bool small = !get->gzip && get->left >= 0 && get->left < FILES_CHUNK_BYTES;

    if (!chunk->data) {
        chunk->cap = small ? (size_t)get->left + 1 : FILES_CHUNK_BYTES;
        chunk->data = xcalloc(1, chunk->cap);
    }
    chunk->sent = 0;
}

/* Moves pages of the file into the chunk's pipe. Bytes, 0 where that cannot be done, or -errno. A
 * page that is not whole takes as much of the pipe as one that is. */
static ssize_t part_splice(struct get *get, struct chunk *chunk)
{
    size_t most = chunk->pipe_bytes - (size_t)(get->offset % PAGE_BYTES);
    size_t want = (uint64_t)get->left < most ? (size_t)get->left : most;
    size_t got = 0;

    while (got < want) {
        ssize_t n =
            splice(get->fd, &get->offset, chunk->pipe[1], NULL, want - got, SPLICE_F_NONBLOCK);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && (got > 0 || errno == EINVAL || errno == EAGAIN)) {
            break; /* the next chunk, or the other way to read it, tells why */
        }
        if (n <= 0) {
            return n < 0 ? -errno : -EIO; /* the file has become shorter */
        }
        got += (size_t)n;
        get->left -= n;
    }
    return (ssize_t)got;
}

static int chunk_read(struct get *get, struct chunk *chunk)
{
    if (get->gzip) {
        return chunk_deflate(get, chunk);
    }
    if (chunk->piped) {
        ssize_t moved = part_splice(get, chunk);
        if (moved != 0) {
            chunk->len = moved < 0 ? 0 : (size_t)moved;
            get->last = get->left == 0;
            return moved < 0 ? (int)moved : 0;
        }
        get->no_pipe = true;
        chunk->piped = false;
        chunk_prepare(get, chunk);
    }
    ssize_t n = part_read(get, chunk->data, chunk->cap);
    if (n < 0) {
        return (int)n;
    }
    chunk->len = (size_t)n;
    get->last = get->left == 0;
    return 0;
}

/* The length of the body: known when all of it has been read, or when the file tells it. */
static void length_decide(struct get *get)
{
    if (get->last) {
        get->length = (int64_t)get->chunks[0].len;
    } else if (get->gzip || get->left < 0) {
        get->length = -1;
    } else {
        get->length = (int64_t)get->chunks[0].len + get->left;
    }
}

static void open_run(struct get *get)
{
    if (file_open(get) < 0 || encoding_decide(get) < 0) {
        get->status = get->status ? get->status : files_status(get->err.code);
        return;
    }
    part_decide(get);
    chunk_prepare(get, &get->chunks[0]);
    int r = chunk_read(get, &get->chunks[0]);
    if (r < 0) {
        /* A file without a size is the kernel's, which decides what may be read of it. */
        get->status = get->size > 0 ? 500 : 400;
        (void)err_set(&get->err, -r, "error reading file '%s': %s", get->path, strerror(-r));
        return;
    }
    get->chunks[0].full = get->chunks[0].len > 0;
    length_decide(get);
}

static void job_run(uv_work_t *work)
{
    struct get *get = container_of(work, struct get, work);

    if (!get->opened) {
        open_run(get);
    } else {
        get->error = chunk_read(get, &get->chunks[get->fill]);
    }
}

/* ---- the loop's thread ---- */

static void chunk_free(struct chunk *chunk)
{
    free(chunk->data);
    fd_closep(&chunk->pipe[0]);
    fd_closep(&chunk->pipe[1]);
}

static void get_free(struct get *get)
{
    if (get->gzip) {
        (void)deflateEnd(&get->z);
    }
    fd_closep(&get->fd); /* read-only: closing writes nothing, and so does not block */
    free(get->packing);
    chunk_free(&get->chunks[0]);
    chunk_free(&get->chunks[1]);
    files_request_free(get->req);
    free(get);
}

static void header_add(struct http_header *headers, size_t *n, const char *name, const char *value)
{
    assert(*n < HEADERS_MAX);
    headers[(*n)++] = (struct http_header){str_of(name), str_of(value)};
}

static void head_send(struct get *get)
{
    char modified[HTTP_DATE_BYTES], range[80], disposition[DISPOSITION_BYTES];
    struct http_header headers[HEADERS_MAX];
    size_t n = 0;

    media_disposition(get->path, disposition, sizeof(disposition));
    http_date(get->modified_s, modified);
    header_add(headers, &n, "Content-Type", media_type(get->path));
    header_add(headers, &n, "Content-Disposition", disposition);
    header_add(headers, &n, "Vary", "Accept-Encoding");
    header_add(headers, &n, "Last-Modified", modified);
    header_add(headers, &n, "ETag", get->etag);
    header_add(headers, &n, "Accept-Ranges", "bytes");
    if (get->gzip) {
        header_add(headers, &n, "Content-Encoding", "gzip");
    }
    if (get->status == 206) {
        (void)snprintf(range, sizeof(range), "bytes %" PRId64 "-%" PRId64 "/%" PRId64, get->first,
                       get->first + get->length - 1, get->size);
        header_add(headers, &n, "Content-Range", range);
    } else if (get->status == 416) {
        (void)snprintf(range, sizeof(range), "bytes */%" PRId64, get->size);
        header_add(headers, &n, "Content-Range", range);
    }
    http_respond(get->req->ex, get->status, headers, n, get->length);
}

static void job_done(uv_work_t *work, int status);

static void job_start(struct get *get)
{
    get->busy = true;
    if (uv_queue_work(get->req->loop, &get->work, job_run, job_done) < 0) {
        abort(); /* only without a callback */
    }
}

static bool pipe_make(struct chunk *chunk)
{
    if (pipe2(chunk->pipe, O_CLOEXEC) < 0) {
        return false;
    }
    (void)fcntl(chunk->pipe[0], F_SETPIPE_SZ, FILES_CHUNK_BYTES);
    int bytes = fcntl(chunk->pipe[0], F_GETPIPE_SZ);
    chunk->pipe_bytes = bytes < 0 ? 0 : (size_t)bytes;
    return chunk->pipe_bytes >= PIPE_BYTES_MIN;
}

/* Decides how the next chunk is read. */
static void way_decide(struct get *get, struct chunk *chunk)
{
    chunk->piped = !get->no_pipe && !get->gzip && get->left >= FILES_CHUNK_BYTES &&
                   http_takes_pipe(get->req->ex);
    if (chunk->piped && chunk->pipe[0] < 0 && !pipe_make(chunk)) {
        get->no_pipe = true;
        chunk->piped = false;
    }
    if (!chunk->piped) {
        chunk_prepare(get, chunk);
    }
    chunk->sent = 0;
}

/* Returns how much of the chunk the connection took. */
static size_t chunk_send(struct get *get, struct chunk *chunk)
{
    size_t left = chunk->len - chunk->sent;

    if (chunk->piped) {
        return http_splice(get->req->ex, chunk->pipe[0], left);
    }
    size_t room = http_writable(get->req->ex);
    size_t n = left < room ? left : room;
    http_write(get->req->ex, chunk->data + chunk->sent, n);
    return n;
}

static void chunks_send(struct get *get)
{
    while (get->chunks[get->head].full) {
        struct chunk *chunk = &get->chunks[get->head];
        size_t n = chunk_send(get, chunk);
        if (n == 0) {
            return;
        }
        chunk->sent += n;
        if (chunk->sent == chunk->len) {
            chunk->full = false;
            get->head ^= 1;
        }
    }
}

/* Sends what is ready, and reads ahead while there is room. */
static void pump(struct get *get)
{
    if (get->finished) {
        return;
    }
    chunks_send(get);
    if (get->busy) {
        return;
    }
    if (!get->last && !get->chunks[get->fill].full) {
        way_decide(get, &get->chunks[get->fill]);
        job_start(get);
    } else if (get->last && !get->chunks[get->head].full) {
        get->finished = true;
        http_finish(get->req->ex);
    }
}

static void opened(struct get *get)
{
    get->opened = true;
    get->answered = true;
    if (get->err.code) {
        get->finished = true;
        files_tell_failed("file_read", str_of(get->path), get->err.msg);
        files_fail(get->req->ex, get->status, get->err.msg);
        return;
    }
    get->fill = get->chunks[0].full ? 1 : 0;
    files_tell(LOG_INFO, "file_read", str_of(get->path), get->size);
    head_send(get);
    pump(get);
}

static void job_done(uv_work_t *work, int status)
{
    struct get *get = container_of(work, struct get, work);

    assert(status == 0); /* nobody cancels */
    get->busy = false;
    if (get->gone) {
        get_free(get);
    } else if (!get->opened) {
        opened(get);
    } else if (get->error < 0) {
        get->finished = true;
        http_abort(get->req->ex, get->error);
    } else {
        get->chunks[get->fill].full = get->chunks[get->fill].len > 0;
        get->fill ^= get->chunks[get->fill].full;
        pump(get);
    }
}

static void on_credit(void *ctx)
{
    struct get *get = ctx;

    if (get->answered) {
        pump(get);
    }
}

static void on_end(void *ctx, int error)
{
    struct get *get = ctx;

    (void)error;
    get->gone = true;
    if (!get->busy) {
        get_free(get);
    }
}

/* A copy of the header; at == NULL when it is absent or too long. */
static struct str header_copy(const struct http_request *http, const char *name,
                              char out[CONDITION_BYTES_MAX])
{
    struct str value = http_header_get(http, name);

    return value.at && str_copy(out, CONDITION_BYTES_MAX, value) ? str_of(out)
                                                                 : (struct str){NULL, 0};
}

static void asked_copy(const struct http_request *http, struct asked *asked)
{
    asked->has_range = header_copy(http, "range", asked->range).at;
    (void)header_copy(http, "accept-encoding", asked->accept);
    asked->conditions = (struct conditions){
        .if_match = header_copy(http, "if-match", asked->text[0]),
        .if_none_match = header_copy(http, "if-none-match", asked->text[1]),
        .if_range = header_copy(http, "if-range", asked->text[2]),
        .if_modified_since = header_copy(http, "if-modified-since", asked->text[3]),
        .if_unmodified_since = header_copy(http, "if-unmodified-since", asked->text[4]),
    };
}

void files_get(struct files_request *req)
{
    static const struct http_handler handler = {.on_credit = on_credit, .on_end = on_end};
    struct get *get = xnew(struct get);
    struct err err;

    if (path_resolve(req->workdir, &req->user, str_of(req->path), get->path, &err) < 0) {
        (void)err_wrap(&err, "error expanding and resolving path");
        files_refuse(req->ex, 400, err.msg);
        files_request_free(req);
        free(get);
        return;
    }
    get->req = req;
    get->fd = -1;
    get->chunks[0] = get->chunks[1] = (struct chunk){.pipe = {-1, -1}};
    asked_copy(http_request(req->ex), &get->asked);
    http_accept(req->ex, &handler, get);
    job_start(get);
}
