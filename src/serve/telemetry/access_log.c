#include "serve/telemetry/access_log.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "lib/base/alloc.h"
#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/json.h"
#include "lib/base/log.h"
#include "lib/guard/formats.h"

enum { SEGMENT_BYTES_MAX = 40, REAL_DIGITS = 8 };

struct access_log {
    char *path; /* NULL: standard output */
    uv_thread_t writer;
    uint64_t lines; /* the loop's */

    uv_mutex_t lock; /* guards the four below */
    uv_cond_t work;
    struct buf waiting;
    uint64_t dropped;
    bool closing;

    /* used by the writer alone */
    int fd;
    int64_t looked_ms;
    bool failing;
};

/* ---- a line ---- */

static void found(void *ctx, struct str place, struct str key, const char *kind)
{
    bool *secret = ctx;

    (void)place, (void)key, (void)kind;
    *secret = true;
}

/* Ids are short; tokens, signatures and hashes are not. */
static bool is_secret(struct str segment)
{
    bool secret = segment.len > SEGMENT_BYTES_MAX;

    if (!secret) {
        guard_formats_each(segment, found, &secret);
    }
    return secret;
}

void access_log_path(struct str path, char out[ACCESS_LOG_TEXT_BYTES])
{
    struct str segment;
    size_t n = 0;

    while (str_split(&path, '/', &segment)) {
        struct str shown = is_secret(segment) ? STR("*") : segment;

        if (n + shown.len + 2 >= ACCESS_LOG_TEXT_BYTES) {
            break;
        }
        memcpy(out + n, shown.at ? shown.at : "", shown.len);
        n += shown.len;
        out[n++] = '/';
    }
    out[n > 0 ? n - 1 : 0] = '\0'; /* without the '/' behind the last */
}

static void set_text(json_t *line, const char *name, const char *text)
{
    if (text && text[0]) {
        (void)json_object_set_new(line, name, json_sentence(text));
    }
}

static void set_str(json_t *line, const char *name, struct str text)
{
    char copy[ACCESS_LOG_TEXT_BYTES];

    text.len = text.len < sizeof(copy) - 1 ? text.len : sizeof(copy) - 1;
    if (text.len > 0 && str_copy(copy, sizeof(copy), text)) {
        set_text(line, name, copy);
    }
}

static void set_int(json_t *line, const char *name, int64_t number)
{
    (void)json_object_set_new(line, name, json_integer(number));
}

static void set_note(json_t *line, const struct http_note *note)
{
    static const struct trace_place none;
    char trace[TRACE_ID_HEX];

    set_text(line, "route", note->route);
    set_text(line, "team", note->team);
    set_text(line, "key", note->key);
    set_text(line, "sandbox", note->sandbox);
    if (note->port > 0) {
        set_int(line, "port", note->port);
    }
    if (memcmp(note->trace.trace, none.trace, sizeof(none.trace)) != 0) {
        trace_id_hex(&note->trace, trace);
        set_text(line, "traceId", trace);
    }
}

char *access_log_line(const struct access_entry *entry)
{
    const struct http_request *req = entry->req;
    char stamp[CLOCK_STAMP_BYTES], path[ACCESS_LOG_TEXT_BYTES];
    json_t *line = json_object();
    char *whole = NULL;

    clock_stamp(entry->begun_ms, stamp);
    access_log_path(req->path, path);
    set_text(line, "time", stamp);
    set_str(line, "method", req->method);
    set_text(line, "path", path);
    set_note(line, entry->note);
    set_int(line, "status", entry->carried->status);
    set_int(line, "bytesIn", (int64_t)entry->carried->bytes_in);
    set_int(line, "bytesOut", (int64_t)entry->carried->bytes_out);
    (void)json_object_set_new(line, "durationMs", json_real((double)entry->took_us / 1000));
    set_str(line, "source", req->peer);
    set_str(line, "userAgent", http_header_get(req, "user-agent"));
    if (entry->carried->error < 0) {
        set_text(line, "error", strerror(-entry->carried->error));
    }
    char *text = json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(REAL_DIGITS));
    json_decref(line);
    if (!text || asprintf(&whole, "%s\n", text) < 0) {
        abort(); /* made of texts that were repaired */
    }
    free(text);
    return whole;
}

void access_log_put(struct access_log *log, const struct access_entry *entry)
{
    char *line = access_log_line(entry);

    uv_mutex_lock(&log->lock);
    if (buf_append(&log->waiting, line, strlen(line)) < 0) {
        log->dropped++;
    } else {
        log->lines++;
    }
    uv_cond_signal(&log->work);
    uv_mutex_unlock(&log->lock);
    free(line);
}

/* ---- the writer's thread ---- */

static int file_open(const char *path)
{
    return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0640);
}

/* The name may lead to another file since it was last looked at. */
static void file_look(struct access_log *log)
{
    struct stat named, ours;
    int64_t now_ms = clock_mono_ms();

    if (!log->path || (log->fd >= 0 && now_ms - log->looked_ms < ACCESS_LOG_LOOK_MS)) {
        return;
    }
    log->looked_ms = now_ms;
    if (log->fd >= 0 && stat(log->path, &named) == 0 && fstat(log->fd, &ours) == 0 &&
        named.st_ino == ours.st_ino && named.st_dev == ours.st_dev) {
        return;
    }
    int fd = file_open(log->path);
    if (fd >= 0) {
        fd_closep(&log->fd);
        log->fd = fd;
    }
}

/* How much of it the disk has taken. */
static size_t file_write(struct access_log *log, const char *text, size_t len)
{
    size_t done = 0;

    file_look(log);
    while (done < len) {
        ssize_t n = log->fd >= 0 ? write(log->fd, text + done, len - done) : -1;

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            break;
        }
        done += (size_t)n;
    }
    return done;
}

/* `rest` was not written. */
static void tell(struct access_log *log, struct str rest)
{
    bool written = rest.len == 0;
    uint64_t lost = 0;

    for (size_t i = 0; i < rest.len; i++) {
        lost += rest.at[i] == '\n';
    }
    uv_mutex_lock(&log->lock);
    log->dropped += lost;
    uv_mutex_unlock(&log->lock);
    if (!written && !log->failing) {
        log_warn("access log: %s cannot be written: %s", log->path ? log->path : "standard output",
                 strerror(errno));
    }
    log->failing = !written;
}

static void writer_main(void *arg)
{
    struct access_log *log = arg;
    struct buf batch;

    buf_init(&batch, ACCESS_LOG_BUFFER_BYTES);
    for (;;) {
        uv_mutex_lock(&log->lock);
        while (buf_len(&log->waiting) == 0 && !log->closing) {
            uv_cond_wait(&log->work, &log->lock);
        }
        struct buf full = log->waiting;
        log->waiting = batch;
        uv_mutex_unlock(&log->lock);
        if (buf_len(&full) == 0) {
            buf_fini(&full);
            return; /* closing, and all is written */
        }
        size_t done = file_write(log, buf_at(&full), buf_len(&full));
        tell(log, str_skip(buf_str(&full), done));
        buf_clear(&full);
        batch = full;
    }
}

/* ---- the whole ---- */

int access_log_open(const char *path, struct access_log **out, struct err *err)
{
    bool is_file = strcmp(path, "-") != 0;
    scoped_fd fd = is_file ? file_open(path) : fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);

    if (fd < 0) {
        return err_sys(err, "open the access log %s", path);
    }
    struct access_log *log = xnew(struct access_log);
    log->path = is_file ? xstrdup(path) : NULL;
    log->fd = move_fd(&fd);
    buf_init(&log->waiting, ACCESS_LOG_BUFFER_BYTES);
    if (uv_mutex_init(&log->lock) < 0 || uv_cond_init(&log->work) < 0 ||
        uv_thread_create(&log->writer, writer_main, log) < 0) {
        abort();
    }
    *out = log;
    return 0;
}

void access_log_close(struct access_log *log)
{
    if (!log) {
        return;
    }
    uv_mutex_lock(&log->lock);
    log->closing = true;
    uv_cond_signal(&log->work);
    uv_mutex_unlock(&log->lock);
    (void)uv_thread_join(&log->writer);
    uv_cond_destroy(&log->work);
    uv_mutex_destroy(&log->lock);
    buf_fini(&log->waiting);
    fd_closep(&log->fd);
    free(log->path);
    free(log);
}

uint64_t access_log_lines(const struct access_log *log)
{
    return log ? log->lines : 0;
}

uint64_t access_log_dropped(struct access_log *log)
{
    uint64_t dropped = 0;

    if (log) {
        uv_mutex_lock(&log->lock);
        dropped = log->dropped;
        uv_mutex_unlock(&log->lock);
    }
    return dropped;
}
